"""Who may write to a ledger, and who may only read."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

from onlinecal.engine import (
    Engine,
    LedgerError,
    Query,
    read_report,
)
from tests.engine.fault_tools import (
    INPUT,
    LINES,
    NOBODY,
    assert_refused,
    command,
    in_child,
    opened,
    raises_for,
)
from tests.engine.scripts import (
    CONFIG,
    assert_sound,
    report_of,
    script,
)


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
    # who owns the ledger and reads it while it is read-only leaves files beside it that are read-only, too
    for beside in ledger.parent.glob(f"{ledger.name}-*"):
        beside.chmod(0o644)
    assert isinstance(opened(ledger), bytes)


def test_a_closed_engine_says_that_it_is_closed(folder):
    engine = Engine(folder / "ledger.db")
    engine.close()
    engine.close()
    for call in (lambda: engine.query("a", "k"), lambda: engine.handle([Query("a", "k")])):
        with pytest.raises((LedgerError, ValueError), match="closed"):
            call()
