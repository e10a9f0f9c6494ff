"""Almost-One-Step-Ahead for k classes: forecasts on the simplex, charged to the vertices of a full cell.

The machine keeps a current cell whose k vertices are labelled with all k classes (see `walk`), announces its
barycentre and charges a round with outcome j to the vertex labelled j. By the labelling rule (`memory`) no
bias leaves (-1, 1), and only the charged point can change its label. With a hint it announces another full
cell, one near the hint, and the barycentre of that or its point towards the hint (`cells`); the current cell
stays.

Duels play rounds by `RULES`, and all others by the compiled entry points at the end. An entry point that
finds no room changes nothing and answers NO_ROOM. Then the table must grow or the grid change, which is done
outside compiled code. A round that waits for its label keeps its exact cell, which is put into a frame again
to be charged (`cells`). A memory serves a fixed number of classes on a fixed grid; `make_ready` must be run
on it first.

*An outcome may be a soft label*, a distribution over the classes: a *weight* for each class, whole numbers
that add up to `parts`. All coordinates of points and the scale are multiples of `parts`, so that nothing is
rounded here. The round is charged

- to the outcome itself, which gets no bias, if that is in the announced cell;
- with two classes otherwise to the vertex labelled with the class on the outcome's side of the cell;
- else in parts: to the vertex labelled j the weight of class j with that class for its outcome.

A weight moves biases as a whole round would, but less far, so the labels keep their bounds
(docs/theory-simplex.md, section 15). A soft label that is one class is played as that class.

What a memory holds, and what is true of it between rounds, says `memory`. Of the functions here those whose
names begin with `settle` or `charge`, `advance` and `replay` charge a round; `announce` and `issue` write
only what a search for a cell writes; `certificate_rises`, `point` and all that give a distance read. A frame
that `announce` returned is good until the next `announce` or charge. A round in a compiled loop is
`has_room`, `announce`, then `settle`; one that waits is `issue`, which keeps the cell, and later
`settle_waiting`. `SimplexRun` makes memories ready when it puts another in place. Answers and cells follow
from the order of loops here, so an order may only change where changed answers are meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, compiled, interpreted_first, kernel_part, uncounted
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.rules import DONE, NO_ROOM
from onlinecal.forecasters.simplex.input import MIXED
from onlinecal.forecasters.simplex.machine import cells, walk
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import Memory
from onlinecal.forecasters.simplex.machine.windows import fits, note, note_parts, number_of

IN_PARTS, INSIDE, WHOLE = range(3)
"""How a round with a soft label is charged: in parts, to its outcome, or to one of two vertices."""


class MulticlassRules(NamedTuple):
    """The functions of a forecaster of several classes for compiled loops; `memory` is one flat array.

    has_room(memory) -> bool: whether one more round may be played on this memory. announce(memory, hint,
    forecast) -> frame: write the forecast, k probabilities. An empty hint means that there is none. The frame
    is a number that the other functions take. certificate_rises(memory, frame, forecast, rises): write how
    much it would rise for each outcome. point(memory, frame, forecast, outcome, charged): write the point
    that the round is charged to. settle(memory, frame, forecast, outcome): settle the round.
    """

    has_room: Callable[..., bool]
    announce: Callable[..., int]
    certificate_rises: Callable[..., None]
    point: Callable[..., None]
    settle: Callable[..., None]


@uncounted
def begin(memory: Memory) -> None:
    """Index the records and find the first cell, near the barycentre that the current frame holds."""
    layout.rehash(memory)
    start_afresh(memory)


@uncounted
def start_afresh(memory: Memory) -> None:
    """Make a full cell current, found from the barycentre that the current frame holds."""
    walk.set_anchor(memory, memory[layout.CURRENT_FRAME] + layout.SUMS)
    walk.restart(memory, False)
    walk.change_places(memory)


@uncounted
def has_room(memory: Memory) -> bool:
    """Whether another point still fits, and grid and integers serve one more round."""
    bears = memory[layout.MOVED] < BRIM and memory[layout.SPREAD] < BRIM and memory[layout.BALANCE] < BRIM
    serves = memory[layout.ROUNDS] < memory[layout.LIMIT]
    return bool(memory[layout.RECORDS_USED] < layout.capacity(memory) and serves and bears)


@uncounted
def has_room_for(memory: Memory, table: Memory, charges: int) -> bool:
    """The same for a round that is charged to so many points, and whether the window can note it."""
    fit = memory[layout.RECORDS_USED] + charges <= layout.capacity(memory)
    return bool(fit and has_room(memory) and fits(memory, table, charges))


@kernel_part
def announce(memory: Memory, hint: Any, forecast: Any) -> int:
    """Write the forecast of the coming round; returns its cell's frame, without a hint the current one."""
    if len(hint) > 0:
        return announce_near(memory, hint, forecast)
    write_barycentre(memory, memory[layout.CURRENT_FRAME], forecast)
    return memory[layout.CURRENT_FRAME]


@kernel_part
def announce_near(memory: Memory, hint: Any, forecast: Any) -> int:
    """Write the forecast of a round with a hint, a probability for each class; returns the frame of its cell.

    With a slack the labels lean towards the hint as far as that allows.
    """
    target, k = layout.point_of(memory), memory[layout.CLASSES]
    parts = k * memory[layout.SCALE]
    for c in range(k):
        memory[target + c] = int(hint[c] * parts + 0.5)
    if memory[layout.REPORT] > 0:
        frame = walk.full_cell_near(memory, target)
        cells.move_inside(memory, frame, hint, forecast)
    else:
        walk.set_anchor(memory, target)
        frame = walk.restart(memory, memory[layout.SLACK] > 0)
        write_barycentre(memory, frame, forecast)
    return frame


@uncounted
def write_barycentre(memory: Memory, frame: int, forecast: Any) -> None:
    """Write the barycentre of a frame's cell."""
    parts = memory[layout.CLASSES] * memory[layout.SCALE]
    for c in range(memory[layout.CLASSES]):
        forecast[c] = memory[frame + layout.SUMS + c] / parts


@uncounted
def moved(memory: Memory, frame: int, forecast: Any, known: int, i: int) -> int:
    """How far vertex i of a frame's cell is from what was announced there, in units of MOVED.

    The forecast was for so many known classes; a class that it did not know is at the distance NEWCOMER.
    """
    if i >= known:
        return cells.NEWCOMER * layout.units(memory)
    return away_from(memory, frame, forecast, known, memory, layout.vertex_at(memory, frame, i))


@uncounted
def away_from(memory: Memory, frame: int, forecast: Any, known: int, points: Any, x: int) -> int:
    """How far the point at x of `points` is from what was announced in a frame's cell, in units of MOVED.

    The distance is in l1 and rounded up. From barycentres it is exact, unless classes have become known
    since.
    """
    if frame != memory[layout.CURRENT_FRAME] and memory[layout.REPORT] > 0:
        far, scale = 0.0, memory[layout.SCALE]
        for c in range(known):
            far += abs(forecast[c] * scale - points[x + c])
        return math.ceil(far * layout.units(memory) / scale)
    distance, sums = 0, frame + layout.SUMS
    for c in range(known):
        distance += abs(known * points[x + c] - memory[sums + c])
    distance *= memory[layout.FINE]
    return distance if known == memory[layout.CLASSES] else -(-distance * memory[layout.CLASSES] // known)


@uncounted
def point(memory: Memory, frame: int, forecast: Any, outcome: int, charged: Any) -> None:
    """Write the vertex that a round with that outcome is charged to."""
    x = layout.vertex_at(memory, frame, layout.vertex_of(memory, frame, outcome))
    for c in range(memory[layout.CLASSES]):
        charged[c] = memory[x + c] / memory[layout.SCALE]


@uncounted
def settle(memory: Memory, frame: int, forecast: Any, outcome: int) -> None:
    """Charge a round that was announced as this forecast in that frame's cell, while `has_room`."""
    i = layout.vertex_of(memory, frame, outcome)
    key = memory[layout.part_of(memory, frame, layout.KEYS) + i]
    away = moved(memory, frame, forecast, memory[layout.CLASSES], i)
    charge(memory, layout.vertex_at(memory, frame, i), key, outcome, away, False)


@uncounted
def settle_noted(memory: Memory, table: Memory, frame: int, forecast: Any, known: int, outcome: int) -> None:
    """The same for a forecast that knew so many classes, and the window, if there is one, notes it.

    For the current cell the forecast is not used.
    """
    i, before, number = layout.vertex_of(memory, frame, outcome), memory[layout.MOVED], 0
    x, key = layout.vertex_at(memory, frame, i), memory[layout.part_of(memory, frame, layout.KEYS) + i]
    if len(table) > 0:
        number = number_of(memory, x, key)
    charge(memory, x, key, outcome, moved(memory, frame, forecast, known, i), outcome >= known)
    if len(table) > 0:
        note(memory, table, number, outcome, before)


@uncounted
def charge(memory: Memory, x: int, key: int, outcome: int, away: int, spared: bool) -> None:
    """Charge a round to the point at x, so far `away` from its forecast; `spared` is as in `count`."""
    label = layout.book(memory, x, key, outcome, memory[layout.SCALE], memory, -1)
    layout.count(memory, away, spared)
    follow(memory, x, key, label)
    return_to_base(memory)


@uncounted
def return_to_base(memory: Memory) -> None:
    """Return to the base grid if the present one is finer and the balance does not cover that any more."""
    if memory[layout.STEP] < memory[layout.BASE] and memory[
        layout.BALANCE
    ] < layout.RESERVED_BIAS * layout.units(memory):
        memory[layout.STEP] = memory[layout.BASE]
        start_afresh(memory)


@uncounted
def follow(memory: Memory, x: int, key: int, label: int) -> None:
    """If the point at x is a vertex of the current cell, give it its new label and walk to a full cell."""
    k, here = memory[layout.CLASSES], memory[layout.CURRENT_FRAME]
    keys, labels = layout.part_of(memory, here, layout.KEYS), layout.part_of(memory, here, layout.LABELS)
    for i in range(k):
        if memory[keys + i] != key or memory[labels + i] == label:
            continue
        c, vertex = 0, layout.vertex_at(memory, here, i)
        while c < k and memory[vertex + c] == memory[x + c]:
            c += 1
        if c == k:
            memory[labels + i] = label
            memory[layout.CELL_CHANGES] += 1
            if not walk.doors(memory, i, walk.twin_of(memory, here, k, i)):
                start_afresh(memory)
            return


@uncounted
def certificate_rises(memory: Memory, frame: int, forecast: Any, rising: Any) -> None:
    """Write by how much each outcome would raise the certificate."""
    k, scale = memory[layout.CLASSES], memory[layout.SCALE]
    for outcome in range(k):
        i = layout.vertex_of(memory, frame, outcome)
        x = layout.vertex_at(memory, frame, i)
        record = layout.record_of(memory, x, memory[layout.part_of(memory, frame, layout.KEYS) + i])
        spread = 0
        for c in range(k):
            old = memory[record + layout.POINT + k + c] if record >= 0 else 0
            spread += abs(old + memory[x + c] - (scale if c == outcome else 0)) - abs(old)
        rising[outcome] = moved(memory, frame, forecast, k, i) / layout.units(memory) + spread / scale


@uncounted
def is_inside(sums: Any, s: int, k: int, unit: int, outcome: Any, y: int) -> bool:
    """Whether the point at y is in the cell, on the grid with that unit, that has its sums at s.

    In a cell the sum of the coordinates up to a class takes two neighbouring values. The barycentre's sum
    says at how many vertices it takes the higher one. The more there are, the higher the point's sum must be.
    """
    of_cell = of_point = 0
    for c in range(k - 1):
        of_cell += sums[s + c]
        of_point += outcome[y + c]
        number = of_cell // unit
        above, vertices = of_point - number // k * unit, number % k
        if above < 0 or above > unit:
            return False
        next_cell, next_point = of_cell, of_point
        for d in range(c + 1, k - 1):
            next_cell += sums[s + d]
            next_point += outcome[y + d]
            other = next_cell // unit
            higher = next_point - other // k * unit
            if (vertices - other % k) * (above - higher) < 0:
                return False
    return True


@uncounted
def lay_out(
    memory: Memory,
    frame: int,
    forecast: Any,
    known: int,
    unit: int,
    weights: Any,
    parts: int,
    points: Any,
    distances: Any,
) -> int:
    """Write the points that a round may be charged to in that frame's cell, on the grid with that unit.

    There are k + 1 rows of coordinates: the vertices by label, and the outcome. Their distances from the
    forecast are in units of MOVED. Returns how the round is charged.
    """
    k, grain = memory[layout.CLASSES], memory[layout.SCALE] // parts
    for j in range(k):
        i = layout.vertex_of(memory, frame, j)
        x = layout.vertex_at(memory, frame, i)
        for c in range(k):
            points[j * k + c] = memory[x + c]
        distances[j] = moved(memory, frame, forecast, known, i)
        points[k * k + j] = weights[j] * grain
    if known < k:
        return IN_PARTS
    distances[k] = away_from(memory, frame, forecast, k, points, k * k)
    return way_of(memory, frame + layout.SUMS, k, unit, memory[layout.SCALE], points)


@uncounted
def way_of(sums: Any, s: int, k: int, unit: int, scale: int, points: Any) -> int:
    """How a round with the outcome in the last of the rows is charged in the cell that has its sums at s."""
    for c in range(k):
        if points[k * k + c] == scale:
            # one class has all the weight, perhaps because of rounding
            return IN_PARTS
    if is_inside(sums, s, k, unit, points, k * k):
        return INSIDE
    return WHOLE if k == 2 else IN_PARTS


@uncounted
def settle_parts(
    memory: Memory,
    table: Memory,
    points: Any,
    distances: Any,
    weights: Any,
    parts: int,
    way: int,
    rounded: float,
    spared: bool,
) -> None:
    """Charge a round to the points of `lay_out`, which said in which `way`; the window notes it.

    The caller has seen to it that there is room for a point a class. The weights are whole numbers, whose
    sum is `parts`.

    `rounded` is the distance from the true outcome to the weights, in l1; `spared` is as in `count`. Behind
    the distances there must be room for as many numbers as there are classes.
    """
    k, scale = memory[layout.CLASSES], memory[layout.SCALE]
    grain, before, away, numbers = scale // parts, memory[layout.MOVED], 0, k + 1
    for j in range(k):
        distances[numbers + j] = 0
    if way == INSIDE:
        away = distances[k]
    elif way == WHOLE:
        # the outcome is on the side of class 0 if both vertices give class 1 more weight
        j = 0 if points[5] <= min(points[1], points[3]) else 1
        away = distances[j]
        number = charge_part(memory, points, j, k * k, scale)
        distances[numbers], distances[numbers + 1] = number, number
    else:
        for j in range(k):
            if weights[j] > 0:
                away += weights[j] * distances[j]
                distances[numbers + j] = charge_part(memory, points, j, -1, weights[j] * grain)
        away = -(-away // parts)
    layout.count(memory, away + math.ceil(rounded * layout.units(memory)), spared)
    if len(table) > 0:
        note_parts(memory, table, distances, numbers, weights, grain, before)
    return_to_base(memory)


@uncounted
def charge_part(memory: Memory, points: Any, j: int, y: int, weight: int) -> int:
    """Charge a weight, in units of 1/SCALE, to the vertex labelled j; returns its record's number plus one.

    The outcome is class j, or if y >= 0 the point at y.
    """
    k, x = memory[layout.CLASSES], layout.point_of(memory)
    for c in range(k):
        memory[x + c] = points[j * k + c]
    key = layout.key_of(memory, x)
    number = number_of(memory, x, key) + 1
    follow(memory, x, key, layout.book(memory, x, key, j, weight, points, y))
    return number


RULES = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of the simplex machine."""


class Starting:
    """What makes a memory ready, which is interpreted first: it is done once for a grid."""

    begin: ClassVar[Callable[[Ints], None]]


STARTING = interpreted_first(
    Starting,
    Address(__name__, "STARTING"),
    begin=Entry(begin, 1, seconds=1e-7, compiling=2.0, rows=len),
)


def make_ready(memory: Ints) -> None:
    """Index the records of a memory and find its first cell, as `begin` does."""
    STARTING.begin(memory)


@compiled
def advance(memory: Ints, table: Ints, outcome: int, charges: int) -> int:
    """Charge the current cell: DONE, or NO_ROOM if so many charges do not fit memory and window."""
    if not has_room_for(memory, table, charges):
        return NO_ROOM
    settle_noted(memory, table, memory[layout.CURRENT_FRAME], memory, memory[layout.CLASSES], outcome)
    return DONE


@compiled
def issue(memory: Ints, hint: Floats, forecast: Floats, cell: NDArray[np.int32], charges: int) -> int:
    """Fill the forecast, shape (k,), and the cell, shape (cell_size(k),) or (0,) if it is not wanted.

    Returns the frame of the cell, or NO_ROOM if another grid is due or so many charges do not fit. A larger
    memory forgets its regions, so it must have grown before the round is announced, as it has in a replay.
    """
    is_full = memory[layout.RECORDS_USED] + charges > layout.capacity(memory)
    if is_full or memory[layout.ROUNDS] >= memory[layout.LIMIT]:
        return NO_ROOM
    frame = announce(memory, hint, forecast)
    if len(cell) > 0:
        cells.write_cell(memory, frame, cell)
    return frame


@compiled
def settle_waiting(
    memory: Ints,
    table: Ints,
    cell: NDArray[np.int32],
    forecast: Floats,
    outcome: int,
    weights: Ints,
    parts: int,
    rounded: float,
    sure: bool,
) -> int:
    """Charge a round that was announced as this forecast in a cell, when there may have been fewer classes.

    The weights have shape (k,) and the sum `parts`, or shape (0,) if the outcome is a class; `rounded` is
    their distance from the true outcome in l1. The answer is also NO_ROOM unless one more round certainly
    fits the integers; `sure` says that the caller has checked that.
    """
    k, known = memory[layout.CLASSES], len(forecast)
    if not (has_room_for(memory, table, max(1, len(weights))) and (sure or cells.bears_surely(memory))):
        return NO_ROOM
    frame = cells.place_cell(memory, cell, known, MIXED if len(weights) > 0 else outcome)
    if len(weights) == 0:
        settle_noted(memory, table, frame, forecast, known, outcome)
        return DONE
    unit = cell[cells.CELL_STEP] * (memory[layout.SCALE] // cell[cells.CELL_SCALE]) if known > 0 else 0
    points, distances, is_new = np.empty(k * k + k, np.int64), np.empty(2 * k + 1, np.int64), False
    way = lay_out(memory, frame, forecast, known, unit, weights, parts, points, distances)
    for c in range(known, k):
        is_new |= weights[c] > 0
    settle_parts(memory, table, points, distances, weights, parts, way, rounded, is_new)
    return DONE


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
    """Play from row `start` until the end or until there is no room; returns how many rounds are done.

    If an outcome is MIXED its row of `weights`, shape (T, k), counts. Fills the forecasts, and the charged
    points unless that array is empty; both have shape (T, k) or more columns.
    """
    memory, forecasts, charged = borrowed(memory), borrowed(forecasts), borrowed(charged)
    hints, table, weights = borrowed(hints), borrowed(table), borrowed(weights)
    hinted, traced, k = len(hints) > 0, len(charged) > 0, weights.shape[1]
    charges = k if parts > 1 else 1
    points, distances = np.empty(k * k + k, np.int64), np.empty(2 * k + 1, np.int64)
    for t in range(start, len(outcomes)):
        outcome, forecast = outcomes[t], forecasts[t]
        if not has_room_for(memory, table, charges):
            return t
        # this is `announce`, written out: a view of a hint that may be empty would cost 6 % of a round
        if hinted:
            frame = announce_near(memory, hints[t], forecast)
        else:
            frame = memory[layout.CURRENT_FRAME]
            write_barycentre(memory, frame, forecast)
        if outcome == MIXED:
            unit = memory[layout.STEP]
            way = lay_out(memory, frame, forecast, k, unit, weights[t], parts, points, distances)
            settle_parts(memory, table, points, distances, weights[t], parts, way, rounded[t], False)
            continue
        if traced:
            point(memory, frame, forecast, outcome, charged[t])
        settle_noted(memory, table, frame, forecast, k, outcome)
    return len(outcomes)
