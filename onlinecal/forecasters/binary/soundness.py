"""Whether a grid machine can play on a memory that came from outside.

Compiled code looks neither at the bounds of an array nor for loops without end. Whoever takes in a memory
(from a ledger, a checkpoint, a pickle) asks here first: the settings are those of the forecaster, and every
number that is an index or ends a loop is in its range. What passes may still tell of rounds that never were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary import cells, dyadic, fixed
from onlinecal.forecasters.binary.cells import TABLE
from onlinecal.forecasters.binary.graded import LAST_STAGE, nested_points

if TYPE_CHECKING:
    from onlinecal.forecasters.binary.grid import GridForecaster

SETTINGS = *range(cells.FORMAT, cells.FINE + 1), cells.HINTED, cells.LATE, cells.GROWS
FIXED_SETTINGS = fixed.SHIFT, fixed.FREED, fixed.RATE, fixed.WEIGHT, fixed.CORNERS
DYADIC_SETTINGS = dyadic.PRICE, dyadic.PACE, dyadic.BOUND
MOST_LATE = 1 << 40


def require(holds: bool, what: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(f"{what} cannot be that of any run")


def check_grid_memory(memory: Any, forecaster: GridForecaster) -> None:
    """ValueError unless a machine can play on the memory, begun with the parameters of the forecaster."""
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > TABLE, "its length")
    fresh, head = forecaster.memory, memory[:TABLE].tolist()
    stays = fresh[cells.FORMAT] == fixed.FORMAT_FIXED
    if stays and head[fixed.SHARED]:
        fresh = forecaster._refined(fresh)
    if fresh[cells.GROWS] and 0 < head[cells.LATE] <= MOST_LATE:
        fresh = fresh.copy()
        forecaster.machine.rules.note_late(fresh, head[cells.LATE])
    like = fresh[:TABLE].tolist()
    settings = *SETTINGS, *(FIXED_SETTINGS if stays else DYADIC_SETTINGS)
    require(all(head[place] == like[place] for place in settings), "what its configuration says")
    require(0 <= head[cells.ROUNDS] <= dyadic.MOST_ROUNDS, "its rounds")
    scale, end = head[cells.SCALE], head[cells.END]
    require(TABLE + 4 <= end <= len(memory) and end % 2 == 0, "the end of its table")
    points = memory[TABLE:end:2]
    require((int(points[0]), int(points[-1])) == (0, scale), "its outermost points")
    require(bool((points[1:] > points[:-1]).all()), "the order of its points")
    # every search for a valid cell ends at the outermost points, which are never biased
    ends = int(memory[TABLE + 1]), int(memory[end - 1])
    require(ends == (0, head[cells.TILT] * scale), "its outermost points")
    lower, step = head[cells.LOWER], head[cells.STEP]
    cell = [TABLE + 2 * int(place) for place in np.searchsorted(points, (lower, lower + step))]
    require(0 <= lower <= scale - step and head[cells.BELOW] == cell[0], "its cell")
    if not stays:
        require(head[dyadic.TUNED] & ~dyadic.SHARED == like[dyadic.TUNED], "what its configuration says")
        for size in (step, head[dyadic.BASE], head[dyadic.WISH]):
            require(0 < size <= scale and size & (size - 1) == 0, "its grids")
        require(head[cells.ABOVE] == cell[1] and lower % step == 0, "its cell")
        return
    require(memory[cell[0] : cell[0] + 3 : 2].tolist() == [lower, lower + step], "its cell")
    if like[fixed.STAGE]:
        stage, split_at = head[fixed.STAGE], head[fixed.SHARED]
        require(0 <= split_at <= stage and 0 < stage <= LAST_STAGE, "its grid")
        require(head[fixed.LIMIT] == fixed.last_round(head[cells.HIGH], stage), "its grid")
        fresh_points = nested_points(stage, split_at)
    else:
        same = head[fixed.STAGE] == 0 and head[fixed.SHARED] == like[fixed.SHARED]
        require(same and head[fixed.LIMIT] == like[fixed.LIMIT] and len(memory) == end, "its grid")
        fresh_points = fresh[TABLE::2]
    require(np.array_equal(points, fresh_points), "its points")


def check_cells(rounds: Iterable[tuple[Any, Any]], memory: NDArray[np.int64]) -> None:
    """ValueError unless rounds that wait, cells (lower end, step) with their forecasts, can be settled."""
    scale = int(memory[cells.SCALE])
    fixed_grid = memory[cells.FORMAT] == fixed.FORMAT_FIXED
    uneven = fixed_grid and memory[fixed.SHIFT] == fixed.UNEVEN
    most = int(memory[cells.STEP]) if fixed_grid and not uneven else scale
    points = set(memory[TABLE : memory[cells.END] : 2].tolist()) if uneven else set()
    for (lower, step), forecast in rounds:
        fits = type(lower) is type(step) is int and 0 < step <= most and 0 <= lower <= scale - step
        if fits:
            fits = {lower, lower + step} <= points if uneven else not (step | lower) & (step - 1)
        if not (fits and type(forecast) is float and 0.0 <= forecast <= 1.0):
            raise ValueError(
                f"the forecast {forecast!r} in the cell {(lower, step)!r} cannot be that of any run"
            )
