"""Chooses the map that patches start from, and how many patches are made: held-out rows decide both.

Every choice has to lower the loss of held-out rows by more than chance explains; else nothing is changed.

Nothing here has a state but `StartMap`, which `fit` alone writes. While something is chosen, held-out rows
decide and are not fitted; what was chosen is then fitted to all rows, by who calls. The start is chosen
first, and the number of patches with it. Candidates are tried in the order of AUTO_STARTS, and of equal ones
the first is taken.
"""

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
    EXACT_SCALE,
    FORECAST_SCALE,
    LOG_ODDS_SCALE,
    EventRows,
    EventStart,
    PatchPlan,
    StepScale,
    fit_moves,
    fit_steps,
    replay_moves,
    replay_steps,
)
from onlinecal.recalibration.probability_recalibrator import repeats
from onlinecal.remarks import warn_of
from onlinecal.validation import check_number

Patch = Literal["log-odds", "value", "shift", "unrounded", "unrounded shift"]


class PatchKind(NamedTuple):
    """The functions that find patches of a kind, and replay a history of them."""

    fit: Callable[[EventRows, EventRows | None, PatchPlan], tuple[Any, Floats | None]]
    replay: Callable[[Floats, Bytes, Any, int], Floats]


def _steps_on(scale: StepScale) -> PatchKind:
    return PatchKind(partial(fit_steps, scale=scale), partial(replay_steps, scale=scale))


VALUE_PATCHES = PatchKind(fit_moves, replay_moves)
PATCH_KINDS: dict[Patch, PatchKind] = {
    "log-odds": _steps_on(LOG_ODDS_SCALE),
    "value": VALUE_PATCHES,
    "shift": _steps_on(FORECAST_SCALE),
    "unrounded": VALUE_PATCHES,
    "unrounded shift": _steps_on(EXACT_SCALE),
}


def default_levels(alpha: float) -> int:
    """m = ceil(1/alpha), less a tiny amount for reciprocals that floating point rounds up."""
    return math.ceil(1.0 / alpha - 1e-9)


AUTO_STARTS: tuple[EventStart, ...] = ("none", "temperature", "platt", "beta")
"""The starts that "auto" tries."""

IDENTITY_PULL = 1.0
"""Coefficients c are pulled to those of the identity, c_0: this many times (c - c_0)^2/2 is added to the
loss."""


class StartMap:
    """Maps p to the sigmoid of a linear function of ln p and ln(1 - p), or by isotonic regression.

    Parameters
    ----------
    kind
        "temperature": the log odds are multiplied by a number. "platt": another number is added to them.
        "beta": ln p and -ln(1 - p) have factors of their own. "isotonic": isotonic regression. "none": p
        stays.

    Attributes
    ----------
    coefficients_
        The factors of ln p and of -ln(1 - p), and the number that is added; None for "isotonic" and "none".

    References
    ----------
    Platt (1999); Kull, Silva Filho and Flach (2017), "Beta calibration".

    """

    def __init__(self, kind: EventStart) -> None:
        self.kind = kind
        self.coefficients_: Floats | None = None
        self._curve: tuple[Floats, Floats] | None = None

    def fit(self, p: Floats, y: Any, weights: Floats) -> StartMap:
        """The map of the least log loss of forecasts inside (0, 1), shape (n,), with these weights."""
        if self.kind == "isotonic":
            curve = isotonic_curve().fit(p, y, sample_weight=weights)
            self._curve = np.asarray(curve.X_thresholds_), np.asarray(curve.y_thresholds_)
        elif self.kind != "none":
            # the number of each coefficient's unknown: for log odds both logarithms have the same one
            shared: dict[str, list[int]] = {"temperature": [0, 0, -1], "platt": [0, 0, 1], "beta": [0, 1, 2]}
            inputs = np.column_stack([np.log(p), -np.log(1.0 - p), np.ones(len(p))])
            self.coefficients_ = best_sigmoid(inputs, y, weights, np.array(shared[self.kind]), IDENTITY_PULL)
        return self

    def __call__(self, p: Floats, edge: float) -> Floats:
        """The mapped forecasts, for p inside (0, 1), clipped by `away_from_ends`."""
        if self._curve is not None:
            return away_from_ends(np.interp(p, *self._curve), p, edge)
        if self.coefficients_ is None:
            return p
        a, b, c = self.coefficients_
        return away_from_ends(expit(a * np.log(p) - b * np.log(1.0 - p) + c), p, edge)


LEAST_EDGE = 2.0**-53
"""The least edge. If p were nearer to 0, as 1e-185, then 1 - p would be 1, whose log odds are infinite."""


def nearest_ends(p: Floats, n_rows: float) -> tuple[float, float]:
    """How near forecasts inside (0, 1) come to the ends, at most `least`; and `least`, 1/(2 (n + 1))."""
    least = least_probability(n_rows, 2)
    within = np.minimum(p, 1.0 - p)
    return max(float(within[within > 0.0].min(initial=least)), LEAST_EDGE), least


def away_from_ends(q: Floats, p: Floats, edge: float) -> Floats:
    """Answers q, clipped so that they are no nearer to 0 or 1 than `edge`, or than p if that is nearer."""
    return np.clip(q, np.minimum(p, edge), np.maximum(p, 1.0 - edge))


class FoldParts(NamedTuple):
    """Rows to fit and rows that are held out, with the blocks of the latter, as in `Dealt`."""

    inside: EventRows
    held: EventRows
    blocks: Floats


FEW_SETS_REMARK = "what is learnt of one is hardly seen in another, so that next to nothing is changed"
"""The words of a remark on the effect of fewer than two different rows a fold."""
MOST_FOLDED_GROUP_ROWS = 1_000_000
"""With more rows than this, one fold says enough."""


class StartAndPatches(NamedTuple):
    """The start and the number of patches that are fitted to all rows.

    Attributes
    ----------
    start
        The kind of the smooth map.
    n_patches
        The most patches.
    held_out
        Mean loss of the held-out rows by number of patches, from 0; None if no rows were held out.

    """

    start: EventStart
    n_patches: int
    held_out: Floats | None


def default_folds(n_rows: float) -> int:
    """Ten folds, and fewer if there are many rows, since each fold is a fit."""
    return 10 if n_rows < 5_000 else 5 if n_rows < 200_000 else 3


def dealt_rows(sets: Ints, y: NDArray[Any], weights: Floats, n_folds: int, seed: int) -> Dealt | None:
    """Rows dealt to folds with equal numbers of each outcome, if possible; None if only one fold has rows.

    Rows that are dealt whole have no more folds than there are different rows.
    """

    def numbering(sets: Ints, first: Ints) -> Ints:
        outcomes = y if len(first) == len(y) else np.bincount(sets, weights * y) / np.bincount(sets, weights)
        return numbered_folds(outcomes, min(n_folds, len(first)), seed)

    dealt = deal(sets, y, weights, n_folds, numbering, [seed, 2])
    warn_of(few_remarks(dealt, n_folds, FEW_SETS_REMARK), SampleSizeWarning)
    # if one fold has all rows, holding it out would leave none to fit
    return None if dealt.n_folds < 2 else dealt


def numbered_folds(y: NDArray[Any], n_folds: int, seed: int) -> Ints:
    """A fold for each of the different rows, (n,), with equal numbers of each outcome, if possible."""
    order = np.random.default_rng(seed).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), np.int64)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


def choose(parts: list[FoldParts], patch: Patch, plan: PatchPlan, edge: float) -> StartAndPatches:
    """The start and the number of patches with the least loss of rows that are held out, fold by fold.

    Each is taken only if it lowers that loss by more than chance explains; else nothing is done. The loss is
    log loss for starts and log-odds patches, and the squared error for other patches. `edge` is how near to 0
    and 1 a start may bring forecasts.
    """
    best, started = best_start(parts, plan.start, edge)
    fit, replay = PATCH_KINDS[patch]
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

    # each group may have forecasts that are too high, or too low: two candidates a group
    tried = 2 * started[0].inside.members.shape[1]
    if number and not lowers(losses_after(0) - losses_after(number), counts, blocks, patch, tried):
        number = 0
    return StartAndPatches(best, number, np.asarray(total) / counts.sum())


def fold_parts(rows: EventRows, n_folds: int, seed: int, copied: bool = False) -> list[FoldParts]:
    """For each fold the rows outside of it, and the rows inside, which are held out.

    Of more than MOST_FOLDED_GROUP_ROWS rows only the first fold is taken. If `copied`, a row of weight w
    becomes w rows. There are no parts if fewer than two folds have rows.
    """
    sets = same_rows(rows.p, rows.members, digits=DIGITS)
    if (dealt := dealt_rows(sets, rows.y, rows.weights, n_folds, seed)) is None:
        return []
    whole, blocks, fold = rows.take(dealt.rows)._replace(weights=dealt.weights), dealt.blocks, dealt.fold
    if copied:
        copies = np.repeat(np.arange(len(fold)), repeats(whole.weights, "copies"))
        whole, blocks, fold = copied_rows(whole), blocks[copies], fold[copies]
    held_out = range(1 if len(rows.y) > MOST_FOLDED_GROUP_ROWS else int(fold.max()) + 1)
    return [FoldParts(whole.take(fold != k), whole.take(fold == k), blocks[fold == k]) for k in held_out]


def copied_rows(rows: EventRows) -> EventRows:
    """Rows in which a row of weight w comes w times, for kernels that count rows."""
    if (rows.weights == 1.0).all():
        return rows
    copies = np.repeat(np.arange(len(rows.p)), repeats(rows.weights, "copies"))
    return rows.take(copies)._replace(weights=np.ones(len(copies)))


def set_apart(rows: EventRows, fraction: float, seed: int) -> tuple[EventRows, EventRows | None]:
    """The rows to fit, and those that `validation_fraction` holds out; None if it is 0 or holds out none."""
    if not fraction:
        return rows, None
    dealt = aside(same_rows(rows.p, rows.members, digits=DIGITS), rows.y, rows.weights, fraction, seed)
    whole = rows.take(dealt.rows)._replace(weights=dealt.weights)
    held = dealt.fold == 1
    return whole.take(~held), whole.take(held) if held.any() else None


def aside(sets: Ints, y: NDArray[Any], weights: Floats, fraction: float, seed: int) -> Dealt:
    """Rows dealt to two folds; the second is held out and has about this fraction of them."""

    def numbering(sets: Ints, first: Ints) -> Ints:
        return held_out_sets(sums(sets, weights), fraction, seed).astype(np.int64)

    return set_aside(sets, y, weights, fraction, numbering, seed)


def best_start(parts: list[FoldParts], start: EventStart, edge: float) -> tuple[EventStart, list[FoldParts]]:
    """The start with the least held-out log loss and the parts mapped by it; "none" unless it is lower."""
    kinds: Iterable[EventStart] = AUTO_STARTS if start == "auto" else ("none", start)
    started = {kind: [_started(kind, part, edge) for part in parts] for kind in dict.fromkeys(kinds)}
    losses = {kind: _losses([part.held for part in mapped], "log-odds") for kind, mapped in started.items()}
    counts, blocks = _counts(parts)
    best = min(losses, key=lambda kind: float((losses[kind] * counts).sum()))
    if not lowers(losses["none"] - losses[best], counts, blocks, "log-odds", len(losses)):
        best = "none"
    return best, started[best]


def lowers(gains: Floats, weights: Floats, blocks: Floats, patch: Patch, tried: int) -> bool:
    """Whether the gains of rows, (n,), with these weights and blocks (n,), are more than chance explains.

    Their sum must be above its standard error, and above ln(tried): the best of `tried` candidates that know
    nothing may have a likelihood that is higher by this factor. A squared error is worth half a log loss.
    Rows that were dealt whole are one observation, so they count as much as a block.
    """
    total, rows = float((gains * weights).sum()), float(weights.sum())
    error = rows * float(standard_error(gains - total / rows, weights, blocks))
    at_once = float((weights * blocks).sum()) / rows
    return total > max(error, at_once * math.log(tried) / (1.0 if patch == "log-odds" else 2.0))


def _started(kind: EventStart, part: FoldParts, edge: float) -> FoldParts:
    """Both parts, mapped by a start that is fitted to the first of them."""
    inside, held, blocks = part
    smooth = StartMap(kind).fit(inside.p, inside.y, inside.weights)
    mapped = inside._replace(p=smooth(inside.p, edge)), held._replace(p=smooth(held.p, edge))
    return FoldParts(*mapped, blocks)


def _counts(parts: list[FoldParts]) -> tuple[Floats, Floats]:
    """Weights and blocks of the held-out rows of all parts, one part after the other."""
    return (
        np.concatenate([part.held.weights for part in parts]),
        np.concatenate([part.blocks for part in parts]),
    )


def _losses(parts: list[EventRows], patch: Patch) -> Floats:
    """The loss of each row of all parts, one part after the other."""
    return np.concatenate([row_losses(rows, patch) for rows in parts])


def row_losses(rows: EventRows, patch: Patch) -> Floats:
    """The loss of each row: log loss for log-odds patches, else the squared error."""
    return np.asarray(event_costs(rows.p, rows.y) if patch == "log-odds" else (rows.p - rows.y) ** 2)


def held_out_sets(sizes: Floats, fraction: Any, seed: int) -> NDArray[np.bool_]:
    """True for random sets, (S,), which together have about this fraction of all rows; not all sets are true.

    `sizes` are the sizes of the sets. Raises ValueError for a fraction outside [0, 1), or one that leaves no
    row to fit.
    """
    check_number(fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    order = np.random.default_rng(seed).permutation(len(sizes))
    reached = np.concatenate([[0.0], np.cumsum(sizes[order])])
    number = int(np.abs(reached - fraction * reached[-1]).argmin())
    if number == len(sizes):
        raise ValueError(
            f"validation_fraction must leave rows to fit, got {fraction}, which holds out all of "
            f"{number} different rows: give a smaller one"
        )
    held = np.zeros(len(sizes), bool)
    held[order[:number]] = True
    return held
