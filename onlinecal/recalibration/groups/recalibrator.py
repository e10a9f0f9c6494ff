"""The recalibrator of forecasts inside groups, in scikit-learn's conventions.

`plan_of` checks the parameters and fills in those that are None; `fit` follows the plan and keeps the result.

Attributes that end in an underscore are written by `fit` alone; `predict_proba` changes nothing. A fitted
recalibrator has the groups (`_maker`), how near to 0 and 1 forecasts may be (`_edge`, `_least`, `_limit`), a
start and a history of patches. A forecast is brought inside the ends, mapped by the start, moved by the
patches in their order, and kept away from the ends. That order is part of answers; the numbers below decide
what is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Bytes, Floats
from onlinecal.measures.groups import level_sets, violations_of_levels
from onlinecal.measures.scores import brier_score
from onlinecal.recalibration.folds import first_rows, same_rows, sums
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair, Predicates, repair_of
from onlinecal.recalibration.groups.patches import (
    EVENT_STARTS,
    TARGET_SHARE,
    EventRows,
    EventStart,
    PatchPlan,
    most_shifts,
    most_unrounded_patches,
)
from onlinecal.recalibration.groups.start import (
    PATCH_KINDS,
    Patch,
    StartAndPatches,
    StartMap,
    away_from_ends,
    choose,
    copied_rows,
    default_folds,
    default_levels,
    fold_parts,
    nearest_ends,
    row_losses,
    set_apart,
)
from onlinecal.recalibration.probability_recalibrator import (
    event_column,
    event_rows,
    in_shape_of,
    repeats,
    row_weights,
)
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.tables.columns import check_same_index
from onlinecal.tables.frames import names_of
from onlinecal.validation import check_choice, check_count, check_flag, check_number, check_share

Target = Literal["multicalibration", "means"]
TARGETS: tuple[Target, ...] = get_args(Target)

DEFAULT_LEVELS = 10
"""The number of levels by default if held-out rows decide when to stop."""
DEFAULT_SHRINKAGE = 50.0
ALPHA_WITH_FOLDS, ALPHA_WITHOUT_FOLDS = 0.001, 0.05
"""The default alpha of patches that are not log-odds patches if there are folds, and of all without folds."""
MOST_FOLD_PATCHES = 500
"""The most log-odds patches that folds try; they are also at most half the rows."""


def plan_of(model: GroupRecalibrator, n_rows: float) -> PatchPlan:
    """The plan of a fit to this many rows: checked parameters, with defaults for those that are None."""
    model.random_state = check_count(model.random_state, "random_state", least=0)
    check_choice(model.patch, tuple(PATCH_KINDS), "patch")
    check_choice(model.target, TARGETS, "target")
    check_choice(model.start, EVENT_STARTS, "start")
    check_flag(model.floor, "floor")
    check_number(model.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    folds = _folds(model, n_rows)
    by_logs = model.patch == "log-odds"
    alpha = 0.0 if by_logs and folds else ALPHA_WITH_FOLDS if folds else ALPHA_WITHOUT_FOLDS
    alpha = alpha if model.alpha is None else check_share(model.alpha, "alpha")
    shrinkage = DEFAULT_SHRINKAGE if folds and by_logs else 0.0
    if model.shrinkage is not None:
        shrinkage = check_number(
            model.shrinkage, "shrinkage", 0.0, math.inf, "[)", "a finite number of at least 0"
        )
        if not by_logs:
            raise ValueError(
                f"shrinkage must be None for the patch {model.patch!r}, got {model.shrinkage!r}: leave it "
                "out, or set patch='log-odds'"
            )
    start: EventStart = "none" if model.start == "auto" and not folds else model.start
    m = _levels(model, alpha, bool(folds))
    return PatchPlan(m, alpha, bool(folds) or model.n_levels is not None, shrinkage, folds, start)


def _folds(model: GroupRecalibrator, n_rows: float) -> int:
    n_folds = model.cv
    if n_folds is not None and n_folds != 0:
        if model.validation_fraction:
            raise ValueError(
                f"cv must be None or 0 with validation_fraction={model.validation_fraction}, got {n_folds!r}"
            )
        return check_count(n_folds, "cv", least=2)
    if n_folds is not None:
        check_count(n_folds, "cv", least=0)
    return 0 if n_folds == 0 or model.validation_fraction else default_folds(n_rows)


def _levels(model: GroupRecalibrator, alpha: float, has_folds: bool) -> int:
    n_levels, patch = model.n_levels, model.patch
    if model.target == "means" and patch not in ("shift", "log-odds"):
        raise ValueError(f"patch must be 'shift' or 'log-odds' for the target 'means', got {patch!r}")
    for kind, words in (
        (model.target == "means", "target 'means'"),
        (patch.startswith("unrounded"), f"patch {patch!r}"),
    ):
        if kind:
            if n_levels is not None:
                raise ValueError(f"n_levels must be None for the {words}, got {n_levels!r}")
            return 0
    if n_levels is None and has_folds:
        return max(DEFAULT_LEVELS, math.ceil(alpha**-0.5)) if patch == "value" else DEFAULT_LEVELS
    if n_levels is None:
        return default_levels(alpha)
    m = check_count(n_levels, "n_levels", most=1 << 20)
    if patch == "value" and 4.0 * m * m * alpha <= 1.0:
        raise ValueError(
            f"n_levels must be above 1/(2 sqrt(alpha)) = {0.5 / alpha**0.5:.4g}, got {m}: give more levels, "
            f"or a larger alpha than {alpha:g}"
        )
    return m


def most_patches(model: GroupRecalibrator, plan: PatchPlan, rows: EventRows) -> int:
    """The most patches that any outcomes can need; for unrounded and log-odds patches those of these rows."""
    alpha, m = plan.alpha, plan.n_levels
    if model.patch == "unrounded":
        return most_unrounded_patches(rows.p, brier_score(rows.p, rows.y) / len(rows.p), alpha)
    if model.patch == "unrounded shift":
        return math.floor(brier_score(rows.p, rows.y) / (TARGET_SHARE * alpha))
    if model.patch == "shift":
        return most_shifts(alpha, m)
    if model.patch == "log-odds":
        return _most_log_odds(plan, rows)
    if not plan.by_fall:
        return math.floor(4.0 / alpha**2)
    return math.floor((m + 1) / (alpha - 0.25 / m**2))


def _most_log_odds(plan: PatchPlan, rows: EventRows) -> int:
    """The most log-odds patches: each saves a part of a violation, which is at least 3/4 alpha/(m + 1)."""
    total = float(rows.weights.sum())
    allowed = min(MOST_FOLD_PATCHES, int(total / 2.0)) if plan.n_folds else math.inf
    if plan.alpha == 0.0:
        return int(allowed)
    least = TARGET_SHARE * plan.alpha / (plan.n_levels + 1)
    spread = 7.0 / 12.0 + plan.shrinkage / (least * total)
    loss = float((rows.weights * row_losses(rows, "log-odds")).sum()) / total
    return int(min(math.floor(2.0 * spread * loss / least), allowed))


def ends_of(model: GroupRecalibrator, rows: EventRows) -> tuple[float, float]:
    """How near to 0 and 1 forecasts may be, and how near to them patches may bring answers."""
    if not model.floor and model.patch != "log-odds" and model.start in ("none", "auto"):
        return 0.0, 0.0
    edge, least = nearest_ends(rows.p, float(rows.weights.sum()))
    return edge, least if model.floor else 0.0


def merged(rows: EventRows) -> EventRows:
    """Rows without repetitions: those that are equal, outcome and all, become one with their total weight."""
    same = same_rows(rows.p, rows.members, rows.y)
    first = first_rows(same)
    if len(first) == len(same):
        return rows
    return rows.take(first)._replace(weights=sums(same, rows.weights))


def violations(rows: EventRows, n_levels: int | None, means: bool) -> Any:
    """mu(g) K2(f, g) of every group on weighted rows, shape (G,)."""
    level = np.zeros(len(rows.p), np.int64) if means else level_sets(rows.p, n_levels)[0]
    return violations_of_levels(rows.p, rows.y, rows.members.view(np.bool_), level, rows.weights)


REPORT_LEVELS = 20
"""The number of levels of the report if the target was "means"."""


class GroupRecalibrator(BaseEstimator):
    """Recalibrate forecasts of one event until they are right inside each of many overlapping groups.

    A smooth map of the forecasts comes first. Then come patches. Each corrects one cell, the rows of one
    level set inside one group: it adds a constant to their log odds, or to those of a whole group. Rows that
    are held out, fold by fold, decide which map is taken, and how many patches: only what lowers their log
    loss (for the number of patches of other kinds squared error) by more than a standard error, and by more
    than the best of so many candidates gains by chance. So forecasts that are calibrated already mostly stay
    as they are (of draws of 100 to 3,000 rows in four groups one in eight to one in five moved them, by a
    mean square of about 1/n for n rows), and so do all if there are too few rows. Nothing is proved of the
    result; `violations_` says what it reached.

    The violation of a group is the sum over its level sets of (share of all rows in the cell) times (mean
    forecast - mean outcome)^2, its `multicalibration_error`. `GroupRecalibrator.as_in_paper(alpha)` plays the
    paper's algorithm: there is no map and nothing is held out, and patches are made until no group has a
    violation above alpha on the rows of `fit`. That is proved to take at most 4/alpha^2 patches.

    Parameters are checked by `fit`, and not before.

    Parameters
    ----------
    alpha
        The violation that may remain in any group, in (0, 1]: once it is reached no further patch is made. It
        is a squared error: with alpha = 0.01 everyone may still be wrong by 0.1, and small groups need a
        smaller alpha (0.02 * 0.1^2 = 0.0002 for a fiftieth of the rows). None: only held-out rows end
        log-odds patches; for other patches it is 0.001, and without folds 0.05.
    patch
        What a patch does to the rows of a cell:

        - "log-odds": adds a constant to their log odds, or to those of all rows of the group. "shift": adds
          one to the forecasts. Both keep what the predictor knew inside the cell. A level set is all
          forecasts with the same nearest multiple of 1/m, and stands for their mean.
        - "value": forecasts are rounded to multiples of 1/m, and the rows move to the one nearest to their
          mean outcome.
        - "unrounded": a level set is one exact forecast, and the rows get exactly their mean outcome. This is
          for forecasts of few values; if they hardly repeat, every row is a level set and noise is learned. A
          forecast that `fit` has not seen stays as it is. "unrounded shift": the same level sets; as "shift".
    n_levels
        m. None: 10 (for value patches at least 1/sqrt(alpha)); without folds 1/alpha, rounded up. Value
        patches need m > 1/(2 sqrt(alpha)); with folds, or if m is given, they patch the cell that saves most
        squared error. For unrounded patches, and for the target "means", it must be None.
    target
        "multicalibration", or "means": then the only level set is everything, so that just the mean forecast
        of each group is made right, to (share of the rows in the group) times (mean forecast - mean
        outcome)^2 <= alpha. For means, patch must be "log-odds" or "shift", since overlapping groups could
        undo each other's values for ever.
    predicates
        Functions, in a list or in a dict by name: each is called with the `groups` of fit and predict_proba,
        which may then be any table, and returns one boolean a row, the members of one group. None: `groups`
        itself says which rows are in which group.
    min_mass
        Groups made of categories need at least this share of the rows, in (0, 1].
    validation_fraction
        The share of the rows to hold out instead of folds, in [0, 1): patches are made on the others, and
        those after the lowest loss on the held-out rows are taken back. It needs cv=None or 0, and then there
        are no folds.
    random_state
        A whole number from 0, which chooses the held-out rows.
    start
        The map that patches start from. "temperature": log odds are multiplied by a number; "platt": another
        number is added, too; "beta": ln p and ln(1 - p) have factors of their own; "isotonic": isotonic
        regression; "none": no map. With folds it is taken only if it lowers the log loss of held-out rows.
        "auto": of none, temperature, platt and beta the one with the least; without folds none.
    cv
        The number of folds of held-out rows, 0 or at least 2. None: 10, from 5,000 rows on 5 and from 200,000
        on 3; with more than 10^6 rows only one of them is held out. 0: nothing is held out, and patches are
        made until alpha is reached.
    shrinkage
        At least 0: log-odds patches step as if each cell had this much more variance, the sum of f (1 - f)
        over its rows. So the fewer rows a cell has, the shorter is its step. None: 50; without folds 0. For
        other patches it must be None.
    floor
        True: answers stay at least 1/(2 (n + 1)) away from 0 and 1, for n rows fitted, or, where the forecast
        itself was nearer than that, as far as the forecast; forecasts of 0 and 1 are moved to the nearest
        that other forecasts come. False: answers may be 0 and 1, as in the paper.

    Attributes
    ----------
    start_
        The map that was taken, a `StartMap` with `kind` (the name, "none" for no map) and `coefficients_`.
    history_
        The patches in order, a structured array of shape (P,); see
        `onlinecal.recalibration.groups.patches.PATCH`.
    n_patches_, max_patches_
        How many there are, P, and how many there can be at most.
    held_out_
        Mean loss of the held-out rows after 0, 1, ... patches: log loss for log-odds patches, else squared
        error; None without folds.
    n_levels_, n_groups_, group_names_
        m, which is 0 for the target "means" and for unrounded patches; the number of groups, G; and a list of
        their names.
    violations_before_, violations_, squared_error_before_, squared_error_
        The violation of each group, shape (G,), and mean squared error on the rows that were fitted, of the
        forecasts before and after recalibration.
    n_taken_back_
        How many patches were taken back because of the rows that validation_fraction held out.

    Examples
    --------
    A forecaster that is right on average, and wrong in each of two groups:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> left = rng.random(10_000) < 0.5
    >>> truth = np.where(left, 0.3, 0.7)
    >>> y, p = rng.random(10_000) < truth, np.full(10_000, 0.5)
    >>> groups = np.column_stack([left, ~left])
    >>> GroupRecalibrator().fit(p, y, groups).predict_proba([0.5, 0.5], [[1, 0], [0, 1]]).round(1)
    array([0.3, 0.7])

    References
    ----------
    Hebert-Johnson, Kim, Reingold and Rothblum, "Multicalibration" (2018). docs/theory-tables.md has the
    proofs.
    """

    start_: StartMap

    def __init__(
        self,
        *,
        alpha: float | None = None,
        patch: Patch = "log-odds",
        n_levels: int | None = None,
        target: Target = "multicalibration",
        predicates: Predicates = None,
        min_mass: float = 0.02,
        validation_fraction: float = 0.0,
        random_state: int = 0,
        start: EventStart = "auto",
        cv: int | None = None,
        shrinkage: float | None = None,
        floor: bool = True,
    ) -> None:
        self.alpha = alpha
        self.patch = patch
        self.n_levels = n_levels
        self.target = target
        self.predicates = predicates
        self.min_mass = min_mass
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.start = start
        self.cv = cv
        self.shrinkage = shrinkage
        self.floor = floor

    @classmethod
    def as_in_paper(cls, alpha: float = 0.05, patch: Patch = "value", **parameters: Any) -> GroupRecalibrator:
        """A new, unfitted recalibrator that plays the paper's algorithm alone.

        On the rows of `fit` it corrects the rows of one forecast in one group, again and again, until no
        group's `multicalibration_error` is above alpha. No map is fitted before, no rows are held out, and
        answers may be 0 and 1. `alpha` and `patch` are parameters of the class, and `parameters` are its
        further parameters by name, which may also replace these settings. `fit` checks them, and has to
        follow.
        """
        return cls(alpha=alpha, patch=patch, **{"start": "none", "cv": 0, "floor": False, **parameters})

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: Any, sample_weight: ArrayLike | None = None
    ) -> GroupRecalibrator:
        """Learn the map and the corrections inside groups, and forget an earlier fit. Returns this object.

        Parameters
        ----------
        X
            The predictor's probabilities of the event, shape (n,); or those of two classes, shape (n, 2), of
            which the second is the event.
        y
            Outcomes, 0/1 or boolean, shape (n,). If X has two columns: labels, 0/1 or, for a data frame, the
            names of its columns.
        groups
            Which groups the rows are in: a matrix of booleans or 0/1, shape (n, G); a data frame of
            categories, of which groups are made (everyone, each category, and each pair of two columns'
            categories, with at least `min_mass` of the rows); or, if the class was given `predicates`, any
            table that they can read.
        sample_weight
            For how many rows each row counts, shape (n,), at least 0; whole numbers unless patch="log-odds",
            the default. None: each counts once.

        Raises
        ------
        ValueError
            For a bad parameter of the class, and bad X, y, groups or sample_weight; the error names argument
            and value.

        Warns
        -----
        LabelWarning
            If y is always the same, or X is on the wrong side of 1/2 more often than by chance.
        SampleSizeWarning
            If there are fewer than two different rows for each fold, or several weights have a sum below 2.
        """
        check_same_index(X, groups, "X and groups")
        forecasts, outcomes = event_rows(X, y)
        weights = row_weights(sample_weight, len(forecasts), X, "X")
        maker = GroupMaker(self.min_mass, self.predicates)
        members = maker.fit(groups, len(forecasts), None if sample_weight is None else weights).view(np.uint8)
        warn_of(outcome_remarks(outcomes, forecasts, "y", "X"))
        # kernels that count rows are given a row of weight w w times
        if self.patch != "log-odds":
            repeats(weights, f"patch={self.patch!r}")
        rows = EventRows(forecasts, outcomes, members, weights)
        rows = rows if (weights > 0.0).all() else rows.take(weights > 0.0)
        plan = plan_of(self, float(weights.sum()))
        if plan.n_folds or self.validation_fraction:
            rows = merged(rows)
        self._maker, self._columns = maker, names_of(X)
        fitted, aside = set_apart(rows, self.validation_fraction, self.random_state)
        self._learn(fitted, None if aside is None else self._copied(aside), plan)
        return self

    def _copied(self, rows: EventRows) -> EventRows:
        return rows if self.patch == "log-odds" else copied_rows(rows)

    def _learn(self, raw: EventRows, aside: EventRows | None, plan: PatchPlan) -> None:
        self.group_names_, self.n_groups_ = list(self._maker.names_), self._maker.n_groups_
        self.n_levels_ = plan.n_levels
        self._edge, self._least = ends_of(self, raw)
        self._limit = max(self._edge, self._least)
        rows = raw._replace(p=self._inside(raw.p))
        parts = (
            fold_parts(rows, plan.n_folds, self.random_state, self.patch != "log-odds")
            if plan.n_folds
            else []
        )
        raw, rows = self._copied(raw), self._copied(rows)
        choice = StartAndPatches("none" if plan.n_folds else plan.start, 0, None)
        if parts:
            searched = most_patches(self, plan, rows)
            choice = choose(parts, self.patch, plan._replace(most=searched), self._limit)
        smooth = StartMap(choice.start).fit(rows.p, rows.y, rows.weights)
        self.start_, self.held_out_ = smooth, choice.held_out
        rows = rows._replace(p=smooth(rows.p, self._limit))
        self.max_patches_ = most_patches(self, plan, rows)
        number = self.max_patches_ if plan.n_folds == 0 else choice.n_patches
        if aside is not None:
            aside = aside._replace(p=self.start_(self._inside(aside.p), self._limit))
        patches, curve = PATCH_KINDS[self.patch].fit(rows, aside, plan._replace(most=number))
        keep = len(patches) if curve is None else int(np.argmin(curve))
        self.history_, self.n_patches_, self.n_taken_back_ = patches[:keep], keep, len(patches) - keep
        after = rows._replace(p=self._patched(rows.p, rows.members))
        levels_and_target = plan.n_levels or None, self.target == "means"
        self.violations_before_ = violations(raw, *levels_and_target)
        self.violations_ = violations(after, *levels_and_target)
        self.squared_error_before_ = float(np.average((raw.p - raw.y) ** 2, weights=raw.weights))
        self.squared_error_ = float(np.average((after.p - after.y) ** 2, weights=after.weights))

    def _inside(self, p: Floats) -> Floats:
        return np.clip(p, self._edge, 1.0 - self._edge) if self._edge else p

    def _patched(self, p: Floats, members: Bytes, n_patches: int | None = None) -> Floats:
        """Forecasts after the start and this many patches; `p` are those after the start."""
        after = PATCH_KINDS[self.patch].replay(p, members, self.history_[:n_patches], self.n_levels_)
        return away_from_ends(after, p, self._least) if self._least else after

    def predict_proba(self, X: ArrayLike, groups: Any) -> Floats:
        """The recalibrated probabilities of other rows, an array in the shape of X.

        `X` are probabilities by the same predictor: of the event, shape (n,), or of two classes, (n, 2), of
        which the second is the event. `groups` says which groups these rows are in, in the form that `fit`
        was given: a matrix (n, G), a data frame with the same columns of categories, or what predicates read.
        A row in no group gets the smooth map alone, with patch="value" rounded to the grid. Raises ValueError
        for bad X or groups, and NotFittedError before `fit`.
        """
        return in_shape_of(X, self._patched(*self._started(X, groups)))

    def staged_predict_proba(
        self, X: ArrayLike, groups: Any, stops: Iterable[int] | None = None
    ) -> Iterator[Floats]:
        """An iterator over the answers to X after 0, 1, ..., n_patches_ patches, arrays in the shape of X.

        A patch corrects the rows of one level set in one group; after 0 patches there is only the smooth map,
        with patch="value" rounded to the grid. `stops` are the numbers of patches after which answers are
        wanted, each from 0 to n_patches_; None: all of these. `X`, probabilities (n,) or (n, 2), and `groups`
        are those of `predict_proba`, as are the errors, and there is a ValueError for a bad stop. Errors are
        raised when an array is asked for.
        """
        started, members = self._started(X, groups)
        for stop in range(self.n_patches_ + 1) if stops is None else stops:
            number = check_count(stop, "stops", self.n_patches_, least=0)
            yield in_shape_of(X, self._patched(started, members, number))

    def _started(self, X: ArrayLike, groups: Any) -> tuple[Floats, Bytes]:
        check_same_index(X, groups, "X and groups")
        forecasts = event_column(X)
        members = self.members(groups, len(forecasts)).view(np.uint8)
        if self._columns is not None and names_of(X) not in (None, self._columns):
            raise ValueError(f"X must have the columns {self._columns} of fit, got {names_of(X)}")
        return self.start_(self._inside(forecasts), self._limit), members

    def members(self, groups: Any, n_rows: int) -> NDArray[np.bool_]:
        """Which of the groups each of `n_rows` rows is in: booleans, shape (n_rows, n_groups_).

        There is a column for each group, in the order of `group_names_`. `groups` describes the rows in the
        form that `fit` was given: a matrix with a column for each group, a data frame with the same columns
        of categories (those that `fit` has not seen are in no group), or what predicates read. Raises
        ValueError for bad groups, or if they do not have n_rows rows, and NotFittedError before `fit`.
        """
        check_is_fitted(self, "history_")
        return self._maker.transform(groups, n_rows)

    def report(self, X: ArrayLike, y: ArrayLike, groups: Any) -> GroupRepair:
        """How calibrated the probabilities X are inside each group, before and after recalibration.

        X are the predictor's probabilities, y the outcomes and `groups` says which groups the rows are in,
        all in the forms of `fit`; rows may be others than were fitted. Returns a `GroupRepair`, which prints
        as a table; its errors are averages over rows. Forecasts that share the nearest multiple of
        1/n_levels_ are compared as one, of 1/20 with target "means"; for unrounded patches exact forecasts.
        Raises ValueError for bad X, y or groups, and NotFittedError before `fit`.
        """
        started, members = self._started(X, groups)
        m = self.n_levels_ or (REPORT_LEVELS if self.target == "means" else None)
        after = self._patched(started, members)
        return repair_of(*event_rows(X, y), after, members, m, self.group_names_)
