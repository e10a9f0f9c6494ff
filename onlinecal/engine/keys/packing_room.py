"""Room whose players can be packed, and taken up again: many at a time, since calls cost more."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onlinecal.engine.keys.attic import Attic, Ints
from onlinecal.engine.keys.packed_players import (
    FEW,
    ROOM,
    ROWS,
    SPACE,
    pack_players,
    store_players,
    together,
    unpack_players,
)
from onlinecal.engine.keys.packing import pack
from onlinecal.engine.keys.room import Room, taken
from onlinecal.engine.keys.steering import KEPT, NEW
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead

TOGETHER = 256
"""Players of a call: for each there is room for the most that it can take."""
NEW_ONES = 128
"""New players that are made together."""

NEW_WORDS, KEPT_WORDS = NEW.view(np.int64), -KEPT.astype(np.int64)
"""Of steering: what a new one knows, and -1 for what is kept."""


class PackingRoom(Room):
    """Players as bytes; `watched` is whether they have accounts."""

    def __init__(self, model: AlmostOneStepAhead, watched: bool) -> None:
        super().__init__(model)
        self._watched = watched
        self._new_ones: list[int] = []
        self._out = np.empty(0, np.int64)
        new = together(pack(model.machine.rules.in_use(model.memory)), None, None, 0, 0)
        self._new = words_of(new)
        self.attic = Attic()

    def _have_scratch(self, most: int) -> None:
        if most > len(self._out):
            self._out = np.empty(most, np.int64)

    def packed(self, players: list[int]) -> list[bytes]:
        """Players as bytes; they stay what they are."""
        found: list[bytes] = []
        for start in range(0, len(players), TOGETHER):
            which = np.array(players[start : start + TOGETHER])
            most = int(self.state.places[which, 1].sum()) + ROOM * len(which)
            self._have_scratch(most)
            out, ends = self._out, np.empty(len(which), np.int64)
            pack_players(self.state, which, self._watched, NEW_WORDS, KEPT_WORDS, out, ends)
            data = out[: ends[-1]].tobytes()
            found += [data[begin:end] for begin, end in pairwise([0, *(8 * ends).tolist()])]
        return found

    def store(self, players: Ints) -> Ints:
        """Pack players into the attic: where each is, and how many words it has; (players, 2)."""
        most = int(self.state.places[players, 1].max()) + ROOM
        self._have_scratch(most)
        found, done = np.empty((len(players), 2), np.int64), 0
        while True:
            given = (
                players[done:],
                self._watched,
                NEW_WORDS,
                KEPT_WORDS,
                self._out,
                self.attic.rooms,
                found[done:],
            )
            store_players(self.state, *given)
            full = np.flatnonzero(found[done:, 0] < 0)
            if not len(full):
                return found
            done += int(full[0])
            self.attic.grow(most)

    def unpack(self, packed: list[bytes]) -> list[int]:
        """Players that go on from where those were that were packed."""
        starts = np.cumsum([0, *map(len, packed)])[:-1] // 8
        return self._take_up(words_of(b"".join(packed)), starts).tolist()

    def fetch(self, starts: Ints, sizes: Ints) -> Ints:
        """Players from the attic, who leave it."""
        players = self._take_up(self.attic.rooms.words, starts)
        self.attic.leave(starts, sizes)
        return players

    def _take_up(self, data: Ints, starts: Ints) -> Ints:
        """Players as they stand in packed words from these places on."""
        n = len(starts)
        while len(self.players.free) < n:
            self._grow_players()
        which = np.array(taken(self.players.free, n), np.int64)
        progress = np.array([0, self.progress[1], 0, 0])
        while True:
            rows = np.array(self.rows.free[: -n - 1 : -1], np.int64)
            progress[2] = 0
            lacks = unpack_players(self.state, data, starts, which, rows, NEW_WORDS, progress)
            if progress[2]:
                del self.rows.free[-progress[2] :]
            self.progress[1] = progress[1]
            if not lacks:
                return which
            if lacks == ROWS:
                self._grow_rows()
            elif lacks == SPACE:
                self._clear_heap(int(progress[3]) + FEW * n)
                progress[1] = self.progress[1]

    def new_player(self) -> int:
        """A player that has not begun."""
        return self.new_players(1)[0]

    def new_players(self, number: int) -> list[int]:
        """So many players that have not begun."""
        lacking = number - len(self._new_ones)
        if lacking > 0:
            n = max(lacking, NEW_ONES)
            starts = np.zeros(n, np.int64)
            self._new_ones += self._take_up(self._new, starts).tolist()
        return taken(self._new_ones, number)

    def let_go(self, players: list[int]) -> None:
        """Forget players; places of open forecasts stay."""
        rows = self.state.rows[players]
        self.rows.free += rows[rows >= 0].tolist()
        self.players.free += players


def words_of(data: bytes) -> Ints:
    """Packed players as words that may be written, as the attic's: one version of what takes them up."""
    return np.frombuffer(data, np.int64).copy()
