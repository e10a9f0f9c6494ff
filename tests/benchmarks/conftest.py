"""Speed as ratios: what is measured and what it is measured against run in turn, in one process."""

from __future__ import annotations

import time

import numpy as np
import pytest

LINES: list[str] = []
"""What a run of the benchmarks prints at its end."""


def seconds(call, clock=time.perf_counter):
    start = clock()
    call()
    return clock() - start


@pytest.fixture
def compare(request):
    """compare(call, baseline, target): times both in turn; the ratio goes into the closing table.

    With `less`, the time of that call is taken off: what is compared is what `call` adds to it. With
    `at_most` it is asserted, in processor time: the least of all rounds on both sides, which others cannot
    make longer.
    """

    def run(call, baseline, target=None, rounds=7, setup=None, less=None, at_most=None):
        pairs, clock = [], time.perf_counter if at_most is None else time.process_time
        for _ in range(rounds):
            below = seconds(baseline, clock)
            alone = seconds(less, clock) if less else 0.0
            prepared = setup() if setup else ()
            pairs.append((seconds(lambda prepared=prepared: call(*prepared), clock) - alone, below))
        mine, theirs = np.array(pairs).T
        least = float(mine.min() / theirs.min())
        target = target or f"at most {at_most:g}, asserted of the least: {least:.3f}"
        ratio = float(np.median(mine / theirs))
        mine, theirs = np.median(mine), np.median(theirs)
        LINES.append(
            f"{request.node.name:75s} {mine:9.4f} s / {theirs:9.4f} s = {ratio:7.3f}   target {target}"
        )
        assert at_most is None or least <= at_most, LINES[-1]

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
