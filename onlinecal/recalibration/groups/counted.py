"""Fits of groups to numbers of rows: those with the same forecast, groups and outcome are only counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.recalibration.groups.history import Rows
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.groups.plan import plan_of
from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
from onlinecal.validation import check_outcomes, check_probabilities


def fit_counts(model: GroupRecalibrator, p: Any, y: Any, groups: Any, counts: NDArray[np.int64]) -> None:
    """`fit` to rows that stand for `counts` (n,) equal ones each; the model has no validation_fraction.

    Without folds the same as a fit to all of these rows, but for the order of sums. Folds deal out the rows
    that are counted together one by one, so a cell is never held out as a whole. Patches other than log-odds
    count rows themselves: for those the rows are made again, 9 bytes and one for each group.
    """
    forecasts, outcomes = check_probabilities(p, "p"), check_outcomes(y, "y")
    maker = GroupMaker(model.min_mass, model.predicates)
    members = maker.fit(groups, len(forecasts), counts.astype(np.float64)).view(np.uint8)
    counted = model.patch == "log-odds"
    rows = Rows(forecasts, outcomes, members, counts.astype(np.float64))
    if not counted:
        rows = rows._replace(weights=np.ones(len(counts))).take(np.repeat(np.arange(len(counts)), counts))
    plan = plan_of(model, int(counts.sum()))
    model._maker = maker
    model._learn(rows, None, plan, counted)
