"""What is made of a ledger takes the place of no other file; what is said and left if the disk is full."""

import errno
import os
import random
import re
import resource
from fnmatch import fnmatchcase
from unittest.mock import Mock

import polars as pl
import pytest

from onlinecal.cli import combine, measure
from onlinecal.engine import (
    Engine,
    LedgerError,
    Outcome,
    Query,
    archive_ledger,
    export_ledger,
    repair_ledger,
)
from onlinecal.engine.ledger.file import new_file
from onlinecal.simulations.cli import evaluate
from tests import commands
from tests.engine.fault_tools import LINES, assert_refused, command, raises_for
from tests.engine.scripts import CONFIG, assert_same_ledgers, batches, tables_of

MAKERS = {
    "export": export_ledger,
    "archive": lambda path, into: archive_ledger(path, into, keep=40),
    "repair": repair_ledger,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_ledger_what_belongs_to_one_and_other_files_stay(folder, ledger, make):
    link, other, before = folder / "link.db", folder / "old", ledger.read_bytes()
    link.symlink_to(ledger)
    other.write_text("mine")
    for path, into, words in (
        (ledger, ledger, "itself; name another file"),
        (ledger, link, "itself; name another file"),
        (link, ledger, "itself; name another file"),
        (ledger, other, "exists"),
        (ledger, folder, "is a folder"),
        (ledger, folder / "nowhere" / "new", "cannot be written here: .*; name a file in a folder that is"),
        (ledger, folder / "other.db-wal", "are for the ledger's own files; choose another"),
        (ledger, folder / "other.db-shm", "are for the ledger's own files; choose another"),
        (ledger, folder / "other.db-journal", "are for the ledger's own files; choose another"),
        (ledger, folder / "other.db-lock", "are for the ledger's own files; choose another"),
    ):
        with pytest.raises((ValueError, LedgerError), match=words):
            make(path, into)
    assert not list(folder.glob("other.db*"))
    beside = [folder / f"new.{end}" for end in ("part", "db.part", "db-part")]
    for file in beside:
        file.write_text("mine")
    make(ledger, folder / "new")
    assert {file.read_text() for file in [other, *beside]} == {"mine"}
    assert make is MAKERS["archive"] or ledger.read_bytes() == before


def test_the_verb_exports_over_a_file_only_if_told_to(folder, ledger):
    into = folder / "table.parquet"
    into.write_text("mine")
    named = ["stream", "export", "--ledger", ledger, "--into"]
    assert "exists already: name a new file, or give force=True (--force)" in commands.refused(*named, into)
    assert into.read_text() == "mine"
    commands.run(*named, into, "--force")
    assert pl.read_parquet(into).height
    assert "itself; name another" in commands.refused(*named, ledger, "--force")


@pytest.mark.parametrize(
    "verb",
    [
        "recalibrate recalibrated.parquet",
        "recalibrate scoreboard.csv",
        "recalibrate reliability.csv --method boost",
        "column column.parquet",
        "combine weights.csv --forecast forecast --forecast other",
        "measure results.csv",
        "measure transport.csv",
        "evaluate distance.csv",
        "evaluate reliability-forecasts-none.csv",
        "experiment drift-splits.csv",
    ],
)
def test_results_are_not_written_over_what_they_are_of(tmp_path, verb):
    name, file, *more = verb.split()
    file = tmp_path / file
    table = pl.DataFrame({"forecast": [0.1, 0.9] * 50, "other": [0.2, 0.8] * 50, "outcome": [0, 1] * 50})
    table.write_csv(file) if file.suffix == ".csv" else table.write_parquet(file)
    before = file.read_bytes()
    assert "could overwrite the input" in commands.refused(name, file, *more, "--out", tmp_path)
    assert file.read_bytes() == before


def test_verbs_name_every_table_that_they_write(tmp_path, wide_brackets, quick_pictures):
    file = tmp_path / "rounds.csv"
    table = pl.DataFrame({"forecast": [0.1, 0.9] * 50, "other": [0.2, 0.8] * 50, "outcome": [0, 1] * 50})
    table.write_csv(file)
    for verb, options, named in (
        ("combine", ("--forecast", "forecast", "--forecast", "other"), combine.WRITTEN_TABLES),
        ("measure", ("--draws", 0), measure.WRITTEN_TABLES),
        ("evaluate", (), evaluate.WRITTEN_TABLES),
    ):
        commands.run(verb, file, *options, "--out", tmp_path / verb)
        tables = [
            path.name for ending in ("csv", "parquet") for path in (tmp_path / verb).glob(f"*.{ending}")
        ]
        assert tables
        assert [name for name in tables if not any(fnmatchcase(name, pattern) for pattern in named)] == []


@pytest.mark.parametrize("linked", [True, False], ids=["links", "no links"])
def test_who_is_second_to_make_a_file_is_refused(folder, monkeypatch, linked):
    new = folder / "new"
    if not linked:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(errno.EPERM, "no links here")))

    def make(*texts):
        with new_file(new) as part:
            part.write_text(texts[0])
            if texts[1:]:
                make(*texts[1:])

    with pytest.raises(ValueError, match="made meanwhile"):
        make("second", "first")
    assert new.read_text() == "first"
    assert list(folder.iterdir()) == [new]


def test_a_full_ledger_keeps_nothing_of_the_batch_and_goes_on_when_there_is_room(folder, sound, answers):
    path, rng, told, full = folder / "ledger.db", random.Random(1), b"", 0
    with Engine(path, CONFIG, hot_keys=5, states_behind=100) as engine:
        for data in batches(rng, LINES, 60):
            connection = engine._ledger.connection
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + rng.choice([0, 0, 1, 2])}")
            before = tables_of(path)
            for _ in range(3):
                try:
                    answer = engine.handle_lines(data)
                    break
                except LedgerError as error:
                    assert re.match(f"{path}: could not be written.*Make room", str(error))  # noqa: PT017
                    assert tables_of(path) == before
                    full += 1
            else:
                connection.execute("PRAGMA max_page_count = 1000000")
                answer = engine.handle_lines(data)
            told += answer
    assert full > len(LINES) / 45
    assert told == answers
    assert_same_ledgers(path, sound)


def test_states_that_could_not_be_written_and_restarts_that_failed_are_tried_again(
    folder, sound, answers, monkeypatch
):
    path, told = folder / "ledger.db", b""
    monkeypatch.setattr("onlinecal.engine.ledger.replay.EVENTS_READ_TOGETHER", 7)
    refuse = "CREATE TEMP TRIGGER full BEFORE INSERT ON main.states BEGIN SELECT RAISE(ABORT, ''); END"

    def failing(*changes, **more_changes):
        raise LedgerError("no room")

    with Engine(path, CONFIG, hot_keys=5, states_behind=200) as engine:
        for number, data in enumerate(batches(random.Random(3), LINES, 60)):
            with monkeypatch.context() as patched:
                patched.setattr(engine._ledger, "commit", failing)
                for _ in range(2):
                    with pytest.raises(LedgerError, match="no room"):
                        engine.handle_lines(data)
            told += engine.handle_lines(data)
            engine._ledger.connection.execute(refuse)
            with raises_for(path):
                engine.flush()
            engine._ledger.connection.execute("DROP TRIGGER full")
            if number % 2:
                engine.flush()
        engine._ledger.close()
    assert told == answers
    assert_same_ledgers(path, sound)


@pytest.mark.parametrize("verb", [["archive", "--keep", 10], ["repair"]])
def test_what_is_made_of_a_ledger_finds_no_room_and_leaves_nothing(folder, sound, verb):
    into, before = folder / "made", tables_of(sound)

    def limit():
        # room for what SQLite keeps beside a ledger that is read
        resource.setrlimit(resource.RLIMIT_FSIZE, (33_000, 33_000))

    found = command(folder, "stream", *verb, "--ledger", sound, "--into", into, before=limit)
    assert_refused(found, into)
    assert not list(folder.glob("*made*"))
    assert tables_of(sound) == before


def test_an_export_that_finds_no_room_leaves_nothing(folder, sound, monkeypatch):
    def full(frame, file):
        file.write_bytes(b"PAR1")
        raise pl.exceptions.ComputeError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with raises_for(folder / "made", "No space left"):
        export_ledger(sound, folder / "made")
    assert not list(folder.glob("*made*"))


def test_what_a_killed_call_left_is_gone_and_that_of_others_stays(folder, ledger):
    gone, mine = folder / ".new.2147483000-abcd_123", folder / f".new.{os.getpid()}-abcd_123"
    for left in (gone, mine):
        left.mkdir()
    repair_ledger(ledger, folder / "new")
    assert [gone.exists(), mine.exists()] == [False, True]


def test_an_export_is_as_of_its_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr("onlinecal.engine.ledger.report.EXPORTED_TOGETHER", 1)
    with Engine(tmp_path / "ledger.db") as engine:
        engine.handle([Query("a", "k"), Query("b", "k"), Outcome("a", 1)])

        def meanwhile(done, last):
            if done == 1:
                engine.handle([Outcome("b", 0), Query("c", "k")])

        assert export_ledger(tmp_path / "ledger.db", tmp_path / "table", progress=meanwhile) == 2
    found = pl.read_parquet(tmp_path / "table")
    assert found.select("id", "status").rows() == [("a", "settled"), ("b", "open")]
