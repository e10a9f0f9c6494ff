"""Whether a grid can be played on a memory that came from outside.

Compiled code does not check the bounds of an array, and a wrong number may keep it in a loop for ever.
Whoever takes in a memory (from a ledger, a checkpoint, a pickle) asks here first: the settings must be those
of the forecaster, and every number that is an index or ends a loop must be in its range. A memory that passes
may still tell of rounds that never were.

The checks only read. `fresh` is a new memory of the same settings: what a round never changes must be equal
there. `GridForecaster` asks for pickles, and the engine (`engine/keys/key_arrays.py`) for ledgers. A grid
says in `SETTINGS` and `check_grid` what it wants checked; a field that is an index must be checked in one of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.forecasters.binary import cells
from onlinecal.forecasters.binary.cells import TABLE
from onlinecal.forecasters.binary.compiled import machine_of
from onlinecal.forecasters.binary.guarantees import MOST_PROMISED
from onlinecal.restoring import CHANGED, DAMAGED, require

COMMON_SETTINGS = *range(cells.FORMAT, cells.FINE + 1), cells.HINTED, cells.LATE, cells.GROWING_SLACK
MOST_LATE = 1 << 40


def check_grid_memory(memory: Any, fresh: Ints, slack: float) -> None:
    """ValueError unless the memory can be that of a forecaster which began with `fresh`, of that slack."""
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > TABLE, "its length")
    grid, head = machine_of(fresh).rules, memory[:TABLE].tolist()
    if grid.takes_shares(memory):
        fresh = grid.refined(fresh, slack)
    if fresh[cells.GROWING_SLACK] and 0 < head[cells.LATE] <= MOST_LATE:
        fresh = fresh.copy()
        grid.note_late(fresh, head[cells.LATE])
    like = fresh[:TABLE].tolist()
    settings = *COMMON_SETTINGS, *grid.SETTINGS
    require(all(head[place] == like[place] for place in settings), "what its configuration says")
    require(0 <= head[cells.ROUNDS] <= MOST_PROMISED, "its rounds")
    scale, end = head[cells.SCALE], head[cells.END]
    require(TABLE + 4 <= end <= len(memory) and end % 2 == 0, "the end of its table")
    points = memory[TABLE:end:2]
    require((int(points[0]), int(points[-1])) == (0, scale), "its outermost points")
    require(bool((points[1:] > points[:-1]).all()), "the order of its points")
    # every search for a valid cell ends at the outermost points, which are never biased
    ends = int(memory[TABLE + 1]), int(memory[end - 1])
    require(ends == (0, head[cells.TILT] * scale), "its outermost points")
    lower, step = head[cells.LOWER], head[cells.STEP]
    require(0 <= lower <= scale - step and step > 0, "its cell")
    require(head[cells.BELOW] == TABLE + 2 * int(np.searchsorted(points, lower)), "its cell")
    # without a hint a search begins at this middle
    require(0 < head[cells.LAST_MIDDLE] < 2 * scale, "its last round")
    grid.check_grid(memory, fresh)


def check_cells(rounds: Iterable[tuple[Any, Any]], memory: Ints) -> None:
    """ValueError unless rounds that wait, cells (lower end, step) with their forecasts, can be settled."""
    scale, grid = int(memory[cells.SCALE]), machine_of(memory).rules
    for (lower, step), forecast in rounds:
        fits = type(lower) is type(step) is int and 0 < step <= scale and 0 <= lower <= scale - step
        is_forecast = type(forecast) is float and 0.0 <= forecast <= 1.0
        if not (fits and is_forecast and grid.is_cell(memory, lower, step)):
            raise ValueError(
                f"{DAMAGED}the forecast {forecast!r} in the cell {(lower, step)!r} cannot be that of any "
                f"run{CHANGED}"
            )
