"""Speed as ratios: what is measured and what it is measured against run in turn, in one process."""

from __future__ import annotations

import json
import time
from functools import partial

import numpy as np
import pytest

from tests import DATA

LINES: list[str] = []
"""What a run of the benchmarks prints at its end."""


NUMBERS = np.random.default_rng(0).random(10**6)


def timed(call, clock=time.process_time):
    """What a call takes, and its answer: of the processor, whom other processes cannot make much slower."""
    start = clock()
    answer = call()
    return clock() - start, answer


def seconds(call):
    """Of the processor."""
    return timed(call)[0]


def sort_million():
    """A unit of work that every machine has: numpy sorts a million random numbers.

    It merges them. The other ways of numpy use vector instructions: some processors have none that help, and
    where they do help, times of one process differ by a third.
    """
    np.sort(NUMBERS, kind="stable")


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


def recorded(folder, table="rivals.json"):
    """Of each stream in shared/data: name, forecasts (T,) or (T, k), outcomes, scores of its rivals."""
    path = DATA / folder / table
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{folder}")
    for name, rivals in sorted(json.loads(path.read_text()).items()):
        stream = np.load(path.with_name(f"{name}.npz"))
        p = stream["P" if "P" in stream else "p"].astype(float)
        yield name, p / p.sum(1, keepdims=True) if p.ndim == 2 else p, stream["y"].astype(int), rivals


def above_rivals(own, rivals):
    """By how many percent Brier score and log loss are above those of the best rival."""
    best = {kind: min(rival[kind] for rival in rivals.values()) for kind in ("brier", "log")}
    return [100.0 * (own[kind] / best[kind] - 1.0) for kind in best]


def pytest_collection_modifyitems(items):
    for item in items:
        if "benchmarks" in str(item.path):
            item.add_marker(pytest.mark.speed)


def pytest_terminal_summary(terminalreporter):
    if LINES:
        terminalreporter.section("measured")
    for line in LINES:
        terminalreporter.write_line(line)
