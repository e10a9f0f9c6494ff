"""The rounds of boosting: every level set has a regressor of its own, whose answers are the next levels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.groups.multicalibration import grid_level

Models = dict[int, Any]
"""The fitted regressor of each level set that was large enough."""


class BoostingRound(NamedTuple):
    """One round of the history.

    Attributes
    ----------
    squared_error
        Mean squared error on the rows of `fit` after the round; round 0 is the rounded initial predictor.
    n_level_sets
        How many level sets the round found.
    n_skipped, skipped_mass
        Level sets that were too small for the regressor and kept their value, and their share of the rows.
    validation_error
        Mean squared error on the held-out rows after the round; NaN when none are held out.

    """

    squared_error: float
    n_level_sets: int
    n_skipped: int
    skipped_mass: float
    validation_error: float


def boost(
    regressor: Any,
    X: Any,
    y: Floats,
    level: Ints,
    held: NDArray[np.bool_],
    m: int,
    min_rows: int,
    least: float,
) -> tuple[list[BoostingRound], list[Models]]:
    """Play rounds until one lowers the mean squared error by less than `least`.

    X, outcomes y (n,) and levels (n,) are those of all rows; the rows `held` are only watched. All rounds
    that were tried, and the models of those that gained enough, which is all but the last.
    """
    some = bool(held.any())
    inside, outside = np.flatnonzero(~held), np.flatnonzero(held)
    rows, aside = (_safe_indexing(X, inside), _safe_indexing(X, outside)) if some else (X, None)
    level, watched, y_in, y_held = level[~held], level[held], y[~held], y[held]
    rounds = [BoostingRound(_error(level, m, y_in), 0, 0, 0.0, _error(watched, m, y_held))]
    made: list[Models] = []
    while True:
        models, after, skipped, mass = _fit(regressor, rows, y_in, level, m, min_rows)
        if some:
            watched = play(models, aside, watched, m)
        errors = _error(after, m, y_in), _error(watched, m, y_held)
        rounds.append(BoostingRound(errors[0], len(np.unique(level)), skipped, mass, errors[1]))
        if rounds[-2].squared_error - errors[0] < least:
            return rounds, made
        made.append(models)
        level = after


def play(models: Models, X: Any, level: Ints, m: int) -> Ints:
    """The levels after a round: rows at a level without a model stay there."""
    after = level.copy()
    for i, rows in _level_sets(level):
        if i in models:
            after[rows] = _answer(models[i], _safe_indexing(X, rows), m)
    return after


def _fit(
    regressor: Any, X: Any, y: Floats, level: Ints, m: int, min_rows: int
) -> tuple[Models, Ints, int, float]:
    """Fit every level set: the models, the new levels, what was skipped."""
    models: Models = {}
    after, skipped, rows_skipped = level.copy(), 0, 0
    for i, rows in _level_sets(level):
        if len(rows) < min_rows:
            skipped, rows_skipped = skipped + 1, rows_skipped + len(rows)
            continue
        part = _safe_indexing(X, rows)
        models[i] = clone(regressor).fit(part, y[rows])
        after[rows] = _answer(models[i], part, m)
    return models, after, skipped, rows_skipped / len(y)


def _level_sets(level: Ints) -> Iterator[tuple[int, Ints]]:
    """Each level in use and its rows."""
    order = np.argsort(level, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(level[order])) + 1):
        yield int(level[rows[0]]), rows


def _answer(model: Any, X: Any, m: int) -> Ints:
    """A model's answers, clipped and rounded to levels."""
    answers = np.asarray(model.predict(X), dtype=np.float64).reshape(-1)
    if not np.isfinite(answers).all():
        raise ValueError(f"regressor must answer finite numbers, got {answers[~np.isfinite(answers)][0]}")
    return grid_level(np.clip(answers, 0.0, 1.0), m)


def _error(level: Ints, m: int, y: Floats) -> float:
    """Mean squared error; NaN without rows."""
    return float(np.mean((level / m - y) ** 2)) if len(y) else math.nan
