"""Rounds whose outcome is a soft label, a distribution over the classes: charged in parts.

An outcome is a *weight* for each class, whole numbers that add up to `parts`; all coordinates of points and
the scale are multiples of `parts`, so that nothing is rounded here. The round is charged

- to the outcome itself, which gets no bias, if that is in the announced cell;
- with two classes otherwise to the vertex labelled with the class on the outcome's side of the cell;
- else in parts: to the vertex labelled j the weight of class j with that class for its outcome.

A weight moves biases as a whole round would, but less far, so the labels keep their bounds
(docs/theory-simplex.md, section 15). A soft label that is one class is played as that class.
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import uncounted
from onlinecal.forecasters.simplex.machine.labels import earned_label, price, settle_account
from onlinecal.forecasters.simplex.machine.rules import (
    bears,
    follow,
    from_barycentre,
    from_report,
    moved,
    return_to_base,
    vertex_of,
)
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CLASSES,
    FINE,
    HERE,
    LABEL,
    LIMIT,
    MOVED,
    POINT,
    RECORDS,
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    SUMS,
    USED,
    WIDTH,
    Memory,
    capacity,
    insert,
    key_of,
    point_of,
    record_of,
    units,
    vertex_at,
)
from onlinecal.forecasters.simplex.machine.windows import fits, note_parts

IN_PARTS, INSIDE, WHOLE = range(3)
"""How a round is charged: in parts, to its outcome, or to one of two vertices."""


@uncounted
def has_room_for_parts(memory: Memory, table: Memory, parts: int) -> bool:
    """Whether a point for each class and the window's round fit, and one more round is borne."""
    enough = memory[USED] + memory[CLASSES] <= capacity(memory) and memory[ROUNDS] < memory[LIMIT]
    return bool(enough and bears(memory) and fits(memory, table, parts))


@uncounted
def is_inside(sums: Any, s: int, k: int, unit: int, outcome: Any, y: int) -> bool:
    """Whether the point at y is in the cell, on the grid with that unit, that has its sums at s.

    In a cell the sum of the coordinates up to a class takes two neighbouring values; the higher one at so
    many vertices as the barycentre's sum says. The more there are, the higher the point's sum must be.
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
    memory: Memory, frame: int, forecast: Any, weights: Any, parts: int, points: Any, distances: Any
) -> int:
    """Write what a round may be charged to in that frame's cell: how it is charged there.

    That is, k + 1 rows of coordinates, the vertices by label and the outcome, and how far these are from the
    forecast, in units of MOVED.
    """
    k, grain = memory[CLASSES], memory[SCALE] // parts
    for j in range(k):
        i = vertex_of(memory, frame, j)
        x = vertex_at(memory, frame, i)
        for c in range(k):
            points[j * k + c] = memory[x + c]
        distances[j] = moved(memory, frame, forecast, i)
        points[k * k + j] = weights[j] * grain
    if frame != memory[HERE] and memory[REPORT] > 0:
        distances[k] = from_report(memory, points, k * k, memory[SCALE], forecast, k)
    else:
        distances[k] = from_barycentre(points, k * k, memory, frame + SUMS, k) * memory[FINE]
    return way_of(memory, frame + SUMS, k, memory[STEP], points)


@uncounted
def way_of(sums: Any, s: int, k: int, unit: int, points: Any) -> int:
    """How a round with the outcome in the last of the rows is charged in the cell that has its sums at s."""
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
    numbers: Any,
) -> None:
    """Charge a round to what `lay_out` has written, while `has_room_for_parts`; the window notes it.

    `rounded` is the distance from the true outcome to the weights, in l1. `numbers` becomes, for each class,
    that of the record that was charged, plus one.
    """
    k, scale = memory[CLASSES], memory[SCALE]
    before, whole = memory[MOVED], 0
    for j in range(k):
        numbers[j] = 0
    while whole < k and weights[whole] != parts:
        whole += 1
    away = 0
    if way == INSIDE and whole == k:
        away = distances[k]
    elif way == WHOLE:
        # the outcome is on the side of class 0 if both vertices give class 1 more weight
        j = 0 if points[5] <= min(points[1], points[3]) else 1
        away = distances[j]
        numbers[0] = numbers[1] = charge_part(memory, points, j, k * k, scale)
    else:
        for j in range(k):
            if weights[j] > 0:
                away += weights[j] * distances[j]
                numbers[j] = charge_part(memory, points, j, -1, scale // parts * weights[j])
        away = -(-away // parts)
    away += math.ceil(rounded * units(memory))
    memory[MOVED] += away
    memory[ROUNDS] += 1
    if memory[BASE] > 0:
        memory[BALANCE] += price(memory) - away
    if len(table) > 0:
        note_parts(memory, table, numbers, weights, parts, before)
    return_to_base(memory)


@uncounted
def charge_part(memory: Memory, points: Any, j: int, y: int, weight: int) -> int:
    """Charge a weight, in units of 1/SCALE, to the vertex labelled j; the number of its record, plus one.

    Its outcome is class j, or if y >= 0 the point there.
    """
    k, x = memory[CLASSES], point_of(memory)
    scale = memory[SCALE]
    for c in range(k):
        memory[x + c] = points[j * k + c]
    key = key_of(memory, x)
    record = record_of(memory, x, key)
    if record < 0:
        record = insert(memory, x, key)
    biases, rise = record + POINT + k, 0
    for c in range(k):
        old = memory[biases + c]
        if y >= 0:
            new = old + memory[x + c] - points[y + c]
        else:
            new = old + memory[x + c] * weight // scale
            if c == j:
                new -= weight
        memory[biases + c] = new
        rise += abs(new) - abs(old)
    memory[SPREAD] += rise
    if memory[BASE] > 0:
        # the round itself is entered by `settle_parts`
        settle_account(memory, x, price(memory), rise)
    label = earned_label(memory, record, j)
    memory[record + LABEL] = label
    follow(memory, x, key, label)
    return (record - memory[RECORDS]) // memory[WIDTH] + 1
