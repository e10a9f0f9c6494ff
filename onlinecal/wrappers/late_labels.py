"""Late labels: each settles the forecast that was given for it, written once for all wrappers.

A label finds its forecast by a token, or by equal features. One that finds none is learnt by the model and
counted apart: certificates and guarantees speak of forecasts that were given, and of no others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from river import base

from onlinecal.forecasters.simplex.input import check_label, class_of
from onlinecal.forecasters.tokens import OpenForecasts
from onlinecal.html import Shown
from onlinecal.remarks import silence_remarks, warn_of
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label, Labels, refuse_weight
from onlinecal.wrappers.wrapper import ClassifierWrapper

T = TypeVar("T")

MOST_WAITING = 1_000_000
"""By default. A forecast of two labels takes about 1.1 KB, one of ten labels one by one 3.4 KB."""


class NOTHING:
    """Stands for features while no round is open, and for no label: a class, whose copies are itself."""


class MANY:
    """Stands for labels of several kinds."""


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


class Kept(NamedTuple):
    """A forecast that waits: by what it is found, and if it expires since when, for what, what came of it.

    `label` is NOTHING until one comes; `known` are the keywords that came with it, for the model.
    """

    key: Hashable
    forecast: Any
    since: Any = None
    asked: Any = None
    label: Any = NOTHING
    known: Any = None


class Pending:
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
        self._waiting: OrderedDict[int, Kept] = OrderedDict()
        self._places: dict[Hashable, list[int]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, x: Any, forecast: Any, since: Any = None) -> Any:
        """Let a forecast wait, if that is counted since a time; the one that is given up for it, if any."""
        key = features_key(x)
        asked = None if since is None else dict(x) if isinstance(x, dict) else x
        self._waiting[self._serial] = Kept(key, forecast, since, asked)
        self._places.setdefault(key, []).append(self._serial)
        self._serial += 1
        if len(self._waiting) <= self._most:
            return None
        self.n_given_up += 1
        return self.take_oldest().forecast

    def take(self, x: Any) -> Any:
        """The oldest forecast for these features, removed; None if there is none."""
        key = features_key(x)
        return self._waiting.pop(self._found(key)).forecast if key in self._places else None

    def note(self, x: Any, label: Any, known: dict[str, Any], last: bool) -> bool:
        """Keep a label for a forecast for these features that has none; whether there is one.

        It is the last such forecast, or else the oldest.
        """
        key = features_key(x)
        if key not in self._places:
            return False
        serial = self._found(key, last)
        self._waiting[serial] = self._waiting[serial]._replace(label=label, known=known)
        return True

    def since(self) -> Any:
        """Since when the oldest forecast waits; None if none does."""
        return next(iter(self._waiting.values())).since if self._waiting else None

    def take_oldest(self) -> Kept:
        """The oldest forecast, removed, and what came of it."""
        _, found = self._waiting.popitem(last=False)
        if found.label is NOTHING:
            self._found(found.key)
        return found

    def _found(self, key: Hashable, last: bool = False) -> int:
        """The number of the oldest forecast with this key, or the last: it is found by that no longer."""
        places = self._places[key]
        serial = places.pop() if last else places.pop(0)
        if not places:
            del self._places[key]
        return serial


class Patience(NamedTuple):
    """How long forecasts wait for their labels, and what silence means then.

    after
        So long, in units of moments.
    label
        What a forecast whose label has not come is settled with; NOTHING: it is given up.
    moment
        Of features: the name of one, or a function of all. None: the number of the forecast.
    """

    after: Any
    label: Label
    moment: str | Callable[[Any], Any] | None

    def moment_of(self, x: Any, now: Any) -> Any:
        """When a forecast of these features is made, not before `now`; ValueError if they do not say."""
        if self.moment is None:
            return 0 if now is None else now + 1
        try:
            found = self.moment(x) if callable(self.moment) else x[self.moment]
            _ = found - found > self.after  # a TypeError, if these do not go together
            return found if now is None else max(now, found)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"x must have a moment, {self.moment!r}, in units of expire_after={self.after!r}, got {x!r}"
            ) from error


class LateRounds(Generic[T]):
    """A wrapper that has at most one open round, that of the features it was asked about last.

    When it is asked about others, the open round waits; a label settles the oldest round that waits for equal
    features, or that of its token, which stands for the features then.

    A subclass calls `_open` before it forecasts, or does the same itself where a call costs too much. The
    round that is here, `_here` if nothing else is said, may be taken out by `_take`; `_present` puts a round
    back, and `_settle` charges the one that is here.

    Attributes
    ----------
    n_rounds
        Settled rounds: labels whose forecast had been given.
    n_unmatched
        Labels that came without their forecast.
    """

    # of the class until they are needed: with more than 30 attributes each instance takes much more room
    _patience: Patience | None = None
    _now: Any = None
    """The latest moment of any forecast, where patience is limited."""
    _here: T | None = None
    _n_withdrawn = 0
    _is_empty = False
    """Whether nothing was forecast in the round that is here."""
    _asks: ClassVar[str] = "predict_proba_one"
    """The method that opens a round."""

    def __init__(self, most_waiting: int) -> None:
        check_count(most_waiting, "most_waiting")
        self.most_waiting = most_waiting
        self.n_rounds = 0
        self.n_unmatched = 0
        self._pending = Pending(most_waiting)
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

        Raises ValueError, and learns nothing, for a y that is none, and for a weight w, which would reach the
        model alone.
        """
        if kwargs:
            refuse_weight(kwargs)
        self._learn(x, x, y, kwargs)

    def forecast(self, x: Any, **kwargs: Any) -> WrappedForecast:
        """Forecast with a token, which `observe` settles: it finds its forecast whatever the features are.

        The keywords are for the wrapped model.
        """
        if self._patience is None:
            self._make_way()
        else:  # and the rest when the clock has been set
            self._put_aside()
        answer = getattr(self, self._asks)(x, **kwargs)
        self._features = token = WrappedForecast(answer, x, *self._tokens.issue())
        return token

    def observe(self, forecast: WrappedForecast, y: Any, **kwargs: Any) -> None:
        """Settle a forecast with its label, each once and in any order, then let the model learn.

        The label of a forecast that was given up, since more than `most_waiting` waited, is one without its
        forecast, as in `learn_one`. The keywords are for the wrapped model.

        Raises ValueError, and learns nothing, for a forecast of another wrapper, one that was settled or
        withdrawn before, and a y that is none.
        """
        if kwargs:
            refuse_weight(kwargs)
        self._tokens.check(forecast)
        self._learn(forecast, forecast.features, y, kwargs)
        self._tokens.close(forecast)

    def withdraw(self, forecast: WrappedForecast) -> None:
        """Give up a forecast whose label will never be known: it is then never charged.

        Raises ValueError, and changes nothing, as `observe` does for a forecast.
        """
        self._tokens.check(forecast)
        if self._is_open(forecast):
            found, self._features = self._take(), NOTHING
        else:
            found = self._pending.take(forecast)
        if found is not None:
            self._give_up(found)
        self._tokens.close(forecast)
        self._n_withdrawn += 1

    @property
    def n_open(self) -> int:
        """How many forecasts wait for their label."""
        return len(self._pending) + (self._features is not NOTHING)

    def _keeps(self, asked: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        """Keep a label until its forecast is due; whether it is kept."""
        return False

    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any], due: T | None = None) -> None:
        """Settle the forecast that was asked for with these features or this token, let the model learn x.

        One that is `due` has waited for its time.
        """
        if self._patience is not None and due is None and self._keeps(asked, y, kwargs):
            return
        read = self._read(y)
        # what `_is_due` says of most labels, in fewer calls
        if (asked is self._features and not self._is_empty) or self._is_due(asked, due):
            self._settle(read)
            self._features = NOTHING
            self.n_rounds += 1
        else:
            self._learn_alone(x, read)
        self._teach(x, y, read, kwargs)

    @abstractmethod
    def _read(self, y: Any) -> Any:
        """What a label or target is to `_settle`; ValueError if it is none."""

    def _take(self) -> T | None:
        """The forecast of the round that is here, to wait for its label; None if nothing was forecast."""
        found, self._here = self._here, None
        return found

    def _present(self, forecast: T) -> None:
        """Put a forecast that waited back in its place."""
        self._here = forecast

    @abstractmethod
    def _settle(self, read: Any) -> None:
        """Charge the round that is here."""

    def _learn_alone(self, x: Any, read: Any) -> None:
        """Learn what there is to learn from a label without its forecast."""

    @abstractmethod
    def _teach(self, x: Any, y: Any, read: Any, kwargs: dict[str, Any]) -> None:
        """Let the model learn."""

    def _give_up(self, forecast: T) -> None:
        """A forecast that waited will never be settled."""

    def _note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""

    def _put_aside(self) -> None:
        """Let the open round, if there is one, wait for a late label."""
        if self._features is not NOTHING:
            given_up = self._pending.add(self._features, self._take(), self._now)
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

    def _is_open(self, x: Any) -> bool:
        """Whether the open round is for such features."""
        return x is self._features or features_key(x) == features_key(self._features)

    def _is_due(self, x: Any, waiting: T | None = None) -> bool:
        """Whether there is a round, maybe this one, that a label of x settles now: it is put in its place.

        That there is none is noted.
        """
        if x is not self._features:
            if waiting is None and len(self._pending):
                waiting = self._pending.take(x)
            if waiting is not None:
                # taken first: what is put aside must not push it out
                self._put_aside()
                self._note_late(self._most_open)
                self._present(waiting)
                return True
        if self._is_open(x):
            self._features = NOTHING
            if not self._is_empty:
                return True
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
            warn_of([text], level=5)
        return False


class LateLabels(LateRounds[T], ClassifierWrapper):
    """Such a wrapper around a classifier: `predict_proba_one` opens the rounds."""

    _sole: Any = NOTHING
    """The label of all settled rounds, NOTHING before the first; MANY if there are several."""
    n_expired = 0
    """Forecasts whose label had not come when they were due: given up, or settled by silence."""

    def __init__(
        self,
        classifier: base.Classifier,
        most_waiting: int,
        declared: Sequence[Label] = (),
        patience: Patience | None = None,
    ) -> None:
        ClassifierWrapper.__init__(self, classifier)
        LateRounds.__init__(self, most_waiting)
        self._labels = Labels(declared)
        if patience is not None:
            self._patience = patience

    def _teach(self, x: Any, y: Any, read: Any, kwargs: dict[str, Any]) -> None:
        self.classifier.learn_one(x, y, **kwargs)

    def _make_way(self) -> None:
        super()._make_way()
        is_told = self._patience is not None and self._patience.label is not NOTHING
        if self._sole is not MANY and self._sole == self._labels.positive and not is_told:
            without = self.n_open + self._pending.n_given_up + self._n_withdrawn + self.n_expired
            remarks = silence_remarks(
                self.n_rounds, without, "expire_after= and expire_as= say what silence means"
            )
            warn_of(remarks, level=5)
            self._sole = MANY if remarks else self._sole

    def _let_expire(self, x: Any) -> None:
        """Before a round of these features, settle or give up forecasts that have waited for their time."""
        assert self._patience is not None
        now = self._patience.moment_of(x, self._now)
        self._put_aside()
        self._now = now
        while (since := self._pending.since()) is not None and self._now - since > self._patience.after:
            due = self._pending.take_oldest()
            asked, label = due.asked, due.label
            is_token = isinstance(asked, WrappedForecast)
            if label is NOTHING:
                self.n_expired += 1
                label = self._patience.label
                if is_token:
                    self._tokens.close(asked)
            if label is NOTHING:
                self._give_up(due.forecast)
            else:
                x = asked.features if is_token else asked
                self._learn(asked, x, label, due.known or {}, due.forecast)
        self._make_way()

    def _keeps(self, asked: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        if self._patience is None or self._patience.label is NOTHING:
            return False
        self._check_label(y, "y")
        is_last = asked is self._features
        if is_last or not self._pending.note(asked, y, kwargs, False):
            self._put_aside()
            return self._pending.note(asked, y, kwargs, is_last)
        return True


class ThisOne:
    """An object told apart from all others; kept, so that no later one can be taken for it."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __hash__(self) -> int:
        return id(self.x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ThisOne) and self.x is other.x


def patience_of(after: Any, label: Label | None, moment: Any, declared: Sequence[Label]) -> Patience | None:
    """How long forecasts wait; None for ever. ValueError if these do not go together."""
    if after is None:
        for name, value in (("expire_as", label), ("moment", moment)):
            if value is not None:
                raise ValueError(f"{name} says nothing without expire_after, got {value!r}")
        return None
    if moment is None:
        check_count(after, "expire_after")
    elif not isinstance(after, int | float | timedelta) or after is True or not after or abs(after) != after:
        raise ValueError(f"expire_after must be a span above 0, a number or a timedelta, got {after!r}")
    elif not callable(moment) and not isinstance(moment, str):
        raise ValueError(f"moment must be the name of a feature, or a function of all, got {moment!r}")
    if label is None:
        label = NOTHING
    elif declared:
        class_of(label, dict.fromkeys(declared, 0), "expire_as")
    else:
        check_label(label, "expire_as")
    return Patience(after, label, moment)


def features_key(x: Any) -> Hashable:
    """Equal for equal features; where parts of them cannot be hashed at all, for the same object."""
    for key_of in (_pairs, _frozen):
        try:
            key: Hashable = key_of(x)
            hash(key)
            return key
        except TypeError:  # names without an order, parts without a hash
            continue
    return ThisOne(x)


def _pairs(x: Any) -> Any:
    return tuple(sorted(x.items())) if isinstance(x, Mapping) else x


def _frozen(value: Any) -> Any:
    """Lists, mappings, sets and arrays as what can be hashed, equal where they are."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return isinstance(value, list), *map(_frozen, value)
    if isinstance(value, np.ndarray):
        return value.shape, *map(_frozen, value.ravel().tolist())
    return frozenset(value) if isinstance(value, set) else value
