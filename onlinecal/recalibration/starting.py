"""Chooses the map that corrections by level sets or decisions start from, and how much of them is kept.

A row of probabilities p goes through four steps. The start s = s(p) is a smooth map with few numbers to
learn. The correction is q = q(s). The limited correction f is the row nearest to q in which every class has
between max(keep, 1/r) and r times what the start gives it. The answer is h = (1 - a) s + a f, with the share
a. On the fitted rows these hold, whatever the correction is and whoever chose the share:

- log s_c - log h_c <= -log(1 - a (1 - max(keep, 1/r))) for each class c and row: no set of rows has a log
  loss above the start's by more;
- E|h - y|^2 = (1 - a) E|s - y|^2 + a E|f - y|^2 - a (1 - a) E|f - s|^2;
- on every set A of rows |E (h - y) 1_A| <= (1 - a) |E (s - y) 1_A| + a |E (f - y) 1_A|.

Where held-out rows choose the share, they choose it so that E|h - y|^2 does not exceed E|s - y|^2 on the
fitted rows. That is not so without folds, or with a share that is set: then h may have a larger squared error
than s. A start is only taken if E|s - y|^2 does not exceed E|p - y|^2 on the rows that it is fitted to. A
start that is kept from a fit before (`warm_start`) is not compared again.

`fit` writes: the start, the correction that the subclass learns on the rows after the start, and how much of
it is kept (`keep_`, `limit_`, `share_`). Held-out rows decide this unless it is set. To map a table takes the
four steps above in their order, and changes nothing. A model that is loaded gets the same attributes from its
file.

What is drawn at random for a seed s has a stream each: [s, 1] the decision makers that are watched; [s, 2]
the folds; [s, 3, 0] searches and halves of decision recalibration on all rows, and [s, 3, 1] those on the
fitted rows of each split; [s, 4] the rows that choose the start; [s, 5] the rows that decide. Two streams are
drawn from s alone: pools of rows (`lp/statistics.py`), and the three folds that choose a penalty
(`best_penalty`), where [s, 7] divides the weights of equal rows among the folds. For start="dirichlet" the s
of the penalty is 0. Equal arguments give equal bits because these, the choices below and their order stay as
they are.

What is saved of a start are its attributes in START_ARRAYS (`decision/recalibrator.py`). The fitted
attributes of a new start must be added there, or `save` leaves them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Floats, Ints, as_doubles
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.scores import log_costs
from onlinecal.recalibration.classical.linear import (
    MOST_CHOOSING_ROWS,
    PENALTIES,
    DirichletCalibration,
    VectorScaling,
    best_penalty,
)
from onlinecal.recalibration.classical.temperature import (
    BetaCalibration,
    PerClassIsotonic,
    TemperatureScaling,
)
from onlinecal.recalibration.flooring import least_probability, limited
from onlinecal.recalibration.folds import (
    DIGITS,
    Dealt,
    SampleSizeWarning,
    deal,
    few_remarks,
    same_rows,
    standard_error,
    tell_enough,
)
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator, squared_error
from onlinecal.remarks import warn_of
from onlinecal.validation import check_choice, check_count, check_number

SHARE_CHOICES = np.arange(21) / 20.0
"""The choices for the share of a correction. They ascend; the first must be 0, which is allowed in any case,
and the last 1, at which the search for a limit ends."""
LIMIT_CHOICES = (1000.0, 100.0, 20.0, 5.0, 3.0, 2.0, 1.5, 1.25)
"""The choices for the limit. They must descend: the first one that allows the largest share is taken."""
TOLERATED_ERRORS = 1.0
"""A loss counts as not risen if it plus this many standard errors of the difference is at most the
start's."""


Error = Callable[[Floats, Ints, Floats], float]
"""The error that a correction lowers, a function of probabilities (n, C), labels (n,) and weights (n,)."""


class StartedRows(NamedTuple):
    """Rows after the start, s, and after the correction, q, both of shape (n, C).

    Their labels, weights and blocks, as in `Dealt`, have shape (n,).
    """

    start: Floats
    corrected: Floats
    labels: Ints
    weights: Floats
    blocks: Floats


class Rises(NamedTuple):
    """How far a loss is above the start's, for each of SHARE_CHOICES, (21,): mean and standard error."""

    means: Floats
    spreads: Floats

    def fall(self, errors: float) -> NDArray[np.bool_]:
        """For which of SHARE_CHOICES the mean is at least this many standard errors below 0."""
        return self.means + errors * self.spreads <= 0.0


def chosen_mixture(
    held_out: Iterable[StartedRows],
    fitted: Callable[[], Iterable[StartedRows]],
    keep: float,
    limit: float | None,
    error: Error,
) -> tuple[float, float]:
    """The largest share with which no loss rises, and the widest limit that allows this share.

    The losses are the log loss and the squared error of held-out rows, which must be lower by
    TOLERATED_ERRORS standard errors of the difference, and the squared error of the fitted rows, which come
    in parts. The share is 0 if the error that the correction should lower has risen on the held-out rows, or
    if no rows are held out.
    """
    none = 0.0, math.inf if limit is None else float(limit)
    if not (parts := list(held_out)):
        return none
    rows = StartedRows(*map(np.concatenate, zip(*parts, strict=True)))
    share, widest = 0.0, math.inf
    for width in LIMIT_CHOICES if limit is None else (limit,):
        allowed = log_rises(rows, keep, width).fall(TOLERATED_ERRORS)
        allowed &= squared_rises([rows], keep, width).fall(TOLERATED_ERRORS)
        if SHARE_CHOICES[allowed].max(initial=0.0) > share:
            allowed &= squared_rises(fitted(), keep, width).fall(0.0)
        if (largest := float(SHARE_CHOICES[allowed | (SHARE_CHOICES == 0.0)].max())) > share:
            share, widest = largest, width
        if share == 1.0:
            break
    if share > 0.0:
        mixed = rows.start + share * (limited(rows.corrected, rows.start, keep, widest) - rows.start)
        if error(mixed, rows.labels, rows.weights) > error(rows.start, rows.labels, rows.weights):
            return none
    return share, widest


def squared_rises(parts: Iterable[StartedRows], keep: float, limit: float) -> Rises:
    """The rises of |h - y|^2, divided by the share; `parts` are parts of a table, whose sums add up."""
    sums, squares = np.zeros(6), np.zeros(6)
    for start, corrected, labels, weights, blocks in parts:
        step = limited(corrected, start, keep, limit) - start
        # |h - y|^2 - |s - y|^2 = share cross + share^2 size
        cross, size = 2.0 * (step * residuals(start, labels)).sum(axis=1), (step**2).sum(axis=1)
        terms = np.array((np.ones_like(size), cross, size, cross**2, cross * size, size**2)) * weights
        sums += terms.sum(axis=1)
        squares += (terms * blocks).sum(axis=1)
    means = (sums[1] + SHARE_CHOICES * sums[2]) / sums[0]
    rows, cross, size, crosses, both, sizes = squares
    about_zero = crosses + SHARE_CHOICES * (2.0 * both + SHARE_CHOICES * sizes)
    about_means = about_zero - means * (2.0 * (cross + SHARE_CHOICES * size) - means * rows)
    return Rises(means, np.sqrt(np.maximum(about_means, 0.0)) / sums[0])


def log_rises(rows: StartedRows, keep: float, limit: float) -> Rises:
    """The rises of the log loss."""
    at = np.arange(len(rows.labels)), rows.labels
    begun = rows.start[at]
    step = limited(rows.corrected, rows.start, keep, limit)[at] - begun
    before = log_costs(begun)
    rises = [log_costs(begun + share * step) - before for share in SHARE_CHOICES]
    means = [float(np.average(rise, weights=rows.weights)) for rise in rises]
    spreads = [
        standard_error(rise - mean, rows.weights, rows.blocks)
        for rise, mean in zip(rises, means, strict=True)
    ]
    return Rises(np.array(means), np.array(spreads))


Start = Literal["auto", "temperature", "vector", "dirichlet", "isotonic", "beta", "none"]
STARTS: tuple[Start, ...] = get_args(Start)
START_MODELS: dict[str, type[ProbabilityRecalibrator]] = {
    "temperature": TemperatureScaling,
    "vector": VectorScaling,
    "isotonic": PerClassIsotonic,
    "beta": BetaCalibration,
    "dirichlet": DirichletCalibration,
}
NEVER_WARM = (TemperatureScaling, VectorScaling, DirichletCalibration)
"""Starts without a finite optimum if every label is the most probable class: colder is always better."""
MOST_DIRICHLET_CLASSES = 12
"""With more classes, folds of Dirichlet calibration take too long: their time grows like classes^4."""
MOST_FOLDED_ROWS = 50_000
"""With more rows than this, one fold says enough about a correction."""
MOST_DECIDING = 500_000
"""At most this many rows, drawn at random, decide how much of a correction is kept."""
ROWS_A_NUMBER = 30
"""Maps need this many rows for each number they learn. On 75 rows, maps with more numbers took the log loss
of iris from .15 to .46, and the folds had not shown it."""
TEMPERATURE_PULL, FEWEST_PULLED = 100.0, 300
"""With fewer rows a number, but at least 300 in all, Dirichlet calibration is pulled to the temperature's
map."""
SURE_ERRORS = 2.5
"""The pulled map has to be better by this many standard errors than the map chosen without it. The number is
from 180 small tables: 12 of them took the pulled map, and for 11 of these it was better on fresh rows."""
MOST_GUESSED = 0.002
"""A simpler start is chosen if chance explains its distance to the best, and that is at most this part."""


class StartedRecalibrator(ProbabilityRecalibrator):
    """A recalibrator that maps its table by a start, corrects the result, and answers with a mixture of both.

    The docstrings of its subclasses describe the parameters `start`, `share`, `keep`, `limit`, `cv` and
    `random_state`. A fitted one has `start_` (None: the table stays as it is), `share_`, `keep_` and
    `limit_`.

    `_learn` of a subclass calls in this order: `_start_model`, once, for an unfitted start; `fitted_start`,
    on all rows, whose answer it makes `start_`, and on the fitted rows of each split of `_deciding_folds`;
    and at the end `_mix`, with the held-out rows after start and correction, which sets the other three.
    Whether all rows or the splits are fitted first is up to the subclass. A fit that goes on from the one
    before (`warm_start`) calls neither of the first two, and keeps `start_`. `_map` takes `started`, its own
    correction and `_answers`, in this order.
    """

    random_state: int
    start: Start
    cv: int
    share: float | None
    keep: float
    limit: float | None
    start_: ProbabilityRecalibrator | None
    share_: float
    keep_: float
    limit_: float

    def _check_parameters(self) -> None:
        self.random_state = check_count(self.random_state, "random_state", least=0)
        check_choice(self.start, STARTS, "start")
        if self.share is not None:
            check_number(self.share, "share", 0.0, 1.0, allowed="None or a number from 0 to 1")
        check_number(self.keep, "keep", 0.0, 1.0, "[)", "a number of at least 0 and below 1")
        if self.limit is not None:
            check_number(self.limit, "limit", 1.0, math.inf, "(]", "None or a number above 1")
        self.cv = check_count(self.cv, "cv", least=0)
        if self.cv == 1:
            raise ValueError("cv must be 0 or at least 2, got 1")

    @property
    def inverse_temperature_(self) -> float:
        """The power to which the start raises probabilities if it is a `TemperatureScaling`; else 1.

        Below 1 it makes rows less sure, above 1 surer. Raises NotFittedError before `fit`.
        """
        check_is_fitted(self, "n_features_in_")
        return self.start_.inverse_temperature_ if isinstance(self.start_, TemperatureScaling) else 1.0

    @property
    def start_name_(self) -> str:
        """The name of the fitted start, the map that comes first, as "temperature"; "none" without one.

        Raises NotFittedError before `fit`.
        """
        check_is_fitted(self, "n_features_in_")
        return next((name for name, kind in START_MODELS.items() if type(self.start_) is kind), "none")

    def _start_model(self, table: Floats, labels: Ints, weights: Floats) -> ProbabilityRecalibrator | None:
        """The unfitted start that `start` names; the penalty of "dirichlet" is chosen on three folds."""
        if self.start == "auto":
            return chosen_start(self.cv, self.random_state, table, labels, weights)
        if self.start == "dirichlet":
            return DirichletCalibration(off_diagonal=best_penalty(table, labels, weights))
        return None if self.start == "none" else START_MODELS[self.start]()

    def _deciding_folds(self, table: Floats, labels: Ints, weights: Floats) -> list[HeldOutSplit]:
        """For each fold the rows to fit and the rows held out, which decide how much of a correction is kept.

        Of more than MOST_FOLDED_ROWS rows there is one fold, of more than MOST_DECIDING one of a sample. With
        fewer than two different rows a fold a remark says what is done: if equal rows can be dealt one by one
        they are, and else there is no fold.
        """
        if not self.cv:
            return []
        n_rows = len(table)
        known = np.arange(n_rows)
        if n_rows > MOST_DECIDING:
            rng = np.random.default_rng([self.random_state, 5])
            known = np.sort(rng.choice(n_rows, MOST_DECIDING, replace=False))
        dealt = dealt_rows(table[known], labels[known], weights[known], self.cv, self.random_state)
        otherwise = "none is held out, and the answers are the table, or the start that was asked for"
        warn_of(few_remarks(dealt, self.cv, otherwise), SampleSizeWarning)
        if not tell_enough(dealt, self.cv):
            return []
        splits = []
        for fold in range(1 if n_rows > MOST_FOLDED_ROWS else dealt.n_folds):
            inside, out = dealt.fold != fold, dealt.fold == fold
            fitted = known[dealt.rows[inside]], dealt.weights[inside]
            splits.append(
                HeldOutSplit(*fitted, known[dealt.rows[out]], dealt.weights[out], dealt.blocks[out])
            )
        return splits

    def _mix(
        self, held_out: Iterable[StartedRows], fitted: Callable[[], Iterable[StartedRows]], error: Error
    ) -> None:
        """Set `share_`, `keep_` and `limit_` as asked for, or by held-out rows.

        Nothing is chosen if the share is set, or without folds: then an unset share is 1, and an unset limit
        infinite. With folds of which no row is held out, the share is 0.
        """
        self.keep_ = self.keep
        if self.share is None and self.cv:
            self.share_, self.limit_ = chosen_mixture(held_out, fitted, self.keep, self.limit, error)
        else:
            self.share_ = 1.0 if self.share is None else float(self.share)
            self.limit_ = math.inf if self.limit is None else float(self.limit)

    def _answers(self, begun: Floats, corrected: Floats) -> Floats:
        """The answers h, from rows after the start, s, and after the correction, q."""
        if self.share_ == 0.0:
            return begun
        corrected = limited(corrected, begun, self.keep_, self.limit_)
        return corrected if self.share_ == 1.0 else (1.0 - self.share_) * begun + self.share_ * corrected


def chosen_start(
    n_folds: int, seed: int, table: Floats, labels: Ints, weights: Floats
) -> ProbabilityRecalibrator | None:
    """The start with the least log loss of held-out rows, or the simplest that chance does not tell from it.

    No start and a temperature are always tried. If each class comes at least as often as there are folds, and
    there are ROWS_A_NUMBER rows for each number to learn, vector scaling is tried, and Dirichlet calibration
    of up to MOST_DIRICHLET_CLASSES classes. If there are fewer rows, Dirichlet calibration is tried with
    TEMPERATURE_PULL. Without folds the start is a temperature; with fewer than two rows a fold it is None.
    """
    if not n_folds:
        return TemperatureScaling()
    if len(table) > MOST_CHOOSING_ROWS:
        rows = np.random.default_rng([seed, 4]).choice(len(table), MOST_CHOOSING_ROWS, replace=False)
        table, labels, weights = table[rows], labels[rows], weights[rows]
    dealt = dealt_rows(table, labels, weights, n_folds, seed)
    if not tell_enough(dealt, n_folds):
        return None
    k, n_rows = table.shape[1], float(weights.sum())
    # the simplest first: of candidates that chance does not tell apart the first is taken
    candidates: list[ProbabilityRecalibrator | None] = [None, TemperatureScaling()]
    near: list[ProbabilityRecalibrator] = []
    if np.bincount(labels, weights, minlength=k).min() >= n_folds:
        if ROWS_A_NUMBER * 2 * k <= n_rows:
            candidates.append(VectorScaling())
        if 2 < k <= MOST_DIRICHLET_CLASSES:
            if ROWS_A_NUMBER * k * (k + 1) <= n_rows:
                # the strongest penalty first, without the last: that is nearly vector scaling
                candidates += [DirichletCalibration(off_diagonal=penalty) for penalty in PENALTIES[2::-1]]
            elif n_rows >= FEWEST_PULLED:
                near = [DirichletCalibration(off_diagonal=0.0, intercept=0.0, pull=TEMPERATURE_PULL)]
    table, labels, weights = table[dealt.rows], labels[dealt.rows], dealt.weights
    losses = np.empty((len(candidates) + len(near), len(table)))
    for fold in range(dealt.n_folds):
        out, rows = dealt.fold == fold, dealt.fold != fold
        for losses_of_one, model in zip(losses, [*candidates, *near], strict=True):
            start, _ = fitted_start(model, table[rows], labels[rows], weights[rows])
            losses_of_one[out] = log_costs(started(start, table[out])[np.arange(out.sum()), labels[out]])
    best = int(np.average(losses[: len(candidates)], axis=1, weights=weights).argmin())
    behind, spreads = _behind(losses, best, dealt)
    most = MOST_GUESSED * float(np.average(losses[best], weights=weights))
    tied = behind[: len(candidates)] <= np.minimum(TOLERATED_ERRORS * spreads, most)[: len(candidates)]
    # no penalty makes one Dirichlet calibration simpler than another, so the best of them is taken
    chosen = best if isinstance(candidates[tied.argmax()], DirichletCalibration) else int(tied.argmax())
    if near:
        behind, spreads = _behind(losses, chosen, dealt)
        if behind[-1] < -SURE_ERRORS * spreads[-1]:
            return near[0]
    return candidates[chosen]


def _behind(losses: Floats, reference: int, dealt: Dealt) -> tuple[Floats, Floats]:
    """How far mean losses, of (M, n), are above those of row `reference`, and standard errors, both (M,)."""
    differences = losses - losses[reference]
    means = np.average(differences, axis=1, weights=dealt.weights)
    return means, standard_error(differences - means[:, None], dealt.weights, dealt.blocks)


def fitted_start(
    model: ProbabilityRecalibrator | None, table: Floats, labels: Ints, weights: Floats
) -> tuple[ProbabilityRecalibrator | None, Floats]:
    """A start fitted to these rows, and the rows after it; None if it would raise their squared error.

    It is also None for a start of NEVER_WARM if every label is the most probable class.
    """
    if model is None or (isinstance(model, NEVER_WARM) and bool((table.argmax(axis=1) == labels).all())):
        return None, as_doubles(table)
    model = clone(model)._fit_checked(table, labels, weights)
    if isinstance(model, PerClassIsotonic):
        model.floor_ = least_probability(weights.sum(), table.shape[1])
    begun = started(model, table)
    if squared_error(begun, labels, weights) > squared_error(table, labels, weights):
        return None, as_doubles(table)
    return model, begun


def started(model: ProbabilityRecalibrator | None, table: Floats) -> Floats:
    """The rows s(p) of a table after a fitted start; None leaves them as they are."""
    return as_doubles(table) if model is None else model._mapped(table)


class HeldOutSplit(NamedTuple):
    """Rows to fit and rows held out: numbers and weights of both, and the blocks of those held out."""

    fitted: Ints
    fitted_weights: Floats
    held_out: Ints
    weights: Floats
    blocks: Floats


def dealt_rows(table: Floats, labels: Ints, weights: Floats, n_folds: int, seed: int) -> Dealt:
    """Rows (n, C) dealt to folds at random by `deal`."""

    def numbering(sets: Ints, first: Ints) -> Ints:
        return fold_numbers(len(first), n_folds, seed)

    sets = same_rows(table, digits=DIGITS)
    return deal(sets, labels, weights, n_folds, numbering, [seed, 2])


def fold_numbers(n_rows: int, n_folds: int, seed: int) -> Ints:
    """The fold in which each of the different rows is held out.

    (scikit-learn's KFold would deal other rows to the folds for the same seed, and so change models.)
    """
    return np.random.default_rng([seed, 2]).permutation(np.arange(n_rows) % n_folds)
