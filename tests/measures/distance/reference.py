"""Slow and plain versions of the measures, to compare with."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead


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

    @cache
    def cost(level):
        some = list(level)
        return float(np.abs(p[some] - y[some].mean(axis=0)).sum())

    return min(sum(cost(tuple(level)) for level in one) for one in set_partitions(list(range(len(p)))))


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
    """Forecasts on a grid of m cells, outcomes, and the points of the grid that rounds are charged to.

    outcome_of(t, forecast) plays the other side.
    """
    forecaster = AlmostOneStepAhead(n_cells=m)
    forecasts, outcomes = np.empty(n_rounds), np.empty(n_rounds, dtype=np.uint8)
    for t in range(n_rounds):
        forecasts[t] = forecaster.predict_proba_one({})[True]
        outcomes[t] = outcome_of(t, forecasts[t])
        forecaster.learn_one({}, int(outcomes[t]))
    return forecasts, outcomes, (np.floor(forecasts * m) + outcomes) / m
