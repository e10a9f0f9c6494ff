"""Forecasts that wait for their labels: found by their tokens, or by the features that they were made for.

A forecast gets a *place*, a number that no other gets, when it begins to wait (`add`), and loses it when its
label has come (`remove`) or when it is given up (`take_oldest`, which `add` calls beyond `most`).
`LateRounds` and its subclasses alone call these; `find` and `how_many` only read.

What always holds between two calls: `_waiting` has the forecasts in the order in which they began to wait.
Those without a token are in `_by_features`, too, under the key of their features, the oldest first, unless
their label is kept (`expiry`); no list there is empty. For one with a token `_open` has the place under its
serial number. There None means that the token is open and its forecast does not wait: it is that of the
present round, it was given up, or its label is kept.

Copies and pickles of a wrapper hold all of this.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from onlinecal.forecasters.tokens import OpenForecasts


class NOTHING:
    """A sentinel that survives copies and pickles: no features, while no round is open, or no label.

    It is a class and not an object, since copying and unpickling give the class itself back.
    """


class KeptForecast(NamedTuple):
    """A forecast that waits: its token or the key of its features, and what settles it."""

    key: Hashable
    forecast: Any


class WaitingForecasts(OpenForecasts):
    """The open forecasts of a wrapper, with tokens or without; its length says how many wait.

    Of more than `most` the oldest is given up. Its token stays open: its label is still one to learn from.
    """

    def __init__(self, kind: Any, most: int) -> None:
        super().__init__(kind)
        self.n_given_up = 0
        self._most = most
        self._waiting: OrderedDict[int, Any] = OrderedDict()
        """In the order in which they began to wait, by place."""
        self._next_place = 0
        self._by_features: dict[Hashable, list[int]] = {}
        """The places of forecasts without tokens, the oldest first."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, asked: Any, forecast: Any) -> Any:
        """Let a forecast wait under its token or its features; the one that is given up for it, if any."""
        place, key = self._next_place, asked
        self._next_place += 1
        if isinstance(asked, self._kind):
            self._open[asked.serial] = place
        else:
            key = features_key(asked)
            self._by_features.setdefault(key, []).append(place)
        self._waiting[place] = self._new_entry(key, forecast, asked)
        if len(self._waiting) <= self._most:
            return None
        self.n_given_up += 1
        return self.take_oldest().forecast

    def _new_entry(self, key: Hashable, forecast: Any, asked: Any) -> Any:
        """What is kept of a forecast that begins to wait."""
        return KeptForecast(key, forecast)

    def find(self, asked: Any) -> tuple[int | None, Any]:
        """The place of the forecast with this token, or of the oldest with these features; and the forecast.

        None for both if there is none.
        """
        if not self._waiting:
            return None, None
        place = self._place_of(asked if isinstance(asked, self._kind) else features_key(asked))
        return (None, None) if place is None else (place, self._waiting[place].forecast)

    def how_many(self, key: Hashable) -> int:
        """How many forecasts wait under the key of these features."""
        return len(self._by_features.get(key, ()))

    def remove(self, place: int) -> None:
        """Remove the forecast at this place, which `find` has found."""
        self._lose(self._waiting.pop(place).key)

    def take_oldest(self) -> Any:
        """What is kept of the oldest forecast, which is removed."""
        _, oldest = self._waiting.popitem(last=False)
        self._lose(oldest.key)
        return oldest

    def _place_of(self, key: Hashable, last: bool = False) -> int | None:
        """The place of a token's forecast, or of the oldest, or the last, of these features; None without."""
        if isinstance(key, self._kind):
            place: int | None = self._open.get(key.serial) if key.issuer == self._issuer else None
            return place
        places = self._by_features.get(key)
        return places[-1 if last else 0] if places else None

    def _lose(self, key: Hashable, last: bool = False) -> None:
        """Forget where a forecast waits, which `_place_of` would find by this key."""
        if isinstance(key, self._kind):
            if key.serial in self._open:
                self._open[key.serial] = None
            return
        places = self._by_features[key]
        places.pop(-1 if last else 0)
        if not places:
            del self._by_features[key]


class ThisOne:
    """An object as a key that only the object itself equals. It is kept, so that its id is not used again."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __hash__(self) -> int:
        return id(self.x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThisOne) and self.x is other.x


def features_key(x: Any) -> Hashable:
    """A key, equal for equal features; if parts of them cannot be hashed, for the same object alone."""
    for key_of in (_items, _frozen):
        try:
            key: Hashable = key_of(x)
            hash(key)
            return key
        except TypeError:  # parts without a hash
            continue
    return ThisOne(x)


def _items(x: Any) -> Any:
    return frozenset(x.items()) if isinstance(x, Mapping) else x


def _frozen(value: Any) -> Any:
    """Lists, mappings, sets and arrays as something that can be hashed, and is equal where they are."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return isinstance(value, list), *map(_frozen, value)
    if isinstance(value, np.ndarray):
        return value.shape, *map(_frozen, value.ravel().tolist())
    return frozenset(value) if isinstance(value, set) else value
