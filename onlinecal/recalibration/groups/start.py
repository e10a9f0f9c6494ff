"""From rows to the history of patches and back, and what patches start from.

Which rows are held out to say when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from onlinecal.arrays import Bytes, Floats, Ints, pieces, sampled_rows
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.classical.linear import CURVED, least
from onlinecal.recalibration.flooring import least_probability
from onlinecal.recalibration.groups import log_odds as logs
from onlinecal.recalibration.groups import value
from onlinecal.validation import check_number


class Rows(NamedTuple):
    """Forecasts (n,), outcomes (n,), membership (n, G), and weights (n,), which log-odds patches look at."""

    p: Floats
    y: Any
    members: Bytes
    weights: Floats

    def take(self, some: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(array[some] for array in self))


class Search(NamedTuple):
    """What is searched for: m, the violation that may remain, how a cell is chosen, patches at most."""

    n_levels: int
    alpha: float
    by_fall: bool
    most: int
    shrinkage: float


PATCH = np.dtype(
    [
        ("epoch", np.int64),
        ("level", np.int64),
        ("group", np.int64),
        ("count", np.int64),
        ("forecast", np.float64),
        ("outcome", np.float64),
        ("patched", np.float64),
        ("shift", np.float64),
        ("violation", np.float64),
        ("fall", np.float64),
        ("validation_error", np.float64),
    ]
)
"""One patch. `count` rows of a level inside a group had mean forecast `forecast` and mean outcome `outcome`;
the patch made the former `patched`, by adding `shift`. `violation` is count/n (forecast - outcome)^2; `fall`
is what the mean squared error lost (under shift patches before clipping, which takes off more);
`validation_error` is the mean squared error of the held-out rows once the patch is made, NaN when none are
held out. All value patches belong to epoch 0; without a grid they have no level, which is -1.

Of log-odds patches `shift` is what is added to the log odds, the level -1 means all of the group's rows,
`count` is their weight, rounded, and `fall` and `validation_error` are of the mean log loss."""


def fit_values(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Value patches for these rows: the history, and the held-out error before and after each patch."""
    n_levels = search.n_levels
    p, y, members, _ = by_level(rows, n_levels)
    level = grid_level(p, n_levels)
    found = value.fit_value_patches(level, y, members, n_levels, search.alpha, search.by_fall, search.most)
    made = np.zeros(len(found), PATCH)
    made["level"], made["group"] = found[:, value.SOURCE], found[:, value.GROUP]
    made["count"] = found[:, value.COUNT]
    made["forecast"], made["patched"] = found[:, value.SOURCE] / n_levels, found[:, value.TARGET] / n_levels
    made["outcome"] = found[:, value.ONES] / found[:, value.COUNT]
    made["shift"] = made["patched"] - made["forecast"]
    mass = made["count"] / len(p)
    made["violation"] = mass * (made["forecast"] - made["outcome"]) ** 2
    made["fall"] = made["violation"] - mass * (made["patched"] - made["outcome"]) ** 2
    made["validation_error"] = np.nan
    if aside is None:
        return made, None
    held, outcomes, groups, _ = aside
    links, starts = value.chain_patches(found, n_levels)
    level = grid_level(held, n_levels)
    start = squared_error(level / n_levels, outcomes)
    change = value.value_curve(level, outcomes, groups, links, starts, n_levels, len(found))
    made["validation_error"] = start + np.cumsum(change) / len(held)
    return made, np.concatenate([[start], made["validation_error"]])


def fit_shifts(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Shift patches for these rows, like `fit_values`; what a shift saves and what was wrong are the same."""
    n_levels = search.n_levels
    forecasts, y, members, _ = by_level(rows, n_levels)
    n_rows, total = len(y), 0
    parts: list[Any] = []
    while total < search.most:
        left = search.most - total
        places, numbers = value.fit_shift_epoch(forecasts, y, members, n_levels, search.alpha, left)
        if len(places) == 0:
            break
        part = np.zeros(len(places), PATCH)
        part["epoch"], total = len(parts), total + len(places)
        part["level"], part["group"], part["count"] = places.T
        part["shift"], part["forecast"] = numbers.T
        part["patched"] = part["outcome"] = numbers.sum(axis=1)
        part["violation"] = part["fall"] = part["count"] / n_rows * part["shift"] ** 2
        part["validation_error"] = np.nan
        parts.append(part)
    made = np.concatenate(parts) if parts else np.zeros(0, PATCH)
    if aside is None:
        return made, None
    held, outcomes, groups, _ = aside
    places = np.column_stack([made["level"], made["group"]])
    after = value.shift_curve(held.copy(), outcomes, groups, made["epoch"], places, made["shift"], n_levels)
    made["validation_error"] = after / len(held)
    return made, np.concatenate([[squared_error(held, outcomes)], made["validation_error"]])


def fit_unrounded(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Value patches without a grid, like `fit_values`; what a patch saves and what was wrong are the same."""
    p, y, members, _ = rows
    values, groups, counts, ones, targets = logs.fit_unrounded_patches(
        p, y, members, search.alpha, search.most
    )
    made = np.zeros(len(values), PATCH)
    made["level"], made["group"], made["count"] = -1, groups, counts
    made["forecast"], made["patched"] = values, targets
    made["outcome"], made["shift"] = ones / np.maximum(counts, 1), targets - values
    made["violation"] = made["fall"] = counts / len(p) * (values - made["outcome"]) ** 2
    made["validation_error"] = np.nan
    if aside is None:
        return made, None
    held, outcomes, members, _ = aside
    start = squared_error(held, outcomes)
    moves = logs.unrounded_moves(held, members, values, groups, targets)
    change = [
        np.sum((new - outcomes[moved]) ** 2 - (old - outcomes[moved]) ** 2)
        for moved, old, new in zip(moves, values, targets, strict=True)
    ]
    made["validation_error"] = start + np.cumsum(change) / len(held)
    return made, np.concatenate([[start], made["validation_error"]])


def fit_log_odds(rows: Rows, aside: Rows | None, search: Search) -> tuple[Any, Floats | None]:
    """Log-odds patches, like `fit_values`; held-out errors are log losses. Forecasts lie inside (0, 1)."""
    m, parts, made, total = search.n_levels, [np.zeros(0, PATCH)], 0, float(rows.weights.sum())
    rows = by_level(rows, m)
    # of epochs there is one where nothing is to be reached: its end is that nothing more is saved
    while made < search.most and (search.alpha > 0.0 or made == 0):
        odds, level = rows.p / (1.0 - rows.p), grid_level(rows.p, m)
        places, numbers = logs.fit_log_odds_epoch(
            odds,
            rows.y,
            rows.weights,
            rows.members,
            level,
            m,
            search.alpha,
            search.shrinkage,
            search.most - made,
        )
        if len(places) == 0:
            break
        part = np.zeros(len(places), PATCH)
        part["epoch"], made = len(parts) - 1, made + len(places)
        part["level"], part["group"] = np.where(places[:, 0] > m, -1, places[:, 0]), places[:, 1]
        part["shift"], weight, part["forecast"], part["outcome"], part["patched"], fall = numbers.T
        part["count"], part["fall"] = np.rint(weight), fall / total
        part["violation"] = weight / total * (part["forecast"] - part["outcome"]) ** 2
        part["validation_error"] = np.nan
        parts.append(part)
        rows = by_level(rows._replace(p=odds / (1.0 + odds)), m)
    history = np.concatenate(parts)
    if aside is None:
        return history, None
    places = np.column_stack([levels_of(history, m), history["group"]])
    curve = logs.log_odds_curve(
        aside.p, aside.y, aside.weights, aside.members, history["epoch"], places, history["shift"], m
    )
    curve /= aside.weights.sum()
    history["validation_error"] = curve[1:]
    return history, curve


def levels_of(history: Any, n_levels: int) -> NDArray[np.int64]:
    """The levels of log-odds patches, m + 1 for all rows of a group."""
    return np.where(history["level"] < 0, n_levels + 1, history["level"])


def by_level(rows: Rows, n_levels: int) -> Rows:
    """The rows sorted by level, as copies: a patch then reads memory in order, where its time goes."""
    # numbers of 16 bits are sorted by counting
    level = grid_level(rows.p, n_levels).astype(np.uint16 if n_levels < 1 << 16 else np.int64)
    return rows.take(np.argsort(level, kind="stable"))


def compile_values(history: Any, n_levels: int) -> tuple[Any, ...]:
    """The arguments with which `replay_value_patches` plays a history."""
    targets = np.rint(history["patched"] * n_levels).astype(np.int64)
    return value.chain_patches(np.column_stack([history["level"], history["group"], targets]), n_levels)


def compile_unrounded(history: Any, n_levels: int) -> tuple[Any, ...]:
    """The arguments with which `unrounded_moves` plays a history."""
    return history["forecast"], history["group"], history["patched"]


def compile_shifts(history: Any, n_levels: int) -> tuple[Any, ...]:
    """The arguments with which `replay_shift_patches` plays a history."""
    return _summed(history, history["level"], n_levels)


def _summed(history: Any, level: NDArray[np.int64], n_levels: int) -> tuple[Any, ...]:
    places = np.column_stack([level, history["group"]])
    n_epochs = int(history["epoch"].max(initial=-1)) + 1
    return value.sum_shifts(history["epoch"], places, history["shift"], n_levels, n_epochs)


def compile_log_odds(history: Any, n_levels: int) -> tuple[Any, ...]:
    """The arguments with which `replay_log_odds_patches` plays a history."""
    return _summed(history, levels_of(history, n_levels), n_levels + 1)


def replay_values(p: Floats, members: Bytes, compiled: tuple[Any, ...], n_levels: int) -> Floats:
    """The forecasts p, shape (n,), after a history of value patches; members (n, G)."""
    level = grid_level(p, n_levels)
    value.replay_value_patches(level, members, *compiled)
    return np.asarray(level / n_levels)


def replay_unrounded(p: Floats, members: Bytes, compiled: tuple[Any, ...], n_levels: int) -> Floats:
    """The same for value patches without a grid."""
    forecasts, targets = p.copy(), compiled[2]
    for moved, target in zip(logs.unrounded_moves(p, members, *compiled), targets, strict=True):
        forecasts[moved] = target
    return forecasts


def replay_shifts(p: Floats, members: Bytes, compiled: tuple[Any, ...], n_levels: int) -> Floats:
    """The same for shift patches."""
    forecasts = p.copy()
    value.replay_shift_patches(forecasts, members, *compiled, n_levels)
    return forecasts


def replay_log_odds(p: Floats, members: Bytes, compiled: tuple[Any, ...], n_levels: int) -> Floats:
    """The same for log-odds patches; forecasts lie inside (0, 1)."""
    forecasts = p.copy()
    logs.replay_log_odds_patches(forecasts, members, *compiled, n_levels)
    return forecasts


Patch = Literal["log-odds", "value", "shift", "unrounded"]
KINDS: dict[Patch, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "log-odds": (fit_log_odds, compile_log_odds, replay_log_odds),
    "value": (fit_values, compile_values, replay_values),
    "shift": (fit_shifts, compile_shifts, replay_shifts),
    "unrounded": (fit_unrounded, compile_unrounded, replay_unrounded),
}
"""How each kind of patch is found, how a history of them is made ready, and how it is replayed."""


def default_levels(alpha: float) -> int:
    """m = ceil(1/alpha), with a hair's breadth for reciprocals that floating point misses."""
    return math.ceil(1.0 / alpha - 1e-9)


def most_shifts(alpha: float, n_levels: int) -> int:
    """(m + 1)/(3/4 alpha): every shift saves more than 3/4 alpha/(m + 1) of a squared error of at most 1."""
    return math.floor((n_levels + 1) / (value.TARGET_SHARE * alpha))


def squared_error(p: Floats, y: Bytes) -> float:
    """Mean of (p - y)^2."""
    return float(np.mean((p - y) ** 2))


Start = Literal["auto", "none", "temperature", "platt", "beta", "isotonic"]
STARTS: tuple[Start, ...] = get_args(Start)
TRIED: tuple[Start, ...] = ("none", "temperature", "platt", "beta")
"""What "auto" chooses from."""

PRIOR = 1.0
"""How firmly coefficients are held where they change nothing: as by this many times (c - c_0)^2/2."""
FARTHEST = 700.0
"""Log odds are taken to be no farther from 0: exponentials of these are finite."""


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
            from sklearn.isotonic import IsotonicRegression

            curve = IsotonicRegression(y_min=0.0, y_max=1.0).fit(p, y, sample_weight=weights)
            self._curve = np.asarray(curve.X_thresholds_), np.asarray(curve.y_thresholds_)
        elif self.kind != "none":
            # which coefficient each of the three is: of the log odds both logarithms have the same
            shared: dict[str, list[int]] = {"temperature": [0, 0, -1], "platt": [0, 0, 1], "beta": [0, 1, 2]}
            self.coefficients_ = best_sigmoid(p, y, weights, np.array(shared[self.kind]))
        return self

    def __call__(self, p: Floats, edge: float) -> Floats:
        """The forecasts p, inside (0, 1), mapped: none nearer to 0 or 1 than `edge` or p itself."""
        if self._curve is not None:
            return away_from_ends(np.interp(p, *self._curve), p, edge)
        if self.coefficients_ is None:
            return p
        return away_from_ends(sigmoids(p, self.coefficients_), p, edge)


def nearest_ends(p: Floats, n_rows: float) -> tuple[float, float]:
    """How near forecasts come to 0 and 1, `least` if none comes nearer; and least, 1/(2 (n + 1))."""
    least = least_probability(n_rows, 2)
    within = np.minimum(p, 1.0 - p)
    return float(within[within > 0.0].min(initial=least)), least


def away_from_ends(q: Floats, p: Floats, edge: float) -> Floats:
    """Answers q that are no nearer to 0 or 1 than `edge`, or than p where that is nearer."""
    return np.clip(q, np.minimum(p, edge), np.maximum(p, 1.0 - edge))


def sigmoids(p: Floats, coefficients: Floats) -> Floats:
    """1/(1 + exp(-(a ln p - b ln(1 - p) + c))) of every p, shape (n,)."""
    a, b, c = coefficients
    return plain_sigmoids(a * np.log(p) - b * np.log(1.0 - p) + c)


class SigmoidLoss:
    """The average log loss of forecasts as a function of u unknowns, with a pull to where they began.

    `features` (n, u) times the unknowns, and `fixed` (n,), are the log odds; outcomes, weights: (n,).
    """

    def __init__(self, features: Floats, fixed: Floats, y: Floats, weights: Floats, centre: Floats) -> None:
        self.features, self.fixed, self.y, self.weights = features, fixed, y, weights
        self.centre, self.rows = centre, float(weights.sum())

    def sample(self) -> SigmoidLoss | None:
        """The same of some rows."""
        if len(self.y) <= CURVED:
            return None
        some = sampled_rows(len(self.y), CURVED)
        return SigmoidLoss(
            self.features[some], self.fixed[some], self.y[some], self.weights[some], self.centre
        )

    def value(self, unknown: Floats) -> tuple[float, Floats]:
        """The loss and its gradient, piece by piece."""
        loss, slope = 0.0, np.zeros_like(unknown)
        for some in pieces(self.features):
            features, y, weights = self.features[some], self.y[some], self.weights[some]
            odds = np.clip(features @ unknown + self.fixed[some], -FARTHEST, FARTHEST)
            small = np.exp(-np.abs(odds))
            # ln(1 + e^x) - y x, without what large x would lose
            loss += float(weights @ (np.maximum(odds, 0.0) - y * odds + np.log1p(small)))
            slope += features.T @ (weights * (np.where(odds >= 0.0, 1.0, small) / (1.0 + small) - y))
        away = unknown - self.centre
        return (loss + PRIOR / 2.0 * float(away @ away)) / self.rows, (slope + PRIOR * away) / self.rows

    def curve(self, unknown: Floats) -> Floats:
        """The second derivatives."""
        small = np.exp(-np.minimum(np.abs(self.features @ unknown + self.fixed), FARTHEST))
        spread = self.weights * small / (1.0 + small) ** 2
        curve = (self.features.T * spread) @ self.features + PRIOR * np.eye(len(unknown))
        return np.asarray(curve / self.rows)


def best_sigmoid(p: Floats, y: Any, weights: Floats, shared: NDArray[np.int64]) -> Floats:
    """The a, b, c of the least log loss, searched for from the identity (1, 1, 0), with a weak pull to it.

    `shared` says which unknown each of the three is, -1 for one that stays.
    """
    identity = np.array([1.0, 1.0, 0.0])
    unknown = (shared[:, None] == np.arange(shared.max() + 1)).astype(np.float64)
    fixed = np.where(shared < 0, identity, 0.0)
    # the unknowns at the identity: those that are shared are the same there
    centre = np.array([identity[shared == one][0] for one in range(unknown.shape[1])])
    seen = np.column_stack([np.log(p), -np.log(1.0 - p), np.ones(len(p))])
    loss = SigmoidLoss(seen @ unknown, seen @ fixed, np.asarray(y, np.float64), weights, centre)
    return np.asarray(fixed + unknown @ least(loss, centre))


def plain_sigmoids(odds: Floats) -> Floats:
    """1/(1 + exp(-z)) of log odds z, shape (n,)."""
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(-odds, -FARTHEST, FARTHEST))))


def log_odds(p: Floats) -> Floats:
    """ln(p/(1 - p)) of probabilities inside (0, 1), shape (n,)."""
    return np.asarray(np.log(p) - np.log(1.0 - p))


def log_losses(p: Floats, y: Any) -> Floats:
    """-y ln p - (1 - y) ln(1 - p) of outcomes in [0, 1], shape (n,); p lies inside (0, 1)."""
    return np.asarray(-(xlogy(y, p) + xlogy(1.0 - y, 1.0 - p)))


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
