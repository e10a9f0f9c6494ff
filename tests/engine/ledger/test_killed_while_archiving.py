"""Archiving that is killed anywhere: the same call finishes it, and every event is where it belongs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3

import pytest

from onlinecal.engine import archive_ledger
from tests.engine.fault_tools import LINES, in_child
from tests.engine.ledger.archiving import HALF, assert_whole, changed, feed
from tests.engine.scripts import assert_sound


def at_points(point):
    """From now on `point` is called before every statement and around every file that gets its name."""
    connect, replace = sqlite3.connect, os.replace

    def traced(*arguments, **settings):
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(lambda _: point())
        return connection

    def replaced(*names):
        point()
        replace(*names)
        point()

    sqlite3.connect, os.replace = traced, replaced


def archived_up_to(path, into, at, told):
    """Archive, but be killed at the point of that number; else tell how many there were."""
    calls = 0

    def point():
        nonlocal calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)

    at_points(point)
    archive_ledger(path, into, keep=40)
    told.write_text(str(calls))


def killed_while_archiving(folder, sound, choose):
    """Kill it at some of all points, and then let it finish."""
    begun, told, first = folder / "begun.db", folder / "points", folder / "one.archive"
    feed(begun, LINES[:HALF])
    archive_ledger(begun, first, keep=90)
    feed(begun, LINES[HALF:])
    # its writer was killed: states are behind the log
    start = "(SELECT max(number) FROM archives)"
    changed(begun, f"UPDATE about SET value = {start} WHERE name = 'tail'")
    changed(begun, "DELETE FROM states WHERE key % 2")
    with contextlib.closing(sqlite3.connect(begun, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS archive", (str(first),))
        connection.execute("INSERT INTO states SELECT * FROM archive.states WHERE key % 2")

    def run(at):
        path, into = folder / f"{at}.db", folder / f"{at}.archive"
        shutil.copyfile(begun, path)
        return path, into, in_child(lambda: archived_up_to(path, into, at, told))

    assert run(0)[2] == 0
    points = int(told.read_text())
    for at in choose(points):
        path, into, code = run(at)
        assert code == -signal.SIGKILL
        if not at % 4:
            assert_sound(path)
        archive_ledger(path, into, keep=40)
        assert_whole(path, [first, into], sound)
        assert not list(folder.glob(f".{into.name}.*"))
    return points


def test_archiving_that_is_killed_anywhere_loses_and_doubles_nothing(folder, sound):
    # the move is in the last twenty
    killed_while_archiving(
        folder, sound, lambda points: [points // 2, points - 24, *range(points - 14, points, 6)]
    )


@pytest.mark.slow
def test_archiving_that_is_killed_at_each_of_its_points(folder, sound):
    print(killed_while_archiving(folder, sound, lambda points: range(1, points + 1)), "points")
