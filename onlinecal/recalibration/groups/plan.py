"""What a GroupRecalibrator's parameters amount to for the rows at hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.measures.groups import level_sets, violations_of_levels
from onlinecal.recalibration.groups.history import (
    KINDS,
    Patch,
    Rows,
    default_levels,
    most_shifts,
    squared_error,
)
from onlinecal.recalibration.groups.log_odds import most_unrounded_patches
from onlinecal.recalibration.groups.start import STARTS, Start, default_folds, nearest_ends, row_losses
from onlinecal.recalibration.groups.value import TARGET_SHARE
from onlinecal.recalibration.weights import repeats
from onlinecal.validation import check_choice, check_count, check_number, check_share

if TYPE_CHECKING:
    from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator

Target = Literal["multicalibration", "means"]
TARGETS: tuple[Target, ...] = get_args(Target)

LEVELS = 10
"""Levels where held-out rows say when to stop."""
SHRINKAGE = 50.0
ALPHA, PLAIN_ALPHA = 0.001, 0.05
"""Without an alpha, where the patches are not log-odds patches; and where no folds are held out."""
MOST = 500
"""Log-odds patches that folds look at, and never more than half the rows."""


class Plan(NamedTuple):
    """alpha (0: none), m, whether the cell that saves most is patched, shrinkage, folds, and the start."""

    alpha: float
    n_levels: int
    by_fall: bool
    shrinkage: float
    n_folds: int
    start: Start


def plan_of(model: GroupRecalibrator, n_rows: int) -> Plan:
    """Check all parameters, and fill in those that are None."""
    check_count(model.seed, "seed", least=0)
    check_choice(model.patch, tuple(KINDS), "patch")
    check_choice(model.target, TARGETS, "target")
    check_choice(model.start, STARTS, "start")
    check_number(model.validation_fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    folds = _folds(model, n_rows)
    by_logs = model.patch == "log-odds"
    alpha = 0.0 if by_logs and folds else ALPHA if folds else PLAIN_ALPHA
    alpha = alpha if model.alpha is None else check_share(model.alpha, "alpha")
    shrinkage = SHRINKAGE if folds else 0.0
    if model.shrinkage is not None:
        shrinkage = check_number(
            model.shrinkage, "shrinkage", 0.0, math.inf, "[)", "a finite number of at least 0"
        )
    start: Start = "none" if model.start == "auto" and not folds else model.start
    m = _levels(model, alpha, bool(folds))
    return Plan(alpha, m, bool(folds) or model.n_levels is not None, shrinkage, folds, start)


def _folds(model: GroupRecalibrator, n_rows: int) -> int:
    given = model.n_folds
    if given is not None and given != 0:
        if model.validation_fraction:
            raise ValueError(
                f"n_folds must be None or 0 with validation_fraction={model.validation_fraction}, "
                f"got {given!r}"
            )
        return min(check_count(given, "n_folds", least=2), n_rows)
    if given is not None:
        check_count(given, "n_folds", least=0)
    return 0 if given == 0 or model.validation_fraction else min(default_folds(n_rows), n_rows)


def _levels(model: GroupRecalibrator, alpha: float, has_folds: bool) -> int:
    given, patch = model.n_levels, model.patch
    if model.target == "means" and patch not in ("shift", "log-odds"):
        raise ValueError(f"patch must be 'shift' or 'log-odds' for the target 'means', got {patch!r}")
    for kind, words in (
        (model.target == "means", "target 'means'"),
        (patch == "unrounded", "patch 'unrounded'"),
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
        return most_unrounded_patches(rows.p, squared_error(rows.p, rows.y), alpha)
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
    loss = float(row_losses(rows, "log-odds").sum()) / total
    return int(min(math.floor(2.0 * spread * loss / least), allowed))


def ends_of(model: GroupRecalibrator, rows: Rows) -> tuple[float, float]:
    """How near to 0 and 1 forecasts may be, and how near answers may come that were not there before."""
    if not model.floor and model.patch != "log-odds" and model.start in ("none", "auto"):
        return 0.0, 0.0
    edge, least = nearest_ends(rows.p, float(rows.weights.sum()))
    return edge, least if model.floor else 0.0


def weighted(rows: Rows, weights: Floats, patch: Patch) -> Rows:
    """Rows with these weights; kernels that count take each as often as its weight says."""
    if patch != "log-odds":
        return rows.take(np.repeat(np.arange(len(weights)), repeats(weights, f"patch={patch!r}")))
    return rows._replace(weights=weights).take(weights > 0.0)


def violations(rows: Rows, n_levels: int | None, means: bool) -> Any:
    """mu(g) K2(f, g) of every group on weighted rows, shape (G,)."""
    if means:
        level, order, starts = (
            np.zeros(len(rows.p), np.int64),
            np.arange(len(rows.p)),
            np.array([0, len(rows.p)]),
        )
    else:
        level, order, starts = level_sets(rows.p, n_levels)
    if (rows.weights == 1.0).all():
        return violations_of_levels(rows.p, rows.y, rows.members.view(np.bool_), order, starts)
    found = []
    for inside in rows.members.T == 1:
        mass = np.bincount(level[inside], rows.weights[inside])
        bias = np.bincount(level[inside], (rows.weights * (rows.p - rows.y))[inside])
        found.append(float(np.sum(bias**2 / np.where(mass > 0.0, mass, 1.0))))
    return np.array(found) / rows.weights.sum()
