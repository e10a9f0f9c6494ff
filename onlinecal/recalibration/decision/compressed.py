"""The predictor with one forecast per action: all that one decision maker needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats
from onlinecal.measures.decision.losses import bayes_decisions
from onlinecal.recalibration.weights import Weights, total_weight
from onlinecal.validation import check_probability_rows


@dataclass(frozen=True, eq=False)
class CompressedPredictor:
    """p_l(x) = E[p(X) | d(p(X)) = d(p(x))]: each row gets the mean of its action's rows.

    A mean of probabilities for which an action is best has that action as its best again, so every decision
    of this loss is kept, and its expected loss. If the mean error on each action's region is zero, as
    decision calibration for all losses with K actions demands, then the predictor is distribution calibrated:
    among rows with forecast q, labels have distribution q.

    Attributes
    ----------
    loss
        The decision maker's table, shape (K, C).
    predictions
        Mean of the probabilities per action, shape (K, C); NaN for an action that nobody takes.
    masses
        Share of the rows per action, shape (K,).

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon (2021), appendix C.2.
    """

    loss: Floats
    predictions: Floats
    masses: Floats

    def predict_proba(self, P: ArrayLike) -> Floats:
        """The forecast of each row's action, shape (n, C); at most K values.

        Rows whose action was not seen when the means were taken are kept as they are. The rows are
        recalibrated probabilities, as the means were.

        Raises
        ------
        ValueError
            A bad table.
        """
        table = check_probability_rows(P, "P")
        decisions = bayes_decisions(table, self.loss)
        known = self.masses[decisions] > 0.0
        return np.where(known[:, None], self.predictions[decisions], table)


def fitted_rows(model: Any) -> tuple[Floats, Weights]:
    """What a recalibrator made of the rows that it was fitted to, and their weights."""
    table = getattr(model, "_fitted_table", None)
    if table is None:
        raise ValueError("P must be given: this model was loaded and has no fitted rows")
    return table, getattr(model, "_fitted_weights", None)


def compress(table: Floats, loss: Floats, weights: Weights = None) -> CompressedPredictor:
    """Average the rows of a table (n, C), with weights (n,), by the Bayes decisions of a loss (K, C)."""
    decisions = bayes_decisions(table, loss)
    counts = np.bincount(decisions, weights, minlength=len(loss))
    sums = np.zeros(loss.shape)
    np.add.at(sums, decisions, table if weights is None else table * weights[:, None])
    with np.errstate(invalid="ignore"):
        return CompressedPredictor(loss, sums / counts[:, None], counts / total_weight(table, weights))
