"""Whether a grid machine can play on a memory that came from outside.

Compiled code looks neither at the bounds of an array nor for loops without end: it relies on what every
memory fulfils that a machine has made. Whoever takes in a memory (from a ledger, a checkpoint, a pickle) asks
here first. What passes may still tell of rounds that never were, but nothing that is done with it can fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import (
    FINE,
    FORMAT,
    GAIN,
    HIGH,
    LOW,
    LOWER,
    MOVED,
    REPORT,
    REPORTS,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
)
from onlinecal.forecasters.binary.defaults import FOLLOWING
from onlinecal.forecasters.binary.grids import dyadic
from onlinecal.forecasters.binary.grids.dyadic_accounts import (
    BASE,
    BOUND,
    BY_ACCOUNTS,
    BY_EXACT_ACCOUNTS,
    DEFAULTS,
    EAGER,
    LEVELS,
    PACE,
    PRICE,
    SAVED,
    SHARED,
    TUNED,
    TUNED_BY,
    WISH,
    unbiased_are_free,
)
from onlinecal.forecasters.binary.grids.dyadic_search import ABOVE, BELOW, END
from onlinecal.forecasters.binary.grids.uniform import DEFAULTS as UNIFORM_DEFAULTS
from onlinecal.forecasters.binary.grids.uniform import (
    EXCESS,
    FORMAT_UNIFORM,
    FREED,
    HINTED,
    SHIFT,
    UNIT_BITS,
    expect_hints,
    follow_hints,
    new_memory,
    refined,
)
from onlinecal.forecasters.binary.grids.uniform import SHARED as UNIFORM_SHARED

if TYPE_CHECKING:
    from onlinecal.forecasters.binary.grid import GridForecaster

CONSTANT = range(FORMAT, FINE + 1)
CONSTANT_DYADIC = (PRICE, BOUND)
MOST = 1 << 62


def check_grid_memory(memory: Any, forecaster: GridForecaster) -> None:
    """ValueError unless a machine can play on the memory, begun with the parameters of the forecaster."""
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > TABLE, "its length")
    head, like = memory[:TABLE].tolist(), forecaster.memory[:TABLE].tolist()
    if head[FORMAT] == like[FORMAT] == FORMAT_UNIFORM:
        require(
            head[UNIFORM_SHARED] in (0, 1) and head[HINTED] in (0, 1) and 0 <= head[SHIFT] <= UNIT_BITS,
            "its units",
        )
        cells = head[SCALE] >> head[SHIFT]
        require(cells > 0 and len(memory) == TABLE + cells + 1, "its length")
        # how many cells suit a horizon is not for ever; what was begun with others goes on with them
        m = like[SCALE] if forecaster.n_cells is not None else cells
        changed = head[UNIFORM_SHARED] or head[HINTED] or head[UNIFORM_DEFAULTS] != like[UNIFORM_DEFAULTS]
        if changed or cells != like[SCALE]:
            like = _changed(head, m, forecaster)
        require(head[UNIFORM_DEFAULTS] == like[UNIFORM_DEFAULTS], "its flags")
    paces = {like[PACE]}
    if head[FORMAT] == like[FORMAT] != FORMAT_UNIFORM and head[TUNED] & FOLLOWING << DEFAULTS:
        begun = forecaster.memory.copy()
        dyadic.expect_hints(begun)
        like = begun[:TABLE].tolist()
        paces.add(like[PACE])
    require(all(head[place] == like[place] for place in CONSTANT), "what its configuration says")
    require(head[ROUNDS] >= 0, "its rounds")
    gained = head[ROUNDS] << GAIN
    require(0 <= head[MOVED] <= gained and 0 <= head[SPREAD] <= gained, "its certificate")
    if head[FORMAT] == FORMAT_UNIFORM:
        require((head[STEP], head[SHIFT]) == (like[STEP], like[SHIFT]), "its units")
        points, sums = np.arange(cells + 1) << head[SHIFT], memory[TABLE:]
        _check_table(head, points, sums)
        require(head[HINTED] <= head[FREED] <= head[TILT], "its flags")
        if head[HINTED]:
            beyond = np.maximum(np.abs(sums - points) - head[HIGH], 0)
            require(int(beyond.sum()) == head[EXCESS], "its biases")
        return
    require(all(head[place] == like[place] for place in CONSTANT_DYADIC), "what its configuration says")
    require(head[PACE] in paces, "what its configuration says")
    # what began by an earlier edition's rule goes on by it
    tuned, alike = head[TUNED] & ~(SHARED | EAGER), like[TUNED] & ~EAGER
    earlier = tuned == BY_ACCOUNTS == alike - 1
    require(tuned == alike or earlier, "what its configuration says")
    end = head[END]
    require(TABLE + 4 <= end <= len(memory) and end % 2 == 0, "the end of its table")
    require(head[ROUNDS] <= most_rounds(head[PACE]), "its rounds")
    require(head[SAVED] <= like[SAVED] + gained, "its accounts")
    for place in (STEP, BASE, WISH) if tuned & TUNED_BY == BY_EXACT_ACCOUNTS else (STEP, BASE):
        require(0 < head[place] <= head[SCALE] and head[place] & (head[place] - 1) == 0, "its grids")
    points = memory[TABLE:end:2]
    require(bool((points[1:] > points[:-1]).all()), "the order of its points")
    below, above = _check_table(head, points, memory[TABLE + 1 : end : 2])
    require((head[BELOW], head[ABOVE]) == (TABLE + 2 * below, TABLE + 2 * above), "its cell")


def _changed(head: list[int], cells: int, forecaster: GridForecaster) -> list[int]:
    """The header of a new memory on so many cells, after what hints and shares have changed of `head`."""
    like = forecaster.memory
    slack, unset = forecaster.slack_of(like), int(like[UNIFORM_DEFAULTS])
    begun = new_memory(cells, forecaster.rule, slack, REPORTS[like[REPORT]], unset)
    if unset and head[UNIFORM_DEFAULTS] == FOLLOWING:
        follow_hints(begun)
    if head[UNIFORM_SHARED]:
        begun = refined(begun, forecaster.slack_of(begun))
    begun[FREED] = head[FREED]
    if head[HINTED]:
        expect_hints(begun)
    return begun[:TABLE].tolist()


def _check_table(head: list[int], points: NDArray[np.int64], sums: NDArray[np.int64]) -> tuple[int, int]:
    """The places of the first points not below the ends of the current cell, which must be valid.

    The outermost points are never charged against what they accept, so every search ends there.
    """
    scale, tilt, lower, step = head[SCALE], head[TILT], head[LOWER], head[STEP]
    require((int(points[0]), int(points[-1])) == (0, scale), "its outermost points")
    require((int(sums[0]), int(sums[-1])) == (0, tilt * scale), "its outermost points")
    require(int(sums.min()) > -MOST and int(sums.max()) < MOST, "its biases")
    require(int(np.abs(sums - tilt * points).sum()) == head[SPREAD], "its biases")
    require(0 <= lower <= scale - step and lower % step == 0, "its cell")
    below, above = (int(place) for place in np.searchsorted(points, (lower, lower + step)))
    at_lower = int(sums[below]) if points[below] == lower else tilt * lower
    at_upper = int(sums[above]) if points[above] == lower + step else tilt * (lower + step)
    free = head[FORMAT] != FORMAT_UNIFORM and unbiased_are_free(head)
    zero = at_lower <= head[HIGH] or (free and at_lower == tilt * lower)
    one = at_upper >= head[LOW] or (free and at_upper == tilt * (lower + step))
    require(zero and one, "its cell")
    return below, above


def most_rounds(pace: int) -> int:
    """Rounds up to which a dyadic machine finds the level of the coming one in 64 bits."""
    shifts = [2 * level + 2 for level in range(LEVELS + 1) if pace << (2 * level + 2) < 1 << 63]
    return (((pace << shifts[-1]) // 3) >> 16) - 1 if shifts else 0


def check_cells(rounds: Iterable[tuple[Any, Any]], memory: NDArray[np.int64]) -> None:
    """ValueError unless rounds that wait, cells (lower end, step) with their forecasts, can be settled."""
    scale = int(memory[SCALE])
    most = int(memory[STEP]) if memory[FORMAT] == FORMAT_UNIFORM else scale
    for (lower, step), forecast in rounds:
        if not (
            type(lower) is type(step) is int
            and 0 < step <= most
            and 0 <= lower <= scale - step
            and not (step | lower) & (step - 1)
            and type(forecast) is float
            and 0.0 <= forecast <= 1.0
        ):
            raise ValueError(
                f"the forecast {forecast!r} in the cell {(lower, step)!r} cannot be that of any run"
            )


def require(holds: bool, what: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(f"{what} cannot be that of any run")
