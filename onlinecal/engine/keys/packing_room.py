"""Room whose players can be packed, and taken up again: many at a time, since calls cost more."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from onlinecal.engine.keys.packed_players import (
    ROOM,
    ROWS,
    SPACE,
    pack_players,
    together,
    unpack_players,
)
from onlinecal.engine.keys.packing import pack
from onlinecal.engine.keys.room import Room
from onlinecal.engine.keys.steering import KEPT, NEW
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead

TOGETHER = 256
"""Players of a call: for each there is room for the most that it can take."""
NEW_ONES = 128
"""New players that are made together."""

_WORDS = NEW.view(np.int64)


class PackingRoom(Room):
    """Players as bytes; `watched` is whether they have accounts."""

    def __init__(self, model: AlmostOneStepAhead, watched: bool) -> None:
        super().__init__(model)
        self._watched = watched
        self._new_ones: list[int] = []
        self._out = np.empty(0, np.int64)
        self._new = together(pack(model.machine.rules.in_use(model.memory)), None, None, 0, 0)

    def packed(self, players: list[int]) -> list[bytes]:
        """Players as bytes; they stay what they are."""
        found: list[bytes] = []
        for start in range(0, len(players), TOGETHER):
            which = np.array(players[start : start + TOGETHER])
            lengths = self.state.places[which, 1]
            most = int(lengths.sum()) + ROOM * len(which)
            if most > len(self._out):
                self._out = np.empty(most, np.int64)
            out = self._out
            ends = np.empty(len(which), np.int64)
            pack_players(self.state, which, self._watched, _WORDS, KEPT, out, ends)
            data = out[: ends[-1]].tobytes()
            found += [data[begin:end] for begin, end in pairwise([0, *(8 * ends).tolist()])]
        return found

    def unpack(self, packed: list[bytes]) -> list[int]:
        """Players that go on from where those were that were packed."""
        while len(self.players.free) < len(packed):
            self._grow_players()
        players = self.players.free[: -len(packed) - 1 : -1]
        del self.players.free[-len(packed) :]
        which, progress = np.array(players), np.array([0, self.progress[1], 0])
        starts = np.cumsum([0, *map(len, packed)]) // 8
        data = np.frombuffer(b"".join(packed), np.int64)
        while True:
            rows = np.array(self.rows.free[: -len(packed) - 1 : -1], np.int64)
            progress[2] = 0
            lacks = unpack_players(self.state, data, starts, which, rows, _WORDS, progress)
            if progress[2]:
                del self.rows.free[-progress[2] :]
            self.progress[1] = progress[1]
            if not lacks:
                return players
            if lacks == ROWS:
                self._grow_rows()
            elif lacks == SPACE:
                self._clear_heap(len(data))
                progress[1] = self.progress[1]

    def new_player(self) -> int:
        """A player that has not begun."""
        if not self._new_ones:
            self._new_ones = self.unpack([self._new] * NEW_ONES)
        return self._new_ones.pop()

    def let_go(self, players: list[int]) -> None:
        """Forget players; places of open forecasts stay."""
        rows = self.state.rows[players]
        self.rows.free += rows[rows >= 0].tolist()
        self.players.free += players
