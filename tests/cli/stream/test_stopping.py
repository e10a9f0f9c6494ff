"""How `onlinecal stream` ends: by signals, and when nobody reads."""

import os
import resource
import signal
import time

import pytest

from onlinecal.engine import read_report
from tests.cli.stream.events import expected, is_sound, late, started, started_as_asked, stream


def ended(process):
    """The exit code, what was still to be read, and what was said."""
    rest, told = process.communicate(timeout=300)
    assert b"Traceback" not in told
    return process.returncode, rest, told.decode()


@pytest.fixture
def events(tmp_path):
    """A file of so many late events."""

    def made(count):
        path = tmp_path / "events.jsonl"
        path.write_bytes(late(count))
        return path, late(count)

    return made


@started_as_asked
def test_sigterm_ends_between_batches_and_resume_goes_on_without_a_gap(ledger, events, started):
    file, lines = events(10_000)
    with started("--ledger", ledger, "--input", file, "--resume", "--batch", 50) as process:
        answered = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        code, rest, _ = ended(process)
    answered += rest
    assert code == 0
    assert 50 <= answered.count(b"\n") < lines.count(b"\n")
    assert read_report(ledger).events == answered.count(b"\n")
    assert is_sound(ledger)
    rest = stream("--ledger", ledger, "--input", file, "--resume").stdout_bytes
    assert answered + rest == expected(lines)


@started_as_asked
@pytest.mark.parametrize(
    "end, code", [pytest.param(signal.SIGTERM, 0, marks=pytest.mark.slow), (signal.SIGINT, 130)]
)
def test_all_that_is_answered_when_a_signal_ends_a_pipe_is_in_the_ledger(ledger, end, code, started):
    with started("--ledger", ledger) as process:
        process.stdin.write(late(200))
        begun = process.stdout.readline()
        process.send_signal(end)
        found, rest, told = ended(process)
    assert found == code
    assert read_report(ledger).events == (begun + rest).count(b"\n")
    assert expected(late(200)).startswith(begun + rest)
    assert told.startswith("events: ")
    assert is_sound(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_signal_in_the_middle_of_the_answers_loses_none_of_them(ledger, events, unbuffered):
    (file, lines), environment = events(5_000), {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with started("--ledger", ledger, "--input", file, "--batch", 5_000, env=environment) as process:
        # nobody reads on: the pipe fills, and the batch's other answers wait
        begun = process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        code, rest, _ = ended(process)
    assert code == 0
    assert begun + rest == expected(b"".join(lines.splitlines(keepends=True)[:5_000]))
    assert read_report(ledger).events == 5_000


@pytest.mark.slow
def test_a_second_signal_ends_at_once(ledger, events):
    with started("--ledger", ledger, "--input", events(5_000)[0]) as process:
        # nobody reads on: the pipe fills, and the first signal has to wait for it
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert is_sound(ledger)


@pytest.mark.slow
def test_when_nobody_reads_the_answers_it_stops_quietly(ledger, events):
    file, lines = events(10_000)
    with started("--ledger", ledger, "--input", file, "--batch", 1000) as process:
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode()
        assert process.wait(60) == 141
    assert told.count("\n") == 1
    assert "nobody reads the answers" in told
    assert is_sound(ledger)
    assert stream("--ledger", ledger, "--input", file).stdout_bytes == expected(lines)


@started_as_asked
def test_answers_that_find_no_room_are_not_lost(ledger, events, started):
    file, lines = events(50)
    with (
        open("/dev/full", "wb") as full,
        started("--ledger", ledger, "--input", file, "--quiet", stdout=full) as process,
    ):
        told = process.stderr.read()
        assert process.wait(60) == 2
    assert told.startswith(b"onlinecal: the answers cannot be written: No space left")
    assert told.count(b"\n") == 1
    assert stream("--ledger", ledger, "--input", file).stdout_bytes == expected(lines)


@pytest.mark.slow
def test_a_ledger_that_cannot_grow_ends_it_and_has_all_that_was_answered(ledger, tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    lines = late(20_000)
    with started("--ledger", ledger, "--batch", 500, preexec_fn=small_files) as process:
        answered, told = process.communicate(lines, timeout=300)
    assert process.returncode == 2
    # compiled code finds no room either, and that is said first
    assert b"nothing of this batch was kept" in told.splitlines()[-1]
    assert b"Traceback" not in told
    assert 0 < read_report(ledger).events == answered.count(b"\n") < 20_000
    assert expected(lines).startswith(answered)
    assert is_sound(ledger)
    # with room again, all of it is answered as if nothing had happened
    (tmp_path / "events.jsonl").write_bytes(lines)
    again = stream("--ledger", ledger, "--input", tmp_path / "events.jsonl")
    assert again.stdout_bytes == expected(lines)
