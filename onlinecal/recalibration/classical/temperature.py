"""Temperature scaling: one exponent for all probabilities."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from onlinecal.compiling import compiled
from onlinecal.measures.fixed_order import by_columns, exponential, logarithm, soften
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights

FLOOR = 1e-12
"""Added to probabilities before their logarithm, as scikit-learn does."""

LARGEST_LOG = 10.0


class TemperatureScaling(ProbabilityRecalibrator):
    """p_c becomes proportional to p_c^beta, with the beta of the least log loss.

    The same map as scikit-learn's CalibratedClassifierCV(method="temperature") around these probabilities;
    that one needs every class among the labels, this one does not.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

    Attributes
    ----------
    inverse_temperature_
        beta, from exp(-10) to exp(10); below 1 for overconfident probabilities.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = TemperatureScaling().fit([[0.99, 0.01]] * 4, [0, 0, 0, 1])
    >>> model.predict_proba([[0.99, 0.01], [0.01, 0.99]]).round(3)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    fixed_order_ = False
    """Of models that were pickled before exponentials were the same on every processor."""

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        self.inverse_temperature_ = best_inverse_temperature(table, labels, weights)
        self.fixed_order_ = True

    def _map(self, table: Floats) -> Floats:
        temper = tempered if self.fixed_order_ else tempered_by_numpy
        return temper(table, self.inverse_temperature_)


def temperature_start(inverse_temperature: float, n_classes: int, fixed_order: bool) -> TemperatureScaling:
    """A scaling that is known, not fitted."""
    model = TemperatureScaling()
    model.inverse_temperature_, model.fixed_order_ = inverse_temperature, fixed_order
    model.n_features_in_, model.classes_ = n_classes, np.arange(n_classes)
    return model


def best_inverse_temperature(table: Floats, labels: Ints, weights: Weights = None) -> float:
    """The beta of the least log loss, in [exp(-10), exp(10)]."""
    logs = np.empty(table.shape)
    fill_logs(np.ascontiguousarray(table), logs)
    counts = np.ones(len(table)) if weights is None else weights

    def log_loss(log_beta: float) -> float:
        return _log_loss(logs, labels, counts, exponential(log_beta))

    end = minimize_scalar(
        log_loss, bounds=(-LARGEST_LOG, LARGEST_LOG), method="bounded", options={"xatol": 1e-10}
    )
    return float(exponential(end.x))


def tempered(table: Floats, inverse_temperature: float) -> Floats:
    """Rows proportional to p^beta, shape (n, C)."""
    columns = by_columns(table)
    fill_logs(columns, columns)
    columns *= inverse_temperature
    soften(columns)
    return np.ascontiguousarray(columns.T)


def tempered_by_numpy(table: Floats, inverse_temperature: float) -> Floats:
    """The same to rounding, to the bits of models from before `tempered` was fixed."""
    return softmax(inverse_temperature * np.log(table + FLOOR), axis=1)


@compiled
def fill_logs(table: Floats, logs: Floats) -> None:
    """log(p + FLOOR), into `logs` of the same shape; may be the table itself."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            logs[i, j] = logarithm(table[i, j] + FLOOR)


@compiled
def _log_loss(logs: Floats, labels: Ints, weights: Floats, beta: float) -> float:
    """Average over rows of minus the logarithm of the label's share of exp(beta logs)."""
    shares = np.empty(logs.shape[1])
    loss = 0.0
    rows = 0.0
    for i in range(logs.shape[0]):
        largest = beta * logs[i].max()
        for c in range(shares.shape[0]):
            shares[c] = exponential(beta * logs[i, c] - largest)
        total = 0.0
        for share in shares:
            total += share
        loss += weights[i] * (logarithm(total) + largest - beta * logs[i, labels[i]])
        rows += weights[i]
    return loss / rows
