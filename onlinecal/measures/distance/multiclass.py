"""Distance to calibration of forecasts over several classes: a proven bracket, or for few rounds exact.

With soft labels, rows of shares:

- The lower end reads a label y as the share y_j of a round with class j, for every j. The shares may be moved
  apart, so the least cost of making them calibrated is at most the distance. Events and potentials bound it.
- The upper end is a grouping of the rounds, in which each gets the mean label of its group. Groupings are
  found with labels of one class each, drawn so that neighbouring rounds have each class about as often as
  they should.

Nothing here has a state. Bounds are only ever replaced by better ones, each proven by itself, so the order in
which they are tried decides how narrow a bracket is, and never whether it holds. The shares of work, nodes
and limits below decide the same, so to change one changes brackets; STAGE_BEGINS only says what is told of
progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints, Tell, part_of, progress_on_stderr
from onlinecal.html import UNIT, Shown, Table, bracket_of
from onlinecal.measures.counts import count_shares
from onlinecal.measures.distance.calibration_distance import (
    DistanceMethod,
    calibration_distance,
    check_options,
)
from onlinecal.measures.distance.classes import groupings, potentials, prices
from onlinecal.measures.distance.classes.groupings import MOST_MERGED, class_frequencies, equal_rows, merged
from onlinecal.measures.distance.classes.search import PriceFunction, searched, start_at, start_of
from onlinecal.measures.distance.fractional.relaxation import relax
from onlinecal.tables.columns import check_outcome_rows, check_probability_rows
from onlinecal.validation import check_finite

MOST_SUBSETS = 6
"""Up to so many classes, every set of classes is looked at as one event."""
EVENT_NODES = 1500
"""Nodes of each event's relaxation."""


def drawn(p: Floats, y: Floats) -> Ints:
    """One class for each round, shape (T,), in the order of forecasts: the one most behind its shares."""
    labels, behind = np.empty(len(p), np.int64), np.zeros(p.shape[1])
    for t in np.lexsort(p.T[::-1]):
        behind += y[t]
        labels[t] = behind.argmax()
        behind[labels[t]] -= 1.0
    return labels


def means_of(y: Floats, groups: NDArray[np.intp]) -> Floats:
    """The mean label of each round's group, shape (T, k); groups with the same mean are joined."""
    while True:
        rounds = np.bincount(groups)
        sums = np.column_stack([np.bincount(groups, column) for column in y.T])
        means: Floats = (sums / np.maximum(rounds, 1)[:, None])[groups]
        joined = equal_rows(means)
        if joined.max() + 1 == np.count_nonzero(rounds):
            return means
        groups = joined


LOWER_WORK, PRICES_WORK, UPPER_WORK = 2e9, 2e10, 5e8
"""Operations for a budget of 1: about five seconds for potentials, and twenty for each of the others."""
FULL_WORK_ROUNDS, WORK_POWER, MOST_WORK_ROUNDS = 5_000, 0.6, 100_000
"""Up to the first number of rounds the work is in proportion to them. From there on it grows with the second
number as the power, and from the third on it is constant."""
STAGE_BEGINS, SOFT_STAGE_BEGINS = (0.05, 0.1, 0.5), (0.0, 0.3, 0.3)
"""Shares of the work that are usually done when the potentials, the prices and the search for sets begin."""
PRICE_NODES = 500
"""Nodes of each class's relaxation, for prices."""
SMALL_PROGRAM, SMALL_NODES = 3000, 50
"""Method "auto" tries the exact program up to so many variables, with so many nodes of its search tree."""


@dataclass(frozen=True, eq=False)
class MulticlassDistance(Shown):
    """Where the distance to calibration of class probabilities lies, summed up over the classes.

    Attributes
    ----------
    lower, upper
        lower <= distance <= upper, both proven. If an integer program found the distance, it is right up to a
        millionth of it, the solver's tolerance. Sums over rounds, or, if normalize=True was given, averages.
    witness
        A perfectly calibrated sequence q at distance `upper`, shape (T, k), rounds in the order in which they
        were given: over the rounds that share a row of q, the class frequencies are that row, correctly
        rounded.
    exact
        The distance when it is known exactly (then lower = upper = exact), else None.
    """

    lower: float
    upper: float
    witness: Floats
    exact: float | None = None

    def _shown(self) -> Table:
        return bracket_of(self, f"distance to calibration, summed over classes{UNIT}")


def multiclass_calibration_distance(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    normalize: bool = False,
    look_ahead: ArrayLike | None = None,
    budget: float = 0.2,
    method: DistanceMethod = "auto",
    progress: Callable[[float], None] | None = None,
) -> MulticlassDistance:
    """How far class probabilities p are from calibrated ones q: the least sum over rounds of |p - q|_1.

    q is calibrated if, over the rounds that share a row of q, the class frequencies are that row; |p - q|_1
    is the sum over classes of |p_j - q_j|. Mostly a lower and an upper bound are found.

    The lower bound is the largest of three: of two linear programs (up to seven classes), and of the binary
    distances of events, each a class or a set of classes. The upper bound is the best of many calibrated q
    that a search tries. With two classes the distance is twice the binary one, that of
    `calibration_distance`.

    Parameters
    ----------
    probabilities
        Shape (T, k); every row sums to 1 within 1e-6.
    labels
        Class numbers 0..k-1, shape (T,); or soft labels, rows of shares with sum 1, shape (T, k). With soft
        labels q is calibrated if, over the rounds that share a row of q, the mean label is that row; `lower`
        is then a bound even if each class's share of a round may go to another row, and may be far below.
    normalize
        False: sums over rounds. True: divided by T.
    look_ahead
        A second sequence of probabilities for the same rounds, shape (T, k), such as the `look_ahead` that an
        online forecaster computes. A q that is the same for rounds with equal look_ahead is tried, too. None:
        no guess.
    budget
        Work, a finite number above 0, counted in steps, so that answers are the same on every machine. With a
        budget of 1 and five thousand rounds it takes a minute or two, if all is needed. Fewer rounds get less
        work in proportion; more rounds get more, with their power 0.6, up to a hundred thousand. With four
        classes the default takes two or three minutes for a hundred thousand rounds, and .02 a tenth of that,
        for a bracket that is wider.
    method
        "exact": an integer program over the values that a level set can have, exact up to the solver's
        tolerance of 1e-6. Up to about twenty rounds it takes seconds at most, and time grows exponentially.
        "bracket": a lower and an upper bound. "auto": these, and the exact distance if that is quick.
    progress
        A function that is called, now and then, with the share of the work that is done, rising to 1. None:
        if it takes more than fifteen seconds, a line on stderr says at every tenth how far it is. Ctrl-C ends
        the work.

    Returns
    -------
    MulticlassDistance
        `lower` and `upper` bound, `witness`, a calibrated q at distance `upper`, and `exact`, the distance or
        None.

    Raises
    ------
    ValueError
        Bad probabilities, labels, look_ahead or options; the message names the argument and the value.
        "exact" with soft labels, for more than seven classes, or for so many rounds that the program would
        not fit into memory.

    Examples
    --------
    >>> p = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]]
    >>> distance = multiclass_calibration_distance(p, [0, 1])
    >>> round(distance.lower, 9), round(distance.upper, 9)
    (0.8, 0.8)
    """
    p, y = check_outcome_rows(probabilities, labels)
    ahead = None if look_ahead is None else check_probability_rows(look_ahead, "look_ahead")
    if ahead is not None and ahead.shape != p.shape:
        raise ValueError(f"look_ahead must have the shape {p.shape} of probabilities, got {ahead.shape}")
    check_options(method, normalize, check_finite(budget, "budget"), 0.0)
    what = f"bracket of the distance of {len(p):,} rounds of {p.shape[1]} classes"
    advice = f"budget={budget / 10:.2g} in place of {budget:.2g} would be a tenth of the work"
    tell = progress_on_stderr(what, advice) if progress is None else progress
    if y.ndim == 2:
        if method == "exact":
            raise ValueError(f"method must be 'auto' or 'bracket' with soft labels, got {method!r}")
        y = y / y.sum(axis=1, keepdims=True)
    if method == "exact" and p.shape[1] > potentials.MOST_MESH_CLASSES:
        raise ValueError(
            f"method must be 'auto' or 'bracket' for more than {potentials.MOST_MESH_CLASSES} classes, "
            f"got 'exact' with {p.shape[1]}"
        )
    scale = len(p) if normalize else 1
    if p.shape[1] == 2:
        lower, witness, is_exact = _of_two(p, y, ahead, budget, method)
    else:
        lower, witness, is_exact = _of_several(p, y, ahead, budget, method, tell)
    tell(1.0)
    upper = _distance(p, witness) / scale
    lower = upper if is_exact else min(lower / scale, upper)
    return MulticlassDistance(lower, upper, witness, upper if is_exact else None)


def work_for(rounds: int) -> float:
    """The work for so many rounds, in shares of that for FULL_WORK_ROUNDS."""
    share = min(rounds, MOST_WORK_ROUNDS) / FULL_WORK_ROUNDS
    return min(share, share**WORK_POWER)


def _of_several(
    p: Floats, y: NDArray[Any], ahead: Floats | None, budget: float, method: DistanceMethod, tell: Tell
) -> tuple[float, Floats, bool]:
    """The lower end, a witness of the upper end, and whether the witness is at the exact distance."""
    k, share, is_soft = p.shape[1], work_for(len(p)), y.ndim == 2
    size = math.inf
    if k <= potentials.MOST_MESH_CLASSES and not is_soft:
        size = groupings.n_candidates(y, k) * len(p)
    if method == "exact" and size > groupings.MOST_CANDIDATES:
        raise ValueError(
            f"method must be 'auto' or 'bracket' for so many rounds, got 'exact' with {len(p)}: "
            f"the integer program would have some {size:.1g} variables"
        )
    labels = drawn(p, y) if is_soft else y

    def sequence(groups: NDArray[np.intp]) -> Floats:
        return means_of(y, groups) if is_soft else class_frequencies(y, groups, k)

    sequences = []
    for groups in (np.zeros(len(p), np.intp), *map(equal_rows, [p] if ahead is None else [p, ahead])):
        sequences.append(sequence(groups))
        if groups.max() < MOST_MERGED:
            sequences.append(sequence(merged(p, labels, groups)))
    best = min(sequences, key=lambda q: _distance(p, q))
    upper, lower = _distance(p, best), _lower_by_events(p, y, budget)
    if method != "exact" and _met(lower, upper):
        return lower, best, False
    dual, starts = None, [start_of(p)]
    pricings: list[PriceFunction] = []
    begin, priced, searching = SOFT_STAGE_BEGINS if is_soft else STAGE_BEGINS
    if k <= potentials.MOST_MESH_CLASSES:
        work = share * budget * LOWER_WORK
        mesh = potentials.mesh_for(k, len(p), work)
        dual = potentials.best_potentials(mesh, p, y, work, part_of(tell, begin, priced))
        lower, pricings = max(lower, dual.bound(p, y)), [dual.at]
        work, told_part = share * budget * PRICES_WORK, part_of(tell, priced, searching)
        pricing = None if is_soft else prices.best_prices(p, y, dual.at(p), work, told_part)
        if pricing is not None:
            lower = max(lower, pricing.bound)
            starts.insert(0, start_at(prices.plan_of(pricing, y), pricing.kinds.values))
    elif not is_soft:
        pricings = [_class_prices(p, y)]
    if pricings:
        work, told_part = share * budget * UPPER_WORK, part_of(tell, searching, 1.0)
        for groups in searched(p, labels, starts, pricings, work, told_part):
            witness = sequence(groups)
            if (reached := _distance(p, witness)) < upper:
                best, upper = witness, reached
            if _met(lower, upper):
                break
    # both need a finite size, and so these potentials
    is_quick = method == "auto" and size <= 100 * SMALL_PROGRAM
    if dual is not None and (is_quick or method == "exact"):
        nearest = _exact(p, y, dual, upper, method)
        if nearest is not None:
            return lower, min((best, nearest), key=lambda q: _distance(p, q)), True
    return lower, best, False


def _lower_by_events(p: Floats, y: NDArray[Any], budget: float) -> float:
    """The largest lower bound from binary distances of events: that one of some classes comes.

    With soft labels it also holds if rounds may be divided.
    """
    k, is_soft = p.shape[1], y.ndim == 2

    def binary(classes: tuple[int, ...]) -> float:
        event = np.minimum(p[:, classes].sum(axis=1), 1.0)
        if not is_soft:
            return calibration_distance(event, np.isin(y, classes), budget=budget).lower
        counts = count_shares(event, np.minimum(y[:, classes].sum(axis=1), 1.0))[0]
        return relax(counts, EVENT_NODES).lower

    singles = [binary((c,)) for c in range(k)]
    best = max(sum(singles), 2 * max(singles))
    if k <= MOST_SUBSETS:
        for size in range(2, k // 2 + 1):
            best = max([best, *(2 * binary(classes) for classes in combinations(range(k), size))])
    # rounding may have added a little to a row's share, and so to its cost
    return max(0.0, best - potentials.CLASS_POTENTIAL_ROUNDING * len(p)) if is_soft else best


def _met(lower: float, upper: float) -> bool:
    return upper - lower <= 1e-9 * upper


def _exact(
    p: Floats, y: NDArray[np.int64], dual: potentials.Potentials, upper: float, method: DistanceMethod
) -> Floats | None:
    """The nearest witness; None if finding it takes too long, unless "exact" was asked for."""
    gap = upper - math.fsum(dual.of_rounds(p, y))
    values = groupings.useful(p, y, groupings.candidates(y, p.shape[1]), dual, gap)
    is_small = len(values) * len(p) <= SMALL_PROGRAM
    if method != "exact" and not is_small:
        return None
    groups = groupings.exact_grouping(p, y, values, None if method == "exact" else SMALL_NODES)
    return None if groups is None else class_frequencies(y, groups, p.shape[1])


def _class_prices(p: Floats, y: NDArray[np.int64]) -> PriceFunction:
    """Potentials from the binary relaxation of each class: u_j(v) = sum over c of that of c at v_c."""
    each = []
    for c, column in enumerate(p.T):
        counts = count_shares(np.minimum(column, 1.0), y == c)[0]
        each.append(relax(counts, PRICE_NODES))

    def prices(v: Floats) -> Floats:
        no, yes = (
            np.column_stack([relaxation.potential(outcome, v[:, c]) for c, relaxation in enumerate(each)])
            for outcome in (0, 1)
        )
        return np.asarray(no.sum(axis=1, keepdims=True) - no + yes)

    return prices


def _of_two(
    p: Floats, y: NDArray[Any], ahead: Floats | None, budget: float, method: DistanceMethod
) -> tuple[float, Floats, bool]:
    """The same for two classes: twice the binary distance, whose bracket is far tighter."""
    second = np.minimum(p[:, 1], 1.0)
    if y.ndim == 2:
        pooled = calibration_distance(second, np.minimum(y[:, 1], 1.0)).witness
        return _lower_by_events(p, y, budget), means_of(y, equal_rows(pooled[:, None])), False
    guide = None if ahead is None else np.minimum(ahead[:, 1], 1.0)
    binary = calibration_distance(second, y, method=method, look_ahead=guide, budget=budget)
    witness = class_frequencies(y, np.unique(binary.witness, return_inverse=True)[1], 2)
    return 2.0 * binary.lower, witness, binary.exact is not None


def _distance(p: Floats, q: Floats) -> float:
    return float(np.abs(p - q).sum())
