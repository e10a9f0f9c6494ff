"""The compiled entry points of the simplex machine: one event, or a whole stream, in one call.

An entry point that finds no room changes nothing and says so: then the table must grow or the grid change,
which is done outside compiled code. `table` is a window's (see `windows`), which is to take the rounds in, or
empty. An outcome is the number of a class; or `weights` count, one a class, which add up to `parts`, and
`rounded` is how far the true outcome is from them in l1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters.simplex.input import MIXED
from onlinecal.forecasters.simplex.machine.cells import CELL_SCALE, bears_surely, write_cell, write_sums
from onlinecal.forecasters.simplex.machine.rules import (
    announce,
    announce_near,
    charge_point,
    has_room,
    has_room_for,
    lay_out,
    lay_out_cell,
    point,
    settle_noted,
    settle_parts,
    vertex_in,
    write_barycentre,
)
from onlinecal.forecasters.simplex.machine.rules import begin as prepare
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    HERE,
    LIMIT,
    ROUNDS,
    SCALE,
    point_of,
)
from onlinecal.forecasters.simplex.machine.windows import fits


@compiled
def begin(memory: Ints) -> None:
    """Make a new or rebuilt memory ready to play."""
    prepare(memory)


@compiled
def advance(memory: Ints, table: Ints, outcome: int) -> bool:
    """Charge the current cell; False if there is no room."""
    if not has_room_for(memory, table, 1):
        return False
    settle_noted(memory, table, memory[HERE], memory, outcome)
    return True


@compiled
def issue(memory: Ints, hint: Floats, forecast: Floats, cell: NDArray[np.int32]) -> int:
    """Fill the forecast, shape (k,), and the cell, shape (cell_size(k),) or (0,) if it is not wanted.

    The frame of its cell; -1 if another grid is due.
    """
    if memory[ROUNDS] >= memory[LIMIT]:
        return -1
    frame = announce(memory, hint, forecast)
    if len(cell) > 0:
        write_cell(memory, frame, cell)
    return frame


@compiled
def settle(
    memory: Ints,
    table: Ints,
    cell: NDArray[np.int32],
    forecast: Floats,
    outcome: int,
    weights: Ints,
    parts: int,
    rounded: float,
    sure: bool,
) -> bool:
    """Charge a round that was announced as this forecast in a cell, when there may have been fewer classes.

    The weights have shape (k,), or (0,) if the outcome is a class. False if there is no room, or unless it is
    sure (to the caller, or at a glance) that one more round is borne.
    """
    k, known, mixed = memory[CLASSES], len(forecast), len(weights) > 0
    if not (has_room_for(memory, table, max(1, len(weights))) and (sure or bears_surely(memory))):
        return False
    sums, target = np.empty(known, np.int64), point_of(memory)
    if known > 0:
        write_sums(cell, known, memory[SCALE] // cell[CELL_SCALE], sums)
    if mixed:
        points, distances = np.empty(k * k + k, np.int64), np.empty(2 * k + 1, np.int64)
        way = lay_out_cell(memory, cell, forecast, weights, parts, points, distances, sums)
        is_new = False
        for c in range(known, k):
            is_new |= weights[c] > 0
        settle_parts(memory, table, points, distances, weights, parts, way, rounded, is_new)
        return True
    away = vertex_in(memory, cell, forecast, outcome, memory, target, sums)
    charge_point(memory, table, outcome, away, outcome >= known)
    return True


@compiled
def replay(
    memory: Ints,
    table: Ints,
    outcomes: Ints,
    weights: Ints,
    parts: int,
    rounded: Floats,
    hints: Floats,
    forecasts: Floats,
    charged: Floats,
    start: int,
) -> int:
    """Play from row `start` until the end or until there is no room; how many rounds are done.

    Where an outcome is MIXED its row of `weights`, shape (T, k), counts. Fills the forecasts, and the charged
    points unless that array is empty, of shape (T, k) or with more columns.
    """
    memory, forecasts, charged = borrowed(memory), borrowed(forecasts), borrowed(charged)
    hints, table, weights = borrowed(hints), borrowed(table), borrowed(weights)
    hinted, traced, windowed = len(hints) > 0, len(charged) > 0, len(table) > 0
    k = weights.shape[1]
    points, distances = np.empty(k * k + k, np.int64), np.empty(2 * k + 1, np.int64)
    for t in range(start, len(outcomes)):
        outcome, forecast = outcomes[t], forecasts[t]
        if not has_room(memory) or (windowed and not fits(memory, table, 1)):
            return t
        if outcome == MIXED and not has_room_for(memory, table, k):
            return t
        # as `announce` does; here, since a view of a hint that may be none costs 6 % of a round
        if hinted:
            frame = announce_near(memory, hints[t], forecast)
        else:
            frame = memory[HERE]
            write_barycentre(memory, frame, forecast)
        if outcome == MIXED:
            way = lay_out(memory, frame, forecast, weights[t], parts, points, distances)
            settle_parts(memory, table, points, distances, weights[t], parts, way, rounded[t], False)
            continue
        if traced:
            point(memory, frame, forecast, outcome, charged[t])
        settle_noted(memory, table, frame, forecast, outcome)
    return len(outcomes)
