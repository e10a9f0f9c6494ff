"""Files that are damaged, or no ledgers: what is said, what can be saved, and what checksums tell."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import subprocess

import pytest

from onlinecal.engine import Engine, LedgerError, archive_ledger, check_ledger, read_report, repair_ledger
from onlinecal.engine.ledger.file import LedgerErrors
from onlinecal.engine.ledger.ledger import LOG_SQL, Ledger
from onlinecal.engine.ledger.replay import SUMMARY_COLUMNS
from onlinecal.version import STATE_FORMAT
from tests.engine.fault_tools import (
    INPUT,
    LINES,
    assert_refused,
    changed,
    command,
    raises_for,
)
from tests.engine.scripts import CONFIG, assert_same_ledgers, assert_sound, batches, tables_of

PAGE = 4096


def left_open(folder, count=400):
    """The files of a ledger whose writer was killed: the main file and the log of its last commits."""
    path = folder / "open.db"
    with Engine(path, CONFIG, hot_keys=5, states_behind=100) as engine:
        for data in batches(random.Random(5), LINES[:count], 20):
            engine.handle_lines(data)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", folder / f"ledger.db{end}")
    return folder / "ledger.db"


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


@pytest.mark.parametrize("look", [read_report, check_ledger])
def test_what_is_no_ledger_yet_is_not_made_one_by_looking(folder, look):
    with raises_for(folder / "none.db", "no such ledger"):
        look(folder / "none.db")
    assert list(folder.iterdir()) == []
    (folder / "empty.db").touch()
    with raises_for(folder / "empty.db", "not a ledger"):
        look(folder / "empty.db")
    Engine(folder / "empty.db").close()
    assert look(folder / "empty.db").events == 0
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("probability = 0.123", "was answered with 0.123, but the log leads to 0."),
        ("certificate = 77", "was answered with the certificate 77.0, but the log leads to"),
    ],
    ids=["probability", "certificate"],
)
def test_a_forecast_that_was_changed_in_the_log_stops_the_restart(folder, change, words):
    path = left_open(folder)
    changed(path, f"UPDATE queries SET {change} WHERE number = (SELECT max(number) FROM queries"
               " WHERE typeof(probability) = 'real')", with_sums=True)  # fmt: skip
    with raises_for(path, "was changed", words):
        Engine(path)
    with raises_for(path, "was changed"):
        read_report(path)
    assert any(words in problem for problem in check_ledger(path).problems)


def test_a_state_that_was_changed_is_named_by_the_check(ledger, sound):
    changed(ledger, "UPDATE states SET state = zeroblob(length(state)) WHERE key = 3", with_sums=True)
    name = tables_of(sound)["keys"][2][1]
    [problem] = check_ledger(ledger).problems
    assert repr(name) in problem
    with Engine(ledger) as engine:
        with raises_for(ledger, "state", re.escape(repr(name)), "repair"):
            engine.query("new", name)
        assert engine.query("other", "plain/new").probability > 0


def said_by(work, path):
    """What the work comes to, or the words of a refusal, which names the file."""
    try:
        return work()
    except (LedgerError, ValueError) as error:
        assert str(path) in str(error)  # noqa: PT017
        return [str(error)]


def answered(ledger):
    """The answers of an engine to all input."""
    with Engine(ledger, hot_keys=5, states_behind=100) as engine:
        return engine.handle_lines(INPUT)


def tried(ledger, into):
    """Check, report, repair and open a damaged file: the problems named, and what the repair saved, or words.

    The file stays as it is but for the engine at the end.
    """
    bad = ledger.read_bytes()
    problems = said_by(lambda: check_ledger(ledger).problems, ledger)
    said_by(lambda: read_report(ledger), ledger)
    found = said_by(lambda: repair_ledger(ledger, into), ledger)
    if isinstance(found, list):
        assert not into.exists()
    else:
        assert_sound(into)
        assert found.events == sum(len(tables_of(into)[table]) for table in ("queries", "closings"))
    assert ledger.read_bytes() == bad
    said_by(lambda: answered(ledger), ledger)
    return problems, found


BESIDE = "the ledger has {} = 77(.0)? for key .*, but its events lead to"

CHANGED = [
    ("UPDATE states SET state = substr(state, 2)", ""),
    ("UPDATE states SET number = number - 7", ""),
    *((f"UPDATE states SET {one} = 77 WHERE key = 3", BESIDE.format(one)) for one in SUMMARY_COLUMNS),
    ("UPDATE queries SET probability = 'sun'", ""),
    ("UPDATE queries SET probability = 0.123 WHERE number = 1", "0.123"),
    ("UPDATE queries SET hint = '{'", ""),
    ("UPDATE queries SET key = 77", ""),
    ("UPDATE queries SET id = number || id", ""),
    ("UPDATE closings SET value = 2", ""),
    ("UPDATE closings SET value = x'00'", ""),
    ("UPDATE closings SET query = query + 1000000", "rows of closings refer to queries"),
    ("INSERT INTO closings VALUES (1000000, 999999, 1, NULL, 0)", "1 rows of closings refer to queries"),
    ("UPDATE states SET number = number + 1000 WHERE key = 3", "its states go up to event 1[0-9]+, but"),
    ("UPDATE about SET value = 1000000 WHERE name = 'tail'", "its states go up to event 1000000, but"),
    ("UPDATE about SET value = value + 1 WHERE name = 'early'", "outcomes with a time before their query's"),
    ("DELETE FROM queries WHERE number % 3 = 0", ""),
    ("DELETE FROM closings WHERE number % 3 = 0", ""),
    ("DELETE FROM keys WHERE number = 2", ""),
    ("UPDATE keys SET config = 7", ""),
    ("UPDATE about SET value = x'ff' WHERE name = 'config'", ""),
    ("UPDATE about SET value = 'long ago' WHERE name = 'tail'", ""),
    ("DROP TABLE states", ""),
    ("DROP TABLE about", ""),
    ("ALTER TABLE queries RENAME COLUMN time TO moment", ""),
]
"""Changes of a ledger by hand, sums included, and what the check has to say of it."""


@pytest.mark.parametrize(("statement", "words"), CHANGED)
def test_the_check_says_what_was_changed_by_hand(ledger, folder, statement, words):
    changed(ledger, statement, with_sums=not statement.startswith(("DROP", "ALTER")))
    problems, _ = tried(ledger, folder / "saved.db")
    assert any(re.search(words, problem) for problem in problems), problems
    if "0.123" in words:
        with raises_for(ledger, words):
            archive_ledger(ledger, folder / "archive", keep=10)
        assert not list(folder.glob("archive*"))


PLAIN = [statement for statement, words in CHANGED if not words]
SOME = PLAIN[::3]


@pytest.mark.parametrize(
    "statement", [one if one in SOME else pytest.param(one, marks=pytest.mark.slow) for one in PLAIN]
)
def test_so_it_is_where_the_whole_log_is_replayed(ledger, folder, statement):
    # a replay from the beginning does not notice other ids
    sums = not statement.startswith(("DROP", "ALTER", "UPDATE queries SET id"))
    start = "DELETE FROM states", "UPDATE about SET value = 0 WHERE name = 'tail'"
    changed(ledger, *start, statement, with_sums=sums)
    # of states that are gone nothing was changed
    assert bool(tried(ledger, folder / "saved.db")[0]) != statement.startswith("UPDATE states")


@pytest.mark.parametrize("damage", ["cut off", "overwritten", "one bit", "last page", "gone"])
def test_after_a_torn_log_of_commits_the_ledger_is_that_of_the_last_whole_commit(
    folder, sound, answers, damage
):
    path = left_open(folder)
    (main, wal), rng = ((folder / f"ledger.db{end}").read_bytes() for end in ("", "-wal")), random.Random(6)
    whole, sizes, once = tables_of(sound), set(), damage in ("gone", "last page")
    for _ in range(1 if once else 8):
        place = {"last page": len(wal) - PAGE - 24, "gone": 0}.get(damage, rng.randrange(len(wal)))
        torn = wal[:place] + (rng.randbytes(len(wal) - place) if damage == "overwritten" else b"")
        if damage == "one bit":
            torn = wal[:place] + bytes([wal[place] ^ 1 << rng.randrange(8)]) + wal[place + 1 :]
        path.write_bytes(main)
        for end in ("-shm", "-lock", "-wal"):
            folder.joinpath(f"ledger.db{end}").unlink(missing_ok=True)
        if damage != "gone":
            folder.joinpath("ledger.db-wal").write_bytes(torn)
        with Engine(path, CONFIG, hot_keys=5) as engine:
            kept = tables_of(path)
            for table, rows in kept.items():
                assert rows == whole[table][: len(rows)]
            sizes.add(len(kept["queries"]))
            assert engine.handle_lines(INPUT) == answers
        assert_same_ledgers(path, sound)
    assert len(sizes) > 4 or once


def pages_of_nothing(data):
    """The free pages that SQLite never reads: the leaves of its list of free pages."""
    found, trunk = set(), int.from_bytes(data[32:36], "big")
    while trunk:
        page = data[(trunk - 1) * PAGE : trunk * PAGE]
        numbers = [int.from_bytes(page[place : place + 4], "big") for place in range(0, PAGE, 4)]
        trunk, count = numbers[:2]
        found.update(numbers[2 : 2 + count])
    return found


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_garbage_in_any_page_is_noticed_and_what_can_be_read_is_saved(ledger, sound, folder, step):
    data, rng = sound.read_bytes(), random.Random(8)
    saved, nothing = 0, pages_of_nothing(data)
    for page in range(0, len(data) // PAGE, step):
        ledger.write_bytes(data[: page * PAGE] + rng.randbytes(PAGE) + data[(page + 1) * PAGE :])
        problems, found = tried(ledger, folder / f"{page}.db")
        assert problems or page + 1 in nothing
        if not isinstance(found, list) and not found.lost and not found.changed:
            assert_same_ledgers(folder / f"{page}.db", sound)
            saved += 1
    assert saved > 10 / step


@pytest.mark.parametrize("rounds", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_flipped_bits_never_bring_a_crash(ledger, sound, folder, rounds):
    data, rng, noticed = sound.read_bytes(), random.Random(rounds), 0
    for number in range(rounds):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 1, 3, 20])):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        ledger.write_bytes(bad)
        noticed += bool(tried(ledger, folder / f"{number}.db")[0])
    # some fall where nothing is kept
    assert noticed > rounds / 2


@pytest.mark.parametrize("name", ["states", "sqlite_autoindex_queries_1", "sqlite_autoindex_closings_1"])
def test_damage_to_what_follows_from_the_log_costs_nothing(ledger, sound, folder, name):
    bad = bytearray(sound.read_bytes())
    with contextlib.closing(sqlite3.connect(sound)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
    page = root - 1
    bad[page * PAGE : page * PAGE + 2048] = bytes(2048)
    ledger.write_bytes(bad)
    problems, found = tried(ledger, folder / "saved.db")
    assert problems
    assert (found.lost, found.changed, found.doubtful) == ([], [], [])
    assert_same_ledgers(folder / "saved.db", sound)


def test_rows_that_an_index_contradicts_are_called_damaged(folder):
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("CREATE TABLE birds (name UNIQUE); INSERT INTO birds VALUES ('wren');")
        with raises_for(folder, "damaged", "repair", "birds.name"), LedgerErrors(folder, of_content=False):
            connection.execute("INSERT INTO birds VALUES ('wren')")


def test_a_second_name_that_a_killed_process_left_is_taken_away_and_no_other(ledger, folder):
    """As of a repair that was killed when the file had its name, and its name until then, too."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = folder / f".{ledger.name}.{ended.pid}-abcd1234"
    left.mkdir()
    os.link(ledger, left / ledger.name)
    assert check_ledger(ledger).problems == []
    assert not left.exists()
    os.link(ledger, folder / "mine.db")
    with raises_for(ledger, "2 names"):
        check_ledger(ledger)


@pytest.mark.parametrize("size", [99, 4095, 4096, 5000, 20_000, -4096])
def test_a_ledger_that_was_cut_off_is_refused(ledger, folder, size):
    data = ledger.read_bytes()
    ledger.write_bytes(data[:size])
    assert_refused(command(folder, "stream", "report", "--ledger", ledger), ledger)
    assert tried(ledger, folder / "saved.db")[0]
    ledger.write_bytes(data[:size])
    assert isinstance(said_by(lambda: answered(ledger), ledger), list)
    ledger.write_bytes(data)
    assert answered(ledger)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE queries SET time = 'noon'",
        "UPDATE states SET state = 'text'",
        "UPDATE closings SET query = 'q7'",
        "UPDATE queries SET key = NULL",
        "UPDATE closings SET query = 1",
        "INSERT INTO closings SELECT 1000000, query, 1, NULL, 0 FROM closings LIMIT 1",
    ],
)
def test_what_cannot_be_in_a_column_is_refused_by_sqlite(ledger, statement):
    with pytest.raises(sqlite3.IntegrityError):
        changed(ledger, statement)


def test_the_log_behind_the_states_is_found_without_a_scan(ledger):
    with contextlib.closing(Ledger(ledger, read_only=True)) as found:
        plan = [row[3] for row in found.rows(f"EXPLAIN QUERY PLAN {LOG_SQL} ORDER BY 1 LIMIT ?", (1, 1, 10))]
    assert not [step for step in plan if step.startswith("SCAN")]
    assert sum("INTEGER PRIMARY KEY (rowid>?)" in step for step in plan) == 2
