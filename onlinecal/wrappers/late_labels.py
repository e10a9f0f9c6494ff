"""Rounds: a forecast is given, waits for its label if that is late, and is settled by it.

A forecast goes through these states:

    open      it was asked for last: `_features` has what it was asked for, and the subclass has the forecast
    waiting   another one was asked for since: it was put aside (`_put_aside`), and `_waiting` has it
    settled   its label has come, or what silence means: charged, and counted in `n_rounds`
    given up  withdrawn, expired without a label, or pushed out by more than `most_waiting`: never charged

At most one is open. A label that settles a waiting one has it brought back first (`_bring_back`), so that a
subclass charges the round that is in its own place, and no other. An answer that names no probability opens a
round with nothing to settle (`_is_empty`).

For a label the order is: the label is read and may be refused; the model learns; the forecast is taken from
where it waits, and settled. Whatever is refused, or raised by the model, comes before any forecast, count or
label has changed here; only remarks are noted earlier (`unasked.py`). For a label that no forecast waits for,
the model is asked before it learns. Where silence has a meaning a label only waits with its forecast, and
this order is gone through when that is due (`expiry.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from onlinecal.html import Shown
from onlinecal.restoring import Restored
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label, refuse_weight
from onlinecal.wrappers.unasked import MANY_WAITING, UnaskedLabels
from onlinecal.wrappers.waiting import NOTHING, WaitingForecasts, features_key

T = TypeVar("T")

MOST_WAITING = 1_000_000
"""So many forecasts may wait by default. One takes 1.1 KB for two labels, 3.4 KB for ten one by one."""


@dataclass(frozen=True, slots=True)
class WrappedForecast(Shown):
    """The token of a forecast: a wrapper's `forecast` returns it, and its `observe` takes it with the label.

    It never changes; two are equal if they have the same serial and issuer.

    Attributes
    ----------
    answer
        The forecast: of classifiers a dict of probabilities by label, of CalibratedRegressor the mean, of
        CalibratedDistribution a dict of probabilities by threshold.
    features
        The features that it was made for; the model learns them with the label.
    serial
        How many tokens the wrapper had issued before this one.
    issuer
        A random name of the wrapper that issued it, drawn with its first token. Copies that are made after
        that have the same name, and cannot tell its later tokens from their own.
    """

    answer: Any = field(compare=False)
    features: Any = field(compare=False, repr=False)
    serial: int
    issuer: str


class LateRounds(UnaskedLabels, Restored, Generic[T]):
    """A wrapper with at most one open round: that of the features which it was asked about last.

    When it is asked about others, the open round waits (`_put_aside`). A label settles the open round or one
    that waits, which is put back in its place before (`_bring_back`). A token stands for the features of its
    round. A subclass calls `_open` before it forecasts; it says how a round is charged (`_settle`), taken
    out to wait (`_take`) and put back (`_present`).

    The fields here are written here and in `expiry`; `CalibratedClassifier`, which repeats `_open` in place,
    writes `_features`, too. A subclass may write two of them: `_is_empty` when it is asked, and `_here`, if
    it keeps its forecast there, when it is asked and when it settles.
    """

    # of the class until they are needed: with more than 30 attributes each instance takes much more room
    _here: T | None = None
    """The forecast of the open round, where it is not kept elsewhere."""
    _is_empty = False
    """Whether nothing was forecast in the open round: its answer was empty."""
    _n_withdrawn = 0
    _keeps_labels = False
    """Whether labels wait until their forecasts are due, see `expiry`."""
    _asks: ClassVar[str] = "predict_proba_one"
    """The method that opens a round."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = check_count(most_waiting, "most_waiting")
        self.n_rounds = 0
        self.n_unmatched = 0
        self._waiting = WaitingForecasts(WrappedForecast, self.most_waiting)
        self._features: Any = NOTHING
        """The features, or the token, of the open round; NOTHING while there is none."""
        self._most_open = 0
        """How many forecasts have waited at once while another was made."""

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Learn the label, or target, y of the features x: settle their forecast, and let the model learn.

        The forecast is the one that was given last, if it was for this very object x, else the oldest that
        waits for features equal to x; those of `forecast` are settled by `observe` alone. If none waits, y
        settles nothing: the model learns it, `n_unmatched` grows by 1, and a LabelWarning says so once,
        unless nothing has been forecast yet. With `expire_as` (of CalibratedClassifier) y waits with its
        forecast until the forecast's time is over, and only then settles it and is learnt. Keywords go to the
        wrapped model. What the model raises passes through, and the forecast stays open.

        Raises ValueError, and learns nothing, if y is no label, of regressors no number that the target can
        be; if there is a weight w other than 1, which the model alone would learn of; and if for the second
        time running the label that comes next after a question is for features with the same names and other
        values: then something in front of this wrapper, as a scaler, changes them in between.
        """
        if kwargs:
            refuse_weight(kwargs)
        self._learn(x, x, y, kwargs)

    def warm_up(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Let the model learn a row that nobody was given a forecast for, as before the stream begins.

        What the wrapper itself learns of the model's answers, it learns from the row, too. No forecast is
        settled, even if one waits for features equal to x; `n_unmatched` grows by 1. Keywords go to the
        wrapped model. Raises ValueError, and learns nothing, if y is no label, of regressors no number that
        the target can be, or if there is a weight w other than 1.
        """
        refuse_weight(kwargs)
        read = self._read(y)
        said = self._says(x)
        self._teach(x, y, kwargs)
        self.n_unmatched += 1
        self._learn_alone(said, read)

    def forecast(self, x: Any, **kwargs: Any) -> WrappedForecast:
        """Make a forecast for the features x, and return it in a token by which its label finds it later.

        The token's `answer` is what `predict_proba_one` would answer, of CalibratedRegressor `predict_one`,
        of CalibratedDistribution `predict_distribution_one`; errors are the same. Each call opens a round of
        its own, also for features that were asked about before, which stays open until `observe` gets the
        token with the label, or `withdraw` gets the token. The model learns nothing. Keywords go to the
        wrapped model.
        """
        self._leave_round()
        answer = getattr(self, self._asks)(x, **kwargs)
        self._features = token = WrappedForecast(answer, x, *self._waiting.issue())
        return token

    def observe(self, forecast: WrappedForecast, y: Any, **kwargs: Any) -> None:
        """Settle the forecast of a token with its label, or target, y; the model learns y, too.

        Tokens may be settled in any order, each once. If the forecast was given up, since more than
        `most_waiting` waited, the model learns y, but y settles nothing, and `n_unmatched` grows by 1. With
        `expire_as` (of CalibratedClassifier) y waits with its forecast until the forecast's time is over,
        and only then settles it and is learnt. Keywords go to the wrapped model.

        Raises ValueError, and learns nothing, for a token of another wrapper, or one that was settled,
        withdrawn or has expired before; for a y that is no label, of regressors no number that the target can
        be; and for a weight w other than 1. What the model raises passes through, and the forecast stays
        open.
        """
        if kwargs:
            refuse_weight(kwargs)
        self._waiting.check(forecast)
        self._learn(forecast, forecast.features, y, kwargs)
        self._waiting.close(forecast)

    def withdraw(self, forecast: WrappedForecast) -> None:
        """Give up the forecast of a token, whose label will never be known: it never counts as a round.

        No certificate counts it, and the model learns nothing. Raises ValueError, and changes nothing, for a
        token of another wrapper, and for one that was settled, withdrawn or has expired before.
        """
        self._waiting.check(forecast)
        if self._is_open(forecast):
            kept = self._taken_out()
        else:
            place, kept = self._waiting.find(forecast)
            if place is not None:
                self._waiting.remove(place)
        if kept is not None:
            self._give_up(kept)
        self._waiting.close(forecast)
        self._n_withdrawn += 1

    @property
    def n_open(self) -> int:
        """How many rounds wait for their label, or target, the one that was asked about last included.

        With `expire_as` (of CalibratedClassifier) those count, too, whose label has come but whose time is
        not over; and so do questions that got an empty answer. Forecasts that were given up do not count.
        """
        return len(self._waiting) + (self._features is not NOTHING)

    def _learn(self, asked: Any, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        """Settle the forecast that was asked for with these features or this token, let the model learn x.

        The model learns first: if it cannot, nothing has happened.
        """
        if self._keeps_labels and self._keeps(asked, y, kwargs):
            return
        read = self._read(y)
        place: int | None = None
        forecast: Any = None
        is_here = asked is self._features
        if not is_here:
            place, forecast = self._waiting.find(asked)
            is_here = place is None and self._is_open(asked)
        if self._is_empty if is_here else forecast is None:
            self._learn_unasked(asked, x, y, read, kwargs, place, is_here)
            return
        self._teach(x, y, kwargs)
        if place is not None:
            # taken first: what is put aside must not push it out
            self._waiting.remove(place)
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
            self._waiting.remove(place)
        elif is_here:
            self._taken_out()
        self.n_unmatched += 1
        self._learn_alone(said, read)

    def _keeps(self, asked: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        """Keep a label until its forecast is due; whether it is kept."""
        return False

    @abstractmethod
    def _read(self, y: Any) -> Any:
        """A label or target as `_settle` takes it; ValueError if it is none. Nothing is noted of it yet."""

    def _take(self) -> T | None:
        """The forecast of the round that is here, to wait for its label; None if nothing was forecast."""
        forecast, self._here = self._here, None
        return forecast

    def _present(self, forecast: T) -> None:
        """Put a forecast that waited back in its place."""
        self._here = forecast

    @abstractmethod
    def _settle(self, read: Any) -> None:
        """Charge the round that is here."""

    def _says(self, x: Any) -> Any:
        """What the model says now of features that no forecast waits for."""

    def _learn_alone(self, said: Any, read: Any) -> None:
        """Learn from a label without its forecast, and from what the model said, None for nothing."""

    @abstractmethod
    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        """Let the model learn."""

    def _give_up(self, forecast: T) -> None:
        """Note that a forecast that waited will never be settled."""

    def _note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""

    def _put_aside(self) -> None:
        """Let the open round wait for a late label, if there is one."""
        if self._features is not NOTHING:
            forecast = None if self._is_empty else self._take()
            given_up = self._waiting.add(self._features, forecast)
            self._features, self._is_empty = NOTHING, False
            if given_up is not None:
                self._give_up(given_up)

    def _taken_out(self) -> T | None:
        """The forecast of the open round, which is open no longer; None if nothing was forecast."""
        forecast = None if self._is_empty else self._take()
        self._features, self._is_empty = NOTHING, False
        return forecast

    def _ask_unless_open(self, x: Any) -> None:
        """Ask about features, unless the open round is for this very object; ValueError for another token."""
        # to ask again would be another forecast than the one that was given
        is_token = isinstance(x, WrappedForecast)
        if x is self._features or (is_token and x == self._features):
            return
        if is_token:
            raise ValueError(
                "x must be features, or the token of the forecast that was made last and has no label yet, "
                f"got the token with serial={x.serial}: ask right after forecast"
            )
        getattr(self, self._asks)(x)

    def _open(self, x: Any) -> None:
        """Begin a round of these features, unless it is the open one."""
        if x is not self._features:
            if self._features is not NOTHING:
                self._make_way()
            self._features = x

    def _leave_round(self) -> None:
        """Let the open round wait, before `forecast` opens another one."""
        self._make_way()

    def _make_way(self) -> None:
        """Let the open round wait, since another one is about to be opened."""
        self._put_aside()
        waiting = len(self._waiting)
        if waiting > self._most_open:
            # forecasters that begin later are told by `_bring_back`
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
        return any(number > self._waiting.how_many(key) for key, number in needed.items())


class RoundsOfOneLabel(LateRounds[T]):
    """Rounds that are forecast for one label: `_here` has this label, `event`, and its `probability`."""

    def certified_proba_one(self, x: Any) -> dict[Label, float]:
        """What is certified of the answer for x: {positive label: its probability}.

        The positive label is the second of `classes`; else True, or 1, or the greater of two numbers, or the
        first label that came. Of an answer with one label alone it is that one, of an empty answer none.

        It is of the answer that was given last, if that was for this very object x and waits for its label;
        for an answer of `forecast` give its token in place of x. Else `predict_proba_one(x)` is called first,
        which opens a round, and whose errors are raised. Raises ValueError for any other token.
        """
        self._ask_unless_open(x)
        here: Any = self._here
        return {} if here is None else {here.event: here.probability}
