"""The rounds of a window beside the machine's memory and, exactly, the sums over them.

One flat sequence of int64: a header, the last SIZE rounds as a ring, and for each record of the memory by how
much the charges in the window have changed its biases. A round is a record's number, the outcome and the
distance to the charged point; records keep their numbers, so nothing else is known of a point here. All is
in the units of the memory; what leaves the window is taken off exactly (docs/theory-simplex.md, section 15).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
ENTRY = 3
FEW = 16
"""Rounds that there is room for from the start."""
NO_WINDOW: NDArray[np.int64] = np.empty(0, np.int64)


@uncounted
def fits(memory: Memory, table: Memory) -> bool:
    """Whether the coming round of the memory can be noted; so it is without a window."""
    if len(table) == 0:
        return True
    known = (len(table) - RING - ENTRY * table[ROOM]) // memory[CLASSES]
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
def add(memory: Memory, table: Memory, entry: int, sign: int) -> None:
    """Add a round to the sums; with sign -1 take it off."""
    k, number, outcome = memory[CLASSES], table[entry], table[entry + 1]
    x = memory[RECORDS] + number * memory[WIDTH] + POINT
    changes = RING + ENTRY * table[ROOM] + number * k
    for c in range(k):
        old = table[changes + c]
        new = old + sign * (memory[x + c] - (memory[SCALE] if c == outcome else 0))
        table[changes + c] = new
        table[CHANGES] += abs(new) - abs(old)
    table[DISTANCE] += sign * table[entry + 2]


@uncounted
def note(memory: Memory, table: Memory, number: int, outcome: int, moved: int) -> None:
    """Take in the round that the memory was just charged with; its MOVED was `moved` before."""
    rounds, size = memory[ROUNDS], table[SIZE]
    entry = RING + ENTRY * ((rounds - 1) % size)
    if rounds > size:
        add(memory, table, entry, -1)
    table[entry], table[entry + 1], table[entry + 2] = number, outcome, memory[MOVED] - moved
    add(memory, table, entry, 1)


@compiled
def hold(memory: NDArray[np.int64], table: NDArray[np.int64], rounds: NDArray[np.int64]) -> None:
    """Put the memory's last rounds, shape (n, 3), into a new table with room for them."""
    for i in range(len(rounds)):
        entry = RING + ENTRY * ((memory[ROUNDS] - len(rounds) + i) % table[SIZE])
        for part in range(ENTRY):
            table[entry + part] = rounds[i, part]
        add(memory, table, entry, 1)


def held(memory: NDArray[np.int64], table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rounds in the window, the oldest first, shape (n, 3)."""
    rounds, size = int(memory[ROUNDS]), int(table[SIZE])
    number = min(rounds, size)
    ring = table[RING : RING + ENTRY * table[ROOM]].reshape(-1, ENTRY)
    return ring[(rounds - number + np.arange(number)) % size]


def table_of(size: int, memory: NDArray[np.int64], rounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The window of that size with the memory's last rounds, and room for the next."""
    room = min(size, max(FEW, 1 << len(rounds).bit_length()))
    table = np.zeros(RING + ENTRY * room + int(capacity(memory)) * int(memory[CLASSES]), np.int64)
    table[SIZE], table[ROOM] = size, room
    hold(memory, table, rounds)
    return table


def refitted(
    table: NDArray[np.int64], memory: NDArray[np.int64], old: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """The window beside a memory that was `old`, or none: with room for the next round.

    The memory may have grown since, or have finer units of distance.
    """
    if not len(old):
        return table_of(size, memory, np.empty((0, ENTRY), np.int64))
    if memory is old and fits(memory, table):
        return table
    rounds = held(old, table)
    rounds[:, 2] *= int(units(memory)) // int(units(old))
    return table_of(size, memory, rounds)


def most_of_window(memory: NDArray[np.int64], size: int, entry: int = ENTRY) -> int:
    """How long the table of a window of that size, by the length of a round, can be; 0 beside no memory."""
    if len(memory) <= WIDTH:
        return 0
    return RING + entry * size + int(capacity(memory)) * int(memory[CLASSES])


def window_certificate(memory: NDArray[np.int64], table: NDArray[np.int64]) -> float:
    """A proven bound on the distance to calibration of the rounds in the window, a sum."""
    return certified(memory, int(table[DISTANCE]), int(table[CHANGES]))


def check_window(table: Any, memory: NDArray[np.int64], size: int) -> None:
    """ValueError unless this can be the window of that size beside a memory that is sound."""
    what = "its window"
    require(isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1, what)
    require(len(table) > RING and table[SIZE] == size and RING + ENTRY * table[ROOM] <= len(table), what)
    require(0 < min(size, int(memory[ROUNDS])) <= table[ROOM] <= size or not memory[ROUNDS], what)
    rounds = held(memory, table)
    most = np.array([memory[USED] - 1, memory[CLASSES] - 1, 2 * units(memory) + 1])
    require(bool(((rounds >= 0) & (rounds <= most)).all()), what)
    # all of it follows from its rounds
    afresh = np.zeros(len(table), np.int64)
    afresh[:RING] = table[SIZE], table[ROOM], 0, 0
    hold(memory, afresh, rounds)
    require(np.array_equal(table, afresh), what)
