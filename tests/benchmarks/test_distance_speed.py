"""The distance against a lattice in numpy, the exact one against "auto", the lower one against HiGHS."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array

from onlinecal import AlmostOneStepAhead
from onlinecal.measures import calibration_distance, lower_calibration_distance

CELLS = {"distinct": None, "cells of .01": 0.01, "cells of .05": 0.05, "cells of .1": 0.1}


def history(kind, n_rounds, biased=False):
    rng = np.random.default_rng([n_rounds, biased])
    if kind == "one step ahead":
        forecaster, forecasts = AlmostOneStepAhead(), []
        outcomes = rng.random(n_rounds) < 0.5 + 0.4 * biased * np.sin(6 * np.arange(n_rounds) / n_rounds)
        for outcome in outcomes.tolist():
            forecast = forecaster.forecast()
            forecasts.append(forecast.probability)
            forecaster.observe(forecast, outcome)
        return np.array(forecasts), outcomes
    forecasts = rng.random(n_rounds)
    if CELLS[kind]:
        forecasts = np.round(forecasts / CELLS[kind]) * CELLS[kind]
    return forecasts, rng.random(n_rounds) < forecasts * (0.8 if biased else 1.0)


def lattice_in_numpy(p, y):
    """The dynamic program over (zeros used, ones used): each primitive level set from all points at once."""
    zeros, ones = np.sort(p[~y]), np.sort(p[y])
    n, m = len(zeros), len(ones)
    sums = [np.concatenate([[0.0], np.cumsum(rounds)]) for rounds in (zeros, ones)]
    best = np.full((n + 1, m + 1), np.inf)
    best[0, 0] = 0.0
    steps = [(r, s) for r in range(n + 1) for s in range(m + 1) if math.gcd(r, s) == 1]
    for r, s in sorted(steps, key=lambda step: step[1] / sum(step)):
        value, parts = s / (r + s), []
        for rounds, total, size in ((zeros, sums[0], r), (ones, sums[1], s)):
            first = np.arange(len(rounds) + 1 - size)
            middle = np.clip(np.searchsorted(rounds, value, side="right"), first, first + size)
            parts.append(
                value * (2 * middle - 2 * first - size)
                - 2 * total[middle]
                + total[first]
                + total[first + size]
            )
        cost, there = np.add.outer(*parts), best[r:, s:]
        while True:
            reached = best[: n + 1 - r, : m + 1 - s] + cost
            if not (reached < there - 1e-15).any():
                break
            np.minimum(there, reached, out=there)
    return best[-1, -1]


@pytest.mark.parametrize(("n_rounds", "at_most"), [(200, 0.06), (400, 0.06), (600, 0.08)])
@pytest.mark.parametrize("kind", [*CELLS, "one step ahead"])
@pytest.mark.parametrize("biased", [False, True])
def test_auto_against_a_lattice_in_numpy(compare, kind, biased, n_rounds, at_most):
    p, y = history(kind, n_rounds, biased)
    assert calibration_distance(p, y).exact == pytest.approx(lattice_in_numpy(p, y), abs=1e-9)
    compare(lambda: calibration_distance(p, y), lambda: lattice_in_numpy(p, y), at_most, rounds=2)


@pytest.mark.parametrize("n_rounds", [200, 600, 1000])
@pytest.mark.parametrize("kind", [*CELLS, "one step ahead"])
def test_exact_against_auto(compare, kind, n_rounds):
    p, y = history(kind, n_rounds)
    assert calibration_distance(p, y).exact is not None
    exact = lambda: calibration_distance(p, y, method="exact")  # noqa: E731
    exact()
    compare(exact, lambda: calibration_distance(p, y), 1.2, rounds=5)


def by_highs(p, y, nodes):
    """The lower distance with masses at these nodes, by a general solver."""
    n, gaps = len(nodes), np.diff(nodes)
    zeros, ones = (np.bincount(np.searchsorted(nodes, p[y == label]), minlength=n) for label in (0, 1))
    node, gap, unit = np.arange(n), np.arange(n - 1), np.ones(n - 1)
    rows, columns, entries = [node, n + node], [node, node], [1 - nodes, nodes]
    for k, sign in enumerate((1.0, -1.0, 1.0, -1.0)):
        row, column = n * (k // 2) + gap, n + k * (n - 1) + gap
        rows += [row, row + 1]
        columns += [column, column]
        entries += [sign * unit, -sign * unit]
    shape = 2 * n, n + 4 * (n - 1)
    balance = csr_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape
    )
    costs = np.concatenate([np.zeros(n), np.tile(gaps, 4)])
    return linprog(costs, A_eq=balance, b_eq=np.concatenate([zeros, ones]), method="highs").fun


@pytest.mark.parametrize("n_rounds", [60, 150, 400, 1000])
@pytest.mark.parametrize("kind", [*CELLS, "one step ahead"])
def test_lower_distance_against_a_general_solver_on_the_same_nodes(compare, kind, n_rounds):
    p, y = history(kind, n_rounds)
    answer = lower_calibration_distance(p, y)
    nodes = np.unique(np.concatenate([[0.0, 1.0], p, answer.values]))
    assert by_highs(p, y, nodes) == pytest.approx(answer.upper, abs=1e-6)
    assert answer.upper - answer.lower <= 1e-5
    compare(lambda: lower_calibration_distance(p, y), lambda: by_highs(p, y, nodes), 1.0, rounds=5)
