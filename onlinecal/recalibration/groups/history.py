"""From rows to the history of patches, and from a history to what replays fast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats
from onlinecal.measures.groups import grid_level
from onlinecal.recalibration.groups import log_odds, value


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
    values, groups, counts, ones, targets = log_odds.fit_unrounded_patches(
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
    moves = log_odds.unrounded_moves(held, members, values, groups, targets)
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
        places, numbers = log_odds.fit_log_odds_epoch(
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
    curve = log_odds.log_odds_curve(
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
    for moved, target in zip(log_odds.unrounded_moves(p, members, *compiled), targets, strict=True):
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
    log_odds.replay_log_odds_patches(forecasts, members, *compiled, n_levels)
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
