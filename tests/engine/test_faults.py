"""Disks that are full, files that are damaged, in use or not ours: what is said, and what is left."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback

import pytest
from engine_scripts import (
    CONFIG,
    CONFIG_TOML,
    assert_same_ledgers,
    assert_sound,
    batches,
    lines_of,
    quick_folder,
    report_of,
    script,
    tables_of,
)

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    LedgerError,
    Query,
    check_ledger,
    read_report,
    repair_ledger,
    schema,
)

LINES = lines_of(script(11, 400))
INPUT = b"\n".join(LINES) + b"\n"
NOBODY = 65534


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def sound():
    """A ledger that took all of LINES, and was closed; with its answers beside it."""
    with quick_folder() as folder:
        path = folder / "sound.db"
        with Engine(path, CONFIG, hot_keys=5, window=100) as engine:
            rng = random.Random(0)
            path.with_suffix(".jsonl").write_bytes(
                b"".join(engine.handle_lines(data) for data in batches(rng, LINES, 60))
            )
        yield path


@pytest.fixture
def answers(sound):
    return sound.with_suffix(".jsonl").read_bytes()


@pytest.fixture
def ledger(sound, folder):
    """A copy of the sound ledger, to be damaged."""
    path = folder / "ledger.db"
    shutil.copyfile(sound, path)
    return path


@contextlib.contextmanager
def raises_for(path, *words):
    """A LedgerError or a ValueError in one sentence that names the file."""
    with pytest.raises((LedgerError, ValueError)) as caught:
        yield caught
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    for word in words:
        assert re.search(word, message), message


def in_child(work):
    """The exit code of a copy of this process that does the work."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work() or 0)
        except BaseException:
            traceback.print_exc()
            os._exit(99)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def command(folder, *arguments, source=b"", before=lambda: None):
    """Run `onlinecal` in a copy of this process: its exit code, what it answered and what it said."""
    streams = [folder / name for name in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(source)

    def work():
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0)), number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
        sys.argv = ["onlinecal", *map(str, arguments)]
        before()
        from simulations.cli import main

        try:
            main()
        except SystemExit as end:
            return end.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    code = in_child(work)
    return code, streams[1].read_bytes(), streams[2].read_text()


def assert_refused(found, path, *words):
    """Exit code 2, and one line that names the file."""
    code, _, said = found
    assert code == 2, said
    assert said.startswith("onlinecal: ")
    assert said.count("\n") == 1
    assert str(path) in said
    for word in words:
        assert word in said


# Full disks.


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


def test_states_that_could_not_be_written_are_written_later(folder, sound, answers):
    path, told = folder / "ledger.db", b""
    with Engine(path, CONFIG) as engine:
        for number, data in enumerate(batches(random.Random(2), LINES, 60)):
            told += engine.handle_lines(data)
            refuse = (
                "CREATE TEMP TRIGGER full BEFORE INSERT ON main.states BEGIN SELECT RAISE(ABORT, ''); END"
            )
            engine._ledger.connection.execute(refuse)
            with raises_for(path):
                engine.flush()
            engine._ledger.connection.execute("DROP TRIGGER full")
            if number % 2:
                engine.flush()
        engine._ledger.close()
    assert told == answers
    assert_same_ledgers(path, sound)


def test_a_restart_that_fails_is_tried_again(folder, sound, answers, monkeypatch):
    path, told = folder / "ledger.db", b""
    monkeypatch.setattr("onlinecal.engine.replay.CHUNK", 7)
    with Engine(path, CONFIG, hot_keys=5, window=200) as engine:
        for data in batches(random.Random(3), LINES, 60):
            commit, engine._ledger.commit = engine._ledger.commit, failing_commit
            for _ in range(3):
                with pytest.raises(LedgerError):
                    engine.handle_lines(data)
            engine._ledger.commit = commit
            told += engine.handle_lines(data)
    assert told == answers
    assert_same_ledgers(path, sound)


def failing_commit(changes):
    raise LedgerError("no room")


@pytest.mark.parametrize("size", [2_000, 40_000, 100_000, 150_000])
def test_the_command_on_a_disk_that_is_full_says_so_and_finishes_when_there_is_room(
    folder, sound, answers, size
):
    path = folder / "ledger.db"
    (folder / "keys.toml").write_text(CONFIG_TOML)
    arguments = ["stream", "--ledger", path, "--config", folder / "keys.toml", "--batch", "50", "--quiet"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    found = command(folder, *arguments, source=INPUT, before=limit)
    assert_refused(found, path)
    assert answers.startswith(found[1])
    code, told, said = command(folder, *arguments, source=INPUT)
    assert (code, told, said) == (0, answers, "")
    assert_same_ledgers(path, sound)


def test_a_small_disk_that_fills_up(folder, sound, answers):
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    try:
        path, told = disk / "ledger.db", b""
        with contextlib.suppress(LedgerError), Engine(path, CONFIG, hot_keys=5, window=100) as engine:
            for data in batches(random.Random(4), LINES, 60):
                told += engine.handle_lines(data)
            pytest.fail("all of it went onto the disk")
        assert answers.startswith(told)
        assert told
        for part in disk.iterdir():
            shutil.copyfile(part, folder / part.name)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    with Engine(folder / "ledger.db", hot_keys=5) as engine:
        assert engine.handle_lines(INPUT) == answers
    assert_same_ledgers(folder / "ledger.db", sound)


# Files that are damaged.


def left_open(folder, count=400):
    """The files of a ledger whose writer was killed: the main file and the log of its last commits."""
    path = folder / "open.db"
    with Engine(path, CONFIG, hot_keys=5, window=100) as engine:
        for data in batches(random.Random(5), LINES[:count], 20):
            engine.handle_lines(data)
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", folder / f"ledger.db{end}")
    return folder / "ledger.db"


@pytest.mark.parametrize("damage", ["cut off", "overwritten", "last page", "gone"])
def test_after_a_torn_log_of_commits_the_ledger_is_that_of_the_last_whole_commit(
    folder, sound, answers, damage
):
    path = left_open(folder)
    (main, wal), rng = ((folder / f"ledger.db{end}").read_bytes() for end in ("", "-wal")), random.Random(6)
    whole, sizes = tables_of(sound), set()
    for _ in range(1 if damage == "gone" else 25):
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


def opened(path, data=INPUT):
    """What an engine answers on a file, or its refusal, which names the file."""
    try:
        with Engine(path, hot_keys=5, window=100) as engine:
            return engine.handle_lines(data)
    except (LedgerError, ValueError) as error:
        assert str(path) in str(error)  # noqa: PT017
        return error


def looked_at(path):
    """The problems that a check names."""
    try:
        return check_ledger(path).problems
    except (LedgerError, ValueError) as error:
        assert str(path) in str(error)  # noqa: PT017
        return [str(error)]


def test_garbage_in_any_page_is_noticed_and_what_can_be_read_is_saved(ledger, sound, folder):
    data, rng = sound.read_bytes(), random.Random(8)
    saved = 0
    for page in range(len(data) // 4096):
        bad = bytearray(data)
        bad[page * 4096 : (page + 1) * 4096] = rng.randbytes(4096)
        ledger.write_bytes(bad)
        problems = looked_at(ledger)
        assert problems
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


@pytest.mark.parametrize("seed", range(2))
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


def test_repair_never_writes_over_a_file(ledger, folder):
    with raises_for(ledger, "already"):
        repair_ledger(ledger, ledger)


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


# Files that are not ours.


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
    for path in (folder / "sub", folder / "missing" / "ledger.db"):
        assert_refused(command(folder, "stream", "--ledger", path), path)


def test_a_ledger_of_a_newer_version_is_refused_and_stays_as_it_is(ledger, folder):
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    before = ledger.read_bytes()
    for look in (Engine, read_report, check_ledger):
        with raises_for(ledger, "newer onlinecal"):
            look(ledger)
    assert ledger.read_bytes() == before


def test_another_configuration_is_refused(ledger, folder):
    before = ledger.read_bytes()
    with raises_for(ledger, "another configuration"):
        Engine(ledger, EngineConfig(KeyConfig(lanes=9)))
    assert ledger.read_bytes() == before
    assert isinstance(opened(ledger), bytes)


@pytest.mark.parametrize("bad", [{"n_cells": 0}, {"horizon": -5}, {"rule": "guess"}, {"slack": 0.1}])
def test_a_configuration_that_cannot_be_is_refused_before_a_ledger_is_made_with_it(folder, bad):
    with pytest.raises(ValueError):
        Engine(folder / "ledger.db", EngineConfig(KeyConfig(**bad)))
    with Engine(folder / "ledger.db", CONFIG) as engine:
        assert engine.config == CONFIG


def edit(path, *statements):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_forecast_that_was_changed_in_the_log_stops_the_restart(folder):
    path = left_open(folder)
    edit(path, "UPDATE queries SET probability = 0.123 WHERE number = (SELECT max(number) FROM queries"
               " WHERE typeof(probability) = 'real')")  # fmt: skip
    with raises_for(path, "was changed", "0.123"):
        Engine(path)
    with raises_for(path, "was changed"):
        read_report(path)
    assert any("0.123" in problem for problem in check_ledger(path).problems)


def test_a_state_that_was_changed_is_named_by_the_check(ledger, sound):
    edit(ledger, "UPDATE states SET state = zeroblob(length(state)) WHERE key = 3")
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
        "UPDATE states SET state = 'text'",
        "UPDATE states SET number = number - 7",
        "UPDATE queries SET probability = 'sun'",
        "UPDATE queries SET hint = '{'",
        "UPDATE queries SET time = 'noon'",
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
    with contextlib.suppress(sqlite3.OperationalError):
        edit(ledger, *replay, statement)
        looked_at(ledger)
    with contextlib.suppress(LedgerError, ValueError):
        read_report(ledger)
    with contextlib.suppress(LedgerError):
        repair_ledger(ledger, folder / "saved.db")
    opened(ledger)


# Who may write.


def test_a_second_writer_is_refused_until_the_first_is_gone(folder, answers):
    path = folder / "ledger.db"
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            engine = Engine(path, CONFIG)
            engine.handle_lines(b"\n".join(LINES[:100]) + b"\n")
            os.write(tell, b"!")
            time.sleep(60)
        os._exit(1)
    try:
        assert os.read(ready, 1) == b"!"
        with raises_for(path, "another process writes"):
            Engine(path, CONFIG)
        assert_refused(command(folder, "stream", "--ledger", path), path, "another process writes")
        assert read_report(path).queries > 30
        assert_sound(path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(tell)
    with Engine(path, CONFIG) as engine:
        assert engine.handle_lines(INPUT) == answers


def test_readers_see_whole_batches_while_it_is_written(folder):
    path, stop, seen, problems = folder / "ledger.db", threading.Event(), [], []
    events = script(12, 900, keys=4)

    def read():
        while not stop.is_set():
            try:
                report = report_of(path)
                assert report.queries == report.total.rounds + report.total.open + report.total.expired + (
                    report.closings - report.total.rounds
                )
                assert report.queries % 5 == 0
                seen.append(report.events)
            except BaseException as error:
                problems.append(error)
                return

    asked = [f'{{"type":"query","id":"{i}","key":"plain/{i % 7}"}}'.encode() for i in range(1500)]
    ends = [f'{{"type":"outcome","id":"{i}","value":{i % 2}}}'.encode() for i in range(len(events))]
    with Engine(path, hot_keys=3, window=20) as engine:
        reader = threading.Thread(target=read)
        reader.start()
        for i in range(0, 1500, 5):
            engine.handle_lines(b"\n".join(asked[i : i + 5] + ends[max(0, i - 20) : max(0, i - 15)]) + b"\n")
        stop.set()
        reader.join()
    assert problems == []
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


def as_nobody(work):
    """The exit code of the work, done by somebody who may not write what root owns."""
    if os.geteuid() == 0:
        return in_child(lambda: os.setgid(NOBODY) or os.setuid(NOBODY) or work())
    return in_child(work)


@pytest.fixture
def locked(ledger):
    """A ledger that may only be read, in a folder that may not be written to."""
    ledger.chmod(0o444)
    ledger.parent.chmod(0o555)
    yield ledger
    ledger.parent.chmod(0o755)


def refusal(call):
    try:
        call()
    except (LedgerError, ValueError) as error:
        return str(error)
    return ""


def test_a_ledger_that_may_not_be_written_can_be_read(locked):
    def work():
        said = refusal(lambda: Engine(locked))
        assert str(locked) in said
        assert "ermission" in said
        assert read_report(locked).queries == 400
        assert_sound(locked)

    assert as_nobody(work) == 0


def test_a_ledger_that_may_not_be_written_in_a_folder_that_may_be(ledger):
    ledger.chmod(0o444)
    ledger.parent.chmod(0o777)

    def work():
        said = refusal(lambda: Engine(ledger).query("new", "plain/0"))
        assert str(ledger) in said
        assert "ermission" in said
        assert read_report(ledger).queries == 400

    assert as_nobody(work) == 0
    ledger.chmod(0o644)
    assert isinstance(opened(ledger), bytes)


# Ledgers of older versions.


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


# Engines that nobody can use any more.


def test_a_closed_engine_says_that_it_is_closed(folder):
    engine = Engine(folder / "ledger.db")
    engine.close()
    engine.close()
    for call in (lambda: engine.query("a", "k"), lambda: engine.handle([Query("a", "k")])):
        with pytest.raises((LedgerError, ValueError), match="closed"):
            call()
