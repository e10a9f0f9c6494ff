"""Keys that move into an arena, or out of it, with all that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf, nan

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from onlinecal.compiling import at_once
from onlinecal.engine.keys.lanes import BinaryLane, Issued, Lane
from onlinecal.engine.keys.packed_players import ACCOUNT_BYTES, FRONT, HEAD, ROOM, together
from onlinecal.engine.keys.packing import unpack_floats, with_sum
from onlinecal.engine.keys.packing_room import KEPT_WORDS, NEW_WORDS, PackingRoom
from onlinecal.engine.keys.steering import KeySteering, ProbabilitySteering, hinted
from onlinecal.engine.keys.writing import PER_KEY, PER_OPEN, Floats, Ints, Told, write_states
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.engine.watch.key_watch import KeyWatch, StoredWatch
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.steering.binary import TICKET

_write = at_once(write_states)


class Lodging(PackingRoom):
    """Players with one model, as keys have them elsewhere; `names` are those of their keys without seats."""

    def __init__(self, model: AlmostOneStepAhead, new_watch: Callable[[], KeyWatch] | None) -> None:
        self.new_watch = new_watch
        self._watcher = None if new_watch is None else new_watch()
        self._threshold = nan if self._watcher is None else self._watcher.threshold
        self.names: dict[int, str] = {}
        self._written = np.empty(0, np.uint8)
        super().__init__(model, new_watch is not None)

    def enter(
        self,
        name: str,
        lane: Lane | None = None,
        steering: KeySteering | None = None,
        watch: KeyWatch | None = None,
        waiting: Iterable[Issued] = (),
        late: int = 0,
    ) -> int:
        """A new player, or one with a lane's memory, a key's steering, open forecasts and how late they were.

        The `cell` of these is then their place.
        """
        if lane is None:
            player = self.new_player()
            self.names[player] = name
            return player
        assert isinstance(lane, BinaryLane)
        player = self._enter(name, lane.machine.rules.in_use(lane.memory), late)
        if steering is not None:
            self.begin_steering(player, steering.state)
        for issued in waiting:
            ticket = None if steering is None else steering.tickets.get(issued.number)
            self._open(player, issued, ticket, watch)
        if watch is not None:
            self.state.accounts[player] = watch.account
        return player

    def take_back(
        self, lane: bytes, steering: bytes | None, watch: bytes | None, waiting: list[Issued], late: int
    ) -> bytes:
        """A packed player as it was dumped, here and by this process; `waiting` as for `enter`."""
        account, stakes, tickets = None, b"", b""
        if watch is not None:
            floats = msgspec.msgpack.decode(watch, type=StoredWatch).floats
            kept = int.from_bytes(floats[:ACCOUNT_BYTES]).bit_count()
            account, stakes = floats[: ACCOUNT_BYTES + 8 * kept], floats[ACCOUNT_BYTES + 8 * kept :]
        if steering is not None:
            end = len(steering) - 8 * TICKET * len(hinted(waiting))
            steering, tickets = steering[:end], steering[end:]
        if waiting:
            self._open_all(waiting, tickets, stakes)
        return together(lane, steering, account, len(waiting), late)

    def _open_all(self, waiting: list[Issued], tickets: bytes, stakes: bytes) -> None:
        """Give open forecasts places, with what steering keeps of those with hints and what is bet on all."""
        places, n = [self.take_place() for _ in waiting], len(waiting)
        # which more places may have moved
        state = self.state
        state.cells[places] = [one.cell for one in waiting]
        state.forecasts[places] = [one.probability for one in waiting]
        state.certificates[places] = [one.certificate for one in waiting]
        state.hints[places] = [nan if one.hint is None else one.hint for one in waiting]
        state.numbers[places] = [one.number for one in waiting]
        bets = unpack_floats(stakes, "<f4", n * STAKES)[0] if stakes else np.zeros(n * STAKES)
        state.stakes[places] = bets.reshape(n, STAKES)
        with_ticket = [one.hint is not None and tickets != b"" for one in waiting]
        state.hinted[places] = with_ticket
        if tickets:
            state.tickets[np.array(places)[with_ticket]] = np.frombuffer(tickets).reshape(-1, TICKET)
        for one, place in zip(waiting, places, strict=True):
            one.cell = place

    def _enter(self, name: str, memory: NDArray[np.int64], late: int = 0) -> int:
        if not self.players.free:
            self._grow_players()
        player = self.players.free.pop()
        self.names[player] = name
        self.state.rows[player], self.state.counts[player], self.state.accounts[player] = -1, (0, late), 0.0
        self._put(player, memory)
        return player

    def _open(
        self, player: int, issued: Issued, ticket: NDArray[np.float64] | None, watch: KeyWatch | None
    ) -> None:
        """Give an open forecast a place."""
        place, state = self.take_place(), self.state
        state.counts[player, 0] += 1
        state.cells[place], state.forecasts[place] = issued.cell, issued.probability
        state.certificates[place] = issued.certificate
        state.hints[place] = nan if issued.hint is None else issued.hint
        state.numbers[place] = issued.number
        if watch is not None and issued.number in watch.tickets:
            state.stakes[place] = watch.tickets[issued.number]
        state.hinted[place] = ticket is not None
        if ticket is not None:
            state.tickets[place] = ticket
        issued.cell = place

    def as_alone(
        self, player: int, waiting: list[Issued]
    ) -> tuple[list[Lane], KeySteering | None, list[Issued]]:
        """Copies of a player's lane, steering and open forecasts, as they are outside."""
        state = self.state
        memory = self.model.machine.rules.in_use(self.memory(player))
        lane, row = BinaryLane(self.model, memory.copy()), int(state.rows[player])
        alone = [replace(issued, cell=tuple(state.cells[issued.cell].tolist())) for issued in waiting]
        if row < 0:
            return [lane], None, alone
        steering = ProbabilitySteering()
        steering.state = state.steering[row].copy()
        steering.tickets = {
            issued.number: state.tickets[issued.cell].copy()
            for issued in waiting
            if state.hinted[issued.cell]
        }
        return [lane], steering, alone

    def dump(
        self, players: Ints, words: Ints, starts: Ints, sizes: Ints, told: Told, clocks: Floats, expired: Ints
    ) -> tuple[list[bytes], Ints]:
        """Keys as they are stored, and how each packed player begins.

        Of keys that are packed the player is -1; so many words of theirs are there from their starts on.
        """
        longest = ROOM + int(self.state.places[players[players >= 0], 1].max(initial=0))
        n_bytes = 8 * int(sizes.sum()) + (8 * longest + PER_KEY) * len(players)
        n_bytes += PER_OPEN * len(told.places) + len(told.data)
        if n_bytes > len(self._written):
            self._written = np.empty(2 * n_bytes, np.uint8)
        self._have_scratch(longest)
        heads, ends = np.empty((len(players), HEAD + FRONT), np.int64), np.empty(len(players), np.int64)
        how = self._watched, NEW_WORDS, KEPT_WORDS, self._out, words, starts
        waiting = told, clocks, expired, self._threshold < inf
        _write(self.state, players, *how, *waiting, self._written, heads, ends)
        data = self._written.data
        return [with_sum(data[start:end]) for start, end in pairwise([0, *ends.tolist()])], heads
