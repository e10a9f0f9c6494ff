"""Recalibrate forecasts inside groups, in scikit-learn's conventions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Bytes, Floats
from onlinecal.measures.counts import check_weights
from onlinecal.measures.groups import level_sets, multicalibration_report, violations_of_levels
from onlinecal.recalibration.groups.maker import GroupMaker, GroupRepair, Predicates
from onlinecal.recalibration.groups.patches import (
    PATCHES,
    STARTS,
    Patch,
    Plan,
    Rows,
    Start,
    find,
    most_patches,
    replay,
    watch,
)
from onlinecal.recalibration.groups.start import (
    StartMap,
    away_from_ends,
    choose,
    default_folds,
    fold_parts,
    held_out_rows,
    nearest_ends,
)
from onlinecal.recalibration.probability_recalibrator import column_names, event_column, event_rows, repeats
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.validation import check_choice, check_count, check_number, check_same_index, check_share

Target = Literal["multicalibration", "means"]
TARGETS: tuple[Target, ...] = get_args(Target)

LEVELS = 10
"""Levels where held-out rows say when to stop."""
SHRINKAGE = 50.0
ALPHA, PLAIN_ALPHA = 0.001, 0.05
"""Without an alpha, where the patches are not log-odds patches; and where no folds are held out."""
REPORT_LEVELS = 20
"""Levels of the report when only means were the target."""


class GroupRecalibrator(BaseEstimator):
    """Recalibrate forecasts of one event until they are right inside each of many overlapping groups.

    A smooth map of the forecasts comes first, then patches: each adds a constant to the log odds of one level
    set inside one group, or of a whole group. Which map, and how many patches, is decided by rows that are
    held out, fold by fold; what does not lower their log loss by more than chance would is not done:
    forecasts that are calibrated already stay as they are, and so do those of too few rows.

    `GroupRecalibrator.as_in_paper(alpha)` is round-multicalibrate: no map, nothing held out, patches until
    each group g has mu(g) K2(f, g) <= alpha on the rows of `fit`, which is proved to take at most 4/alpha^2.
    Of the default nothing is proved: what it reached is in `violations_`.

    Parameters
    ----------
    alpha
        The violation mu(g) K2(f, g) that may remain in any group, in (0, 1]: patches end there at the latest.
        A squared bias: alpha = 0.01 still lets everyone be wrong by 0.1; small groups need a smaller alpha
        (0.02 * 0.1^2 = 0.0002). None: only held-out rows end them (0.001 with other than log-odds patches;
        without folds 0.05).
    patch
        "log-odds": a constant is added to the log odds of the cell, or of all of the group's rows. "shift":
        to the forecasts themselves. Both keep what the predictor knew inside the cell; levels are forecasts
        that round to the same grid point, compared by their means.
        "value": forecasts are rounded to the grid 0, 1/m, ..., 1, and the cell's rows move to the grid point
        nearest to their mean outcome.
    n_levels
        m. None: 10 (for value patches at least 1/sqrt(alpha)); without folds ceil(1/alpha). Value patches
        need m >= 1/(2 sqrt(alpha)), and with any m given here patch the cell that saves most squared error.
    target
        "multicalibration", or "means": only the mean forecast of each group is made right, to
        mu(g) (E[f | g] - E[y | g])^2 <= alpha. For means, patch must be "log-odds" or "shift": overlapping
        groups can undo each other's values for ever.
    predicates
        Functions, or names and functions: each turns the `groups` of fit and predict (then any table) into
        one boolean a row.
    min_mass
        Groups made of categories need at least this share of the rows, in (0, 1].
    validation_fraction
        Share of the rows to hold out instead of folds, in [0, 1): patches are made on the others, and those
        after the lowest loss on the held-out rows are taken back.
    seed
        Chooses the held-out rows.
    start
        The map that patches start from: "none", "temperature", "platt", "beta" or "isotonic", unless held-out
        rows speak against it; "auto": the one of the first four with the least log loss; without folds none.
    n_folds
        None: 10, from 5,000 rows on 5 and from 200,000 on 3; of more than 10^6 rows only one of them is held
        out. 0: nothing is held out, every patch is made.
    shrinkage
        Log-odds patches step as if each cell had so much more variance, the sum of f (1 - f): the fewer rows,
        the shorter the step. None: 50; without folds 0.
    floor
        True: no answer is nearer to 0 or 1 than 1/(2 (n + 1)) for n rows fitted, or than the forecast itself
        was; 0 and 1 themselves are moved to where the other forecasts end. False: as in the paper.

    Attributes
    ----------
    start_
        The map that was taken, a `StartMap`; its `kind` and `coefficients_`.
    history_
        The patches in order, an array of shape (P,); see `onlinecal.recalibration.groups.patches.PATCH`.
    n_patches_, max_patches_
        How many there are, and how many there can be at most.
    held_out_
        Mean loss of the held-out rows by number of patches, from 0: log loss for log-odds patches, else
        squared error. None without folds.
    n_levels_, n_groups_, group_names_
        m, 0 for the target "means"; the groups.
    violations_before_, violations_, squared_error_before_, squared_error_
        mu(g) K2(f, g), shape (G,), and mean squared error on the rows that were fitted, of the forecasts as
        they came and afterwards.
    n_taken_back_
        Patches that rows held out by validation_fraction spoke against.

    Examples
    --------
    A forecaster that is right on average, and wrong in each of two groups:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> left = rng.random(10_000) < 0.5
    >>> truth = np.where(left, 0.3, 0.7)
    >>> y, p = rng.random(10_000) < truth, np.full(10_000, 0.5)
    >>> groups = np.column_stack([left, ~left])
    >>> GroupRecalibrator().fit(p, y, groups).predict([0.5, 0.5], [[1, 0], [0, 1]]).round(1)
    array([0.3, 0.7])

    References
    ----------
    Hebert-Johnson, Kim, Reingold and Rothblum (2018). docs/theory-tables.md has the proofs.
    """

    start_: StartMap

    def __init__(
        self,
        alpha: float | None = None,
        patch: Patch = "log-odds",
        n_levels: int | None = None,
        target: Target = "multicalibration",
        predicates: Predicates = None,
        min_mass: float = 0.02,
        validation_fraction: float = 0.0,
        seed: int = 0,
        start: Start = "auto",
        n_folds: int | None = None,
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
        self.seed = seed
        self.start = start
        self.n_folds = n_folds
        self.shrinkage = shrinkage
        self.floor = floor

    @classmethod
    def as_in_paper(cls, alpha: float = 0.05, patch: Patch = "value", **parameters: Any) -> GroupRecalibrator:
        """The plain algorithm: patches until no group's violation exceeds alpha on the rows of `fit`.

        No start, no folds and no floor, unless they are given; parameters are those of the class.
        """
        return cls(alpha, patch, **{"start": "none", "n_folds": 0, "floor": False, **parameters})

    def fit(
        self, p: ArrayLike, y: ArrayLike, groups: Any, sample_weight: ArrayLike | None = None
    ) -> GroupRecalibrator:
        """Learn the start and the patches.

        Parameters
        ----------
        p
            The predictor's probabilities, shape (n,); or those of two classes, (n, 2), the second one being
            the event.
        y
            Outcomes, 0/1 or boolean, shape (n,); with two classes their labels, as of `LpRecalibrator`.
        groups
            A boolean matrix (n, G), a data frame of categories (all one-way and two-way groups with enough
            mass), or any table when there are predicates.
        sample_weight
            For how many rows each counts, shape (n,), at least 0; whole numbers unless patches are log-odds.
            A row of log-odds patches is held out as a whole. None: each for one.

        Raises
        ------
        ValueError
            A bad parameter, bad p, y, groups or sample_weight: names the argument and the value.

        Warns
        -----
        LabelWarning
            y is always the same, or p is on the wrong side of 1/2 more often than by chance.
        """
        check_same_index(p, groups, "p and groups")
        forecasts, outcomes = event_rows(p, y)
        weights = check_weights(sample_weight, len(forecasts))
        maker = GroupMaker(self.min_mass, self.predicates)
        members = maker.fit(groups, len(forecasts), None if sample_weight is None else weights).view(np.uint8)
        warn_of(outcome_remarks(outcomes, forecasts, "y", "p"))
        rows = Rows(forecasts, outcomes, members, np.ones(len(forecasts)))
        if sample_weight is not None and self.patch == "log-odds":
            rows = rows._replace(weights=weights).take(weights > 0.0)
        elif sample_weight is not None:
            rows = rows.take(np.repeat(np.arange(len(weights)), repeats(weights, f"patch={self.patch!r}")))
        self._plan = self._planned(len(rows.p))
        self._maker, self._columns = maker, column_names(p)
        held = held_out_rows(len(rows.p), self.validation_fraction, self.seed)
        aside = rows.take(held) if held.any() else None
        self._learn(rows if aside is None else rows.take(~held), aside)
        return self

    def _planned(self, n_rows: int) -> Plan:
        """Check all parameters, and fill in those that are None."""
        check_count(self.seed, "seed", least=0)
        check_choice(self.patch, PATCHES, "patch")
        check_choice(self.target, TARGETS, "target")
        check_choice(self.start, STARTS, "start")
        if self.n_folds and self.validation_fraction:
            raise ValueError(
                f"n_folds must be None or 0 with validation_fraction={self.validation_fraction}, "
                f"got {self.n_folds!r}"
            )
        folds = 0 if self.validation_fraction else self.n_folds
        if folds is None:
            folds = default_folds(n_rows)
        elif folds != 0:
            check_count(folds, "n_folds", least=2)
        folds, by_logs = min(folds, n_rows), self.patch == "log-odds"
        alpha = 0.0 if by_logs and folds else ALPHA if folds else PLAIN_ALPHA
        alpha = alpha if self.alpha is None else check_share(self.alpha, "alpha")
        shrinkage = SHRINKAGE if folds else 0.0
        if self.shrinkage is not None:
            least = "a finite number of at least 0"
            shrinkage = check_number(self.shrinkage, "shrinkage", 0.0, math.inf, "[)", least)
        shrinkage *= by_logs
        start: Start = "none" if self.start == "auto" and not folds else self.start
        by_fall = bool(folds) or self.n_levels is not None
        return Plan(self.patch, self._levels(alpha, folds), alpha, by_fall, shrinkage, folds, start)

    def _levels(self, alpha: float, folds: int) -> int:
        if self.target == "means":
            if self.patch == "value":
                raise ValueError("patch must be 'shift' or 'log-odds' for the target 'means', got 'value'")
            if self.n_levels is not None:
                raise ValueError(f"n_levels must be None for the target 'means', got {self.n_levels!r}")
            return 0
        if self.n_levels is None and folds:
            return max(LEVELS, math.ceil(alpha**-0.5)) if self.patch == "value" else LEVELS
        if self.n_levels is None:
            # a hair's breadth for reciprocals that floating point misses
            return math.ceil(1.0 / alpha - 1e-9)
        m = check_count(self.n_levels, "n_levels", most=1 << 20)
        if self.patch == "value" and 4.0 * m * m * alpha <= 1.0:
            raise ValueError(f"n_levels must be above 1/(2 sqrt(alpha)) = {0.5 / alpha**0.5:.4g}, got {m}")
        return m

    def _learn(self, raw: Rows, aside: Rows | None) -> None:
        plan = self._plan
        self.group_names_, self.n_groups_ = list(self._maker.names_), self._maker.n_groups_
        self.n_levels_ = plan.n_levels
        # how near to 0 and 1 forecasts may be, and how near answers may come that were not there before
        self._edge = self._least = 0.0
        if self.floor or plan.patch == "log-odds" or self.start not in ("none", "auto"):
            self._edge, least = nearest_ends(raw.p, float(raw.weights.sum()))
            self._least = least if self.floor else 0.0
        self._limit = max(self._edge, self._least)
        rows = raw._replace(p=self._inside(raw.p))
        # a row alone cannot be held out
        start: Start = "none" if plan.n_folds == 1 else plan.start
        number, self.held_out_ = 0, None
        if plan.n_folds > 1:
            searched = plan._replace(most=most_patches(rows, plan))
            start, number, self.held_out_ = choose(
                fold_parts(rows, plan.n_folds, self.seed), searched, self._limit
            )
        self.start_ = StartMap(start).fit(rows.p, rows.y, rows.weights)
        rows = rows._replace(p=self.start_(rows.p, self._limit))
        self.max_patches_ = most_patches(rows, plan)
        made = find(rows, plan._replace(most=number if plan.n_folds else self.max_patches_))
        keep = len(made)
        if aside is not None:
            aside = aside._replace(p=self.start_(self._inside(aside.p), self._limit))
            keep = int(np.argmin(watch(made, aside, plan)))
        self.history_, self.n_patches_, self.n_taken_back_ = made[:keep], keep, len(made) - keep
        after = rows._replace(p=self._patched(rows.p, rows.members))
        self.violations_before_, self.violations_ = self._violations(raw), self._violations(after)
        self.squared_error_before_ = float(np.average((raw.p - raw.y) ** 2, weights=raw.weights))
        self.squared_error_ = float(np.average((after.p - after.y) ** 2, weights=after.weights))

    def _violations(self, rows: Rows) -> Floats:
        """mu(g) K2(f, g) of every group, shape (G,)."""
        level = np.zeros(len(rows.p), np.int64)
        if self.target != "means":
            level, _, _ = level_sets(rows.p, self.n_levels_)
        return violations_of_levels(rows.p, rows.y, rows.members.view(np.bool_), level, rows.weights)

    def _inside(self, p: Floats) -> Floats:
        return np.clip(p, self._edge, 1.0 - self._edge) if self._edge else p

    def _patched(self, p: Floats, members: Bytes, n_patches: int | None = None) -> Floats:
        """Forecasts that the start has mapped, after so many patches."""
        after = replay(p, members, self.history_[:n_patches], self._plan)
        return away_from_ends(after, p, self._least) if self._least else after

    def predict(self, p: ArrayLike, groups: Any) -> Floats:
        """The recalibrated probabilities of other rows, shape (n,).

        p are the same predictor's, shape (n,); groups as in `fit`. Raises ValueError for bad p or groups, and
        NotFittedError before `fit`.
        """
        return self._patched(*self._started(p, groups))

    def staged_predict(
        self, p: ArrayLike, groups: Any, stops: Iterable[int] | None = None
    ) -> Iterator[Floats]:
        """The probabilities after the start and after each patch: n_patches_ + 1 arrays of shape (n,).

        `stops` names numbers of patches instead, each at most n_patches_. The rest is as in `predict`.
        """
        started, members = self._started(p, groups)
        for stop in range(self.n_patches_ + 1) if stops is None else stops:
            yield self._patched(started, members, check_count(stop, "stops", self.n_patches_, least=0))

    def _started(self, p: ArrayLike, groups: Any) -> tuple[Floats, Bytes]:
        check_same_index(p, groups, "p and groups")
        forecasts = event_column(p)
        members = self.members(groups, len(forecasts)).view(np.uint8)
        if self._columns is not None and column_names(p) not in (None, self._columns):
            raise ValueError(f"p must have the columns {self._columns} of fit, got {column_names(p)}")
        return self.start_(self._inside(forecasts), self._limit), members

    def members(self, groups: Any, n_rows: int) -> NDArray[np.bool_]:
        """Which of its groups each of `n_rows` rows is in, (n, G); groups and errors as in `predict`."""
        check_is_fitted(self, "history_")
        return self._maker.transform(groups, n_rows)

    def report(self, p: ArrayLike, y: ArrayLike, groups: Any) -> GroupRepair:
        """Group by group, how calibrated the probabilities p are and how calibrated `predict` makes them."""
        started, members = self._started(p, groups)
        forecasts, outcomes = event_rows(p, y)
        asked = members.view(np.bool_), self.n_levels_ or REPORT_LEVELS, self.group_names_
        tables = forecasts, self._patched(started, members)
        return GroupRepair(*(multicalibration_report(table, outcomes, *asked) for table in tables))
