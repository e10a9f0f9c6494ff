"""Recalibrate forecasts inside groups, in scikit-learn's conventions: what is planned, and what is fitted."""

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
    STARTS,
    TARGET_SHARE,
    Plan,
    Rows,
    Start,
    most_shifts,
    most_unrounded_patches,
)
from onlinecal.recalibration.groups.start import (
    KINDS,
    Choice,
    Patch,
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
    repeats,
    row_weights,
)
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.tables.columns import check_same_index
from onlinecal.tables.frames import names_of
from onlinecal.validation import check_choice, check_count, check_number, check_share

Target = Literal["multicalibration", "means"]
TARGETS: tuple[Target, ...] = get_args(Target)

LEVELS = 10
"""Levels where held-out rows say when to stop."""
SHRINKAGE = 50.0
ALPHA, PLAIN_ALPHA = 0.001, 0.05
"""Without an alpha, where the patches are not log-odds patches; and where no folds are held out."""
MOST = 500
"""Log-odds patches that folds look at, and never more than half the rows."""


def plan_of(model: GroupRecalibrator, n_rows: float) -> Plan:
    """Check all parameters, and fill in those that are None."""
    model.seed = check_count(model.seed, "seed", least=0)
    check_choice(model.patch, tuple(KINDS), "patch")
    check_choice(model.target, TARGETS, "target")
    check_choice(model.start, STARTS, "start")
    check_number(model.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    folds = _folds(model, n_rows)
    by_logs = model.patch == "log-odds"
    alpha = 0.0 if by_logs and folds else ALPHA if folds else PLAIN_ALPHA
    alpha = alpha if model.alpha is None else check_share(model.alpha, "alpha")
    shrinkage = SHRINKAGE if folds and by_logs else 0.0
    if model.shrinkage is not None:
        shrinkage = check_number(
            model.shrinkage, "shrinkage", 0.0, math.inf, "[)", "a finite number of at least 0"
        )
        shrinkage *= by_logs
    start: Start = "none" if model.start == "auto" and not folds else model.start
    m = _levels(model, alpha, bool(folds))
    return Plan(m, alpha, bool(folds) or model.n_levels is not None, shrinkage, folds, start)


def _folds(model: GroupRecalibrator, n_rows: float) -> int:
    given = model.n_folds
    if given is not None and given != 0:
        if model.validation_fraction:
            raise ValueError(
                f"n_folds must be None or 0 with validation_fraction={model.validation_fraction}, "
                f"got {given!r}"
            )
        return check_count(given, "n_folds", least=2)
    if given is not None:
        check_count(given, "n_folds", least=0)
    return 0 if given == 0 or model.validation_fraction else default_folds(n_rows)


def _levels(model: GroupRecalibrator, alpha: float, has_folds: bool) -> int:
    given, patch = model.n_levels, model.patch
    if model.target == "means" and patch not in ("shift", "log-odds"):
        raise ValueError(f"patch must be 'shift' or 'log-odds' for the target 'means', got {patch!r}")
    for kind, words in (
        (model.target == "means", "target 'means'"),
        (patch.startswith("unrounded"), f"patch {patch!r}"),
    ):
        if kind:
            if given is not None:
                raise ValueError(f"n_levels must be None for the {words}, got {given!r}")
            return 0
    if given is None and has_folds:
        return max(LEVELS, math.ceil(alpha**-0.5)) if patch == "value" else LEVELS
    if given is None:
        return default_levels(alpha)
    m = check_count(given, "n_levels", most=1 << 20)
    if patch == "value" and 4.0 * m * m * alpha <= 1.0:
        raise ValueError(f"n_levels must be above 1/(2 sqrt(alpha)) = {0.5 / alpha**0.5:.4g}, got {m}")
    return m


def most_patches(model: GroupRecalibrator, plan: Plan, rows: Rows) -> int:
    """How many patches there can be at most, for any outcomes (unrounded, log-odds: for these rows)."""
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


def _most_log_odds(plan: Plan, rows: Rows) -> int:
    """The worst cell has a violation of at least 3/4 alpha/(m + 1), and saves a share of it."""
    total = float(rows.weights.sum())
    allowed = min(MOST, int(total / 2.0)) if plan.n_folds else math.inf
    if plan.alpha == 0.0:
        return int(allowed)
    least = TARGET_SHARE * plan.alpha / (plan.n_levels + 1)
    spread = 7.0 / 12.0 + plan.shrinkage / (least * total)
    loss = float((rows.weights * row_losses(rows, "log-odds")).sum()) / total
    return int(min(math.floor(2.0 * spread * loss / least), allowed))


def ends_of(model: GroupRecalibrator, rows: Rows) -> tuple[float, float]:
    """How near to 0 and 1 forecasts may be, and how near answers may come that were not there before."""
    if not model.floor and model.patch != "log-odds" and model.start in ("none", "auto"):
        return 0.0, 0.0
    edge, least = nearest_ends(rows.p, float(rows.weights.sum()))
    return edge, least if model.floor else 0.0


def merged(rows: Rows) -> Rows:
    """Rows that are equal, outcome and all, as one row with the sum of their weights."""
    same = same_rows(rows.p, rows.members, rows.y)
    first = first_rows(same)
    if len(first) == len(same):
        return rows
    return rows.take(first)._replace(weights=sums(same, rows.weights))


def violations(rows: Rows, n_levels: int | None, means: bool) -> Any:
    """mu(g) K2(f, g) of every group on weighted rows, shape (G,)."""
    level = np.zeros(len(rows.p), np.int64) if means else level_sets(rows.p, n_levels)[0]
    return violations_of_levels(rows.p, rows.y, rows.members.view(np.bool_), level, rows.weights)


REPORT_LEVELS = 20
"""Levels of the report when only means were the target."""


class GroupRecalibrator(BaseEstimator):
    """Recalibrate forecasts of one event until they are right inside each of many overlapping groups.

    A smooth map of the forecasts comes first, then patches: each adds a constant to the log odds of one level
    set inside one group, or of a whole group. Which map, and how many patches, is decided by rows that are
    held out, fold by fold; what does not lower their log loss by more than a standard error and what the best
    of so many candidates gains by chance is not done. So forecasts that are calibrated already mostly stay as
    they are: of draws of 100 to 3,000 rows in four groups one in eight moved them, by a mean square of about
    1/n for n rows. Those of too few rows stay, too.

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
        "unrounded": as "value" without a grid: the rows of one exact forecast inside a group take exactly
        their mean outcome. For forecasts of few values; where they hardly repeat, every row is a level set
        and what is learned is noise. A forecast that `fit` has not seen stays as it is.
        "unrounded shift": the same level sets, shifted in epochs as those of "shift".
    n_levels
        m. None: 10 (for value patches at least 1/sqrt(alpha)); without folds ceil(1/alpha). Value patches
        need m >= 1/(2 sqrt(alpha)), and with any m given here patch the cell that saves most squared error.
        None for unrounded patches.
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
        The patches in order, an array of shape (P,); see `onlinecal.recalibration.groups.start.PATCH`.
    n_patches_, max_patches_
        How many there are, and how many there can be at most.
    held_out_
        Mean loss of the held-out rows by number of patches, from 0: log loss for log-odds patches, else
        squared error. None without folds.
    n_levels_, n_groups_, group_names_
        m, 0 for the target "means" and for unrounded patches; the groups.
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
            None: each for one.

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
        weights = row_weights(sample_weight, len(forecasts), p, "p")
        maker = GroupMaker(self.min_mass, self.predicates)
        members = maker.fit(groups, len(forecasts), None if sample_weight is None else weights).view(np.uint8)
        warn_of(outcome_remarks(outcomes, forecasts, "y", "p"))
        # kernels that count take a row as often as its weight says
        if self.patch != "log-odds":
            repeats(weights, f"patch={self.patch!r}")
        rows = Rows(forecasts, outcomes, members, weights)
        rows = rows if (weights > 0.0).all() else rows.take(weights > 0.0)
        plan = plan_of(self, float(weights.sum()))
        if plan.n_folds or self.validation_fraction:
            rows = merged(rows)
        self._maker, self._columns = maker, names_of(p)
        fitted, aside = set_apart(rows, self.validation_fraction, self.seed)
        self._learn(fitted, None if aside is None else self._copied(aside), plan)
        return self

    def _copied(self, rows: Rows) -> Rows:
        return rows if self.patch == "log-odds" else copied_rows(rows)

    def _learn(self, raw: Rows, aside: Rows | None, plan: Plan) -> None:
        self.group_names_, self.n_groups_ = list(self._maker.names_), self._maker.n_groups_
        self.n_levels_ = plan.n_levels
        self._edge, self._least = ends_of(self, raw)
        self._limit = max(self._edge, self._least)
        rows = raw._replace(p=self._inside(raw.p))
        parts = fold_parts(rows, plan.n_folds, self.seed, self.patch != "log-odds") if plan.n_folds else []
        raw, rows = self._copied(raw), self._copied(rows)
        choice = Choice("none" if plan.n_folds else plan.start, 0, None)
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
        made, curve = KINDS[self.patch].fit(rows, aside, plan._replace(most=number))
        keep = len(made) if curve is None else int(np.argmin(curve))
        self.history_, self.n_patches_, self.n_taken_back_ = made[:keep], keep, len(made) - keep
        after = rows._replace(p=self._patched(rows.p, rows.members))
        asked = plan.n_levels or None, self.target == "means"
        self.violations_before_, self.violations_ = (violations(one, *asked) for one in (raw, after))
        self.squared_error_before_ = float(np.average((raw.p - raw.y) ** 2, weights=raw.weights))
        self.squared_error_ = float(np.average((after.p - after.y) ** 2, weights=after.weights))

    def _inside(self, p: Floats) -> Floats:
        return np.clip(p, self._edge, 1.0 - self._edge) if self._edge else p

    def _patched(self, p: Floats, members: Bytes, n_patches: int | None = None) -> Floats:
        """Forecasts that the start has mapped, after so many patches."""
        after = KINDS[self.patch].replay(p, members, self.history_[:n_patches], self.n_levels_)
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
        if self._columns is not None and names_of(p) not in (None, self._columns):
            raise ValueError(f"p must have the columns {self._columns} of fit, got {names_of(p)}")
        return self.start_(self._inside(forecasts), self._limit), members

    def members(self, groups: Any, n_rows: int) -> NDArray[np.bool_]:
        """Which of its groups each of `n_rows` rows is in, (n, G); groups and errors as in `predict`."""
        check_is_fitted(self, "history_")
        return self._maker.transform(groups, n_rows)

    def report(self, p: ArrayLike, y: ArrayLike, groups: Any) -> GroupRepair:
        """Group by group, how calibrated the probabilities p are and how calibrated `predict` makes them."""
        started, members = self._started(p, groups)
        m = self.n_levels_ or (REPORT_LEVELS if self.target == "means" else None)
        after = self._patched(started, members)
        return repair_of(*event_rows(p, y), after, members, m, self.group_names_)
