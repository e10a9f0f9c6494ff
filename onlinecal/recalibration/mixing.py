"""How much of a correction is kept: the largest share, and the widest limit, that held-out rows allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.scores import CLIP
from onlinecal.recalibration.flooring import limited
from onlinecal.recalibration.weights import Weights, counts_of, total_weight

SHARES = np.arange(21) / 20.0
"""What the share of a correction is chosen from."""
LIMITS = (1000.0, 100.0, 20.0, 5.0, 3.0, 2.0, 1.5, 1.25)
"""What the limit is chosen from."""
ERRORS = 1.0
"""A loss has not risen if so many standard errors of the difference do not reach that of the start."""


Error = Callable[[Floats, Ints, Weights], float]
"""What a correction is for: an error of probabilities (n, C), labels (n,) and weights."""


class Rows(NamedTuple):
    """Rows with what the start makes of them, s, and what the correction makes of that, q, both (n, C)."""

    start: Floats
    corrected: Floats
    labels: Ints
    weights: Weights


class Moments(NamedTuple):
    """Sums over rows, of their weights and of squared errors' parts: they add up over parts of a table.

    `sums` (5,): with c = 2 step (s - y) and d = |step|^2, of c, d, c^2, c d and d^2.
    """

    rows: float
    sums: Floats


def told_mixture(share: float | None, limit: float | None) -> tuple[float, float]:
    """Share and limit where no rows are held out: all there is, unless told otherwise."""
    return 1.0 if share is None else float(share), math.inf if limit is None else float(limit)


def chosen_mixture(
    held_out: Sequence[Rows],
    fitted: Callable[[float], Moments],
    keep: float,
    limit: float | None,
    error: Error,
) -> tuple[float, float]:
    """The largest share, and of the limits that allow it the widest, with which no loss rises.

    Not the log loss nor the squared error of held-out rows, by ERRORS standard errors of the difference, nor
    the squared error of the fitted rows, whose moments `fitted` has for each limit. The share is 0 if the
    error that the correction is for has risen on the held-out rows.
    """
    starts, corrected, labels = (np.concatenate([rows[i] for rows in held_out]) for i in range(3))
    whole = Rows(starts, corrected, labels, np.concatenate([_counts(rows) for rows in held_out]))
    at = np.arange(len(labels)), labels
    share, widest = 0.0, math.inf
    for width in LIMITS if limit is None else (limit,):
        step = limited(corrected, starts, keep, width) - starts
        logs = _log_rises(starts[at], step[at], _counts(whole), SHARES)
        n = float(_counts(whole).sum())
        allowed = _falls(logs, n, ERRORS) & _falls(_squared_rises(_moments(whole, step)), n, ERRORS)
        if SHARES[allowed].max(initial=0.0) > share:
            allowed &= shares_without_loss(fitted(width))
        if (largest := float(SHARES[allowed | (SHARES == 0.0)].max())) > share:
            share, widest = largest, width
        if share == 1.0:
            break
    if share > 0.0:
        mixed = starts + share * (limited(corrected, starts, keep, widest) - starts)
        weights = None if held_out[0].weights is None else whole.weights
        if error(mixed, labels, weights) > error(starts, labels, weights):
            return 0.0, math.inf if limit is None else limit
    return share, widest


def moments_of(parts: Iterable[Rows], keep: float, limit: float) -> Moments:
    """Those of a correction within its limits, over parts of a table."""
    rows, sums = 0.0, np.zeros(5)
    for one in parts:
        found = _moments(one, limited(one.corrected, one.start, keep, limit) - one.start)
        rows, sums = rows + found.rows, sums + found.sums
    return Moments(rows, sums)


def shares_without_loss(fitted: Moments) -> NDArray[np.bool_]:
    """For each of the SHARES whether the squared error of these rows has not risen."""
    return _falls(_squared_rises(fitted), fitted.rows, 0.0)


def _counts(rows: Rows) -> Floats:
    return counts_of(rows.labels, rows.weights)


def _falls(rises: tuple[Floats, Floats], n_rows: float, errors: float) -> NDArray[np.bool_]:
    """For each of the SHARES whether a mean, given with its mean square, is so far below 0."""
    means, squares = rises
    spread = np.sqrt(np.maximum(squares - means**2, 0.0) / n_rows)
    return means + errors * spread <= 0.0


def _moments(rows: Rows, step: Floats) -> Moments:
    cross = 2.0 * (step * residuals(rows.start, rows.labels)).sum(axis=1)
    size = (step**2).sum(axis=1)
    parts = np.array([cross, size, cross**2, cross * size, size**2])
    if rows.weights is not None:
        parts *= rows.weights
    return Moments(total_weight(rows.labels, rows.weights), parts.sum(axis=1))


def _squared_rises(moments: Moments) -> tuple[Floats, Floats]:
    """|h - y|^2 - |s - y|^2 divided by the share: its mean and mean square for each of the SHARES."""
    cross, size, crosses, both, sizes = moments.sums / moments.rows
    return cross + SHARES * size, crosses + SHARES * (2.0 * both + SHARES * sizes)


def _log_rises(start: Floats, step: Floats, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """log s - log h of the labels' probabilities: its mean and mean square for each share."""
    means, squares, rows = np.empty(len(shares)), np.empty(len(shares)), weights.sum()
    before = np.log(np.maximum(start, CLIP))
    for i, share in enumerate(shares):
        rises = before - np.log(np.maximum(start + share * step, CLIP))
        means[i] = (weights * rises).sum() / rows
        squares[i] = (weights * rises * rises).sum() / rows
    return means, squares
