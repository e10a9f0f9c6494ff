"""Engines that are killed, at any place and any moment, and started again with the same input."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest

from onlinecal.engine import Engine, ParkingCounts, read_report
from tests.engine.fault_tools import Points, in_child
from tests.engine.scripts import (
    CONFIG,
    assert_same_ledgers,
    batches,
    lines_of,
    quick_folder,
    script,
    script_with_parked,
)

SMALL = {"hot_keys": 4, "states_behind": 150}
"""So that states are written and keys evicted all the time."""


def feed(path, lines, seed, out=None, most=40, point=lambda: None):
    """Run an engine over lines in batches; `point` is called before and after answers are written."""
    answers = []
    with Engine(path, CONFIG, **SMALL) as engine:
        for data in batches(random.Random(seed), lines, most):
            answer = engine.handle_lines(data)
            point()
            answers.append(answer)
            if out is not None:
                os.write(out, answer)
            point()
    return b"".join(answers)


@contextlib.contextmanager
def undisturbed(seed, queries, keys=30, events=None):
    """What an engine that is not disturbed is fed with and answers, and its ledger."""
    lines = lines_of(events or script(seed, queries, keys))
    with quick_folder() as folder:
        path = folder / "undisturbed.db"
        yield SimpleNamespace(lines=lines, path=path, answers=feed(path, lines, seed))


@pytest.fixture(scope="module")
def fed():
    with undisturbed(0, 300) as fed:
        yield fed


def told(answers):
    """Answers, without what may be different of those to events that are sent again: what was parked then
    is settled, if its query has come since."""
    return answers.replace(b'"type":"parked"', b'"type":"settled"')


def assert_nothing_happened(fed, path, outs, last):
    """No answer was ever another one, and in the end everything is as if nothing had happened."""
    for out in outs:
        assert told(fed.answers).startswith(told(out.read_bytes()))
    assert told(last) == told(fed.answers)
    assert_same_ledgers(path, fed.path)


def feed_for(seconds, *given):
    """Feed an engine until a signal ends this process, wherever it is then."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    feed(*given)


def killed_at_random_instants(fed, folder, seed, kills):
    """Kill copies of this process until there were enough kills, then let one come to its end."""
    rng, path, outs, killed = random.Random(seed), folder / "ledger.db", [], 0
    began = time.perf_counter()
    feed(folder / "timed.db", fed.lines, seed)
    whole = time.perf_counter() - began
    while killed < kills:
        outs.append(folder / f"{len(outs)}.jsonl")
        with open(outs[-1], "wb", buffering=0) as file:
            given = path, fed.lines, rng.random(), file.fileno()
            code = in_child(partial(feed_for, 1e-4 + rng.random() ** 2 * whole, *given))
        assert code in (0, -signal.SIGALRM)
        killed += code != 0
        if rng.random() < 0.1:
            for end in ("", "-wal", "-shm"):
                folder.joinpath(f"ledger.db{end}").unlink(missing_ok=True)
    assert_nothing_happened(fed, path, outs, feed(path, fed.lines, seed))


@pytest.mark.parametrize(
    "seeds, kills", [(1, 1), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((1, 6), (10, 30)))]
)
def test_an_engine_that_is_killed_at_random_instants(fed, seeds, kills):
    for seed in range(seeds):
        with quick_folder() as folder:
            killed_at_random_instants(fed, folder, seed, kills)


@pytest.mark.parametrize(
    ("queries", "kills"), [(150, 2), *(pytest.param(300, kills, marks=pytest.mark.slow) for kills in (2, 50))]
)
def test_an_engine_that_is_killed_while_outcomes_are_parked(queries, kills):
    """Nothing is lost, and nothing is counted twice: what waits, and what was settled, too."""
    (events, early), _ = script_with_parked(
        kills, queries, share=0.3, kinds=("plain", "lanes", "grid", "weather")
    )
    assert len(early) > queries / 6
    with undisturbed(kills, queries, events=events) as fed, quick_folder() as folder:
        assert read_report(fed.path).parking == ParkingCounts(5, len(early) - 5)
        killed_at_random_instants(fed, folder, kills, kills)


def feed_until(path, fed, seed, out, at):
    """Feed an engine that is killed before its statement or answer number `at`."""
    with open(out, "wb", buffering=0) as file:
        feed(path, fed.lines, seed, file.fileno(), most=12, point=Points(at))


@pytest.mark.parametrize("step", [40, *(pytest.param(step, marks=pytest.mark.slow) for step in (5, 1))])
def test_an_engine_that_is_killed_before_any_of_its_statements(folder, step):
    at, code = 1 - step, -signal.SIGKILL
    with undisturbed(1, 24, keys=8) as fed:
        while code:
            assert code == -signal.SIGKILL
            at += step
            path, out = folder / f"{at}.db", folder / f"{at}.jsonl"
            code = in_child(partial(feed_until, path, fed, 5, out, at))
            assert_nothing_happened(fed, path, [out], feed(path, fed.lines, at))
    assert at > 100


STREAM = """
from onlinecal.engine.engine import Engine
from onlinecal.simulations.cli.console import main
Engine.__init__.__kwdefaults__["states_behind"] = 300
main()
"""


@contextlib.contextmanager
def stream(folder, rng, out):
    """The command `onlinecal stream` at work on the folder's events, from a file or through a pipe."""
    command = [sys.executable, "-c", STREAM, "stream", "--ledger", str(folder / "ledger.db"), "--quiet"]
    command += ["--batch", str(rng.randint(1, 60)), "--hot-keys", "4"]
    if rng.random() < 0.5:
        command += ["--input", str(folder / "events.jsonl")]
    with contextlib.ExitStack() as stack:
        cat = subprocess.Popen(["cat", str(folder / "events.jsonl")], stdout=subprocess.PIPE)
        pipe = stack.enter_context(stack.enter_context(cat).stdout)
        streams = {"stdin": pipe, "stdout": stack.enter_context(open(out, "wb")), "stderr": subprocess.PIPE}
        yield stack.enter_context(subprocess.Popen(command, **streams))


def killed_commands(fed, folder, seed, kills):
    """Kill the command again and again, at its start and at work, then let it come to its end."""
    rng, outs = random.Random(seed), []
    (folder / "events.jsonl").write_bytes(b"\n".join(fed.lines) + b"\n")
    Engine(folder / "ledger.db", CONFIG).close()
    for _ in range(kills):
        outs.append(folder / f"{len(outs)}.jsonl")
        with stream(folder, rng, outs[-1]) as process:
            if rng.random() < 0.8:
                while process.poll() is None and not outs[-1].stat().st_size:
                    time.sleep(0.005)
            time.sleep(rng.random() ** 2 * 0.8)
            process.kill()
    with stream(folder, rng, folder / "last.jsonl") as process:
        _, errors = process.communicate()
        # from an empty cache the kernels are compiled by the first one that is not killed
        errors = [line for line in errors.splitlines() if not line.startswith(b"onlinecal: compiling")]
        assert (process.returncode, errors) == (0, [])
    assert_nothing_happened(fed, folder / "ledger.db", outs, (folder / "last.jsonl").read_bytes())


@pytest.mark.slow
def test_a_command_that_is_killed(fed, folder):
    killed_commands(fed, folder, seed=0, kills=2)


@pytest.mark.slow
def test_a_command_that_is_killed_two_hundred_times():
    with undisturbed(2, 8000, keys=60) as fed:
        for seed in range(10):
            with quick_folder() as folder:
                killed_commands(fed, folder, seed, kills=20)


def resumed_after(fed, folder, seed, kills):
    """Kill the command that goes on with --resume again and again: each run answers what comes next, once."""
    rng, answers, done, end = random.Random(seed), fed.answers, 0, b""
    file, ledger = folder / "events.jsonl", folder / "ledger.db"
    Engine(ledger, CONFIG).close()
    file.touch()
    for number in range(kills + 1):
        # the file grows, up to inside of a line
        held, lines = file.stat().st_size, b"\n".join(fed.lines) + b"\n"
        more = len(lines) if number == kills else held + rng.randrange(len(lines) // (kills // 2 + 1))
        with open(file, "ab") as appended:
            appended.write(lines[held:more])
        command = [sys.executable, "-c", STREAM, "stream", "--ledger", str(ledger), "--quiet", "--resume"]
        command += ["--batch", str(rng.randint(1, 60)), "--hot-keys", "4", "--input", str(file)]
        out = folder / f"{number}.jsonl"
        with open(out, "wb") as answered, subprocess.Popen(command, stdout=answered) as process:
            if number < kills:
                while process.poll() is None and not out.stat().st_size and rng.random() < 0.9:
                    time.sleep(0.02)
                time.sleep(rng.random() ** 2 * 0.2)
                process.kill()
        told = out.read_bytes()
        # what was in the ledger when it was killed is not given again
        place = answers.find(told, done)
        assert place >= done
        done, end = place + len(told), told
        done -= len(told) - (told.rfind(b"\n") + 1)
    assert process.returncode == 0
    assert answers.endswith(end)
    assert_same_ledgers(ledger, fed.path)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [6, 60])
def test_a_command_that_is_killed_and_resumes_judges_nothing_twice(kills):
    with undisturbed(3, 100 * kills, keys=40) as fed, quick_folder() as folder:
        resumed_after(fed, folder, kills, kills)


def asked_until_killed(port, batches, answers, process, rng):
    """Send batches that are not answered yet, until the server is killed at some moment."""
    end = time.monotonic() + rng.random() ** 2 * 0.5 if rng is not None else None
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as server:
        while len(answers) < len(batches):
            if end is not None:
                threading.Timer(max(0.0, end - time.monotonic()), process.kill).start()
                end = None
            server.request("POST", "/events", batches[len(answers)])
            answers.append(server.getresponse().read())


def served_after(fed, folder, seed, kills):
    """Kill the server again and again, and send what it did not answer again."""
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    rng, answers, ledger = random.Random(seed), list[bytes](), folder / "ledger.db"
    parts = list(batches(rng, fed.lines, 30))
    Engine(ledger, CONFIG).close()
    for number in range(kills + 1):
        command = [sys.executable, "-c", STREAM, "stream", "serve", "--ledger", str(ledger), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            found = re.search(r"listening on http://127.0.0.1:(\d+)", process.stderr.readline())
            with contextlib.suppress(OSError, http.client.HTTPException):
                last = number == kills
                asked_until_killed(int(found[1]), parts, answers, process, None if last else rng)
            process.kill()
    assert b"".join(answers) == fed.answers
    assert_same_ledgers(ledger, fed.path)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [5, 60])
def test_a_server_that_is_killed_answers_what_is_sent_again_as_if_nothing_had_happened(kills):
    with undisturbed(4, 120 * kills, keys=40) as fed, quick_folder() as folder:
        served_after(fed, folder, kills, kills)
