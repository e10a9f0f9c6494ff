"""Slow and plain versions of the measures, to compare with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st


def set_partitions(items):
    """Every way to split a list into non-empty sets."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for partition in set_partitions(rest):
        for i in range(len(partition)):
            yield [*partition[:i], [first, *partition[i]], *partition[i + 1 :]]
        yield [[first], *partition]


def distance_by_set_partitions(p, y):
    """The distance over all set partitions of the rounds; `y` are outcomes, shares, or rows of weights."""
    p, y = np.asarray(p, dtype=float), np.asarray(y, dtype=float)
    return min(
        sum(float(np.abs(p[level] - y[level].mean(axis=0)).sum()) for level in partition)
        for partition in set_partitions(list(range(len(p))))
    )


def assert_calibrated_at(result, p, y):
    """The witness is perfectly calibrated in exact arithmetic and at the distance `upper`."""
    members: dict[float, list[int]] = {}
    for value, outcome in zip(result.witness.tolist(), y, strict=True):
        members.setdefault(value, []).append(int(outcome))
    fractions = {value: Fraction(sum(labels), len(labels)) for value, labels in members.items()}
    assert len(set(fractions.values())) == len(fractions)
    for value, fraction in fractions.items():
        assert value == float(fraction)
    moved = float(np.abs(np.asarray(p, dtype=float) - result.witness).sum())
    assert abs(moved - result.upper) <= 1e-9 * max(1, len(p))


def histories(max_rounds, min_rounds=1):
    """Forecasts (often tied, often 0 or 1) with outcomes."""
    anywhere = st.floats(0.0, 1.0, allow_subnormal=False)
    on_a_grid = st.integers(0, 6).map(lambda i: i / 6)
    value = st.one_of(on_a_grid, on_a_grid, anywhere)
    return st.lists(st.tuples(value, st.integers(0, 1)), min_size=min_rounds, max_size=max_rounds).map(
        lambda rounds: ([v for v, _ in rounds], [o for _, o in rounds])
    )


def look_ahead_run(outcome_of, n_rounds, m):
    """Almost-One-Step-Ahead with the balanced rule on a grid of m cells and midpoint reports.

    outcome_of(t, forecast) plays the other side. Returns forecasts, outcomes and charged points.
    """
    biases = [0] * (m + 1)  # in units of 1/m, as whole numbers

    def accepts_one(i):
        return 2 * biases[i] > m - 2 * i

    cell = m // 2
    forecasts, outcomes, charged = np.empty(n_rounds), np.empty(n_rounds, dtype=np.uint8), np.empty(n_rounds)
    for t in range(n_rounds):
        while accepts_one(cell):
            cell -= 1
        while not accepts_one(cell + 1):
            cell += 1
        forecasts[t] = (2 * cell + 1) / (2 * m)
        outcomes[t] = outcome_of(t, forecasts[t])
        point = cell + int(outcomes[t])
        biases[point] += point - m * int(outcomes[t])
        charged[t] = point / m
    return forecasts, outcomes, charged
