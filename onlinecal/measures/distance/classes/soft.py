"""A bracket for several classes where labels are distributions.

- From below: a label y as the share y_j of a round with class j, for every j. The shares may part, so the
  least cost of making them calibrated is at most the distance; events and potentials bound it from below.
- From above: any grouping of the rounds, each told the mean label of its group. Groupings are found with
  labels of one class each, drawn so that neighbouring rounds have each class about as often as they should.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.counts import count_shares
from onlinecal.measures.distance.calibration_distance import calibration_distance
from onlinecal.measures.distance.classes import exact
from onlinecal.measures.distance.classes.exact import MOST_MERGED, equal_rows, lower_by_events, merged
from onlinecal.measures.distance.classes.search import searched, start_of
from onlinecal.measures.distance.fractional.relaxation import relax, relaxation_nodes
from onlinecal.pieces import Tell, part_of

NODES = 1500
"""Of each event's relaxation."""
LOWER_PART = 0.3
"""The share of the work that the lower end mostly takes."""


def soft_bracket(
    p: Floats, soft: Floats, ahead: Floats | None, lower_work: float, upper_work: float, tell: Tell
) -> tuple[float, Floats]:
    """The lower end and a witness of the upper one, shape (T, k), for soft labels (T, k)."""
    k, y = p.shape[1], soft / soft.sum(axis=1, keepdims=True)

    def lower_of(event: Floats, classes: tuple[int, ...]) -> float:
        counts = count_shares(event, np.minimum(y[:, classes].sum(axis=1), 1.0))[0]
        return relax(counts, relaxation_nodes(counts, NODES)).lower

    # what rounding may have added to a row's share, and so to what it can cost
    lower = max(0.0, lower_by_events(p, lower_of) - exact.ROUNDING * len(p))
    if k == 2:
        pooled = calibration_distance(np.minimum(p[:, 1], 1.0), np.minimum(y[:, 1], 1.0)).witness
        return lower, means_of(y, equal_rows(pooled[:, None]))
    labels = drawn(p, y)
    groupings = [np.zeros(len(p), np.intp), *map(equal_rows, [p] if ahead is None else [p, ahead])]
    groupings += [merged(p, labels, one) for one in groupings if one.max() < MOST_MERGED]
    best = min((means_of(y, one) for one in groupings), key=lambda q: float(np.abs(p - q).sum()))
    if k <= exact.MOST_CLASSES:
        mesh = exact.mesh_for(k, len(p), lower_work)
        found = exact.best_potentials(mesh, p, y, lower_work, part_of(tell, 0.0, LOWER_PART))
        lower = max(lower, found.bound(p, y))
        upper = float(np.abs(p - best).sum())
        for groups in searched(
            p, labels, [start_of(p)], [found.at], upper_work, part_of(tell, LOWER_PART, 1.0)
        ):
            witness = means_of(y, groups)
            if (reached := float(np.abs(p - witness).sum())) < upper:
                best, upper = witness, reached
    return lower, best


def drawn(p: Floats, y: Floats) -> Ints:
    """One class for each round, shape (T,): that most behind its shares, from forecast to forecast."""
    labels, behind = np.empty(len(p), np.int64), np.zeros(p.shape[1])
    for t in np.lexsort(p.T[::-1]):
        behind += y[t]
        labels[t] = behind.argmax()
        behind[labels[t]] -= 1.0
    return labels


def means_of(y: Floats, groups: NDArray[np.intp]) -> Floats:
    """The mean label of each round's group, shape (T, k); groups with one and the same mean are one."""
    while True:
        rounds = np.bincount(groups)
        sums = np.column_stack([np.bincount(groups, column) for column in y.T])
        means: Floats = (sums / np.maximum(rounds, 1)[:, None])[groups]
        joined = equal_rows(means)
        if joined.max() + 1 == np.count_nonzero(rounds):
            return means
        groups = joined
