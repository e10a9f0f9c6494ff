"""Forecasts that wait for a late label, found again by their features."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from onlinecal.forecasters import SimplexForecast
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.projection import Ticket

T = TypeVar("T")

MOST_PENDING = 10_000


class NOTHING:
    """Stands for features while no round is open: a class, since copies of it are itself."""


class Waiting(NamedTuple):
    """A round whose label has not come: the name of its strategy, what was forecast about which labels.

    The label None stands for the positive one of two. `joint` is the forecast of all labels together.
    """

    kind: str
    asked: tuple[Label | None, ...]
    tickets: dict[Label | None, Ticket]
    joint: SimplexForecast | None = None


class Pending(Generic[T]):
    """What was forecast for which features, oldest first, at most MOST_PENDING forecasts.

    Features are recognised by equality, so copies will do. Of forecasts for equal features the oldest is
    settled first. When there are too many, the oldest is given up: its round is then never charged.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, tuple[Hashable, T]] = OrderedDict()
        self._places: dict[Hashable, deque[int]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, x: Any, forecast: T) -> T | None:
        """Let a forecast wait; the one that is given up for it, if any."""
        key = features_key(x)
        self._waiting[self._serial] = key, forecast
        self._places.setdefault(key, deque()).append(self._serial)
        self._serial += 1
        if len(self._waiting) > MOST_PENDING:
            return self._remove(next(iter(self._waiting.values()))[0])
        return None

    def take(self, x: Any) -> T | None:
        """The oldest forecast for these features, removed; None if there is none."""
        key = features_key(x)
        return self._remove(key) if key in self._places else None

    def _remove(self, key: Hashable) -> T:
        places = self._places[key]
        serial = places.popleft()
        if not places:
            del self._places[key]
        return self._waiting.pop(serial)[1]


def features_key(x: Any) -> Hashable:
    """Equal for equal features; the object's identity where they cannot be hashed."""
    try:
        key: Hashable = frozenset(x.items()) if isinstance(x, Mapping) else x
        hash(key)
    except TypeError:
        return id(x)
    return key
