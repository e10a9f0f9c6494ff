"""The rounds of a window beside the machine's memory and, exactly, the sums over them.

One flat sequence of int64: a header, the last SIZE rounds as a ring, and for each record of the memory by how
much the charges in the window have changed its biases. A round is a record's number, the outcome and the
distance to the charged point; records keep their numbers, so nothing else is known of a point here. All is
in the units of the memory; what leaves the window is taken off exactly (docs/theory-simplex.md, section 15).

Where rounds may be divided into `parts`, more than one, a round has a charge for each class: it is its
distance, for each class the number of the record that the class was charged to, plus one (0 for none), and
the weights of the classes. A round that was charged whole has one record for all classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.machine.memory import certified
from onlinecal.forecasters.simplex.machine.rules import vertex_of
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    KEYS,
    MOVED,
    POINT,
    RECORDS,
    ROUNDS,
    SCALE,
    USED,
    WIDTH,
    Memory,
    capacity,
    part_of,
    slot_of,
    units,
    vertex_at,
)

# The header. SIZE: of the window, in rounds. ROOM: of the ring. DISTANCE, CHANGES: the sums.
SIZE, ROOM, DISTANCE, CHANGES, RING = range(5)
"""RING: where the ring begins."""
FEW = 16
"""Rounds that there is room for from the start."""
NO_WINDOW: NDArray[np.int64] = np.empty(0, np.int64)


@uncounted
def entry_size(memory: Memory, parts: int) -> int:
    """The length of a round in the ring."""
    return 3 if parts == 1 else 1 + 2 * memory[CLASSES]


@uncounted
def fits(memory: Memory, table: Memory, parts: int) -> bool:
    """Whether the coming round of the memory can be noted; so it is without a window."""
    if len(table) == 0:
        return True
    known = (len(table) - RING - entry_size(memory, parts) * table[ROOM]) // memory[CLASSES]
    return bool(min(memory[ROUNDS], table[SIZE] - 1) < table[ROOM] and capacity(memory) <= known)


@uncounted
def number_of(memory: Memory, x: int, key: int) -> int:
    """The number of the record that a charge of the point at x goes to: its own, or the next."""
    number = memory[slot_of(memory, x, key)]
    return number - 1 if number else memory[USED]


@uncounted
def number_in(memory: Memory, frame: int, outcome: int) -> int:
    """The same for the vertex of a frame's cell that is labelled with the outcome."""
    i = vertex_of(memory, frame, outcome)
    return number_of(memory, vertex_at(memory, frame, i), memory[part_of(memory, frame, KEYS) + i])


@uncounted
def add(memory: Memory, table: Memory, entry: int, sign: int, parts: int) -> None:
    """Add a round to the sums; with sign -1 take it off."""
    if parts == 1:
        add_charge(memory, table, table[entry], table[entry + 1], 1, 1, sign)
        table[DISTANCE] += sign * table[entry + 2]
        return
    k = memory[CLASSES]
    for j in range(k):
        number, weight = table[entry + 1 + j], table[entry + 1 + k + j]
        if number > 0 and weight > 0:
            add_charge(memory, table, number - 1, j, weight, parts, sign)
    table[DISTANCE] += sign * table[entry]


@uncounted
def add_charge(
    memory: Memory, table: Memory, number: int, outcome: int, weight: int, parts: int, sign: int
) -> None:
    """Add so many parts of a round that were charged to a record with that outcome."""
    k = memory[CLASSES]
    x = memory[RECORDS] + number * memory[WIDTH] + POINT
    changes = RING + entry_size(memory, parts) * table[ROOM] + number * k
    for c in range(k):
        moved = memory[x + c] - (memory[SCALE] if c == outcome else 0)
        if weight != parts:
            # coordinates and the scale are multiples of the parts
            moved = moved // parts * weight
        old = table[changes + c]
        table[changes + c] = old + sign * moved
        table[CHANGES] += abs(old + sign * moved) - abs(old)


@uncounted
def next_entry(memory: Memory, table: Memory, parts: int) -> int:
    """Where the round that the memory was just charged with goes; what was there leaves the sums."""
    rounds, size = memory[ROUNDS], table[SIZE]
    entry = RING + entry_size(memory, parts) * ((rounds - 1) % size)
    if rounds > size:
        add(memory, table, entry, -1, parts)
    return entry


@uncounted
def note(memory: Memory, table: Memory, number: int, outcome: int, moved: int) -> None:
    """Take in the round that the memory was just charged with; its MOVED was `moved` before."""
    entry = next_entry(memory, table, 1)
    table[entry], table[entry + 1], table[entry + 2] = number, outcome, memory[MOVED] - moved
    add(memory, table, entry, 1, 1)


@uncounted
def note_parts(memory: Memory, table: Memory, numbers: Any, weights: Any, parts: int, moved: int) -> None:
    """The same for a round that was charged with a weight for each class."""
    k, entry = memory[CLASSES], next_entry(memory, table, parts)
    table[entry] = memory[MOVED] - moved
    for j in range(k):
        table[entry + 1 + j], table[entry + 1 + k + j] = numbers[j], weights[j]
    add(memory, table, entry, 1, parts)


@compiled
def hold(memory: Ints, table: Ints, rounds: Ints, parts: int) -> None:
    """Put the memory's last rounds, one a row, into a new table with room for them."""
    width = entry_size(memory, parts)
    for i in range(len(rounds)):
        entry = RING + width * ((memory[ROUNDS] - len(rounds) + i) % table[SIZE])
        for part in range(width):
            table[entry + part] = rounds[i, part]
        add(memory, table, entry, 1, parts)


def held(memory: Ints, table: Ints, parts: int) -> Ints:
    """The rounds in the window, the oldest first, one a row."""
    rounds, size, width = int(memory[ROUNDS]), int(table[SIZE]), int(entry_size(memory, parts))
    number = min(rounds, size)
    ring = table[RING : RING + width * table[ROOM]].reshape(-1, width)
    return ring[(rounds - number + np.arange(number)) % size]


def distances_in(rounds: Ints, parts: int) -> Ints:
    """A view of the distances of such rounds."""
    return rounds[:, 2 if parts == 1 else 0]


def as_divided(memory: Ints, rounds: Ints, finer: int, parts: int) -> Ints:
    """Rounds that were whole as divided ones: all weight is on the class that came."""
    k, rows = int(memory[CLASSES]), np.arange(len(rounds))
    new = np.zeros((len(rounds), 1 + 2 * k), np.int64)
    new[:, 0] = rounds[:, 2] * finer
    new[rows, 1 + rounds[:, 1]] = rounds[:, 0] + 1
    new[rows, 1 + k + rounds[:, 1]] = parts
    return new


def table_of(size: int, memory: Ints, rounds: Ints, parts: int) -> Ints:
    """The window of that size with the memory's last rounds, and room for the next."""
    room = min(size, max(FEW, 1 << len(rounds).bit_length()))
    table = np.zeros(most_of_window(memory, room, parts), np.int64)
    table[SIZE], table[ROOM] = size, room
    hold(memory, table, rounds, parts)
    return table


def refitted(table: Ints, memory: Ints, old: Ints, size: int, parts: int) -> Ints:
    """The window beside a memory that was `old`, or none: with room for the next round.

    The memory may have grown since, or have finer units of distance.
    """
    if not len(old):
        return table_of(size, memory, np.empty((0, int(entry_size(memory, parts))), np.int64), parts)
    if memory is old and fits(memory, table, parts):
        return table
    rounds = held(old, table, parts)
    distances_in(rounds, parts)[:] *= int(units(memory)) // int(units(old))
    return table_of(size, memory, rounds, parts)


def most_of_window(memory: Ints, size: int, parts: int) -> int:
    """How long the table of a window of that size can be; 0 beside no memory."""
    if len(memory) <= WIDTH:
        return 0
    return RING + int(entry_size(memory, parts)) * size + int(capacity(memory)) * int(memory[CLASSES])


def window_certificate(memory: Ints, table: Ints) -> float:
    """A proven bound on the distance to calibration of the rounds in the window, a sum."""
    return certified(memory, int(table[DISTANCE]), int(table[CHANGES]))


def certificate_of_last(memory: Ints, table: Ints, rounds: int, parts: int) -> float:
    """The same of the last so many rounds of the window."""
    if rounds < len(last := held(memory, table, parts)):
        table = table_of(max(1, rounds), memory, last[len(last) - rounds :], parts)
    return window_certificate(memory, table)


def check_window(table: Any, memory: Ints, size: int, parts: int) -> None:
    """ValueError unless this can be the window of that size beside a memory that is sound."""
    what, k, width = "its window", int(memory[CLASSES]), int(entry_size(memory, parts))
    require(isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1, what)
    require(len(table) > RING and table[SIZE] == size and RING + width * table[ROOM] <= len(table), what)
    require(0 < min(size, int(memory[ROUNDS])) <= table[ROOM] <= size or not memory[ROUNDS], what)
    rounds = held(memory, table, parts)
    if parts == 1:
        most = np.array([memory[USED] - 1, k - 1, 2 * units(memory) + 1])
    else:
        # a distance is at most 2, and what rounding of weights may add
        most = np.repeat([3 * units(memory) + 1, memory[USED], parts], [1, k, k])
        require(bool((rounds[:, 1 + k :].sum(axis=1) == parts).all()), what)
    require(bool(((rounds >= 0) & (rounds <= most)).all()), what)
    # all of it follows from its rounds
    afresh = np.zeros(len(table), np.int64)
    afresh[:RING] = table[SIZE], table[ROOM], 0, 0
    hold(memory, afresh, rounds, parts)
    require(np.array_equal(table, afresh), what)
