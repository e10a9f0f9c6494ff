"""What an operator does to one ledger works on a folder of shards, or says what to do instead."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3

import pytest

from onlinecal.cli.stream.shards.folder import shards_of
from onlinecal.engine import Engine
from tests.cli.stream.events import late, stream
from tests.engine.scripts import quick_folder


@pytest.fixture(scope="module")
def fed():
    """A folder of three shards, and one ledger, that took the same events."""
    with quick_folder() as place:
        (place / "events.jsonl").write_bytes(late(300, keys=12))
        both = ["--workers", 3, "--ledger", place / "shards"], ["--ledger", place / "one.db"]
        for options in both:
            assert stream(*options, "--input", place / "events.jsonl").exit_code == 0
        yield place


def test_a_report_of_the_folder_is_that_of_one_ledger(fed):
    both = [
        json.loads(stream("report", "--ledger", fed / of, "--json", "--sort", "name").stdout)
        for of in ("shards", "one.db")
    ]
    for report in both:
        for field in ("path", "oldest"):
            del report[field]
        del report["total"]["oldest"]
        for key in report["keys"]:
            key["summary"].pop("oldest", None)
    assert rounded(both[0]) == rounded(both[1])


def rounded(found):
    """Sums of floats in another order differ in their last digits."""
    if isinstance(found, float):
        return float(f"{found:.9g}")
    if isinstance(found, list):
        return [rounded(one) for one in found]
    return {name: rounded(one) for name, one in found.items()} if isinstance(found, dict) else found


def test_verbs_take_the_folder_or_say_what_to_do(fed, folder):
    place = fed / "shards"
    assert "580 events of 12 keys replayed, all as written" in stream("check", "--ledger", place).stdout
    told = json.loads(stream("doctor", "--ledger", place, "--json").stdout)
    assert [shard["integrity"] for shard in told["shards"]] == ["ok"] * 3
    refused = stream("serve", "--ledger", place)
    assert refused.exit_code == 2
    assert "is a folder of 3 shards: HTTP has one ledger. Run a server for each" in refused.stderr


def test_another_number_of_workers_is_refused_and_nothing_changes(fed):
    before = sorted(os.listdir(fed / "shards"))
    refused = stream("--ledger", fed / "shards", "--workers", 2, "--input", fed / "events.jsonl")
    assert refused.exit_code == 2
    assert "has 3 shards: --workers must be 3, or left out, got 2" in refused.stderr
    assert "play the same input into a new folder" in refused.stderr
    assert sorted(os.listdir(fed / "shards")) == before


def test_a_ledger_and_a_folder_of_other_things_are_no_folder_of_shards(fed, folder):
    options = ["--workers", 2, "--input", fed / "events.jsonl"]
    (folder / "letter").touch()
    for place, what in (
        (fed / "one.db", "is one ledger, for one process"),
        (folder, "is a folder without shards"),
    ):
        refused = stream("--ledger", place, *options)
        assert refused.exit_code == 2
        assert what in refused.stderr


def test_a_folder_is_archived_shard_by_shard_and_its_archives_are_read_like_it(fed, folder):
    place, older = folder / "l", folder / "older"
    shutil.copytree(fed / "shards", place)
    verb = ["archive", "--ledger", place, "--keep", 60]
    told = json.loads(stream(*verb, "--into", older, "--json").stdout)
    moved = sum(shard["events"] for shard in told["shards"])
    assert moved == 580 - 3 * 60
    # given again it comes to the same
    assert json.loads(stream(*verb, "--into", older, "--json").stdout) == told
    assert f"{moved} events" in stream("check", "--ledger", older).stdout
    assert "580 events" in stream("check", "--ledger", place, "--archive", older).stdout
    tables = (stream("export", "--ledger", one, "--into", folder / "t") for one in (older, place))
    assert [table.exit_code for table in tables] == [0, 0]
    whole, first, rest = (json.loads(stream("report", "--ledger", one, "--json").stdout)
                          for one in (fed / "shards", older, place))  # fmt: skip
    assert first["events"] == moved
    assert rest["total"]["certificate"] == pytest.approx(whole["total"]["certificate"])
    refused = stream("--ledger", older, "--workers", 3, "--input", fed / "events.jsonl")
    assert refused.exit_code == 2
    assert "is a folder of archives: they are only read" in refused.stderr
    # nothing is older now, and no folder is left behind
    nothing = stream(*verb, "--into", folder / "none")
    assert nothing.stdout.count("there is nothing older to move") == 3
    assert not (folder / "none").exists()


def test_archives_of_a_folder_go_into_a_new_folder_and_belong_to_it(fed, folder):
    (folder / "full").mkdir()
    (folder / "full" / "notes").write_text("mine")
    for into, why in (
        (folder / "full", "there is something else already"),
        (fed / "shards", "another folder"),
    ):
        refused = stream("archive", "--ledger", fed / "shards", "--keep", 1, "--into", into)
        assert refused.exit_code == 2
        assert why in refused.stderr
    assert [one.name for one in (folder / "full").iterdir()] == ["notes"]
    refused = stream("check", "--ledger", fed / "shards", "--archive", fed / "one.db")
    assert refused.exit_code == 2
    assert "must be a folder of archives" in refused.stderr


def test_archives_are_made_beside_a_running_engine_and_moved_when_it_has_stopped(fed, folder):
    place, older = folder / "l", folder / "older"
    shutil.copytree(fed / "shards", place)
    verb = ["archive", "--ledger", place, "--keep", 60, "--into", older]
    with Engine(place / "0.db"):
        refused = stream(*verb)
    assert refused.exit_code == 2
    assert shards_of(older) == [older / f"{i}.db" for i in range(3)]
    assert stream(*verb).exit_code == 0
    assert "all as written" in stream("check", "--ledger", place, "--archive", older).stdout


def test_a_damaged_folder_is_repaired_into_a_new_one(fed, folder):
    place, saved = folder / "l", folder / "saved"
    shutil.copytree(fed / "shards", place)
    refused = stream("repair", "--ledger", place, "--into", place)
    assert refused.exit_code == 2
    assert "there is something already" in refused.stderr
    [(key,)] = sqlite3.connect(place / "1.db").execute("SELECT min(query) FROM closings").fetchall()
    with sqlite3.connect(place / "1.db") as damaged:
        damaged.execute("DELETE FROM queries WHERE number = ?", (key,))
    answer = stream("repair", "--ledger", place, "--into", saved)
    assert answer.exit_code == 1
    assert "lost: 1.db: " in answer.stdout
    assert "all as written" in stream("check", "--ledger", saved).stdout
    # the other shards have all, and events go on
    again = stream("--ledger", saved, "--input", fed / "events.jsonl", "--quiet")
    assert (again.exit_code, again.stdout.count("\n")) == (0, 580)
    (place / "2.db").unlink()
    refused = stream("repair", "--ledger", place, "--into", folder / "other")
    assert refused.exit_code == 2
    assert "2.db: there is no such ledger" in refused.stderr
    assert not (folder / "other").exists()


def test_a_damaged_shard_is_found_and_named(fed, folder):
    shutil.copytree(fed / "shards", folder / "l")
    with open(folder / "l" / "1.db", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    answer = stream("doctor", "--ledger", folder / "l")
    assert answer.exit_code == 1
    assert "WRONG: 1.db: " in answer.stdout


def test_the_table_of_a_folder_has_the_rows_of_all_shards(fed, folder):
    polars = pytest.importorskip("polars")
    tables = []
    for ledger in ("shards", "one.db"):
        assert stream("export", "--ledger", fed / ledger, "--into", folder / "t").exit_code == 0
        table = polars.read_parquet(folder / "t")
        tables.append(table.drop("asked_number", "settled_number").sort("id"))
    assert tables[0].equals(tables[1])
