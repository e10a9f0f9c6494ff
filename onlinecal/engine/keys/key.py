"""Keys: a name, a clock, and forecasts that wait until their time is over. Outcomes are in [0, 1] here."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from onlinecal.engine.keys.accepting import MOST_OPEN
from onlinecal.engine.keys.playing import EXPIRED, KEY, NUMBER, OLDEST_OPEN, WAITING
from onlinecal.engine.watch.account import MONEY
from onlinecal.engine.watch.key_watch import Watched, watched_by
from onlinecal.html import Shown

if TYPE_CHECKING:
    from onlinecal.engine.settings import KeySettings

ALWAYS_OPEN = 64
"""How many forecasts may be open with any forecaster."""
RESERVE = 1 << 23
"""A key takes queries as long as its integers bear so many rounds: more than are open, or in one batch."""

Waits = Callable[[int, int], bool]
"""Whether the forecast with this entry is open and was asked for with the event of this number."""


class Summary(Shown, Struct, frozen=True, omit_defaults=True):
    """What there is to know of a key at a glance.

    Attributes
    ----------
    rounds, open, expired
        Forecasts settled, waiting for their outcome, and expired. What expires is given up, or with
        `expire_as` settled then; it is one of the `rounds`, too.
    certificate, guarantee
        Proven bound on the distance to calibration of the settled rounds, and what it cannot exceed; sums.
    oldest
        Number of the oldest query that waits; None if none does.
    window_certificate, window_guarantee
        The same bounds for the last `window` settled rounds, and for any so many consecutive ones; None if
        the key keeps no window (or its grid promises nothing of any). Those of several keys do not add up.
    watched
        Losses and alarms; None where they were not asked for.
    """

    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float
    oldest: int | None
    window_certificate: float | None = None
    window_guarantee: float | None = None
    watched: Watched | None = None


EMPTY_SUMMARY = Summary(0, 0, 0, 0.0, 0.0, None)


class Key:
    """A key in memory. What it has stands in `settings.arrays`; if it has classes, only part of it.

    Attributes
    ----------
    name, settings
        Its name; its configuration, prepared.
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

    __slots__ = "first_lane", "name", "settings", "spent", "times", "upto"

    def __init__(self, name: str, number: int, settings: KeySettings, upto: int = 0) -> None:
        self.name, self.settings, self.upto, self.spent = name, settings, upto, False
        self.times: list[tuple[float, int, int]] | tuple[()] = [] if settings.expire_after < inf else ()
        self.first_lane = settings.arrays.new_first_lane(self, number)

    def _field(self, field: int) -> int:
        return int(self.settings.arrays.state.fields[self.first_lane, field])

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
        time = float(self.settings.arrays.state.clocks[self.first_lane])
        return time if time == time else None

    def load(self, stored: Any, entries: list[int]) -> tuple[list[int], list[float]]:
        """Take up what was stored; returns the numbers and times of its open forecasts, which get `entries`.

        Raises any exception if it makes no sense, before any of it is played.
        """
        return self.settings.arrays.load(self, stored, entries)

    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes: equal for equal histories; `ids` are those of all open forecasts, by entry."""
        return self.settings.arrays.dump([self], ids)[0]

    def written(self) -> Summary:
        """What there is to know of the key, without alarms and scores."""
        return self.settings.arrays.written([self])[0]

    def watched(self) -> Watched:
        """The key's alarms and scores."""
        return watched_by(self.settings.arrays.state.accounts[self.first_lane, :MONEY].tolist())

    def summary(self) -> Summary:
        """What there is to know of the key, with alarms and scores."""
        return replace(self.written(), watched=self.watched())

    def entries(self) -> list[int]:
        """The forecasts that wait, the oldest first."""
        return self.settings.arrays.entries_of(self.first_lane)

    @property
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""
        entry, state = self._field(OLDEST_OPEN), self.settings.arrays.state
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
        arrays, over = self.settings.arrays.state, list[int]()
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
            self.times = [one for one in self.times if waits(one[2], one[1])]
            heapify(self.times)
        return over

    def is_over(self, asked: float | None, time: float | None) -> bool:
        """Whether a forecast asked for at that time has expired; never where that time is not known.

        It expires by the key's clock, or by `time` if that is later.
        """
        clock = self.clock
        if asked is None or clock is None:
            return False
        now = clock if time is None or time < clock else time
        return now > asked + self.settings.expire_after

    def is_full_at(self, time: float | None, waits: Waits) -> bool:
        """Whether the key can take no query at that time: its integers would not bear the round."""
        if self.spent:
            return True
        if self.waiting < ALWAYS_OPEN:
            return False
        spare = self.waiting - max(ALWAYS_OPEN, self.most_open)
        return spare >= 0 and not self._are_over(spare + 1, time, waits)

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
