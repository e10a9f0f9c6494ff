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
from onlinecal.recalibration.folds import (
    DIGITS,
    Dealt,
    SampleSizeWarning,
    deal,
    few_remarks,
    same_rows,
    set_aside,
    standard_error,
    sums,
)
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
from onlinecal.recalibration.probability_recalibrator import repeats
from onlinecal.remarks import warn_of
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


NEAREST = 2.0**-53
"""Of a forecast nearer to 0, as 1e-185, the other side would be 1, whose log odds are infinite."""


def nearest_ends(p: Floats, n_rows: float) -> tuple[float, float]:
    """How near forecasts come to 0 and 1, `least` if none comes nearer; and least, 1/(2 (n + 1))."""
    least = least_probability(n_rows, 2)
    within = np.minimum(p, 1.0 - p)
    return max(float(within[within > 0.0].min(initial=least)), NEAREST), least


def away_from_ends(q: Floats, p: Floats, edge: float) -> Floats:
    """Answers q that are no nearer to 0 or 1 than `edge`, or than p where that is nearer."""
    return np.clip(q, np.minimum(p, edge), np.maximum(p, 1.0 - edge))


class Halves(NamedTuple):
    """What is fitted, and what is held out; of the latter the blocks, as of `Dealt`."""

    inside: Rows
    held: Rows
    blocks: Floats


OTHERWISE = "what is learnt of one is hardly seen in another, so that next to nothing is changed"
"""What happens to fewer different rows than two a fold."""
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


def default_folds(n_rows: float) -> int:
    """Ten, and fewer where rows are many: each is a fit."""
    return 10 if n_rows < 5_000 else 5 if n_rows < 200_000 else 3


def dealt_rows(sets: Ints, y: NDArray[Any], weights: Floats, n_folds: int, seed: int) -> Dealt | None:
    """Rows dealt to folds with as many of each outcome in each as can be; None if there are no two folds.

    Rows that are dealt whole have no more folds than there are different ones.
    """

    def numbering(sets: Ints, first: Ints) -> Ints:
        outcomes = y if len(first) == len(y) else np.bincount(sets, weights * y) / np.bincount(sets, weights)
        return numbered_folds(outcomes, min(n_folds, len(first)), seed)

    dealt = deal(sets, y, weights, n_folds, numbering, [seed, 2])
    warn_of(few_remarks(dealt, n_folds, OTHERWISE), SampleSizeWarning)
    # a row alone cannot be held out
    return None if dealt.n_folds < 2 else dealt


def numbered_folds(y: NDArray[Any], n_folds: int, seed: int) -> Ints:
    """A fold for each of the different rows, (n,), with as many of each outcome in each as can be."""
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
    for inside, held, _ in started:
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
            for history, (_, held, _) in zip(histories, started, strict=True)
        ]
        return _losses(after, patch)

    counts, blocks = _counts(started)

    # each group may have too high forecasts, or too low ones
    tried = 2 * started[0].inside.members.shape[1]
    if number and not lowers(losses_after(0) - losses_after(number), counts, blocks, patch, tried):
        number = 0
    return Choice(best, number, np.asarray(total) / counts.sum())


def fold_parts(rows: Rows, n_folds: int, seed: int, copied: bool = False) -> list[Halves]:
    """Of each fold, of more than MANY rows of one, the rows outside, and those inside, which are held out.

    If they are to be copied, rows of weight w are w rows. No parts if there are no two folds.
    """
    sets = same_rows(rows.p, rows.members, digits=DIGITS)
    if (dealt := dealt_rows(sets, rows.y, rows.weights, n_folds, seed)) is None:
        return []
    whole, blocks, fold = rows.take(dealt.rows)._replace(weights=dealt.weights), dealt.blocks, dealt.fold
    if copied:
        copies = np.repeat(np.arange(len(fold)), repeats(whole.weights, "copies"))
        whole, blocks, fold = copied_rows(whole), blocks[copies], fold[copies]
    held_out = range(1 if len(rows.y) > MANY else int(fold.max()) + 1)
    return [Halves(whole.take(fold != k), whole.take(fold == k), blocks[fold == k]) for k in held_out]


def copied_rows(rows: Rows) -> Rows:
    """A row of weight w as w rows, for kernels that count rows."""
    if (rows.weights == 1.0).all():
        return rows
    copies = np.repeat(np.arange(len(rows.p)), repeats(rows.weights, "copies"))
    return rows.take(copies)._replace(weights=np.ones(len(copies)))


def set_apart(rows: Rows, fraction: float, seed: int) -> tuple[Rows, Rows | None]:
    """The rows to fit, and those that `validation_fraction` holds out, if it does."""
    if not fraction:
        return rows, None
    dealt = aside(same_rows(rows.p, rows.members, digits=DIGITS), rows.y, rows.weights, fraction, seed)
    whole = rows.take(dealt.rows)._replace(weights=dealt.weights)
    held = dealt.fold == 1
    return whole.take(~held), whole.take(held) if held.any() else None


def aside(sets: Ints, y: NDArray[Any], weights: Floats, fraction: float, seed: int) -> Dealt:
    """Rows in two folds, of which the second, with about this share of them, is held out."""

    def numbering(sets: Ints, first: Ints) -> Ints:
        return held_out_sets(sums(sets, weights), fraction, seed).astype(np.int64)

    return set_aside(sets, y, weights, fraction, numbering, seed)


def best_start(parts: list[Halves], start: Start, edge: float) -> tuple[Start, list[Halves]]:
    """The start with the least held-out log loss, none unless that is lower; the parts, mapped by it."""
    kinds: Iterable[Start] = TRIED if start == "auto" else ("none", start)
    started = {kind: [_started(kind, part, edge) for part in parts] for kind in dict.fromkeys(kinds)}
    losses = {kind: _losses([part.held for part in found], "log-odds") for kind, found in started.items()}
    counts, blocks = _counts(parts)
    best = min(losses, key=lambda kind: float((losses[kind] * counts).sum()))
    if not lowers(losses["none"] - losses[best], counts, blocks, "log-odds", len(losses)):
        best = "none"
    return best, started[best]


def lowers(gains: Floats, weights: Floats, blocks: Floats, patch: Patch, tried: int) -> bool:
    """Whether what rows gain, (n,), with these weights and blocks (n,), is more than chance would have it.

    More than a standard error in all, and than ln(tried): the likelihood of one out of so many that know
    nothing exceeds that of the others by this factor once in a while. A squared error is worth half a log
    loss. Of rows that were dealt whole, so many at a time, all are one observation.
    """
    total, rows = float((gains * weights).sum()), float(weights.sum())
    error = rows * float(standard_error(gains - total / rows, weights, blocks))
    at_once = float((weights * blocks).sum()) / rows
    return total > max(error, at_once * math.log(tried) / (1.0 if patch == "log-odds" else 2.0))


def _started(kind: Start, part: Halves, edge: float) -> Halves:
    """Both parts, mapped by what the first of them says."""
    inside, held, blocks = part
    smooth = StartMap(kind).fit(inside.p, inside.y, inside.weights)
    mapped = inside._replace(p=smooth(inside.p, edge)), held._replace(p=smooth(held.p, edge))
    return Halves(*mapped, blocks)


def _counts(parts: list[Halves]) -> tuple[Floats, Floats]:
    """Weights and blocks of what is held out, the parts one after the other."""
    return (
        np.concatenate([part.held.weights for part in parts]),
        np.concatenate([part.blocks for part in parts]),
    )


def _losses(parts: list[Rows], patch: Patch) -> Floats:
    """What each row loses, the parts one after the other."""
    return np.concatenate([row_losses(rows, patch) for rows in parts])


def row_losses(rows: Rows, patch: Patch) -> Floats:
    """What each row loses: the log loss of log-odds patches, else the squared error."""
    return np.asarray(event_costs(rows.p, rows.y) if patch == "log-odds" else (rows.p - rows.y) ** 2)


def held_out_sets(sizes: Floats, fraction: Any, seed: int) -> NDArray[np.bool_]:
    """True for random sets of these sizes, (S,), which have about this share of all; the others are some.

    Raises ValueError for a fraction outside [0, 1), or one that leaves no row to fit.
    """
    check_number(fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    order = np.random.default_rng(seed).permutation(len(sizes))
    reached = np.concatenate([[0.0], np.cumsum(sizes[order])])
    number = int(np.abs(reached - fraction * reached[-1]).argmin())
    if number == len(sizes):
        raise ValueError(f"validation_fraction={fraction} leaves none of {number} different rows")
    held = np.zeros(len(sizes), bool)
    held[order[:number]] = True
    return held
