"""Compiled entry points of the simplex machine: one event, or a whole stream, in one call.

An entry point that finds no room changes nothing and says so: then the table must grow or the grid change,
which is done outside compiled code.

Compiled entry points of the simplex machine for soft labels: one round, or a whole stream, in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters.simplex.machine import rules, soft, windows
from onlinecal.forecasters.simplex.machine.cells import (
    CELL_SCALE,
    bears_surely,
    write_cell,
    write_sums,
    write_vertex,
)
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    HERE,
    LIMIT,
    MOVED,
    REPORT,
    ROUNDS,
    SCALE,
    key_of,
    point_of,
    rehash,
    units,
)


class SimplexMachine(NamedTuple):
    """The entry points; `table` is a window's (see `windows`), which is to take the rounds in, or empty.

    reindex(memory): fill the slots of a memory that was enlarged.
    begin(memory): make a new or rebuilt memory ready to play.
    advance(memory, table, outcome) -> bool: charge the current cell; False if there is no room.
    issue(memory, hint, forecast, cell) -> frame: fill the forecast, shape (k,), and the cell, shape
    (cell_size(k),) or (0,) if it is not wanted; the frame of its cell. -1 if another grid is due.
    settle(memory, table, point, outcome, away) -> bool: charge a round to a point; False if there is no
    room.
    settle_cell(memory, table, cell, forecast, outcome, sure) -> bool: charge a round that was announced as
    this forecast in a cell, when there may have been fewer classes; False if there is no room, or unless it
    is sure (to the caller, or at a glance) that one more round is borne.
    replay(memory, table, outcomes, hints, forecasts, charged, start) -> rounds done: from row `start` until
    the end or until there is no room; fills the forecasts (and the charged points, unless that array is
    empty), of shape (T, k).
    """

    reindex: Callable[..., None]
    begin: Callable[..., None]
    advance: Callable[..., bool]
    issue: Callable[..., int]
    settle: Callable[..., bool]
    settle_cell: Callable[..., bool]
    replay: Callable[..., int]


def compile_simplex() -> SimplexMachine:
    """The entry points; each is compiled, or loaded from the cache, at its first call."""
    has_room, announce, _, point, settle_round = rules.RULES
    announce_near, write_barycentre = rules.announce_near, rules.write_barycentre
    from_report, from_barycentre = rules.from_report, rules.from_barycentre
    prepare, settle_current, charge_point = rules.begin, rules.settle_current, rules.charge_point
    fits, number_in, number_of, note = windows.fits, windows.number_in, windows.number_of, windows.note

    @compiled
    def reindex(memory: NDArray[np.int64]) -> None:
        rehash(memory)

    @compiled
    def begin(memory: NDArray[np.int64]) -> None:
        prepare(memory)

    @compiled
    def advance(memory: NDArray[np.int64], table: NDArray[np.int64], outcome: int) -> bool:
        if not (has_room(memory) and fits(memory, table, 1)):
            return False
        moved, windowed = memory[MOVED], len(table) > 0
        number = number_in(memory, memory[HERE], outcome) if windowed else 0
        settle_current(memory, outcome)
        if windowed:
            note(memory, table, number, outcome, moved)
        return True

    @compiled
    def issue(
        memory: NDArray[np.int64],
        hint: NDArray[np.float64],
        forecast: NDArray[np.float64],
        cell: NDArray[np.int32],
    ) -> int:
        if memory[ROUNDS] >= memory[LIMIT]:
            return -1
        frame = announce(memory, hint, forecast)
        if len(cell) > 0:
            write_cell(memory, frame, cell)
        return frame

    @compiled
    def settle(
        memory: NDArray[np.int64],
        table: NDArray[np.int64],
        point: NDArray[np.int64],
        outcome: int,
        away: int,
    ) -> bool:
        if not (has_room(memory) and fits(memory, table, 1)):
            return False
        target = point_of(memory)
        for c in range(len(point)):
            memory[target + c] = point[c]
        moved, windowed = memory[MOVED], len(table) > 0
        number = number_of(memory, target, key_of(memory, target)) if windowed else 0
        charge_point(memory, outcome, away)
        if windowed:
            note(memory, table, number, outcome, moved)
        return True

    @compiled
    def settle_cell(
        memory: NDArray[np.int64],
        table: NDArray[np.int64],
        cell: NDArray[np.int32],
        forecast: NDArray[np.float64],
        outcome: int,
        sure: bool,
    ) -> bool:
        if not (has_room(memory) and fits(memory, table, 1) and (sure or bears_surely(memory))):
            return False
        known, target, scale = len(forecast), point_of(memory), cell[CELL_SCALE]
        write_vertex(cell, known, outcome, memory, target)
        if memory[REPORT] > 0:
            away = from_report(memory, memory, target, scale, forecast, known)
        else:
            sums = np.empty(known, np.int64)
            write_sums(cell, known, sums)
            distance = from_barycentre(memory, target, sums, 0, known)
            away = -(-distance * units(memory) // (known * scale))
        factor = memory[SCALE] // scale
        for c in range(known):
            memory[target + c] *= factor
        for c in range(known, memory[CLASSES]):
            memory[target + c] = 0
        moved, windowed = memory[MOVED], len(table) > 0
        number = number_of(memory, target, key_of(memory, target)) if windowed else 0
        charge_point(memory, outcome, away)
        if windowed:
            note(memory, table, number, outcome, moved)
        return True

    @compiled
    def replay(
        memory: NDArray[np.int64],
        table: NDArray[np.int64],
        outcomes: NDArray[np.int64],
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        charged: NDArray[np.float64],
        start: int,
    ) -> int:
        memory, forecasts, charged = borrowed(memory), borrowed(forecasts), borrowed(charged)
        hints, table = borrowed(hints), borrowed(table)
        hinted, traced, windowed = len(hints) > 0, len(charged) > 0, len(table) > 0
        number = moved = 0
        for t in range(start, len(outcomes)):
            if not has_room(memory) or (windowed and not fits(memory, table, 1)):
                return t
            forecast = forecasts[t]
            # as `announce` does; here, since a view of a hint that may be none costs 6 % of a round
            if hinted:
                frame = announce_near(memory, hints[t], forecast)
            else:
                frame = memory[HERE]
                write_barycentre(memory, frame, forecast)
            if traced:
                point(memory, frame, forecast, outcomes[t], charged[t])
            if windowed:
                number, moved = number_in(memory, frame, outcomes[t]), memory[MOVED]
            settle_round(memory, frame, forecast, outcomes[t])
            if windowed:
                note(memory, table, number, outcomes[t], moved)
        return len(outcomes)

    return SimplexMachine(reindex, begin, advance, issue, settle, settle_cell, replay)


MACHINE = compile_simplex()
"""The simplex machine; the array of forecasts may have more columns than there are classes."""


class SoftMachine(NamedTuple):
    """The entry points, as those of `SimplexMachine`; outcomes are weights that add up to `parts`.

    settle(memory, table, points, distances, weights, parts, way, rounded) -> bool: `soft.settle_parts`;
    False, and nothing changed, if there is no room.
    replay(memory, table, weights, rounded, parts, hints, forecasts, start) -> rounds done: weights of shape
    (T, k), and how far each true outcome is from them, (T,).
    """

    settle: Callable[..., bool]
    replay: Callable[..., int]


def compile_soft() -> SoftMachine:
    """The entry points; each is compiled, or loaded from the cache, at its first call."""
    has_room, lay_out, settle_parts = soft.has_room_for_parts, soft.lay_out, soft.settle_parts
    announce = rules.announce

    @compiled
    def settle(
        memory: Ints,
        table: Ints,
        points: Ints,
        distances: Ints,
        weights: Ints,
        parts: int,
        way: int,
        rounded: float,
    ) -> bool:
        if not has_room(memory, table, parts):
            return False
        numbers = np.empty(len(weights), np.int64)
        settle_parts(memory, table, points, distances, weights, parts, way, rounded, numbers)
        return True

    @compiled
    def replay(
        memory: Ints,
        table: Ints,
        weights: Ints,
        rounded: Floats,
        parts: int,
        hints: Floats,
        forecasts: Floats,
        start: int,
    ) -> int:
        memory, forecasts = borrowed(memory), borrowed(forecasts)
        weights, hints = borrowed(weights), borrowed(hints)
        k, hinted = weights.shape[1], len(hints) > 0
        points, distances, none = np.empty(k * k + k, np.int64), np.empty(k + 1, np.int64), np.empty(0)
        numbers, table = np.empty(k, np.int64), borrowed(table)
        for t in range(start, len(weights)):
            if not has_room(memory, table, parts):
                return t
            frame = announce(memory, hints[t] if hinted else none, forecasts[t])
            way = lay_out(memory, frame, forecasts[t], weights[t], parts, points, distances)
            row = weights[t]
            settle_parts(memory, table, points, distances, row, parts, way, rounded[t], numbers)
        return len(weights)

    return SoftMachine(settle, replay)


SOFT_MACHINE = compile_soft()
"""Of memories whose scale is a multiple of the parts; the array of forecasts may have more columns."""
