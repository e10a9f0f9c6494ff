"""How many patches, and from which start: what held-out rows say.

Which rows are held out to say when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.recalibration.groups.history import KINDS, Patch, Rows, Search
from onlinecal.recalibration.groups.start import TRIED, Start, StartMap, log_losses
from onlinecal.validation import check_number

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


def choose(parts: list[Halves], patch: Patch, start: Start, search: Search, edge: float) -> Choice:
    """The start and the number of patches with the least loss of rows that were held out, fold by fold.

    Either is only taken where it lowers that loss by more than chance would have it; else nothing is done.
    The loss is log loss for starts and log-odds patches, and the squared error for the other patches. `edge`
    is how near to 0 and 1 a start may bring forecasts.
    """
    best, started = best_start(parts, start, edge)
    fit, compiled_by, replay = KINDS[patch]
    histories, curves = [], []
    for inside, held in started:
        history, curve = fit(inside, held, search)
        histories.append(history)
        curves.append(curve * held.weights.sum())
    length = max(map(len, curves))
    total = sum(np.concatenate([curve, np.full(length - len(curve), curve[-1])]) for curve in curves)
    number = int(np.argmin(total))
    m = search.n_levels

    def losses_after(stop: int) -> Floats:
        after = [
            held._replace(p=replay(held.p, held.members, compiled_by(history[:stop], m), m))
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
        return np.asarray(rows.weights * log_losses(rows.p, rows.y))
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
