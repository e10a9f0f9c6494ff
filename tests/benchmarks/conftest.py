"""Speed as ratios: what is measured and what it is measured against run in turn, in one process."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest

LINES: list[str] = []
"""What a run of the benchmarks prints at its end."""


NUMBERS = np.random.default_rng(0).random(10**6)


def seconds(call, clock=time.process_time):
    """What a call takes of the processor, which other processes cannot make much longer."""
    start = clock()
    call()
    return clock() - start


def sort_million():
    """A unit of work that every machine has: numpy sorts a million random numbers."""
    np.sort(NUMBERS)


@pytest.fixture
def compare(request):
    """compare(call, baseline, at_most): asserts how many times as long one takes as the other.

    Both are timed in turn, in processor time; what counts is the least of all rounds on either side. The
    bounds leave a margin of about one half for other processors. With `less`, the time of that call is taken
    off: what is compared is what `call` adds to it. `setup` makes the arguments of `call`, untimed.
    """

    def run(call, baseline, at_most, *, rounds=7, setup=tuple, less=None):
        pairs = []
        for _ in range(rounds):
            below = seconds(baseline)
            alone = seconds(less) if less else 0.0
            arguments = setup()
            pairs.append((seconds(partial(call, *arguments)) - alone, below))
        mine, theirs = np.array(pairs).min(axis=0)
        times = f"{mine:9.4f} s / {theirs:9.4f} s = {mine / theirs:7.3f}"
        LINES.append(f"{request.node.name:75s} {times}, at most {at_most:g}")
        assert mine <= at_most * theirs, LINES[-1]

    return run


@pytest.fixture(scope="session")
def note():
    """note(line): a line of the closing table of qualities."""
    return LINES.append


def pytest_collection_modifyitems(items):
    for item in items:
        if "benchmarks" in str(item.path):
            item.add_marker(pytest.mark.speed)


def pytest_terminal_summary(terminalreporter):
    if LINES:
        terminalreporter.section("measured")
    for line in LINES:
        terminalreporter.write_line(line)
