"""What forecasts are worth: squared error, log loss, accuracy, and how calibrated they are in bins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.measures.expected import expected_calibration_error
from onlinecal.measures.multiclass_events import confidence_calibration_error

BINS = 15
CLIP = 1e-15
"""Probabilities are kept this far from 0 in the log loss, as river does. (scikit-learn's log_loss keeps them
2e-16 away, at which an outcome that was ruled out costs 36.0 instead of 34.5.)"""


class BesideConstants:
    """What has scores of forecasts and of their best constant in hindsight has them by their names, too."""

    __slots__ = ()

    brier: float
    log_loss: float
    brier_constant: float
    log_loss_constant: float

    @property
    def losses(self) -> dict[str, float]:
        """Of the forecasts, by the names of the scores."""
        return {"Brier score": self.brier, "log loss": self.log_loss}

    @property
    def constants(self) -> dict[str, float]:
        """Of the best constant."""
        return {"Brier score": self.brier_constant, "log loss": self.log_loss_constant}


class EventScores(NamedTuple):
    """Averages over rounds for one event: (p - y)^2, log loss, and expected calibration error in bins."""

    brier: float
    log_loss: float
    ece: float


class ClassScores(NamedTuple):
    """Averages over rows; the Brier score is a sum over classes, the error in bins is the top label's."""

    brier: float
    log_loss: float
    accuracy: float
    ece: float


def event_scores(forecasts: Floats, outcomes: NDArray[np.uint8]) -> EventScores:
    """The scores of forecasts of one event, both of shape (T,)."""
    return EventScores(
        brier_score(forecasts, outcomes) / len(outcomes),
        log_loss(np.where(outcomes == 1, forecasts, 1.0 - forecasts)),
        expected_calibration_error(forecasts, outcomes, BINS, normalize=True),
    )


def class_scores(probabilities: Floats, labels: NDArray[np.int64]) -> ClassScores:
    """The scores of probabilities (n, k) and labels (n,)."""
    rows = np.arange(len(labels))
    return ClassScores(
        class_brier(probabilities, labels),
        log_loss(probabilities[rows, labels]),
        float((probabilities.argmax(axis=1) == labels).mean()),
        confidence_calibration_error(probabilities, labels, BINS, normalize=True),
    )


def class_brier(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """The Brier score of probabilities (n, k) and labels (n,): a sum over classes, an average over rows."""
    errors = probabilities.copy()
    errors[np.arange(len(labels)), labels] -= 1.0
    return float((errors**2).sum(axis=1).mean())


def log_costs(given: Floats) -> Floats:
    """The log loss of each outcome that was given this probability, of any shape."""
    costs: Floats = -np.log(np.clip(given, CLIP, None))
    return costs


def log_loss(given: Floats) -> float:
    """Average of -log of the probabilities that were given to what happened, shape (T,)."""
    return float(log_costs(given).mean())


def cross_entropy(forecasts: Floats, outcomes: NDArray[np.uint8] | Floats) -> float:
    """Sum over rounds of the log loss; outcomes between 0 and 1 are shares of both."""
    return float((outcomes * log_costs(forecasts) + (1.0 - outcomes) * log_costs(1.0 - forecasts)).sum())


def brier_score(forecasts: Floats, outcomes: NDArray[np.uint8] | Floats) -> float:
    """Sum over rounds of (p - y)^2; outcomes may lie between 0 and 1."""
    return float(((forecasts - outcomes) ** 2).sum())


def best_constant_brier(rounds: int, ones: float) -> float:
    """Sum over rounds of (c - y)^2 for the best constant c, the frequency of ones."""
    return ones * (rounds - ones) / rounds
