"""The window of a run whose rounds may be divided: as in `windows`, but a round has a charge for each class.

A round is its distance, for each class the number of the record that the class was charged to, plus one (0
for none), and the weights of the classes. A round that was charged whole has one record for all classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, uncounted
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    MOVED,
    POINT,
    RECORDS,
    ROUNDS,
    SCALE,
    USED,
    WIDTH,
    Memory,
    capacity,
    units,
)
from onlinecal.forecasters.simplex.machine.windows import CHANGES, DISTANCE, FEW, RING, ROOM, SIZE


@uncounted
def entry_size(memory: Memory) -> int:
    """The length of a round in the ring."""
    return 1 + 2 * memory[CLASSES]


@uncounted
def fits(memory: Memory, table: Memory) -> bool:
    """Whether the coming round of the memory can be noted; so it is without a window."""
    if len(table) == 0:
        return True
    known = (len(table) - RING - entry_size(memory) * table[ROOM]) // memory[CLASSES]
    return bool(min(memory[ROUNDS], table[SIZE] - 1) < table[ROOM] and capacity(memory) <= known)


@uncounted
def add(memory: Memory, table: Memory, entry: int, sign: int, parts: int) -> None:
    """Add a round to the sums; with sign -1 take it off."""
    k, grain = memory[CLASSES], memory[SCALE] // parts
    for j in range(k):
        number, weight = table[entry + 1 + j], table[entry + 1 + k + j]
        if number == 0 or weight == 0:
            continue
        x = memory[RECORDS] + (number - 1) * memory[WIDTH] + POINT
        changes = RING + entry_size(memory) * table[ROOM] + (number - 1) * k
        for c in range(k):
            old = table[changes + c]
            moved = memory[x + c] // parts * weight - (grain * weight if c == j else 0)
            table[changes + c] = old + sign * moved
            table[CHANGES] += abs(old + sign * moved) - abs(old)
    table[DISTANCE] += sign * table[entry]


@uncounted
def note(memory: Memory, table: Memory, numbers: Any, weights: Any, parts: int, moved: int) -> None:
    """Take in the round that the memory was just charged with; its MOVED was `moved` before."""
    k, rounds, size = memory[CLASSES], memory[ROUNDS], table[SIZE]
    entry = RING + entry_size(memory) * ((rounds - 1) % size)
    if rounds > size:
        add(memory, table, entry, -1, parts)
    table[entry] = memory[MOVED] - moved
    for j in range(k):
        table[entry + 1 + j], table[entry + 1 + k + j] = numbers[j], weights[j]
    add(memory, table, entry, 1, parts)


@compiled
def hold(memory: NDArray[np.int64], table: NDArray[np.int64], rounds: NDArray[np.int64], parts: int) -> None:
    """Put the memory's last rounds, one a row, into a new table with room for them."""
    for i in range(len(rounds)):
        entry = RING + entry_size(memory) * ((memory[ROUNDS] - len(rounds) + i) % table[SIZE])
        for part in range(entry_size(memory)):
            table[entry + part] = rounds[i, part]
        add(memory, table, entry, 1, parts)


def held(memory: NDArray[np.int64], table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rounds in the window, the oldest first, one a row."""
    rounds, size, width = int(memory[ROUNDS]), int(table[SIZE]), int(entry_size(memory))
    number = min(rounds, size)
    ring = table[RING : RING + width * table[ROOM]].reshape(-1, width)
    return ring[(rounds - number + np.arange(number)) % size]


def as_divided(
    memory: NDArray[np.int64], rounds: NDArray[np.int64], finer: int, parts: int
) -> NDArray[np.int64]:
    """Rounds of `windows`, shape (n, 3), as rounds here: all weight is on the class that came."""
    k, rows = int(memory[CLASSES]), np.arange(len(rounds))
    new = np.zeros((len(rounds), 1 + 2 * k), np.int64)
    new[:, 0] = rounds[:, 2] * finer
    new[rows, 1 + rounds[:, 1]] = rounds[:, 0] + 1
    new[rows, 1 + k + rounds[:, 1]] = parts
    return new


def table_of(
    size: int, memory: NDArray[np.int64], rounds: NDArray[np.int64], parts: int
) -> NDArray[np.int64]:
    """The window of that size with the memory's last rounds, and room for the next."""
    room = min(size, max(FEW, 1 << len(rounds).bit_length()))
    changes = int(capacity(memory)) * int(memory[CLASSES])
    table = np.zeros(RING + int(entry_size(memory)) * room + changes, np.int64)
    table[SIZE], table[ROOM] = size, room
    hold(memory, table, rounds, parts)
    return table


def refitted(
    table: NDArray[np.int64], memory: NDArray[np.int64], old: NDArray[np.int64], size: int, parts: int
) -> NDArray[np.int64]:
    """The window beside a memory that was `old`, with room for the next round."""
    if memory is old and fits(memory, table):
        return table
    rounds = held(old, table)
    rounds[:, 0] *= int(units(memory)) // int(units(old))
    return table_of(size, memory, rounds, parts)


def check_window(table: Any, memory: NDArray[np.int64], size: int, parts: int) -> None:
    """ValueError unless this can be the window of that size beside a memory that is sound."""
    what, k, width = "its window", int(memory[CLASSES]), int(entry_size(memory))
    require(isinstance(table, np.ndarray) and table.dtype == np.int64 and table.ndim == 1, what)
    require(len(table) > RING and table[SIZE] == size and RING + width * table[ROOM] <= len(table), what)
    require(0 < min(size, int(memory[ROUNDS])) <= table[ROOM] <= size or not memory[ROUNDS], what)
    rounds = held(memory, table)
    numbers, weights = rounds[:, 1 : 1 + k], rounds[:, 1 + k :]
    # at most 2, and what rounding of weights may add
    require(bool(((rounds[:, 0] >= 0) & (rounds[:, 0] <= 3 * units(memory) + 1)).all()), what)
    require(bool(((numbers >= 0) & (numbers <= memory[USED])).all()), what)
    require(bool(((weights >= 0) & (weights.sum(axis=1) == parts)[:, None]).all()), what)
    # all of it follows from its rounds
    afresh = np.zeros(len(table), np.int64)
    afresh[:RING] = table[SIZE], table[ROOM], 0, 0
    hold(memory, afresh, rounds, parts)
    require(np.array_equal(table, afresh), what)
