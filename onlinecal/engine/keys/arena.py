"""The memories of many keys side by side, so that all their steps are taken in one compiled call.

A key whose forecaster is a single grid machine can live here: it has a *player*, which stands for its memory
and its steering, and a *place* for each forecast that is open. What it does is noted and then run, as in
`KeyState`; other keys keep what they have to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import at_once
from onlinecal.engine.keys.lanes import BinaryLane, Issued, Lane
from onlinecal.engine.keys.lodging import Lodging
from onlinecal.engine.keys.packed_players import HEAD, LATE, WORTH, apart
from onlinecal.engine.keys.packing import first_floats
from onlinecal.engine.keys.playing import ALARM, ASKS, GONE, NO_MEMORY, SPENT, Steps, playing
from onlinecal.engine.keys.register import Register
from onlinecal.engine.keys.writing import Ints
from onlinecal.engine.watch.account import FORECAST, HINT, MONEY
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.key_watch import KeyWatch, Raised
from onlinecal.engine.watch.watched import Watched
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT, NO_HINT, REPORT, ROUNDS, SCALE
from onlinecal.forecasters.binary.compiled import enlarged
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC, PACE, TUNED

Noted = tuple[NDArray[Any], ...]
"""Players, places, outcomes, hints and numbers, as `Steps` has them."""

Figures = tuple[int, float, float]
"""Settled rounds, their certificate, and what this cannot exceed."""

MOST_PROMISES = 100_000
"""So many promises of grids without a horizon are kept, by all that they depend on."""


class Arena(Lodging):
    """Players with one model. Steps are noted in lists, and in `asked` the forecasts to answer.

    `lanes` stands for that of every key, without a player; `names` are those of the players' keys; `number`
    tells it from others; `raised` are their alarms that nobody has been told of yet.
    """

    def __init__(self, model: AlmostOneStepAhead, new_watch: Callable[[], KeyWatch] | None) -> None:
        self.number, self.register = 0, Register()
        self.raised: list[tuple[str, Raised]] = []
        super().__init__(model, new_watch)
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

    def figures(self, heads: Ints) -> list[Figures]:
        """Of packed players, (players, HEAD + FRONT): settled rounds, their certificate, their promise."""
        worth, found = heads.view(np.float64)[:, WORTH].tolist(), list[Figures]()
        for i, asked in enumerate(map(tuple, heads[:, _ASKED].tolist())):
            kind, late, rounds, *_ = asked
            promise = self._promises.get(asked) if kind == FORMAT_DYADIC else None
            if promise is None:
                if len(self._promises) >= MOST_PROMISES:
                    self._promises.clear()
                promise = self._promises[asked] = BinaryLane(self.model, heads[i, HEAD:]).promise(late)
            found.append((rounds, worth[i], promise))
        return found

    def watched(self, packed: bytes) -> Watched | None:
        """What came of watching a packed player."""
        account = apart(packed).account
        if self._watcher is None or account is None:
            return None
        return self._watcher.watched_by(first_floats(account, MONEY, ACCOUNT))

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
            alarm = None if watch is None else watch.last_alarm(side)
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


_ASKED = [HEAD + FORMAT, LATE, *(HEAD + place for place in (ROUNDS, SCALE, REPORT, TUNED, PACE))]
"""Where what promises of grids without a horizon depend on stands."""
