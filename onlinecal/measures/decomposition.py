"""The Brier score in three parts: miscalibration, discrimination and the uncertainty of the outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from onlinecal.arrays import Floats
from onlinecal.html import Shown
from onlinecal.measures.counts import Counts, count_shares
from onlinecal.measures.scores import brier_score


@dataclass(frozen=True)
class BrierDecomposition(Shown):
    """brier = miscalibration - discrimination + uncertainty, none of them negative.

    Attributes
    ----------
    brier
        Sum of (p - y)^2, or its average.
    miscalibration
        How much the best non-decreasing map of the forecasts, found in hindsight, would have lowered it.
    discrimination
        How much lower the mapped forecasts' score is than that of the best constant.
    uncertainty
        The score of the best constant, the mean outcome.
    """

    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_decomposition(
    forecasts: ArrayLike, outcomes: ArrayLike, normalize: bool = False
) -> BrierDecomposition:
    """The Brier score as miscalibration - discrimination + uncertainty, by isotonic regression.

    There are no bins to choose. Like every figure in hindsight the miscalibration of perfect forecasts is
    above 0: `chance_level(forecasts, "miscalibration", outcomes)` says what chance makes of it.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        False: sums over rounds. True: averages.

    Raises
    ------
    ValueError
        Bad forecasts or outcomes; the message names the argument, the value and its row.

    References
    ----------
    Dimitriadis, Gneiting & Jordan, "Stable reliability diagrams for probabilistic classifiers" (2021).

    Examples
    --------
    >>> brier_decomposition([0.5, 0.5, 1.0, 1.0], [0, 1, 1, 1])
    BrierDecomposition(brier=0.5, miscalibration=0.0, discrimination=0.25, uncertainty=0.75)

    """
    counts, p, y = count_shares(forecasts, outcomes)
    per = 1 / len(p) if normalize else 1.0
    isotonic, means, rounds = _isotonic(counts)
    base = counts.n_ones / len(p)
    return BrierDecomposition(
        brier_score(p, y) * per,
        max(0.0, excess(counts.values, isotonic, means, rounds)) * per,
        max(0.0, excess(np.full(len(means), base), isotonic, means, rounds)) * per,
        brier_score(np.full(len(p), base), y) * per,
    )


def miscalibration_of_counts(counts: Counts) -> float:
    """The miscalibration of a counted history, a sum."""
    return max(0.0, excess(counts.values, *_isotonic(counts)))


def excess(first: Floats, second: Floats, means: Floats, rounds: Floats) -> float:
    """By how much the Brier score of the first forecasts is above the second's; means of the outcomes."""
    return float((rounds * (first - second) * (first + second - 2.0 * means)).sum())


def _isotonic(counts: Counts) -> tuple[Floats, Floats, Floats]:
    """The isotonic regression at each forecast, the mean outcomes there, and the rounds; each (K,)."""
    rounds = np.asarray(counts.zeros + counts.ones, np.float64)
    means = counts.ones / rounds
    return cast(Floats, isotonic_regression(means, weights=rounds).x), means, rounds
