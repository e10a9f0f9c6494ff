"""Who may write to a ledger, one at a time and whatever it is called, and who may only read."""

import contextlib
import errno
import multiprocessing
import os
import signal
import threading

import pytest

from onlinecal.engine import (
    Engine,
    LedgerError,
    Outcome,
    Query,
    Settled,
    check_ledger,
    read_report,
    repair_ledger,
)
from onlinecal.engine.ledger.file import WriterLock
from tests.engine.fault_tools import QUERIES, assert_refused, changed, command, in_child, raises_for
from tests.engine.scripts import assert_sound, report_of, tables_of

NOBODY = 65534


@pytest.fixture
def path(folder):
    """Where a ledger is to be, in a folder of its own."""
    (folder / "real").mkdir()
    return folder / "real" / "ledger.db"


def other_name(kind, path):
    """The same file under another name."""
    name = path.parent.parent / "other.db"
    if kind == "hard link":
        os.link(path, name)
        return name
    name.symlink_to(path if kind == "symbolic link" else path.parent)
    return name if kind == "symbolic link" else name / path.name


@pytest.mark.parametrize("kind", ["symbolic link", "linked folder"])
@pytest.mark.parametrize("first", [0, 1])
def test_the_same_file_under_another_name_has_one_writer(path, kind, first):
    Engine(path).close()
    names = path, other_name(kind, path)
    one, other = names[first], names[1 - first]
    with Engine(one) as engine:
        engine.query("a", "k")
        with raises_for(other, "an Engine of this process has it open already"):
            Engine(other)
        assert in_child(lambda: Engine(other)) == 99
        assert read_report(other).queries == 1
    with Engine(other) as engine:
        assert engine.outcome("a", 1) == Settled("a")


@pytest.mark.parametrize("look", [Engine, read_report])
def test_a_file_with_two_names_is_no_ledger(path, look):
    Engine(path).close()
    # SQLite would look for the last commits under another name, too
    for one in (path, other_name("hard link", path)):
        with raises_for(one, "2 names", "copy"):
            look(one)


def test_a_ledger_behind_a_link_is_made_where_the_link_points(path):
    name = other_name("symbolic link", path)
    Engine(name).close()
    assert read_report(path).queries == 0
    assert name.is_symlink()


@contextlib.contextmanager
def other_process():
    """Another process: a function that lets it ask for a forecast (None: for none), and keep the ledger open.

    It is begun before any ledger is open here: SQLite cannot be used across a fork. It is killed in the end.
    """
    here, there = multiprocessing.Pipe()

    def work():
        held = []
        while True:
            path, id, stays = there.recv()
            try:
                engine = Engine(path)
                if id is not None:
                    engine.query(id, "k")
                if stays:
                    held.append(engine)
                else:
                    engine.close()
                there.send("")
            except LedgerError as error:
                there.send(str(error))

    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()

    def ask(path, id=None, stays=False):
        here.send((path, id, stays))
        assert here.poll(60)
        return here.recv()

    try:
        yield ask
    finally:
        process.kill()
        process.join()


def test_a_second_writer_is_refused_until_the_first_is_killed(path, folder):
    with other_process() as ask:
        assert ask(path, "a") == ""
        assert ask(path, stays=True) == ""
        with raises_for(path, "another process writes"):
            Engine(path)
        assert_refused(command(folder, "stream", "--ledger", path), path, "another process writes")
        assert read_report(path).queries == 1
        assert_sound(path)
    with Engine(path) as engine:
        assert engine.outcome("a", 1) == Settled("a")


def test_a_writer_whose_lock_file_was_removed_takes_it_again_and_no_number_is_used_twice(path):
    with other_process() as ask, Engine(path) as first:
        first.query("a", "k")
        assert "another process writes" in ask(path, "b")
        os.unlink(f"{path}-lock")
        # nobody could know: the first has not written since
        assert ask(path, "b") == ""
        with raises_for(path, "another process has written"):
            first.query("c", "k")
        assert first.query("c", "k").probability > 0
        # from now on there is a lock again
        assert "another process writes" in ask(path, "d")
        assert first.outcome("b", 1) == Settled("b")
        os.unlink(f"{path}-lock")
        assert ask(path, "between", stays=True) == ""
        for write in (lambda: first.query("e", "k"), first.flush):
            with raises_for(path, "another process writes"):
                write()
        os.unlink(f"{path}-lock")
        assert first.query("e", "k").probability > 0
    assert [row[1] for row in tables_of(path)["queries"]] == ["a", "b", "c", "between", "e"]
    assert_sound(path)


def test_a_number_that_stands_for_two_events_is_named_by_the_check(path):
    with Engine(path) as engine:
        engine.handle([Query("a", "k"), Query("b", "k"), Outcome("a", 1), Outcome("b", 1)])
    changed(path, "UPDATE closings SET number = 2 WHERE number = 3", with_sums=True)
    assert any("two events have the number 2" in problem for problem in check_ledger(path).problems)
    # all events are saved, and the gap is told
    found = repair_ledger(path, path.with_name("saved.db"))
    assert (found.events, found.lost) == (4, ["event 3 is missing"])
    assert_sound(path.with_name("saved.db"))


def test_the_lock_file_is_neither_followed_nor_emptied(path):
    precious = path.parent / "precious.txt"
    precious.write_text("do not lose")
    lock = path.parent / "ledger.db-lock"
    lock.symlink_to(precious)
    with raises_for(path, "lock"):
        Engine(path)
    lock.unlink()
    os.link(precious, lock)
    Engine(path).close()
    assert precious.read_text() == "do not lose"
    lock.unlink()
    os.mkfifo(lock)
    with raises_for(path, "lock"):
        Engine(path)


def test_the_lock_goes_with_the_engine_that_took_it_not_with_forked_children(path):
    engine = Engine(path)
    engine.query("a", "k")
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            with raises_for(path, "opened before this process was forked"):
                engine.query("b", "k")
            engine._ledger.close()
            os.write(tell, b"!")
            signal.pause()
        os._exit(1)
    os.close(tell)
    try:
        assert os.read(ready, 1) == b"!"
        # what the child let go of was not the lock
        assert in_child(lambda: Engine(path)) == 99
        assert engine.outcome("a", 1) == Settled("a")
        engine.close()
        # nor does the child keep it
        Engine(path).close()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)


def test_a_killed_engine_leaves_no_lock_with_its_children(path):
    ready, tell = os.pipe()

    def work():
        engine = Engine(path)
        engine.query("a", "k")
        if os.fork() == 0:
            os.write(tell, str(os.getpid()).encode())
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == -signal.SIGKILL
    child = int(os.read(ready, 20))
    try:
        with Engine(path) as engine:
            assert engine.outcome("a", 1) == Settled("a")
    finally:
        os.kill(child, signal.SIGKILL)


def moved(path):
    os.rename(path, f"{path}.old")


def replaced(path):
    moved(path)
    path.touch()


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", [os.unlink, moved, replaced])
def test_a_ledger_that_is_gone_takes_no_more_events_unless_it_is_put_back(path, how, end):
    engine, file = Engine(path), path.with_name(path.name + end)
    engine.query("a", "k")
    how(file)
    calls = [lambda: engine.query("b", "k"), lambda: engine.outcome("a", 1), engine.flush]
    for call in calls if how is moved else (*calls, engine.close):
        with raises_for(path, "removed or replaced", "since it was opened"):
            call()
    if how is moved:
        os.rename(f"{file}.old", file)
        assert engine.query("b", "k").probability > 0
    engine.close()
    with pytest.raises(LedgerError, match="closed"):
        engine.query("b", "k")


def test_an_engine_that_nobody_has_any_more_keeps_no_lock(path):
    left = WriterLock(str(path))
    with pytest.raises(ValueError, match="an Engine of this process has it open already: use that one"):
        WriterLock(str(path))
    del left
    WriterLock(str(path)).release()


def test_a_file_system_without_locks_is_not_taken_for_another_writer(path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refused)
    with raises_for(path, "cannot be locked here: No locks available; put it on"):
        Engine(path)


def test_readers_see_whole_batches_while_it_is_written(path):
    stop, seen, problems = threading.Event(), [], []

    def read():
        while not stop.is_set():
            try:
                report = report_of(path)
                assert report.queries == report.total.open + report.closings
                assert report.queries % 5 == 0
                seen.append(report.events)
            except BaseException as error:
                problems.append(error)
                return

    with Engine(path, hot_keys=3, states_behind=20) as engine:
        reader = threading.Thread(target=read)
        reader.start()
        for i in range(0, 500, 5):
            events = [Query(f"{j}", f"plain/{j % 7}") for j in range(i, i + 5)]
            engine.handle(events + [Outcome(f"{j}", j % 2) for j in range(i - 20, i - 15) if j >= 0])
        stop.set()
        reader.join()
    assert problems == []
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


@pytest.mark.parametrize("writable_folder", [False, True])
def test_a_ledger_that_may_not_be_written_can_be_read(ledger, writable_folder):
    ledger.chmod(0o444)
    ledger.parent.chmod(0o777 if writable_folder else 0o555)

    def work():
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        with raises_for(ledger, "ermission"):
            Engine(ledger).query("new", "plain/0")
        assert read_report(ledger).queries == QUERIES
        if not writable_folder:
            assert_sound(ledger)

    assert in_child(work) == 0
    ledger.parent.chmod(0o755)
    ledger.chmod(0o644)
    # who owns the ledger and reads it while it is read-only leaves files beside it that are read-only, too
    for beside in ledger.parent.glob(f"{ledger.name}-*"):
        beside.chmod(0o644)
    with Engine(ledger) as engine:
        assert engine.query("new", "plain/0").probability > 0
