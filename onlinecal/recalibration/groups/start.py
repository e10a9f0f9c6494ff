"""The smooth map of a column of forecasts that patches start from."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from onlinecal.arrays import Floats
from onlinecal.pieces import pieces, sampled_rows
from onlinecal.recalibration.convex import CURVED, least
from onlinecal.recalibration.flooring import least_probability

Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)
TRIED: tuple[Start, ...] = ("none", "temperature", "platt", "beta")
"""What "auto" chooses from."""

PRIOR = 1.0
"""How firmly coefficients are held where they change nothing: as by this many times (c - c_0)^2/2."""
FARTHEST = 700.0
"""Log odds are taken to be no farther from 0: exponentials of these are finite."""


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


def sigmoids(p: Floats, coefficients: Floats) -> Floats:
    """1/(1 + exp(-(a ln p - b ln(1 - p) + c))) of every p, shape (n,)."""
    a, b, c = coefficients
    return plain_sigmoids(a * np.log(p) - b * np.log(1.0 - p) + c)


class SigmoidLoss:
    """The average log loss of forecasts as a function of u unknowns, with a pull to where they began.

    `features` (n, u) times the unknowns, and `fixed` (n,), are the log odds; outcomes, weights: (n,).
    """

    def __init__(self, features: Floats, fixed: Floats, y: Floats, weights: Floats, centre: Floats) -> None:
        self.features, self.fixed, self.y, self.weights = features, fixed, y, weights
        self.centre, self.rows = centre, float(weights.sum())

    def sample(self) -> SigmoidLoss | None:
        """The same of some rows."""
        if len(self.y) <= CURVED:
            return None
        some = sampled_rows(len(self.y), CURVED)
        return SigmoidLoss(
            self.features[some], self.fixed[some], self.y[some], self.weights[some], self.centre
        )

    def value(self, unknown: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, piece by piece."""
        loss, slope = 0.0, np.zeros_like(unknown)
        for some in pieces(self.features):
            features, y, weights = self.features[some], self.y[some], self.weights[some]
            odds = np.clip(features @ unknown + self.fixed[some], -FARTHEST, FARTHEST)
            small = np.exp(-np.abs(odds))
            # ln(1 + e^x) - y x, without what large x would lose
            loss += float(weights @ (np.maximum(odds, 0.0) - y * odds + np.log1p(small)))
            slope += features.T @ (weights * (np.where(odds >= 0.0, 1.0, small) / (1.0 + small) - y))
        away = unknown - self.centre
        return (loss + PRIOR / 2.0 * float(away @ away)) / self.rows, (slope + PRIOR * away) / self.rows

    def curve(self, unknown: Floats) -> Floats:
        """The second derivatives."""
        small = np.exp(-np.minimum(np.abs(self.features @ unknown + self.fixed), FARTHEST))
        spread = self.weights * small / (1.0 + small) ** 2
        curve = (self.features.T * spread) @ self.features + PRIOR * np.eye(len(unknown))
        return np.asarray(curve / self.rows)


def best_sigmoid(p: Floats, y: Any, weights: Floats, shared: NDArray[np.int64]) -> Floats:
    """The a, b, c of the least log loss, searched for from the identity (1, 1, 0), with a weak pull to it.

    `shared` says which unknown each of the three is, -1 for one that stays.
    """
    identity = np.array([1.0, 1.0, 0.0])
    unknown = (shared[:, None] == np.arange(shared.max() + 1)).astype(np.float64)
    fixed = np.where(shared < 0, identity, 0.0)
    # the unknowns at the identity: those that are shared are the same there
    centre = np.array([identity[shared == one][0] for one in range(unknown.shape[1])])
    seen = np.column_stack([np.log(p), -np.log(1.0 - p), np.ones(len(p))])
    loss = SigmoidLoss(seen @ unknown, seen @ fixed, np.asarray(y, np.float64), weights, centre)
    return np.asarray(fixed + unknown @ least(loss, centre))


def plain_sigmoids(odds: Floats) -> Floats:
    """1/(1 + exp(-z)) of log odds z, shape (n,)."""
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(-odds, -FARTHEST, FARTHEST))))


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def log_losses(p: Floats, y: Any) -> Floats:
    """-y ln p - (1 - y) ln(1 - p) of outcomes in [0, 1], shape (n,); p lies inside (0, 1)."""
    return np.asarray(-(xlogy(y, p) + xlogy(1.0 - y, 1.0 - p)))
