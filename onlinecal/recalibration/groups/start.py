"""The smooth map of a column of forecasts that patches start from."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.fixed_order import BLOCK, exponential, inner, logarithm
from onlinecal.pieces import SAMPLED, sampled_rows
from onlinecal.recalibration.classical.newton import LinearSums, best_of_rows
from onlinecal.recalibration.flooring import least_probability

Floats = NDArray[np.float64]

Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)
TRIED: tuple[Start, ...] = ("none", "temperature", "platt", "beta")
"""What "auto" chooses from."""

PRIOR = 1.0
"""How firmly coefficients are held where they change nothing: as by this many times (c - c_0)^2/2."""


class StartMap:
    """p -> the sigmoid of a linear function of ln p and ln(1 - p), or isotonic regression.

    Parameters
    ----------
    kind
        "temperature": the log odds are multiplied by a number; "platt": and another is added; "beta": ln p
        and -ln(1 - p) have factors of their own; "isotonic"; "none": p stays.

    Attributes
    ----------
    coefficients_
        Of ln p, of -ln(1 - p), and what is added; None for "isotonic" and "none".

    References
    ----------
    Platt (1999); Kull, Silva Filho and Flach (2017), "Beta calibration".

    """

    def __init__(self, kind: Start) -> None:
        self.kind = kind
        self.coefficients_: Floats | None = None
        self._curve: tuple[Floats, Floats] | None = None

    def fit(self, p: Floats, y: Any, weights: Floats) -> StartMap:
        """The map of the least log loss of forecasts inside (0, 1), shape (n,), with these weights."""
        if self.kind == "isotonic":
            from sklearn.isotonic import IsotonicRegression

            curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(p, y, sample_weight=weights)
            self._curve = np.asarray(curve.X_thresholds_), np.asarray(curve.y_thresholds_)
        elif self.kind != "none":
            # which coefficient each of the three is: of the log odds both logarithms have the same
            shared: dict[str, list[int]] = {"temperature": [0, 0, -1], "platt": [0, 0, 1], "beta": [0, 1, 2]}
            self.coefficients_ = best_sigmoid(p, y, weights, np.array(shared[self.kind]))
        return self

    def __call__(self, p: Floats, edge: float) -> Floats:
        """The forecasts p, inside (0, 1), mapped: none nearer to 0 or 1 than `edge` or p itself."""
        if self._curve is not None:
            return away_from_ends(np.interp(p, *self._curve), p, edge)
        if self.coefficients_ is None:
            return p
        return away_from_ends(sigmoids(p, self.coefficients_), p, edge)


def nearest_ends(p: Floats, n_rows: float) -> tuple[float, float]:
    """How near forecasts come to 0 and 1, `least` if none comes nearer; and least, 1/(2 (n + 1))."""
    least = least_probability(n_rows, 2)
    within = np.minimum(p, 1.0 - p)
    return float(within[within > 0.0].min(initial=least)), least


def away_from_ends(q: Floats, p: Floats, edge: float) -> Floats:
    """Answers q that are no nearer to 0 or 1 than `edge`, or than p where that is nearer."""
    return np.clip(q, np.minimum(p, edge), np.maximum(p, 1.0 - edge))


@compiled
def sigmoids(p: Floats, coefficients: Floats) -> Floats:
    """1/(1 + exp(-(a ln p - b ln(1 - p) + c))) of every p, shape (n,)."""
    answer = np.empty(len(p))
    for row in range(len(p)):
        x = coefficients[0] * logarithm(p[row]) - coefficients[1] * logarithm(1.0 - p[row]) + coefficients[2]
        answer[row] = 1.0 / (1.0 + exponential(-max(min(x, 700.0), -700.0)))
    return answer


class SigmoidRows:
    """Forecasts inside (0, 1), outcomes and weights, each of shape (n,), as `best_of_rows` asks of them.

    `unknown` (3, u) makes a, b and c of u numbers, added to `fixed`.
    """

    def __init__(self, p: Floats, y: Any, weights: Floats, unknown: Floats, fixed: Floats) -> None:
        self.p, self.y, self.weights = p, y, weights
        self.unknown, self.fixed = unknown, fixed
        self.from_sample, self.weight = len(p) > SAMPLED, float(weights.sum())

    def _all(self, parameters: Floats) -> Floats:
        return self.fixed + (self.unknown * parameters).sum(axis=1)

    def sums(self, parameters: Floats) -> LinearSums:
        """Sums of log losses, of their gradients and of weights."""
        slope = np.zeros(3)
        loss, rows = _sigmoid_sums(self.p, self.y, self.weights, self._all(parameters), slope)
        return LinearSums(loss, (self.unknown * slope[:, None]).sum(axis=0), rows)

    def curve(self, parameters: Floats) -> Floats:
        """The second derivatives of the average log loss, shape (u, u)."""
        curve = _sigmoid_curve(self.p, self.weights, self._all(parameters))
        curve += np.tril(curve, -1).T
        return inner(self.unknown.T, inner(curve, self.unknown))

    def sample(self) -> SigmoidRows:
        """Some of the rows, at random."""
        rows = sampled_rows(len(self.p))
        return SigmoidRows(self.p[rows], self.y[rows], self.weights[rows], self.unknown, self.fixed)


def best_sigmoid(p: Floats, y: Any, weights: Floats, shared: NDArray[np.int64]) -> Floats:
    """The a, b, c of the least log loss: Newton's method from the identity (1, 1, 0), with a weak pull to it.

    `shared` says which unknown each of the three is, -1 for one that stays.
    """
    identity = np.array([1.0, 1.0, 0.0])
    unknown = (shared[:, None] == np.arange(shared.max() + 1)).astype(np.float64)
    fixed = np.where(shared < 0, identity, 0.0)
    # the unknowns at the identity: those that are shared are the same there
    centre = np.array([identity[shared == one][0] for one in range(unknown.shape[1])])
    rows = SigmoidRows(p, y, weights, unknown, fixed)
    pull = np.full(len(centre), PRIOR / rows.weight)
    return fixed + (unknown * best_of_rows(rows, centre, pull)).sum(axis=1)


@kernel_part
def _fill_sigmoids(p: Floats, abc: Floats, left: Floats, right: Floats, odds: Floats, small: Floats) -> None:
    """ln p, -ln(1 - p), the log odds a ln p - b ln(1 - p) + c, and exp(-|log odds|)."""
    for r in range(p.shape[0]):
        left[r] = logarithm(p[r])
        right[r] = -logarithm(1.0 - p[r])
    for r in range(p.shape[0]):
        odds[r] = max(min(abc[0] * left[r] + abc[1] * right[r] + abc[2], 700.0), -700.0)
        small[r] = exponential(-abs(odds[r]))


@compiled
def _sigmoid_sums(p: Floats, y: Any, weights: Floats, abc: Floats, slope: Floats) -> tuple[float, float]:
    """Sums of log losses and of weights; the gradient by a, b and c is added to `slope`. By blocks."""
    left, right, odds, small, logs = np.empty((5, BLOCK))
    loss, rows = 0.0, 0.0
    for start in range(0, p.shape[0], BLOCK):
        size = min(BLOCK, p.shape[0] - start)
        _fill_sigmoids(p[start : start + size], abc, left, right, odds, small)
        for r in range(size):
            logs[r] = logarithm(1.0 + small[r])
        lost, counted, first, second, third = 0.0, 0.0, 0.0, 0.0, 0.0
        for r in range(size):
            weight, outcome = weights[start + r], y[start + r]
            f = np.divide(1.0 if odds[r] >= 0.0 else small[r], 1.0 + small[r])
            # ln(1 + e^x) - y x, without what large x would lose
            lost += weight * (max(odds[r], 0.0) - outcome * odds[r] + logs[r])
            counted += weight
            excess = weight * (f - outcome)
            first += excess * left[r]
            second += excess * right[r]
            third += excess
        loss += lost
        rows += counted
        slope[0] += first
        slope[1] += second
        slope[2] += third
    return loss, rows


@compiled
def _sigmoid_curve(p: Floats, weights: Floats, abc: Floats) -> Floats:
    """The lower half of the second derivatives of the average log loss by a, b and c."""
    left, right, odds, small = np.empty((4, BLOCK))
    curve = np.zeros((3, 3))
    rows = 0.0
    for start in range(0, p.shape[0], BLOCK):
        size = min(BLOCK, p.shape[0] - start)
        _fill_sigmoids(p[start : start + size], abc, left, right, odds, small)
        for r in range(size):
            weight = np.divide(small[r], (1.0 + small[r]) * (1.0 + small[r])) * weights[start + r]
            rows += weights[start + r]
            curve[0, 0] += weight * left[r] * left[r]
            curve[1, 0] += weight * left[r] * right[r]
            curve[1, 1] += weight * right[r] * right[r]
            curve[2, 0] += weight * left[r]
            curve[2, 1] += weight * right[r]
            curve[2, 2] += weight
    for a in range(3):
        for b in range(a + 1):
            curve[a, b] /= rows
    return curve


@compiled
def plain_sigmoids(odds: Floats) -> Floats:
    """1/(1 + exp(-z)) of log odds z, shape (n,)."""
    answer = np.empty(len(odds))
    for row in range(len(odds)):
        answer[row] = 1.0 / (1.0 + exponential(-max(min(odds[row], 700.0), -700.0)))
    return answer


@compiled
def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    answer = np.empty(len(p))
    for row in range(len(p)):
        answer[row] = logarithm(p[row]) - logarithm(1.0 - p[row])
    return answer


@compiled
def log_losses(p: Floats, y: Any) -> Floats:
    """-y ln p - (1 - y) ln(1 - p) of outcomes in [0, 1], shape (n,); p lies inside (0, 1)."""
    answer = np.zeros(len(p))
    for row in range(len(p)):
        if y[row] > 0:
            answer[row] -= y[row] * logarithm(p[row])
        if y[row] < 1:
            answer[row] -= (1.0 - y[row]) * logarithm(1.0 - p[row])
    return answer
