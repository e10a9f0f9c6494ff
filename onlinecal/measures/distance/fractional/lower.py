"""The lower distance to calibration, and a fractional history that attains it.

Nothing here has a state, and a `LowerCalibrationDistance` never changes. `lower` is proven by `relaxation`,
and `upper` by the history that is given back: `_fractional_history` makes the solver's masses calibrated
before their cost is summed up. So how they are found may change, within the tolerances above the functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.html import UNIT, Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, check_counts, count_shares, merged, prefix_sums
from onlinecal.measures.distance.fractional.relaxation import (
    POTENTIAL_ROUNDING,
    few_masses,
    one_way_bound,
    relax,
)
from onlinecal.measures.distance.levels import conditional_means, distance_to
from onlinecal.measures.distance.one_way import one_way_levels
from onlinecal.measures.distance.pooling import pooled_levels
from onlinecal.validation import check_count, check_flag

CUT_TOLERANCE = 1e-8
"""More nodes would raise the lower end by no more than this a round, and would cost another solution."""

ENDS_MET = 1e-7
"""Ends that are nearer than this, times the rounds, have met."""

NEGLIGIBLE_MASS = 1e-13
"""Masses of at most this share of all rounds are the solver's rounding errors."""


@dataclass(frozen=True, eq=False)
class LowerCalibrationDistance(Shown):
    """Where the lower distance to calibration lies, and a calibrated history that proves the upper bound.

    In that history rounds may be divided: parts of a round are at different values.

    Attributes
    ----------
    lower, upper
        lower <= lower distance <= upper, both proven. Sums over rounds, or, if normalize=True was given,
        averages.
    values
        The forecasts in that history, shape (n,), increasing.
    masses
        How many rounds are at each value, not whole numbers, shape (n,); of those at the value v the fraction
        v are ones. The sum is the number of all rounds.
    """

    lower: float
    upper: float
    values: Floats
    masses: Floats

    def _shown(self) -> Table:
        return bracket_of(self, f"lower distance to calibration{UNIT}")


def lower_calibration_distance(
    forecasts: ArrayLike, outcomes: ArrayLike, *, normalize: bool = False, n_nodes: int = 20_000
) -> LowerCalibrationDistance:
    """The least cost of moving rounds, whole or in parts, until they are perfectly calibrated.

    Moving a round's forecast by x costs x, and moving a part of the round that part of x. Rounds are
    calibrated if at each value v, of all rounds and parts that are there, the fraction v are ones.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,). One between 0 and 1 is read as a probability: y of
        its round has the outcome 1, 1 - y the outcome 0.
    normalize
        False: sums over rounds. True: divided by T.
    n_nodes
        To how many values rounds may be moved, at least 2. While there are at most half as many distinct
        forecasts, lower and upper meet, to some 1e-8 a round. With more of them, upper - lower falls with
        about the square of n_nodes, and time grows with n_nodes: 20,000 take about a second.

    Returns
    -------
    LowerCalibrationDistance
        `lower` and `upper` bound, and the calibrated history that costs `upper`: its `values`, and how many
        rounds (`masses`) are at each.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or n_nodes; the message names the argument, the value and its row.

    References
    ----------
    Blasiok, Gopalan, Hu & Nakkiran, "A unifying theory of distance from calibration" (2023), section 5.

    Examples
    --------
    >>> round(lower_calibration_distance([0.3, 0.3], [0, 1]).lower, 6)
    0.4
    """
    counts, _, _ = count_shares(forecasts, outcomes)
    return _lower_distance(counts, normalize, n_nodes)


def lower_calibration_distance_from_counts(
    values: ArrayLike, zeros: ArrayLike, ones: ArrayLike, *, normalize: bool = False, n_nodes: int = 20_000
) -> LowerCalibrationDistance:
    """The lower distance to calibration of rounds given as counts, as `lower_calibration_distance` has it.

    It is the least cost, a sum of the lengths of moves, of moving rounds, whole or in parts, until of all
    that are at a value v the fraction v are ones.

    Parameters
    ----------
    values
        Forecast values, shape (K,), in any order; repeated ones are added up.
    zeros, ones
        How many rounds have that forecast and outcome 0, respectively 1; whole numbers from 0, shape (K,).
    normalize
        False: sums over rounds. True: divided by their number.
    n_nodes
        To how many values rounds may be moved, at least 2; more bring lower and upper nearer together, and
        take longer.

    Returns
    -------
    LowerCalibrationDistance
        `lower` and `upper` bound, and the calibrated history that costs `upper`: its `values`, and how many
        rounds (`masses`) are at each.

    Raises
    ------
    ValueError
        Values outside [0, 1], counts that are negative or not whole, lengths that differ, no round at all, or
        a bad n_nodes.
    """
    return _lower_distance(check_counts(values, zeros, ones), normalize, n_nodes)


def _lower_distance(counts: Counts, normalize: bool, n_nodes: int) -> LowerCalibrationDistance:
    n_nodes = check_count(n_nodes, "n_nodes", least=2)
    scale = counts.n_rounds if check_flag(normalize, "normalize") else 1
    if counts.are_whole and (found := one_way_levels(counts)) and len(found[0].values) <= n_nodes:
        # the one-way bound holds for parts of rounds, too
        levels, upper = found
        masses = (levels.zeros + levels.ones).astype(np.float64)
        return LowerCalibrationDistance(
            min(one_way_bound(counts), upper) / scale, upper / scale, levels.values, masses
        )
    relaxation = relax(counts, n_nodes, CUT_TOLERANCE)
    upper, values, masses = _fractional_history(counts, relaxation.nodes, relaxation.masses)
    if upper - relaxation.lower > ENDS_MET * counts.n_rounds:
        # if there are many optimal solutions, the solver sometimes stops with masses that are not quite
        # optimal
        few = _fractional_history(counts, relaxation.nodes, few_masses(counts, relaxation.nodes))
        if few[0] < upper:
            upper, values, masses = few
    if counts.are_whole:
        # a calibrated history of whole rounds may be cheaper than the solver's, which has rounding errors
        for levels in (conditional_means(counts), pooled_levels(prefix_sums(counts))):
            if len(levels.values) <= n_nodes and (cost := distance_to(counts, levels)) < upper:
                upper, values, masses = cost, levels.values, (levels.zeros + levels.ones).astype(np.float64)
    lower = min(relaxation.lower, upper)
    return LowerCalibrationDistance(lower / scale, upper / scale, values, masses)


def _fractional_history(counts: Counts, nodes: Floats, masses: Floats) -> tuple[float, Floats, Floats]:
    """The cost of a fractional calibrated history near the solver's, its values and masses.

    The solver's masses hold the right numbers of zeros and ones only up to its tolerance. So they are scaled
    down to fit, and the rounds that are left over go to the values 0 and 1, where zeros and ones are
    calibrated.
    """
    values, masses = _joined(counts, nodes, masses)
    n_zeros, n_ones = counts.n_zeros, counts.n_ones
    # sums of numpy have the same bits everywhere, and products of BLAS have not
    held_zeros, held_ones = float(((1.0 - values) * masses).sum()), float((values * masses).sum())
    fit = min(1.0, n_zeros / held_zeros if held_zeros else 1.0, n_ones / held_ones if held_ones else 1.0)
    masses = masses * fit
    masses[0] += max(0.0, n_zeros - fit * held_zeros)
    masses[-1] += max(0.0, n_ones - fit * held_ones)
    cost = _flow_cost(counts.values, counts.zeros, values, (1.0 - values) * masses)
    cost += _flow_cost(counts.values, counts.ones, values, values * masses)
    return cost + counts.n_rounds * POTENTIAL_ROUNDING, values, masses


def _joined(counts: Counts, nodes: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """The values and masses of a history, with at most one value between two forecasts, and with 0 and 1.

    Masses that are joined at their mean hold as many zeros and ones as before, and no flow becomes longer.
    """
    kept = masses > NEGLIGIBLE_MASS * counts.n_rounds
    kept[[0, -1]] = True
    values, masses = nodes[kept], masses[kept]
    fixed = merged(counts.values, np.array([0.0, 1.0]))
    # each forecast is a place of its own, and so is each gap between two of them
    places = np.searchsorted(fixed, values) + np.searchsorted(fixed, values, side="right")
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    totals = np.add.reduceat(masses, firsts)
    alone = np.diff(firsts, append=len(values)) == 1
    means = np.add.reduceat(masses * values, firsts) / np.where(alone, 1.0, totals)
    return np.where(alone, values[firsts], means), totals


def _flow_cost(from_values: Floats, from_masses: NDArray[Any], to_values: Floats, to_masses: Floats) -> float:
    """The cost of moving one mass on the line onto another of the same size, from what passes each gap."""
    places = merged(from_values, to_values)
    surplus = np.zeros(len(places))
    surplus[np.searchsorted(places, from_values)] += from_masses
    surplus[np.searchsorted(places, to_values)] -= to_masses
    return float((np.abs(np.cumsum(surplus)[:-1]) * np.diff(places)).sum())
