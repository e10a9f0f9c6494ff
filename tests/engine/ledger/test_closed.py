"""Which closing a query has, wherever the array of them has got to."""

from __future__ import annotations

import contextlib
import sqlite3

import numpy as np
import pytest

from onlinecal.engine import Engine, LedgerError, Outcome, Query, check_ledger, export_ledger, read_report
from onlinecal.engine.events import Settled
from onlinecal.engine.ledger import closed
from tests.engine.fault_tools import INPUT
from tests.engine.scripts import CONFIG, assert_same_ledgers


def rows(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def upto(path):
    return rows(path, "SELECT value FROM about WHERE name = 'closed'")[0][0]


@pytest.fixture
def behind(tmp_path):
    """A ledger in which some closings are in the array and some are not, some of those two rounds late."""
    path = tmp_path / "ledger.db"
    with Engine(path, window=40) as engine:
        for i in range(60):
            engine.handle([Query(f"q{i}", f"key/{i % 3}", 0.5)])
            engine.handle([Outcome(f"q{j}", j % 2) for j in {i - 7 * (i % 2)} & set(range(60))])
    assert 0 < upto(path) < read_report(path).events
    return path


def array_of(path):
    """The array as (query, closing)."""
    found = []
    for block, data in rows(path, "SELECT block, closings FROM closed ORDER BY 1"):
        later = np.frombuffer(data, "<u4")
        assert len(later) == closed.SLOTS
        queries = [closed.SLOTS * block + i for i in np.flatnonzero(later).tolist()]
        found += [(query, query + int(later[query % closed.SLOTS])) for query in queries]
    return found


def test_the_array_has_the_closings_up_to_a_number_and_no_others(behind):
    which = f"WHERE number <= {upto(behind)} ORDER BY 1"
    assert array_of(behind) == rows(behind, f"SELECT query, number FROM closings {which}")
    assert check_ledger(behind).problems == []


@pytest.mark.parametrize("far", [closed.FAR, 5])
def test_what_is_closed_is_known_in_the_array_and_behind_it(behind, monkeypatch, far):
    monkeypatch.setattr(closed, "FAR", far)
    settled = rows(behind, "SELECT id FROM queries AS q JOIN closings ON query = q.number ORDER BY q.number")
    outcomes = [Outcome(id, int(id[1:]) % 2) for (id,) in settled]
    with Engine(behind, hot_keys=1, window=1) as engine:
        for before in (0, upto(behind)):
            # as the array is, and when all that is new is in it
            assert {type(one) for one in engine.handle(outcomes)} == {Settled}
            answers = engine.handle([Outcome(one.id, 1 - one.value) for one in outcomes])
            assert {one.reason for one in answers} == {"settled"}
            assert before == 0 or upto(behind) > before
            engine.handle([Query("last", "key/0"), Outcome("last", 1)])


@pytest.mark.parametrize(("every", "far"), [(1, closed.FAR), (30, closed.FAR), (30, 5)])
def test_the_same_input_again_is_answered_alike(tmp_path, sound, answers, monkeypatch, every, far):
    monkeypatch.setattr(closed, "EVERY", every)
    monkeypatch.setattr(closed, "FAR", far)
    path = tmp_path / "again.db"
    for _ in range(2):
        with Engine(path, CONFIG) as engine:
            assert engine.handle_lines(INPUT) == answers
    assert_same_ledgers(path, sound)


def test_an_export_has_the_closings_in_the_array_and_behind_it(behind, tmp_path):
    pl = pytest.importorskip("polars")
    export_ledger(behind, tmp_path / "table.parquet")
    found = pl.read_parquet(tmp_path / "table.parquet").filter(pl.col("status") == "settled")
    closings = rows(behind, "SELECT number FROM closings ORDER BY query")
    assert found["settled_number"].to_list() == [number for (number,) in closings]


@pytest.mark.parametrize("change", [0, 1])
def test_an_array_that_is_wrong_is_found(behind, change):
    [(data,)] = rows(behind, "SELECT closings FROM closed WHERE block = 0")
    numbers = np.frombuffer(data, "<u4").copy()
    numbers[np.flatnonzero(numbers)[3]] *= change and 2
    with contextlib.closing(sqlite3.connect(behind, isolation_level=None)) as connection:
        connection.execute("UPDATE closed SET closings = ? WHERE block = 0", (numbers.tobytes(),))
    [problem] = check_ledger(behind).problems
    assert problem.startswith("1 closings are not found by their queries")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE closed SET closings = x'00'",
        "UPDATE about SET value = 'long ago' WHERE name = 'closed'",
        "UPDATE closings SET query = 'q7' WHERE number = (SELECT max(number) FROM closings)",
    ],
)
def test_damage_is_refused_in_words(behind, damage):
    with contextlib.closing(sqlite3.connect(behind, isolation_level=None)) as connection:
        connection.execute(damage)
    with pytest.raises(LedgerError, match="stream repair"), Engine(behind, window=1) as engine:
        engine.handle([Query("new", "key/0"), Outcome("new", 1), Outcome("q3", 1)])
