"""Speed as ratios: what is measured and what it is measured against run in turn, in one process."""

from __future__ import annotations

import time

import numpy as np
import pytest

LINES: list[str] = []
"""What a run of the benchmarks prints at its end."""


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.fixture
def compare(request):
    """compare(call, baseline, target): times both in turn; the ratio goes into the closing table.

    With `less`, the time of that call is taken off: what is compared is what `call` adds to it.
    """

    def run(call, baseline, target, rounds=7, setup=None, less=None):
        pairs = []
        for _ in range(rounds):
            below = seconds(baseline)
            alone = seconds(less) if less else 0.0
            prepared = setup() if setup else ()
            pairs.append((seconds(lambda prepared=prepared: call(*prepared)) - alone, below))
        mine, theirs = np.array(pairs).T
        ratio = float(np.median(mine / theirs))
        mine, theirs = np.median(mine), np.median(theirs)
        LINES.append(
            f"{request.node.name:75s} {mine:9.4f} s / {theirs:9.4f} s = {ratio:7.3f}   target {target}"
        )

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
