"""What docs/theory-simplex.md proves, tried on the plain reference: triangulation, labels, walks, bounds."""

from __future__ import annotations

import copy
from fractions import Fraction

import pytest

from tests.forecasters.simplex.reference import Reference, every_cell, grid_points


def bias_bound(k, m):
    """Sum over the grid points of the most their l1 bias can be, point by point."""
    total = Fraction(0)
    for x in grid_points(k, m):
        s = sum(1 for weight in x if weight)
        if s > 1:
            total += 2 * (s // 2) * (1 - Fraction(1, 2 * s - 2))
    return total


def radius(k, m):
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
    assert sorted(game.label(x) for x in game.word) == list(range(game.k))
    assert frozenset(game.word) in cells_of(game.k, game.m)
    assert game.certificate <= rounds * radius(game.k, game.m) / game.m + bias_bound(game.k, game.m)


_cells = {}


def cells_of(k, m):
    if (k, m) not in _cells:
        _cells[k, m] = every_cell(k, m)
    return _cells[k, m]


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
    assert worst == radius(k, m)


@pytest.mark.parametrize(("k", "m"), [(2, 4), (3, 2), (3, 4), (4, 3), (5, 2)])
def test_the_artificial_labels_have_one_full_cell_only(k, m):
    game = Reference(k, m)
    for anchor in grid_points(k, m - 1):
        labels = {x: game.artificial(x, anchor) for x in grid_points(k, m)}
        assert all(x[j] > 0 for x, j in labels.items())
        full = [cell for cell in cells_of(k, m) if len({labels[x] for x in cell}) == k]
        upward = {tuple(a + (c == j) for c, a in enumerate(anchor)) for j in range(k)}
        assert full == [frozenset(upward)]


SMALL = [(2, 3, 8), (2, 4, 8), (3, 1, 5), (3, 2, 7), (3, 4, 5), (4, 2, 5), (4, 3, 4), (5, 2, 4)]


def check_all_sequences(game, shortest, longest, length=0):
    """Every sequence of these lengths that goes on from here; what two have in common is played once."""
    if length >= shortest:
        check(game, length)
    if length < longest:
        for outcome in range(game.k):
            one = copy.deepcopy(game)
            one.play(outcome)
            check_all_sequences(one, shortest, longest, length + 1)


@pytest.mark.parametrize(("k", "m", "longest"), SMALL)
def test_on_all_sequences_labels_cells_and_bounds_are_as_proved(k, m, longest):
    check_all_sequences(Reference(k, m), 1, longest)


def test_tijdemans_bound_is_attained():
    """1 - 1/(2s - 2) cannot be lowered for three classes: some point comes close to 3/4."""
    worst = Fraction(0)
    for x in [(1, 1, 6), (1, 2, 5), (1, 3, 4), (2, 3, 3), (1, 1, 8)]:
        game = Reference(3, sum(x))
        last = None
        for _ in range(60):
            last = game.tijdeman(x, last)
            game.counts.setdefault(x, [0] * 3)[last] += 1
            worst = max(worst, *(abs(game.bias(x, j)) for j in range(3)))
    assert Fraction(1, 2) < worst <= Fraction(3, 4)
