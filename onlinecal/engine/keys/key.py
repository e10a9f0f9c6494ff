"""What all keys have: a name, a clock, and forecasts that wait until their time is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from onlinecal.engine.keys.stored_key import Summary

if TYPE_CHECKING:
    from onlinecal.engine.settings import Settings

FEW = 64
"""So many forecasts may be open whatever the forecaster."""
RESERVE = 1 << 23
"""Rounds that a forecaster must still bear for a key to take queries: all that are open or in one batch."""
NEVER = float("inf")

Waits = Callable[[int, int], bool]
"""Whether the forecast with this entry is open and was asked for with the event of this number."""


class Key(ABC):
    """A key in memory.

    Attributes
    ----------
    name, number, settings
        `number` is the ledger's name for it.
    upto
        The number of an event: what the key was loaded from holds all before it and none after.
    used
        The last event that something happened in to it.
    dirty
        The first event that the ledger's state lacks, 0 if it lacks none.
    clock
        The latest time, None before the first.
    waiting, expired
        How many forecasts wait, and how many it has given up.
    times
        Of a key whose forecasts expire, a heap of (time, number, entry): of all that wait, and of some that did.
    spent
        Whether its forecasters bear no more rounds, as of the last run.
    """

    __slots__ = (
        "clock", "dirty", "expired", "name", "number", "settings", "spent", "times", "upto", "used", "waiting",
    )  # fmt: skip

    def __init__(self, name: str, number: int, settings: Settings, upto: int = 0) -> None:
        self.name, self.number, self.settings, self.upto = name, number, settings, upto
        self.used = self.dirty = self.waiting = self.expired = 0
        self.clock: float | None = None
        self.times: list[tuple[float, int, int]] | tuple[()] = [] if settings.patience < NEVER else ()
        self.spent = False

    @abstractmethod
    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes: equal for equal histories; `ids` are those of all open forecasts, by entry."""

    @abstractmethod
    def written(self) -> Summary:
        """What there is to know of the key, without what came of watching it."""

    @abstractmethod
    def summary(self) -> Summary:
        """The same with it."""

    @abstractmethod
    def entries(self) -> list[int]:
        """The forecasts that wait, the oldest first."""

    @property
    @abstractmethod
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""

    @property
    @abstractmethod
    def most_open(self) -> int:
        """How many forecasts may be open, so that no bias leaves its integers."""

    def remember(self, time: float | None, number: int, entry: int) -> None:
        """Note when a forecast was asked for, if it may expire."""
        if time is not None and isinstance(self.times, list):
            heappush(self.times, (time, number, entry))

    def expire(self, time: float | None, waits: Waits) -> list[int]:
        """Let the clock go on to an event's time; the forecasts whose time is over by then, which wait no longer."""
        if time is not None and (self.clock is None or time > self.clock):
            self.clock = time
        over: list[int] = []
        if not self.times:
            return over
        assert isinstance(self.times, list)
        while self.times and self._is_past(self.times[0][0], None):
            _, number, entry = heappop(self.times)
            if waits(entry, number):
                over.append(entry)
        self.waiting -= len(over)
        self.expired += len(over)
        # those that wait no more are left out before they are most of the heap
        if len(self.times) > 2 * self.waiting + FEW:
            self.times = [one for one in self.times if waits(one[2], one[1])]
            heapify(self.times)
        return over

    def _is_past(self, asked: float, time: float | None) -> bool:
        """Whether a forecast of that time has waited too long, now or at a later time."""
        if self.clock is None:
            return False
        now = self.clock if time is None or time < self.clock else time
        return now > asked + self.settings.patience

    def is_over(self, asked: float | None, time: float | None) -> bool:
        """Whether a forecast that was asked for then, None if that is not known, has waited too long."""
        return asked is not None and self._is_past(asked, time)

    def is_full_at(self, time: float | None, waits: Waits) -> bool:
        """Whether so many forecasts are open by then that integers could not bear another, or rounds."""
        if self.spent:
            return True
        if self.waiting < FEW:
            return False
        spare = self.waiting - max(FEW, self.most_open)
        return spare >= 0 and not self._are_over(spare + 1, time, waits)

    def _are_over(self, many: int, time: float | None, waits: Waits) -> bool:
        """Whether that many of the forecasts that wait have waited too long by then."""
        places = [0]
        while many and places:
            place = places.pop()
            if place < len(self.times) and self._is_past(self.times[place][0], time):
                _, number, entry = self.times[place]
                many -= waits(entry, number)
                places += 2 * place + 1, 2 * place + 2
        return not many
