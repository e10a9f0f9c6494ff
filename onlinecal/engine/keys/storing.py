"""A key's state in bytes, and out of them: equal for equal histories, wherever the key lives meanwhile."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.lanes import BinaryLane, Issued, Lane, Step, window_bounds
from onlinecal.engine.keys.packed_players import Packed, apart
from onlinecal.engine.keys.packing import unpack, with_sum
from onlinecal.engine.keys.seated import Seated
from onlinecal.engine.keys.steering import KeySteering, loaded
from onlinecal.engine.keys.stored_key import STEERED, VERSION, WATCHED, StoredWatchedKey
from onlinecal.engine.watch import key_watch
from onlinecal.engine.watch.key_watch import KeyWatch, Note
from onlinecal.forecasters.binary.soundness import require

RESERVE = 1 << 23
"""Rounds that a lane must still bear for a key to take queries: all that are open or in one batch."""


NOTHING: Any = ()
"""In the place of a list that nothing is added to."""


class Storing(Seated):
    """What a key that keeps all to itself consists of, and how any key is stored."""

    __slots__ = ("busy", "lanes", "late", "notes", "steering", "steps", "watch")

    steps: list[Step]
    notes: list[Note]
    late: list[int]
    lanes: list[Lane]
    busy: list[int]
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
        self.steering = None
        self.watch = None if self.settings.new_watch is None else self.settings.new_watch()

    def _live_in(self, arena: Arena, steered: bool) -> None:
        self.arena, self.lanes = arena, arena.lanes
        # what happens to it is noted in the arena
        self.steps = self.notes = self.busy = self.late = NOTHING
        self.steering = self.watch = None
        self.steered = steered or self.settings.new_steering is None
        self.usual = self.settings.usual
        if self.usual:
            self.times = NOTHING

    def _take(self, stored: StoredWatchedKey) -> None:
        """Take up what was stored; any exception if that cannot be, before any of it is played on."""
        stored.check_version()
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
        self.steering = loaded(stored.steering, self.settings.new_steering, stored.open)
        watch = None if self.settings.new_watch is None else self.settings.new_watch()
        fresh = not self.lanes and self.clock is None
        self.watch = key_watch.loaded(stored.watch, watch, stored.open, fresh)
        self._list_times()

    def _take_back(self, stored: StoredWatchedKey, arena: Arena) -> None:
        """Take up what this process has dumped itself of a key that lived in this arena."""
        self._begin()
        self.clock, self.expired = stored.clock, stored.expired
        self.open = {one.id: one for one in stored.open}
        self._list_times()
        held = stored.lanes[0], stored.steering, stored.watch, stored.open, stored.late[0]
        self._live_in(arena, stored.steering is not None)
        self.packed = arena.take_back(*held)
        if apart(self.packed).rounds > RESERVE:
            self.spent = is_spent(BinaryLane(arena.model, unpack(stored.lanes[0])))

    def dump(self, held: Packed | None = None, waiting: list[Issued] | None = None) -> bytes:
        """The state in bytes: equal for equal histories, however they were cut into batches.

        `held` is its player, `waiting` what is open, if these are known.
        """
        waiting = list(self.open.values()) if waiting is None else waiting
        if self.arena is not None:
            held = held or self.held()
            told, learnt, watched = self.arena.dump(held, waiting)
            parts: tuple[Any, ...] = self.clock, self.expired, [held.late], [held.lane], told
        else:
            # rounds that have left a window are forgotten when its bounds are asked for
            window_bounds(self.settings.config.window, self.lanes, self.late)
            learnt = None if self.steering is None else self.steering.dump(waiting)
            watched = None if self.watch is None else self.watch.dump(waiting)
            parts = self.clock, self.expired, self.late, [lane.dump() for lane in self.lanes], waiting
        if watched is not None:
            stored: tuple[Any, ...] = WATCHED, *parts, learnt, watched
        else:
            stored = (VERSION, *parts) if learnt is None else (STEERED, *parts, learnt)
        return with_sum(_encoder.encode(stored))

    def held(self) -> Packed:
        """Its player, of a key that lives in an arena."""
        assert self.arena is not None
        return apart(self.packed or self.arena.packed([self.player])[0])


def is_spent(lane: Lane) -> bool:
    """Whether a lane bears fewer rounds than the reserve; it cannot before so many were settled."""
    return lane.rounds > RESERVE and lane.rounds_left < RESERVE


_encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(StoredWatchedKey)
