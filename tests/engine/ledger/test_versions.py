"""Ledgers of other versions: brought up to date, or left alone."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3

import pytest

from onlinecal.engine import Engine, Outcome, Query, check_ledger, read_report
from onlinecal.engine.ledger import schema
from tests.engine.fault_tools import in_child, opened, raises_for
from tests.engine.scripts import (
    assert_sound,
    tables_of,
    to_version_5,
)


def make_older(path, monkeypatch, migration):
    """Pretend that this program is one version ahead of the ledger."""
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setitem(schema.MIGRATIONS, schema.VERSION - 1, migration)


def test_an_older_ledger_is_brought_up_to_date(ledger, sound, answers, monkeypatch):
    tables = tables_of(sound)
    make_older(ledger, monkeypatch, lambda connection: connection.execute("CREATE TABLE new (x)"))
    with raises_for(ledger, "older"):
        read_report(ledger)
    assert opened(ledger) == answers
    assert opened(ledger) == answers
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert connection.execute("SELECT count(*) FROM new").fetchone() == (0,)
    assert tables_of(ledger) == tables
    assert_sound(ledger)


def test_what_version_4_has_of_watching_keys_is_in_their_states(tmp_path):
    path = tmp_path / "ledger.db"
    with Engine(path) as engine:
        engine.handle([Query(f"{i}", f"key/{i % 3}", hint=0.5) for i in range(30)])
        engine.handle([Outcome(f"{i}", i % 2) for i in range(30)])
    before = read_report(path)
    assert [one.summary.watched.scores.rounds for one in before.keys] == [10, 10, 10]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE watched (key INTEGER PRIMARY KEY, number INTEGER, found BLOB)")
        connection.execute("INSERT INTO watched VALUES (1, 60, x'00')")
        to_version_5(connection)
        connection.execute("PRAGMA user_version = 4")
        connection.commit()
    assert read_report(path) == before
    assert check_ledger(path).problems == []
    Engine(path).close()
    assert read_report(path) == before
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    assert "watched" not in tables


def failing(connection):
    connection.execute("DELETE FROM states")
    connection.execute("DROP TABLE inputs")
    connection.execute("SELECT * FROM nowhere")


def breaking_off(connection):
    connection.execute("DROP TABLE inputs")
    raise ValueError("this ledger cannot be understood")


@pytest.mark.parametrize("migration", [failing, breaking_off])
def test_a_migration_that_fails_leaves_the_older_ledger_as_it_was(ledger, answers, monkeypatch, migration):
    with monkeypatch.context() as newer:
        make_older(ledger, newer, migration)
        for _ in range(2):
            with raises_for(ledger):
                Engine(ledger)
    assert opened(ledger) == answers
    assert_sound(ledger)


def test_a_migration_that_is_killed_leaves_the_older_ledger_as_it_was(ledger, answers, monkeypatch):
    def killed(connection):
        connection.execute("DELETE FROM states")
        os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as newer:
        make_older(ledger, newer, killed)
        assert in_child(lambda: opened(ledger)) == -signal.SIGKILL
    assert opened(ledger) == answers
    assert_sound(ledger)


def test_a_version_without_a_way_to_this_one_is_refused(ledger, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with raises_for(ledger, "version"):
        Engine(ledger)
