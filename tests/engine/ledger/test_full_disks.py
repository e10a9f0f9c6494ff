"""Disks that are full: what is said, and what is left."""

import random
import re
import resource

import polars as pl
import pytest

from onlinecal.engine import Engine, LedgerError, export_ledger
from tests.engine.fault_tools import INPUT, LINES, assert_refused, command, raises_for
from tests.engine.scripts import CONFIG, assert_same_ledgers, batches, tables_of


def test_a_full_ledger_keeps_nothing_of_the_batch_and_goes_on_when_there_is_room(folder, sound, answers):
    path, rng, told, full = folder / "ledger.db", random.Random(1), b"", 0
    with Engine(path, CONFIG, hot_keys=5, window=100) as engine:
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
    assert full > 10
    assert told == answers
    assert_same_ledgers(path, sound)


def test_states_that_could_not_be_written_and_restarts_that_failed_are_tried_again(
    folder, sound, answers, monkeypatch
):
    path, told = folder / "ledger.db", b""
    monkeypatch.setattr("onlinecal.engine.ledger.replay.CHUNK", 7)
    refuse = "CREATE TEMP TRIGGER full BEFORE INSERT ON main.states BEGIN SELECT RAISE(ABORT, ''); END"

    def failing(changes):
        raise LedgerError("no room")

    with Engine(path, CONFIG, hot_keys=5, window=200) as engine:
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


def limited(size):
    """A function that lets no file of this process grow beyond this size."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_the_command_on_a_disk_that_is_full_says_so_and_finishes_when_there_is_room(folder, sound, answers):
    path = folder / "ledger.db"
    arguments = ["stream", "--ledger", path, "--batch", "50", "--quiet"]
    assert_refused(command(folder, *arguments, source=INPUT, before=limited(2_000)), path)
    path.unlink()
    Engine(path, CONFIG).close()
    found = command(folder, *arguments, source=INPUT, before=limited(100_000))
    assert_refused(found, path)
    assert answers.startswith(found[1])
    assert command(folder, *arguments, source=INPUT) == (0, answers, "")
    assert_same_ledgers(path, sound)


@pytest.mark.parametrize("verb", [["archive", "--keep", 10], ["repair"]])
def test_what_is_made_of_a_ledger_finds_no_room_and_leaves_nothing(folder, sound, verb):
    into, before = folder / "made", tables_of(sound)
    # room for what SQLite keeps beside a ledger that is read
    limit = limited(33_000)
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
