"""The memories of many keys side by side, so that all their steps are taken in one compiled call.

A key whose forecaster is a single grid machine can live here: it has a *player*, which stands for its memory
and its steering, and a *place* for each forecast that is open. What it does is noted and then run, as in
`KeyState`; other keys keep what they have to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf, nan
from operator import itemgetter
from struct import Struct
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numba import typeof
from numpy.typing import NDArray

from onlinecal.compiling import entry_point
from onlinecal.engine.keys.lanes import BinaryLane, Issued, Lane
from onlinecal.engine.keys.packed_players import ACCOUNT_BYTES, Packed, together
from onlinecal.engine.keys.packing import HEAD, first_floats, pack_floats, unpack, unpack_floats
from onlinecal.engine.keys.packing_room import PackingRoom
from onlinecal.engine.keys.playing import ALARM, ASKS, GONE, NO_MEMORY, SPENT, Steps, playing
from onlinecal.engine.keys.steering import KeySteering, ProbabilitySteering, hinted
from onlinecal.engine.watch.account import FORECAST, HINT, MONEY
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.engine.watch.key_watch import KeyWatch, Raised, StoredWatch
from onlinecal.engine.watch.watched import Watched
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT, NO_HINT, REPORT, ROUNDS, SCALE
from onlinecal.forecasters.binary.compiled import enlarged
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC, PACE, TUNED
from onlinecal.steering.binary import TICKET

Noted = tuple[NDArray[Any], ...]
"""Players, places, outcomes, hints and numbers, as `Steps` has them."""

MOST_PROMISES = 100_000
"""So many promises of grids without a horizon are kept, by all that they depend on."""


class Arena(PackingRoom):
    """Players with one model. Steps are noted in lists, and in `asked` the forecasts to answer.

    `lanes` stands for that of every key, without a player; `names` are those of the players' keys; `raised`
    are their alarms that nobody has been told of yet.
    """

    def __init__(self, model: AlmostOneStepAhead, new_watch: Callable[[], KeyWatch] | None) -> None:
        self.new_watch = new_watch
        self._watcher = None if new_watch is None else new_watch()
        self._threshold = nan if self._watcher is None else self._watcher.threshold
        self.names: dict[int, str] = {}
        self.raised: list[tuple[str, Raised]] = []
        super().__init__(model, new_watch is not None)
        self._play = playing(model.machine.rules)
        # choosing among versions by the types of so many arrays takes longer than a step
        self._entry: Callable[..., int] | None = None
        self._promises: dict[tuple[int, ...], float] = {}
        self.lanes: list[Lane] = [ArenaLane(self, -1)]
        self._start_over()

    def _start_over(self) -> None:
        self.by: list[int] = []
        self.at: list[int] = []
        self.outcomes: list[int] = []
        self.hints: list[float] = []
        self.numbers: list[int] = []
        self.asked: list[Issued] = []
        self.noted: list[Noted] = []

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
        places, state, n = [self.take_place() for _ in waiting], self.state, len(waiting)
        state = self.state
        state.cells[places] = [one.cell for one in waiting]
        state.forecasts[places] = [one.probability for one in waiting]
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
        self, held: Packed, waiting: list[Issued]
    ) -> tuple[list[tuple[Any, ...]], bytes | None, bytes | None]:
        """Of a packed player: open forecasts with cells, what was learnt, with tickets, and the watch."""
        told, steering, stakes = list[tuple[Any, ...]](), held.steering, b""
        if waiting:
            state, places = self.state, [one.cell for one in waiting]
            told = [
                (one.id, one.number, one.time, one.hint, 0, one.probability, one.certificate, cell)
                for one, cell in zip(waiting, state.cells[places].tolist(), strict=True)
            ]
            if steering is not None:
                steering += state.tickets[np.array(places)[state.hinted[places]]].tobytes()
            if self._threshold < inf:
                stakes = pack_floats(state.stakes[places].ravel())
        if held.account is None:
            return told, steering, None
        return told, steering, msgspec.msgpack.encode(StoredWatch(held.account + stakes))

    def late(self, player: int) -> int:
        """The most others that were open when it was asked."""
        return int(self.state.counts[player, 1])

    def summary(self, held: Packed) -> tuple[int, float, float]:
        """Of a packed player: settled rounds, their certificate, its promise."""
        head = _head.unpack_from(held.lane, 1)
        asked = held.late, *itemgetter(ROUNDS, SCALE, REPORT, TUNED, PACE)(head)
        promise = self._promises.get(asked) if head[FORMAT] == FORMAT_DYADIC else None
        if promise is None:
            if len(self._promises) >= MOST_PROMISES:
                self._promises.clear()
            lane = BinaryLane(self.model, unpack(held.lane))
            promise = self._promises[asked] = lane.promise(held.late)
        return held.rounds, held.certificate, promise

    def watched(self, held: Packed) -> Watched | None:
        """What came of watching a packed player."""
        if self._watcher is None or held.account is None:
            return None
        return self._watcher.watched_by(first_floats(held.account, MONEY, ACCOUNT))

    def watch_of(self, player: int, waiting: Iterable[Issued]) -> KeyWatch | None:
        """Those who watch a player, as they are outside; they look at what happens here, until it leaves."""
        if self.new_watch is None:
            return None
        watch, state = self.new_watch(), self.state
        watch.account = state.accounts[player]
        if watch.threshold < inf:
            watch.tickets = {issued.number: state.stakes[issued.cell] for issued in waiting}
        return watch

    def leave(self, player: int, places: Iterable[int]) -> None:
        """Forget a player, and the places of its open forecasts."""
        self.let_go([player])
        self.open.free += places

    def ask(self, player: int, hint: float | None, issued: Issued) -> None:
        """Note that a forecast is asked for; its `cell` becomes its place."""
        issued.cell = self.take_place()
        self._step(player, issued.cell, ASKS, NO_HINT if hint is None else hint, issued.number)
        self.asked.append(issued)

    def close(self, player: int, place: int, outcome: int | None, number: int) -> None:
        """Note what came of one that is open, None if it was given up; its place may be given away."""
        self._step(player, place, GONE if outcome is None else outcome, NO_HINT, number)
        self.open.free.append(place)

    def _step(self, player: int, place: int, outcome: int, hint: float, number: int) -> None:
        self.by.append(player)
        self.at.append(place)
        self.outcomes.append(outcome)
        self.hints.append(hint)
        self.numbers.append(number)

    def note(self, steps: Noted, asked: Iterable[Issued]) -> None:
        """Note many steps, and the forecasts that these ask for, whose `cell` is their place."""
        self._gather()
        self.noted.append(steps)
        self.asked += asked
        _, places, outcomes, _, _ = steps
        self.open.free += places[outcomes != ASKS].tolist()

    def _gather(self) -> None:
        """Put the steps that were noted one by one behind those that were noted together."""
        if self.by:
            ones = self.by, self.at, self.outcomes, self.numbers
            by, at, outcomes, numbers = (np.array(one, np.int64) for one in ones)
            self.noted.append((by, at, outcomes, np.array(self.hints, np.float64), numbers))
            self.by, self.at, self.outcomes, self.hints, self.numbers = [], [], [], [], []

    def run(self) -> int:
        """Take all steps and answer those who asked; the most rounds that any player has settled.

        Raises ValueError if a memory's integers bear no more.
        """
        self._gather()
        if not self.noted:
            return int(self.progress[2])
        noted = self.noted[0] if len(self.noted) == 1 else map(np.concatenate, zip(*self.noted, strict=True))
        players, places, outcomes, hints, numbers = noted
        n = len(players)
        steps = Steps(players, places, outcomes, hints, numbers, np.empty(n), np.empty(n))
        asked = self.asked
        self._start_over()
        self.progress[0] = 0
        given = self.state, steps, self.progress, self._threshold
        if self._entry is None:
            self._entry = entry_point(self._play, *map(typeof, given))
        while how := self._entry(self.state, *given[1:]):
            if how == ALARM:
                self._raise(int(steps.players[self.progress[0] - 1]), int(self.progress[3]))
                continue
            player = int(steps.players[self.progress[0]])
            if how == NO_MEMORY:
                self._clear_heap(2 * int(self.state.places[player, 1]))
            elif how == SPENT:
                enlarged(self.memory(player))
        if not asked:
            return int(self.progress[2])
        asks = outcomes == ASKS
        told = steps.forecasts[asks].tolist(), steps.certificates[asks].tolist()
        for issued, forecast, certificate in zip(asked, *told, strict=True):
            issued.probability, issued.certificate = forecast, certificate
        return int(self.progress[2])

    def _raise(self, player: int, whose: int) -> None:
        watch = self.watch_of(player, ())
        for side in (FORECAST, HINT):
            alarm = None if watch is None else watch.last_alarm(side)
            if whose >> side & 1 and alarm is not None:
                self.raised.append((self.names[player], Raised(side, alarm)))


class ArenaLane(BinaryLane):
    """A lane whose memory is a player's."""

    __slots__ = ("arena", "player")

    def __init__(self, arena: Arena, player: int) -> None:
        self.arena, self.player = arena, player
        self.model, self.machine, self.window = arena.model, arena.model.machine, None

    @property
    def memory(self) -> NDArray[np.int64]:  # type: ignore[override]
        """The player's, as long as nothing else happens in the arena."""
        return self.arena.memory(self.player)


_head = Struct(f"<{HEAD}q")
