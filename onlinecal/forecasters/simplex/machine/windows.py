"""The rounds of a window beside the machine's memory, and the exact sums over them.

The table is one flat sequence of int64: a header, the charges of the last LENGTH rounds as a ring, and for
each record of the memory by how much they have changed its biases. A charge has the number of a record plus
one, the outcome, the weight in units of 1/SCALE, and the round's distance from what it was charged to. A
round with a soft label may have several charges: the first one has the distance of all, the others have
FURTHER_CHARGE in its place. A round that was charged to its outcome has one charge of no record and no
weight. Records keep their numbers, so the table knows nothing else of points. All numbers are in the units of
the memory, so a round that leaves the window is subtracted exactly (docs/theory-simplex.md, section 15).

Invariant: the sums in the header and the changes of biases are those of the charges in the ring.

A charge of the memory is followed by `note` or `note_parts`, which write here, once `fits` has said that
there is room. Where there is none, or the memory was rebuilt in other units, `SimplexRun` makes a new table
(`refitted`) between two rounds. The table is saved with the memory that it belongs to, by pickles and by the
engine, and cannot be made from that: so the order of the header, a charge's four numbers and FURTHER_CHARGE
are a saved format. The length of the ring is free, and LEAST_RING may grow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import Memory
from onlinecal.layout import Layout
from onlinecal.restoring import require

HEADER = Layout()
LENGTH = HEADER.field("length of the window", "rounds")
RING_LENGTH = HEADER.field("length of the ring", "charges")
OLDEST = HEADER.field("place of the oldest charge in the ring", "place")
HELD = HEADER.field("charges in the ring", "count")
DISTANCE_SUM = HEADER.field("sum of the distances", "1/(k SCALE FINE)")
CHANGE_SUM = HEADER.field("sum over records of how far biases changed", "1/SCALE")
RING = HEADER.end
"""Where the ring begins."""
CHARGE_LENGTH = 4
"""The length of a charge in the ring."""
FURTHER_CHARGE = -1
LEAST_RING = 16
"""A ring has room for at least so many charges besides those of the coming round."""
NO_WINDOW: NDArray[np.int64] = np.empty(0, np.int64)


@uncounted
def fits(memory: Memory, table: Memory, charges: int) -> bool:
    """Whether a coming round with so many charges can be noted; true if there is no window."""
    if len(table) == 0:
        return True
    known = (len(table) - RING - CHARGE_LENGTH * table[RING_LENGTH]) // memory[layout.CLASSES]
    return bool(table[HELD] + charges <= table[RING_LENGTH] and layout.capacity(memory) <= known)


@uncounted
def number_of(memory: Memory, x: int, key: int) -> int:
    """The number of the record for a charge of the point at x: the point's own, or the next new one."""
    number = memory[layout.slot_of(memory, x, key)]
    return number - 1 if number else memory[layout.RECORDS_USED]


@uncounted
def add(memory: Memory, table: Memory, entry: int, sign: int) -> None:
    """Add a charge to the sums; with the sign -1 subtract it."""
    number, outcome, weight, distance = table[entry], table[entry + 1], table[entry + 2], table[entry + 3]
    if distance != FURTHER_CHARGE:
        table[DISTANCE_SUM] += sign * distance
    if number == 0:
        return
    k, scale = memory[layout.CLASSES], memory[layout.SCALE]
    x = memory[layout.RECORDS] + (number - 1) * memory[layout.WIDTH] + layout.POINT
    changes = RING + CHARGE_LENGTH * table[RING_LENGTH] + (number - 1) * k
    for c in range(k):
        # this is exact, since coordinates and the scale are multiples of the parts
        change = memory[x + c] if weight == scale else memory[x + c] * weight // scale
        if c == outcome:
            change -= weight
        old = table[changes + c]
        table[changes + c] = old + sign * change
        table[CHANGE_SUM] += abs(old + sign * change) - abs(old)


@uncounted
def enter(memory: Memory, table: Memory, number: int, outcome: int, weight: int, distance: int) -> None:
    """Put a charge behind all others in the ring, and add it to the sums."""
    place = table[OLDEST] + table[HELD]
    if place >= table[RING_LENGTH]:
        place -= table[RING_LENGTH]
    entry = RING + CHARGE_LENGTH * place
    table[entry], table[entry + 1], table[entry + 2], table[entry + 3] = number, outcome, weight, distance
    table[HELD] += 1
    add(memory, table, entry, 1)


@uncounted
def let_go(memory: Memory, table: Memory) -> None:
    """Remove the oldest round if the memory was just charged with one more than the window holds."""
    if memory[layout.ROUNDS] <= table[LENGTH]:
        return
    inside = False
    while table[HELD] > 0:
        entry = RING + CHARGE_LENGTH * table[OLDEST]
        if inside and table[entry + 3] != FURTHER_CHARGE:
            return
        add(memory, table, entry, -1)
        inside = True
        table[HELD] -= 1
        table[OLDEST] += 1
        if table[OLDEST] == table[RING_LENGTH]:
            table[OLDEST] = 0


@uncounted
def note(memory: Memory, table: Memory, number: int, outcome: int, moved: int) -> None:
    """Add the round that the memory was just charged with; its MOVED was `moved` before."""
    let_go(memory, table)
    enter(memory, table, number + 1, outcome, memory[layout.SCALE], memory[layout.MOVED] - moved)


@uncounted
def note_parts(
    memory: Memory, table: Memory, numbers: Any, first: int, weights: Any, grain: int, moved: int
) -> None:
    """The same for a round with a weight for each class, in units of `grain`.

    From `first` on `numbers` has for each class the number of the record it was charged to, plus one, or 0.
    """
    let_go(memory, table)
    distance = memory[layout.MOVED] - moved
    for j in range(memory[layout.CLASSES]):
        if numbers[first + j] > 0 and weights[j] > 0:
            enter(memory, table, numbers[first + j], j, weights[j] * grain, distance)
            distance = FURTHER_CHARGE
    if distance != FURTHER_CHARGE:
        enter(memory, table, 0, 0, 0, distance)


@compiled
def hold(memory: Ints, table: Ints, charges: Ints) -> None:
    """Put charges, one a row, into a table with room for them."""
    for i in range(len(charges)):
        enter(memory, table, charges[i, 0], charges[i, 1], charges[i, 2], charges[i, 3])


def held(table: Ints) -> Ints:
    """The charges in the window, the oldest first, one a row."""
    ring = table[RING : RING + CHARGE_LENGTH * table[RING_LENGTH]].reshape(-1, CHARGE_LENGTH)
    return ring[(table[OLDEST] + np.arange(table[HELD])) % table[RING_LENGTH]]


def table_of(size: int, memory: Ints, charges: Ints) -> Ints:
    """The window of that size with the memory's last charges, and room for the next."""
    n = len(charges)
    room = int(memory[layout.CLASSES]) + max(LEAST_RING, min(2 * n, size) if n <= size else n + n // 4)
    table = np.zeros(
        RING + CHARGE_LENGTH * room + int(layout.capacity(memory)) * int(memory[layout.CLASSES]), np.int64
    )
    table[LENGTH], table[RING_LENGTH] = size, room
    hold(memory, table, charges)
    return table


def refitted(table: Ints, memory: Ints, old: Ints, size: int, charges: int) -> Ints:
    """The window beside a memory that was `old` before, or empty, with room for a round with so many charges.

    The memory may have grown since, or may have finer units.
    """
    if not len(old):
        return table_of(size, memory, np.empty((0, CHARGE_LENGTH), np.int64))
    if memory is old and fits(memory, table, charges):
        return table
    rows = held(table)
    rows[:, 2] *= memory[layout.SCALE] // old[layout.SCALE]
    rows[rows[:, 3] != FURTHER_CHARGE, 3] *= int(layout.units(memory)) // int(layout.units(old))
    return table_of(size, memory, rows)


def most_of_window(memory: Ints, size: int) -> int:
    """The largest length of the table of a window of that size; 0 if there is no memory."""
    if len(memory) <= layout.WIDTH:
        return 0
    k = int(memory[layout.CLASSES])
    return RING + CHARGE_LENGTH * (k + max(LEAST_RING, 2 * k * size)) + int(layout.capacity(memory)) * k


def window_certificate(memory: Ints, table: Ints) -> float:
    """A proven bound on the distance to calibration of the rounds in the window, a sum."""
    return layout.certified(memory, int(table[DISTANCE_SUM]), int(table[CHANGE_SUM]))


def certificate_of_last(memory: Ints, table: Ints, rounds: int) -> float:
    """The same bound for the last so many rounds of the window."""
    charges = held(table)
    starts = np.flatnonzero(charges[:, 3] != FURTHER_CHARGE)
    if rounds < len(starts):
        last = charges[starts[len(starts) - rounds] :] if rounds else charges[:0]
        table = table_of(max(1, rounds), memory, last)
    return window_certificate(memory, table)


def check_window(table: Any, memory: Ints, size: int) -> None:
    """ValueError unless this can be the window of that size beside a memory that is sound."""
    what, k = "its window", int(memory[layout.CLASSES])
    require(isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1, what)
    require(len(table) > RING and table[LENGTH] == size and 0 < table[RING_LENGTH] <= len(table), what)
    changes = RING + CHARGE_LENGTH * int(table[RING_LENGTH])
    require(len(table) >= changes + k * int(layout.capacity(memory)), what)
    require(0 <= table[OLDEST] < table[RING_LENGTH] and 0 <= table[HELD] <= table[RING_LENGTH], what)
    charges = held(table)
    # a distance is at most 2 plus what rounding of weights may add
    most = [memory[layout.RECORDS_USED], k - 1, memory[layout.SCALE], 3 * layout.units(memory) + 1]
    require(bool(((charges >= [0, 0, 0, FURTHER_CHARGE]) & (charges <= most)).all()), what)
    starts = np.flatnonzero(charges[:, 3] != FURTHER_CHARGE)
    require(len(starts) == min(size, int(memory[layout.ROUNDS])), what)
    if len(starts):
        weights, alone = np.add.reduceat(charges[:, 2], starts), charges[starts, 0] == 0
        whole = (weights == memory[layout.SCALE]) | ((weights == 0) & alone)
        require(starts[0] == 0 and bool(whole.all()), what)
    # everything else follows from the charges
    afresh = np.zeros(len(table), np.int64)
    afresh[[LENGTH, RING_LENGTH, OLDEST]] = table[[LENGTH, RING_LENGTH, OLDEST]]
    hold(memory, afresh, charges)
    require(np.array_equal(table[:RING], afresh[:RING]), what)
    require(np.array_equal(table[changes:], afresh[changes:]), what)
