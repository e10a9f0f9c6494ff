"""The smooth map of a column of forecasts that patches start from."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.fixed_order import exponential, logarithm
from onlinecal.recalibration.flooring import least_probability

Floats = NDArray[np.float64]

Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)
TRIED: tuple[Start, ...] = ("none", "temperature", "platt", "beta")
"""What "auto" chooses from."""

STEPS, CLOSE = 50, 1e-10
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


@kernel_part
def _inner(row: Floats, point: Floats) -> float:
    """The sum of products, kept where an exponential is a number."""
    total = 0.0
    for j in range(len(point)):
        total += row[j] * point[j]
    return max(min(total, 700.0), -700.0)


@kernel_part
def _penalised(table: Floats, y: Any, weights: Floats, point: Floats, origin: Floats) -> float:
    """The sum of log losses, and the pull to the origin."""
    loss = 0.0
    for j in range(len(point)):
        loss += 0.5 * PRIOR * (point[j] - origin[j]) ** 2
    for row in range(len(y)):
        x = _inner(table[row], point)
        # ln(1 + e^x) - y x, without what large x would lose
        loss += weights[row] * (max(x, 0.0) - y[row] * x + logarithm(1.0 + exponential(-abs(x))))
    return loss


@kernel_part
def _solve(matrix: Floats, values: Floats) -> Floats:
    """The x with matrix x = values, by Cholesky's factors of the lower half, which is overwritten."""
    size = len(values)
    x = values.copy()
    for j in range(size):
        for k in range(j):
            matrix[j, j] -= matrix[j, k] ** 2
        matrix[j, j] = np.sqrt(matrix[j, j])
        for i in range(j + 1, size):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]
    for j in range(size):
        for k in range(j):
            x[j] -= matrix[j, k] * x[k]
        x[j] /= matrix[j, j]
    for j in range(size - 1, -1, -1):
        for k in range(j + 1, size):
            x[j] -= matrix[k, j] * x[k]
        x[j] /= matrix[j, j]
    return x


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


@compiled
def best_sigmoid(p: Floats, y: Any, weights: Floats, shared: NDArray[np.int64]) -> Floats:
    """The a, b, c of the least log loss: Newton's method from the identity (1, 1, 0), with a weak pull to it.

    `shared` says which unknown each of the three is, -1 for one that stays.
    """
    n_unknown = shared.max() + 1
    table = np.zeros((len(p), n_unknown))
    origin = np.zeros(n_unknown)
    fixed = np.array([1.0, 1.0, 0.0])
    for j in range(3):
        if shared[j] >= 0:
            origin[shared[j]] = fixed[j]
    for row in range(len(p)):
        for j, x in enumerate((logarithm(p[row]), -logarithm(1.0 - p[row]), 1.0)):
            if shared[j] >= 0:
                table[row, shared[j]] += x
    point = origin.copy()
    loss = _penalised(table, y, weights, point, origin)
    for _ in range(STEPS):
        slope, curvature = np.zeros(n_unknown), np.zeros((n_unknown, n_unknown))
        for row in range(len(p)):
            f = 1.0 / (1.0 + exponential(-_inner(table[row], point)))
            for j in range(n_unknown):
                slope[j] += weights[row] * (y[row] - f) * table[row, j]
                for k in range(j + 1):
                    curvature[j, k] += weights[row] * f * (1.0 - f) * table[row, j] * table[row, k]
        for j in range(n_unknown):
            slope[j] -= PRIOR * (point[j] - origin[j])
            curvature[j, j] += PRIOR
        step = _solve(curvature, slope)
        size, share = 0.0, 1.0
        for part in step:
            size = max(size, abs(part))
        trial = point + step
        found = _penalised(table, y, weights, trial, origin)
        while not found <= loss and share > 1e-6:
            share *= 0.5
            trial = point + share * step
            found = _penalised(table, y, weights, trial, origin)
        if not found <= loss:
            break
        point, loss = trial, found
        if size < CLOSE:
            break
    answer = fixed.copy()
    for j in range(3):
        if shared[j] >= 0:
            answer[j] = point[shared[j]]
    return answer
