"""Distance to calibration of forecasts over several classes: a proven bracket."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.measures.distance.calibration_distance import calibration_distance
from onlinecal.validation import check_labelled_rows, check_probability_rows

Floats = NDArray[np.float64]

MOST_SUBSETS = 6
"""Number of classes up to which every set of classes is looked at as one event."""
MERGES = 400
"""Number of groups up to which pairs of them are tried to be merged."""


@dataclass(frozen=True, eq=False)
class MulticlassDistance:
    """Where the distance to calibration lies, in l1 over the classes.

    Attributes
    ----------
    lower, upper
        lower <= distance <= upper, both proven. Sums over rounds, or averages if asked for.
    witness
        A perfectly calibrated sequence at distance `upper`, shape (T, k), in input order.
    """

    lower: float
    upper: float
    witness: Floats


def multiclass_calibration_distance(
    probabilities: ArrayLike,
    labels: ArrayLike,
    normalize: bool = False,
    *,
    look_ahead: ArrayLike | None = None,
    budget: float = 0.2,
) -> MulticlassDistance:
    """A bracket of the least sum of |p - q|_1 over all calibrated sequences q of class probabilities.

    q is calibrated if, over the rounds that share a vector, the class frequencies are that vector.

    Lower end: seen through any event, a class or a set of classes, a calibrated q is calibrated in the binary
    sense, so binary distances bound it: the sum over classes of theirs, and twice that of any set of classes
    (|p - q|_1 is at least twice the difference of any event's probability). Upper end: the rounds are
    grouped, by equal forecasts or by the look-ahead points, groups are merged while that brings them nearer,
    and every group gets its class frequencies. With two classes it is twice the binary bracket.

    Parameters
    ----------
    probabilities
        Shape (T, k), rows with sum 1.
    labels
        Class numbers 0..k-1, shape (T,).
    normalize
        False: sums over rounds. True: divided by T.
    look_ahead
        A second sequence of probabilities, shape (T, k), tried as a grouping: the points to which an online
        forecaster charged its rounds.
    budget
        Work put into each binary distance, see `calibration_distance`.

    Returns
    -------
    MulticlassDistance
        lower, upper and witness.

    Raises
    ------
    ValueError
        Bad probabilities, labels or look-ahead; the message names the argument and the value.

    Examples
    --------
    >>> p = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]]
    >>> found = multiclass_calibration_distance(p, [0, 1])
    >>> round(found.lower, 9), round(found.upper, 9)
    (0.8, 0.8)
    """
    p, y = check_labelled_rows(probabilities, labels)
    ahead = None if look_ahead is None else check_probability_rows(look_ahead, "look_ahead")
    if ahead is not None and ahead.shape != p.shape:
        raise ValueError(f"look_ahead must have the shape {p.shape} of probabilities, got {ahead.shape}")
    if p.shape[1] == 2:
        lower, witness = _of_two(p, y, ahead, budget)
    else:
        starts = [p] if ahead is None else [p, ahead]
        groupings = [np.zeros(len(p), np.intp), *map(_groups_of, starts)]
        witness = min((_nearest(p, y, groups) for groups in groupings), key=lambda q: _distance(p, q))
        lower = _lower(p, y, budget)
    scale = len(p) if normalize else 1
    upper = _distance(p, witness)
    return MulticlassDistance(min(lower, upper) / scale, upper / scale, witness)


def _of_two(p: Floats, y: NDArray[np.int64], ahead: Floats | None, budget: float) -> tuple[float, Floats]:
    """Two classes: twice the binary distance, whose bracket is far tighter."""
    second = np.minimum(p[:, 1], 1.0)
    guide = None if ahead is None else np.minimum(ahead[:, 1], 1.0)
    found = calibration_distance(second, y, look_ahead=guide, budget=budget)
    return 2.0 * found.lower, np.column_stack([1.0 - found.witness, found.witness])


def _groups_of(vectors: Floats) -> NDArray[np.intp]:
    return np.unique(vectors, axis=0, return_inverse=True)[1].ravel()


def _distance(p: Floats, q: Floats) -> float:
    return float(np.abs(p - q).sum())


def _lower(p: Floats, y: NDArray[np.int64], budget: float) -> float:
    k = p.shape[1]

    def binary(classes: tuple[int, ...]) -> float:
        event = np.minimum(p[:, classes].sum(axis=1), 1.0)
        return calibration_distance(event, np.isin(y, classes), budget=budget).lower

    singles = [binary((j,)) for j in range(k)]
    best = max(sum(singles), 2 * max(singles))
    if k <= MOST_SUBSETS:
        for size in range(2, k // 2 + 1):
            best = max([best, *(2 * binary(classes) for classes in combinations(range(k), size))])
    return best


def _nearest(p: Floats, y: NDArray[np.int64], groups: NDArray[np.intp]) -> Floats:
    """The witness of a grouping, after merging neighbouring groups as long as that pays."""
    names, groups = np.unique(groups, return_inverse=True)
    if len(names) <= MERGES:
        groups = _merged(p, y, groups.ravel())
    return _frequencies(y, groups, p.shape[1])[groups]


def _frequencies(y: NDArray[np.int64], groups: NDArray[np.intp], k: int) -> Floats:
    counts = np.bincount(groups * k + y, minlength=(groups.max() + 1) * k).reshape(-1, k)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _merged(p: Floats, y: NDArray[np.int64], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Merge each group with the nearest other one if both then are nearer to their frequencies; repeat."""
    k = p.shape[1]
    members = {g: np.flatnonzero(groups == g) for g in range(groups.max() + 1)}

    def cost(rounds: NDArray[np.intp]) -> float:
        return float(np.abs(p[rounds] - np.bincount(y[rounds], minlength=k) / len(rounds)).sum())

    costs = {g: cost(rounds) for g, rounds in members.items()}
    places = {g: p[rounds].mean(axis=0) for g, rounds in members.items()}
    waiting = sorted(members, key=lambda g: len(members[g]))
    while waiting and len(members) > 1:
        g = waiting.pop(0)
        others = [h for h in members if h != g]
        distances = np.abs(np.array([places[h] for h in others]) - places[g]).sum(axis=1)
        for index in np.argsort(distances, kind="stable")[:4]:
            h = others[index]
            rounds = np.concatenate([members[g], members[h]])
            if (together := cost(rounds)) < costs[g] + costs[h] - 1e-12:
                members[h], costs[h], places[h] = rounds, together, p[rounds].mean(axis=0)
                del members[g], costs[g], places[g]
                if h not in waiting:
                    waiting.append(h)
                break
    answer = np.empty(len(p), np.intp)
    for place, rounds in enumerate(members.values()):
        answer[rounds] = place
    return answer
