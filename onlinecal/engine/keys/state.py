"""The state of one key: its lanes, its open forecasts, its clock.

What happens to a key is first noted and then run: `ask` and `close` keep account and leave steps for the
lanes, `run` lets each lane take all its steps in one call. The answers depend on the order of the key's
events alone, not on how they were cut into batches.
"""

from __future__ import annotations

from copy import deepcopy
from heapq import heappush
from itertools import count
from typing import Any

from msgspec.structs import replace

from onlinecal.elementary import in_turn
from onlinecal.engine.keys.arena import ArenaLane
from onlinecal.engine.keys.lanes import Issued, Step, run_together, window_bounds
from onlinecal.engine.keys.packing import SUM, garbage_left_alone, sum_of
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.keys.storing import NOTHING, Storing, decoder, is_spent
from onlinecal.engine.keys.waiting import FEW
from onlinecal.engine.settings import NEVER, Settings
from onlinecal.engine.watch.key_watch import ASKED, GIVEN_UP
from onlinecal.forecasters.simplex.input import shown
from onlinecal.version import check_format


class KeyState(Storing):
    """One key, in memory.

    `usual`: it lives in an arena, and no accounts are kept but those of the arena.
    `number` is the ledger's name for it; `upto` is the number of an event such that the bytes it was loaded
    from hold all before and none after; `used` is the last event that something happened in to it, unless it
    has a seat, which knows.
    """

    __slots__ = (
        "name", "number", "upto", "used",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        number: int,
        settings: Settings,
        data: bytes | None = None,
        upto: int = 0,
    ) -> None:
        self._identify(name, number, settings, upto)
        if data is None:
            self._begin()
            self._begin_alone()
            return
        if data[:SUM] != sum_of(memoryview(data)[SUM:]):
            raise ValueError(f"the state of key {name!r} is damaged: repair the ledger, it is made anew")
        # the array's first value, which is below 128, is one byte
        check_format(f"the state of key {name!r}", int.from_bytes(data[SUM + 1 : SUM + 2]))
        try:
            with garbage_left_alone():
                self._take(decoder.decode(memoryview(data)[SUM:]))
        except Exception as error:
            raise ValueError(f"the state of key {name!r} makes no sense: {error}") from error

    @classmethod
    def newcomer(cls, name: str, number: int, settings: Settings) -> KeyState:
        """The state before the first event, in the arena from the start if there is one for such keys."""
        if settings.arena is None:
            return cls(name, number, settings)
        state = cls.__new__(cls)
        state._identify(name, number, settings, 0)
        state._begin()
        state._player = settings.arena.enter(name)
        state._live_in(settings.arena, False)
        return state

    @classmethod
    def newcomers(cls, names: list[str], number: int, settings: Settings) -> list[KeyState]:
        """States before their first events, with numbers from one on, of usual keys that are to take seats.

        What a seat knows is not there.
        """
        found, new, arena = list[KeyState](), cls.__new__, settings.arena
        steered = settings.new_steering is None
        assert arena is not None
        for name in names:
            state = new(cls)
            state.name, state.number, state.settings, state.arena = name, number, settings, arena
            state.upto = state.used = state.expired = 0
            state.lanes, state.steered = arena.lanes, steered
            state.steps = state.notes = state.busy = state.late = state.times = NOTHING
            state.steering = state.watch = None
            found.append(state)
            number += 1
        return found

    def _identify(self, name: str, number: int, settings: Settings, upto: int) -> None:
        self.name, self.number, self.settings, self.upto = name, number, settings, upto
        self.arena, self.seat, self.used = None, -1, 0
        self._player, self._usual, self.steered = -1, False, False

    def move_in(self) -> None:
        """Live in the arena from now on, if there is one for such keys."""
        arena = self.settings.arena
        if arena is None or self.arena is not None:
            return
        steered = self.steering is not None
        if not self.lanes:
            self.player = arena.enter(self.name)
            self._live_in(arena, steered)
        else:
            held = self.lanes[0], self.steering, self.watch, self.open.values(), self.late[0]
            self.player = arena.enter(self.name, *held)
            self._live_in(arena, steered)
            self.look_whether_spent()

    def look_whether_spent(self) -> None:
        """Know whether the player's memory bears no more rounds."""
        assert self.arena is not None
        self.spent = is_spent(ArenaLane(self.arena, self.player))
        self.usual = self.usual and not self.spent

    def begin_steering(self) -> None:
        """Steer the hints of a key that lives in an arena, from the coming one on."""
        if self.arena is not None and not self.steered:
            self.arena.begin_steering(self.player)
            self.steered = True
            self.tell_register()

    def move_out(self) -> None:
        """Live in the arena, without seat, no longer; the steps of all that is there are taken."""
        if self.arena is None:
            return
        self.arena.run()
        waiting = list(self.open.values())
        places = [issued.cell for issued in waiting]
        self.lanes, self.steering, alone = self.arena.as_alone(self.player, waiting)
        self.watch = deepcopy(self.arena.watch_of(self.player, waiting))
        self.arena.leave(self.player, places)
        for issued, own in zip(waiting, alone, strict=True):
            issued.cell = own.cell
        self.busy, self.late = [len(waiting)], [self.arena.late(self.player)]
        self.steps, self.notes = [], []
        self.arena, self.player, self.usual = None, -1, False

    def is_full_at(self, time: float | None) -> bool:
        """Whether so many forecasts are open by then that the lanes' integers could not bear another.

        Or so many are settled, as of the last `run`.
        """
        if self.spent:
            return True
        if self.waiting < FEW:
            return False
        spare = self.waiting - max(FEW, min(lane.most_open for lane in self.lanes))
        return spare >= 0 and not self._are_over(spare + 1, time)

    def _release(self, issued: Issued, outcome: Any = None, number: int = 0) -> None:
        self._wait_no_longer(issued.id)
        if self.arena is not None:
            self.arena.close(self.player, issued.cell, outcome, number)
        else:
            self.notes.append((issued, GIVEN_UP if outcome is None else outcome, number))
            self.busy[issued.lane] -= 1
        # those that wait no more are left out before they are most of the heap
        if self.times and len(self.times) > 2 * self.waiting + FEW:
            self._list_times()

    def ask(self, id: str, number: int, hint: Any, time: float | None) -> Issued:
        """Issue a forecast, after `expire` and unless `is_full_at`; its answer is there after `run`."""
        issued = Issued(id, number, self.clock if time is None else time, hint, 0)
        if self.arena is not None:
            if hint is not None:
                self.begin_steering()
            self.arena.ask(self.player, hint, issued)
            self._wait_for(issued)
        else:
            self._wait_for(issued)
            lane = issued.lane = self._free_lane()
            self.late[lane] = max(self.late[lane], self.busy[lane])
            self.steps.append((issued, None, hint, self.busy[lane]))
            self.notes.append((issued, ASKED, number))
            self.busy[lane] += 1
        if issued.time is not None and self.settings.patience < NEVER:
            heappush(self.times, (issued.time, id))
        return issued

    def close(self, issued: Issued, outcome: Any, time: float | None, number: int = 0) -> list[Issued]:
        """Settle a forecast, or withdraw it if the outcome is None; those that expired by then.

        `number` is that of the event.

        Raises ValueError, and changes nothing, if the outcome has too many classes, or is a soft label that
        its lane cannot take.
        """
        if outcome is not None:
            lane, late = self.lanes[issued.lane], 0 if self.arena is not None else self.late[issued.lane]
            if self.steps and lane.looks_at_itself(outcome):
                self.run()
            if not lane.admits(outcome, late):
                raise ValueError(f"value {shown(outcome)} has more classes than can be told apart")
            if type(outcome) is float:
                self.move_out()
            if self.arena is None:
                self.steps.append((issued, outcome, None, 0))
        self._release(issued, outcome, number)
        return self.expire(time)

    def _free_lane(self) -> int:
        """The first lane that waits for nothing; else a new one; else the one that waits for least."""
        if self.settings.most_lanes == 1 and self.busy:
            return 0
        least = min(self.busy, default=1)
        if least and len(self.lanes) < self.settings.most_lanes:
            self._add_lane()
            return len(self.lanes) - 1
        return self.busy.index(least)

    def _add_lane(self) -> None:
        self.lanes.append(self.settings.kind.new())
        self.busy.append(0)
        self.late.append(0)

    def run(self) -> None:
        """Let the lanes take their steps; those in an arena have taken them with its others."""
        if self.arena is not None:
            self.look_whether_spent()
            return
        self._play()
        notes, self.notes = self.notes, []
        if self.watch is not None:
            self.watch.follow(notes)

    def _play(self) -> None:
        steps, self.steps = self._steered(self.steps), []
        if len(self.lanes) == 1:
            # a lane that is alone settles in the order of the key's rounds
            certificates = self.lanes[0].run(steps, count(self.lanes[0].rounds + 1))
            self.spent = is_spent(self.lanes[0])
            for (issued, outcome, *_), certificate in zip(steps, certificates, strict=True):
                if outcome is None:
                    issued.certificate = certificate
            return
        now = [lane.certificate for lane in self.lanes]
        after = run_together(self.lanes, steps)
        self.spent = any(map(is_spent, self.lanes))
        for issued, outcome, *_ in steps:
            now[issued.lane] = next(after[issued.lane])
            if outcome is None:
                issued.certificate = in_turn(now)

    def _steered(self, steps: list[Step]) -> list[Step]:
        """The steps with the hints that lanes are to follow."""
        if self.steering is None:
            new = self.settings.new_steering
            if new is None or all(hint is None for _, _, hint, _ in steps):
                return steps
            self.steering = new()
        return self.steering.steered(steps, self.open.values())

    def summary(self) -> Summary:
        """What there is to know of the key."""
        watch = self.watch if self.arena is None else self.arena.watch_of(self.player, ())
        assert watch is not None
        return replace(self.written(), watched=watch.watched())

    def written(self) -> Summary:
        """The same without what came of watching, which is in the state."""
        lanes, late = self.lanes, self.late
        if self.arena is not None:
            lanes, late = [ArenaLane(self.arena, self.player)], [self.arena.late(self.player)]
        return Summary(
            sum(lane.rounds for lane in lanes),
            self.waiting,
            self.expired,
            in_turn(lane.certificate for lane in lanes),
            in_turn(lane.promise(others) for lane, others in zip(lanes, late, strict=True)),
            self.oldest,
            *window_bounds(self.settings.config.window, lanes, late),
        )
