"""The computed biases of the labels: section 3 of docs/theory-simplex.md, against the plain reference."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb, gcd

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.biases import (
    LAST_TABLED,
    TABLED_POWERS,
    bias_bound,
    bias_formula,
    point_bound,
    point_swing,
    swing_bound,
)
from onlinecal.forecasters.simplex.guarantees import cells_for, reach, uniform_guarantee
from tests.forecasters.simplex.label_biases import LAST, POWERS, summed
from tests.forecasters.simplex.play import outcomes_of
from tests.forecasters.simplex.reference import Reference, grid_points


def on_support(s, m):
    """The bound of all points of s classes with weight, from those of all points (inclusion, exclusion)."""
    return sum((-1) ** (s - i) * comb(s, i) * bias_bound(i, m) for i in range(2, s + 1))


@pytest.mark.parametrize(("k", "m"), [(3, 3), (3, 4), (3, 7), (3, 8), (4, 4), (4, 6), (5, 5), (5, 6), (6, 7)])
def test_no_number_of_charges_drives_a_points_bias_beyond_what_is_computed(k, m):
    """Points are charged for longer than the theorem says that they must be looked at."""
    total = Fraction(0)
    for x in grid_points(k, m):
        support = sum(weight > 0 for weight in x)
        if support == k:
            game, largest, last = Reference(k, m), Fraction(0), None
            for _ in range(2 * k * m // gcd(m, *x)):
                last = game.tijdeman(x, last)
                game.counts.setdefault(x, [0] * k)[last] += 1
                largest = max(largest, sum(abs(game.bias(x, j)) for j in range(k)))
            assert largest <= point_bound(k)
            total += largest
    assert total == on_support(k, m)


def test_the_table_is_what_the_machines_rule_gives():
    sizes = [(s, m) for s in range(3, 17) for m in range(s, 13)]
    sizes += [(3, 40), (3, LAST[3]), (4, LAST[4]), (5, 24), (6, 20), (7, 17), (8, 16), (3, POWERS[3][0])]
    for s, m in sizes:
        assert on_support(s, m) == Fraction(summed(s, m), m)


def test_beyond_the_table_the_formula_holds():
    for s, m in [(3, 129), (4, 65), (9, 17), (17, 18), (3, 1024)]:
        assert on_support(s, m) == comb(m - 1, s - 1) * point_bound(s)
    assert bias_bound(4, 20, slack=1.0) == bias_formula(4, 20, 1.0)
    assert bias_bound(4, 20, late=1) == bias_formula(4, 20, None, 1)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 8, 10, 20])
def test_biases_grow_with_the_grid_as_the_choice_of_a_grid_relies_on(k):
    others = [m for m in range(1, LAST_TABLED + 2) if m not in TABLED_POWERS]
    for a, b in pairwise(others):
        assert bias_bound(k, a) <= bias_bound(k, b)
    for m in range(1, 300):
        assert bias_bound(k, m) <= bias_bound(k, 2 * m)


def test_guarantees_are_some_ten_percent_smaller():
    for k, share in [(3, 0.98), (4, 0.91), (5, 0.92), (6, 0.92)]:
        for horizon in (10**5, 10**6):
            before = min(horizon * reach(k, m) / m + bias_formula(k, m) for m in range(1, 150))
            assert uniform_guarantee(horizon, k, cells_for(horizon, k)) < (share + 0.01) * before


def test_hints_without_slack_leave_the_labels_what_they_are():
    """So the computed biases bound them, too; with late labels it is the formula's that do."""
    rng = np.random.default_rng(4)
    forecaster = SimplexAlmostOneStepAhead(4, n_cells=3, report="barycentre", hints=True)
    forecaster.replay(outcomes_of("drift", 4, 600, 4), rng.dirichlet(np.full(4, 0.4), 600))
    spread = np.abs(forecaster.look_ahead.biases).sum()
    assert spread <= bias_bound(4, 3) < bias_formula(4, 3)
    assert forecaster.guarantee == pytest.approx(float(uniform_guarantee(600, 4, 3)))
    tokens = [forecaster.forecast() for _ in range(2)]
    for token in tokens:
        forecaster.observe(token, 0)
    assert forecaster.guarantee > float(uniform_guarantee(602, 4, 3) + bias_formula(4, 3) - bias_bound(4, 3))


STRETCHES = [(3, 6, None), (4, 4, None), (5, 3, None), (3, 3, 1.0), (4, 4, 2.0)]


@pytest.mark.parametrize(("k", "m", "slack"), STRETCHES)
def test_in_no_stretch_of_rounds_do_biases_move_by_more_than_the_bound(k, m, slack):
    """Twice the bound of biases; with slack the diameter of where they stay, which is less."""
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=m, slack=slack, report="barycentre", hints=True)
    rng, states = np.random.default_rng(m), []
    for kind in ("drift", "coins", "turns"):
        for start in range(0, 600, 30):
            hints = None if slack is None else rng.dirichlet(np.full(k, 0.5), 30)
            forecaster.replay(outcomes_of(kind, k, 600, m)[start : start + 30], hints)
            states.append({tuple(x): b for x, b in zip(*forecaster.look_ahead, strict=True)})
    nothing, moved = np.zeros(k), []
    for i, before in enumerate(states):
        for after in states[i + 1 :]:
            moved.append(sum(np.abs(b - before.get(x, nothing)).sum() for x, b in after.items()))
    bound = swing_bound(k, m, slack)
    assert max(moved) <= bound <= 2 * bias_bound(k, m, slack)
    assert max(moved) > bound / 4


def test_biases_can_move_from_one_edge_to_another():
    """With slack 1 a point of three classes may go from (-1, -1, 2) to (-1, 2, -1), not farther."""
    assert [point_swing(s, 1.0) for s in (1, 2, 3)] == [0, 4, 6]
    assert point_swing(3, 1.0, 2) == 14
    assert 2 * point_bound(3, 1.0, 2) == 24
    assert point_swing(3) == 2 * point_bound(3)
