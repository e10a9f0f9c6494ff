"""Linear maps of log probabilities, fitted by Newton's steps, and the average of several classical maps.

Of few rows a trust region with second derivatives finds the minimum. Of many rows that of a sample is found
first; in coordinates in which the sample's second derivatives are the identity, L-BFGS then goes on with the
loss and the gradient of all rows, and needs few passes.

What is promised, with second derivatives: an average loss within GAP of the least one. On one machine the
same rows give the same bytes; on another last digits differ, since BLAS and exponentials differ there.
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

from onlinecal.arrays import ENTRIES, Floats, Ints, as_doubles, sampled_rows
from onlinecal.measures.fixed_order import product
from onlinecal.measures.scores import CLIP, log_costs
from onlinecal.recalibration.classical.temperature import (
    CURVED,
    FLAT,
    FLOOR,
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

MOST_ROWS = 20_000
"""So many rows, drawn at random, choose a start, or the shares of an average."""

MOST_CURVED = 420
"""Parameters with second derivatives; to compute and solve them takes time like the third power of these."""
GAP = 1e-9
"""An average loss, in nats, is at most so much above the least one, or above as large a part of it."""
MOST_STEPS = 200
MOST_FROM_SAMPLE = 30
"""Steps by a sample's second derivatives; if they lead nowhere, those of all rows are asked for."""


TINY = 1e-3
"""The least ridge, in rows: without it, rows that can be told apart have no minimum, nor has a common offset
of all classes a value."""


class LinearLoss:
    """The average log loss of rows, as a function of parameters (C, m), with a ridge about their centre.

    m = 2: factor of the class's own log-probability, and offset; m = C + 1: factors of all, and offset.
    Log-probabilities are columns (C, n).
    """

    def __init__(self, columns: Floats, labels: Ints, counts: Floats, centre: Floats, ridge: Floats) -> None:
        self.columns, self.labels, self.counts = columns, labels, counts
        self.centre, self.ridge = centre, ridge
        self.rows = float(counts.sum())

    def sample(self) -> LinearLoss | None:
        """The same of CURVED rows, drawn at random; None if there are no more than these."""
        if len(self.labels) <= CURVED:
            return None
        rows = sampled_rows(len(self.labels), CURVED)
        return LinearLoss(
            self.columns[:, rows], self.labels[rows], self.counts[rows], self.centre, self.ridge
        )

    def _shares(self, parameters: Floats, seen: Floats) -> tuple[Floats, Floats, Floats]:
        """Scores less the largest (C, n), their exponentials, and the sums of these (n,)."""
        factors, offsets = parameters[:, :-1], parameters[:, -1:]
        scores = factors * seen if factors.shape[1] == 1 else factors @ seen
        scores += offsets
        scores -= scores.max(axis=0)
        shares = np.exp(scores)
        return scores, shares, shares.sum(axis=0)

    def value(self, flat: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, piece by piece."""
        k, m = self.centre.shape
        parameters, size = flat.reshape(k, m), max(1, ENTRIES // k)
        loss, slope = 0.0, np.zeros_like(parameters)
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            seen, labels, counts = self.columns[:, some], self.labels[some], self.counts[some]
            scores, shares, sums = self._shares(parameters, seen)
            rows = np.arange(len(labels))
            loss += float(((np.log(sums) - scores[labels, rows]) * counts).sum())
            shares *= counts / sums
            shares[labels, rows] -= counts
            slope[:, -1] += shares.sum(axis=1)
            if m == 2:
                slope[:, 0] += np.einsum("cn,cn->c", shares, seen)
            else:
                slope[:, :k] += shares @ seen.T
        away = parameters - self.centre
        pull = self.ridge * away
        return loss / self.rows + float((pull * away).sum()) / 2.0, (slope / self.rows + pull).ravel()

    def curve(self, flat: Floats) -> Floats:
        """The second derivatives.

        With s the softmax and x_c what class c sees, a row adds s_c x_c x_c' in the block of c, less the
        product of all s_c x_c with themselves.
        """
        k, m = self.centre.shape
        parameters = flat.reshape(k, m)
        size = max(1, ENTRIES // (k * m))
        curve = np.zeros((k * m, k * m))
        for begin in range(0, len(self.labels), size):
            some = slice(begin, begin + size)
            seen, counts = self.columns[:, some], self.counts[some]
            _, shares, sums = self._shares(parameters, seen)
            shares /= sums
            ones = np.ones_like(counts)
            # what each class sees, (k, m, n), and the same times its share
            faced = [np.stack([own, ones]) for own in seen] if m == 2 else [np.vstack([seen, ones])] * k
            moved = np.concatenate([share * one for share, one in zip(shares, faced, strict=True)])
            moved *= np.sqrt(counts)
            curve -= moved @ moved.T
            for c in range(k):
                block = slice(c * m, (c + 1) * m)
                curve[block, block] += (faced[c] * (shares[c] * counts)) @ faced[c].T
        curve /= self.rows
        curve[np.diag_indices_from(curve)] += self.ridge.ravel()
        return curve


def best_linear(
    columns: Floats, labels: Ints, counts: Floats, centre: Floats, ridge: Floats, most: int = MOST_STEPS
) -> Floats:
    """The parameters (C, m) of the least log loss plus sum of ridge/2 (parameter - centre)^2.

    From the centre; columns of log-probabilities (C, n), and for how many rows each counts (n,). The ridge is
    at least TINY. Of more than MOST_CURVED parameters by at most `most` steps, without second derivatives.
    """
    loss = LinearLoss(columns, labels, counts, centre, ridge + TINY / float(counts.sum()))
    # threads that wait for each other take a hundred times as long over products of so little
    with one_thread():
        if centre.size <= MOST_CURVED:
            return least(loss, centre.ravel()).reshape(centre.shape)
        options = {"gtol": FLAT, "ftol": 1e-15, "maxiter": most}
        found = minimize(loss.value, centre.ravel(), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x).reshape(centre.shape)


def least(loss: LinearLoss, begin: Floats) -> Floats:
    """The flat parameters of the least loss, searched for from `begin`, with second derivatives."""
    if (sample := loss.sample()) is not None:
        begin = least(sample, begin)
        root = cholesky(sample.curve(begin), lower=True)

        def moved(step: Floats) -> tuple[float, Floats]:
            value, slope = loss.value(begin + solve_triangular(root, step, lower=True, trans=1))
            return value, solve_triangular(root, slope, lower=True)

        options = {"gtol": FLAT, "ftol": 0.0, "maxiter": MOST_FROM_SAMPLE}
        end = minimize(moved, np.zeros_like(begin), jac=True, method="L-BFGS-B", options=options)
        begin = begin + solve_triangular(root, end.x, lower=True, trans=1)
        if end.success:
            return np.asarray(begin)
    options = {"gtol": FLAT, "maxiter": MOST_STEPS}
    end = minimize(loss.value, begin, jac=True, hess=loss.curve, method="trust-exact", options=options)
    return np.asarray(end.x)


def softmax_of_logs(table: Floats, factors: Floats, offsets: Floats) -> Floats:
    """softmax(factors * log p + offsets) of each row, shape (n, C); factors (C,), or a matrix (C, C).

    A row's answer does not depend on the rows beside it: BLAS would make it.
    """
    columns = np.log(table.T + FLOOR, order="C")
    scores = columns * factors[:, None] if factors.ndim == 1 else product(factors, columns)
    return np.ascontiguousarray(softmax(scores + offsets[:, None], axis=0).T)


class VectorScaling(ProbabilityRecalibrator):
    """A factor and an offset for each class: softmax(w log p + b), of the least log loss.

    A ridge of a thousandth of a row, .001/n times half the squares of w - 1 and b, keeps numbers finite where
    rows can be told apart.

    Parameters
    ----------
    classes
        The labels that the columns stand for; None: 0..C-1.

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
        found = best_linear(*rows, centre, np.zeros_like(centre))
        self.factors_, self.offsets_ = np.ascontiguousarray(found.T)

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.factors_, self.offsets_)


PENALTIES = (0.01, 1.0, 100.0, 10_000.0)
"""Off the diagonal; the best log loss on three folds of the fitted rows decides."""
PULLED_INTERCEPT = 0.1
"""Of the pull on factors: logarithms of probabilities are some times as large as 1."""


class DirichletCalibration(ProbabilityRecalibrator):
    """Correct classes taken for one another: softmax(W log p + b), penalties off W's diagonal and on b.

    The log loss per row plus `off_diagonal` times the average square of W's off-diagonal entries plus
    `intercept` times the average square of b (ODIR). Convex; solved from the identity by
    scipy: up to 20 classes with second derivatives, for more without, by L-BFGS-B, which ends less near to
    the minimum.

    With few rows for so many numbers `pull` holds the map near temperature scaling: to the sum of log losses
    it adds pull/2 (W_cd - beta [c = d])^2 for each number of W, beta being the temperature's exponent, and a
    tenth of pull/2 b_c^2: a normal prior of variance 1/pull.

    Parameters
    ----------
    off_diagonal, intercept
        Weights of the two penalties, not negative.
    max_iterations
        Of L-BFGS-B, for more than 20 classes.
    classes
        The labels that the columns stand for; None: 0..C-1.
    pull
        How strongly numbers are pulled to those of temperature scaling, not negative.

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
        off_diagonal: float = 0.01,
        intercept: float = 0.01,
        max_iterations: int = 500,
        classes: Sequence[Hashable] | None = None,
        pull: float = 0.0,
    ) -> None:
        self.off_diagonal = off_diagonal
        self.intercept = intercept
        self.max_iterations = max_iterations
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
        found = best_linear(columns, labels, weights, start, ridge, self.max_iterations)
        self.coef_, self.intercept_ = np.ascontiguousarray(found[:, :k]), found[:, k].copy()

    def _map(self, table: Floats) -> Floats:
        return softmax_of_logs(table, self.coef_, self.intercept_)


class ChosenDirichlet(DirichletCalibration):
    """Dirichlet calibration that chooses its off-diagonal penalty on three folds, dealt by the seed.

    Fitted: `off_diagonal_`, the penalty that was taken.
    """

    def __init__(self, seed: int = 0, classes: Sequence[Hashable] | None = None) -> None:
        super().__init__(classes=classes)
        self.seed = seed

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        self.off_diagonal_ = best_penalty(table, labels, weights, self.seed)
        chosen = DirichletCalibration(self.off_diagonal_)._fit_checked(table, labels, weights)
        self.coef_, self.intercept_ = chosen.coef_, chosen.intercept_


def best_penalty(table: Floats, labels: Ints, weights: Floats, seed: int = 0) -> float:
    """Of the PENALTIES the one with the least log loss of held-out rows, on three folds."""
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
            model = DirichletCalibration(penalty)
            model._fit_checked(table[fitted], labels[fitted], dealt.weights[inside])
            said = model._mapped(table[held])[np.arange(len(held)), labels[held]]
            losses[place] += np.average(log_costs(said), weights=dealt.weights[out])
    return PENALTIES[int(losses.argmin())]


PRIOR = 3.0
"""So many rows speak for each recalibrator beforehand: few rows leave the shares near each other."""
STEPS = 100
ROWS_A_CLASS = 30
"""Fewer, and what is fitted without a fold errs otherwise than what is fitted to all: from 180 rows of ten
digits folds thought too little of isotonic regression, and took the log loss from .490 to .515."""


class AveragedCalibration(ProbabilityRecalibrator):
    """The average of what several recalibrators say, each fitted to all rows, in shares that folds choose.

    Log loss and squared error are convex in the probabilities: the average's are never above the others',
    averaged with these shares, and below the best of them where these err in different ways. One that rules
    out what comes, as isotonic regression does with few rows, no longer makes the log loss infinite. What
    RecalibratedClassifierCV takes by default; docs/recalibrated-classifier.md has the measurements.

    The shares are those of the least log loss of held-out rows, with a Dirichlet prior that is worth three
    rows for each recalibrator: a mixture's weights, found by expectation maximisation.

    Parameters
    ----------
    recalibrators
        Unfitted recalibrators; None: temperature scaling, vector scaling (a factor and an offset per class)
        and isotonic regression per class.
    classes
        The labels that the columns stand for; None: 0..C-1.
    n_folds
        Folds that choose the shares, of at most 20,000 rows, drawn at random. Rows are dealt in the order of
        their probabilities, equal ones to the same fold but for forecasts of few values
        (docs/recalibrate.md). 0, fewer than 30 rows a class, or than two a fold: equal shares.

    Attributes
    ----------
    shares_
        What share each has, shape (M,); their sum is 1.
    recalibrators_
        The fitted ones; their classes are numbers.
    floor_
        1/(C (n + 1)): where all of them give a class less than 1e-15, such a row p becomes
        (n p + 1/C)/(n + 1), as if one more row had every class in equal parts. So no answer is 0.

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
        classes: Sequence[Hashable] | None = None,
        n_folds: int = 5,
    ) -> None:
        self.recalibrators = recalibrators
        self.classes = classes
        self.n_folds = n_folds

    def _check_parameters(self) -> None:
        self.n_folds = check_count(self.n_folds, "n_folds", least=0)
        if self.n_folds == 1:
            raise ValueError("n_folds must be 0 or at least 2, got 1")
        if self.recalibrators is None:
            return
        parts = list(self.recalibrators) if isinstance(self.recalibrators, Iterable) else [self.recalibrators]
        if not parts:
            raise ValueError("recalibrators must be at least one, got none")
        for one in parts:
            if not isinstance(one, ProbabilityRecalibrator):
                raise ValueError(f"recalibrators must be recalibrators of tables, got {one!r}")

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        table, labels, weights = merged_rows(as_doubles(table), labels, weights)
        chosen = self.recalibrators
        if chosen is None:
            chosen = [TemperatureScaling(), VectorScaling(), PerClassIsotonic()]
        self.shares_ = self._chosen_shares(chosen, table, labels, weights)
        self.floor_ = least_probability(weights.sum(), table.shape[1])
        self.recalibrators_ = [clone(one)._fit_checked(table, labels, weights) for one in chosen]

    def _chosen_shares(
        self, chosen: Sequence[ProbabilityRecalibrator], table: Floats, labels: Ints, weights: Floats
    ) -> Floats:
        equal = np.full(len(chosen), 1.0 / len(chosen))
        if len(chosen) == 1 or not self.n_folds or weights.sum() < ROWS_A_CLASS * table.shape[1]:
            return equal
        if len(table) > MOST_ROWS:
            rows = np.random.default_rng(0).choice(len(table), MOST_ROWS, replace=False)
            table, labels, weights = table[rows], labels[rows], weights[rows]

        def numbering(sets: Ints, first: Ints) -> Ints:
            # in the order of their probabilities
            return np.lexsort(np.round(table[first], DIGITS).T[::-1]).argsort() % self.n_folds

        sets = same_rows(table, digits=DIGITS)
        dealt = deal(sets, labels, weights, self.n_folds, numbering, 0)
        warn_of(few_remarks(dealt, self.n_folds, "the shares are equal"), SampleSizeWarning)
        if not tell_enough(dealt, self.n_folds):
            return equal
        table, labels, weights = table[dealt.rows], labels[dealt.rows], dealt.weights
        said = np.empty((len(chosen), len(table)))
        for fold in range(dealt.n_folds):
            out, rows = dealt.fold == fold, dealt.fold != fold
            for each, one in zip(said, chosen, strict=True):
                model = clone(one)._fit_checked(table[rows], labels[rows], weights[rows])
                each[out] = model._map(table[out])[np.arange(out.sum()), labels[out]]
        return best_shares(said, weights)

    def _map(self, table: Floats) -> Floats:
        answers = (one._map(table) for one in self.recalibrators_)
        mixed = np.sum([share * one for share, one in zip(self.shares_, answers, strict=True)], axis=0)
        sure = mixed.min(axis=1) < CLIP
        mixed[sure] = floored(mixed[sure], self.floor_)
        return np.asarray(mixed)


def best_shares(said: Floats, counts: Floats) -> Floats:
    """The shares of the least log loss, shape (M,), held together by the PRIOR.

    `said` (M, n): what each of M gave to what came; `counts` (n,): for how many rows each counts.
    """
    said = np.maximum(said, CLIP)
    shares = np.full(len(said), 1.0 / len(said))
    for _ in range(STEPS):
        parts = shares[:, None] * said
        owed = (counts * parts / parts.sum(axis=0)).sum(axis=1) + PRIOR
        shares = owed / owed.sum()
    return np.asarray(shares)
