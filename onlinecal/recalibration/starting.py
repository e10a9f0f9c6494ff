"""What corrections by level sets or decisions start from, and how much of them is kept.

Of a row of probabilities p: the start s = s(p), a smooth map with few numbers to learn; the correction
q = q(s); f, which is q but where some class would get less than a part `keep` of what the start gives it;
and the answer h = (1 - a) s + a f with the share a. On the fitted rows, whatever the correction is:

- h_c >= (1 - a (1 - keep)) s_c for each class c, so no set of rows has a log loss above the start's by more
  than -log(1 - a (1 - keep));
- E|h - y|^2 = (1 - a) E|s - y|^2 + a E|f - y|^2 - a (1 - a) E|f - s|^2, and a is chosen so that it does not
  exceed E|s - y|^2, which the start is only kept for if it does not exceed E|p - y|^2;
- on every set A of rows |E (h - y) 1_A| <= (1 - a) |E (s - y) 1_A| + a |E (f - y) 1_A|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from onlinecal.compiling import compiled
from onlinecal.measures.decision.partitions import residuals
from onlinecal.measures.fixed_order import Floats, logarithm
from onlinecal.measures.scores import CLIP
from onlinecal.recalibration.classical.beta import BetaCalibration
from onlinecal.recalibration.classical.dirichlet import chosen_dirichlet
from onlinecal.recalibration.classical.per_class_isotonic import PerClassIsotonic
from onlinecal.recalibration.classical.temperature import TemperatureScaling, temperature_start
from onlinecal.recalibration.classical.vector_scaling import VectorScaling
from onlinecal.recalibration.flooring import kept_part, least_probability
from onlinecal.recalibration.probability_recalibrator import Ints, ProbabilityRecalibrator
from onlinecal.recalibration.weights import Weights, mean, squared_error, total_weight
from onlinecal.validation import check_choice, check_count, check_number

Start = Literal["temperature", "vector", "dirichlet", "isotonic", "beta", "none"]
STARTS: tuple[Start, ...] = get_args(Start)
MODELS: dict[str, Callable[[], ProbabilityRecalibrator]] = {
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "isotonic": PerClassIsotonic,
    "beta": BetaCalibration,
}
SHARES = np.linspace(0.0, 1.0, 21)
"""What the share of a correction is chosen from."""


class Rows(NamedTuple):
    """Rows with what the start makes of them and what the correction makes of that, both (n, C)."""

    start: Floats
    corrected: Floats
    labels: Ints
    weights: Weights


class StartedRecalibrator(ProbabilityRecalibrator):
    """A recalibrator that corrects what a start makes of its table, and gives out a mixture of the two.

    Its subclasses say what the parameters `start`, `share`, `keep`, `n_folds` and `seed` are. Fitted:
    `start_` (None: the table itself), `share_`, `keep_`.
    """

    seed: int
    # of models pickled before there were these
    start: Start = "none"
    n_folds = 0
    share: float | None = 1.0
    keep = 0.0
    start_: ProbabilityRecalibrator | None = None
    share_ = 1.0
    keep_ = 0.0

    def _check_parameters(self) -> None:
        check_choice(self.start, STARTS, "start")
        if self.share is not None:
            check_number(self.share, "share", 0.0, 1.0, allowed="None or a number from 0 to 1")
        check_number(self.keep, "keep", 0.0, 1.0, "[)", "a number of at least 0 and below 1")
        if self.n_folds != 0 and check_count(self.n_folds, "n_folds") < 2:
            raise ValueError(f"n_folds must be 0 or at least 2, got {self.n_folds!r}")

    @property
    def inverse_temperature_(self) -> float:
        """beta of a start that is a temperature, else 1."""
        check_is_fitted(self, "n_features_in_")
        return self.start_.inverse_temperature_ if isinstance(self.start_, TemperatureScaling) else 1.0

    def __setstate__(self, state: dict[str, Any]) -> None:
        # in 0.1.0 the only start was a temperature, kept as a number
        now = {name: value for name, value in state.items() if name != "inverse_temperature_"}
        if (beta := state.get("inverse_temperature_", 1.0)) != 1.0:
            now["start_"] = temperature_start(beta, now["n_features_in_"], now.get("fixed_order_", False))
        super().__setstate__(now)

    def _answers(self, begun: Floats, corrected: Floats) -> Floats:
        """h, from s and q."""
        if self.share_ == 0.0:
            return begun
        corrected = kept_part(corrected, begun, self.keep_)
        return corrected if self.share_ == 1.0 else (1.0 - self.share_) * begun + self.share_ * corrected


def start_model(name: Start, table: Floats, labels: Ints, weights: Weights) -> ProbabilityRecalibrator | None:
    """The unfitted start of this name; the penalty of "dirichlet" is chosen on three folds of these rows."""
    if name == "none":
        return None
    if name != "dirichlet":
        return MODELS[name]()
    given = {} if weights is None else {"sample_weight": weights}
    best: ProbabilityRecalibrator = clone(chosen_dirichlet().fit(table, labels, **given).best_estimator_)
    return best


def fitted_start(
    model: ProbabilityRecalibrator | None, table: Floats, labels: Ints, weights: Weights
) -> ProbabilityRecalibrator | None:
    """A start fitted to these rows; None, none at all, if it would raise their squared error.

    Nor is there a temperature where every label is the most probable class: the colder the better, for ever.
    """
    if model is None:
        return None
    if isinstance(model, TemperatureScaling) and bool((table.argmax(axis=1) == labels).all()):
        return None
    model = clone(model)
    model._learn(table, labels, weights)
    model.n_features_in_, model.classes_ = table.shape[1], np.arange(table.shape[1])
    if isinstance(model, PerClassIsotonic):
        model.floor_ = least_probability(total_weight(table, weights), table.shape[1])
    raised = squared_error(model._map(table), labels, weights) > squared_error(table, labels, weights)
    return None if raised else model


def started(model: ProbabilityRecalibrator | None, table: Floats) -> Floats:
    """s(p) of each row."""
    return table if model is None else model._map(table)


def fold_numbers(n_rows: int, n_folds: int, seed: int) -> Ints:
    """Which fold each row is held out in.

    (scikit-learn's KFold would deal other rows to the folds for the same seed, and so change models.)
    """
    return np.random.default_rng([seed, 2]).permutation(np.arange(n_rows) % n_folds)


def chosen_share(held_out: Sequence[Rows], fitted: Rows) -> float:
    """The largest share with which neither log loss nor squared error of held-out rows rises.

    Nor does the squared error of the fitted rows. `corrected` is f in all of them. Both losses are convex in
    the share, so that they do not rise with any smaller share either.
    """
    allowed = _squared_rises(fitted) <= 0.0
    weights = None if fitted.weights is None else np.concatenate([_counts(rows) for rows in held_out])
    starts, corrected, labels = (np.concatenate([rows[i] for rows in held_out]) for i in range(3))
    whole = Rows(starts, corrected, labels, weights)
    allowed &= _squared_rises(whole) <= 0.0
    at = np.arange(len(labels)), labels
    losses = _log_losses(starts[at], corrected[at], _counts(whole), SHARES)
    allowed &= losses <= losses[0]
    return float(SHARES[allowed].max())


def _counts(rows: Rows) -> Floats:
    return np.ones(len(rows.labels)) if rows.weights is None else rows.weights


def _squared_rises(rows: Rows) -> Floats:
    """E|h - y|^2 - E|s - y|^2 for each of the SHARES, divided by the share; 0 for none."""
    step = rows.corrected - rows.start
    cross = mean((step * residuals(rows.start, rows.labels)).sum(axis=1), rows.weights)
    square = mean((step**2).sum(axis=1), rows.weights)
    return np.where(SHARES > 0.0, 2.0 * cross + SHARES * square, 0.0)


@compiled
def _log_losses(start: Floats, corrected: Floats, weights: Floats, shares: Floats) -> Floats:
    """For each share the sum over rows of minus the logarithm of the label's probability, weighted."""
    losses = np.zeros(shares.shape[0])
    for i in range(start.shape[0]):
        for a in range(shares.shape[0]):
            p = (1.0 - shares[a]) * start[i] + shares[a] * corrected[i]
            losses[a] -= weights[i] * logarithm(max(p, CLIP))
    return losses
