"""Late labels: each settles the forecast that was given for it, written once for all wrappers.

A label finds its forecast by a token, or by equal features. One that finds none is learnt by the model and
counted apart: certificates and guarantees speak of forecasts that were given, and of no others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from river import base

from onlinecal.forecasters.tokens import OpenForecasts
from onlinecal.html import Shown
from onlinecal.remarks import warn_of
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.wrapper import ClassifierWrapper

T = TypeVar("T")

MOST_WAITING = 1_000_000
"""By default. A forecast of two labels takes about 1.1 KB, one of ten labels one by one 3.4 KB."""


class NOTHING:
    """Stands for features while no round is open: a class, since copies of it are itself."""


@dataclass(frozen=True, slots=True)
class WrappedForecast(Shown):
    """What a wrapper announced in one round, to be settled by `observe`.

    Attributes
    ----------
    answer
        What was announced: of classifiers the probabilities by label, of CalibratedRegressor the mean, of
        CalibratedDistribution the probabilities by threshold.
    features
        What it was announced for; the model learns them with the label.
    serial
        How many forecasts with a token its wrapper had issued before.
    issuer
        Which wrapper it belongs to; copies of a wrapper share it.
    """

    answer: Any = field(compare=False)
    features: Any = field(compare=False)
    serial: int
    issuer: str


class Pending(Generic[T]):
    """What was forecast for which features, or with which token: oldest first, at most so many forecasts.

    Features are recognised by equality, so copies will do. Of forecasts for equal features the oldest is
    settled first. When there are too many, the oldest is given up: its round is then never charged.

    Attributes
    ----------
    n_given_up
        How many forecasts have been given up.
    """

    def __init__(self, most: int) -> None:
        self.n_given_up = 0
        self._most = most
        self._waiting: dict[int, tuple[Hashable, T]] = {}
        # a deque takes 760 bytes, and most features wait once
        self._places: dict[Hashable, int | deque[int]] = {}
        self._oldest = self._serial = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, x: Any, forecast: T) -> T | None:
        """Let a forecast wait; the one that is given up for it, if any."""
        key, serial = features_key(x), self._serial
        self._serial += 1
        self._waiting[serial] = key, forecast
        place = self._places.setdefault(key, serial)
        if isinstance(place, deque):
            place.append(serial)
        elif place != serial:
            self._places[key] = deque((place, serial))
        if len(self._waiting) <= self._most:
            return None
        self.n_given_up += 1
        while self._oldest not in self._waiting:
            self._oldest += 1
        return self._remove(self._waiting[self._oldest][0])

    def take(self, x: Any) -> T | None:
        """The oldest forecast for these features, removed; None if there is none."""
        key = features_key(x)
        return self._remove(key) if key in self._places else None

    def _remove(self, key: Hashable) -> T:
        place = self._places[key]
        serial = place.popleft() if isinstance(place, deque) else place
        if serial == place or not place:
            del self._places[key]
        return self._waiting.pop(serial)[1]


class LateRounds(Generic[T]):
    """A wrapper that has at most one open round, that of the features it was asked about last.

    When it is asked about others, the open round waits; a label settles the oldest round that waits for equal
    features, or that of its token, which stands for the features then.

    A subclass calls `_open` before it forecasts, or does the same itself where a call costs too much.

    Attributes
    ----------
    n_rounds
        Settled rounds: labels whose forecast had been given.
    n_unmatched
        Labels that came without their forecast.
    """

    def __init__(self, most_waiting: int) -> None:
        check_count(most_waiting, "most_waiting")
        self.most_waiting = most_waiting
        self.n_rounds = 0
        self.n_unmatched = 0
        self._pending: Pending[T] = Pending(most_waiting)
        self._tokens = OpenForecasts(WrappedForecast)
        self._features: Any = NOTHING
        """The features, or the token, of the open round; NOTHING while there is none."""
        self._most_open = 0
        """How many forecasts have waited at once while another was made."""
        self._has_warned = False

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Settle the forecast given for x, if there is one, then let the model learn.

        It is the forecast that was given last if that was for this very object, else the oldest that waits
        for equal features. Without one the label is counted in `n_unmatched` and settles nothing; a
        LabelWarning says so once, unless nothing has been forecast yet.

        Raises ValueError, and learns nothing, for a y that is none.
        """
        self._learn(x, x, y, kwargs)

    def forecast(self, x: Any, **kwargs: Any) -> WrappedForecast:
        """Forecast with a token, which `observe` settles: it finds its forecast whatever the features are.

        The keywords are for the wrapped model.
        """
        self._make_way()
        answer = self._answer_to(x, **kwargs)
        self._features = token = WrappedForecast(answer, x, *self._tokens.issue())
        return token

    def observe(self, forecast: WrappedForecast, y: Any, **kwargs: Any) -> None:
        """Settle a forecast with its label, each once and in any order, then let the model learn.

        The label of a forecast that was given up, since more than `most_waiting` waited, is one without its
        forecast, as in `learn_one`. The keywords are for the wrapped model.

        Raises ValueError, and learns nothing, for a forecast of another wrapper, one that was settled or
        withdrawn before, and a y that is none.
        """
        self._tokens.check(forecast)
        self._learn(forecast, forecast.features, y, kwargs)
        self._tokens.close(forecast)

    def withdraw(self, forecast: WrappedForecast) -> None:
        """Give up a forecast whose label will never be known: it is then never charged.

        Raises ValueError, and changes nothing, as `observe` does for a forecast.
        """
        self._tokens.check(forecast)
        found = self._taken_if_open(forecast) or self._pending.take(forecast)
        if found is not None:
            self._give_up(found)
        self._tokens.close(forecast)

    @property
    def n_open(self) -> int:
        """How many forecasts wait for their label."""
        return len(self._pending) + (self._features is not NOTHING)

    @abstractmethod
    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        """Settle the forecast that was asked for with these features or this token, let the model learn x."""

    @abstractmethod
    def _answer_to(self, x: Any, **kwargs: Any) -> Any:
        """Open a round for these features; the one that was open has made way. What is announced."""

    @abstractmethod
    def _hand_out(self) -> T:
        """The forecast of the open round."""

    def _give_up(self, forecast: T) -> None:
        """A forecast that waited will never be settled."""

    def _note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""

    def _put_aside(self) -> None:
        """Let the open round, if there is one, wait for a late label."""
        if self._features is not NOTHING:
            given_up = self._pending.add(self._features, self._hand_out())
            self._features = NOTHING
            if given_up is not None:
                self._give_up(given_up)

    def _open(self, x: Any) -> None:
        """Begin a round of these features, unless it is the open one."""
        if x is not self._features:
            if self._features is not NOTHING:
                self._make_way()
            self._features = x

    def _make_way(self) -> None:
        """Let the open round wait, since another one is about to be opened."""
        self._put_aside()
        waiting = len(self._pending)
        if waiting:
            self._most_open = max(self._most_open, waiting)
            self._note_late(waiting)

    def _taken_if_open(self, x: Any) -> T | None:
        """The forecast of the open round if it is for such features, which is then open no longer."""
        if x is not self._features and features_key(x) != features_key(self._features):
            return None
        forecast = self._hand_out()
        self._features = NOTHING
        return forecast

    def _due(self, x: Any) -> T | None:
        """The forecast that a label of these features settles now; None, noted, if there is none."""
        forecast = None if x is self._features or not len(self._pending) else self._pending.take(x)
        if forecast is not None:
            # taken first: what is put aside must not push it out
            self._put_aside()
            self._note_late(self._most_open)
            return forecast
        forecast = self._taken_if_open(x)
        if forecast is None:
            self._note_unmatched()
        return forecast

    def _note_unmatched(self) -> None:
        """Count a label without its forecast; warn, once, if there have been forecasts."""
        self.n_unmatched += 1
        given_up = self._pending.n_given_up
        if not self._has_warned and (self.n_rounds or self.n_open or given_up):
            self._has_warned = True
            limit = f"; {given_up:,} were given up, since more than most_waiting={self.most_waiting:,} waited"
            text = (
                "a label came for features that no forecast waits for: the model learns it, but it settles "
                "nothing, and no certificate speaks of it (n_unmatched counts such labels). Ask before each "
                f"label, with equal features, or by tokens (forecast, observe){limit if given_up else ''}"
            )
            warn_of([text], level=6)


class LateLabels(LateRounds[T], ClassifierWrapper):
    """Such a wrapper around a classifier: `predict_proba_one` opens the rounds."""

    def __init__(
        self, classifier: base.Classifier, most_waiting: int, declared: Sequence[Label] = ()
    ) -> None:
        ClassifierWrapper.__init__(self, classifier)
        LateRounds.__init__(self, most_waiting)
        self._labels = Labels(declared)

    @abstractmethod
    def _note_late(self, others: int) -> None: ...

    def _answer_to(self, x: Any, **kwargs: Any) -> Any:
        return self.predict_proba_one(x, **kwargs)


class ThisOne:
    """An object told apart from all others; kept, so that no later one can be taken for it."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __hash__(self) -> int:
        return id(self.x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThisOne) and self.x is other.x


def features_key(x: Any) -> Hashable:
    """Equal for equal features; where parts of them cannot be hashed at all, for the same object."""
    key: Hashable
    try:
        key = _pairs_key(x) if type(x) is dict or isinstance(x, Mapping) else x
        hash(key)
    except TypeError:
        try:
            key = _frozen(x)
            hash(key)
        except TypeError:
            return ThisOne(x)
    return key


def _pairs_key(x: Mapping[Any, Any]) -> Hashable:
    """Equal for equal mappings, in whatever order: where names are texts in half the memory of a set."""
    try:
        names = sorted(x)
        "".join(names)
    except TypeError:
        return frozenset(x.items())
    return (*names, *[x[name] for name in names])


def _frozen(value: Any) -> Any:
    """Lists, mappings, sets and arrays as what can be hashed, equal where they are."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return isinstance(value, list), *map(_frozen, value)
    if isinstance(value, np.ndarray):
        return value.shape, *map(_frozen, value.ravel().tolist())
    return frozenset(value) if isinstance(value, set) else value
