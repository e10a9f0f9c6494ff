"""What docs/theory-simplex.md proves, tried on the plain reference; the computed biases of the labels."""

import copy
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import comb, gcd

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex import guarantees
from tests.forecasters.simplex.label_biases import LAST, POWERS, summed
from tests.forecasters.simplex.play import outcomes_of
from tests.forecasters.simplex.reference import Hinted, every_cell, grid_points


def summed_bounds(k, m):
    """Sum over the grid points of the most their l1 bias can be, point by point."""
    total = Fraction(0)
    for x in grid_points(k, m):
        s = sum(1 for weight in x if weight)
        if s > 1:
            total += 2 * (s // 2) * (1 - Fraction(1, 2 * s - 2))
    return total


cells_of = cache(every_cell)


def radius_of(k, m):
    """The largest l1 distance, in units of 1/m, from a barycentre to a vertex of its cell."""
    high = min(m, k // 2)
    return Fraction(2 * high * (k - high), k)


def check_labels(game):
    """Sperner's condition on every grid point, Tijdeman's bound on every charged one."""
    for x in grid_points(game.k, game.m):
        assert x[game.label(x)] > 0
    for x in game.counts:
        s = sum(1 for weight in x if weight)
        bound = 1 - Fraction(1, 2 * s - 2) if s > 1 else 0
        biases = [game.bias(x, j) for j in range(game.k)]
        assert max(map(abs, biases)) <= bound
        assert sum(map(abs, biases)) <= 2 * (s // 2) * bound
        assert sum(biases) == 0


def check(game, rounds):
    check_labels(game)
    assert sorted(game.label(x) for x in game.cell) == list(range(game.k))
    assert frozenset(game.cell) in cells_of(game.k, game.m)
    assert game.certificate <= rounds * radius_of(game.k, game.m) / game.m + summed_bounds(game.k, game.m)


@pytest.mark.parametrize(("k", "m"), [(2, 5), (3, 1), (3, 2), (3, 5), (4, 2), (4, 3), (5, 2)])
def test_the_cells_are_a_triangulation_that_every_facet_joins_or_bounds(k, m):
    """m^(k-1) cells of equal volume; a facet lies in two cells, or in one if it is on the boundary."""
    cells = cells_of(k, m)
    assert len(cells) == m ** (k - 1)
    facets = {}
    for cell in cells:
        for x in cell:
            facets.setdefault(cell - {x}, []).append(cell)
    for facet, owners in facets.items():
        on_boundary = any(all(x[c] == 0 for x in facet) for c in range(k))
        assert len(owners) == (1 if on_boundary else 2)


@pytest.mark.parametrize(("k", "m"), [(2, 4), (3, 1), (3, 3), (4, 3), (5, 1), (5, 2), (6, 2)])
def test_the_radius_is_the_largest_distance_from_a_barycentre_to_a_vertex(k, m):
    worst = Fraction(0)
    for cell in cells_of(k, m):
        centre = [Fraction(sum(column), k) for column in zip(*cell, strict=True)]
        for x in cell:
            worst = max(worst, sum(abs(p - c) for p, c in zip(centre, x, strict=True)))
    assert worst == radius_of(k, m)


@pytest.mark.parametrize(("k", "m"), [(2, 4), (3, 2), (3, 4), (4, 3), (5, 2)])
def test_the_artificial_labels_have_one_full_cell_only(k, m):
    game = Hinted(k, m)
    for anchor in grid_points(k, m - 1):
        labels = {x: game.artificial(x, anchor) for x in grid_points(k, m)}
        assert all(x[j] > 0 for x, j in labels.items())
        full = [cell for cell in cells_of(k, m) if len({labels[x] for x in cell}) == k]
        upward = {tuple(a + (c == j) for c, a in enumerate(anchor)) for j in range(k)}
        assert full == [frozenset(upward)]


SMALL = [(2, 3, 6), (2, 4, 6), (3, 1, 4), (3, 2, 4), (3, 4, 4), (4, 2, 3), (4, 3, 3), (5, 2, 3)]
LONGER = [(2, 3, 8), (2, 4, 8), (3, 1, 5), (3, 2, 7), (3, 4, 5), (4, 2, 5), (4, 3, 4), (5, 2, 4)]


def check_all_sequences(game, shortest, longest, length=0):
    """Every sequence of these lengths that goes on from here; what two have in common is played once."""
    if length >= shortest:
        check(game, length)
    if length < longest:
        for outcome in range(game.k):
            one = copy.deepcopy(game)
            one.play(outcome)
            check_all_sequences(one, shortest, longest, length + 1)


@pytest.mark.parametrize(
    ("k", "m", "longest"), [*SMALL, *(pytest.param(*one, marks=pytest.mark.slow) for one in LONGER)]
)
def test_on_all_sequences_labels_cells_and_bounds_are_as_proved(k, m, longest):
    check_all_sequences(Hinted(k, m), 1, longest)


def on_support(s, m):
    """The bound of all points of s classes with weight, from those of all points (inclusion, exclusion)."""
    return sum((-1) ** (s - i) * comb(s, i) * guarantees.bias_bound(i, m) for i in range(2, s + 1))


@pytest.mark.parametrize(("k", "m"), [(3, 3), (3, 4), (3, 7), (3, 8), (4, 4), (4, 6), (5, 5), (5, 6), (6, 7)])
def test_no_number_of_charges_drives_a_points_bias_beyond_what_is_computed(k, m):
    """Points are charged for longer than the theorem says that they must be looked at."""
    total = Fraction(0)
    for x in grid_points(k, m):
        support = sum(weight > 0 for weight in x)
        if support == k:
            game, largest, last = Hinted(k, m), Fraction(0), None
            for _ in range(2 * k * m // gcd(m, *x)):
                last = game.earliest_deadline(x, last)
                game.counts.setdefault(x, [0] * k)[last] += 1
                largest = max(largest, sum(abs(game.bias(x, j)) for j in range(k)))
            assert largest <= guarantees.point_bound(k)
            total += largest
    assert total == on_support(k, m)


def test_the_table_is_what_the_machines_rule_gives():
    sizes = [(s, m) for s in range(3, 13) for m in range(s, 13)]
    sizes += [(3, 40), (3, LAST[3]), (4, LAST[4]), (5, 24), (6, 20), (7, 17), (8, 16), (3, POWERS[3][0])]
    for s, m in sizes:
        assert on_support(s, m) == Fraction(summed(s, m), m)


def test_beyond_the_table_the_formula_holds():
    for s, m in [(3, 129), (4, 65), (9, 17), (17, 18), (3, 1024)]:
        assert on_support(s, m) == comb(m - 1, s - 1) * guarantees.point_bound(s)
    assert guarantees.bias_bound(4, 20, slack=1.0) == guarantees.bias_formula(4, 20, 1.0)
    assert guarantees.bias_bound(4, 20, late=1) == guarantees.bias_formula(4, 20, None, 1)


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 8, 10, 20])
def test_biases_grow_with_the_grid_as_the_choice_of_a_grid_relies_on(k):
    others = [m for m in range(1, guarantees.LAST_TABLED + 2) if m not in guarantees.TABLED_POWERS]
    for a, b in pairwise(others):
        assert guarantees.bias_bound(k, a) <= guarantees.bias_bound(k, b)
    for m in range(1, 300):
        assert guarantees.bias_bound(k, m) <= guarantees.bias_bound(k, 2 * m)


STRETCHES = [(3, 6, None), (4, 4, None), (5, 3, None), (3, 3, 1.0), (4, 4, 2.0)]


@pytest.mark.parametrize(("k", "m", "slack"), STRETCHES)
def test_in_no_stretch_of_rounds_do_biases_move_by_more_than_the_bound(k, m, slack):
    """Twice the bound of biases; with slack the diameter of where they stay, which is less."""
    forecaster = SimplexAlmostOneStepAhead(k, n_cells=m, slack=slack, report="barycentre", hints=True)
    rng, states = np.random.default_rng(m), []
    for kind in ("drift", "coins", "turns"):
        for start in range(0, 600, 50):
            hints = None if slack is None else rng.dirichlet(np.full(k, 0.5), 50)
            forecaster.replay(outcomes_of(kind, k, 600, m)[start : start + 50], hints)
            states.append({tuple(x): b for x, b in zip(*forecaster.look_ahead, strict=True)})
    nothing, moved = np.zeros(k), []
    for i, before in enumerate(states):
        for after in states[i + 1 :]:
            moved.append(sum(np.abs(b - before.get(x, nothing)).sum() for x, b in after.items()))
    bound = guarantees.window_guarantee(0, k, m, slack)
    assert max(moved) <= bound <= 2 * guarantees.bias_bound(k, m, slack)
    assert max(moved) > bound / 4


def test_biases_can_move_from_one_edge_to_another():
    """With slack 1 a point of three classes may go from (-1, -1, 2) to (-1, 2, -1), not farther."""
    assert [guarantees.point_swing(s, 1.0) for s in (1, 2, 3)] == [0, 4, 6]
    assert [guarantees.point_swing(3, 1.0, 2), guarantees.point_swing(3)] == [
        14,
        2 * guarantees.point_bound(3),
    ]
