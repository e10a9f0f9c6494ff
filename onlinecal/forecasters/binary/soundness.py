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
    ABOVE,
    BELOW,
    END,
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
from onlinecal.forecasters.binary.dyadic import (
    BASE,
    BOUND,
    MOST_ROUNDS,
    PACE,
    PRICE,
    SHARED,
    TUNED,
    WISH,
)
from onlinecal.forecasters.binary.fixed import (
    CORNERS,
    FORMAT_FIXED,
    FREED,
    LIMIT,
    RATE,
    SHIFT,
    STAGE,
    UNEVEN,
    WEIGHT,
    nested_like,
)
from onlinecal.forecasters.binary.fixed import SHARED as FIXED_SHARED
from onlinecal.forecasters.rules import SLACK_WITHOUT_HINTS

if TYPE_CHECKING:
    from onlinecal.forecasters.binary.grid import GridForecaster

SETTINGS = (*range(FORMAT, FINE + 1), HINTED, LATE, GROWS)
MOST_LATE = 1 << 40
FIXED_SETTINGS = (SHIFT, FREED, FIXED_SHARED, RATE, WEIGHT, CORNERS, STAGE, LIMIT, END)
DYADIC_SETTINGS = (PRICE, PACE, BOUND)


def check_grid_memory(memory: Any, forecaster: GridForecaster) -> None:
    """ValueError unless a machine can play on the memory, begun with the parameters of the forecaster."""
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > TABLE, "its length")
    fresh, head = forecaster.memory, memory[:TABLE].tolist()
    stays = fresh[FORMAT] == FORMAT_FIXED
    if stays and fresh[STAGE]:
        fresh = nested_like(memory, forecaster.slack or SLACK_WITHOUT_HINTS)
    elif stays and head[FIXED_SHARED]:
        fresh = forecaster._refined(fresh)
    if fresh[GROWS] and 0 < head[LATE] <= MOST_LATE:
        fresh = fresh.copy()
        forecaster.machine.rules.note_late(fresh, head[LATE])
    like = fresh[:TABLE].tolist()
    settings = (*SETTINGS, *(FIXED_SETTINGS if stays else DYADIC_SETTINGS))
    require(all(head[place] == like[place] for place in settings), "what its configuration says")
    require(0 <= head[ROUNDS] <= MOST_ROUNDS, "its rounds")
    scale, lower, step = head[SCALE], head[LOWER], head[STEP]
    end, below = head[END], head[BELOW]
    require(TABLE + 4 <= end <= len(memory) and end % 2 == 0, "the end of its table")
    points = memory[TABLE:end:2]
    cell = tuple(TABLE + 2 * int(place) for place in np.searchsorted(points, (lower, lower + step)))
    require(0 <= lower <= scale - step and below == cell[0], "its cell")
    if stays:
        require(len(fresh) == end and bool((points == fresh[TABLE::2]).all()), "its points")
        require(bool(fresh[STAGE]) or len(memory) == end, "its length")
        require((int(memory[below]), int(memory[below + 2])) == (lower, lower + step), "its cell")
    else:
        require(head[TUNED] & ~SHARED == like[TUNED], "what its configuration says")
        for size in (step, head[BASE], head[WISH]):
            require(0 < size <= scale and size & (size - 1) == 0, "its grids")
        require((int(points[0]), int(points[-1])) == (0, scale), "its outermost points")
        require(bool((points[1:] > points[:-1]).all()), "the order of its points")
        require(head[ABOVE] == cell[1] and lower % step == 0, "its cell")
    # every search for a valid cell ends at the outermost points, which are never biased
    ends = int(memory[TABLE + 1]), int(memory[end - 1])
    require(ends == (0, head[TILT] * scale), "its outermost points")


def check_cells(rounds: Iterable[tuple[Any, Any]], memory: NDArray[np.int64]) -> None:
    """ValueError unless rounds that wait, cells (lower end, step) with their forecasts, can be settled.

    On a graded grid their ends are neighbours, or were before a nested grid's cells were divided; once wide
    cells were split for shares, two points with 1/2 not between them.
    """
    scale = int(memory[SCALE])
    most, uneven = scale, memory[FORMAT] == FORMAT_FIXED and memory[SHIFT] == UNEVEN
    if memory[FORMAT] == FORMAT_FIXED and not uneven:
        most = int(memory[STEP])
    points = memory[TABLE : memory[END] : 2].tolist() if uneven else []
    places = {point: place for place, point in enumerate(points)}
    for (lower, step), forecast in rounds:
        if not (
            type(lower) is type(step) is int
            and 0 < step <= most
            and 0 <= lower <= scale - step
            and (_was_cell(places, lower, step, memory) if uneven else not (step | lower) & (step - 1))
            and type(forecast) is float
            and 0.0 <= forecast <= 1.0
        ):
            raise ValueError(
                f"the forecast {forecast!r} in the cell {(lower, step)!r} cannot be that of any run"
            )


def _was_cell(places: dict[int, int], lower: int, step: int, memory: NDArray[np.int64]) -> bool:
    """Whether a graded grid may have had this cell; `places` has the numbers of its points."""
    first, last = places.get(lower, -1), places.get(lower + step, -1)
    if first < 0 or last < 0:
        return False
    if memory[FIXED_SHARED]:
        return 2 * lower >= memory[SCALE] or 2 * (lower + step) <= memory[SCALE]
    cells = last - first
    return cells < 1 << max(1, memory[STAGE]) and cells & (cells - 1) == 0 and first % cells == 0


def require(holds: bool, what: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(f"{what} cannot be that of any run")
