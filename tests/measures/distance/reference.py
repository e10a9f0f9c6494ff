"""Slow and plain versions of the measures, to compare with."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate

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


def distance_by_rationals(p, y):
    """The exact distance as a fraction, by dynamic programming over the lattice of (zeros used, ones used).

    All numbers are whole multiples of one unit: a float is a multiple of 2^-1074, a value of a level set one
    of 1/L, for L the least common multiple of the sizes.
    """
    common = math.lcm(*range(1, len(p) + 1))
    whole = 2**1074 * common
    zeros, ones = (
        sorted(int(Fraction(v) * whole) for v, o in zip(p, y, strict=True) if o == label) for label in (0, 1)
    )
    n0, n1 = len(zeros), len(ones)
    best = {(0, 0): 0}
    steps = [(r, s) for r in range(n0 + 1) for s in range(n1 + 1) if math.gcd(r, s) == 1]
    for r, s in sorted(steps, key=lambda step: Fraction(step[1], sum(step))):
        value = whole * s // (r + s)
        to_zeros, to_ones = ([0, *accumulate(abs(v - value) for v in rounds)] for rounds in (zeros, ones))
        for a in range(n0 + 1 - r):
            for b in range(n1 + 1 - s):
                if (a, b) in best:
                    cost = to_zeros[a + r] - to_zeros[a] + to_ones[b + s] - to_ones[b]
                    reached, point = best[a, b] + cost, (a + r, b + s)
                    if point not in best or reached < best[point]:
                        best[point] = reached
    return Fraction(best[n0, n1], whole)


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


AWKWARD = (0.0, 5e-324, 1e-310, 1e-16, 1 / 3, 0.5, 2 / 3, 1 - 1e-16, 1.0)


def awkward_histories(seed, how_many, most_rounds):
    """Histories with ties, subnormals, neighbours of fractions, one value, and one outcome only."""
    rng = np.random.default_rng(seed)
    for kind in rng.integers(0, 7, how_many).tolist():
        n = int(rng.integers(1, most_rounds + 1))
        p = rng.random(n)
        if kind == 1:
            p = rng.integers(0, 7, n) / 6
        elif kind == 2:
            p = rng.choice(AWKWARD, n)
        elif kind == 3:
            p = np.nextafter(np.full(n, rng.choice([0.5, 1 / 3, 0.2])), rng.integers(0, 2, n).astype(float))
        elif kind == 4:
            p = np.full(n, p[0])
        elif kind == 5:
            p = p * 10.0 ** -rng.integers(0, 320, n).astype(float)
        elif kind == 6:
            p = np.clip(0.5 + rng.normal(0.0, 10.0 ** -float(rng.integers(0, 15)), n), 0.0, 1.0)
        yield p, (rng.random(n) < rng.choice([0.0, 0.2, 0.5, 0.8, 1.0])).astype(int)
