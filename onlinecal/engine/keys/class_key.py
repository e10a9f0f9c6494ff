"""Keys of several classes: each has its lanes, its steering and its watch to itself.

What happens to a key is noted first: `ask` and `close` leave steps for the lanes, and `run` lets each lane
take all of its steps. Answers depend on the order of the key's events alone, not on how these were cut into
batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onlinecal.elementary import in_turn
from onlinecal.engine.keys.key import RESERVE, Key, Summary, Waits
from onlinecal.engine.keys.lanes import Issued, Lane, Step, is_large, run_together, size_asked, window_bounds
from onlinecal.engine.keys.steering import ClassSteering, loaded
from onlinecal.engine.keys.storing import with_sum
from onlinecal.engine.watch.key_watch import ASKED, GIVEN_UP, Note
from onlinecal.forecasters.binary.soundness import require
from onlinecal.version import STATE_FORMAT


class StoredKey(Struct, array_like=True):
    """A key's state as it is stored; the number of its format, `STATE_FORMAT`, comes first.

    `steering` is that of `ClassSteering`, None before the first hint to steer; `watch` that of `KeyWatch`.
    """

    format: int
    clock: float | None
    expired: int
    late: list[int]
    lanes: list[bytes]
    open: list[Issued]
    steering: bytes | None
    watch: bytes

    def by_lane(self, lanes: int, most: int) -> list[list[Issued]]:
        """The open forecasts of each of so many lanes, of `most`; ValueError if these books cannot be."""
        require(lanes <= most and len(self.late) == lanes, "its lanes")
        require(len({one.id for one in self.open}) == len(self.open), "its open forecasts")
        require(all(0 <= one.lane < lanes for one in self.open), "its lanes")
        of_lane: list[list[Issued]] = [[] for _ in range(lanes)]
        for one in self.open:
            of_lane[one.lane].append(one)
        return of_lane


class ClassKey(Key):
    """A key with what it consists of.

    Attributes
    ----------
    lanes, busy, late
        Its forecasters; how many forecasts of each wait; the most others that were open when it was asked.
    open
        The forecasts that wait, by entry, the oldest first.
    asked
        An estimate of the bytes that the open forecasts take.
    steering, watch
        That of its hints, None before the first; its account.
    """

    __slots__ = ("asked", "busy", "lanes", "late", "notes", "open", "steering", "steps", "watch")

    lanes: list[Lane]
    steering: ClassSteering | None

    def __init__(self, name: str, number: int, settings: Any, upto: int = 0) -> None:
        super().__init__(name, number, settings, upto)
        self.lanes, self.busy, self.late, self.open = [], list[int](), list[int](), dict[int, Issued]()
        self.steps, self.notes, self.asked = list[Step](), list[Note](), 0
        self.steering, self.watch = None, settings.new_watch()

    def load(self, stored: StoredKey, entries: Sequence[int]) -> None:
        """Take up what was stored; any exception if that cannot be, before any of it is played on."""
        most = self.settings.most_lanes
        self.late, self.lanes = stored.late, [self.settings.kind.load(lane) for lane in stored.lanes]
        of_lane = stored.by_lane(len(self.lanes), most)
        for lane, waiting in zip(self.lanes, of_lane, strict=True):
            lane.check_open(waiting)
            require(lane.rounds_left >= len(waiting), "its rounds")
        self.spent = any(map(is_spent, self.lanes))
        self.busy = list(map(len, of_lane))
        self.asked = sum(map(size_asked, stored.open))
        self.open = dict(zip(entries, stored.open, strict=True))
        self.steering = loaded(stored.steering, self.settings.new_steering, stored.open)
        self.watch.take(stored.watch, stored.open)

    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes."""
        # rounds that have left a window are forgotten when its bounds are asked for
        window_bounds(self.settings.config.window, self.lanes, self.late)
        waiting = list(self.open.values())
        learnt = None if self.steering is None else self.steering.dump(waiting)
        lanes = [lane.dump() for lane in self.lanes]
        parts = self.clock, self.expired, self.late, lanes, waiting, learnt, self.watch.dump(waiting)
        return with_sum(_encoder.encode((STATE_FORMAT, *parts)))

    def entries(self) -> list[int]:
        """The forecasts that wait, the oldest first."""
        return list(self.open)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""
        return next(iter(self.open.values())).number if self.open else None

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return min(lane.most_open for lane in self.lanes)

    def is_full_at(self, time: float | None, waits: Waits) -> bool:
        """The same, or whether its state is as large as it may be, as of the last `run`."""
        too_large = is_large(self.lanes, self.steering, self.asked, self.waiting)
        return too_large or super().is_full_at(time, waits)

    def ask(self, entry: int, issued: Issued) -> None:
        """A forecast is asked for; its answer is there after `run`."""
        lane = issued.lane = self._free_lane()
        self.open[entry] = issued
        self.late[lane] = max(self.late[lane], self.busy[lane])
        self.steps.append((issued, None, issued.hint, self.busy[lane]))
        self.notes.append((issued, ASKED, issued.number))
        self.busy[lane] += 1
        self.asked += size_asked(issued)

    def admit(self, entry: int, outcome: Any) -> None:
        """ValueError if the outcome has too many classes, or is a soft label that its lane cannot take."""
        issued = self.open[entry]
        lane = self.lanes[issued.lane]
        if self.steps and lane.looks_at_itself(outcome):
            self.run()
        lane.admits(outcome, self.late[issued.lane])

    def close(self, entry: int, outcome: Any, number: int) -> Issued:
        """Settle a forecast with an outcome that was admitted; None if it will never have one."""
        issued = self.open.pop(entry)
        if outcome is not None:
            self.steps.append((issued, outcome, None, 0))
        self.notes.append((issued, GIVEN_UP if outcome is None else outcome, number))
        self.busy[issued.lane] -= 1
        self.asked -= size_asked(issued)
        return issued

    def _free_lane(self) -> int:
        """The first lane that waits for nothing; else a new one; else the one that waits for least."""
        least = min(self.busy, default=1)
        if least and len(self.lanes) < self.settings.most_lanes:
            self.lanes.append(self.settings.kind.new())
            self.busy.append(0)
            self.late.append(0)
            return len(self.lanes) - 1
        return self.busy.index(least)

    def run(self) -> None:
        """Let the lanes take their steps."""
        steps, self.steps = self._steered(self.steps), []
        if len(self.lanes) == 1:
            # a lane that is alone settles in the order of the key's rounds
            certificates = self.lanes[0].run(steps, count(self.lanes[0].rounds + 1))
            for (issued, outcome, *_), certificate in zip(steps, certificates, strict=True):
                if outcome is None:
                    issued.certificate = certificate
        else:
            now = [lane.certificate for lane in self.lanes]
            after = run_together(self.lanes, steps)
            for issued, outcome, *_ in steps:
                now[issued.lane] = next(after[issued.lane])
                if outcome is None:
                    issued.certificate = in_turn(now)
        self.spent = any(map(is_spent, self.lanes))
        notes, self.notes = self.notes, []
        self.watch.follow(notes)

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
        return replace(self.written(), watched=self.watch.watched())

    def written(self) -> Summary:
        """The same without what came of watching."""
        lanes = self.lanes
        return Summary(
            sum(lane.rounds for lane in lanes),
            self.waiting,
            self.expired,
            in_turn(lane.certificate for lane in lanes),
            in_turn(lane.promise(others) for lane, others in zip(lanes, self.late, strict=True)),
            self.oldest,
            *window_bounds(self.settings.config.window, lanes, self.late),
        )


def is_spent(lane: Lane) -> bool:
    """Whether a lane bears fewer rounds than the reserve; it cannot before so many were settled."""
    return lane.rounds > RESERVE and lane.rounds_left < RESERVE


_encoder = msgspec.msgpack.Encoder()
