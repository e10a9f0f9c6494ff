"""Linear maps of log probabilities, fitted by Newton's steps, and the average of several classical maps.

For few rows a trust region with second derivatives finds the minimum. For many rows the minimum of a sample
is found first. Then L-BFGS goes on with the loss and the gradient of all rows, in coordinates in which the
sample's second derivatives are the identity, so that it needs few passes.

With second derivatives the average loss is promised to be within LOSS_GAP of the least one. On one machine
the same rows give the same bytes; on another one last digits differ, since BLAS and exponentials do.

A map is a few fitted numbers (attributes that end in an underscore). A fit writes them, and so does
`decision/recalibrator.py` for a start that it loads; to map changes nothing. `LinearLoss` holds rows for one
fit, and nothing writes to it. Tables, labels and weights were checked by who calls `fit` or `_fit_checked`.

ADDED_BEFORE_LOG and the order of sums in `softmax_of_logs` are part of what kept maps answer. PENALTIES,
PRIOR_ROWS and the other numbers decide what is fitted; `tests/corpus` keeps scores of it, up to a tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import KFold

from onlinecal.arrays import PIECE_NUMBERS, Floats, Ints, as_doubles, sampled_rows
from onlinecal.measures.fixed_order import product
from onlinecal.measures.scores import LEAST_PROBABILITY, log_costs
from onlinecal.recalibration.classical.temperature import (
    ADDED_BEFORE_LOG,
    FLAT_GRADIENT,
    MOST_CURVED_ROWS,
    PerClassIsotonic,
    TemperatureScaling,
    best_factor,
    columns_of,
)
from onlinecal.recalibration.flooring import floored, least_probability
from onlinecal.recalibration.folds import (
    DIGITS,
    SampleSizeWarning,
    deal,
    few_remarks,
    merged_rows,
    same_rows,
    tell_enough,
)
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.remarks import warn_of
from onlinecal.threads import one_thread
from onlinecal.validation import check_count, check_number

MOST_CHOOSING_ROWS = 20_000
"""At most this many rows, drawn at random, choose a start, or the shares of an average."""

MOST_CURVED = 420
"""The most parameters for which second derivatives are used: the time grows like the third power of these."""
LOSS_GAP = 1e-9
"""The average loss, in nats, is at most this much above the least one, or at most this part of it above
it."""
MOST_SOLVER_STEPS = 200
MOST_FROM_SAMPLE = 30
"""The most steps with a sample's second derivatives; if they do not converge, those of all rows are used."""


LEAST_RIDGE = 1e-3
"""The least ridge, in rows. Without a ridge there is no minimum if classes can be separated, and none of the
offsets that all classes may have in common is better than another."""


class LinearLoss:
    """The average log loss of rows as a function of parameters (C, m), plus a ridge around their centre.

    With m = 2 a class has a factor for its own log-probability, and an offset; with m = C + 1 it has factors
    for the log-probabilities of all classes, and an offset. Log-probabilities are columns, (C, n).
    """

    def __init__(self, columns: Floats, labels: Ints, counts: Floats, centre: Floats, ridge: Floats) -> None:
        self.columns, self.labels, self.counts = columns, labels, counts
        self.centre, self.ridge = centre, ridge
        self.rows = float(counts.sum())

    def sample(self) -> LinearLoss | None:
        """The loss of MOST_CURVED_ROWS rows, drawn at random; None if there are no more than these."""
        if len(self.labels) <= MOST_CURVED_ROWS:
            return None
        rows = sampled_rows(len(self.labels), MOST_CURVED_ROWS)
        return LinearLoss(
            self.columns[:, rows], self.labels[rows], self.counts[rows], self.centre, self.ridge
        )

    def _shares(self, parameters: Floats, columns: Floats) -> tuple[Floats, Floats, Floats]:
        """Scores minus the largest of each row, (C, n), their exponentials, and the sums of these, (n,)."""
        factors, offsets = parameters[:, :-1], parameters[:, -1:]
        scores = factors * columns if factors.shape[1] == 1 else factors @ columns
        scores += offsets
        scores -= scores.max(axis=0)
        shares = np.exp(scores)
        return scores, shares, shares.sum(axis=0)

    def value(self, flat: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, piece by piece."""
        k, m = self.centre.shape
        parameters, size = flat.reshape(k, m), max(1, PIECE_NUMBERS // k)
        loss, slope = 0.0, np.zeros_like(parameters)
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            columns, labels, counts = self.columns[:, some], self.labels[some], self.counts[some]
            scores, shares, sums = self._shares(parameters, columns)
            rows = np.arange(len(labels))
            loss += float(((np.log(sums) - scores[labels, rows]) * counts).sum())
            shares *= counts / sums
            shares[labels, rows] -= counts
            slope[:, -1] += shares.sum(axis=1)
            if m == 2:
                slope[:, 0] += np.einsum("cn,cn->c", shares, columns)
            else:
                slope[:, :k] += shares @ columns.T
        away = parameters - self.centre
        pull = self.ridge * away
        return loss / self.rows + float((pull * away).sum()) / 2.0, (slope / self.rows + pull).ravel()

    def curve(self, flat: Floats) -> Floats:
        """The second derivatives.

        Let s be the softmax and x_c the inputs of class c. A row adds s_c x_c x_c' to the block of c, and
        takes off the outer product of all s_c x_c with themselves.
        """
        k, m = self.centre.shape
        parameters = flat.reshape(k, m)
        size = max(1, PIECE_NUMBERS // (k * m))
        curve = np.zeros((k * m, k * m))
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            columns, counts = self.columns[:, some], self.counts[some]
            _, shares, sums = self._shares(parameters, columns)
            shares /= sums
            ones = np.ones_like(counts)
            # the inputs of each class, (k, m, n), and the same times its share
            if m == 2:
                inputs = [np.stack([own, ones]) for own in columns]
            else:
                inputs = [np.vstack([columns, ones])] * k
            weighted = np.concatenate([share * values for share, values in zip(shares, inputs, strict=True)])
            weighted *= np.sqrt(counts)
            curve -= weighted @ weighted.T
            for c in range(k):
                block = slice(c * m, (c + 1) * m)
                curve[block, block] += (inputs[c] * (shares[c] * counts)) @ inputs[c].T
        curve /= self.rows
        curve[np.diag_indices_from(curve)] += self.ridge.ravel()
        return curve


def best_linear(
    columns: Floats,
    labels: Ints,
    counts: Floats,
    centre: Floats,
    ridge: Floats,
    most: int = MOST_SOLVER_STEPS,
) -> Floats:
    """The parameters (C, m) of the least log loss plus sum of ridge/2 (parameter - centre)^2.

    The search begins at the centre. `columns` holds log-probabilities, (C, n); `counts` says for how many
    rows each counts, (n,). LEAST_RIDGE is added to the ridge. More than MOST_CURVED parameters are found
    without second derivatives, in at most `most` steps.
    """
    loss = LinearLoss(columns, labels, counts, centre, ridge + LEAST_RIDGE / float(counts.sum()))
    # for such small products, several threads that wait for each other take a hundred times as long
    with one_thread():
        if centre.size <= MOST_CURVED:
            return least(loss, centre.ravel()).reshape(centre.shape)
        options = {"gtol": FLAT_GRADIENT, "ftol": 1e-15, "maxiter": most}
        end = minimize(loss.value, centre.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(end.x).reshape(centre.shape)


def least(loss: LinearLoss, begin: Floats) -> Floats:
    """The flat parameters of the least loss; the search begins at `begin` and uses second derivatives."""
    if (sample := loss.sample()) is not None:
        begin = least(sample, begin)
        root = cholesky(sample.curve(begin), lower=True)

        def moved(step: Floats) -> tuple[float, Floats]:
            value, slope = loss.value(begin + solve_triangular(root, step, lower=True, trans=1))
            return value, solve_triangular(root, slope, lower=True)

        options = {"gtol": FLAT_GRADIENT, "ftol": 0.0, "maxiter": MOST_FROM_SAMPLE}
        end = minimize(moved, np.zeros_like(begin), jac=True, method="L-BFGS-B", options=options)
        begin = begin + solve_triangular(root, end.x, lower=True, trans=1)
        if end.success:
            return np.asarray(begin)
    options = {"gtol": FLAT_GRADIENT, "maxiter": MOST_SOLVER_STEPS}
    end = minimize(loss.value, begin, jac=True, hess=loss.curve, method="trust-exact", options=options)
    return np.asarray(end.x)


def softmax_of_logs(table: Floats, factors: Floats, offsets: Floats) -> Floats:
    """softmax(factors * log p + offsets) of each row, shape (n, C); factors (C,), or a matrix (C, C).

    A row's answer does not depend on the other rows, as it would with products by BLAS.
    """
    columns = np.log(table.T + ADDED_BEFORE_LOG, order="C")
    scores = columns * factors[:, None] if factors.ndim == 1 else product(factors, columns)
    return np.ascontiguousarray(softmax(scores + offsets[:, None], axis=0).T)


class VectorScaling(ProbabilityRecalibrator):
    """Learn a factor and an offset for each class: softmax(w log p + b) with the least log loss.

    A row p of C probabilities becomes the softmax of w_c log p_c + b_c over the classes c.

    To the average log loss .001/n times half the sum of all (w_c - 1)^2 and b_c^2 is added, for n rows. That
    keeps the numbers finite where the labels can be told without an error.

    Parameters
    ----------
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.

    Attributes
    ----------
    factors_, offsets_
        w and b, each of shape (C,).

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).
    """

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        centre = np.tile([1.0, 0.0], (table.shape[1], 1))
        rows = columns_of(table), labels, weights
        parameters = best_linear(*rows, centre, np.zeros_like(centre))
        self.factors_, self.offsets_ = np.ascontiguousarray(parameters.T)

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.factors_, self.offsets_)


PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Choices for the penalty off the diagonal; the log loss on three folds of the fitted rows decides.

They ascend: `starting.py` takes them from the third down."""
MOST_ITERATIONS = 500
"""Of L-BFGS-B, which finds the numbers of a Dirichlet calibration of more than 20 classes."""
PULLED_INTERCEPT = 0.1
"""The pull on offsets, as a part of that on factors: log-probabilities are several times as large as 1."""


class DirichletCalibration(ProbabilityRecalibrator):
    """Correct classes that are taken for one another: a row p becomes softmax(W log p + b).

    The matrix W and the offsets b have the least log loss per row plus `off_diagonal` times the average
    square of W's off-diagonal entries plus `intercept` times the average square of b. That has one minimum.
    The search begins at the identity and uses second derivatives for up to 20 classes. For more classes it is
    L-BFGS-B, which ends less near to the minimum.

    If rows are few for so many numbers, `pull` holds the map near that of `TemperatureScaling`, which raises
    p to a power beta. To the sum over rows of log losses it adds pull/2 times the square of how far each
    number of W is from beta times the identity, and pull/20 times the square of each number of b.

    Parameters
    ----------
    off_diagonal, intercept
        Weights of the two penalties, not negative.
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.
    pull
        How strongly the numbers are pulled to those of temperature scaling, not negative; 0: not at all.

    Attributes
    ----------
    coef_
        W, shape (C, C).
    intercept_
        b, shape (C,).

    References
    ----------
    Kull, Perello-Nieto, Kangsepp, Song & Flach, "Beyond temperature scaling" (2019), section 3.
    """

    def __init__(
        self,
        *,
        off_diagonal: float = 0.01,
        intercept: float = 0.01,
        classes: Sequence[Hashable] | None = None,
        pull: float = 0.0,
    ) -> None:
        self.off_diagonal = off_diagonal
        self.intercept = intercept
        self.classes = classes
        self.pull = pull

    def _check_parameters(self) -> None:
        for name in ("off_diagonal", "intercept", "pull"):
            check_number(getattr(self, name), name, 0.0, math.inf, "[)", "a number of at least 0")

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        k, columns, n = table.shape[1], columns_of(table), weights.sum()
        beta = best_factor(columns, labels, weights) if self.pull else 1.0
        start = np.concatenate([beta * np.eye(k), np.zeros((k, 1))], axis=1)
        ridge = np.full_like(start, 2.0 * self.off_diagonal / (k * (k - 1)))
        ridge[np.arange(k), np.arange(k)], ridge[:, k] = 0.0, 2.0 * self.intercept / k
        ridge[:, :k] += self.pull / n
        ridge[:, k] += PULLED_INTERCEPT * self.pull / n
        parameters = best_linear(columns, labels, weights, start, ridge, MOST_ITERATIONS)
        self.coef_, self.intercept_ = np.ascontiguousarray(parameters[:, :k]), parameters[:, k].copy()

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.coef_, self.intercept_)


class ChosenDirichlet(DirichletCalibration):
    """Dirichlet calibration that chooses its off-diagonal penalty on three folds, dealt by random_state.

    A fitted map has the penalty that was taken as `off_diagonal_`.
    """

    def __init__(self, random_state: int = 0, classes: Sequence[Hashable] | None = None) -> None:
        super().__init__(classes=classes)
        self.random_state = random_state

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        self.off_diagonal_ = best_penalty(table, labels, weights, self.random_state)
        chosen = DirichletCalibration(off_diagonal=self.off_diagonal_)._fit_checked(table, labels, weights)
        self.coef_, self.intercept_ = chosen.coef_, chosen.intercept_


def best_penalty(table: Floats, labels: Ints, weights: Floats, seed: int = 0) -> float:
    """The one of PENALTIES with the least log loss of held-out rows, on three folds."""
    table, labels, weights = merged_rows(table, labels, weights)

    def numbering(sets: Ints, first: Ints) -> Ints:
        fold, folds = np.zeros(len(first), np.int64), KFold(3, shuffle=True, random_state=seed)
        for number, (_, out) in enumerate(folds.split(first) if len(first) >= 3 else ()):
            fold[out] = number
        return fold

    dealt = deal(same_rows(table, digits=DIGITS), labels, weights, 3, numbering, [seed, 7])
    losses = np.zeros(len(PENALTIES))
    for fold in range(3):
        inside, out = dealt.fold != fold, dealt.fold == fold
        if not (inside.any() and out.any()):
            continue
        fitted, held = dealt.rows[inside], dealt.rows[out]
        for place, penalty in enumerate(PENALTIES):
            model = DirichletCalibration(off_diagonal=penalty)
            model._fit_checked(table[fitted], labels[fitted], dealt.weights[inside])
            label_probabilities = model._mapped(table[held])[np.arange(len(held)), labels[held]]
            losses[place] += np.average(log_costs(label_probabilities), weights=dealt.weights[out])
    return PENALTIES[int(losses.argmin())]


PRIOR_ROWS = 3.0
"""The prior counts as this many rows for each recalibrator: with few rows the shares stay near each other."""
MIXTURE_STEPS = 100
"""Steps of expectation maximisation."""
ROWS_A_CLASS = 30
"""With fewer rows a class, shares are equal: maps fitted without a fold err in other ways than those fitted
to all rows. On 180 rows of ten digits, folds thought too little of isotonic regression, and the shares they
chose took the log loss from .490 to .515."""


class AveragedCalibration(ProbabilityRecalibrator):
    """Average the answers of several recalibrators, each fitted to all rows, in shares that folds choose.

    Log loss and squared error of the average are never above the same average of the recalibrators' losses,
    since they are convex, and are below the best of these if the recalibrators err in different ways. One
    that gives 0 to a label that comes, as isotonic regression may with few rows, no longer makes the log loss
    infinite. RecalibratedClassifierCV takes this map by default; docs/recalibrated-classifier.md has the
    measurements.

    The shares are the weights of a mixture, found by expectation maximisation: those of the least log loss of
    held-out rows, with a Dirichlet prior that is worth three rows for each recalibrator.

    Parameters
    ----------
    recalibrators
        Unfitted recalibrators of class probabilities, such as TemperatureScaling(), at least one, which are
        cloned; None: temperature scaling, vector scaling (a factor and an offset per class) and isotonic
        regression per class.
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.
    cv
        The number of folds, 0 or at least 2, that choose the shares, on at most 20,000 rows, drawn at random.
        Rows are dealt in the order of their probabilities, and equal rows go to the same fold, except for
        forecasts of few values (docs/recalibrate.md). Shares are equal with 0 folds, with fewer than 30 rows
        a class on average, and with fewer than two a fold.

    Attributes
    ----------
    shares_
        The share of each of the M recalibrators, shape (M,); their sum is 1.
    recalibrators_
        A list of the fitted recalibrators, each to all rows; their `classes_` are column numbers 0..C-1.
    floor_
        1/(C (n + 1)) for n fitted rows. If all recalibrators give a class less than 1e-15, such a row p
        becomes (n p + 1/C)/(n + 1), as if one more row had every class in equal parts. So no answer is 0.

    Examples
    --------
    Three in four answers are right, and all are sure:

    >>> model = AveragedCalibration().fit([[0.99, 0.01]] * 4, [0, 0, 0, 1])
    >>> model.predict_proba([[0.99, 0.01]]).round(2)
    array([[0.75, 0.25]])
    """

    def __init__(
        self,
        recalibrators: Sequence[ProbabilityRecalibrator] | None = None,
        *,
        classes: Sequence[Hashable] | None = None,
        cv: int = 5,
    ) -> None:
        self.recalibrators = recalibrators
        self.classes = classes
        self.cv = cv

    def _check_parameters(self) -> None:
        self.cv = check_count(self.cv, "cv", least=0)
        if self.cv == 1:
            raise ValueError("cv must be 0 or at least 2, got 1")
        if self.recalibrators is None:
            return
        parts = list(self.recalibrators) if isinstance(self.recalibrators, Iterable) else [self.recalibrators]
        if not parts:
            raise ValueError("recalibrators must be at least one, got none: give one, or None for three")
        for part in parts:
            if not isinstance(part, ProbabilityRecalibrator):
                wanted = "recalibrators of tables, such as TemperatureScaling()"
                raise ValueError(f"recalibrators must be {wanted}, got {part!r}")

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        table, labels, weights = merged_rows(as_doubles(table), labels, weights)
        chosen = self.recalibrators
        if chosen is None:
            chosen = [TemperatureScaling(), VectorScaling(), PerClassIsotonic()]
        self.shares_ = self._chosen_shares(chosen, table, labels, weights)
        self.floor_ = least_probability(weights.sum(), table.shape[1])
        rows = table, labels, weights
        self.recalibrators_ = [clone(recalibrator)._fit_checked(*rows) for recalibrator in chosen]

    def _chosen_shares(
        self, chosen: Sequence[ProbabilityRecalibrator], table: Floats, labels: Ints, weights: Floats
    ) -> Floats:
        equal = np.full(len(chosen), 1.0 / len(chosen))
        if len(chosen) == 1 or not self.cv or weights.sum() < ROWS_A_CLASS * table.shape[1]:
            return equal
        if len(table) > MOST_CHOOSING_ROWS:
            rows = np.random.default_rng(0).choice(len(table), MOST_CHOOSING_ROWS, replace=False)
            table, labels, weights = table[rows], labels[rows], weights[rows]

        def numbering(sets: Ints, first: Ints) -> Ints:
            # sets are dealt to folds in turn, in the order of their probabilities
            return np.lexsort(np.round(table[first], DIGITS).T[::-1]).argsort() % self.cv

        sets = same_rows(table, digits=DIGITS)
        dealt = deal(sets, labels, weights, self.cv, numbering, 0)
        warn_of(few_remarks(dealt, self.cv, "the shares are equal"), SampleSizeWarning)
        if not tell_enough(dealt, self.cv):
            return equal
        table, labels, weights = table[dealt.rows], labels[dealt.rows], dealt.weights
        label_probabilities = np.empty((len(chosen), len(table)))
        for fold in range(dealt.n_folds):
            out, rows = dealt.fold == fold, dealt.fold != fold
            for row, recalibrator in zip(label_probabilities, chosen, strict=True):
                model = clone(recalibrator)._fit_checked(table[rows], labels[rows], weights[rows])
                row[out] = model._map(table[out])[np.arange(out.sum()), labels[out]]
        return best_shares(label_probabilities, weights)

    def _map(self, table: Floats) -> Floats:
        answers = (recalibrator._map(table) for recalibrator in self.recalibrators_)
        mixed = np.sum([share * answer for share, answer in zip(self.shares_, answers, strict=True)], axis=0)
        sure = mixed.min(axis=1) < LEAST_PROBABILITY
        mixed[sure] = floored(mixed[sure], self.floor_)
        return np.asarray(mixed)


def best_shares(label_probabilities: Floats, counts: Floats) -> Floats:
    """The shares of the least log loss, shape (M,), pulled together by a prior of PRIOR_ROWS.

    `label_probabilities`, (M, n), holds what each of M recalibrators gave to the label that came; `counts`,
    (n,), says for how many rows each counts.
    """
    label_probabilities = np.maximum(label_probabilities, LEAST_PROBABILITY)
    shares = np.full(len(label_probabilities), 1.0 / len(label_probabilities))
    for _ in range(MIXTURE_STEPS):
        parts = shares[:, None] * label_probabilities
        expected_rows = (counts * parts / parts.sum(axis=0)).sum(axis=1) + PRIOR_ROWS
        shares = expected_rows / expected_rows.sum()
    return np.asarray(shares)
