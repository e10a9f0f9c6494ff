"""The certificate of the last rounds alone, kept beside a grid machine's memory.

A round of a grid machine is charged to a point, changes its bias and is announced at some distance from it. A
window holds these of the rounds of the last so many moments, and for each point the sum of the changes: how
its bias differs from what it was before the window. Both are integers in the units of the memory, so what
leaves the window is taken off exactly. Theorem 25 of docs/theory.md says what that proves.

A moment is a settled round of whatever the window is of: of the forecaster itself, or of a stream whose
rounds several forecasters share. By Fact 4 the certificates of their windows add up to one of its window.

The table of a window: the rounds of the last so many moments and, exactly, the sums over them.

One flat sequence of int64: a header, the rounds as a ring, the changes of the points' biases as a hash table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled, inlined
from onlinecal.forecasters.binary.cells import FINE, MOVED, ROUNDS, SCALE, Memory, nearest_unit
from onlinecal.layout import Layout
from onlinecal.restoring import owned, require

HEADER = Layout()
SIZE = HEADER.field("length of the window", "moments")
ROOM = HEADER.field("length of the ring", "rounds")
BITS = HEADER.field("binary logarithm of the slots for points", "count")
UNIT = HEADER.field("SCALE of the memory", "units")
GRAIN = HEADER.field("FINE of the memory", "units")
SEEN = HEADER.field("rounds of the memory that were noted", "rounds")
HELD = HEADER.field("rounds in the ring", "rounds")
FIRST = HEADER.field("place of the oldest round in the ring", "place")
USED = HEADER.field("slots with a point", "count")
DISTANCE = HEADER.field("sum of the distances", "1/(2 UNIT GRAIN)")
CHANGES = HEADER.field("sum over points of how far biases changed", "1/UNIT")
RING = HEADER.end
"""Where the ring begins. An entry is a round's moment, its point, the change of its bias, the distance."""
ENTRY = 4


def new_table(size: int, unit: int, grain: int, room: int) -> Ints:
    """A window without rounds, with room for so many."""
    bits = 2 + min(room - 1, unit).bit_length()
    table = np.zeros(RING + ENTRY * room + (2 << bits), np.int64)
    table[SIZE], table[ROOM], table[BITS], table[UNIT], table[GRAIN] = size, room, bits, unit, grain
    return table


@inlined
def charged_to(lower: int, step: int, y: int) -> tuple[int, int]:
    """The point to which machines `charge` a cell's round with this outcome, and the change of its bias."""
    if lower < y < lower + step:
        return y, 0
    point = lower + step * int(y > lower)
    return point, point - y


@inlined
def book(table: Memory, point: int, change: int, moved: int) -> None:
    """Add a round to the sums; with the signs reversed, take it off."""
    table[DISTANCE] += moved
    if change == 0:
        return
    bits, slots = table[BITS], RING + ENTRY * table[ROOM]
    # Fibonacci hashing: the upper bits of the lower half of the product
    slot = ((point * 2654435769) & 0xFFFFFFFF) >> (32 - bits)
    place = slots + 2 * slot
    while table[place] != 0 and table[place] != point + 1:
        slot = (slot + 1) & ((1 << bits) - 1)
        place = slots + 2 * slot
    if table[place] == 0:
        table[place] = point + 1
        table[USED] += 1
    before = table[place + 1]
    table[place + 1] = before + change
    table[CHANGES] += abs(before + change) - abs(before)


@inlined
def forget(table: Memory, now: int) -> None:
    """Let go of the rounds that the window of this moment does not reach back to."""
    over = now - table[SIZE]
    while table[HELD] > 0:
        oldest = RING + ENTRY * table[FIRST]
        if table[oldest] > over:
            return
        book(table, table[oldest + 1], -table[oldest + 2], -table[oldest + 3])
        table[HELD] -= 1
        table[FIRST] += 1
        if table[FIRST] == table[ROOM]:
            table[FIRST] = 0


@inlined
def note(table: Memory, now: int, point: int, change: int, moved: int) -> None:
    """Take in the round of this moment, which is later than all before; after `forget`, if there is room."""
    place = table[FIRST] + table[HELD]
    if place >= table[ROOM]:
        place -= table[ROOM]
    entry = RING + ENTRY * place
    table[entry], table[entry + 1], table[entry + 2], table[entry + 3] = now, point, change, moved
    table[HELD] += 1
    book(table, point, change, moved)


@inlined
def is_ready(table: Memory, memory: Memory, rounds: int, now: int) -> bool:
    """Whether the round of this moment can be noted that comes after so many others of the memory.

    No more than half of the slots are ever in use: those of points that left the window, too.
    """
    if table[SEEN] != rounds or table[UNIT] != memory[SCALE] or 2 * table[USED] > 1 << table[BITS]:
        return False
    return bool(table[HELD] < table[ROOM] or table[RING + ENTRY * table[FIRST]] <= now - table[SIZE])


@inlined
def follow(
    table: Memory, memory: Memory, now: int, lower: int, step: int, outcome: float, moved: int
) -> None:
    """Note a round that the memory was charged with in that cell; its sum of distances was `moved` before."""
    forget(table, now)
    point, change = charged_to(lower, step, nearest_unit(memory, outcome))
    note(table, now, point, change, memory[MOVED] - moved)
    table[SEEN] += 1


@compiled
def follow_round(
    table: Ints, memory: Ints, now: int, lower: int, step: int, outcome: float, moved: int
) -> bool:
    """`follow`, if the table is ready. A moment below 0 stands for how many rounds the memory has had."""
    if now < 0:
        now = memory[ROUNDS]
    if not is_ready(table, memory, memory[ROUNDS] - 1, now):
        return False
    follow(table, memory, now, lower, step, outcome, moved)
    return True


@compiled
def note_rounds(table: Ints, rounds: Ints) -> None:
    """`note` all these, (moment, point, change, distance) each, in a table with room."""
    for i in range(len(rounds)):
        note(table, rounds[i, 0], rounds[i, 1], rounds[i, 2], rounds[i, 3])


@compiled
def window_sums(table: Ints, now: int) -> float:
    """The window's certificate at this moment."""
    forget(table, now)
    return table[DISTANCE] / (2.0 * table[UNIT] * table[GRAIN]) + table[CHANGES] / table[UNIT]


MOST_WINDOW = 1 << 24
"""Moments: the distances of so many rounds, each below 2^38, fit an integer."""
NO_TABLE: Ints = np.empty(0, np.int64)
NO_ROUNDS: Ints = np.empty((0, ENTRY), np.int64)
OWN_ROUNDS = -1
FEW = 16
"""Rounds that there is room for from the start."""


class Window:
    """The rounds of the last `size` moments that one memory was charged with, and their certificate.

    Where rounds of the memory were played without it (by a compiled loop on the memory alone, say), each of
    them counts as a distance of 1 while it is in the window: so what is said stays true.
    """

    def __init__(self, size: int, memory: Ints) -> None:
        self.table = new_table(size, int(memory[SCALE]), int(memory[FINE]), min(size, FEW))

    @classmethod
    def holding(cls, size: int, memory: Ints, rounds: Ints) -> Window:
        """The window with these `rounds`, the last that the memory had; ValueError if it cannot have them."""
        window = cls.__new__(cls)
        head = [size, int(memory[SCALE]), int(memory[FINE]), int(memory[ROUNDS])]
        window.__setstate__({"head": np.array(head), "rounds": rounds})
        return window

    def follow(
        self, memory: Ints, lower: int, step: int, outcome: float, moved: int, now: int | None = None
    ) -> None:
        """Note the round that the memory was just charged with in that cell, in its units of today.

        `moved` is its MOVED before; `now` the round's moment, None: how many rounds the memory has had.
        """
        moment = OWN_ROUNDS if now is None else now
        while not follow_round(self.table, memory, moment, lower, step, float(outcome), moved):
            rounds = int(memory[ROUNDS])
            self.prepare(memory, rounds - 1, rounds if now is None else now)

    def prepare(self, memory: Ints, rounds: int, now: int) -> None:
        """Make ready to note the round of this moment that comes after so many others of the memory."""
        window_sums(self.table, now)
        size, held, missed = int(self.table[SIZE]), self._in_units_of(memory), rounds - int(self.table[SEEN])
        if missed < 0:
            # the memory is one of an earlier time: nothing is known of its last rounds
            held, missed = NO_ROUNDS, rounds
        surprises = np.zeros((min(missed, size), ENTRY), np.int64)
        surprises[:, 0] = np.arange(now - len(surprises), now)
        surprises[:, 3] = 2 * int(memory[SCALE]) * int(memory[FINE])
        held = np.concatenate([held, surprises])
        held = held[held[:, 0] > now - size]
        self._hold(memory, held, rounds, max(FEW, min(2 * len(held), size), len(held) + 1))

    def suit(self, memory: Ints) -> None:
        """Go over to the memory's units, which may have become finer."""
        if self.table[UNIT] != memory[SCALE]:
            held = self._in_units_of(memory)
            self._hold(memory, held, int(self.table[SEEN]), int(self.table[ROOM]))

    def _in_units_of(self, memory: Ints) -> Ints:
        """The rounds in the memory's units of today.

        Points and changes are whole numbers of these, and so are distances between points of the grid, its
        cells' middles and their ends; others are rounded up.
        """
        rounds, finer = self.rounds, int(memory[SCALE]) // int(self.table[UNIT])
        # `grain` units of distance are as much as `now` of today; the product would not fit an integer
        grain, now = int(self.table[GRAIN]), finer * int(memory[FINE])
        whole, rest = np.divmod(rounds[:, 3], grain)
        moved = whole * now - (-rest * now // grain)
        return np.column_stack([rounds[:, :3] * np.array([1, finer, finer]), moved])

    def _hold(self, memory: Ints, rounds: Ints, seen: int, room: int) -> None:
        self.table = new_table(int(self.table[SIZE]), int(memory[SCALE]), int(memory[FINE]), room)
        self.table[SEEN] = seen
        note_rounds(self.table, rounds)

    def certificate(self, memory: Ints, now: int | None = None) -> float:
        """A proven bound on the distance to calibration of the rounds in the window of this moment, a sum."""
        rounds = int(memory[ROUNDS])
        if now is None:
            now = rounds
        if self.table[SEEN] != rounds:
            self.prepare(memory, rounds, now + 1)
        return float(window_sums(self.table, now))

    @property
    def rounds(self) -> Ints:
        """The rounds in the window, the oldest first: moment, point, change and distance, shape (n, 4)."""
        table = self.table
        ring = table[RING : RING + ENTRY * table[ROOM]].reshape(-1, ENTRY)
        return ring[(table[FIRST] + np.arange(table[HELD])) % table[ROOM]]

    def __getstate__(self) -> dict[str, Any]:
        return {"head": self.table[[SIZE, UNIT, GRAIN, SEEN]], "rounds": self.rounds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        head, rounds = state["head"], state["rounds"]
        for array, shape in ((head, (4,)), (rounds, (len(rounds), ENTRY))):
            require(isinstance(array, np.ndarray) and array.dtype == np.int64, "its window's type")
            require(array.shape == shape, "its window's type")
        rounds = owned(rounds)
        size, unit, grain, seen = head.tolist()
        require(0 < size <= MOST_WINDOW and unit > 0 < grain and seen >= 0, "its window")
        require(unit * grain < 1 << 37, "its window")
        moments, points, changes, moved = rounds.T
        require(bool((moments[1:] > moments[:-1]).all()), "its window's rounds")
        require(not len(rounds) or 0 <= int(moments[0]) > int(moments[-1]) - size, "its window's rounds")
        for part, low, high in (
            (points, 0, unit),
            (changes, -unit, unit),
            # at most 1, what an outcome's rounding adds, half a unit, and what was rounded up of both
            (moved, 0, 2 * unit * grain + grain + 3),
        ):
            require(bool(((part >= low) & (part <= high)).all()), "its window's rounds")
        self.table = new_table(size, unit, grain, max(FEW, len(rounds)))
        self.table[SEEN] = seen
        note_rounds(self.table, rounds)

    def check(self, size: int, memory: Ints) -> None:
        """ValueError unless this can be the window of that size beside the memory."""
        table = self.table
        require(table[SIZE] == size and table[UNIT] == memory[SCALE], "its window")
        require(table[GRAIN] == memory[FINE] and table[SEEN] == memory[ROUNDS], "its window")
