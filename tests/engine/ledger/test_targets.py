"""What is made of a ledger takes the place of no other file, nor of the ledger and what belongs to it."""

import errno
import os
import shutil

import polars as pl
import pytest

from onlinecal.engine.ledger.archive import archive_ledger
from onlinecal.engine.ledger.check import repair_ledger
from onlinecal.engine.ledger.file import LedgerError, new_file
from onlinecal.engine.ledger.report import export_ledger
from tests import commands

MAKERS = {
    "export": export_ledger,
    "archive": lambda path, into: archive_ledger(path, into, keep=40),
    "repair": repair_ledger,
}


@pytest.fixture
def ledger(folder, sound):
    return shutil.copyfile(sound, folder / "rain.db")


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


def test_a_ledger_is_not_written_over_by_what_is_made_of_it(folder, ledger, make):
    before = ledger.read_bytes()
    (folder / "link.db").symlink_to(ledger)
    for path, into in [(ledger, ledger), (ledger, folder / "link.db"), (folder / "link.db", ledger)]:
        with pytest.raises(ValueError, match="itself; name another file"):
            make(path, into)
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal", "-lock"])
def test_names_that_belong_to_a_ledger_are_refused(folder, ledger, make, end):
    with pytest.raises(ValueError, match="belong to a ledger; name another"):
        make(ledger, folder / f"other.db{end}")
    assert not (folder / f"other.db{end}").exists()


def test_other_files_stay(folder, ledger, make):
    other = folder / "old"
    other.write_text("mine")
    with pytest.raises(ValueError, match="there is a file already"):
        make(ledger, other)
    with pytest.raises(ValueError, match="is a folder"):
        make(ledger, folder)
    with pytest.raises(LedgerError, match="cannot be written here"):
        make(ledger, folder / "nowhere" / "new")
    beside = [folder / f"new.{end}" for end in ("part", "db.part", "db-part")]
    for file in beside:
        file.write_text("mine")
    make(ledger, folder / "new")
    assert {file.read_text() for file in [other, *beside]} == {"mine"}


def test_what_a_killed_call_left_is_gone_and_that_of_others_stays(folder, ledger):
    gone, mine = folder / ".new.2147483000-abcd_123", folder / f".new.{os.getpid()}-abcd_123"
    for left in (gone, mine):
        left.mkdir()
    repair_ledger(ledger, folder / "new")
    assert [gone.exists(), mine.exists()] == [False, True]


def test_the_verb_exports_over_a_file_only_if_told_to(folder, ledger):
    into = folder / "table.parquet"
    into.write_text("mine")
    named = ["stream", "export", "--ledger", ledger, "--into", into]
    assert "there is a file already" in commands.refused(*named)
    assert into.read_text() == "mine"
    commands.run(*named, "--force")
    assert pl.read_parquet(into).height
    assert "itself; name another" in commands.refused(
        "stream", "export", "--ledger", ledger, "--into", ledger, "--force"
    )


def test_results_are_not_written_over_what_they_are_of(tmp_path):
    file = tmp_path / "recalibrated.parquet"
    pl.DataFrame({"forecast": [0.1, 0.9] * 50, "outcome": [0, 1] * 50}).write_parquet(file)
    before = file.read_bytes()
    assert "written over" in commands.refused("recalibrate", file, "--out", tmp_path)
    assert file.read_bytes() == before


@pytest.mark.parametrize("linked", [True, False], ids=["links", "no links"])
def test_who_is_second_to_make_a_file_is_refused(folder, monkeypatch, linked):
    new, text = folder / "new", ["first", "second"]

    def make():
        with new_file(new) as part:
            part.write_text(text.pop())
            if text:
                make()

    def refused(*_):
        raise PermissionError(errno.EPERM, "no links here")

    if not linked:
        monkeypatch.setattr(os, "link", refused)
    with pytest.raises(ValueError, match="made meanwhile"):
        make()
    assert new.read_text() == "first"
    assert list(folder.iterdir()) == [new]
