"""Late labels: each settles the forecast that was made for its features, written once for all wrappers."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from river import base

from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.wrapper import ClassifierWrapper

T = TypeVar("T")

MOST_PENDING = 10_000


class NOTHING:
    """Stands for features while no round is open: a class, since copies of it are itself."""


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


class LateRounds(Generic[T]):
    """A wrapper that has at most one open round, that of the features it was asked about last.

    When it is asked about others, the open round waits; a label settles the oldest round that waits for equal
    features. Subclasses open the rounds, and hand out what is to wait of one.

    A subclass tests `x is self._features` and `self._features is NOTHING` itself: a call would cost too much.
    """

    def __init__(self) -> None:
        self.n_rounds = 0
        self._pending: Pending[T] = Pending()
        self._features: Any = NOTHING
        """The features of the open round, NOTHING while there is none."""
        self._most_open = 0
        """How many forecasts have waited at once while another was made."""

    @abstractmethod
    def _open(self, x: Any) -> None:
        """Open a round for these features; the one that was open has made way."""

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

    def _make_way(self) -> None:
        """Let the open round wait, since another one is about to be opened."""
        self._put_aside()
        waiting = len(self._pending)
        if waiting:
            self._most_open = max(self._most_open, waiting)
            self._note_late(waiting)

    def _late(self, x: Any) -> T | None:
        """The oldest forecast that waits for the label of these features, to be settled now.

        If there is none, a round is opened for them.
        """
        self._put_aside()
        forecast = self._pending.take(x) if len(self._pending) else None
        if forecast is None:
            self._make_way()
            self._open(x)
        return forecast


class LateLabels(ClassifierWrapper, LateRounds[T]):
    """Such a wrapper around a classifier: `predict_proba_one` opens the rounds."""

    def __init__(self, classifier: base.Classifier, declared: Sequence[Label] = ()) -> None:
        ClassifierWrapper.__init__(self, classifier)
        LateRounds.__init__(self)
        self._labels = Labels(declared)

    @abstractmethod
    def _note_late(self, others: int) -> None: ...

    def _open(self, x: Any) -> None:
        self.predict_proba_one(x)


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
    """Equal for equal features; where they cannot be hashed, for the same object."""
    try:
        key: Hashable = frozenset(x.items()) if isinstance(x, Mapping) else x
        hash(key)
    except TypeError:
        return ThisOne(x)
    return key
