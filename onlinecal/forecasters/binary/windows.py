"""The certificate of the last rounds alone, kept beside a grid machine's memory.

A round of a grid machine is charged to a point, changes its bias and is announced at some distance from it. A
window holds point, change and distance for the rounds of the last moments. For each point it holds the sum of
the changes: how its bias differs from what it was before the window. All are integers in the units of the
memory, so a round that leaves the window is subtracted exactly. Theorem 25 of docs/theory.md says what that
proves.

A moment is a settled round of the forecaster itself, or of a stream whose rounds several forecasters share.
By Fact 4 the certificates of their windows add up to one of the stream's window.

The table of a window is one flat sequence of int64: a header, the rounds as a ring, and the changes of the
points' biases as a hash table. Invariant: the sums in the header are those over the ring, and the hash table
has the changes of the ring's rounds, point by point. Points of rounds that have left keep their slot, with
the sum 0.

A table is written by `follow` (with `forget`, `note` and `book`), by `note_rounds` while it is made, and by
`window_sums`, which forgets: so a question changes a table, and moments must not decrease. `Window.prepare`
and `Window.suit` put another table in its place, so nobody keeps it from call to call. Kernels call `follow`
right behind `charge`, once `is_ready` has said before that there is room; else `Window.prepare` makes room
between two calls. SEEN is the memory's ROUNDS, but where a loop has played on the memory alone. Then
`prepare` takes up what it missed, each round as a distance of 1.

Only LENGTH, the memory's units, SEEN and the rounds of the ring are saved (`__getstate__`, and `storing` of
the engine). The rest of the table follows from them. So slots, the size of the ring and the order of the
other fields may change freely.
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
LENGTH = HEADER.field("length of the window", "moments")
RING_LENGTH = HEADER.field("length of the ring", "rounds")
SLOT_BITS = HEADER.field("binary logarithm of the slots for points", "count")
MEMORY_SCALE = HEADER.field("SCALE of the memory", "units")
MEMORY_FINE = HEADER.field("FINE of the memory", "units")
SEEN = HEADER.field("rounds of the memory that were noted", "rounds")
HELD = HEADER.field("rounds in the ring", "rounds")
OLDEST = HEADER.field("place of the oldest round in the ring", "place")
SLOTS_USED = HEADER.field("slots with a point", "count")
DISTANCE_SUM = HEADER.field("sum of the distances", "1/(2 MEMORY_SCALE MEMORY_FINE)")
CHANGE_SUM = HEADER.field("sum over points of how far biases changed", "1/MEMORY_SCALE")
RING = HEADER.end
"""Where the ring begins. An entry has a round's moment, its point, the change of its bias and the
distance."""
ENTRY_LENGTH = 4


def new_table(size: int, unit: int, grain: int, room: int) -> Ints:
    """A window without rounds, with room for so many."""
    bits = 2 + min(room - 1, unit).bit_length()
    table = np.zeros(RING + ENTRY_LENGTH * room + (2 << bits), np.int64)
    table[LENGTH] = size
    table[RING_LENGTH] = room
    table[SLOT_BITS] = bits
    table[MEMORY_SCALE] = unit
    table[MEMORY_FINE] = grain
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
    table[DISTANCE_SUM] += moved
    if change == 0:
        return
    bits, slots = table[SLOT_BITS], RING + ENTRY_LENGTH * table[RING_LENGTH]
    # Fibonacci hashing: the upper bits of the lower half of the product
    slot = ((point * 2654435769) & 0xFFFFFFFF) >> (32 - bits)
    place = slots + 2 * slot
    while table[place] != 0 and table[place] != point + 1:
        slot = (slot + 1) & ((1 << bits) - 1)
        place = slots + 2 * slot
    if table[place] == 0:
        table[place] = point + 1
        table[SLOTS_USED] += 1
    before = table[place + 1]
    table[place + 1] = before + change
    table[CHANGE_SUM] += abs(before + change) - abs(before)


@inlined
def forget(table: Memory, now: int) -> None:
    """Remove the rounds that are too old for the window of this moment."""
    over = now - table[LENGTH]
    while table[HELD] > 0:
        oldest = RING + ENTRY_LENGTH * table[OLDEST]
        if table[oldest] > over:
            return
        book(table, table[oldest + 1], -table[oldest + 2], -table[oldest + 3])
        table[HELD] -= 1
        table[OLDEST] += 1
        if table[OLDEST] == table[RING_LENGTH]:
            table[OLDEST] = 0


@inlined
def note(table: Memory, now: int, point: int, change: int, moved: int) -> None:
    """Add the round of this moment, which is later than all before; after `forget`, while there is room."""
    place = table[OLDEST] + table[HELD]
    if place >= table[RING_LENGTH]:
        place -= table[RING_LENGTH]
    entry = RING + ENTRY_LENGTH * place
    table[entry], table[entry + 1], table[entry + 2], table[entry + 3] = now, point, change, moved
    table[HELD] += 1
    book(table, point, change, moved)


@inlined
def is_ready(table: Memory, memory: Memory, rounds: int, now: int) -> bool:
    """Whether the memory's next round after so many others can be noted, at this moment.

    At most half of the slots may be in use, with those of points whose rounds have left the window.
    """
    if (
        table[SEEN] != rounds
        or table[MEMORY_SCALE] != memory[SCALE]
        or 2 * table[SLOTS_USED] > 1 << table[SLOT_BITS]
    ):
        return False
    return bool(
        table[HELD] < table[RING_LENGTH] or table[RING + ENTRY_LENGTH * table[OLDEST]] <= now - table[LENGTH]
    )


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
    return (
        table[DISTANCE_SUM] / (2.0 * table[MEMORY_SCALE] * table[MEMORY_FINE])
        + table[CHANGE_SUM] / table[MEMORY_SCALE]
    )


MOST_WINDOW = 1 << 24
"""The most moments of a window: the distances of so many rounds, each below 2^38, have a sum of 64 bits."""
NO_TABLE: Ints = np.empty(0, np.int64)
NO_ROUNDS: Ints = np.empty((0, ENTRY_LENGTH), np.int64)
OWN_ROUNDS = -1
"""Stands for the moment that the memory's own number of rounds gives."""
LEAST_RING = 16
"""A ring has room for so many rounds from the start, or for the whole window."""


class Window:
    """The rounds of the last `size` moments that one memory was charged with, and their certificate.

    Rounds of the memory may be played without the window, as by a compiled loop on the memory alone. Each of
    them counts as a distance of 1 while it is in the window, so that the certificate still holds.
    """

    def __init__(self, size: int, memory: Ints) -> None:
        self.table = new_table(size, int(memory[SCALE]), int(memory[FINE]), min(size, LEAST_RING))

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

        `moved` is its MOVED before the round. `now` is the round's moment; None: the memory's number of
        rounds.
        """
        moment = OWN_ROUNDS if now is None else now
        while not follow_round(self.table, memory, moment, lower, step, float(outcome), moved):
            rounds = int(memory[ROUNDS])
            self.prepare(memory, rounds - 1, rounds if now is None else now)

    def prepare(self, memory: Ints, rounds: int, now: int) -> None:
        """Make ready to note the memory's next round after so many others, at this moment."""
        window_sums(self.table, now)
        size, held, missed = (
            int(self.table[LENGTH]),
            self._in_units_of(memory),
            rounds - int(self.table[SEEN]),
        )
        if missed < 0:
            # the memory is one of an earlier time, whose last rounds the window does not have
            held, missed = NO_ROUNDS, rounds
        unseen = np.zeros((min(missed, size), ENTRY_LENGTH), np.int64)
        unseen[:, 0] = np.arange(now - len(unseen), now)
        unseen[:, 3] = 2 * int(memory[SCALE]) * int(memory[FINE])
        held = np.concatenate([held, unseen])
        held = held[held[:, 0] > now - size]
        self._hold(memory, held, rounds, max(LEAST_RING, min(2 * len(held), size), len(held) + 1))

    def suit(self, memory: Ints) -> None:
        """Go over to the memory's units, which may have become finer."""
        if self.table[MEMORY_SCALE] != memory[SCALE]:
            held = self._in_units_of(memory)
            self._hold(memory, held, int(self.table[SEEN]), int(self.table[RING_LENGTH]))

    def _in_units_of(self, memory: Ints) -> Ints:
        """The rounds in the memory's units of today.

        Points and changes are whole numbers of these units. So are distances between points of the grid, the
        middles of cells and their ends; all other distances are rounded up.
        """
        rounds, finer = self.rounds, int(memory[SCALE]) // int(self.table[MEMORY_SCALE])
        # `old` units of distance are as much as `new` of today; the product of both would not fit an integer
        old, new = int(self.table[MEMORY_FINE]), finer * int(memory[FINE])
        whole, rest = np.divmod(rounds[:, 3], old)
        moved = whole * new - (-rest * new // old)
        return np.column_stack([rounds[:, :3] * np.array([1, finer, finer]), moved])

    def _hold(self, memory: Ints, rounds: Ints, seen: int, room: int) -> None:
        self.table = new_table(int(self.table[LENGTH]), int(memory[SCALE]), int(memory[FINE]), room)
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
        ring = table[RING : RING + ENTRY_LENGTH * table[RING_LENGTH]].reshape(-1, ENTRY_LENGTH)
        return ring[(table[OLDEST] + np.arange(table[HELD])) % table[RING_LENGTH]]

    def __getstate__(self) -> dict[str, Any]:
        return {"head": self.table[[LENGTH, MEMORY_SCALE, MEMORY_FINE, SEEN]], "rounds": self.rounds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        head, rounds = state["head"], state["rounds"]
        for array, shape in ((head, (4,)), (rounds, (len(rounds), ENTRY_LENGTH))):
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
        self.table = new_table(size, unit, grain, max(LEAST_RING, len(rounds)))
        self.table[SEEN] = seen
        note_rounds(self.table, rounds)

    def check(self, size: int, memory: Ints) -> None:
        """ValueError unless this can be the window of that size beside the memory."""
        table = self.table
        require(table[LENGTH] == size and table[MEMORY_SCALE] == memory[SCALE], "its window")
        require(table[MEMORY_FINE] == memory[FINE] and table[SEEN] == memory[ROUNDS], "its window")
