"""A fixed predictor's probabilities, made calibrated inside every one of many overlapping groups."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onlinecal.measures.groups.multicalibration import level_sets, violations_of_levels
from onlinecal.measures.groups.report import multicalibration_report
from onlinecal.recalibration.groups.held_out import held_out_rows
from onlinecal.recalibration.groups.history import KINDS, Patch, default_levels, most_shifts, squared_error
from onlinecal.recalibration.groups.maker import GroupMaker, Predicates
from onlinecal.recalibration.groups.repair import GroupRepair
from onlinecal.recalibration.groups.unrounded import most_unrounded_patches
from onlinecal.remarks import outcome_remarks, warn_of
from onlinecal.validation import (
    check_choice,
    check_count,
    check_outcomes,
    check_probabilities,
    check_same_length,
    check_share,
)

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

Target = Literal["multicalibration", "means"]
TARGETS: tuple[Target, ...] = get_args(Target)
REPORT_LEVELS = 20
"""Levels of the report when only means were the target."""


class GroupRecalibrator(BaseEstimator):
    """Round-multicalibrate: patch the worst level set of the worst group until all groups are calibrated.

    Forecasts are rounded to the grid 0, 1/m, ..., 1. While some group g has mu(g) K2(f, g) > alpha, the cell
    (level v, group g) with the largest mu(v, g) (v - E[y | v, g])^2 is patched. Every patch lowers the mean
    squared error on the rows of `fit` by at least alpha^2/4 (under the default grid), so there are at most
    4/alpha^2 of them, and afterwards the predictor is alpha-multicalibrated on these rows.

    0 and 1 are among the forecasts, and an outcome may contradict them: clip them before a log loss. A floor
    would take the forecasts off the grid on which the guarantee is proved.

    Parameters
    ----------
    alpha
        The violation mu(g) K2(f, g) that may remain in any group, in (0, 1]. A squared bias: alpha = 0.01
        still lets everyone be wrong by 0.1; small groups need a smaller alpha (0.02 * 0.1^2 = 0.0002).
    patch
        "value": the cell's rows move to the grid point nearest to their mean outcome.
        "shift": the difference is added to their forecasts, which keeps what the predictor knew inside the
        cell; levels then are the forecasts that round to the same grid point, compared by their means.
        Shifts of one epoch may be added in any order. Usually better on fresh data.
        "unrounded": as "value" without a grid: the rows of one exact forecast inside a group take exactly
        their mean outcome. For forecasts of few values; where they hardly repeat, every row is a level set
        and what is learned is noise. A forecast that `fit` has not seen stays as it is.
    n_levels
        m; ceil(1/alpha) by default. Value patches need m >= 1/(2 sqrt(alpha)), and with any m given here
        patch the cell that saves most squared error. m = ceil(1/sqrt(alpha)) does with fewer, better
        filled level sets: prefer it with small alpha. None for unrounded patches.
    target
        "multicalibration", or "means": only the mean forecast of each group is made right, to
        mu(g) (E[f | g] - E[y | g])^2 <= alpha. For means, patch must be "shift": overlapping groups can undo
        each other's values for ever.
    predicates
        Functions, or names and functions: each turns the `groups` of fit and predict (then any table) into
        one boolean a row.
    min_mass
        Groups made of categories need at least this share of the rows, in (0, 1].
    validation_fraction
        Share of the rows to hold out, in [0, 1): patches are made on the others, and those after the lowest
        squared error on the held-out rows are taken back. What was fitted may then violate alpha.
    seed
        Chooses the held-out rows.

    Attributes
    ----------
    history_
        The patches in their order, a structured array of shape (P,); see
        `onlinecal.recalibration.groups.history.PATCH`.
    n_patches_, max_patches_
        How many there are, and how many there can be at most.
    n_levels_
        m; 0 for the target "means" and for unrounded patches.
    n_groups_, group_names_
        The groups.
    violations_before_, violations_
        mu(g) K2(f, g) on the rows that were fitted, before and after; shape (G,).
    squared_error_before_, squared_error_
        Mean squared error on these rows, of the forecasts as they came and afterwards.
    n_taken_back_
        Patches that the held-out rows spoke against.

    Examples
    --------
    A forecaster that is right on average, and wrong in each of two groups:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> left = rng.random(10_000) < 0.5
    >>> truth = np.where(left, 0.3, 0.7)
    >>> y, p = rng.random(10_000) < truth, np.full(10_000, 0.5)
    >>> groups = np.column_stack([left, ~left])
    >>> GroupRecalibrator(alpha=0.01).fit(p, y, groups).predict([0.5, 0.5], [[1, 0], [0, 1]]).round(1)
    array([0.3, 0.7])

    References
    ----------
    Lecture notes on multigroup calibration; Hebert-Johnson, Kim, Reingold and Rothblum (2018). Proofs are in
    docs/recalibrate-groups.md.
    """

    def __init__(
        self,
        alpha: float = 0.05,
        patch: Patch = "value",
        n_levels: int | None = None,
        target: Target = "multicalibration",
        predicates: Predicates = None,
        min_mass: float = 0.02,
        validation_fraction: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.alpha = alpha
        self.patch = patch
        self.n_levels = n_levels
        self.target = target
        self.predicates = predicates
        self.min_mass = min_mass
        self.validation_fraction = validation_fraction
        self.seed = seed

    def fit(self, p: ArrayLike, y: ArrayLike, groups: Any) -> GroupRecalibrator:
        """Learn the patches.

        Parameters
        ----------
        p
            The predictor's probabilities, shape (n,).
        y
            Outcomes, 0/1 or boolean, shape (n,).
        groups
            A boolean matrix (n, G), a data frame of categories (all one-way and two-way groups with enough
            mass), or any table when there are predicates.

        Raises
        ------
        ValueError
            A bad parameter, bad p, y or groups: names the argument and the value.

        Warns
        -----
        LabelWarning
            y is always the same, or p is on the wrong side of 1/2 more often than by chance.
        """
        m = self._check_parameters()
        forecasts, outcomes = check_probabilities(p, "p"), check_outcomes(y, "y")
        check_same_length(forecasts, outcomes, "p and y")
        warn_of(outcome_remarks(outcomes, forecasts, "y", "p"))
        maker = GroupMaker(self.min_mass, self.predicates)
        members = maker.fit(groups, len(forecasts)).view(np.uint8)
        held = held_out_rows(len(forecasts), self.validation_fraction, self.seed)
        kept = ~held if held.any() else slice(None)
        fitted = forecasts[kept], outcomes[kept], members[kept]
        aside = (forecasts[held], outcomes[held], members[held]) if held.any() else None
        self._maker = maker
        self.group_names_, self.n_groups_, self.n_levels_ = list(maker.names_), maker.n_groups_, m
        steps, compiled, _ = KINDS[self.patch]
        if self.patch == "unrounded":
            error = squared_error(fitted[0], fitted[1])
            self.max_patches_ = most_unrounded_patches(fitted[0], error, self.alpha)
        made, curve = steps(fitted, aside, m, self.alpha, self.n_levels is not None, self.max_patches_)
        keep = len(made) if curve is None else int(np.argmin(curve))
        self.n_taken_back_ = len(made) - keep
        self.history_, self.n_patches_ = made[:keep], keep
        self._replayed: tuple[Any, ...] = compiled(self.history_, m)
        after = self._replay(fitted[0], fitted[2])
        self.violations_before_ = self._violations(*fitted)
        self.violations_ = self._violations(after, *fitted[1:])
        self.squared_error_before_ = squared_error(fitted[0], fitted[1])
        self.squared_error_ = squared_error(after, fitted[1])
        return self

    def predict(self, p: ArrayLike, groups: Any) -> Floats:
        """The patched probabilities of other rows, shape (n,).

        Parameters
        ----------
        p
            The same predictor's probabilities, shape (n,).
        groups
            Their groups, as in `fit`.

        Raises
        ------
        ValueError
            Bad p or groups. NotFittedError before `fit`.

        """
        check_is_fitted(self, "history_")
        forecasts = check_probabilities(p, "p")
        return self._replay(forecasts, self._maker.transform(groups, len(forecasts)).view(np.uint8))

    def report(self, p: ArrayLike, y: ArrayLike, groups: Any) -> GroupRepair:
        """Group by group, how calibrated the probabilities p are and how calibrated `predict` makes them."""
        check_is_fitted(self, "history_")
        forecasts = check_probabilities(p, "p")
        members = self._maker.transform(groups, len(forecasts))
        after = self._replay(forecasts, members.view(np.uint8))
        m = self.n_levels_ or (REPORT_LEVELS if self.target == "means" else None)
        return GroupRepair(
            multicalibration_report(forecasts, y, members, m, self.group_names_),
            multicalibration_report(after, y, members, m, self.group_names_),
        )

    def _check_parameters(self) -> int:
        alpha = check_share(self.alpha, "alpha")
        check_choice(self.patch, tuple(KINDS), "patch")
        check_choice(self.target, TARGETS, "target")
        if self.target == "means":
            if self.patch != "shift":
                raise ValueError(f"patch must be 'shift' for the target 'means', got {self.patch!r}")
            if self.n_levels is not None:
                raise ValueError(f"n_levels must be None for the target 'means', got {self.n_levels!r}")
            self.max_patches_ = most_shifts(alpha, 0)
            return 0
        given = self.n_levels
        if self.patch == "unrounded":
            if given is not None:
                raise ValueError(f"n_levels must be None for the patch 'unrounded', got {given!r}")
            return 0
        m = default_levels(alpha) if given is None else check_count(given, "n_levels", most=1 << 20)
        if self.patch == "shift":
            self.max_patches_ = most_shifts(alpha, m)
        elif given is None:
            self.max_patches_ = math.floor(4.0 / alpha**2)
        elif 4.0 * m * m * alpha > 1.0:
            self.max_patches_ = math.floor((m + 1) / (alpha - 0.25 / m**2))
        else:
            raise ValueError(f"n_levels must be above 1/(2 sqrt(alpha)) = {0.5 / alpha**0.5:.4g}, got {m}")
        return m

    def _replay(self, p: Floats, members: Bytes) -> Floats:
        return KINDS[self.patch][2](p, members, self._replayed, self.n_levels_)

    def _violations(self, p: Floats, y: Bytes, members: Bytes) -> Floats:
        if self.target == "means":
            order, starts = np.arange(len(p)), np.array([0, len(p)])
        else:
            _, order, starts = level_sets(p, self.n_levels_ or None)
        return violations_of_levels(p, y, members.view(np.bool_), order, starts)
