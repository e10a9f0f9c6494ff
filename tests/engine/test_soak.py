"""A very long day: what memory the engine has must not grow with the ledger; what an event takes is printed.

ONLINECAL_SOAK is the number of events of the long version, 10^8 if it is not set; it takes a core for half an
hour, and 55 bytes an event of disk in the folder for temporary files (`-s` shows how far it is).
"""

from __future__ import annotations

import os
import resource
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from onlinecal.engine import Engine, Query, read_report

EVENTS = int(os.environ.get("ONLINECAL_SOAK", "100000000"))
BLOCK = 4_096
"""Queries of a batch; about as many outcomes come with them."""

LATE = 40
"""Batches after which the last outcomes of a batch have come."""


def flood(queries: int, keys: int, seed: int = 0) -> Iterator[bytes]:
    """Batches of lines: queries of random keys with hints, and their outcomes up to LATE batches later."""
    rng = np.random.default_rng(seed)
    chances = rng.random(keys)
    due: deque[list[str]] = deque([] for _ in range(LATE + 1))
    asked = 0
    while asked < queries or any(due):
        count = min(BLOCK, queries - asked)
        key = np.minimum(keys * rng.random(count) ** 2, keys - 1).astype(np.int64)
        hints = np.round(np.clip(chances[key] + rng.normal(0, 0.1, count), 0, 1), 3).tolist()
        values = (rng.random(count) < chances[key]).astype(int).tolist()
        after = np.minimum(1 + rng.exponential(1.2, count), LATE).astype(int).tolist()
        lines = [
            f'{{"type":"query","id":"q{asked + i}","key":"sensor/{k}","hint":{hint},"time":{asked + i}}}'
            for i, (k, hint) in enumerate(zip(key.tolist(), hints, strict=True))
        ]
        for i, (value, later) in enumerate(zip(values, after, strict=True)):
            due[later].append(
                f'{{"type":"outcome","id":"q{asked + i}","value":{value},"time":{asked + i + BLOCK * later}}}'
            )
        due.append([])
        lines += due.popleft()
        asked += count
        if lines:
            yield ("\n".join(lines) + "\n").encode()


def resident() -> float:
    """MiB of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.parametrize(
    "events, keys, hot_keys",
    [
        (100_000, 500, 20_000),
        (60_000, 500, 100),
        pytest.param(EVENTS, 10_000, 20_000, marks=[pytest.mark.slow, pytest.mark.timeout(0)]),
    ],
)
def test_memory_and_time_do_not_grow_with_the_ledger(tmp_path, events, keys, hot_keys):
    ledger, done, number, told = tmp_path / "ledger.db", 0, 0, 0
    began, memory = time.perf_counter(), []
    with Engine(ledger, hot_keys=hot_keys) as engine:
        batches: list[float] = []
        alone: list[float] = []
        for number, data in enumerate(flood(events // 2, keys)):
            start = time.thread_time()
            answers = engine.handle_lines(data)
            batches.append((time.thread_time() - start) / data.count(b"\n"))
            assert b'"rejected"' not in answers
            done += answers.count(b"\n")
            start = time.perf_counter()
            engine.handle([Query(f"single{number}", f"sensor/{number % keys}", 0.5)])
            alone.append(time.perf_counter() - start)
            if done >= (told + 1) * events // 20 or done == events // 2 * 2:
                told = done * 20 // events
                memory.append(resident())
                each, one = (np.percentile(times, [50, 90, 99]) for times in (batches, alone))
                print(
                    f"{done:,} events, {(time.perf_counter() - began) / 60:.1f} min, {memory[-1]:.0f} MiB; "
                    "us of processor an event of a batch, p50 p90 p99: {:.1f} {:.1f} {:.1f}; ".format(
                        *1e6 * each
                    )
                    + "ms on the clock of one alone: {:.1f} {:.1f} {:.1f}; ".format(*1e3 * one)
                    + f"ledger {ledger.stat().st_size / 2**20:,.0f} MiB, "
                    f"load average {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
                batches, alone = [], []
        total = engine.total()
    assert done == events // 2 * 2
    assert (total.rounds, total.open, total.keys) == (events // 2, number + 1, keys)
    start = time.perf_counter()
    assert read_report(ledger).total.rounds == events // 2
    print(f"report: {time.perf_counter() - start:.1f} s")
    # SQLite's pages and remembered promises reach their bounds in the first quarter or soon after. The grid
    # of a key gets finer with its rounds, to 4 KiB and as much room; 2 bytes an event lost would be more.
    assert max(memory) - memory[len(memory) // 4] < 24 + keys * 8 / 1024
