"""Engines that are killed, at any place and any moment, and started again with the same input."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from onlinecal.engine import Engine
from tests.engine.scripts import (
    CONFIG,
    CONFIG_TOML,
    assert_counted_once,
    assert_same_ledgers,
    batches,
    lines_of,
    quick_folder,
    script,
)

SMALL = {"hot_keys": 4, "window": 150}
"""So that states are written and keys evicted all the time."""


class Fed(NamedTuple):
    """A ledger that took all its input without being disturbed, and what it answered."""

    lines: list[bytes]
    path: str
    answers: bytes


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


def undisturbed(folder, seed, queries, keys=30):
    lines = lines_of(script(seed, queries, keys))
    path = folder / "undisturbed.db"
    return Fed(lines, path, feed(path, lines, seed))


@pytest.fixture(scope="module")
def fed():
    with quick_folder() as folder:
        yield undisturbed(folder, 0, 700)


@pytest.fixture(scope="module")
def fed_much():
    with quick_folder() as folder:
        yield undisturbed(folder, 0, 1500)


@pytest.fixture(scope="module")
def fed_little():
    with quick_folder() as folder:
        yield undisturbed(folder, 1, 24, keys=8)


@contextlib.contextmanager
def child(work, out):
    """The process id of a copy of this process that does the work, with a file to write answers to."""
    with open(out, "wb", buffering=0) as file:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                work(file.fileno())
                os._exit(0)
            os._exit(1)
        yield pid


def ended(pid):
    """Wait for a child: True if it came to its end, False if it was killed."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def assert_nothing_happened(fed, path, outs, last):
    """No answer was ever another one, and in the end everything is as if nothing had happened."""
    for out in outs:
        assert fed.answers.startswith(out.read_bytes())
    assert last == fed.answers
    assert_counted_once(path, last)
    assert_same_ledgers(path, fed.path)


def killed_at_random_instants(fed, folder, seed, kills):
    """Kill copies of this process until there were enough kills, then let one come to its end."""
    rng, path, outs, killed = random.Random(seed), folder / "ledger.db", [], 0
    began = time.perf_counter()
    feed(folder / "timed.db", fed.lines, seed)
    whole = time.perf_counter() - began
    while killed < kills:
        outs.append(folder / f"{len(outs)}.jsonl")
        start = rng.random()
        with child(lambda out, seed=start: feed(path, fed.lines, seed, out), outs[-1]) as pid:
            time.sleep(rng.random() ** 2 * whole)
            os.kill(pid, signal.SIGKILL)
            killed += not ended(pid)
        if rng.random() < 0.1:
            path.unlink(missing_ok=True)
            for end in ("-wal", "-shm"):
                folder.joinpath(f"ledger.db{end}").unlink(missing_ok=True)
    assert_nothing_happened(fed, path, outs, feed(path, fed.lines, seed))
    return killed


def test_an_engine_that_is_killed_at_random_instants(fed, folder):
    killed_at_random_instants(fed, folder, seed=0, kills=6)


@pytest.mark.slow
def test_an_engine_that_is_killed_at_many_random_instants(fed_much):
    kills = 0
    for seed in range(10):
        with quick_folder() as folder:
            kills += killed_at_random_instants(fed_much, folder, seed, kills=30)
    print(f"\n{kills} kills at random instants")


def killing_itself(at):
    """A function that kills its process when it is called for the time `at`."""
    calls = 0

    def point(*_):
        nonlocal calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return point


def feed_until(path, fed, seed, out, at):
    """Feed an engine that is killed before its statement or answer number `at`."""
    point, connect = killing_itself(at), sqlite3.connect

    def traced(*arguments, **settings):
        connection = connect(*arguments, **settings)
        connection.set_trace_callback(point)
        return connection

    sqlite3.connect = traced
    feed(path, fed.lines, seed, out, most=12, point=point)


def killed_before_statements(fed_little, folder, step):
    """Kill copies of this process before every `step`-th statement or answer; how many there are of these."""
    at, alive = 1 - step, False
    while not alive:
        at += step
        path, out = folder / f"{at}.db", folder / f"{at}.jsonl"
        with child(lambda out, path=path, at=at: feed_until(path, fed_little, 5, out, at), out) as pid:
            alive = ended(pid)
        assert_nothing_happened(fed_little, path, [out], feed(path, fed_little.lines, at))
    return at


def test_an_engine_that_is_killed_before_every_third_of_its_statements(fed_little, folder):
    assert killed_before_statements(fed_little, folder, 3) > 100


@pytest.mark.slow
def test_an_engine_that_is_killed_before_each_of_its_statements(fed_little, folder):
    assert killed_before_statements(fed_little, folder, 1) > 100


@pytest.mark.slow
def test_an_engine_that_is_killed_again_and_again_before_any_statement(fed_much, folder):
    rng, kills = random.Random(7), 0
    for chain in range(12):
        path, outs = folder / f"{chain}.db", []
        for _ in range(25):
            outs.append(folder / f"{chain}-{len(outs)}.jsonl")
            at = int(rng.expovariate(1 / 2000)) + 1
            work = lambda out, path=path, at=at: feed_until(path, fed_much, at, out, at)  # noqa: E731
            with child(work, outs[-1]) as pid:
                kills += not ended(pid)
        assert_nothing_happened(fed_much, path, outs, feed(path, fed_much.lines, chain))
    print(f"\n{kills} kills before statements")
    assert kills > 200


STREAM = """
from onlinecal.engine.engine import Engine
from simulations.cli.console import main
Engine.__init__.__kwdefaults__["window"] = 300
main()
"""


@contextlib.contextmanager
def stream(folder, rng, out):
    """The command `onlinecal stream` at work on the folder's events, from a file or through a pipe."""
    command = [sys.executable, "-c", STREAM, "stream", "--ledger", str(folder / "ledger.db"), "--quiet"]
    command += ["--config", str(folder / "keys.toml"), "--batch", str(rng.randint(1, 60))]
    command += ["--hot-keys", "4"]
    events = str(folder / "events.jsonl")
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(out, "wb"))
        if rng.random() < 0.5:
            source = subprocess.DEVNULL
            command += ["--input", events]
        else:
            pipe = stack.enter_context(subprocess.Popen(["cat", events], stdout=subprocess.PIPE))
            source = pipe.stdout
        process = stack.enter_context(
            subprocess.Popen(command, stdin=source, stdout=file, stderr=subprocess.PIPE)
        )
        if source is not subprocess.DEVNULL:
            source.close()
        yield process


def killed_commands(fed, folder, seed, kills):
    """Kill the command again and again, at its start and at work, then let it come to its end."""
    rng, outs = random.Random(seed), []
    (folder / "events.jsonl").write_bytes(b"\n".join(fed.lines) + b"\n")
    (folder / "keys.toml").write_text(CONFIG_TOML)
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


def test_a_command_that_is_killed(fed, folder):
    killed_commands(fed, folder, seed=0, kills=2)


@pytest.mark.slow
def test_a_command_that_is_killed_two_hundred_times(folder):
    fed = undisturbed(folder, 2, 8000, keys=60)
    for seed in range(10):
        part = folder / str(seed)
        part.mkdir()
        killed_commands(fed, part, seed, kills=20)
