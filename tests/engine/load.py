"""A flood of events for the command `onlinecal stream`, and what it takes to answer it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np


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
