"""The memories of many keys side by side, so that all their steps are taken in one compiled call.

A key whose forecaster is a single grid machine can live here: it has a *player*, which stands for its memory
and its steering, and a *place* for each forecast that is open. What it does is noted and then run, as in
`KeyState`; other keys keep what they have to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import at_once
from onlinecal.engine.keys.lanes import BinaryLane, Issued, Lane
from onlinecal.engine.keys.packing import HEAD, with_sum
from onlinecal.engine.keys.playing import ALARM, ASKS, GONE, NO_MEMORY, SPENT, Steps, playing
from onlinecal.engine.keys.register import Register
from onlinecal.engine.keys.room import Room
from onlinecal.engine.keys.steering import KEPT, NEW, KeySteering, ProbabilitySteering
from onlinecal.engine.keys.writing import PER_KEY, PER_OPEN, Told, write_states
from onlinecal.engine.watch.account import FORECAST, HINT
from onlinecal.engine.watch.key_watch import KeyWatch, Raised
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT, HIGH, LATE, NO_HINT, REPORT, ROUNDS, SCALE
from onlinecal.forecasters.binary.compiled import enlarged
from onlinecal.forecasters.binary.grids.dyadic_accounts import BASE, FORMAT_DYADIC, PACE, TUNED

Noted = tuple[NDArray[Any], ...]
"""Players, places, outcomes, hints and numbers, as `Steps` has them."""

Figures = tuple[int, float, float]
"""Settled rounds, their certificate, and what this cannot exceed."""

MOST_PROMISES = 100_000
"""So many promises of grids without a horizon are kept, by all that they depend on."""

NEW_WORDS, KEPT_WORDS = NEW.view(np.int64), -KEPT.astype(np.int64)
"""Of steering: what a new one knows, and -1 for what is kept."""

_write = at_once(write_states)


class Arena(Room):
    """Players with one model. Steps are noted in lists, and in `asked` the forecasts to answer.

    `lanes` stands for that of every key, without a player; `names` are those of players' keys without seats;
    `number` tells it from others; `raised` are their alarms that nobody has been told of yet.
    """

    def __init__(self, model: AlmostOneStepAhead, new_watch: Callable[[], KeyWatch]) -> None:
        super().__init__(model)
        self.new_watch, self._threshold = new_watch, new_watch().threshold
        self.names: dict[int, str] = {}
        self._written = np.empty(0, np.uint8)
        self.number, self.register = 0, Register()
        self.raised: list[tuple[str, Raised]] = []
        # choosing among versions by the types of so many arrays takes longer than a step
        self._play = at_once(playing(model.machine.rules))
        self._promises: dict[tuple[int, ...], float] = {}
        self.lanes: list[Lane] = [ArenaLane(self, -1)]
        self._left: list[int] = []
        self._start_over()

    def _start_over(self) -> None:
        self.by: list[int] = []
        self.at: list[int] = []
        self.outcomes: list[int] = []
        self.hints: list[float] = []
        self.numbers: list[int] = []
        self.asked: list[Issued] = []
        self.noted: list[Noted] = []

    def late(self, player: int) -> int:
        """The most others that were open when it was asked."""
        return int(self.state.counts[player, 1])

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
        memory = lane.machine.rules.in_use(lane.memory) if isinstance(lane, BinaryLane) else None
        [player] = self.new_players(1, memory).tolist()
        self.names[player], self.state.counts[player, 1] = name, late
        if steering is not None:
            self.begin_steering(player, steering.state)
        for issued in waiting:
            ticket = None if steering is None else steering.tickets.get(issued.number)
            self._open(player, issued, ticket, watch)
        if watch is not None:
            self.state.accounts[player] = watch.account
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
        self, players: Ints, told: Told, clocks: Floats, expired: Ints
    ) -> tuple[list[bytes], list[Figures]]:
        """Keys as they are stored, and their figures."""
        places = self.state.places[players]
        n_bytes = 8 * int(places[:, 1].sum()) + PER_KEY * len(players)
        n_bytes += PER_OPEN * len(told.places) + len(told.data)
        if n_bytes > len(self._written):
            self._written = np.empty(2 * n_bytes, np.uint8)
        certificates, ends = np.empty(len(players)), np.empty(len(players), np.int64)
        waiting = told, clocks, expired, self._threshold < inf
        _write(self.state, players, NEW_WORDS, KEPT_WORDS, *waiting, self._written, certificates, ends)
        data = self._written.data
        states = [with_sum(data[start:end]) for start, end in pairwise([0, *ends.tolist()])]
        return states, self._figures(players, certificates)

    def _figures(self, players: Ints, certificates: Floats) -> list[Figures]:
        """Settled rounds of players, their certificates, and what these cannot exceed."""
        fronts = self.state.heap[self.state.places[players, :1] + np.arange(HEAD)]
        late, found = self.state.counts[players, 1].tolist(), list[Figures]()
        asked = map(tuple, np.column_stack([late, fronts[:, _ASKED]]).tolist())
        for key, front, certificate in zip(asked, fronts, certificates.tolist(), strict=True):
            others, kind, rounds, *_ = key
            promise = self._promises.get(key) if kind == FORMAT_DYADIC else None
            if promise is None:
                if len(self._promises) >= MOST_PROMISES:
                    self._promises.clear()
                promise = self._promises[key] = BinaryLane(self.model, front).promise(others)
            found.append((rounds, certificate, promise))
        return found

    def watch_of(self, player: int, waiting: Iterable[Issued]) -> KeyWatch:
        """Those who watch a player, as they are outside; they look at what happens here, until it leaves."""
        watch, state = self.new_watch(), self.state
        watch.account = state.accounts[player]
        if watch.threshold < inf:
            watch.tickets = {issued.number: state.stakes[issued.cell] for issued in waiting}
        return watch

    def leave(self, player: int, places: Iterable[int]) -> None:
        """Forget a player, and the places of its open forecasts."""
        self.let_go(np.array([player]))
        self._left += places

    def ask(self, player: int, hint: float | None, issued: Issued) -> None:
        """Note that a forecast is asked for; its `cell` becomes its place."""
        issued.cell = self.take_place()
        self._step(player, issued.cell, ASKS, NO_HINT if hint is None else hint, issued.number)
        self.asked.append(issued)

    def close(self, player: int, place: int, outcome: int | None, number: int) -> None:
        """Note what came of one that is open, None if it was given up."""
        self._step(player, place, GONE if outcome is None else outcome, NO_HINT, number)
        self._left.append(place)

    def _step(self, player: int, place: int, outcome: int, hint: float, number: int) -> None:
        self.by.append(player)
        self.at.append(place)
        self.outcomes.append(outcome)
        self.hints.append(hint)
        self.numbers.append(number)

    def note(self, steps: Noted) -> None:
        """Note many steps."""
        self._gather()
        self.noted.append(steps)
        _, places, outcomes, _, _ = steps
        self._left += places[outcomes != ASKS].tolist()

    def free_places(self) -> None:
        """Places of what is closed may be given away: nobody will ask what was answered there."""
        self.open.free += self._left
        self._left = []

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
        steps = Steps(players, places, outcomes, hints, numbers)
        asked = self.asked
        self._start_over()
        self.progress[0] = 0
        while how := self._play(self.state, steps, self.progress, self._threshold):
            if how == ALARM:
                self._raise(int(steps.players[self.progress[0] - 1]), int(self.progress[3]))
                continue
            player = int(steps.players[self.progress[0]])
            if how == NO_MEMORY:
                self._clear_heap(2 * int(self.state.places[player, 1]))
            elif how == SPENT:
                enlarged(self.memory(player))
        forecasts, certificates = self.state.forecasts, self.state.certificates
        for issued in asked:
            issued.probability = forecasts.item(issued.cell)
            issued.certificate = certificates.item(issued.cell)
        return int(self.progress[2])

    def _raise(self, player: int, whose: int) -> None:
        watch, seat = self.watch_of(player, ()), int(self.owners[player])
        name = self.names.get(player, "")
        if self.register.plays(seat, self.number, player):
            name = self.register.name_of(seat)
        for side in (FORECAST, HINT):
            alarm = watch.last_alarm(side)
            if whose >> side & 1 and alarm is not None:
                self.raised.append((name, Raised(side, alarm)))


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


_ASKED = [FORMAT, ROUNDS, SCALE, REPORT, TUNED, PACE, HIGH, LATE, BASE]
"""Where what promises of grids without a horizon depend on stands, besides how late labels were."""
