"""A key's state in bytes, and out of them: equal for equal histories, wherever the key lives meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.class_labels import size_asked
from onlinecal.engine.keys.judging import PLAYER
from onlinecal.engine.keys.lanes import Lane, Step, window_bounds
from onlinecal.engine.keys.packing import with_sum
from onlinecal.engine.keys.seated import Seated
from onlinecal.engine.keys.steering import KeySteering, loaded
from onlinecal.engine.keys.stored_key import StoredKey, Summary
from onlinecal.engine.keys.writing import told_by
from onlinecal.engine.watch.key_watch import KeyWatch, Note
from onlinecal.forecasters.binary.soundness import require
from onlinecal.version import STATE_FORMAT

RESERVE = 1 << 23
"""Rounds that a lane must still bear for a key to take queries: all that are open or in one batch."""


NOTHING: Any = ()
"""In the place of a list that nothing is added to."""


class Storing(Seated):
    """What a key that keeps all to itself consists of, and how any key is stored."""

    __slots__ = ("asked", "busy", "lanes", "late", "notes", "steering", "steps", "watch")

    steps: list[Step]
    notes: list[Note]
    late: list[int]
    lanes: list[Lane]
    busy: list[int]
    asked: int
    steering: KeySteering | None
    watch: KeyWatch | None

    def _begin(self) -> None:
        """The state before the first event."""
        self._clock, self.expired, self._spent = None, 0, False
        self._open, self.times = {}, []

    def _begin_alone(self) -> None:
        self.steps = []
        self.notes = []
        self.late = []
        self.lanes = []
        self.busy = []
        self.asked = 0
        self.steering = None
        self.watch = self.settings.new_watch()

    def _live_in(self, arena: Arena, steered: bool) -> None:
        self.arena, self.lanes = arena, arena.lanes
        # what happens to it is noted in the arena
        self.steps = self.notes = self.busy = self.late = NOTHING
        self.steering = self.watch = None
        self.steered = steered or self.settings.new_steering is None
        self.usual = self.settings.usual
        if self.usual:
            self.times = NOTHING

    def _take(self, stored: StoredKey) -> None:
        """Take up what was stored; any exception if that cannot be, before any of it is played on."""
        self.steps, self.notes = [], []
        self.clock, self.expired, self.late = stored.clock, stored.expired, stored.late
        self.lanes = [self.settings.kind.load(lane) for lane in stored.lanes]
        self.open = dict(zip(map(attrgetter("id"), stored.open), stored.open, strict=True))
        of_lane = stored.by_lane(len(self.lanes), self.settings.most_lanes)
        self.spent = any(map(is_spent, self.lanes))
        for lane, waiting in zip(self.lanes, of_lane, strict=True):
            lane.check_open(waiting)
            require(lane.rounds_left >= len(waiting), "its rounds")
        self.busy = list(map(len, of_lane))
        self.asked = sum(map(size_asked, stored.open))
        self.steering = loaded(stored.steering, self.settings.new_steering, stored.open)
        self.watch = self.settings.new_watch()
        self.watch.take(stored.watch, stored.open)
        self._list_times()

    def dump(self) -> bytes:
        """The state in bytes: equal for equal histories, however they were cut into batches."""
        if self.arena is not None:
            [(data, _)] = dump_together(self.arena, [self])
            return data
        # rounds that have left a window are forgotten when its bounds are asked for
        window_bounds(self.settings.config.window, self.lanes, self.late)
        waiting = list(self.open.values())
        learnt = None if self.steering is None else self.steering.dump(waiting)
        lanes = [lane.dump() for lane in self.lanes]
        assert self.watch is not None
        parts = self.clock, self.expired, self.late, lanes, waiting, learnt, self.watch.dump(waiting)
        return with_sum(_encoder.encode((STATE_FORMAT, *parts)))


def dump_together(arena: Arena, states: Sequence[Storing]) -> list[tuple[bytes, Summary]]:
    """Keys of an arena, all with seats or all without, as they are stored, and what is `written` of them."""
    if states[0].seat >= 0:
        register, seats = states[0].register, np.array([state.seat for state in states])
        players = register.book.seats[seats, PLAYER]
        told, clocks = register.told(seats), register.book.clocks[seats]
    else:
        players = np.array([state.player for state in states])
        told = told_by([[*state.open.values()] for state in states])
        clocks = np.array([nan if state.clock is None else state.clock for state in states])
    expired = [state.expired for state in states]
    data, figures = arena.dump(players, told, clocks, np.array(expired))
    numbers, ends = arena.state.numbers[told.places].tolist(), told.ends.tolist()
    columns = figures, [0, *ends[:-1]], ends, expired
    summaries = [
        Summary(rounds, end - first, gone, certificate, promise, numbers[first] if end > first else None)
        for (rounds, certificate, promise), first, end, gone in zip(*columns, strict=True)
    ]
    return list(zip(data, summaries, strict=True))


def is_spent(lane: Lane) -> bool:
    """Whether a lane bears fewer rounds than the reserve; it cannot before so many were settled."""
    return lane.rounds > RESERVE and lane.rounds_left < RESERVE


_encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(StoredKey)
