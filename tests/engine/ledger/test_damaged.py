"""Files that are damaged, or no ledgers: what is said, what can be saved, and that they stay as they are."""

import contextlib
import random
import re
import sqlite3

import pytest

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    LedgerError,
    check_ledger,
    read_report,
    repair_ledger,
)
from onlinecal.version import STATE_FORMAT
from tests.engine.fault_tools import (
    INPUT,
    assert_refused,
    changed,
    command,
    left_open,
    looked_at,
    opened,
    raises_for,
)
from tests.engine.scripts import CONFIG, assert_same_ledgers, assert_sound, tables_of


def other_database(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE birds (name); INSERT INTO birds VALUES ('wren');")


@pytest.mark.parametrize("verb", [[], ["report"], ["check"], ["repair", "--into"]])
@pytest.mark.parametrize("make", [other_database, lambda path: path.write_bytes(b"a,b\n" * 3000)])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(folder, make, verb):
    path, into = folder / "other.db", folder / "into.db"
    make(path)
    before = path.read_bytes()
    arguments = [into] if "--into" in verb else []
    found = command(folder, "stream", *verb, *arguments, "--ledger", path, source=INPUT)
    assert_refused(found, path)
    assert found[1] == b""
    assert path.read_bytes() == before
    assert not into.exists()
    assert not list(folder.glob("*-lock"))


def test_an_empty_file_becomes_a_ledger_but_is_none_yet(folder):
    path = folder / "empty.db"
    path.touch()
    for look in (read_report, check_ledger):
        with raises_for(path, "not a ledger"):
            look(path)
    with Engine(path) as engine:
        engine.query("a", "k")
    assert read_report(path).queries == 1


@pytest.mark.parametrize("look", [read_report, check_ledger])
def test_a_ledger_that_is_not_there_is_not_made_by_looking(folder, look):
    with raises_for(folder / "none.db", "no such ledger"):
        look(folder / "none.db")
    assert list(folder.iterdir()) == []


def test_a_folder_or_a_missing_folder_is_no_ledger(folder):
    (folder / "sub").mkdir()
    for path, words in ((folder / "sub", "this is a folder"), (folder / "missing" / "ledger.db", "")):
        assert_refused(command(folder, "stream", "--ledger", path), path, words)


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("user_version = 6", ["format 6", "an older onlinecal", f"reads format {STATE_FORMAT}"]),
        (f"user_version = {STATE_FORMAT + 1}", [f"format {STATE_FORMAT + 1}", "a newer onlinecal"]),
        ("application_id = 1", ["not a ledger of this onlinecal", "the version that wrote it"]),
    ],
)
def test_a_ledger_of_another_format_is_refused_and_stays_as_it_is(ledger, folder, mark, words):
    changed(ledger, f"PRAGMA {mark}")
    before = ledger.read_bytes()
    for look in (Engine, read_report, check_ledger, lambda path: repair_ledger(path, folder / "new.db")):
        with raises_for(ledger, *words):
            look(ledger)
    assert_refused(command(folder, "stream", "--ledger", ledger), ledger, *words)
    assert ledger.read_bytes() == before
    assert not (folder / "new.db").exists()


@pytest.mark.parametrize("bad", [{"n_cells": 0}, {"horizon": -5}, {"rule": "guess"}, {"slack": 0.1}])
def test_a_configuration_that_cannot_be_is_refused_before_a_ledger_is_made_with_it(folder, bad):
    with pytest.raises(ValueError):
        Engine(folder / "ledger.db", EngineConfig(KeyConfig(**bad)))
    with Engine(folder / "ledger.db", CONFIG) as engine:
        assert engine.config == CONFIG


def test_a_forecast_that_was_changed_in_the_log_stops_the_restart(folder):
    path = left_open(folder)
    changed(path, "UPDATE queries SET probability = 0.123 WHERE number = (SELECT max(number) FROM queries"
               " WHERE typeof(probability) = 'real')")  # fmt: skip
    with raises_for(path, "was changed", "0.123"):
        Engine(path)
    with raises_for(path, "was changed"):
        read_report(path)
    assert any("0.123" in problem for problem in check_ledger(path).problems)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("certificate", 0.0001),
        ("guarantee", 0.0001),
        ("rounds", 77),
        ("open", 77),
        ("expired", 77),
        ("oldest", 77),
    ],
)
def test_what_stands_beside_a_state_is_compared_with_it(ledger, name, value):
    changed(ledger, f"UPDATE states SET {name} = {value} WHERE key = 3")
    [problem] = check_ledger(ledger).problems
    assert f"that its {name} is {value}; its events come to" in problem


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("view", "CREATE VIEW strange AS SELECT * FROM states"),
        ("table", "CREATE TABLE strange (x)"),
        ("index", "CREATE INDEX strange ON queries (time)"),
        ("trigger", "CREATE TRIGGER strange AFTER INSERT ON queries BEGIN DELETE FROM closings; END"),
    ],
)
def test_what_is_none_of_a_ledgers_is_named_by_the_check(ledger, kind, statement):
    changed(ledger, statement)
    assert f"the {kind} 'strange' is none of a ledger's: remove it" in check_ledger(ledger).problems


def test_a_state_that_was_changed_is_named_by_the_check(ledger, sound):
    changed(ledger, "UPDATE states SET state = zeroblob(length(state)) WHERE key = 3")
    name = tables_of(sound)["keys"][2][1]
    [problem] = check_ledger(ledger).problems
    assert repr(name) in problem
    with Engine(ledger) as engine:
        with raises_for(ledger, "state", re.escape(repr(name)), "repair"):
            engine.query("new", name)
        assert engine.query("other", "plain/new").probability > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE states SET state = substr(state, 2)",
        "UPDATE states SET state = x''",
        "UPDATE states SET number = number - 7",
        "UPDATE queries SET probability = 'sun'",
        "UPDATE queries SET hint = '{'",
        "UPDATE queries SET key = 77",
        "UPDATE queries SET id = number || id",
        "UPDATE closings SET value = 2",
        "UPDATE closings SET value = x'00'",
        "UPDATE closings SET query = query + 1000000",
        "DELETE FROM queries WHERE number % 3 = 0",
        "DELETE FROM closings WHERE number % 3 = 0",
        "DELETE FROM keys WHERE number = 2",
        "UPDATE keys SET config = 7",
        "UPDATE keys SET config = -1",
        "UPDATE keys SET name = 'another' WHERE number = 1",
        "UPDATE about SET value = '{' WHERE name = 'config'",
        "UPDATE about SET value = x'ff' WHERE name = 'config'",
        "UPDATE about SET value = 'long ago' WHERE name = 'tail'",
        "DROP TABLE states",
        "DROP TABLE about",
        "ALTER TABLE queries RENAME COLUMN time TO moment",
    ],
)
@pytest.mark.parametrize("tail", [0, 1], ids=["at the start", "as it was"])
def test_whatever_was_changed_by_hand_the_check_says_so_and_nothing_crashes(ledger, folder, statement, tail):
    replay = () if tail else ("DELETE FROM states", "UPDATE about SET value = 0 WHERE name = 'tail'")
    changed(ledger, *replay, statement)
    # of states that are gone nothing was changed
    is_harmless = not tail and statement.startswith("UPDATE states")
    assert bool(looked_at(ledger)) != is_harmless
    with contextlib.suppress(LedgerError, ValueError):
        read_report(ledger)
    with contextlib.suppress(LedgerError):
        repair_ledger(ledger, folder / "saved.db")
    opened(ledger)


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
    data, rng, noticed = sound.read_bytes(), random.Random(seed), 0
    for round in range(60):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 1, 3, 20])):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        ledger.write_bytes(bad)
        noticed += bool(looked_at(ledger))
        with contextlib.suppress(LedgerError, ValueError):
            read_report(ledger)
        with contextlib.suppress(LedgerError):
            repair_ledger(ledger, folder / f"{round}.db")
        opened(ledger)
    # some fall where nothing is kept
    assert noticed > 30


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
    assert (found.lost, found.changed, found.doubtful) == ([], [], [])
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
