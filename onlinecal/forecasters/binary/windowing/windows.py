"""The certificate of the last rounds alone, kept beside a grid machine's memory.

A round of a grid machine is charged to a point, changes its bias and is announced at some distance from it. A
window holds these of the rounds of the last so many moments, and for each point the sum of the changes: how
its bias differs from what it was before the window. Both are integers in the units of the memory, so what
leaves the window is taken off exactly. Theorem 25 of docs/theory.md says what that proves.

A moment is a settled round of whatever the window is of: of the forecaster itself, or of a stream whose
rounds several forecasters share. By Fact 4 the certificates of their windows add up to one of its window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import FINE, ROUNDS, SCALE
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.binary.windowing.window_table import (
    ENTRY,
    FIRST,
    GRAIN,
    HELD,
    RING,
    ROOM,
    SEEN,
    SIZE,
    UNIT,
    follow_round,
    is_ready,
    new_table,
    note_rounds,
    window_sums,
)

MOST_WINDOW = 1 << 24
"""Moments: the distances of so many rounds, each below 2^38, fit an integer."""
NO_ROUNDS: NDArray[np.int64] = np.empty((0, ENTRY), np.int64)
OWN_ROUNDS = -1
FEW = 16
"""Rounds that there is room for from the start."""


class Window:
    """The rounds of the last `size` moments that one memory was charged with, and their certificate.

    Where rounds of the memory were played without it (by a compiled loop on the memory alone, say), each of
    them counts as a distance of 1 while it is in the window: so what is said stays true.
    """

    def __init__(self, size: int, memory: NDArray[np.int64]) -> None:
        self.table = new_table(size, int(memory[SCALE]), int(memory[FINE]), min(size, FEW))

    @classmethod
    def holding(cls, size: int, memory: NDArray[np.int64], rounds: NDArray[np.int64]) -> Window:
        """The window with these `rounds`, the last that the memory had; ValueError if it cannot have them."""
        window = cls.__new__(cls)
        head = [size, int(memory[SCALE]), int(memory[FINE]), int(memory[ROUNDS])]
        window.__setstate__({"head": np.array(head), "rounds": rounds})
        return window

    def follow(
        self,
        memory: NDArray[np.int64],
        lower: int,
        step: int,
        outcome: float,
        moved: int,
        now: int | None = None,
    ) -> None:
        """Note the round that the memory was just charged with in that cell, in its units of today.

        `moved` is its MOVED before; `now` the round's moment, None: how many rounds the memory has had.
        """
        moment = OWN_ROUNDS if now is None else now
        while not follow_round(self.table, memory, moment, lower, step, float(outcome), moved):
            rounds = int(memory[ROUNDS])
            self.prepare(memory, rounds - 1, rounds if now is None else now)

    def prepare(self, memory: NDArray[np.int64], rounds: int, now: int) -> None:
        """Make ready to note the round of this moment that comes after so many others of the memory."""
        table = self.table
        missed = rounds - int(table[SEEN])
        if missed < 0:
            # the memory is one of an earlier time: nothing is known of its last rounds
            self.table = table = new_table(int(table[SIZE]), int(table[UNIT]), int(table[GRAIN]), FEW)
            missed = rounds
        for moment in range(now - min(missed, int(table[SIZE])), now):
            self.note_surprise(moment)
        self.table[SEEN] = rounds
        if not is_ready(self.table, memory, rounds, now):
            window_sums(self.table, now)
            held = self.rounds
            self._take(memory, held, max(FEW, min(2 * len(held), int(table[SIZE])), len(held) + 1))

    def note_surprise(self, now: int) -> None:
        """Note a round of this moment whose distance is 1."""
        window_sums(self.table, now)
        if self.table[HELD] == self.table[ROOM]:
            self._hold(self.rounds, 2 * int(self.table[ROOM]))
        one = 2 * int(self.table[UNIT]) * int(self.table[GRAIN])
        note_rounds(self.table, np.array([[now, 0, 0, one]]))

    def suit(self, memory: NDArray[np.int64]) -> None:
        """Go over to the memory's units, which may have become finer."""
        if self.table[UNIT] != memory[SCALE]:
            self._take(memory, self.rounds, int(self.table[ROOM]))

    def _take(self, memory: NDArray[np.int64], rounds: NDArray[np.int64], room: int) -> None:
        """Hold these rounds, in the memory's units from now on.

        Points and changes are whole numbers of these, and so are distances between points of the grid, its
        cells' middles and their ends; others are rounded up.
        """
        table, unit, grain = self.table, int(memory[SCALE]), int(memory[FINE])
        finer, before = unit // int(table[UNIT]), int(table[GRAIN])
        # `before` units of distance are as much as `now` of today; the product would not fit an integer
        now = finer * grain
        whole, rest = np.divmod(rounds[:, 3], before)
        moved = whole * now - (-rest * now // before)
        table[UNIT], table[GRAIN] = unit, grain
        self._hold(np.column_stack([rounds[:, :3] * np.array([1, finer, finer]), moved]), room)

    def _hold(self, rounds: NDArray[np.int64], room: int) -> None:
        before = self.table
        self.table = table = new_table(int(before[SIZE]), int(before[UNIT]), int(before[GRAIN]), room)
        table[SEEN] = before[SEEN]
        note_rounds(table, rounds)

    def certificate(self, memory: NDArray[np.int64], now: int | None = None) -> float:
        """A proven bound on the distance to calibration of the rounds in the window of this moment, a sum."""
        rounds = int(memory[ROUNDS])
        if now is None:
            now = rounds
        if self.table[SEEN] != rounds:
            self.prepare(memory, rounds, now + 1)
        return float(window_sums(self.table, now))

    @property
    def rounds(self) -> NDArray[np.int64]:
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
        self.table = new_table(size, unit, grain, FEW)
        self.table[SEEN] = seen
        self._hold(rounds, max(FEW, len(rounds)))

    def check(self, size: int, memory: NDArray[np.int64]) -> None:
        """ValueError unless this can be the window of that size beside the memory."""
        table = self.table
        require(table[SIZE] == size and table[UNIT] == memory[SCALE], "its window")
        require(table[GRAIN] == memory[FINE] and table[SEEN] == memory[ROUNDS], "its window")
