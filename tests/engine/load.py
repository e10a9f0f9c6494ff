"""A flood of events for the command `onlinecal stream`, and what it takes to answer it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from typing import NamedTuple

import msgspec
import numpy as np

from onlinecal.engine import Engine, Query
from onlinecal.engine.events import Incoming

BATCH = 8_192
"""Lines of a transaction, as of `onlinecal stream`."""


class Run(NamedTuple):
    """What a run took: seconds from its start to its end, seconds of the processor, most memory in MiB."""

    wall: float
    cpu: float
    peak: float
    code: int


def write_load(path, queries, keys, late=5_000, seed=0):
    """A query and an outcome for each of so many forecasts; outcomes come late by a random number of events.

    A few keys get many of the queries. Every query has a hint and a time, every outcome a time.
    """
    rng = np.random.default_rng(seed)
    key = np.minimum(keys * rng.random(queries) ** 2, keys - 1).astype(np.int64)
    chance = rng.random(keys)[key]
    hints = np.round(np.clip(chance + rng.normal(0, 0.1, queries), 0, 1), 3).tolist()
    values = (rng.random(queries) < chance).astype(int).tolist()
    due = np.arange(queries) + rng.exponential(late, queries)
    order = np.argsort(np.concatenate([np.arange(queries), due]), kind="stable").tolist()
    with open(path, "w") as file:
        for i, one in enumerate(order):
            if one < queries:
                file.write(
                    f'{{"type":"query","id":"q{one}","key":"sensor/{key[one]}","hint":{hints[one]},'
                    f'"time":{i}}}\n'
                )
            else:
                one -= queries
                file.write(f'{{"type":"outcome","id":"q{one}","value":{values[one]},"time":{i}}}\n')


def command(ledger, *arguments):
    """The command line of a quiet run."""
    run = "from simulations.cli.console import main; main()"
    return [sys.executable, "-c", run, "stream", "--ledger", str(ledger), "--quiet", *map(str, arguments)]


def on_one_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(ledger, source, out, *arguments, kill_after=None):
    """Pipe a file through the command, which gets one core; or kill it after so many seconds."""
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
    wall = time.perf_counter() - began
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, process.returncode)


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
