"""Compiled entry points of the simplex machine: one event, or a whole stream, in one call.

An entry point that finds no room changes nothing and says so: then the table must grow or the grid change,
which is done outside compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.forecasters.simplex import machine as simplex
from onlinecal.forecasters.simplex import report as simplex_report
from onlinecal.forecasters.simplex.table import CLASSES, HERE, REPORT, SCALE, point_of, rehash


class SimplexMachine(NamedTuple):
    """The entry points.

    reindex(memory): fill the slots of a memory that was enlarged.
    begin(memory): make a new or rebuilt memory ready to play.
    advance(memory, outcome) -> bool: charge the current cell; False if there is no room.
    issue(memory, hint) -> frame: the cell to announce; an empty hint asks for the current one.
    follow(memory, frame, hint, vector): the point of the frame's cell towards the hint.
    settle(memory, point, outcome, moved) -> bool: charge a round to a point; False if there is no room.
    replay(memory, outcomes, hints, forecasts, charged, start) -> rounds done: from row `start` until the
    end or until there is no room; fills the forecasts (and the charged points, unless that array is
    empty), of shape (T, k).
    """

    reindex: Callable[..., None]
    begin: Callable[..., None]
    advance: Callable[..., bool]
    issue: Callable[..., int]
    follow: Callable[..., None]
    settle: Callable[..., bool]
    replay: Callable[..., int]


def compile_simplex() -> SimplexMachine:
    """The entry points; each is compiled, or loaded from the cache, at its first call."""
    has_room, propose, charge, charge_point = (
        simplex.has_room,
        simplex.propose,
        simplex.charge,
        simplex.settle,
    )
    aim, prepare, vertex_of = simplex.aim, simplex.begin, simplex.vertex_of
    charge_vertex, move_inside, way_to = (
        simplex.charge_vertex,
        simplex_report.move_inside,
        simplex_report.way_to,
    )

    @compiled
    def reindex(memory: NDArray[np.int64]) -> None:
        rehash(memory)

    @compiled
    def begin(memory: NDArray[np.int64]) -> None:
        prepare(memory)

    @compiled
    def advance(memory: NDArray[np.int64], outcome: int) -> bool:
        if not has_room(memory):
            return False
        charge(memory, memory[HERE], outcome)
        return True

    @compiled
    def issue(memory: NDArray[np.int64], hint: NDArray[np.float64]) -> int:
        if len(hint) == 0:
            return memory[HERE]
        aim(memory, hint)
        return propose(memory)

    @compiled
    def settle(memory: NDArray[np.int64], point: NDArray[np.int64], outcome: int, moved: int) -> bool:
        if not has_room(memory):
            return False
        target = point_of(memory)
        for c in range(len(point)):
            memory[target + c] = point[c]
        charge_point(memory, outcome, moved)
        return True

    @compiled
    def replay(
        memory: NDArray[np.int64],
        outcomes: NDArray[np.int64],
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        charged: NDArray[np.float64],
        start: int,
    ) -> int:
        k, scale = memory[CLASSES], memory[SCALE]
        hinted, traced = len(hints) > 0, len(charged) > 0
        followed = hinted and memory[REPORT] == 1
        for t in range(start, len(outcomes)):
            if not has_room(memory):
                return t
            frame = memory[HERE]
            if hinted:
                aim(memory, hints[t])
                frame = propose(memory)
            i = vertex_of(memory, frame, outcomes[t])
            if traced:
                x = frame + 5 + 5 * k + i * k
                for c in range(k):
                    charged[t, c] = memory[x + c] / scale
            if followed:
                move_inside(memory, frame, hints[t], forecasts[t])
                charge_vertex(memory, frame, i, outcomes[t], way_to(memory, frame, i, forecasts[t]))
                continue
            for c in range(k):
                forecasts[t, c] = memory[frame + 1 + c] / (k * scale)
            charge(memory, frame, outcomes[t])
        return len(outcomes)

    @compiled
    def follow(
        memory: NDArray[np.int64], frame: int, hint: NDArray[np.float64], vector: NDArray[np.float64]
    ) -> None:
        move_inside(memory, frame, hint, vector)

    return SimplexMachine(reindex, begin, advance, issue, follow, settle, replay)


MACHINE = compile_simplex()
"""The simplex machine; the array of forecasts may have more columns than there are classes."""
