"""Ledgers that are damaged: what is said, and what can be saved."""

from __future__ import annotations

import contextlib
import random
import sqlite3

import pytest

from onlinecal.engine import (
    Engine,
    LedgerError,
    read_report,
    repair_ledger,
)
from tests.engine.fault_tools import INPUT, assert_refused, command, left_open, looked_at, opened
from tests.engine.scripts import (
    CONFIG,
    assert_same_ledgers,
    assert_sound,
    tables_of,
)


@pytest.mark.parametrize("damage", ["cut off", "overwritten", "last page", "gone"])
def test_after_a_torn_log_of_commits_the_ledger_is_that_of_the_last_whole_commit(
    folder, sound, answers, damage
):
    path = left_open(folder)
    (main, wal), rng = ((folder / f"ledger.db{end}").read_bytes() for end in ("", "-wal")), random.Random(6)
    whole, sizes = tables_of(sound), set()
    for _ in range(1 if damage in ("gone", "last page") else 16):
        place = {"last page": len(wal) - 4120}.get(damage, rng.randrange(len(wal)))
        path.write_bytes(main)
        for end in ("-shm", "-lock", "-wal"):
            folder.joinpath(f"ledger.db{end}").unlink(missing_ok=True)
        if damage != "gone":
            torn = wal[:place] if damage != "overwritten" else wal[:place] + rng.randbytes(len(wal) - place)
            folder.joinpath("ledger.db-wal").write_bytes(torn)
        with Engine(path, CONFIG, hot_keys=5) as engine:
            kept = tables_of(path)
            for table, rows in kept.items():
                assert rows == whole[table][: len(rows)]
            sizes.add(len(kept["queries"]))
            assert engine.handle_lines(INPUT) == answers
        assert_same_ledgers(path, sound)
    assert len(sizes) > 8 or damage in ("gone", "last page")


def pages_of_nothing(data):
    """The free pages that SQLite never reads: the leaves of its list of free pages."""
    found, trunk = set(), int.from_bytes(data[32:36], "big")
    while trunk:
        page = data[(trunk - 1) * 4096 : trunk * 4096]
        numbers = [int.from_bytes(page[place : place + 4], "big") for place in range(0, 4096, 4)]
        trunk, count = numbers[:2]
        found.update(numbers[2 : 2 + count])
    return found


def test_garbage_in_any_page_is_noticed_and_what_can_be_read_is_saved(ledger, sound, folder):
    data, rng = sound.read_bytes(), random.Random(8)
    saved, nothing = 0, pages_of_nothing(data)
    for page in range(len(data) // 4096):
        bad = bytearray(data)
        bad[page * 4096 : (page + 1) * 4096] = rng.randbytes(4096)
        ledger.write_bytes(bad)
        problems = looked_at(ledger)
        assert problems or page + 1 in nothing
        with contextlib.suppress(LedgerError, ValueError):
            read_report(ledger)
        into = folder / f"{page}.db"
        try:
            found = repair_ledger(ledger, into)
        except LedgerError as error:
            assert str(ledger) in str(error)  # noqa: PT017
            assert not into.exists()
            continue
        assert_sound(into)
        assert found.events == sum(len(tables_of(into)[table]) for table in ("queries", "closings"))
        if not found.lost and not found.changed:
            assert_same_ledgers(into, sound)
            saved += 1
        assert ledger.read_bytes() == bad
        opened(ledger)
    assert saved > 10


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_flipped_bits_never_bring_a_crash(ledger, sound, folder, seed):
    data, rng = sound.read_bytes(), random.Random(seed)
    for round in range(60):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 1, 3, 20])):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        ledger.write_bytes(bad)
        looked_at(ledger)
        with contextlib.suppress(LedgerError, ValueError):
            read_report(ledger)
        with contextlib.suppress(LedgerError):
            repair_ledger(ledger, folder / f"{round}.db")
        opened(ledger)


def pages_of(path, name):
    """The pages of a table or an index, by their places in the file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        try:
            rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,)).fetchall()
        except sqlite3.OperationalError:
            root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
            rows = root.fetchall()
    return [page - 1 for (page,) in rows]


@pytest.mark.parametrize("name", ["states", "sqlite_autoindex_queries_1", "sqlite_autoindex_closings_1"])
def test_damage_to_what_follows_from_the_log_costs_nothing(ledger, sound, folder, name):
    bad = bytearray(sound.read_bytes())
    for page in pages_of(sound, name):
        bad[page * 4096 : page * 4096 + 2048] = bytes(2048)
    ledger.write_bytes(bad)
    assert looked_at(ledger)
    found = repair_ledger(ledger, folder / "saved.db")
    assert (found.lost, found.changed) == ([], [])
    assert_same_ledgers(folder / "saved.db", sound)


def test_damage_to_queries_costs_those_queries_and_says_which(ledger, sound, folder):
    bad = bytearray(sound.read_bytes())
    page = pages_of(sound, "queries")[-1]
    bad[page * 4096 : (page + 1) * 4096] = bytes(4096)
    ledger.write_bytes(bad)
    code, told, said = command(folder, "stream", "repair", "--ledger", ledger, "--into", folder / "new.db")
    assert (code, said) == (1, "")
    assert b"lost: queries: " in told
    assert_sound(folder / "new.db")
    kept = {row[1] for row in tables_of(folder / "new.db")["queries"]}
    assert kept < {row[1] for row in tables_of(sound)["queries"]}
    assert len(kept) > 200


@pytest.mark.parametrize("size", [99, 4095, 4096, 5000, 20_000, -4096])
def test_a_ledger_that_was_cut_off_is_refused(ledger, folder, size):
    data = ledger.read_bytes()
    ledger.write_bytes(data[:size])
    assert looked_at(ledger)
    assert_refused(command(folder, "stream", "report", "--ledger", ledger), ledger)
    assert not isinstance(opened(ledger), bytes)
    with contextlib.suppress(LedgerError):
        repair_ledger(ledger, folder / "saved.db")
        assert_sound(folder / "saved.db")
    ledger.write_bytes(data)
    assert isinstance(opened(ledger), bytes)
