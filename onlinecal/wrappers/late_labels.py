"""Late labels: each settles the forecast that was given for it, found by a token or by equal features."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from onlinecal.forecasters.simplex.input import check_label, class_of
from onlinecal.forecasters.tokens import OpenForecasts
from onlinecal.html import Shown
from onlinecal.remarks import warn_of
from onlinecal.restoring import Restored
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label, refuse_weight

T = TypeVar("T")

MOST_WAITING = 1_000_000
"""By default. A forecast of two labels takes about 1.1 KB, one of ten labels one by one 3.4 KB."""
MANY_WAITING = 100
"""When so many forecasts wait and no label has come at all, that is remarked on."""


class NOTHING:
    """Stands for features while no round is open, and for no label: a class, whose copies are itself."""


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
    features: Any = field(compare=False, repr=False)
    serial: int
    issuer: str


class Kept(NamedTuple):
    """A forecast that waits under a key; if it can expire since when, what was asked, and what came of it."""

    key: Hashable
    forecast: Any
    since: Any = None
    asked: Any = None
    label: Any = NOTHING
    known: Any = None
    """The keywords that came with the label, for the model."""


class Pending:
    """Forecasts that wait under features, or a token; of more than so many the oldest is given up."""

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

    def find(self, x: Any) -> tuple[int | None, Any]:
        """The number of the oldest forecast for these features, or None, and the forecast, or None."""
        places = self._places.get(features_key(x)) if self._waiting else None
        return (places[0], self._waiting[places[0]].forecast) if places else (None, None)

    def remove(self, place: int) -> None:
        """Remove the forecast with that number, the oldest for its features."""
        self._found(self._waiting.pop(place).key)

    def how_many(self, key: Hashable) -> int:
        """How many forecasts wait under a key for their labels."""
        return len(self._places.get(key, ()))

    def note(self, x: Any, label: Any, known: dict[str, Any], last: bool) -> bool:
        """Keep a label for the oldest forecast, or the last, of these features; whether there is one."""
        key = features_key(x)
        if key not in self._places:
            return False
        serial = self._found(key, last)
        self._waiting[serial] = self._waiting[serial]._replace(label=label, known=known)
        return True

    def since(self) -> Any:
        """Since when the oldest forecast waits; None if none does."""
        return self.oldest().since if self._waiting else None

    def oldest(self) -> Kept:
        """The oldest forecast, and what came of it."""
        return next(iter(self._waiting.values()))

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
    """How long forecasts wait for their labels; after that `label` settles them, or they are given up.

    `moment` is the name of the feature that says when a forecast is made, or a function of all features;
    None: the number of the forecast.
    """

    after: Any
    label: Label
    moment: str | Callable[[Any], Any] | None

    def moment_of(self, x: Any, now: Any) -> Any:
        """When a forecast of these features is made, not before `now`; ValueError if they do not say."""
        if self.moment is None:
            return 0 if now is None else now + 1
        got = "none"
        try:
            found = self.moment(x) if callable(self.moment) else x[self.moment]
            got = f"one of type {type(found).__name__}"
            _ = found - found > self.after  # a TypeError, if these do not go together
            return found if now is None else max(now, found)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"x must have a moment, {self.moment!r}, in units of expire_after={self.after!r}, got {got}"
            ) from error


def patience_of(after: Any, label: Label | None, moment: Any, declared: Iterable[Label]) -> Patience | None:
    """How long forecasts wait; None for ever. ValueError if these do not go together."""
    if after is None:
        for name, value in (("expire_as", label), ("moment", moment)):
            if value is not None:
                raise ValueError(f"{name} says nothing without expire_after, got {value!r}")
        return None
    if moment is None:
        if isinstance(after, timedelta):
            raise ValueError(
                f"expire_after={after!r} needs moment=, the name of the feature that says when a forecast is "
                "made, or a function of all features; got None"
            )
        after = check_count(after, "expire_after")
    elif not isinstance(after, int | float | timedelta) or after is True or not after or abs(after) != after:
        raise ValueError(f"expire_after must be a span above 0, a number or a timedelta, got {after!r}")
    elif not callable(moment) and not isinstance(moment, str):
        raise ValueError(f"moment must be the name of a feature, or a function of all, got {moment!r}")
    if label is not None:
        known = dict.fromkeys(declared, 0)
        _ = class_of(label, known, "expire_as") if known else check_label(label, "expire_as")
    return Patience(after, NOTHING if label is None else label, moment)


class LateRounds(Restored, Generic[T]):
    """A wrapper that has at most one open round, that of the features it was asked about last.

    When it is asked about others, the open round waits. A label settles the oldest round that waits for equal
    features, or that of its token, which stands for the features then. A subclass calls `_open` before it
    forecasts, or does the same itself where a call costs too much.
    """

    # of the class until they are needed: with more than 30 attributes each instance takes much more room
    _patience: Patience | None = None
    _now: Any = None
    """The latest moment of any forecast, where patience is limited."""
    _here: T | None = None
    """The forecast of the open round, where it is not kept elsewhere."""
    _is_empty = False
    """Whether nothing was forecast in the open round: its answer was empty."""
    _n_withdrawn = 0
    _n_expired = 0
    _settled: Any = NOTHING
    """What was asked about in the round that was settled last."""
    _missed: Missed | None = None
    _has_warned_of_silence = False
    _asks: ClassVar[str] = "predict_proba_one"
    """The method that opens a round."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = check_count(most_waiting, "most_waiting")
        self.n_rounds = 0
        self.n_unmatched = 0
        self._pending = Pending(self.most_waiting)
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
        LabelWarning says so once, unless nothing has been forecast yet. What the model raises passes through:
        the forecast then stays open.

        Raises ValueError, and learns nothing, for a y that is none, for a weight w, which would reach the
        model alone, and for the second label running that comes right after a question, with the same names
        of features and other values: something in front of this wrapper has changed them in between.
        """
        if kwargs:
            refuse_weight(kwargs)
        self._learn(x, x, y, kwargs)

    def warm_up(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Let the model, and what is learnt of it, learn a row that nobody was given a forecast for.

        It settles nothing, even if a forecast waits for equal features, and is counted in `n_unmatched`. The
        keywords are for the wrapped model. Raises ValueError, and learns nothing, as `learn_one` does for y
        and for a weight.
        """
        refuse_weight(kwargs)
        read = self._read(y)
        said = self._says(x)
        self._teach(x, y, kwargs)
        self.n_unmatched += 1
        self._learn_alone(said, read)

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
            found = self._taken_out()
        else:
            place, found = self._pending.find(forecast)
            if place is not None:
                self._pending.remove(place)
        if found is not None:
            self._give_up(found)
        self._tokens.close(forecast)
        self._n_withdrawn += 1

    @property
    def n_open(self) -> int:
        """How many forecasts wait for their label."""
        return len(self._pending) + (self._features is not NOTHING)

    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        """Settle the forecast that was asked for with these features or this token, let the model learn x.

        The model learns first: if it cannot, nothing has happened.
        """
        if self._patience is not None and self._keeps(asked, y, kwargs):
            return
        read = self._read(y)
        # what follows says of most labels, in fewer calls
        if asked is self._features and not self._is_empty:
            self._teach(x, y, kwargs)
            self._settle(read)
            self._features, self._settled = NOTHING, asked
            self.n_rounds += 1
            return
        place, forecast = (None, None) if asked is self._features else self._pending.find(asked)
        if place is None or forecast is None:
            is_here = place is None and self._is_open(asked)
            if not is_here or self._is_empty:
                self._learn_unasked(asked, x, y, read, kwargs, place, is_here)
                return
            self._teach(x, y, kwargs)
        else:
            self._teach(x, y, kwargs)
            # taken first: what is put aside must not push it out
            self._pending.remove(place)
            self._bring_back(forecast)
        self._settle(read)
        self._features, self._settled = NOTHING, asked
        self.n_rounds += 1

    def _learn_unasked(
        self, asked: Any, x: Any, y: Any, read: Any, kwargs: dict[str, Any], place: int | None, is_here: bool
    ) -> None:
        """Let the model learn a label that settles nothing: nobody asked, or the answer was empty."""
        is_asked = place is not None or is_here
        if not is_asked:
            self._refuse_changed_features(asked)
            self._remark_on_miss(asked)
        # when the answer was empty the model had nothing to say
        said = None if is_asked else self._says(x)
        self._teach(x, y, kwargs)
        if place is not None:
            self._pending.remove(place)
        elif is_here:
            self._taken_out()
        self.n_unmatched += 1
        self._learn_alone(said, read)

    def _keeps(self, asked: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        """Keep a label until its forecast is due; whether it is kept."""
        return False

    @abstractmethod
    def _read(self, y: Any) -> Any:
        """What a label or target is to `_settle`; ValueError if it is none. Nothing is noted of it yet."""

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

    def _says(self, x: Any) -> Any:
        """What the model says now of features that no forecast waits for."""

    def _learn_alone(self, said: Any, read: Any) -> None:
        """Learn what there is to learn from a label without its forecast, and from what the model said.

        None: it said nothing.
        """

    @abstractmethod
    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        """Let the model learn."""

    def _give_up(self, forecast: T) -> None:
        """A forecast that waited will never be settled."""

    def _note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""

    def _put_aside(self) -> None:
        """Let the open round, if there is one, wait for a late label."""
        if self._features is not NOTHING:
            forecast = None if self._is_empty else self._take()
            given_up = self._pending.add(self._features, forecast, self._now)
            self._features, self._is_empty = NOTHING, False
            if given_up is not None:
                self._give_up(given_up)

    def _taken_out(self) -> T | None:
        """The forecast of the open round, which is open no longer; None if nothing was forecast."""
        forecast = None if self._is_empty else self._take()
        self._features, self._is_empty = NOTHING, False
        return forecast

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
        if waiting > self._most_open:
            # what begins later is told when the first forecast that waited comes back
            self._most_open = waiting
            self._note_late(waiting)
            if waiting == MANY_WAITING:
                self._remark_on_silence()

    def _is_open(self, x: Any) -> bool:
        """Whether the open round is for such features."""
        return x is self._features or features_key(x) == features_key(self._features)

    def _bring_back(self, forecast: T) -> None:
        """Put a forecast that waited in its place, to be settled now."""
        self._put_aside()
        self._note_late(self._most_open)
        self._present(forecast)

    def _asks_again(self, rows: list[Any]) -> bool:
        """Whether there are rows among these that no forecast waits for."""
        needed = Counter(map(features_key, rows))
        if self._features is not NOTHING:
            needed[features_key(self._features)] -= 1
        return any(number > self._pending.how_many(key) for key, number in needed.items())

    def _note_batch(self) -> None:
        """Count a batch of labels as one, as regards whether the next label is missed, too."""
        if self._missed is not None and self._missed.n_rounds == self.n_rounds:
            self._missed = self._missed._replace(n_unmatched=self.n_unmatched - 1)

    def _refuse_changed_features(self, asked: Any) -> None:
        """ValueError for the second label running that comes after a question with other values.

        A row that nobody asked about may be learnt at any time, to warm up. But who asks and then brings a
        label for other values of the same features, twice running, means the rows that were asked about.
        """
        question, last = self._features, self._missed
        if not isinstance(asked, Mapping) or not isinstance(question, Mapping) or set(asked) != set(question):
            return
        if self._pending.n_given_up or self._n_expired or self._n_withdrawn or _has_nan(asked):
            return  # whose labels may come as well; and what is missing is remarked on
        if last is not None and features_key(last.question) == features_key(question):
            return  # a label came in between, or one looks again and again at the same features
        now = Missed(question, asked, self.n_rounds, self.n_unmatched)
        if last is not None and now.comes_after(last):
            raise ValueError(
                "x must have the features that were asked about, got others under the same names, twice "
                "running: something in front of this wrapper, such as a scaler, learns between the question "
                f"and the label. Put the wrapper around the whole pipeline: {type(self).__name__}(scaler | "
                "model); or ask by forecast and settle by observe. Rows that were not asked about are learnt "
                "by warm_up"
            )
        self._missed = now

    def _remark_on_miss(self, asked: Any) -> None:
        """Say once that a label came that no forecast waits for, unless nothing has been forecast yet."""
        given_up = self._pending.n_given_up
        if self._has_warned or not (self.n_rounds or self.n_open or given_up):
            return
        self._has_warned = True
        if self._settled is not NOTHING and features_key(asked) == features_key(self._settled):
            text = (
                "a label came once more for a round that it has settled: the model learns it again, and it "
                "settles nothing (n_unmatched counts such labels). An ensemble that learns rows several "
                "times, as river's BaggingClassifier, goes inside: "
                f"{type(self).__name__}(BaggingClassifier(model))"
            )
        else:
            missing = " (a NaN equals no other: None does)" if _has_nan(asked) else ""
            limit = f"; {given_up:,} were given up, since more than most_waiting={self.most_waiting:,} waited"
            text = (
                "a label came for features that no forecast waits for: the model learns it, but it settles "
                "nothing, and no certificate speaks of it (n_unmatched counts such labels). Ask before each "
                f"label, with equal features{missing}, or by tokens (forecast, observe)"
                f"{limit if given_up else ''}"
            )
        warn_of([text])

    def _remark_on_silence(self) -> None:
        """Say once that many forecasts wait, if no label has come at all."""
        if self._has_warned_of_silence or self.n_rounds or self.n_unmatched:
            return
        self._has_warned_of_silence = True
        text = (
            f"{MANY_WAITING} forecasts wait for their labels, and no label has come yet: each takes memory, "
            "and the guarantee grows with their number. Give the labels to learn_one when they come; "
            "most_waiting= and expire_after= limit how many wait. Who only wants to know what would be said "
            "asks a copy"
        )
        warn_of([text])


class Missed(NamedTuple):
    """A label that came right after a question, for other values of its features."""

    question: Any
    asked: Any
    """The features of the label."""
    n_rounds: int
    n_unmatched: int
    """So many rounds and labels without a forecast there were before."""

    def comes_after(self, last: Missed) -> bool:
        """Whether it is the next label after that one.

        A question about the row that was just learnt only looks at what has been learnt.
        """
        return (self.n_rounds, self.n_unmatched) == (last.n_rounds, last.n_unmatched + 1) and features_key(
            self.question
        ) != features_key(last.asked)


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
    """Lists, mappings, sets and arrays as what can be hashed, equal where they are."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return isinstance(value, list), *map(_frozen, value)
    if isinstance(value, np.ndarray):
        return value.shape, *map(_frozen, value.ravel().tolist())
    return frozenset(value) if isinstance(value, set) else value


def _has_nan(x: Any) -> bool:
    """Whether a feature is NaN, which equals no other: only the object itself finds its forecast again."""
    return isinstance(x, Mapping) and any(isinstance(one, float) and one != one for one in x.values())
