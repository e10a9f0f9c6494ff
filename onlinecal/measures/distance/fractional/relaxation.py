"""The lower distance to calibration: rounds may be split, which makes the distance a linear program.

Primal: every node x of [0, 1] keeps a calibrated mass z_x >= 0, (1-x) z_x of it zeros and x z_x ones; the
zeros and the ones flow there along the line, at cost mass times distance. Dual: two 1-Lipschitz functions u0
and u1 with (1-x) u0(x) + x u1(x) <= 0, maximising the sum of u0 over the zeros plus the sum of u1 over the
ones. Every such pair on all of [0, 1] bounds the distance to calibration from below, however it was found.
So the solver's answer is only a suggestion, and `feasible_potentials` makes a proof of it.

Cuts find the nodes that suffice. The lowest functions through the potentials at the forecasts are valleys,
with sides of slope 1, in the gaps between forecasts. So the constraint is largest at one place of each gap,
and a node is added wherever it is violated. From one solution to the next the violation is about squared, as
in Newton's method.

Source: Blasiok, Gopalan, Hu & Nakkiran, "A unifying theory of distance from calibration" (2023).

There is no state beyond one call of `relax`, and a `Relaxation` never changes. Its `lower` always comes from
potentials that `feasible_potentials` made, or from the bound in one direction. So how nodes and solutions are
found may be changed freely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.counts import Counts, merged
from onlinecal.measures.distance.fractional.interior import solve_program

POTENTIAL_ROUNDING = 1e-14
"""A bound on the rounding error of one round's potential, which is at most 1 in size."""

NODE_SPACING = 1e-12
"""Nodes are at least so far apart. The bound loses no more than this for a forecast between two of them."""

NEAREST_CUT = 1e-9
"""A cut that is nearer to a node would gain less than the rounding errors."""

MOST_CUTS = 12
"""At most so many solutions, each with more nodes than the last; four or five are usual."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A proven lower bound and the fractional calibrated sequence next to it.

    Attributes
    ----------
    lower
        A lower bound on the distance to calibration (a sum over rounds), rounding errors deducted.
    nodes
        Increasing values from 0 to 1, shape (n,).
    zero_potential, one_potential
        u0 and u1 at the nodes, shape (n,); in between they are linear.
    masses
        z, the rounds kept at each node, which need not be whole numbers, shape (n,).
    """

    lower: float
    nodes: Floats
    zero_potential: Floats
    one_potential: Floats
    masses: Floats

    def potential(self, outcome: int, values: Floats) -> Floats:
        """u0 or u1 at any values."""
        potentials = self.zero_potential, self.one_potential
        return np.interp(values, self.nodes, potentials[outcome])


def relax(counts: Counts, limit: int, tolerance: float = POTENTIAL_ROUNDING) -> Relaxation:
    """Solve the linear program on at most `limit` nodes, at least 2, and prove its lower bound.

    If the limit leaves room for all forecasts and for the cuts, the bound is the lower distance, up to
    `tolerance` a round: violations of the constraint that are no larger are not cut.
    """
    one_way = one_way_bound(counts)
    if counts.n_zeros == 0.0 or counts.n_ones == 0.0:
        masses = np.array([counts.n_zeros, counts.n_ones], dtype=np.float64)
        return _one_way(counts, one_way, np.array([0.0, 1.0]), masses)
    nodes, by_forecast = first_nodes(counts.values, counts.zeros + counts.ones, limit)
    cuts = np.zeros(0)
    for _ in range(MOST_CUTS):
        nodes = merged(nodes, cuts)
        zeros, ones = _spread(counts, nodes, counts.zeros), _spread(counts, nodes, counts.ones)
        u0, u1, masses = solve_program(nodes, zeros, ones)
        if not by_forecast:
            break
        u0, u1 = lowest_extension(nodes, u0, zeros > 0.0), lowest_extension(nodes, u1, ones > 0.0)
        cuts = _worst(*violations(nodes, u0, u1), nodes, limit - len(nodes), tolerance)
        if len(cuts) == 0:
            break
    if by_forecast:
        nodes, u0, u1, masses = _with_valleys(nodes, u0, u1, masses)
    u0, u1 = feasible_potentials(nodes, u0, u1)
    lower = potential_bound(counts, nodes, u0, u1)
    if one_way >= lower:
        return _one_way(counts, one_way, nodes, masses)
    return Relaxation(lower, nodes, u0, u1, masses)


def _one_way(counts: Counts, bound: float, nodes: Floats, masses: Floats) -> Relaxation:
    """The relaxation whose potentials prove the one-way bound, without the solver's tolerance."""
    sign = 1.0 if counts.biases.sum() >= 0.0 else -1.0
    return Relaxation(bound, nodes, sign * nodes, sign * (nodes - 1.0), masses)


def few_masses(counts: Counts, nodes: Floats) -> Floats:
    """The masses of a solution on these nodes that is nearly optimal and uses few of them, (n,)."""
    zeros, ones = _spread(counts, nodes, counts.zeros), _spread(counts, nodes, counts.ones)
    return solve_program(nodes, zeros, ones, few=True)[2]


def one_way_bound(counts: Counts) -> float:
    """The lower bound |sum of (forecast - outcome)|, which is attained if all rounds move the same way.

    The potentials u0(x) = x, u1(x) = x - 1 and their negatives prove it.
    """
    return max(0.0, abs(math.fsum(counts.biases)) - counts.n_rounds * POTENTIAL_ROUNDING)


def deduction(n_rounds: int) -> float:
    """A bound on the rounding errors of both ends: a bracket that is no wider is closed."""
    return 2.0 * POTENTIAL_ROUNDING * n_rounds


def first_nodes(values: Floats, rounds: NDArray[Any], limit: int) -> tuple[Floats, bool]:
    """The first nodes, and whether they are the forecasts with 0 and 1.

    If these are too many, the nodes are quantiles of the forecasts and a uniform grid.
    """
    by_forecast = len(values) + 2 <= limit
    if by_forecast:
        nodes = merged(np.array([0.0, 1.0]), values)
    else:
        uniform = np.linspace(0.0, 1.0, max(2, limit // 5))
        ranks = np.cumsum(rounds)
        wanted = np.linspace(0, ranks[-1], limit - len(uniform))
        nodes = merged(uniform, values[np.minimum(np.searchsorted(ranks, wanted), len(values) - 1)])
    return apart(nodes), by_forecast


def apart(nodes: Floats) -> Floats:
    """The nodes, without those that are nearer to another one than NODE_SPACING; 0 and 1 stay."""
    inner = nodes[(nodes >= NODE_SPACING) & (nodes <= 1.0 - NODE_SPACING)]
    # at most one of each cell of this width is kept: of three in a row the outer two are far enough apart
    inner = inner[np.diff(np.floor(inner / NODE_SPACING), prepend=0.0) > 0.0]
    inner = inner[np.diff(inner, prepend=0.0) >= NODE_SPACING]
    return np.concatenate([[0.0], inner, [1.0]])


def lowest_extension(nodes: Floats, u: Floats, holds: NDArray[np.bool_]) -> Floats:
    """The lowest 1-Lipschitz function on the nodes that is u where there are rounds."""
    fixed = np.where(holds, u, -np.inf)
    from_left = np.maximum.accumulate(fixed + nodes) - nodes
    from_right = np.maximum.accumulate((fixed - nodes)[::-1])[::-1] + nodes
    return np.maximum(from_left, from_right)


def _bottoms(nodes: Floats, u: Floats) -> Floats:
    """How far right of its left node each gap has the bottom of its valley, (n-1,)."""
    gaps = np.diff(nodes)
    return np.clip((u[:-1] - u[1:] + gaps) / 2.0, 0.0, gaps)


def violations(nodes: Floats, u0: Floats, u1: Floats) -> tuple[Floats, Floats]:
    """The place in each gap where (1-x) u0(x) + x u1(x) of valleys is largest, and its value; (n-1,) each.

    The function is linear or convex except where u0 rises already and u1 still falls. There it is a quadratic
    with second derivative -4. A gap without such a part gets its left node and the value 0.
    """
    left, gaps = nodes[:-1], np.diff(nodes)
    first, last = _bottoms(nodes, u0), _bottoms(nodes, u1)
    shift = np.clip((1.0 + u1[:-1] - u0[1:] + gaps - 2.0 * left) / 4.0, first, np.maximum(first, last))
    x = left + shift
    value = (1.0 - x) * (u0[1:] - gaps + shift) + x * (u1[:-1] - shift)
    inside = first < last
    return np.where(inside, x, left), np.where(inside, value, 0.0)


def _worst(places: Floats, values: Floats, nodes: Floats, room: int, tolerance: float) -> Floats:
    """The places of the largest violations, at most `room`, increasing; none too near to a node."""
    away = np.minimum(places - nodes[:-1], nodes[1:] - places) >= NEAREST_CUT
    wanted = np.flatnonzero((values > tolerance) & away)
    if len(wanted) > room:
        wanted = np.sort(wanted[np.argsort(-values[wanted], kind="stable")[:room]])
    return places[wanted]


def _with_valleys(
    nodes: Floats, u0: Floats, u1: Floats, masses: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Nodes, potentials and masses, with nodes at the bottoms of valleys where lines are not feasible."""
    violated = np.flatnonzero(constraint_maxima(nodes, u0, u1) > 0.0)
    extra = np.concatenate([nodes[violated] + _bottoms(nodes, u)[violated] for u in (u0, u1)])
    everything = merged(nodes, np.unique(extra))
    gap = np.clip(np.searchsorted(nodes, everything, side="right") - 1, 0, len(nodes) - 2)
    deepened = np.isin(gap, violated)
    potentials = []
    for u in (u0, u1):
        left, right = u[gap] - (everything - nodes[gap]), u[gap + 1] - (nodes[gap + 1] - everything)
        potentials.append(np.where(deepened, np.maximum(left, right), np.interp(everything, nodes, u)))
    kept = np.zeros(len(everything))
    kept[np.searchsorted(everything, nodes)] = masses
    return everything, potentials[0], potentials[1], kept


def potential_bound(counts: Counts, nodes: Floats, u0: Floats, u1: Floats) -> float:
    """The lower bound that a feasible pair of potentials proves."""
    of_zeros, of_ones = (np.interp(counts.values, nodes, u) for u in (u0, u1))
    terms = counts.zeros * of_zeros + counts.ones * of_ones
    return max(0.0, math.fsum(terms) - counts.n_rounds * POTENTIAL_ROUNDING)


def feasible_potentials(nodes: Floats, u0: Floats, u1: Floats) -> tuple[Floats, Floats]:
    """The potentials, lowered as little as is needed to be feasible on all of [0, 1].

    Lowering keeps the sign constraint. So first the excess between two nodes is subtracted at both of them,
    and then the largest 1-Lipschitz functions below are taken.
    """
    u0, u1 = lipschitz_envelope(nodes, u0), lipschitz_envelope(nodes, u1)
    gap_excess = np.maximum(0.0, constraint_maxima(nodes, u0, u1))
    excess = np.maximum(np.append(gap_excess, 0.0), np.insert(gap_excess, 0, 0.0))
    return lipschitz_envelope(nodes, u0 - excess), lipschitz_envelope(nodes, u1 - excess)


def lipschitz_envelope(nodes: Floats, u: Floats) -> Floats:
    """The largest 1-Lipschitz function below u on the nodes."""
    from_left = np.minimum.accumulate(u - nodes) + nodes
    return np.minimum.accumulate((from_left + nodes)[::-1])[::-1] - nodes


def constraint_maxima(nodes: Floats, u0: Floats, u1: Floats) -> Floats:
    """Largest value of (1-x) u0(x) + x u1(x) on each gap between nodes, shape (n-1,).

    With u0 and u1 linear on the gap this is a quadratic c + l s + q s^2 of the position s in [0, 1].
    """
    left, gap = nodes[:-1], np.diff(nodes)
    rise0, rise1 = np.diff(u0), np.diff(u1)
    constant = (1.0 - left) * u0[:-1] + left * u1[:-1]
    linear = (1.0 - left) * rise0 + left * rise1 + gap * (u1[:-1] - u0[:-1])
    quadratic = gap * (rise1 - rise0)
    end = constant + linear + quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.where(quadratic < 0.0, np.clip(-linear / (2.0 * quadratic), 0.0, 1.0), 0.0)
    return np.maximum(np.maximum(constant, end), constant + top * (linear + top * quadratic))


def _spread(counts: Counts, nodes: Floats, masses: NDArray[Any]) -> Floats:
    """Masses moved to the nodes; between two nodes they are split so that linear potentials see no change."""
    right = np.clip(np.searchsorted(nodes, counts.values), 1, len(nodes) - 1)
    share = (counts.values - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
    to_right = np.bincount(right, weights=masses * share, minlength=len(nodes))
    to_left = np.bincount(right - 1, weights=masses * (1.0 - share), minlength=len(nodes))
    return np.asarray(to_right + to_left, dtype=np.float64)
