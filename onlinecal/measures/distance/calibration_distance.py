"""Distance to calibration: the least total movement that makes a forecast history perfectly calibrated.

Nothing here has a state, and answers never change. `budget` and `rtol` decide how narrow a bracket is, never
whether it holds. The work is counted in steps and not in seconds, so an answer is the same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.html import UNIT, Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, check_counts, count_shares
from onlinecal.measures.distance.bracket import (
    rounded_outcomes,
    sequence_of,
    share_bounds,
)
from onlinecal.measures.distance.fractional.relaxation import deduction
from onlinecal.measures.distance.levels import Levels, conditional_means, deal
from onlinecal.measures.distance.narrowing import bracket, check_effort
from onlinecal.tables.columns import check_probabilities, check_same_length
from onlinecal.validation import check_choice, check_flag

DistanceMethod = Literal["auto", "exact", "bracket"]
RowNumbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class DistanceBracket(Shown):
    """Where the distance to calibration lies, and a calibrated sequence that proves the upper end.

    Attributes
    ----------
    lower, upper
        lower <= distance <= upper, both proven. Sums over rounds, or, if normalize=True was given, averages.
    exact
        The distance when it is known exactly (then lower = upper = exact up to rounding), else None.
    witness
        A sequence q that is perfectly calibrated, shape (T,): each of its values is the fraction of ones
        among the rounds that have it, correctly rounded (of outcomes between 0 and 1, their mean). The sum of
        |forecast - q| over rounds is `upper`, or T times `upper` if that is an average. Rounds are in the
        order in which they were given; for a history given as counts, by increasing forecast, zeros before
        ones within a forecast.
    """

    lower: float
    upper: float
    exact: float | None
    witness: Floats

    def _shown(self) -> Table:
        return bracket_of(self, f"distance to calibration{UNIT}")


def calibration_distance(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    method: DistanceMethod = "auto",
    normalize: bool = False,
    look_ahead: ArrayLike | None = None,
    budget: float = 1.0,
    rtol: float = 0.0,
) -> DistanceBracket:
    """How far forecasts are from calibrated: the least sum of |forecast - q| over calibrated sequences q.

    A sequence q, one number for each round, is calibrated if each of its values is the fraction of ones among
    the rounds that have it (with outcomes between 0 and 1, their mean).

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    method
        "exact": the distance itself, however long it takes: some tenths of a second for a thousand rounds,
        some seconds for ten thousand on a grid, much longer for as many distinct forecasts that are nearly
        calibrated. "bracket": a lower and an upper bound, with the work that `budget` allows; if it suffices
        they meet, and then `exact` is known, too. "auto": the exact distance where that is quicker, as nearly
        always for up to a thousand rounds, else the same as "bracket". With outcomes between 0 and 1 there
        are only bounds, since the distance is NP-hard to find then.
    normalize
        False: sums over rounds. True: divided by T.
    look_ahead
        A second sequence of probabilities for the same rounds, shape (T,), such as the `look_ahead` that an
        online forecaster computes. A q that has one value for all rounds with equal look_ahead is tried, too,
        so that a good guess can lower the upper bound. None: no guess.
    budget
        Work that improves a bracket, in steps and not in time, so that answers are the same on every machine:
        1 allows for one to three seconds of work, if all is needed, and 2 for twice as much. Whatever the
        budget is, first bounds are found, which takes about a second per million rounds. A number above 0;
        "exact" does not look at it.
    rtol
        Work stops as soon as upper - lower <= rtol * upper; at least 0. "exact" does not look at it.

    Returns
    -------
    DistanceBracket
        `lower` and `upper` bound, `exact`, the distance or None, and `witness`, a calibrated sequence at
        distance `upper`.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, look_ahead or options; the message names the argument and the value. Lengths
        that differ; "exact" with outcomes between 0 and 1.

    References
    ----------
    Blasiok, Gopalan, Hu & Nakkiran, "A unifying theory of distance from calibration" (2023), for the notion;
    Qiao & Zheng, "On the distance from calibration in sequential prediction" (2024), for its online use; Qiao
    (2026), for its hardness with outcomes between 0 and 1.

    Examples
    --------
    >>> round(calibration_distance([0.4, 0.6], [0, 1]).exact, 12)
    0.2
    >>> calibration_distance([0.4, 0.6], [0, 1]).witness
    array([0.5, 0.5])
    """
    check_options(method, normalize, budget, rtol)
    counts, p, y = count_shares(forecasts, outcomes)
    ahead = None
    if look_ahead is not None:
        ahead = check_probabilities(look_ahead, "look_ahead")
        check_same_length(p, ahead, "forecasts and look_ahead")
    if not counts.are_whole:
        if method == "exact":
            raise ValueError(
                "method must be 'auto' or 'bracket' with outcomes between 0 and 1, got 'exact': the distance "
                "is NP-hard to find then (Qiao, 2026); a bracket has both ends proven, and the smooth "
                "calibration error is exact"
            )
        return _of_shares(counts, p, y.astype(np.float64), ahead, normalize, budget, rtol)
    starts = [conditional_means(counts)]
    if ahead is not None:
        starts.append(conditional_means(count_shares(ahead, y)[0]))
    order = np.argsort(p, kind="stable")
    is_one = y[order] == 1
    rows = order[~is_one], order[is_one]
    return _measured(counts, rows, starts, method, normalize, budget, rtol)


def calibration_distance_from_counts(
    values: ArrayLike,
    zeros: ArrayLike,
    ones: ArrayLike,
    *,
    method: DistanceMethod = "auto",
    normalize: bool = False,
    budget: float = 1.0,
    rtol: float = 0.0,
) -> DistanceBracket:
    """The distance to calibration of rounds that are given as counts, as `calibration_distance` finds it.

    It is the least sum over rounds of |forecast - q| over sequences q in which each value is the fraction of
    ones among the rounds that have it.

    Parameters
    ----------
    values
        Forecast values, shape (K,), in any order; repeated ones are added up.
    zeros, ones
        How many rounds have that forecast and outcome 0, respectively 1; whole numbers from 0, shape (K,).
    method
        "exact": the distance, however long it takes. "bracket": a lower and an upper bound. "auto": whichever
        is quicker.
    normalize
        False: sums over rounds. True: divided by their number.
    budget, rtol
        For bounds: how much work there may be, a number above 0 (1: up to some seconds), and that it stops as
        soon as upper - lower <= rtol * upper, at least 0.

    Returns
    -------
    DistanceBracket
        `lower`, `upper`, `exact` (the distance or None) and `witness`, a calibrated sequence at distance
        `upper`: shape (T,) for T rounds, by increasing forecast, zeros before ones within a forecast.

    Raises
    ------
    ValueError
        Values outside [0, 1], counts that are negative or not whole, lengths that differ, no round at all, or
        bad options.
    """
    check_options(method, normalize, budget, rtol)
    counts = check_counts(values, zeros, ones)
    starts = [conditional_means(counts)]
    of_each = np.column_stack([counts.zeros, counts.ones]).ravel()
    is_one = np.repeat(np.tile([False, True], len(counts.values)), of_each)
    rows = np.flatnonzero(~is_one), np.flatnonzero(is_one)
    return _measured(counts, rows, starts, method, normalize, budget, rtol)


def _of_shares(
    counts: Counts, p: Floats, y: Floats, ahead: Floats | None, normalize: bool, budget: float, rtol: float
) -> DistanceBracket:
    lower, _, pools = share_bounds(counts, budget)
    sequences = [sequence_of(y, pools[np.searchsorted(counts.values, p)])]
    if ahead is not None:
        sequences.append(sequence_of(y, np.unique(ahead, return_inverse=True)[1]))
    whole, rounded_off = rounded_outcomes(p, y)
    uppers = [math.fsum(np.abs(p - q)) for q in sequences]
    if min(uppers) - lower > max(rtol * lower, deduction(len(p))):
        near = calibration_distance(p, whole, method="bracket", budget=budget, rtol=rtol)
        lower = max(lower, near.lower - rounded_off)
        sequences.append(sequence_of(y, np.unique(near.witness, return_inverse=True)[1]))
        uppers.append(math.fsum(np.abs(p - sequences[-1])))
    upper = min(uppers)
    lower = min(lower, upper)
    is_exact = upper - lower <= deduction(len(p))
    return _answer(lower, upper, is_exact, sequences[uppers.index(upper)], normalize)


def _answer(lower: float, upper: float, is_exact: bool, witness: Floats, normalize: bool) -> DistanceBracket:
    scale = len(witness) if normalize else 1
    return DistanceBracket(lower / scale, upper / scale, upper / scale if is_exact else None, witness)


def _measured(
    counts: Counts,
    rounds: tuple[RowNumbers, RowNumbers],
    starts: list[Levels],
    method: DistanceMethod,
    normalize: bool,
    budget: float,
    rtol: float,
) -> DistanceBracket:
    """The answer for a history; `rounds` are the rows with outcome 0 and with outcome 1, by forecast."""
    if method == "exact":
        budget, rtol = math.inf, 0.0
    ends = bracket(counts, starts, budget, rtol, plain=method != "bracket")
    return _answer(ends.lower, ends.upper, ends.is_exact, deal(ends.levels, *rounds), normalize)


def check_options(method: str, normalize: bool, budget: float, rtol: float) -> None:
    """ValueError for an unknown method, or for numbers out of range."""
    check_choice(method, get_args(DistanceMethod), "method")
    check_flag(normalize, "normalize")
    check_effort(budget, rtol)
