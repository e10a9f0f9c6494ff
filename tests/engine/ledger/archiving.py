"""Ledgers with archives for tests, and what has to hold of them."""

from __future__ import annotations

import contextlib
import random
import sqlite3

from msgspec.structs import replace

from onlinecal.engine import Engine, archive_ledger, check_ledger
from tests.engine.fault_tools import LINES
from tests.engine.scripts import CONFIG, batches, report_of, tables_of

HALF = len(LINES) // 2
SMALL = {"hot_keys": 5, "window": 100}
PARTS = ("one.archive", "two.archive")


def feed(path, lines, seed=0):
    with Engine(path, CONFIG, **SMALL) as engine:
        return b"".join(engine.handle_lines(data) for data in batches(random.Random(seed), lines, 60))


def assert_whole(path, archives, sound, since=0):
    """A ledger and its archives hold what a ledger holds from which nothing was moved, and all is proven.

    The picture of reliability is that of the rounds since event `since`.
    """
    assert check_ledger(path, archives=archives).problems == []
    parts, whole = [tables_of(one) for one in (*archives, path)], tables_of(sound)
    for table, rows in whole.items():
        assert sorted({row for part in parts for row in part[table]}) == rows
    # what was moved is nowhere twice, but for queries that went on waiting
    closings = [row for part in parts for row in part["closings"]]
    assert len(closings) == len(whole["closings"])
    found, expected = report_of(path), report_of(sound)
    if since:
        assert found.since == since
        expected = replace(expected, since=since, forecasts=found.forecasts, hints=found.hints)
    assert found == expected


def make_moved(folder):
    path, archives = folder / "moved.db", [folder / name for name in PARTS]
    feed(path, LINES[:HALF])
    assert archive_ledger(path, archives[0], keep=100).events > 100
    feed(path, LINES[HALF:], 1)
    assert archive_ledger(path, archives[1], keep=50).events > 100


def changed(path, sql):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(sql).rowcount > 0
