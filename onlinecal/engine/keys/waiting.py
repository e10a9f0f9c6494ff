"""The forecasts of a key that wait for their outcomes, and its clock, by which they expire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop
from typing import Any

from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.settings import NEVER, Settings

FEW = 64
"""So many forecasts may be open with any lanes."""


class Waiting(ABC):
    """What a key waits for.

    `expired` is how many forecasts it has given up. `times`, of a key whose forecasts expire, is a heap of
    (time, id): of all that wait, and of some that did.
    """

    __slots__ = ("expired", "settings", "times")

    settings: Settings
    expired: int
    times: list[tuple[float, str]]

    @property
    @abstractmethod
    def open(self) -> dict[str, Issued]:
        """The forecasts that wait, by id, the oldest first."""

    @property
    @abstractmethod
    def clock(self) -> float | None:
        """The latest time, None before the first."""

    @clock.setter
    @abstractmethod
    def clock(self, time: float | None) -> None: ...

    @abstractmethod
    def _release(self, issued: Issued, outcome: Any = None, number: int = 0) -> None:
        """Wait no longer for a forecast, whose outcome came with an event, or None."""

    def _list_times(self) -> None:
        self.times = []
        if self.settings.patience < NEVER:
            self.times += ((one.time, one.id) for one in self.open.values() if one.time is not None)
            heapify(self.times)

    def expire(self, time: float | None) -> list[Issued]:
        """Let the clock go on to an event's time, and give up the forecasts whose time is over by then."""
        if time is not None and (self.clock is None or time > self.clock):
            self.clock = time
        over: list[Issued] = []
        while self.times and self._is_past(self.times[0][0], None):
            asked, id = heappop(self.times)
            if self._waits_since(id, asked):
                over.append(self.open[id])
                self._release(self.open[id])
        self.expired += len(over)
        return over

    def _waits_since(self, id: str, time: float) -> bool:
        """Whether this entry of `times` is that of a forecast that still waits."""
        issued = self.open.get(id)
        return issued is not None and issued.time == time

    def _is_past(self, asked: float, time: float | None) -> bool:
        """Whether a forecast of that time has waited too long, now or at a later time."""
        if self.clock is None:
            return False
        now = self.clock if time is None or time < self.clock else time
        return now > asked + self.settings.patience

    def is_over(self, issued: Issued, time: float | None = None) -> bool:
        """Whether a forecast has waited too long, now or at a later time."""
        return issued.time is not None and self._is_past(issued.time, time)

    def _are_over(self, many: int, time: float | None) -> bool:
        """Whether that many of the forecasts that wait have waited too long by then."""
        places = [0]
        while many and places:
            place = places.pop()
            if place < len(self.times) and self._is_past(self.times[place][0], time):
                id = self.times[place][1]
                many -= self._waits_since(id, self.times[place][0])
                places += 2 * place + 1, 2 * place + 2
        return not many
