"""What the tables of a ledger refuse, and what its checksums tell."""

import contextlib
import random
import sqlite3

import pytest

from onlinecal.engine import Engine
from onlinecal.engine.ledger.ledger import LOG, Ledger
from onlinecal.engine.ledger.schema import Changes, checksums_of, written_checksums
from tests.engine.fault_tools import LINES, changed, raises_for
from tests.engine.scripts import CONFIG, assert_same_ledgers, assert_sound, batches, tables_of


def test_a_second_closing_of_a_query_is_refused_by_sqlite(ledger):
    before = tables_of(ledger)
    closed = before["closings"][0][1]
    with contextlib.closing(Ledger(ledger)) as open_ledger:
        last = open_ledger.last_numbers()
        rows = [(last[0] + 1, closed, 1, None)]
        with raises_for(ledger, "UNIQUE constraint failed: closings.query"):
            open_ledger.commit(Changes((), (), rows, (), last[0], (), last))
    assert tables_of(ledger) == before
    assert_sound(ledger)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE queries SET time = 'noon'",
        "UPDATE states SET state = 'text'",
        "UPDATE closings SET query = 'q7'",
        "UPDATE queries SET key = NULL",
        "UPDATE closings SET query = 1",
    ],
)
def test_what_cannot_be_in_a_column_is_refused_by_sqlite(ledger, statement):
    with pytest.raises(sqlite3.IntegrityError):
        changed(ledger, statement)


@pytest.mark.parametrize("most", [1, 60])
@pytest.mark.parametrize("window", [1, 40, 100_000])
def test_checksums_are_those_of_the_rows_however_they_came(folder, sound, most, window):
    path = folder / "ledger.db"
    with Engine(path, CONFIG, window=window) as engine:
        for data in batches(random.Random(most), LINES[:300], most):
            engine.handle_lines(data)
    with Engine(path, window=window) as engine:
        engine.handle_lines(b"\n".join(LINES[300:]) + b"\n")
    with contextlib.closing(Ledger(path, read_only=True)) as ledger:
        written = written_checksums(ledger.connection)
        assert written == checksums_of(ledger.connection)
        assert (written["event"], written["key"]) == ledger.last_numbers()
    assert_same_ledgers(path, sound)


def test_the_log_behind_the_states_is_found_without_a_scan(ledger):
    with contextlib.closing(Ledger(ledger, read_only=True)) as found:
        plan = [row[3] for row in found.rows(f"EXPLAIN QUERY PLAN {LOG} ORDER BY 1 LIMIT ?", (1, 1, 10))]
    assert not [step for step in plan if step.startswith("SCAN")]
    assert sum("INTEGER PRIMARY KEY (rowid>?)" in step for step in plan) == 2
