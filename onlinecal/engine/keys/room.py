"""Room for players: numbers that are free, arrays that grow, and a heap that is cleared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.engine.keys.playing import Players
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC
from onlinecal.steering.binary import TICKET
from onlinecal.steering.trust import SIZE, new_steering

FEW = 64
"""Integers of the smallest memory that can grow; players, places and rows that there is room for at first."""


OPEN = "cells", "forecasts", "certificates", "tickets", "hinted", "hints", "numbers", "stakes"
"""What is kept of open forecasts, by place."""


@compiled
def move_memories(
    old: NDArray[np.int64], heap: NDArray[np.int64], places: NDArray[np.int64], starts: NDArray[np.int64]
) -> None:
    """Copy memories, (players, 2) as `Players` has them, to where they are to start in another heap."""
    for player in range(len(starts)):
        for j in range(places[player, 1]):
            heap[starts[player] + j] = old[places[player, 0] + j]


@compiled
def begin_rows(steering: NDArray[np.float64], rows: NDArray[np.int64], new: NDArray[np.float64]) -> None:
    """Let rows of steering be those of new ones."""
    for row in rows:
        for j in range(len(new)):
            steering[row, j] = new[j]


def grown(size: int) -> int:
    """What to grow to: to copy what is there costs more than room that nobody has touched."""
    return max(FEW, 4 * size)


class Stack:
    """Numbers that are free, and how many there are in all."""

    def __init__(self) -> None:
        self.free: list[int] = []
        self.size = 0

    def grow(self, size: int) -> None:
        """Free are also the numbers up to a new size; the lowest comes first."""
        self.free += range(size - 1, self.size - 1, -1)
        self.size = size


class Room:
    """Players with one model and the places of their open forecasts: see `Players`."""

    def __init__(self, model: AlmostOneStepAhead) -> None:
        self.model = model
        self.players, self.open, self.rows = Stack(), Stack(), Stack()
        places, counts, cells = (np.zeros((0, 2), np.int64) for _ in range(3))
        self.state = Players(
            heap=np.zeros(FEW * FEW, np.int64), places=places, steering=np.empty((0, SIZE)),
            rows=np.empty(0, np.int64), counts=counts, accounts=np.empty((0, ACCOUNT)), cells=cells,
            forecasts=np.empty(0), certificates=np.empty(0), tickets=np.empty((0, TICKET)),
            hinted=np.empty(0, np.bool_),
            hints=np.empty(0), numbers=np.empty(0, np.int64), stakes=np.empty((0, STAKES), np.float32),
        )  # fmt: skip
        # the seats of players that have one, or had
        self.owners = np.zeros(0, np.int64)
        self.progress = np.zeros(4, np.int64)
        self._begun, self._steered = model.machine.rules.in_use(model.memory), new_steering()

    def new_players(self, number: int, memory: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """So many players with a memory, None for one that has not begun; with room to grow if it does."""
        while len(self.players.free) < number:
            self._grow_players()
        players = np.array(taken(self.players.free, number), np.int64)
        begun = self._begun if memory is None else memory
        grows = begun[FORMAT] == FORMAT_DYADIC
        length = max(FEW, 1 << (len(begun) + 1).bit_length()) if grows else len(begun)
        starts = self._take_heap(number * length) + length * np.arange(number)
        rows = self.state.heap[starts[0] : starts[0] + number * length].reshape(number, length)
        rows[:, : len(begun)], rows[:, len(begun) :] = begun, 0
        state = self.state
        state.places[players, 0], state.places[players, 1], state.rows[players] = starts, length, -1
        state.counts[players], state.accounts[players] = 0, 0.0
        return players

    def let_go(self, players: NDArray[np.int64]) -> None:
        """Forget players; places of open forecasts stay."""
        rows = self.state.rows[players]
        self.rows.free += rows[rows >= 0].tolist()
        self.players.free += players.tolist()

    def begin_steering(self, player: int, state: NDArray[np.float64] | None = None) -> None:
        """Steer a player's hints from now on, as a new one's or from a state."""
        self.begin_steering_together(np.array([player]))
        if state is not None:
            self.state.steering[self.state.rows[player]] = state

    def begin_steering_together(self, players: NDArray[np.int64]) -> None:
        """Steer the hints of players from now on, as new ones'."""
        while len(self.rows.free) < len(players):
            self._grow_rows()
        rows = taken(self.rows.free, len(players))
        self.state.rows[players] = rows
        begin_rows(self.state.steering, np.array(rows), self._steered)

    def _grow_rows(self) -> None:
        size = grown(self.rows.size)
        self.state = self.state._replace(steering=longer(self.state.steering, size))
        self.rows.grow(size)

    def take_place(self) -> int:
        """A place for a forecast that will be open."""
        [place] = self.take_places(1)
        return place

    def take_places(self, number: int) -> list[int]:
        """So many places."""
        free = self.open.free
        while len(free) < number:
            size = grown(self.open.size)
            self._lengthen(OPEN, size)
            self.open.grow(size)
        return taken(free, number)

    def memory(self, player: int) -> NDArray[np.int64]:
        """A player's memory, as long as nothing else happens here."""
        start, length = self.state.places[player].tolist()
        return self.state.heap[start : start + length]

    def _grow_players(self) -> None:
        size = grown(self.players.size)
        self._lengthen(("places", "rows", "counts", "accounts"), size)
        self.owners = longer(self.owners, size)
        self.players.grow(size)

    def _lengthen(self, names: tuple[str, ...], size: int) -> None:
        self.state = self.state._replace(**{name: longer(getattr(self.state, name), size) for name in names})

    def _take_heap(self, length: int) -> int:
        start = int(self.progress[1])
        if start + length > len(self.state.heap):
            self._clear_heap(length)
            start = int(self.progress[1])
        self.progress[1] += length
        return start

    def _clear_heap(self, more: int) -> None:
        """Move all memories together, with room for so many integers, and at least as many again."""
        places, old = self.state.places, self.state.heap
        # what players had that are gone
        places[self.players.free] = 0
        lengths = places[:, 1]
        used = int(lengths.sum())
        heap = np.zeros(2 * (used + more) + FEW * FEW, np.int64)
        starts = np.cumsum(lengths) - lengths
        move_memories(old, heap, places, starts)
        places[:, 0] = starts
        self.progress[1] = used
        self.state = self.state._replace(heap=heap)


def taken(free: list[int], number: int) -> list[int]:
    """So many of the numbers that are free, which are no longer: the last one comes first."""
    found = free[len(free) - number :]
    del free[len(free) - number :]
    found.reverse()
    return found


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """An array with so many rows, the new ones 0."""
    found = np.zeros((size, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found
