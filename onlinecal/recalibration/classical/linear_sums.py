"""Sums over rows that `newton` asks for: log loss, its gradient and its second derivatives, in one order."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.fixed_order import BLOCK, Floats, exponential, logarithm
from onlinecal.recalibration.probability_recalibrator import Ints

TOGETHER = 4
"""Rows whose second derivatives are added to the sum at once: it is read and written less often."""
SIDE_BY_SIDE = 32
"""Rows whose log losses and gradients are computed at once: what a processor does in parallel, and a few."""


@compiled
def _fill_scores(logs: Floats, parameters: Floats, scores: Floats) -> float:
    """The classes' scores of one row of log-probabilities, and the largest of them."""
    k, m = parameters.shape
    if m == 2:
        for c in range(k):
            scores[c] = parameters[c, 1] + parameters[c, 0] * logs[c]
    else:
        for c in range(k):
            score = parameters[c, k]
            for d in range(k):
                score += parameters[c, d] * logs[d]
            scores[c] = score
    largest = scores[0]
    for c in range(1, k):
        largest = max(largest, scores[c])
    return largest


@compiled
def fill_slope(logs: Floats, labels: Ints, weights: Floats, parameters: Floats, slope: Floats) -> Any:
    """Sums of the log losses of the softmax of the scores, of their gradients, into `slope`, and of weights.

    SIDE_BY_SIDE rows at once, each with sums of its own. These are added up block by block, blocks among
    themselves: rounding then grows with neither.
    """
    n, (k, m) = logs.shape[0], parameters.shape
    seen, excess = np.empty((k, SIDE_BY_SIDE)), np.empty((k, SIDE_BY_SIDE))
    counts, lost = np.empty(SIDE_BY_SIDE), np.empty(SIDE_BY_SIDE)
    largest, scale = np.empty(SIDE_BY_SIDE), np.empty(SIDE_BY_SIDE)
    parts = np.empty((k, m, SIDE_BY_SIDE))
    loss, rows = 0.0, 0.0
    for at in range(k * m):
        slope[at] = 0.0
    for start in range(0, n, BLOCK):
        for r in range(SIDE_BY_SIDE):
            lost[r] = 0.0
            for at in range(k * m):
                parts[at // m, at % m, r] = 0.0
        for begin in range(start, min(start + BLOCK, n), SIDE_BY_SIDE):
            for r in range(SIDE_BY_SIDE):
                # behind the last row the last again, which counts for nothing
                i = min(begin + r, n - 1)
                counts[r] = weights[i] if begin + r == i else 0.0
                rows += counts[r]
                for c in range(k):
                    seen[c, r] = logs[i, c]
            here = labels[begin : begin + SIDE_BY_SIDE]
            _fill_excess(seen, here, counts, parameters, excess, lost, largest, scale)
            _add_slopes(seen, excess, scale, parts, m)
        for r in range(SIDE_BY_SIDE):
            loss += lost[r]
            for at in range(k * m):
                slope[at] += parts[at // m, at % m, r]
    return loss, rows


@kernel_part
def _fill_excess(
    seen: Floats,
    labels: Ints,
    counts: Floats,
    parameters: Floats,
    excess: Floats,
    lost: Floats,
    largest: Floats,
    scale: Floats,
) -> None:
    """The softmax of rows (k, SIDE_BY_SIDE) less their labels, but for factors, `scale`; losses go to `lost`.

    `largest` is for what is found on the way.
    """
    k, m = parameters.shape
    for r in range(SIDE_BY_SIDE):
        largest[r], scale[r] = -np.inf, 0.0
    for c in range(k):
        offset, factor = parameters[c, m - 1], parameters[c, 0]
        if m == 2:
            for r in range(SIDE_BY_SIDE):
                excess[c, r] = offset + factor * seen[c, r]
                largest[r] = excess[c, r] if excess[c, r] > largest[r] else largest[r]
            continue
        for r in range(SIDE_BY_SIDE):
            excess[c, r] = offset + factor * seen[0, r]
        for d in range(1, k):
            factor = parameters[c, d]
            for r in range(SIDE_BY_SIDE):
                excess[c, r] += factor * seen[d, r]
        for r in range(SIDE_BY_SIDE):
            largest[r] = excess[c, r] if excess[c, r] > largest[r] else largest[r]
    for r in range(labels.shape[0]):
        lost[r] += counts[r] * (largest[r] - excess[labels[r], r])
    for c in range(k):
        for r in range(SIDE_BY_SIDE):
            excess[c, r] = exponential(excess[c, r] - largest[r])
            scale[r] += excess[c, r]
    for r in range(labels.shape[0]):
        excess[labels[r], r] -= scale[r]
    for r in range(SIDE_BY_SIDE):
        lost[r] += counts[r] * logarithm(scale[r])
        scale[r] = np.divide(counts[r], scale[r])


@kernel_part
def _add_slopes(seen: Floats, excess: Floats, scale: Floats, parts: Floats, m: int) -> None:
    """Add each row's gradient to its sums (k, m, SIDE_BY_SIDE)."""
    k = seen.shape[0]
    for c in range(k):
        if m == 2:
            for r in range(SIDE_BY_SIDE):
                one = excess[c, r] * scale[r]
                parts[c, 1, r] += one
                parts[c, 0, r] += one * seen[c, r]
            continue
        for r in range(SIDE_BY_SIDE):
            excess[c, r] *= scale[r]
            parts[c, k, r] += excess[c, r]
        for d in range(k):
            for r in range(SIDE_BY_SIDE):
                parts[c, d, r] += excess[c, r] * seen[d, r]


@compiled
def fill_curve(logs: Floats, weights: Floats, parameters: Floats, curve: Floats) -> None:
    """The lower half of the matrix of second derivatives of the average log loss.

    With s the softmax and x_c what class c sees, a row adds s_c x_c x_c' in the block of c, less the product
    of all s_c x_c with themselves.
    """
    k, m = parameters.shape
    shares, counts = np.empty(k), np.empty(TOGETHER)
    seen, moved = np.ones((TOGETHER, k * m)), np.empty((TOGETHER, k * m))
    curve[:] = 0.0
    rows = 0.0
    for start in range(0, logs.shape[0], TOGETHER):
        for place in range(TOGETHER):
            # behind the last row the last again, which counts for nothing
            i = min(start + place, logs.shape[0] - 1)
            counts[place] = weights[i] if start + place == i else 0.0
            rows += counts[place]
            largest = _fill_scores(logs[i], parameters, shares)
            total = 0.0
            for c in range(k):
                shares[c] = exponential(shares[c] - largest)
                total += shares[c]
            for c in range(k):
                share = shares[c] / total
                for a in range(m - 1):
                    log = logs[i, c] if m == 2 else logs[i, a]
                    seen[place, c * m + a] = log
                    moved[place, c * m + a] = share * log
                moved[place, c * m + m - 1] = share
        first, second, third, fourth = moved[0], moved[1], moved[2], moved[3]
        for at in range(k * m):
            row = curve[at]
            u, v = counts[0] * first[at], counts[1] * second[at]
            w, x = counts[2] * third[at], counts[3] * fourth[at]
            for other in range(at + 1):
                row[other] -= (u * first[other] + v * second[other]) + (w * third[other] + x * fourth[other])
            for other in range(at - at % m, at + 1):
                row[other] += (u * seen[0, other] + v * seen[1, other]) + (
                    w * seen[2, other] + x * seen[3, other]
                )
    curve /= rows
