"""One changed bit anywhere in a ledger: nothing is different, or a start or the check says what is.

Bits are changed in values, by SQLite, so that indexes go along; and in files, where they do not.
"""

import contextlib
import random
import shutil
import sqlite3
import struct
from types import SimpleNamespace

import polars as pl
import pytest

from onlinecal.engine import (
    Engine,
    LedgerError,
    Query,
    archive_ledger,
    check_ledger,
    decode_lines,
    encode_lines,
    export_ledger,
    read_report,
    repair_ledger,
)
from onlinecal.engine.ledger.schema import SUMMED
from tests.engine.fault_tools import INPUT, LINES, changed, raises_for
from tests.engine.scripts import CONFIG, assert_sound, batches, quick_folder, report_of, tables_of

TABLES = (*SUMMED, "archived", "sqlite_master")
SMALL = {"hot_keys": 5, "states_behind": 100}
PATH = "events.jsonl"
HALF = len(LINES) // 2


def feed(path, lines, seed=0):
    """Answer lines by an engine that notes how many it has answered."""
    with Engine(path, CONFIG, **SMALL) as engine:
        for done, data in enumerate(batches(random.Random(seed), lines, 60)):
            noted = [(PATH, 1000 * seed + done + 1)]
            engine.handle_and_keep(decode_lines(data), encode_lines, inputs=noted)
            if done % 2:
                engine.delivered(engine.kept()[0].number)


def closed(folder):
    """A ledger whose engine was closed."""
    feed(folder / "ledger.db", LINES)


def killed(folder):
    """A ledger whose engine was killed, so that its states are behind its log."""
    with Engine(folder / "open.db", CONFIG, hot_keys=50, states_behind=150) as engine:
        for data in batches(random.Random(1), LINES, 60):
            engine.handle_and_keep(decode_lines(data), encode_lines, inputs=[(PATH, 1)])
        with contextlib.closing(sqlite3.connect(folder / "open.db")) as connection:
            connection.execute("VACUUM INTO ?", (str(folder / "ledger.db"),))


def archived(folder):
    """A ledger from which events were moved to archives, twice."""
    for part in (0, 1):
        feed(folder / "ledger.db", LINES[part * HALF : (part + 1) * HALF], part)
        archive_ledger(folder / "ledger.db", folder / f"{part}.archive", keep=60)


class Subject:
    """A ledger to be damaged, and what is true of it."""

    def __init__(self, make, folder):
        self.folder = folder
        make(folder)
        self.path, self.archives = folder / "ledger.db", sorted(folder.glob("*.archive"))
        with quick_folder() as place:
            self.truth = verdict(self.copied(place), place)
        assert self.truth.problems == []
        self.tables = tables_of(self.path)

    def copied(self, place):
        """The path of a copy."""
        return shutil.copyfile(self.path, place / self.path.name)


@pytest.fixture(scope="module", params=[closed, killed, archived])
def subject(request):
    with quick_folder() as folder:
        yield Subject(request.param, folder)


def said(work, *given):
    """What the work comes to; or the words of a refusal, in a list."""
    try:
        return work(*given)
    except (LedgerError, ValueError) as error:
        assert "\n" not in str(error)  # noqa: PT017
        return [str(error)]


def answered(path):
    """What an engine says to all events again, to a new one of each key, and about the whole and an input."""
    with Engine(path, **SMALL) as engine:
        told = engine.handle_lines(INPUT), engine.noted(PATH), engine.inputs(), engine.kept()
        asked = [Query(f"new {key.name}", key.name) for key in read_report(path).keys]
        return *told, engine.handle(asked), engine.total(), engine.overview().early


def exported(path, into):
    export_ledger(path, into, force=True)
    return pl.read_parquet(into).rows()


def verdict(path, place):
    """What is said of a ledger, by who reads it, by a repair, and at last by an engine."""
    problems = said(lambda: check_ledger(path).problems)
    found = SimpleNamespace(problems=problems, report=said(report_of, path))
    found.table = said(exported, path, place / "table.parquet")
    found.saved = said(repair_ledger, path, place / "saved.db")
    found.answers = said(answered, path)
    return found


def assert_nothing_is_wrong_unsaid(subject, path, place):
    """The damaged ledger is what it was, or the check says that it is not.

    Whether the check says something, and whether an engine says nothing wrong.
    """
    found, truth = verdict(path, place), subject.truth
    same = [getattr(found, one) == getattr(truth, one) for one in ("report", "table", "answers")]
    assert all(same) or found.problems
    if not isinstance(found.saved, list) and not (found.saved.lost or found.saved.doubtful):
        # what a repair is sure of is what was accepted
        assert_sound(place / "saved.db")
        assert tables_of(place / "saved.db") == subject.tables or found.saved.changed
    return bool(found.problems), isinstance(found.answers, list) or found.answers == truth.answers


def changed_value(rng, value):
    """A value with one of its bits changed."""
    if value is None:
        return 0
    if isinstance(value, int):
        [number] = struct.unpack("<q", struct.pack("<Q", (value % 2**64) ^ (1 << rng.randrange(64))))
        return number
    if isinstance(value, float):
        bits = int.from_bytes(struct.pack("<d", value), "little") ^ (1 << rng.randrange(64))
        return struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def change_value(path, rng, table, column):
    """Change a bit of some value of a column; whether there is one that SQLite lets be changed."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        rows = connection.execute(f"SELECT {column}, * FROM {table}").fetchall()
        key = "name" if table == "sqlite_master" else columns_of(path, table)[0]
        place = columns_of(path, table).index(key)
        for value, *row in rng.sample(rows, min(len(rows), 5)):
            new = changed_value(rng, value) if value != "" else None
            cast = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"UPDATE {table} SET {column} = {cast} WHERE {key} = ?", (new, row[place]))
                return True
    return False


def columns_of(path, table):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(f"SELECT * FROM {table} LIMIT 1").description]


def all_columns(path):
    return [(table, column) for table in TABLES for column in columns_of(path, table)]


UNSEEN = {"queries.id", "queries.number", "closings.query", "keys.name", "archived.hash", "inputs.path"}
"""By these an engine finds rows. It takes what it does not find for new; the check says what is wrong."""


@pytest.mark.parametrize("times", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_changed_bit_in_a_value_is_harmless_or_said(subject, times):
    rng = random.Random(times)
    columns = all_columns(subject.path)
    noticed = changes = 0
    for table, column in times * columns or rng.sample(columns, 4):
        with quick_folder() as place:
            path = subject.copied(place)
            if not change_value(path, rng, table, column):
                continue
            seen, is_right = assert_nothing_is_wrong_unsaid(subject, path, place)
            noticed, changes = noticed + seen, changes + 1
            assert is_right or f"{table}.{column}" in UNSEEN
    assert noticed > 0.6 * changes


@pytest.mark.parametrize("times", [3, pytest.param(150, marks=pytest.mark.slow)])
def test_a_changed_bit_in_the_file_is_harmless_or_said(subject, times):
    rng, noticed = random.Random(times), 0
    whole = subject.path.read_bytes()
    for _ in range(times):
        with quick_folder() as place:
            path, data = place / "ledger.db", bytearray(whole)
            bit = rng.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            seen, _ = assert_nothing_is_wrong_unsaid(subject, path, place)
            noticed += seen
    assert noticed > 0.2 * times


@pytest.mark.parametrize("times", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_changed_bit_in_an_archive_is_said(times):
    with quick_folder() as folder:
        subject, rng = Subject(archived, folder), random.Random(times)
        for file in subject.archives:
            whole = file.read_bytes()
            for _ in range(times):
                data, bit = bytearray(whole), rng.randrange(8 * len(whole))
                data[bit // 8] ^= 1 << bit % 8
                file.write_bytes(data)
                [problem] = check_ledger(subject.path, archives=[file]).problems
                assert "it was changed" in problem
            file.write_bytes(whole)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE states SET number = number + 1000000 WHERE key = 1",
        "UPDATE states SET certificate = 0 WHERE key = 1",
        "UPDATE about SET value = value + 1 WHERE name = 'tail'",
        "UPDATE states SET key = 4096 WHERE key = 1",
    ],
)
def test_states_that_cannot_be_are_refused_by_a_start_a_report_and_the_check(ledger, statement):
    changed(ledger, statement)
    assert check_ledger(ledger).problems
    with raises_for(ledger, "repair"):
        read_report(ledger)
    with raises_for(ledger, "repair"), Engine(ledger, CONFIG) as engine:
        engine.total()


def test_a_forecast_that_was_changed_is_not_given_out_again(ledger, folder):
    changed(ledger, "UPDATE queries SET probability = 0.123 WHERE id = 'q1'")
    before = tables_of(ledger)
    [line] = [one for one in LINES if b'"q1"' in one and b'"query"' in one][:1]
    with (
        Engine(ledger, CONFIG) as engine,
        raises_for(ledger, "queries: the row that begins with [0-9]+ is not as"),
    ):
        engine.handle_lines(line + b"\n")
    assert tables_of(ledger) == before


@pytest.mark.parametrize("archives", [False, True])
def test_a_ledger_without_events_is_repaired(ledger, folder, archives):
    path, saved = folder / "none.db", folder / "saved.db"
    if archives:
        archive_ledger(ledger, folder / "all.archive", keep=0)
        path = ledger
    else:
        Engine(path, CONFIG).close()
    found = repair_ledger(path, saved)
    assert (found.events, found.lost, found.changed, found.doubtful) == (0, [], [], [])
    assert check_ledger(saved, archives=[folder / "all.archive"] * archives).problems == []
    with Engine(path, CONFIG) as one, Engine(saved, CONFIG) as other:
        asked = [Query(f"new {i}", f"plain/{i}", 0.3) for i in range(10)]
        assert one.handle(asked) == other.handle(asked)


def test_a_repair_that_cannot_be_does_not_advise_a_repair(ledger, folder):
    for table, where in (("about", "name = 'config'"), ("checkpoints", "key = 2")):
        archive_ledger(ledger, folder / "all.archive", keep=10)
        changed(ledger, f"UPDATE {table} SET sum = sum + 1 WHERE {where}")
        with raises_for(ledger, "Restore a backup") as told:
            repair_ledger(ledger, folder / "saved.db")
        assert "stream repair" not in str(told.value)
        assert str(told.value).count("Restore a backup") == 1
        changed(ledger, f"UPDATE {table} SET sum = sum - 1 WHERE {where}")
