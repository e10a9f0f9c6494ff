"""A flood of events with late outcomes, and what it takes to answer it by the command `onlinecal stream`."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace

import msgspec
import numpy as np

from onlinecal.engine import Engine, Query
from onlinecal.engine.events import Incoming

BATCH = 8_192
"""Lines of a transaction, as of `onlinecal stream`."""
BLOCK = 4_096
"""Queries of a block of the flood; about as many outcomes come with them."""
LATE = 40
"""Blocks after which the last outcomes of a block have come."""


def flood(queries: int, keys: int) -> Iterator[bytes]:
    """Blocks of lines: queries with hints, a few keys get many of them; their outcomes come up to LATE blocks
    later. Every event has a time."""
    rng, asked = np.random.default_rng(0), 0
    chances = rng.random(keys)
    due: deque[list[str]] = deque([] for _ in range(LATE + 1))
    while asked < queries or any(due):
        count = min(BLOCK, queries - asked)
        key = np.minimum(keys * rng.random(count) ** 2, keys - 1).astype(np.int64)
        hints = np.round(np.clip(chances[key] + rng.normal(0, 0.1, count), 0, 1), 3).tolist()
        values = (rng.random(count) < chances[key]).astype(int).tolist()
        after = np.minimum(rng.exponential(1.2, count), LATE).astype(int).tolist()
        rows = zip(range(asked, asked + count), key.tolist(), hints, values, after, strict=True)
        lines = []
        for i, k, hint, value, later in rows:
            lines.append(f'{{"type":"query","id":"q{i}","key":"sensor/{k}","hint":{hint},"time":{i}}}\n')
            time = i + BLOCK * later
            due[later].append(f'{{"type":"outcome","id":"q{i}","value":{value},"time":{time}}}\n')
        lines += due.popleft()
        due.append([])
        asked += count
        yield "".join(lines).encode()


def write_load(path, queries, keys):
    """A file with a flood."""
    with open(path, "wb") as file:
        file.writelines(flood(queries, keys))


def command(ledger, *arguments):
    """The command line of a quiet run."""
    run = "from onlinecal.simulations.cli.console import main; main()"
    return [sys.executable, "-c", run, "stream", "--ledger", str(ledger), "--quiet", *map(str, arguments)]


def on_one_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(ledger, source, out, *arguments, kill_after=None):
    """Pipe a file through the command, which gets one core; or kill it after so many seconds.

    What it took: seconds from its start to its end, seconds of the processor, most memory in MiB; its code.
    """
    began = time.perf_counter()
    with open(source, "rb") as events, open(out, "wb") as answers:
        process = subprocess.Popen(
            command(ledger, *arguments), stdin=events, stdout=answers, preexec_fn=on_one_core
        )
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(process.pid, signal.SIGKILL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return SimpleNamespace(
        wall=time.perf_counter() - began,
        cpu=used.ru_utime + used.ru_stime,
        peak=used.ru_maxrss / 1024,
        code=process.returncode,
    )


def batches(path):
    """The lines of a file, as many together as are one transaction."""
    with open(path, "rb") as file:
        lines = file.readlines()
    return [b"".join(lines[start : start + BATCH]) for start in range(0, len(lines), BATCH)]


def plain_loop(path, parts):
    """What a ledger costs at least: decode each line, insert one row with a unique id, commit."""
    decode = msgspec.json.Decoder(Incoming).decode
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute(
            "CREATE TABLE events (number INTEGER PRIMARY KEY, id TEXT NOT NULL, asks, value, time REAL,"
            " UNIQUE (id, asks))"
        )
        number = 0
        for part in parts:
            rows = []
            for line in part.splitlines():
                event, number = decode(line), number + 1
                asks = type(event) is Query
                rows.append((number, event.id, asks, event.hint if asks else event.value, event.time))
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")


def engine_loop(path, parts, hot_keys):
    """The same lines through the engine, with answers; not the states written at its end."""
    engine = Engine(path, hot_keys=hot_keys)
    for part in parts:
        engine.handle_lines(part)
    engine._ledger.close()
