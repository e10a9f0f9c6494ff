"""Forecasts whose label does not come in time: given up, or settled by what silence means.

Time passes when a wrapper is asked: `_let_expire` sets the clock `now` to the moment of the features, never
back, and settles or gives up every forecast that has waited for longer than `Patience.after`, the oldest
first. Nothing expires in between. Where silence has no meaning, a label settles its forecast at once, as
without expiry. Where it has one (`_keeps_labels`), a label is kept with its forecast until that is due: else
early labels, which are all of one kind, would be learnt before the silence of others.

What always holds between two calls: `since` never falls from one waiting forecast to the next, so the first
one is due first. A forecast whose label is kept still waits, but is found by its token or its features no
longer. `Patience.moment_of` refuses a moment that cannot be compared with `after`, and one that lies before
`now` counts as `now`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from onlinecal.forecasters.simplex.input import check_label, class_of
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.late_labels import LateRounds, WrappedForecast
from onlinecal.wrappers.waiting import NOTHING, WaitingForecasts, features_key

T = TypeVar("T")


class Patience(NamedTuple):
    """How long forecasts wait for their labels. After that `label` settles them, or they are given up.

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
            moment = self.moment(x) if callable(self.moment) else x[self.moment]
            # no value of a feature is shown, as messages may be kept where features must not be
            got = "NaN" if moment != moment else f"one of type {type(moment).__name__}"
            _ = moment - moment > self.after  # a TypeError if these do not go together
            later = moment if now is None else max(now, moment)
        except (KeyError, TypeError) as error:
            raise self._no_moment(got, now) from error
        # a clock that showed NaN would never run again
        if moment != moment:
            raise self._no_moment(got, now)
        return later

    def _no_moment(self, got: str, now: Any) -> ValueError:
        said_by = "what moment= answers" if callable(self.moment) else f"its feature {self.moment!r}"
        before = "" if now is None else f" and like the one before, a {type(now).__name__}"
        return ValueError(
            f"x must have a moment, {said_by}, in units of expire_after={self.after!r}{before}, got {got}: "
            "give numbers, or times that all have a zone or all have none"
        )


def patience_of(after: Any, label: Label | None, moment: Any, declared: Iterable[Label]) -> Patience | None:
    """How long forecasts wait; None for ever. ValueError if these do not go together."""
    if after is None:
        for name, value in (("expire_as", label), ("moment", moment)):
            if value is not None:
                raise ValueError(f"{name}={value!r} needs expire_after, got None: give both or none")
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
        raise ValueError(
            f"moment must be the name of a feature, or a function of all features, got {moment!r}"
        )
    if label is not None:
        known = dict.fromkeys(declared, 0)
        _ = class_of(label, known, "expire_as") if known else check_label(label, "expire_as")
    return Patience(after, NOTHING if label is None else label, moment)


class Dated(NamedTuple):
    """A forecast that waits, since when, what it was asked for, and the label that has come for it."""

    key: Hashable
    forecast: Any
    since: Any
    asked: Any
    label: Any = NOTHING
    keywords: dict[str, Any] | None = None
    """Those that came with the label, for the model."""


class DatedForecasts(WaitingForecasts):
    """Forecasts that wait since a moment, and keep a label that comes before they are due."""

    now: Any = None
    """The latest moment of any forecast."""

    def _new_entry(self, key: Hashable, forecast: Any, asked: Any) -> Dated:
        return Dated(key, forecast, self.now, dict(asked) if isinstance(asked, dict) else asked)

    def note_label(self, asked: Any, label: Any, keywords: dict[str, Any], last: bool) -> bool:
        """Keep a label for the oldest forecast of this token or these features, or for the last.

        Whether there is one. It is found by them no longer.
        """
        key = asked if isinstance(asked, self._kind) else features_key(asked)
        place = self._place_of(key, last)
        if place is None:
            return False
        self._lose(key, last)
        self._waiting[place] = self._waiting[place]._replace(label=label, keywords=keywords)
        return True

    def since(self) -> Any:
        """Since when the oldest forecast waits; None if none does."""
        return self.oldest().since if self._waiting else None

    def oldest(self) -> Dated:
        """The oldest forecast."""
        oldest: Dated = next(iter(self._waiting.values()))
        return oldest

    def take_oldest(self) -> Dated:
        """The oldest forecast, which is removed."""
        if self.oldest().label is NOTHING:
            oldest: Dated = super().take_oldest()
        else:
            _, oldest = self._waiting.popitem(last=False)
        return oldest


class ExpiringRounds(LateRounds[T]):
    """Rounds that expire: they wait for their labels as long as `Patience` says, without one for ever."""

    _patience: Patience | None = None
    _n_expired = 0
    _waiting: Any

    def _limit(self, patience: Patience) -> None:
        """Let the rounds to come expire."""
        self._patience = patience
        self._waiting = DatedForecasts(WrappedForecast, self.most_waiting)
        self._keeps_labels = patience.label is not NOTHING

    def _leave_round(self) -> None:
        if self._patience is None:
            self._make_way()
        else:
            # how many wait is noted when the clock has been set, since some may be due then
            self._put_aside()

    def _let_expire(self, x: Any) -> None:
        """Before a round of these features, settle or give up forecasts that have waited for their time."""
        assert self._patience is not None
        now = self._patience.moment_of(x, self._waiting.now)
        self._put_aside()
        self._waiting.now = now
        while (since := self._waiting.since()) is not None and now - since > self._patience.after:
            self._settle_oldest()
        self._make_way()

    def _settle_oldest(self) -> None:
        """Settle the oldest forecast, whose time is over: with its label, that of silence, or not at all.

        The model learns first, as always.
        """
        assert self._patience is not None
        oldest = self._waiting.oldest()
        has_token, is_silent = isinstance(oldest.asked, WrappedForecast), oldest.label is NOTHING
        label = self._patience.label if is_silent else oldest.label
        if label is not NOTHING:
            read = self._read(label)
            x = oldest.asked.features if has_token else oldest.asked
            self._teach(x, label, oldest.keywords or {})
        self._waiting.take_oldest()
        if is_silent:
            self._n_expired += 1
            if has_token:
                self._waiting.close(oldest.asked)
        if label is NOTHING:
            if oldest.forecast is not None:
                self._give_up(oldest.forecast)
        elif oldest.forecast is None:
            self.n_unmatched += 1
            self._learn_alone(None, read)
        else:
            self._bring_back(oldest.forecast)
            self._settle(read)
            self._features = NOTHING
            self.n_rounds += 1

    def _keeps(self, asked: Any, y: Any, kwargs: dict[str, Any]) -> bool:
        self._read(y)
        is_last = asked is self._features
        if not is_last and self._waiting.note_label(asked, y, kwargs, False):
            return True
        if not self._is_open(asked):
            return False
        self._put_aside()
        return bool(self._waiting.note_label(asked, y, kwargs, is_last))

    @property
    def n_expired(self) -> int:
        """How many forecasts so far had no label when their time, `expire_after`, was over.

        They were given up, or, with `expire_as`, settled by that label. Time passes only when the wrapper is
        asked for another forecast. Without `expire_after` it is 0.
        """
        return self._n_expired
