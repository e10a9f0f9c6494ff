"""Keys: a name, a clock, and forecasts that wait until their time is over.

A binary key has what it consists of in `KeyArrays`. A key of several classes has lanes, steering and a watch
of its own: `ask` and `close` note steps, and `run` lets the lanes take all of them. Answers depend only on
the order of the key's events, not on how these were cut into batches.

The book calls what changes a key: for a query `remember` and, with several classes, `ask`; for an outcome
`close`, once `admit` has checked it (for the judge, or for a replay); for either `expire`; and at the end of
a batch `run`, which `admit` calls, too, where a check depends on steps that wait. `load` comes once, before
any of these. `spent` is written by the book for a binary key, and by `load` and `run` for one of several
classes. All else only reads, but for `window_bounds`: lanes then forget rounds that have left the window.
`dump` calls it first, so equal histories have equal bytes.

What always holds for a key of several classes, between these calls: `open` has its open forecasts, the oldest
first; `busy` says how many of them each lane has made; and `asked_bytes` is the sum of their `bytes_asked`.
When `run` has returned, `steps` is empty, and each open forecast has its answer.

The fields of a `StoredClassKey`, in their order, are a saved format. `times` is not saved: it follows from
the open forecasts. The limits below say which queries are refused as `full`. A replay does not ask them, so
they may change as long as neither integers nor rows of SQLite can overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf, nan
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from onlinecal.elementary import in_turn
from onlinecal.engine.keys.key_arrays import KeyArrays
from onlinecal.engine.keys.lanes import ClassForecast, ClassSteering, LaneStep
from onlinecal.engine.keys.playing import (
    ASKED,
    EXPIRED,
    GIVEN_UP,
    KEY,
    MOST_OPEN,
    NUMBER,
    OLDEST_OPEN,
    WAITING,
)
from onlinecal.engine.keys.storing import with_checksum
from onlinecal.engine.settings import KeySettings
from onlinecal.engine.watch.account import MONEY
from onlinecal.engine.watch.key_watch import KeyWatch, Summary, Watched, watched_by
from onlinecal.restoring import require
from onlinecal.version import STATE_FORMAT

if TYPE_CHECKING:
    from onlinecal.engine.keys.lp_lanes import LpLane
    from onlinecal.engine.keys.simplex_lanes import SimplexLane

ALWAYS_OPEN = 64
"""How many forecasts may be open with any forecaster."""
RESERVED_ROUNDS = 1 << 23
"""A key takes queries as long as its integers bear so many rounds: more than are open, or in one batch."""

KeyStep = tuple[ClassForecast, Any, int]
"""A forecast; its outcome, ASKED or GIVEN_UP; and the number of the event, or for ASKED how many other
forecasts of the lane are open."""
MOST_STATE_BYTES = 1 << 26
"""The bytes of a key's state. SQLite writes no row of more than 10^9."""

Waits = Callable[[int, int], bool]
"""Whether the forecast with this entry is open and was asked for with the event of this number."""


class Key:
    """A key in memory. What it has stands in `arrays`; if it has classes, only part of it.

    Attributes
    ----------
    name, settings, arrays
        Its name; its configuration, prepared; the arrays of all keys.
    first_lane
        The row of its first lane in the arrays.
    upto
        The key was loaded from a state that holds all its events up to this number.
    times
        If forecasts expire, a heap of (time, number, entry) of all open forecasts, and of some that were
        open.
    spent
        Whether its integers bear too few rounds for another query, as of the last run.
    """

    __slots__ = "arrays", "first_lane", "name", "settings", "spent", "times", "upto"

    def __init__(
        self, name: str, number: int, settings: KeySettings, arrays: KeyArrays[Key], upto: int = 0
    ) -> None:
        self.name, self.settings, self.arrays = name, settings, arrays
        self.upto, self.spent = upto, False
        self.times: list[tuple[float, int, int]] | tuple[()] = [] if settings.expire_after < inf else ()
        self.first_lane = arrays.new_first_lane(self, number)

    def _field(self, field: int) -> int:
        return int(self.arrays.state.fields[self.first_lane, field])

    @property
    def number(self) -> int:
        """Its number in the ledger."""
        return self._field(KEY)

    @property
    def waiting(self) -> int:
        """How many forecasts wait."""
        return self._field(WAITING)

    @property
    def expired(self) -> int:
        """How many forecasts have expired."""
        return self._field(EXPIRED)

    @property
    def clock(self) -> float | None:
        """The latest time, None before the first."""
        time = float(self.arrays.state.clocks[self.first_lane])
        return time if time == time else None

    def load(self, stored: Any, entries: list[int]) -> tuple[list[int], list[float]]:
        """Take up what was stored; returns the numbers and times of its open forecasts, which get `entries`.

        Raises any exception if it makes no sense, before any of it is played.
        """
        return self.arrays.load(self, stored, entries)

    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes: equal for equal histories; `ids` are those of all open forecasts, by entry."""
        return self.arrays.dump([self], ids)[0]

    def written(self) -> Summary:
        """What there is to know of the key, without alarms and scores."""
        return self.arrays.written([self])[0]

    def watched(self) -> Watched:
        """The key's alarms and scores."""
        return watched_by(self.arrays.state.accounts[self.first_lane, :MONEY].tolist())

    def summary(self) -> Summary:
        """What there is to know of the key, with alarms and scores."""
        return replace(self.written(), watched=self.watched())

    def entries(self) -> list[int]:
        """The forecasts that wait, the oldest first."""
        return self.arrays.entries_of(self.first_lane)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""
        entry, state = self._field(OLDEST_OPEN), self.arrays.state
        return None if entry < 0 else int(state.open[entry, NUMBER])

    @property
    def most_open(self) -> int:
        """How many forecasts may be open, so that no bias leaves its integers."""
        return MOST_OPEN

    def remember(self, time: float | None, number: int, entry: int) -> None:
        """Note when a forecast was asked for, if it may expire."""
        if time is not None and isinstance(self.times, list):
            heappush(self.times, (time, number, entry))

    def expire(self, time: float | None, waits: Waits) -> list[int]:
        """Let the clock go on to an event's time; returns the entries of the forecasts that expire then."""
        arrays, over = self.arrays.state, list[int]()
        if time is not None and not time <= arrays.clocks[self.first_lane]:
            arrays.clocks[self.first_lane] = time
        assert isinstance(self.times, list)
        while self.times and self.is_over(self.times[0][0], None):
            _, number, entry = heappop(self.times)
            if waits(entry, number):
                over.append(entry)
        arrays.fields[self.first_lane, WAITING] -= len(over)
        arrays.fields[self.first_lane, EXPIRED] += len(over)
        # closed forecasts are left out before they are most of the heap
        if len(self.times) > 2 * self.waiting + ALWAYS_OPEN:
            self.times = [(time, number, entry) for time, number, entry in self.times if waits(entry, number)]
            heapify(self.times)
        return over

    def is_over(self, asked: float, time: float | None) -> bool:
        """Whether a forecast asked for at that time has expired; never where that time is not known, NaN.

        It expires by the key's clock, or by `time` if that is later.
        """
        clock = float(self.arrays.state.clocks[self.first_lane])
        now = time if time is not None and time > clock else clock
        return now > asked + self.settings.expire_after

    def is_full_at(self, time: float | None, waits: Waits) -> bool:
        """Whether the key can take no query at that time: its integers would not bear the round."""
        if self.spent:
            return True
        if self.waiting < ALWAYS_OPEN:
            return False
        spare = self.waiting - max(ALWAYS_OPEN, self.most_open)
        return spare >= 0 and not self._are_over(spare + 1, time, waits)

    def why_full(self) -> str:
        """Why it takes no query, if it is full, and what to do about that."""
        if self.spent:
            return "it has had as many rounds as can be counted; use another key"
        return f"{self.waiting} forecasts are open; settle or withdraw some"

    def _are_over(self, many: int, time: float | None, waits: Waits) -> bool:
        """Whether so many of the open forecasts have expired by that time."""
        places = [0]
        while many and places:
            place = places.pop()
            if place < len(self.times) and self.is_over(self.times[place][0], time):
                _, number, entry = self.times[place]
                many -= waits(entry, number)
                places += 2 * place + 1, 2 * place + 2
        return not many


class StoredClassKey(Struct, array_like=True):
    """A key of several classes as it is stored; the number of the format, `STATE_FORMAT`, comes first.

    `steering` is what `ClassSteering` dumped, None before the first hint; `watch` is what `KeyWatch` dumped.
    """

    format: int
    clock: float | None
    expired: int
    late: list[int]
    lanes: list[bytes]
    open: list[ClassForecast]
    steering: bytes | None
    watch: bytes


class ClassKey(Key):
    """A key of several classes, with all that it consists of.

    Attributes
    ----------
    lanes, busy, late
        The forecasters; how many open forecasts each has; the most others that were open when it was asked.
    open
        The open forecasts, by entry, the oldest first.
    steps
        What `run` has not taken up yet.
    asked_bytes
        An estimate of the bytes that the queries of the open forecasts take.
    steering, watch
        The steering of the key's hints, None before the first hint; the watch over its forecasts.
    """

    __slots__ = ("asked_bytes", "busy", "lanes", "late", "open", "steering", "steps", "watch")

    lanes: list[SimplexLane | LpLane]
    steering: ClassSteering | None

    def __init__(
        self, name: str, number: int, settings: KeySettings, arrays: KeyArrays[Key], upto: int = 0
    ) -> None:
        super().__init__(name, number, settings, arrays, upto)
        self.lanes, self.busy, self.late, self.open = [], list[int](), list[int](), dict[int, ClassForecast]()
        self.steps, self.asked_bytes = list[KeyStep](), 0
        self.steering, self.watch = None, KeyWatch(settings.threshold)

    def load(self, stored: StoredClassKey, entries: list[int]) -> tuple[list[int], list[float]]:
        """Take up what was stored."""
        self.late, self.lanes = stored.late, [self.settings.kind.load(lane) for lane in stored.lanes]
        n_lanes = len(self.lanes)
        require(n_lanes <= self.settings.config.lanes and len(self.late) == n_lanes, "its lanes")
        require(all(0 <= forecast.lane < n_lanes for forecast in stored.open), "its lanes")
        for place, lane in enumerate(self.lanes):
            waiting = [forecast for forecast in stored.open if forecast.lane == place]
            lane.check_open(waiting)
            require(lane.rounds_left >= len(waiting), "its rounds")
            self.busy.append(len(waiting))
        self.spent = any(map(is_spent, self.lanes))
        self.asked_bytes = sum(forecast.bytes_asked for forecast in stored.open)
        self.open = dict(zip(entries, stored.open, strict=True))
        hinted, steers = any(forecast.hint is not None for forecast in stored.open), self.settings.steers
        require(not (steers and hinted) if stored.steering is None else steers, "its steering")
        if stored.steering is not None:
            self._begin_steering().take(stored.steering, stored.open)
        self.watch.take(stored.watch, stored.open)
        times = [nan if forecast.time is None else forecast.time for forecast in stored.open]
        return [forecast.number for forecast in stored.open], times

    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes."""
        # rounds that have left a window are forgotten when its bounds are asked for
        self.window_bounds()
        waiting = list(self.open.values())
        learnt = None if self.steering is None else self.steering.dump()
        lanes = [lane.dump() for lane in self.lanes]
        parts = self.clock, self.expired, self.late, lanes, waiting, learnt, self.watch.dump()
        return with_checksum(_encoder.encode((STATE_FORMAT, *parts)))

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
        """Whether the key can take no query: as every key, or if its state may exceed `MOST_STATE_BYTES`."""
        return self._estimated_bytes() > MOST_STATE_BYTES or super().is_full_at(time, waits)

    def why_full(self) -> str:
        """The same of every key; and how large its state may be, if that is the reason."""
        if self.spent or self._estimated_bytes() <= MOST_STATE_BYTES:
            return super().why_full()
        return (
            f"with its classes and {self.waiting} open forecasts it may take more than "
            f"{MOST_STATE_BYTES / 2**20:.3g} MiB; settle or withdraw some forecasts, or use another key"
        )

    def _estimated_bytes(self) -> int:
        """An upper estimate, as of the last run, of the bytes of lanes, steering and open forecasts."""
        steered = () if self.steering is None else self.steering.numbers
        k = max(len(known) for known in (steered, *(lane.labels for lane in self.lanes)))
        # each open forecast has an answer, a cell, a ticket of steering, and stakes
        each = 256 + 100 * k + max([0, *(lane.label_bytes for lane in self.lanes)])
        # steering takes some 3 KB for each class
        return sum(lane.size for lane in self.lanes) + 3200 * k + self.asked_bytes + self.waiting * each

    def ask(self, entry: int, forecast: ClassForecast) -> None:
        """Note that a forecast is asked for; `run` makes it."""
        lane = forecast.lane = self._free_lane()
        self.open[entry] = forecast
        self.late[lane] = max(self.late[lane], self.busy[lane])
        self.steps.append((forecast, ASKED, self.busy[lane]))
        self.busy[lane] += 1
        self.asked_bytes += forecast.bytes_asked

    def admit(self, entry: int, outcome: Any) -> None:
        """ValueError if the outcome has too many classes, or is a soft label that the lane cannot take."""
        forecast = self.open[entry]
        lane = self.lanes[forecast.lane]
        if self.steps and lane.depends_on_steps(outcome):
            self.run()
        lane.admits(outcome)

    def close(self, entry: int, outcome: Any, number: int) -> ClassForecast:
        """Note the outcome of a forecast, which `admit` has checked; None if it will never have one."""
        forecast = self.open.pop(entry)
        self.steps.append((forecast, GIVEN_UP if outcome is None else outcome, number))
        self.busy[forecast.lane] -= 1
        self.asked_bytes -= forecast.bytes_asked
        return forecast

    def _free_lane(self) -> int:
        """The first lane without open forecasts; else a new one, if allowed; else the one with the fewest."""
        least = min(self.busy, default=1)
        if least and len(self.lanes) < self.settings.config.lanes:
            self.lanes.append(self.settings.kind.new())
            self.busy.append(0)
            self.late.append(0)
            return len(self.lanes) - 1
        return self.busy.index(least)

    def _begin_steering(self) -> ClassSteering:
        config = self.settings.config
        self.steering = ClassSteering(config.classes, config.most_classes)
        return self.steering

    def run(self) -> None:
        """Let the steering, the lanes and the watch take the steps, one after the other."""
        steps, self.steps = self.steps, []
        settled, of_lane = self.rounds, [list[LaneStep]() for _ in self.lanes]
        steers = self.settings.steers
        for forecast, what, number in steps:
            if self.steering is None and steers and what == ASKED and forecast.hint is not None:
                self._begin_steering()
            hint = forecast.hint if self.steering is None else self.steering.guide(forecast, what)
            if what == ASKED:
                of_lane[forecast.lane].append((forecast, None, hint, number))
            elif what != GIVEN_UP:
                settled += 1
                of_lane[forecast.lane].append((forecast, what, None, settled))
        now, raised = [lane.certificate for lane in self.lanes], self.arrays.raised
        after = [iter(lane.run(own)) for lane, own in zip(self.lanes, of_lane, strict=True)]
        for forecast, what, number in steps:
            if what != GIVEN_UP:
                now[forecast.lane] = next(after[forecast.lane])
            if what == ASKED:
                forecast.certificate = in_turn(now)
            raised += ((self.name, *alarm) for alarm in self.watch.follow(forecast, what, number))
        self.spent = any(map(is_spent, self.lanes))

    def watched(self) -> Watched:
        """The key's alarms and scores."""
        return self.watch.watched()

    def written(self) -> Summary:
        """What there is to know of the key, without alarms and scores."""
        lanes = self.lanes
        certificate, promise = (
            in_turn(lane.certificate for lane in lanes),
            in_turn(lane.guarantee for lane in lanes),
        )
        figures = self.rounds, self.waiting, self.expired, certificate, promise, self.oldest
        return Summary(*figures, *self.window_bounds())

    @property
    def rounds(self) -> int:
        """How many rounds were settled."""
        return sum(lane.rounds for lane in self.lanes)

    def window_bounds(self) -> tuple[float | None, float | None]:
        """As `KeyArrays.window_bounds`; only kind "simplex" has windows."""
        window, lanes = self.settings.config.window, cast("list[SimplexLane]", self.lanes)
        if window is None:
            return None, None
        now = self.rounds
        proven = in_turn(lane.window_certificate_at(now) for lane in lanes)
        promises = (float(lane.window_promise(0 if place else window)) for place, lane in enumerate(lanes))
        return float(proven), float(in_turn(promises))


def is_spent(lane: SimplexLane | LpLane) -> bool:
    """Whether a lane's integers bear fewer rounds than RESERVED_ROUNDS; not before so many were settled."""
    return lane.rounds > RESERVED_ROUNDS and lane.rounds_left < RESERVED_ROUNDS


_encoder = msgspec.msgpack.Encoder()
