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

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.simplex.machine.accounts import price, settle_account
from onlinecal.forecasters.simplex.machine.labels import earned_label
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
    REPORT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    SUMS,
    USED,
    Memory,
    capacity,
    insert,
    key_of,
    point_of,
    record_of,
    units,
    vertex_at,
)


@kernel_part
def has_room_for_parts(memory: Memory) -> bool:
    """Whether a point for each class still fits, and grid and integers serve one more round."""
    fits = memory[USED] + memory[CLASSES] <= capacity(memory)
    return bool(fits and memory[ROUNDS] < memory[LIMIT] and bears(memory))


@kernel_part
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


@kernel_part
def lay_out(
    memory: Memory, frame: int, forecast: Any, weights: Any, parts: int, points: Any, distances: Any
) -> bool:
    """Write what a round may be charged to in that frame's cell: whether the outcome is inside of it.

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
    return is_inside(memory, frame + SUMS, k, memory[STEP], points, k * k)


@kernel_part
def settle_parts(
    memory: Memory, points: Any, distances: Any, weights: Any, parts: int, inside: bool, rounded: float
) -> None:
    """Charge a round to what `lay_out` has written, while `has_room_for_parts`.

    `rounded` is the distance from the true outcome to the weights, in l1.
    """
    k, scale = memory[CLASSES], memory[SCALE]
    whole = 0
    while whole < k and weights[whole] != parts:
        whole += 1
    away = 0
    if inside and whole == k:
        away = distances[k]
    elif k == 2:
        # the outcome is on the side of class 0 if both vertices give class 1 more weight
        j = 0 if points[5] <= min(points[1], points[3]) else 1
        away = distances[j]
        charge_part(memory, points, j, k * k, scale)
    else:
        for j in range(k):
            if weights[j] > 0:
                away += weights[j] * distances[j]
                charge_part(memory, points, j, -1, scale // parts * weights[j])
        away = -(-away // parts)
    away += math.ceil(rounded * units(memory))
    memory[MOVED] += away
    memory[ROUNDS] += 1
    if memory[BASE] > 0:
        memory[BALANCE] += price(memory) - away
    return_to_base(memory)


@kernel_part
def charge_part(memory: Memory, points: Any, j: int, y: int, weight: int) -> None:
    """Charge a weight, in units of 1/SCALE, to the vertex labelled j: with class j, or with all at y if y >= 0."""
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
