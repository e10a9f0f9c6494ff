"""Kinds of patches, what they start from, and how many are made: held-out rows say when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from onlinecal.arrays import Bytes, Floats, Ints
from onlinecal.measures.scores import event_costs
from onlinecal.recalibration.classical.temperature import best_sigmoid, isotonic_curve
from onlinecal.recalibration.flooring import least_probability
from onlinecal.recalibration.groups.patches import (
    EXACT,
    FORECASTS,
    LOG_ODDS,
    Plan,
    Rows,
    Scale,
    Start,
    fit_moves,
    fit_steps,
    replay_moves,
    replay_steps,
)
from onlinecal.validation import check_number

Patch = Literal["log-odds", "value", "shift", "unrounded", "unrounded shift"]


class Kind(NamedTuple):
    """How patches are found, and how a history of them is replayed."""

    fit: Callable[[Rows, Rows | None, Plan], tuple[Any, Floats | None]]
    replay: Callable[[Floats, Bytes, Any, int], Floats]


def _steps_on(scale: Scale) -> Kind:
    return Kind(partial(fit_steps, scale=scale), partial(replay_steps, scale=scale))


VALUES = Kind(fit_moves, replay_moves)
KINDS: dict[Patch, Kind] = {
    "log-odds": _steps_on(LOG_ODDS),
    "value": VALUES,
    "shift": _steps_on(FORECASTS),
    "unrounded": VALUES,
    "unrounded shift": _steps_on(EXACT),
}


def default_levels(alpha: float) -> int:
    """m = ceil(1/alpha), with a hair's breadth for reciprocals that floating point misses."""
    return math.ceil(1.0 / alpha - 1e-9)


TRIED: tuple[Start, ...] = ("none", "temperature", "platt", "beta")
"""What "auto" chooses from."""

PRIOR = 1.0
"""How firmly coefficients are held where they change nothing: as by this many times (c - c_0)^2/2."""


class StartMap:
    """p -> the sigmoid of a linear function of ln p and ln(1 - p), or isotonic regression.

    Parameters
    ----------
    kind
        "temperature": the log odds are multiplied by a number; "platt": and another is added; "beta": ln p
        and -ln(1 - p) have factors of their own; "isotonic"; "none": p stays.

    Attributes
    ----------
    coefficients_
        Of ln p, of -ln(1 - p), and what is added; None for "isotonic" and "none".

    References
    ----------
    Platt (1999); Kull, Silva Filho and Flach (2017), "Beta calibration".

    """

    def __init__(self, kind: Start) -> None:
        self.kind = kind
        self.coefficients_: Floats | None = None
        self._curve: tuple[Floats, Floats] | None = None

    def fit(self, p: Floats, y: Any, weights: Floats) -> StartMap:
        """The map of the least log loss of forecasts inside (0, 1), shape (n,), with these weights."""
        if self.kind == "isotonic":
            curve = isotonic_curve().fit(p, y, sample_weight=weights)
            self._curve = np.asarray(curve.X_thresholds_), np.asarray(curve.y_thresholds_)
        elif self.kind != "none":
            # which coefficient each of the three is: of the log odds both logarithms have the same
            shared: dict[str, list[int]] = {"temperature": [0, 0, -1], "platt": [0, 0, 1], "beta": [0, 1, 2]}
            seen = np.column_stack([np.log(p), -np.log(1.0 - p), np.ones(len(p))])
            self.coefficients_ = best_sigmoid(seen, y, weights, np.array(shared[self.kind]), PRIOR)
        return self

    def __call__(self, p: Floats, edge: float) -> Floats:
        """The forecasts p, inside (0, 1), mapped: none nearer to 0 or 1 than `edge` or p itself."""
        if self._curve is not None:
            return away_from_ends(np.interp(p, *self._curve), p, edge)
        if self.coefficients_ is None:
            return p
        a, b, c = self.coefficients_
        return away_from_ends(expit(a * np.log(p) - b * np.log(1.0 - p) + c), p, edge)


def nearest_ends(p: Floats, n_rows: float) -> tuple[float, float]:
    """How near forecasts come to 0 and 1, `least` if none comes nearer; and least, 1/(2 (n + 1))."""
    least = least_probability(n_rows, 2)
    within = np.minimum(p, 1.0 - p)
    return float(within[within > 0.0].min(initial=least)), least


def away_from_ends(q: Floats, p: Floats, edge: float) -> Floats:
    """Answers q that are no nearer to 0 or 1 than `edge`, or than p where that is nearer."""
    return np.clip(q, np.minimum(p, edge), np.maximum(p, 1.0 - edge))


Halves = tuple[Rows, Rows]
"""What is fitted, and what is held out."""


MANY = 1_000_000
"""Of more rows than this one fold says enough."""


class Choice(NamedTuple):
    """What is fitted to all rows.

    Attributes
    ----------
    start
        The smooth map.
    n_patches
        How many patches at most.
    held_out
        Mean loss of the held-out rows by number of patches, from 0; None if none were held out.

    """

    start: Start
    n_patches: int
    held_out: Floats | None


def default_folds(n_rows: int) -> int:
    """Ten, and fewer where rows are many: each is a fit."""
    return 10 if n_rows < 5_000 else 5 if n_rows < 200_000 else 3


def numbered_folds(y: NDArray[Any], n_folds: int, seed: int) -> Ints:
    """A fold for each row, shape (n,), with as many rows of each outcome in each as can be."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), np.int64)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


def choose(parts: list[Halves], patch: Patch, plan: Plan, edge: float) -> Choice:
    """The start and the number of patches with the least loss of rows that were held out, fold by fold.

    Either is only taken where it lowers that loss by more than chance would have it; else nothing is done.
    The loss is log loss for starts and log-odds patches, and the squared error for the other patches. `edge`
    is how near to 0 and 1 a start may bring forecasts.
    """
    best, started = best_start(parts, plan.start, edge)
    fit, replay = KINDS[patch]
    histories, curves = [], []
    for inside, held in started:
        history, curve = fit(inside, held, plan)
        histories.append(history)
        curves.append(curve * held.weights.sum())
    length = max(map(len, curves))
    total = sum(np.concatenate([curve, np.full(length - len(curve), curve[-1])]) for curve in curves)
    number = int(np.argmin(total))
    m = plan.n_levels

    def losses_after(stop: int) -> Floats:
        after = [
            held._replace(p=replay(held.p, held.members, history[:stop], m))
            for history, (_, held) in zip(histories, started, strict=True)
        ]
        return _losses(after, patch)

    # each group may have too high forecasts, or too low ones
    tried = 2 * started[0][0].members.shape[1]
    if number and not lowers(losses_after(number), losses_after(0), patch, tried):
        number = 0
    counts = np.concatenate([held.weights for _, held in started])
    return Choice(best, number, np.asarray(total) / counts.sum())


def fold_parts(rows: Rows, n_folds: int, seed: int) -> list[Halves]:
    """Of each fold, of more than MANY rows of one, the rows outside, and those inside, which are held out."""
    fold = numbered_folds(rows.y, n_folds, seed)
    held_out = range(1 if len(rows.y) > MANY else n_folds)
    return [(rows.take(fold != k), rows.take(fold == k)) for k in held_out]


def best_start(parts: list[Halves], start: Start, edge: float) -> tuple[Start, list[Halves]]:
    """The start with the least held-out log loss, none unless that is lower; the parts, mapped by it."""
    kinds: Iterable[Start] = TRIED if start == "auto" else ("none", start)
    started = {kind: [_started(kind, *part, edge) for part in parts] for kind in dict.fromkeys(kinds)}
    losses = {kind: _losses([held for _, held in found], "log-odds") for kind, found in started.items()}
    best = min(losses, key=lambda kind: float(losses[kind].sum()))
    if not lowers(losses[best], losses["none"], "log-odds", len(losses)):
        best = "none"
    return best, started[best]


def lowers(losses: Floats, others: Floats, patch: Patch, tried: int) -> bool:
    """Whether losses of rows are below others of theirs by more than chance would have it.

    By more than a standard error, and than ln(tried): the likelihood of one out of so many that know nothing
    exceeds that of the others by this factor once in a while. A squared error is worth half a log loss.
    """
    gains = others - losses
    error = float(np.sqrt(np.sum((gains - gains.mean()) ** 2)))
    return float(gains.sum()) > max(error, math.log(tried) / (1.0 if patch == "log-odds" else 2.0))


def _started(kind: Start, inside: Rows, held: Rows, edge: float) -> tuple[Rows, Rows]:
    """Both parts, mapped by what the first of them says."""
    smooth = StartMap(kind).fit(inside.p, inside.y, inside.weights)
    return inside._replace(p=smooth(inside.p, edge)), held._replace(p=smooth(held.p, edge))


def _losses(parts: list[Rows], patch: Patch) -> Floats:
    """What each row loses, the parts one after the other."""
    return np.concatenate([row_losses(rows, patch) for rows in parts])


def row_losses(rows: Rows, patch: Patch) -> Floats:
    """What each row loses, times its weight: the log loss of log-odds patches, else the squared error."""
    if patch == "log-odds":
        return np.asarray(rows.weights * event_costs(rows.p, rows.y))
    return np.asarray(rows.weights * (rows.p - rows.y) ** 2)


def held_out_rows(n_rows: int, fraction: Any, seed: int) -> NDArray[np.bool_]:
    """True for a random share of the rows, shape (n_rows,); the others are at least one.

    Raises ValueError for a fraction outside [0, 1), or one that leaves no row to fit.
    """
    check_number(fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    number = round(fraction * n_rows)
    if number == n_rows:
        raise ValueError(f"validation_fraction={fraction} leaves none of {n_rows} rows")
    held = np.zeros(n_rows, bool)
    held[np.random.default_rng(seed).permutation(n_rows)[:number]] = True
    return held
