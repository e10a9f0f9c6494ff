"""A classifier whose probabilities are recalibrated on its answers for rows that it was not fitted on.

`Response` holds a classifier's answers, and reads scores or probabilities as probabilities in one way, for
the answers that the recalibrator learns from and for all later ones.

`fit` alone writes, on clones of the classifier and the recalibrator that were given, which stay as they were.
It sets attributes when all has been fitted, so a fit that fails leaves them as they were. A
`RecalibratedPair` never changes. No recalibrator sees the answers of a classifier for rows that this
classifier was fitted on, if `cv` is a number. That parts of a splitter do not overlap, and that a frozen
classifier was fitted on other rows, is the user's own care; nobody checks it.

`Response.reading` is taken once, from the answers that the recalibrator learns from, and kept: later answers
must be read in the same way. WIDEST_SCORES and MOST_ROUNDED_OFF are part of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_is_fitted, has_fit_parameter

from onlinecal.arrays import Floats
from onlinecal.measures.counts import check_weights
from onlinecal.recalibration.classical.linear import AveragedCalibration
from onlinecal.recalibration.folds import deal, first_rows, same_rows, single_rows
from onlinecal.remarks import warn_of
from onlinecal.tables.columns import (
    ROW_TOLERANCE,
    check_probability_rows,
    refuse,
)
from onlinecal.tables.frames import as_array, missing_in, unmasked
from onlinecal.texts import shown
from onlinecal.validation import check_count


def enough_folds(folds: int, y: LabelArray) -> int:
    """The number of folds, but no more than the rarest class has rows; a warning says if it is lowered."""
    known, counts = np.unique(y, return_counts=True)
    fewest, rarest = int(counts.min()), known.tolist()[counts.argmin()]
    if folds <= max(fewest, 1):
        return folds
    if fewest < 2:
        raise ValueError(
            f"cv={folds} needs at least 2 rows of every class, got 1 of class {rarest!r}: give more of it, "
            "or a splitter as cv"
        )
    remark = f"cv={folds} becomes {fewest}: there are {fewest} rows of class {rarest!r}"
    warn_of([remark], UserWarning)
    return fewest


WIDEST_SCORES = 25.0
"""The widest range of scores in a row that probabilities can hold: exp(-25) is larger than the number that is
added to a probability before its logarithm is taken."""
MOST_ROUNDED_OFF = 1e-3
"""Rows of `predict_proba` with a sum that is within this of 1, but not within ROW_TOLERANCE, were rounded, to
float16 or a few digits: they are divided by their sum."""


class Response(NamedTuple):
    """A classifier's answers for rows of X, shape (n, C) for C known classes.

    They are probabilities or scores, -inf for a class that the classifier does not know.
    """

    values: Floats
    are_scores: bool

    def reading(self) -> float:
        """A number that tells how to read these answers, and later ones of the same classifier.

        Scores are multiplied by it: it is below 1 if their range is wider than WIDEST_SCORES. Probabilities
        below it are raised to it. If a share of neighbours or trees is 0 it may stand for anything below the
        smallest positive share, so it is half of that; it is 0 if no probability is 0.
        """
        if not self.are_scores:
            positive = self.values[self.values > 0.0]
            return float(positive.min() / 2.0) if positive.size < self.values.size else 0.0
        known = np.where(np.isfinite(self.values), self.values, np.nan)
        widest = float(np.nanmax(np.nanmax(known, axis=1) - np.nanmin(known, axis=1)))
        return min(1.0, WIDEST_SCORES / widest) if widest > 0.0 else 1.0

    def probabilities(self, reading: float) -> Floats:
        """Probabilities, shape (n, C), rows with sum 1; for scores their softmax."""
        if self.are_scores:
            return softmax(reading * self.values, axis=1)
        table = np.maximum(self.values, reading)
        raised = (table != self.values).any(axis=1, keepdims=True)
        return np.where(raised, table / table.sum(axis=1, keepdims=True), table)


def response(estimator: Any, X: Any, classes: NDArray[Any]) -> Response:
    """The answers of a fitted classifier, probabilities if it has them; ValueError for bad answers."""
    name = type(estimator).__name__
    own = np.asarray(estimator.classes_)
    places = np.searchsorted(classes, own)
    if hasattr(estimator, "predict_proba"):
        table = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        _check_columns(table, own, f"{name}.predict_proba")
        sums = table.sum(axis=1, keepdims=True)
        missed = np.abs(sums - 1.0)
        rounded = (missed > ROW_TOLERANCE) & (missed < MOST_ROUNDED_OFF)
        table = np.divide(table, sums, out=table.copy(), where=rounded)
        values = np.zeros((len(table), len(classes)))
        values[:, places] = check_probability_rows(table, f"{name}.predict_proba")
        return Response(values, False)
    scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    if scores.ndim == 1 or scores.shape[1] == 1:
        # the logistic function of a score is the softmax of 0 and the score
        scores = np.column_stack([np.zeros(len(scores)), scores])
    _check_columns(scores, own, f"{name}.decision_function")
    refuse(~np.isfinite(scores).all(axis=1), scores, f"{name}.decision_function must be finite")
    values = np.full((len(scores), len(classes)), -np.inf)
    values[:, places] = scores
    return Response(values, True)


def _check_columns(table: Floats, classes: NDArray[Any], name: str) -> None:
    if table.ndim != 2 or table.shape[1] != len(classes):
        raise ValueError(
            f"{name} must have a column for each of the {len(classes)} classes, got shape {table.shape}"
        )


LabelArray = NDArray[Any]
RowNumbers = NDArray[np.int64]


@dataclass(frozen=True)
class RecalibratedPair:
    """A fitted classifier and the fitted map of its probabilities.

    Attributes
    ----------
    estimator, recalibrator
        Both fitted.
    classes
        The columns, shape (C,).
    reading
        How the classifier's answers are read, see `Response.reading`: the factor of decision scores, or the
        least probability.
    """

    estimator: Any
    recalibrator: Any
    classes: LabelArray
    reading: float

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities, shape (n, C)."""
        probabilities = response(self.estimator, X, self.classes).probabilities(self.reading)
        answers = np.asarray(self.recalibrator.predict_proba(probabilities))
        if answers.shape != probabilities.shape:
            kind = type(self.recalibrator).__name__
            raise ValueError(
                f"recalibrator {kind} must keep the shape {probabilities.shape}, got {answers.shape}"
            )
        return answers


def fit_and_ask(
    estimator: Any,
    X: Any,
    y: LabelArray,
    train: RowNumbers,
    test: RowNumbers,
    params: dict[str, Any],
    classes: LabelArray,
) -> tuple[Any, Response]:
    """The classifier fitted to the rows `train`, and its answers for the rows `test`."""
    estimator.fit(_safe_indexing(X, train), y[train], **params)
    return estimator, response(estimator, _safe_indexing(X, test), classes)


def recalibrated(
    estimator: Any, model: Any, answer: Response, y: LabelArray, params: dict[str, Any], classes: LabelArray
) -> RecalibratedPair:
    """A classifier with a map that is fitted to its answers for rows with the labels y."""
    reading = answer.reading()
    labels = y
    # a recalibrator without this parameter is given class numbers
    if "classes" in model.get_params(deep=False):
        model.set_params(classes=classes.tolist())
    else:
        labels = np.searchsorted(classes, y)
    model.fit(answer.probabilities(reading), labels, **params)
    return RecalibratedPair(estimator, model, classes, reading)


class RecalibratedClassifierCV(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are recalibrated on rows that it was not fitted on.

    Clones of the classifier are fitted on the training rows of each fold and asked about the held-out ones. A
    recalibrator learns from their answers and the labels of these rows, and later maps what the classifier
    answers for other rows.

    Parameters are checked by `fit`, and not before.

    Parameters
    ----------
    estimator
        A classifier with `predict_proba`, or else with `decision_function`, whose scores become probabilities
        by the softmax, for two classes by the logistic function. Give a fitted classifier as
        `sklearn.frozen.FrozenEstimator(classifier)`: it is asked about all rows, which must not be those that
        it was fitted on.
    recalibrator
        LpRecalibrator, DecisionRecalibrator, TemperatureScaling or another one with `fit(X, y)` and
        `predict_proba(X)`, X being probabilities, shape (n, C). It is cloned. If it has a parameter
        `classes`, that is set to the labels; else it is given class numbers 0..C-1 as y. None:
        AveragedCalibration(), the average of temperature scaling, vector scaling and isotonic regression in
        shares that folds choose; with ensemble=False, unless the classifier is frozen, in equal shares.
    cv
        A number of folds, at least 2 (None: 5), a splitter of scikit-learn, or an iterable of pairs (train,
        test) of arrays of row numbers from 0, which need not cover all rows. With a number, rows are dealt
        without shuffling, so that every fold has an equal share of every class. If the rarest class has fewer
        different rows than that, there are only so many folds (`fit` warns). Rows with the same features go
        to the same fold, unless features have few values (docs/recalibrate.md); a splitter of yours has to
        see to that itself.
    ensemble
        True: each fold's classifier has a recalibrator, and the answer is the average over these pairs.
        False: one recalibrator learns from the held-out answers of all folds, and maps those of one
        classifier that is fitted to all rows. "auto" is the same as True. A frozen classifier always has one
        recalibrator, whatever `ensemble` and `cv` are.
    n_jobs
        How many folds are fitted at a time, as in joblib; None: one, -1: as many as there are processors.

    Attributes
    ----------
    classes_
        Sorted labels, shape (C,).
    calibrated_classifiers_
        A list with a fitted pair for each fold, one with ensemble=False: its `estimator` and `recalibrator`.
    n_features_in_, feature_names_in_
        The number of features and their names, if the fitted classifier has them.

    Notes
    -----
    `fit(X, y, sample_weight=...)` gives the weights to classifier and recalibrator, and warns if one of them
    takes none. Other keyword arguments of `fit` go to the classifier; those with a value for each row are
    split like the rows. With `sklearn.set_config(enable_metadata_routing=True)` all of them go where they are
    requested, also to the splitter.

    Probabilities of 0, which shares of neighbours or trees may have, are raised to half of the smallest
    positive one among the held-out answers before they are recalibrated. So are the probabilities of a class
    that a fold's training rows lack.

    References
    ----------
    The procedure is that of scikit-learn's CalibratedClassifierCV, after Platt, "Probabilistic outputs for
    support vector machines" (1999), and Zadrozny & Elkan, "Transforming classifier scores into accurate
    multiclass probability estimates" (2002).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from onlinecal import RecalibratedClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = RecalibratedClassifierCV(GaussianNB()).fit(X[::2], y[::2])
    >>> model.predict_proba(X[1::2]).shape
    (89, 3)
    >>> plain = GaussianNB().fit(X[::2], y[::2])
    >>> log_loss(y[1::2], model.predict_proba(X[1::2])) < log_loss(y[1::2], plain.predict_proba(X[1::2]))
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        recalibrator: Any = None,
        cv: int | Any | Iterable[tuple[Sequence[int], Sequence[int]]] = 5,
        ensemble: bool | Literal["auto"] = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit classifiers and recalibrators to rows X, with features as the classifier takes them.

        The classifier and the recalibrator that were given stay as they are; clones are fitted. An earlier
        fit is forgotten, unless this one raises an error. Returns this object.

        Parameters
        ----------
        X
            Features of n rows: an array, list, sparse matrix or data frame, mostly of shape (n, features).
        y
            The label of each row, shape (n,), numbers or texts, of at least two classes.
        sample_weight
            For how many rows each row counts, shape (n,), at least 0: a row of weight 0 is left out. None:
            each counts once.
        fit_params
            Further arguments for the classifier's `fit`; those with a value for each row are split like the
            rows.

        Raises
        ------
        ValueError
            For a bad parameter or weight, a missing label, labels of one class only, a class with a single
            row if `cv` is a number, or a fold without rows; if the classifier answers with what are neither
            probabilities nor finite scores.

        Warns
        -----
        UserWarning
            If a class has fewer different rows than `cv` says folds, so that there are fewer folds; if
            weights are given, and estimator or recalibrator takes none, so that it is fitted without.
            Recalibrators give their own warnings, too.
        """
        frozen = isinstance(self.estimator, FrozenEstimator)
        self._check_parameters()
        check_classification_targets(y)
        X, labels = unmasked(X), as_array(y, "y")
        refuse(missing_in(labels), labels, "y must have a label in every row")
        X, y = indexable(X, y)
        y = column_or_1d(y, warn=True)
        _known_classes(y, self.estimator if frozen else None)
        rows, weights, fold = self._dealt(X, y, sample_weight, frozen)
        if len(rows) != len(y) or (rows != np.arange(len(y))).any():
            fit_params = _check_method_params(X, fit_params, rows)
            X, y = _safe_indexing(X, rows), y[rows]
        routed = self._route(y, None if sample_weight is None else weights, fit_params)
        classes = _known_classes(y, self.estimator if frozen else None)
        splits = self._splits(X, y, routed, frozen, fold)

        pool = Parallel(n_jobs=self.n_jobs)
        params = [_check_method_params(X, routed.estimator.fit, train) for train, _ in splits]
        answered = pool(
            delayed(fit_and_ask)(clone(self.estimator), X, y, train, test, fit_params_of_fold, classes)
            for (train, test), fit_params_of_fold in zip(splits, params, strict=True)
        )
        if frozen or not self.ensemble:
            estimator = answered[0][0]
            if not frozen:
                estimator = clone(self.estimator).fit(X, y, **routed.estimator.fit)
            values, kinds = zip(*(answer for _, answer in answered), strict=True)
            answered = [(estimator, Response(np.concatenate(values), kinds[0]))]
            splits = [(np.arange(len(y)), np.concatenate([test for _, test in splits]))]
        # if one classifier answers later, shares chosen on the answers of others suit it less than equal ones
        recalibrator = self.recalibrator
        if recalibrator is None:
            recalibrator = AveragedCalibration(cv=5 if frozen or self.ensemble else 0)
        pairs = pool(
            delayed(recalibrated)(
                estimator,
                clone(recalibrator),
                answer,
                y[test],
                _check_method_params(X, routed.recalibrator.fit, test),
                classes,
            )
            for (estimator, answer), (_, test) in zip(answered, splits, strict=True)
        )
        self.classes_ = classes
        self.calibrated_classifiers_ = pairs
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(pairs[0].estimator, name):
                setattr(self, name, getattr(pairs[0].estimator, name))
        return self

    def _check_parameters(self) -> None:
        answers = any(hasattr(self.estimator, name) for name in ("predict_proba", "decision_function"))
        if not (hasattr(self.estimator, "fit") and answers):
            raise ValueError(
                "estimator must be a classifier with fit and predict_proba or decision_function, "
                f"got {self.estimator!r}"
            )
        chosen = self.recalibrator
        if chosen is not None and not (hasattr(chosen, "fit") and hasattr(chosen, "predict_proba")):
            raise ValueError(
                f"recalibrator must have fit and predict_proba, got {chosen!r}: give one of "
                "onlinecal.recalibration, or None for the default"
            )
        if self.ensemble not in (True, False, "auto"):
            raise ValueError(f"ensemble must be True, False or 'auto', got {self.ensemble!r}")
        if isinstance(self.cv, (str, bytes)):
            hint = ": give a fitted classifier as sklearn.frozen.FrozenEstimator(classifier)"
            raise ValueError(f"cv must be a number, a splitter or splits, got {self.cv!r}{hint}")

    def _dealt(
        self, X: Any, y: LabelArray, sample_weight: ArrayLike | None, frozen: bool
    ) -> tuple[RowNumbers, Floats, RowNumbers | None]:
        """The rows that are used, their weights and, if `cv` is a number, their folds.

        A splitter or splits count all rows, also those of weight 0.
        """
        weights = check_weights(sample_weight, len(y), X, "X")
        numbered = self.cv is None or isinstance(self.cv, (int, np.integer))
        rows = np.flatnonzero(weights) if frozen or numbered else np.arange(len(y))
        weights, labels = weights[rows], y[rows]
        if frozen or not numbered:
            return rows, weights, None
        sets = same_rows(X if len(rows) == len(y) else _safe_indexing(X, rows))
        wanted = 5 if self.cv is None else check_count(self.cv, "cv", least=2)
        single = single_rows(sets, labels, weights, wanted)
        folds = enough_folds(wanted, labels[single | np.isin(rows, rows[first_rows(sets)])])

        def numbering(sets: RowNumbers, first: RowNumbers) -> RowNumbers:
            fold, cv = np.zeros(len(first), np.int64), check_cv(folds, labels[first], classifier=True)
            for place, (_, out) in enumerate(cv.split(first, labels[first])):
                fold[out] = place
            return fold

        dealt = deal(sets, labels, weights, folds, numbering, 0)
        return rows[dealt.rows], dealt.weights, dealt.fold

    def _splits(
        self, X: Any, y: LabelArray, routed: Bunch, frozen: bool, fold: RowNumbers | None
    ) -> list[tuple[RowNumbers, RowNumbers]]:
        """Training and held-out rows of every fold; for a frozen classifier all rows are held out."""
        rows = np.arange(len(y))
        if frozen:
            return [(rows, rows)]
        if fold is not None:
            return [(rows[fold != k], rows[fold == k]) for k in range(int(fold.max()) + 1)]
        cv = check_cv(self.cv, y, classifier=True)
        try:
            splits = [(rows[train], rows[test]) for train, test in cv.split(X, y, **routed.splitter.split)]
        except (IndexError, TypeError, ValueError) as error:
            # the errors of a splitter are its own
            if hasattr(self.cv, "split"):
                raise
            raise ValueError(
                "cv must be a number, a splitter, or pairs (train, test) of row numbers "
                f"from 0 to {len(y) - 1}, got {shown(self.cv)}"
            ) from error
        for number, (train, test) in enumerate(splits):
            if not (len(train) and len(test)):
                raise ValueError(
                    "cv must have rows in both parts, to fit and held out, of every fold, "
                    f"got {len(train)} and {len(test)} in fold {number}"
                )
        if not splits:
            raise ValueError(f"cv must have at least one fold, got {self.cv!r}")
        return splits

    def _route(self, y: LabelArray, sample_weight: ArrayLike | None, fit_params: dict[str, Any]) -> Bunch:
        """The keyword arguments for the methods of estimator, recalibrator and splitter."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
        routed = Bunch(splitter=Bunch(split={}))
        for role, method_owner in (("estimator", self.estimator), ("recalibrator", self._get_recalibrator())):
            takes = sample_weight is not None and has_fit_parameter(method_owner, "sample_weight")
            routed[role] = Bunch(fit={"sample_weight": sample_weight} if takes else {})
            if sample_weight is not None and not takes and not isinstance(method_owner, FrozenEstimator):
                remark = f"{role} {type(method_owner).__name__} takes no sample_weight: it is fitted without"
                warn_of([remark], UserWarning)
        routed.estimator.fit |= fit_params
        return routed

    def _get_recalibrator(self) -> Any:
        if self.recalibrator is not None:
            return self.recalibrator
        default = AveragedCalibration()
        if get_config()["enable_metadata_routing"] and has_fit_parameter(default, "sample_weight"):
            default.set_fit_request(sample_weight=True)
        return default

    def get_metadata_routing(self) -> MetadataRouter:
        """How keyword arguments of `fit` reach classifier, recalibrator and splitter: scikit-learn's router.

        scikit-learn calls it; it matters only after `sklearn.set_config(enable_metadata_routing=True)`.
        """
        fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=fit)
        router.add(recalibrator=self._get_recalibrator(), method_mapping=fit)
        splits = MethodMapping().add(caller="fit", callee="split")
        return router.add(splitter=self.cv, method_mapping=splits)

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities of the rows X, shape (n, C), with columns in the order of `classes_`.

        X has features as in `fit`. Answers are averages over the fitted pairs of a classifier and its
        recalibrator; every row sums to 1.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a classifier refuses X, or answers with what are neither probabilities nor finite scores.
        """
        check_is_fitted(self, "calibrated_classifiers_")
        return np.mean([pair.predict_proba(X) for pair in self.calibrated_classifiers_], axis=0)

    def predict(self, X: Any) -> LabelArray:
        """The label with the largest probability of each row of X, shape (n,); of equal ones the first.

        Probabilities are the recalibrated ones, and labels are those of `classes_`. X, features as in `fit`,
        and errors are those of `predict_proba`.
        """
        top = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[top]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own_tags = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = own_tags.sparse, own_tags.allow_nan
        return tags


def _known_classes(y: LabelArray, fitted: Any | None) -> LabelArray:
    """The sorted labels, or all labels that the fitted classifier knows."""
    classes = np.unique(y)
    if len(classes) == 0:
        raise ValueError("y is empty: give at least one label")
    if fitted is not None:
        check_is_fitted(fitted)
        own = np.asarray(fitted.classes_)
        if not np.isin(classes, own).all():
            unknown = classes[~np.isin(classes, own)].tolist()[0]
            known = shown(own.tolist())
            raise ValueError(f"y must be labels that the frozen estimator knows, {known}, got {unknown!r}")
        return np.unique(own)
    if len(classes) < 2:
        raise ValueError(
            f"y must have labels of at least two classes, got one class: {classes.tolist()[0]!r}"
        )
    return classes
