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

from onlinecal.forecasters.binary.cells import (
    FINE,
    FORMAT,
    GROWS,
    HINTED,
    LATE,
    LOWER,
    ROUNDS,
    SCALE,
    STEP,
    TABLE,
    TILT,
)
from onlinecal.forecasters.binary.grids.dyadic_accounts import (
    BASE,
    BOUND,
    MOST_ROUNDS,
    PACE,
    PRICE,
    SHARED,
    TUNED,
    WISH,
)
from onlinecal.forecasters.binary.grids.dyadic_search import ABOVE, BELOW, END
from onlinecal.forecasters.binary.grids.uniform import FORMAT_UNIFORM, FREED, SHIFT
from onlinecal.forecasters.binary.grids.uniform import SHARED as UNIFORM_SHARED

if TYPE_CHECKING:
    from onlinecal.forecasters.binary.grid import GridForecaster

SETTINGS = (*range(FORMAT, FINE + 1), HINTED, LATE, GROWS)
MOST_LATE = 1 << 40
UNIFORM_SETTINGS, DYADIC_SETTINGS = (STEP, SHIFT, FREED), (PRICE, PACE, BOUND)


def check_grid_memory(memory: Any, forecaster: GridForecaster) -> None:
    """ValueError unless a machine can play on the memory, begun with the parameters of the forecaster."""
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > TABLE, "its length")
    fresh, head = forecaster.memory, memory[:TABLE].tolist()
    uniformly = fresh[FORMAT] == FORMAT_UNIFORM
    if uniformly and head[UNIFORM_SHARED]:
        fresh = forecaster.refined(fresh)
    if fresh[GROWS] and 0 < head[LATE] <= MOST_LATE:
        fresh = fresh.copy()
        forecaster.machine.rules.note_late(fresh, head[LATE])
    like = fresh[:TABLE].tolist()
    settings = (*SETTINGS, *(UNIFORM_SETTINGS if uniformly else DYADIC_SETTINGS))
    require(all(head[place] == like[place] for place in settings), "what its configuration says")
    require(0 <= head[ROUNDS] <= MOST_ROUNDS, "its rounds")
    scale, lower, step = head[SCALE], head[LOWER], head[STEP]
    if uniformly:
        require(len(memory) == len(fresh), "its length")
        first, last = TABLE, len(memory) - 1
    else:
        require(head[TUNED] & ~SHARED == like[TUNED], "what its configuration says")
        end = head[END]
        require(TABLE + 4 <= end <= len(memory) and end % 2 == 0, "the end of its table")
        for size in (step, head[BASE], head[WISH]):
            require(0 < size <= scale and size & (size - 1) == 0, "its grids")
        points = memory[TABLE:end:2]
        require((int(points[0]), int(points[-1])) == (0, scale), "its outermost points")
        require(bool((points[1:] > points[:-1]).all()), "the order of its points")
        places = (TABLE + 2 * int(place) for place in np.searchsorted(points, (lower, lower + step)))
        require((head[BELOW], head[ABOVE]) == tuple(places), "its cell")
        first, last = TABLE + 1, end - 1
    # every search for a valid cell ends at the outermost points, which are never biased
    require((int(memory[first]), int(memory[last])) == (0, head[TILT] * scale), "its outermost points")
    require(0 <= lower <= scale - step and lower % step == 0, "its cell")


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
