"""What a batch of events comes to: an answer for each, and the rows that the ledger gets.

An event is judged by what is known of its id: from the ledger, from the keys in memory, and from the events
before it in the same batch. Only accepted events change anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from onlinecal.engine.events import (
    Answer,
    Forecast,
    Incoming,
    Outcome,
    Query,
    Rejected,
    Settled,
    Withdraw,
    Withdrawn,
    problem_of,
)
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.ledger.schema import Record, stored, stored_outcome

Asked = tuple[Query, KeyState, Any, Issued]
"""A query of this batch, its key, its hint as it is kept, and the forecast."""

Row = tuple[int, int, Any, float | None]
"""A closing as the ledger keeps it: its number, that of the query, the value, the time."""


class Batch:
    """Judges events one after the other; `number` and `keys_known` count on from those of the ledger."""

    def __init__(self, keys: KeyCache, records: dict[str, Record], number: int, keys_known: int) -> None:
        self.keys, self.records = keys, records
        self.number, self.keys_known = number, keys_known
        self.created: list[tuple[int, str, int]] = []
        self.asked: dict[str, Asked] = {}
        self.closed: dict[str, tuple[Row, str]] = {}

    def judge(self, event: Incoming | Rejected) -> Answer | Asked:
        """The answer to an event; that of a new query is known when the keys have run."""
        if isinstance(event, Rejected):
            return event
        problem = problem_of(event)
        if problem is not None:
            return refuse(event, "invalid", problem)
        if event.time is not None and type(event.time) is not float:
            # as it will be kept: two integers beyond 2^53 may be one time
            event = structs.replace(event, time=float(event.time))
        return self._query(event) if isinstance(event, Query) else self._closing(event)

    def asked_before(self, id: Any) -> Asked | None:
        """A query of this batch."""
        return self.asked.get(id)

    def closed_before(self, id: Any) -> tuple[Row, str] | None:
        """A closing of this batch, and the name of its key."""
        return self.closed.get(id)

    def _query(self, event: Query) -> Answer | Asked:
        asked, record = self.asked_before(event.id), self.records.get(event.id)
        state = self.keys.states.get(event.key)
        settings = state.settings if state else self.keys.settings_for(event.key)[1]
        try:
            hint = settings.kind.hint_of(event.hint)
        except ValueError as error:
            return refuse(event, "invalid", str(error))
        if asked is not None:
            given: Asked | Forecast = asked
            before = asked[0].key, asked[2], asked[0].time
        elif record is not None:
            given = Forecast(event.id, event.key, record.probability, record.certificate)
            before = record.key, record.hint, record.time
        else:
            problem = settings.problem_of_time(event.time, state.clock if state else None)
            if problem is not None:
                return refuse(event, "invalid", problem)
            return self._issue(event, hint, state or self.create(event.key))
        for name, old, new in zip(
            ("key", "hint", "time"), before, (event.key, hint, event.time), strict=True
        ):
            if old != new:
                return refuse(event, "duplicate", f"id {event.id!r} has been asked with {name} {old!r}")
        return given

    def create(self, name: str) -> KeyState:
        """A key that was never met before."""
        place, settings = self.keys.settings_for(name)
        self.keys_known += 1
        self.created.append((self.keys_known, name, place))
        return self.keys.create(name, self.keys_known, settings)

    def _issue(self, event: Query, hint: Any, state: KeyState) -> Answer | Asked:
        time = in_seconds(event.time)
        if state.is_full_at(time):
            why = "its integers bear no more rounds" if state.spent else f"{state.waiting} forecasts are open"
            return refuse(event, "full", f"key {event.key!r} takes no queries: {why}")
        self.number += 1
        issued = self.keys.ask(state, event.id, self.number, hint, time)
        self.asked[event.id] = asked = event, state, hint, issued
        return asked

    def _closing(self, event: Outcome | Withdraw) -> Answer:
        record = self.records.get(event.id)
        if record is None or record.closed is None:
            state = self.keys.open.get(event.id)
            if state is not None:
                return self._close(event, state, state.waits_for(event.id))
        closed = self.closed_before(event.id)
        if closed is None and record is not None and record.closed is not None:
            closed = (record.closed, record.number, record.value, record.closed_time), record.key
        if closed is not None:
            return self._again(event, *closed)
        key = self.keys.given_up.get(event.id) if record is None else record.key
        if key is None:
            return refuse(event, "unknown", f"no forecast was asked for with id {event.id!r}")
        try:
            self._value(event, key)
        except ValueError as error:
            return refuse(event, "invalid", str(error))
        return refuse(event, "expired", f"forecast {event.id!r} has expired")

    def _value(self, event: Outcome | Withdraw, key: str) -> Any:
        """The outcome as it is kept, None for a withdrawal; ValueError if it cannot be one of that key."""
        if event.key is not None and event.key != key:
            raise ValueError(f"key must be that of the forecast, {key!r}, got {event.key!r}")
        if isinstance(event, Withdraw):
            return None
        state = self.keys.states.get(key)
        settings = state.settings if state else self.keys.settings_for(key)[1]
        return settings.kind.outcome_of(event.value)

    def _close(self, event: Outcome | Withdraw, state: KeyState, issued: Issued) -> Answer:
        try:
            value = self._value(event, state.name)
            time = in_seconds(event.time)
            problem = state.settings.problem_of_time(time, state.clock)
            if problem is not None:
                return refuse(event, "invalid", problem)
            if state.is_over(issued, time):
                return refuse(event, "expired", f"forecast {event.id!r} has expired")
            self.keys.close(state, issued, self.number + 1, value, time)
        except ValueError as error:
            return refuse(event, "invalid", str(error))
        self.number += 1
        self.closed[event.id] = (self.number, issued.number, value, time), state.name
        return closing_answer(event)

    def _again(self, event: Outcome | Withdraw, closed: Row, key: str) -> Answer:
        """An event about a forecast that is closed: right if it is the one that closed it."""
        _, _, before, then = closed
        how = "withdrawn" if before is None else "settled"
        try:
            value = self._value(event, key)
        except ValueError as error:
            return refuse(event, "invalid", str(error))
        if (value, event.time) == (before, then):
            return closing_answer(event)
        with_value = "" if before is None else f" with value {before!r}"
        at_time = "" if then is None else f" at time {then!r}"
        return refuse(event, how, f"forecast {event.id!r} has been {how} before{with_value}{at_time}")

    def answer(self, judged: Answer | Asked) -> Answer:
        """The answer to an event that was judged, when the keys have run."""
        if isinstance(judged, tuple):
            _, state, _, issued = judged
            return Forecast(issued.id, state.name, issued.probability, issued.certificate)
        return judged

    def query_rows(self) -> Iterable[tuple[int, str, int, Any, float | None, Any, float]]:
        """The rows of the new queries."""
        return [
            (
                issued.number,
                issued.id,
                state.number,
                stored(hint),
                in_seconds(event.time),
                stored(issued.probability),
                issued.certificate,
            )
            for event, state, hint, issued in self.asked.values()
        ]

    def closing_rows(self) -> Iterable[Row]:
        """The rows of the new closings."""
        return [
            (number, query, stored_outcome(value), time)
            for (number, query, value, time), _ in self.closed.values()
        ]


def refuse(event: Incoming, reason: str, detail: str) -> Rejected:
    """The refusal of an event, under its id if that is one."""
    return Rejected(event.id if isinstance(event.id, str) else None, reason, detail)


def in_seconds(time: float | None) -> float | None:
    """A time as the ledger gives it back: 0.0 without sign."""
    return None if time is None else time + 0.0


def closing_answer(event: Outcome | Withdraw) -> Answer:
    """The answer to an event that closed a forecast."""
    return Settled(event.id) if type(event) is Outcome else Withdrawn(event.id)
