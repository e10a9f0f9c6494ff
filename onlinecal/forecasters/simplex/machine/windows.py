"""The rounds of a window beside the machine's memory and, exactly, the sums over them.

One flat sequence of int64: a header, the charges of the last SIZE rounds as a ring, and for each record of
the memory by how much they have changed its biases. A charge is the number of a record plus one, the outcome,
the weight in units of 1/SCALE, and how far the round was from what it was charged to. A round with a soft
label may have several charges: the first one has the distance of all, the others have PART instead. One that
was charged to its outcome has none: then a charge of no record and no weight stands for it. Records keep
their numbers, so nothing else is known of a point here. All is in the units of the memory; what leaves the
window is taken off exactly (docs/theory-simplex.md, section 15).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import Memory
from onlinecal.restoring import require

# The header. SIZE: of the window, in rounds. ROOM: of the ring, in charges. HELD: how many are in it, the
# oldest at FIRST. DISTANCE, CHANGES: the sums.
SIZE, ROOM, FIRST, HELD, DISTANCE, CHANGES, RING = range(7)
"""RING: where the ring begins."""
ENTRY = 4
"""The length of a charge in the ring."""
PART = -1
FEW = 16
"""Charges that there is room for from the start, besides those of the coming round."""
NO_WINDOW: NDArray[np.int64] = np.empty(0, np.int64)


@uncounted
def fits(memory: Memory, table: Memory, charges: int) -> bool:
    """Whether a coming round with so many charges can be noted; so it is without a window."""
    if len(table) == 0:
        return True
    known = (len(table) - RING - ENTRY * table[ROOM]) // memory[layout.CLASSES]
    return bool(table[HELD] + charges <= table[ROOM] and layout.capacity(memory) <= known)


@uncounted
def number_of(memory: Memory, x: int, key: int) -> int:
    """The number of the record that a charge of the point at x goes to: its own, or the next."""
    number = memory[layout.slot_of(memory, x, key)]
    return number - 1 if number else memory[layout.USED]


@uncounted
def add(memory: Memory, table: Memory, entry: int, sign: int) -> None:
    """Add a charge to the sums; with sign -1 take it off."""
    number, outcome, weight, distance = table[entry], table[entry + 1], table[entry + 2], table[entry + 3]
    if distance != PART:
        table[DISTANCE] += sign * distance
    if number == 0:
        return
    k, scale = memory[layout.CLASSES], memory[layout.SCALE]
    x = memory[layout.RECORDS] + (number - 1) * memory[layout.WIDTH] + layout.POINT
    changes = RING + ENTRY * table[ROOM] + (number - 1) * k
    for c in range(k):
        # exact: coordinates and the scale are multiples of the parts
        change = memory[x + c] if weight == scale else memory[x + c] * weight // scale
        if c == outcome:
            change -= weight
        old = table[changes + c]
        table[changes + c] = old + sign * change
        table[CHANGES] += abs(old + sign * change) - abs(old)


@uncounted
def enter(memory: Memory, table: Memory, number: int, outcome: int, weight: int, distance: int) -> None:
    """Put a charge behind all others, and add it to the sums."""
    place = table[FIRST] + table[HELD]
    if place >= table[ROOM]:
        place -= table[ROOM]
    entry = RING + ENTRY * place
    table[entry], table[entry + 1], table[entry + 2], table[entry + 3] = number, outcome, weight, distance
    table[HELD] += 1
    add(memory, table, entry, 1)


@uncounted
def let_go(memory: Memory, table: Memory) -> None:
    """Take off the oldest round if the memory was just charged with one more than the window holds."""
    if memory[layout.ROUNDS] <= table[SIZE]:
        return
    inside = False
    while table[HELD] > 0:
        entry = RING + ENTRY * table[FIRST]
        if inside and table[entry + 3] != PART:
            return
        add(memory, table, entry, -1)
        inside = True
        table[HELD] -= 1
        table[FIRST] += 1
        if table[FIRST] == table[ROOM]:
            table[FIRST] = 0


@uncounted
def note(memory: Memory, table: Memory, number: int, outcome: int, moved: int) -> None:
    """Take in the round that the memory was just charged with; its MOVED was `moved` before."""
    let_go(memory, table)
    enter(memory, table, number + 1, outcome, memory[layout.SCALE], memory[layout.MOVED] - moved)


@uncounted
def note_parts(
    memory: Memory, table: Memory, numbers: Any, first: int, weights: Any, grain: int, moved: int
) -> None:
    """The same for a round with a weight for each class, in units of `grain`.

    From `first` on `numbers` has those of the records that the classes were charged to, plus one, or 0.
    """
    let_go(memory, table)
    distance = memory[layout.MOVED] - moved
    for j in range(memory[layout.CLASSES]):
        if numbers[first + j] > 0 and weights[j] > 0:
            enter(memory, table, numbers[first + j], j, weights[j] * grain, distance)
            distance = PART
    if distance != PART:
        enter(memory, table, 0, 0, 0, distance)


@compiled
def hold(memory: Ints, table: Ints, charges: Ints) -> None:
    """Put charges, one a row, into a table with room for them."""
    for i in range(len(charges)):
        enter(memory, table, charges[i, 0], charges[i, 1], charges[i, 2], charges[i, 3])


def held(table: Ints) -> Ints:
    """The charges in the window, the oldest first, one a row."""
    ring = table[RING : RING + ENTRY * table[ROOM]].reshape(-1, ENTRY)
    return ring[(table[FIRST] + np.arange(table[HELD])) % table[ROOM]]


def table_of(size: int, memory: Ints, charges: Ints) -> Ints:
    """The window of that size with the memory's last charges, and room for the next."""
    n = len(charges)
    room = int(memory[layout.CLASSES]) + max(FEW, min(2 * n, size) if n <= size else n + n // 4)
    table = np.zeros(
        RING + ENTRY * room + int(layout.capacity(memory)) * int(memory[layout.CLASSES]), np.int64
    )
    table[SIZE], table[ROOM] = size, room
    hold(memory, table, charges)
    return table


def refitted(table: Ints, memory: Ints, old: Ints, size: int, charges: int) -> Ints:
    """The window beside a memory that was `old`, or none: with room for a round with so many charges.

    The memory may have grown since, or have finer units.
    """
    if not len(old):
        return table_of(size, memory, np.empty((0, ENTRY), np.int64))
    if memory is old and fits(memory, table, charges):
        return table
    rows = held(table)
    rows[:, 2] *= memory[layout.SCALE] // old[layout.SCALE]
    rows[rows[:, 3] != PART, 3] *= int(layout.units(memory)) // int(layout.units(old))
    return table_of(size, memory, rows)


def most_of_window(memory: Ints, size: int) -> int:
    """How long the table of a window of that size can be; 0 beside no memory."""
    if len(memory) <= layout.WIDTH:
        return 0
    k = int(memory[layout.CLASSES])
    return RING + ENTRY * (k + max(FEW, 2 * k * size)) + int(layout.capacity(memory)) * k


def window_certificate(memory: Ints, table: Ints) -> float:
    """A proven bound on the distance to calibration of the rounds in the window, a sum."""
    return layout.certified(memory, int(table[DISTANCE]), int(table[CHANGES]))


def certificate_of_last(memory: Ints, table: Ints, rounds: int) -> float:
    """The same of the last so many rounds of the window."""
    charges = held(table)
    starts = np.flatnonzero(charges[:, 3] != PART)
    if rounds < len(starts):
        last = charges[starts[len(starts) - rounds] :] if rounds else charges[:0]
        table = table_of(max(1, rounds), memory, last)
    return window_certificate(memory, table)


def check_window(table: Any, memory: Ints, size: int) -> None:
    """ValueError unless this can be the window of that size beside a memory that is sound."""
    what, k = "its window", int(memory[layout.CLASSES])
    require(isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1, what)
    require(len(table) > RING and table[SIZE] == size and 0 < table[ROOM] <= len(table), what)
    changes = RING + ENTRY * int(table[ROOM])
    require(len(table) >= changes + k * int(layout.capacity(memory)), what)
    require(0 <= table[FIRST] < table[ROOM] and 0 <= table[HELD] <= table[ROOM], what)
    charges = held(table)
    # a distance is at most 2, and what rounding of weights may add
    most = [memory[layout.USED], k - 1, memory[layout.SCALE], 3 * layout.units(memory) + 1]
    require(bool(((charges >= [0, 0, 0, PART]) & (charges <= most)).all()), what)
    starts = np.flatnonzero(charges[:, 3] != PART)
    require(len(starts) == min(size, int(memory[layout.ROUNDS])), what)
    if len(starts):
        weights, alone = np.add.reduceat(charges[:, 2], starts), charges[starts, 0] == 0
        whole = (weights == memory[layout.SCALE]) | ((weights == 0) & alone)
        require(starts[0] == 0 and bool(whole.all()), what)
    # all else follows from its charges
    afresh = np.zeros(len(table), np.int64)
    afresh[[SIZE, ROOM, FIRST]] = table[[SIZE, ROOM, FIRST]]
    hold(memory, afresh, charges)
    require(np.array_equal(table[:RING], afresh[:RING]), what)
    require(np.array_equal(table[changes:], afresh[changes:]), what)
