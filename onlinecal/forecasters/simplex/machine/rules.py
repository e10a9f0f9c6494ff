"""Almost-One-Step-Ahead for k classes: forecasts on the simplex, charged to the vertices of a full cell.

The machine keeps a current cell whose k vertices are labelled with all k classes (see `walk`),
announces its barycentre and charges a round with outcome j to the vertex labelled j. By the labelling
rule (`labels`) no bias leaves (-1, 1), and only the charged point can change its label. With a hint it
announces another full cell, one near the hint, and the barycentre of that or its point towards the hint
(`report`); the current cell stays.

These rules stand here only. A loop plays rounds by `RULES`; a round that waits for its label far from
the loop keeps its exact cell, and is then charged by `charge_point`. A memory serves a fixed number of
classes on a fixed grid; `new_memory` and `rebuilt` make one, and `begin` must be run on it before the first
round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from onlinecal.compiling import kernel_part, uncounted
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.machine.labels import book, is_overdrawn
from onlinecal.forecasters.simplex.machine.near import full_cell_near
from onlinecal.forecasters.simplex.machine.report import move_inside
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CHANGES,
    CLASSES,
    FINE,
    HERE,
    KEYS,
    LABELS,
    LIMIT,
    MOVED,
    POINT,
    REPORT,
    ROUNDS,
    SCALE,
    SLACK,
    SPREAD,
    STEP,
    SUMS,
    USED,
    Memory,
    capacity,
    key_of,
    part_of,
    point_of,
    record_of,
    rehash,
    units,
    vertex_at,
)
from onlinecal.forecasters.simplex.machine.walk import change_places, doors, restart, set_anchor, twin_of


class MulticlassRules(NamedTuple):
    """What a compiled loop needs to know of a forecaster of several classes; `memory` is one flat array.

    has_room(memory) -> bool: whether one more round may be played on this memory.
    announce(memory, hint, forecast) -> frame: write the forecast, k probabilities; an empty hint is none.
    The frame is a number that the others take.
    certificate_rises(memory, frame, forecast, rises): write how much it would rise for each outcome.
    point(memory, frame, forecast, outcome, charged): write the point that the round is charged to.
    settle(memory, frame, forecast, outcome): settle the round.
    """

    has_room: Callable[..., bool]
    announce: Callable[..., int]
    certificate_rises: Callable[..., None]
    point: Callable[..., None]
    settle: Callable[..., None]


@uncounted
def begin(memory: Memory) -> None:
    """Index the records and find the first cell, near the barycentre that the current frame holds."""
    rehash(memory)
    start_afresh(memory)


@uncounted
def start_afresh(memory: Memory) -> None:
    """Make a full cell current, found from the barycentre that the current frame holds."""
    set_anchor(memory, memory[HERE] + SUMS)
    restart(memory, False)
    change_places(memory)


@uncounted
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    return bool(memory[MOVED] < BRIM and memory[SPREAD] < BRIM and memory[BALANCE] < BRIM)


@uncounted
def has_room(memory: Memory) -> bool:
    """Whether a point that was never charged still fits, and grid and integers serve one more round."""
    return bool(memory[USED] < capacity(memory) and memory[ROUNDS] < memory[LIMIT] and bears(memory))


@kernel_part
def announce(memory: Memory, hint: Any, forecast: Any) -> int:
    """Write the forecast of the coming round; the frame of its cell, the current one without a hint."""
    if len(hint) > 0:
        return announce_near(memory, hint, forecast)
    write_barycentre(memory, memory[HERE], forecast)
    return memory[HERE]


@kernel_part
def announce_near(memory: Memory, hint: Any, forecast: Any) -> int:
    """Write the forecast of a round with a hint, a probability for each class; the frame of its cell.

    With a slack the labels lean towards the hint as far as that allows.
    """
    target, k = point_of(memory), memory[CLASSES]
    parts = k * memory[SCALE]
    for c in range(k):
        memory[target + c] = int(hint[c] * parts + 0.5)
    if memory[REPORT] > 0:
        frame = full_cell_near(memory, target)
        move_inside(memory, frame, hint, forecast)
    else:
        set_anchor(memory, target)
        frame = restart(memory, memory[SLACK] > 0)
        write_barycentre(memory, frame, forecast)
    return frame


@uncounted
def write_barycentre(memory: Memory, frame: int, forecast: Any) -> None:
    """Write the barycentre of a frame's cell."""
    parts = memory[CLASSES] * memory[SCALE]
    for c in range(memory[CLASSES]):
        forecast[c] = memory[frame + SUMS + c] / parts


@uncounted
def vertex_of(memory: Memory, frame: int, outcome: int) -> int:
    """The vertex of the frame's cell that is labelled with the outcome."""
    i, labels = 0, part_of(memory, frame, LABELS)
    while memory[labels + i] != outcome:
        i += 1
    return i


@uncounted
def from_barycentre(vertex: Any, x: int, sums: Any, s: int, k: int) -> int:
    """l1 distance to the vertex at x from the barycentre that has its sums at s, in units of 1/(k SCALE)."""
    distance = 0
    for c in range(k):
        distance += abs(k * vertex[x + c] - sums[s + c])
    return distance


@uncounted
def from_report(memory: Memory, vertex: Any, x: int, scale: int, forecast: Any, k: int) -> int:
    """l1 distance from a forecast to the vertex at x (units 1/scale), in units of MOVED, rounded up."""
    distance = 0.0
    for c in range(k):
        distance += abs(forecast[c] * scale - vertex[x + c])
    return math.ceil(distance * units(memory) / scale)


@uncounted
def moved(memory: Memory, frame: int, forecast: Any, i: int) -> int:
    """How far vertex i of a frame's cell is from what was announced there, in units of MOVED."""
    x, k = vertex_at(memory, frame, i), memory[CLASSES]
    if frame != memory[HERE] and memory[REPORT] > 0:
        return from_report(memory, memory, x, memory[SCALE], forecast, k)
    return from_barycentre(memory, x, memory, frame + SUMS, k) * memory[FINE]


@uncounted
def point(memory: Memory, frame: int, forecast: Any, outcome: int, charged: Any) -> None:
    """Write the vertex that a round with that outcome is charged to."""
    x = vertex_at(memory, frame, vertex_of(memory, frame, outcome))
    for c in range(memory[CLASSES]):
        charged[c] = memory[x + c] / memory[SCALE]


@uncounted
def settle(memory: Memory, frame: int, forecast: Any, outcome: int) -> None:
    """Charge a round that was announced as this forecast in that frame's cell, while `has_room`."""
    i = vertex_of(memory, frame, outcome)
    charge(memory, frame, i, outcome, moved(memory, frame, forecast, i))


@uncounted
def settle_current(memory: Memory, outcome: int) -> None:
    """Charge a round that was announced as the barycentre of the current cell, while `has_room`."""
    here = memory[HERE]
    i = vertex_of(memory, here, outcome)
    x = vertex_at(memory, here, i)
    distance = from_barycentre(memory, x, memory, here + SUMS, memory[CLASSES])
    charge(memory, here, i, outcome, distance * memory[FINE])


@uncounted
def charge(memory: Memory, frame: int, i: int, outcome: int, away: int) -> None:
    """Charge a round to vertex i of the frame's cell, so far `away` from what was announced."""
    x, key = vertex_at(memory, frame, i), memory[part_of(memory, frame, KEYS) + i]
    label = book(memory, x, key, outcome, away)
    if frame != memory[HERE]:
        follow(memory, x, key, label)
    elif label != outcome:
        relabel(memory, i, label)
    return_to_base(memory)


@uncounted
def charge_point(memory: Memory, outcome: int, away: int) -> None:
    """Charge a round to the point in `point_of`, so far `away` from its forecast, while `has_room`."""
    x = point_of(memory)
    key = key_of(memory, x)
    follow(memory, x, key, book(memory, x, key, outcome, away))
    return_to_base(memory)


@uncounted
def return_to_base(memory: Memory) -> None:
    """Go on on the base grid if the account of a grid that tunes itself asks for it."""
    if memory[BASE] > 0 and is_overdrawn(memory):
        memory[STEP] = memory[BASE]
        start_afresh(memory)


@uncounted
def follow(memory: Memory, x: int, key: int, label: int) -> None:
    """Tell the current cell the label of the point at x, if that is one of its vertices."""
    k, here = memory[CLASSES], memory[HERE]
    keys, labels = part_of(memory, here, KEYS), part_of(memory, here, LABELS)
    for i in range(k):
        if memory[keys + i] != key or memory[labels + i] == label:
            continue
        c, vertex = 0, vertex_at(memory, here, i)
        while c < k and memory[vertex + c] == memory[x + c]:
            c += 1
        if c == k:
            relabel(memory, i, label)
            return


@uncounted
def relabel(memory: Memory, i: int, label: int) -> None:
    """Give vertex i of the current cell another label and walk to a cell that is full again."""
    here = memory[HERE]
    memory[part_of(memory, here, LABELS) + i] = label
    memory[CHANGES] += 1
    if not doors(memory, i, twin_of(memory, here, memory[CLASSES], i)):
        start_afresh(memory)


@uncounted
def certificate_rises(memory: Memory, frame: int, forecast: Any, rising: Any) -> None:
    """Write by how much each outcome would raise the certificate."""
    k, scale = memory[CLASSES], memory[SCALE]
    for outcome in range(k):
        i = vertex_of(memory, frame, outcome)
        x = vertex_at(memory, frame, i)
        record = record_of(memory, x, memory[part_of(memory, frame, KEYS) + i])
        spread = 0
        for c in range(k):
            old = memory[record + POINT + k + c] if record >= 0 else 0
            spread += abs(old + memory[x + c] - (scale if c == outcome else 0)) - abs(old)
        rising[outcome] = moved(memory, frame, forecast, i) / units(memory) + spread / scale


RULES = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of the simplex machine."""
