"""A batch of events in columns: those that are as usual; the others as they are."""

from __future__ import annotations

import sys
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.engine.columns.scanning import (
    HINT,
    KEY,
    ODD,
    OUTCOME,
    QUERY,
    TIME,
    VALUE,
    scan,
)
from onlinecal.engine.events import LONGEST_NAME, Incoming, Outcome, Query, Rejected, decode, decode_lines

FEW = 12
"""So many events are judged as fast one by one."""
LATEST = sys.float_info.max
"""Times are finite."""


class Columns:
    """Events with ids and keys of printable characters, finite times, hints in [0, 1] and outcomes 0 and 1.

    Attributes
    ----------
    kinds
        QUERY, OUTCOME, or ODD where an event is other than that; (n,).
    ids, keys
        Its texts; a key is None where an outcome has none. Not to be read where it is odd.
    hints, times
        NaN where there is none, zeros without sign; (n,).
    values
        Of outcomes; (n,).
    keyed
        Whether it is an outcome that names a key; (n,).
    """

    kinds: NDArray[np.int8]
    ids: list[str]
    keys: list[Any]
    hints: NDArray[np.float64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]
    keyed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kinds)

    def event(self, i: int) -> Incoming | Rejected:
        """The event itself, or what is wrong with it."""
        raise NotImplementedError

    def events(self) -> list[Incoming | Rejected]:
        """All events."""
        return [self.event(i) for i in range(len(self))]


class LineColumns(Columns):
    """Complete lines of JSON, `data`, read in one pass."""

    def __init__(self, data: bytes) -> None:
        n = data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0)
        self._events: dict[int, Incoming | Rejected] = {}
        self.data, self.bytes = data, np.frombuffer(data, np.uint8)
        self.lines, self.spans = np.empty((n, 2), np.int64), np.empty((n, 4), np.int64)
        self.kinds, numbers = np.empty(n, np.int8), np.empty((n, 3))
        scan(self.bytes, self.lines, self.kinds, self.spans, numbers)
        self.hints, self.values, self.times = numbers[:, HINT], numbers[:, VALUE], numbers[:, TIME]
        self.keyed = (self.kinds == OUTCOME) & (self.spans[:, KEY + 1] > 0)
        # what is read of it is ASCII
        text = data.decode("latin-1")
        starts, ends, key_starts, key_ends = self.spans.T.tolist()
        self.ids = [text[start:end] for start, end in zip(starts, ends, strict=True)]
        self.keys = [
            text[start:end] if end else None for start, end in zip(key_starts, key_ends, strict=True)
        ]

    def event(self, i: int) -> Incoming | Rejected:
        """What `decode` makes of the line."""
        found = self._events.get(i)
        if found is None:
            start, end = self.lines[i].tolist()
            found = self._events[i] = decode(self.data[start:end])
        return found


class EventColumns(Columns):
    """Events that are there already; there are no columns of few."""

    def __init__(self, events: list[Incoming | Rejected]) -> None:
        self._events, n = events, len(events)
        if n < FEW:
            return
        self.kinds = np.array([kind_of(event) for event in events], np.int8)
        self.ids = [event.id for event in events]  # type: ignore[misc]
        self.keys = [None if type(event) is Rejected else event.key for event in events]  # type: ignore
        times = [
            None if kind == ODD else event.time  # type: ignore[union-attr]
            for kind, event in zip(self.kinds.tolist(), events, strict=True)
        ]
        self.times = np.array(times, np.float64) + 0.0
        named = [key is not None for key in self.keys]
        self.keyed = (self.kinds == OUTCOME) & np.array(named, np.bool_)
        self.hints, self.values = np.full(n, np.nan), np.full(n, np.nan)
        asks, tells = np.flatnonzero(self.kinds == QUERY), np.flatnonzero(self.kinds == OUTCOME)
        hints: Any = [events[i].hint for i in asks.tolist()]  # type: ignore[union-attr]
        self.hints[asks] = np.array(hints, np.float64) + 0.0
        self.values[tells] = [events[i].value for i in tells.tolist()]  # type: ignore[union-attr]

    def __len__(self) -> int:
        return len(self._events)

    def event(self, i: int) -> Incoming | Rejected:
        """The event itself."""
        return self._events[i]

    def events(self) -> list[Incoming | Rejected]:
        """All events."""
        return self._events


def columns_of(data: bytes) -> Columns:
    """Complete lines of JSON."""
    if data.count(b"\n") < FEW:
        return EventColumns(decode_lines(data))
    return LineColumns(data)


def kind_of(event: Any) -> int:
    """QUERY or OUTCOME if an event is as usual, else ODD."""
    kind = type(event)
    if kind is Rejected:
        return ODD
    id, key, time = event.id, event.key, event.time
    if not (
        (time is None or (type(time) is float and -LATEST <= time <= LATEST))
        and type(id) is str
        and 0 < len(id) <= LONGEST_NAME
        and id.isprintable()
    ):
        return ODD
    if kind is Query:
        if not (type(key) is str and 0 < len(key) <= LONGEST_NAME and key.isprintable()):
            return ODD
        hint = event.hint
        return QUERY if hint is None or (type(hint) is float and 0.0 <= hint <= 1.0) else ODD
    if kind is Outcome and (key is None or type(key) is str):
        value = event.value
        return OUTCOME if type(value) is int and 0 <= value <= 1 else ODD
    return ODD


def optional(numbers: Any) -> list[float | None]:
    """Numbers, None for NaN."""
    if np.isnan(numbers).any():
        return [None if one != one else one for one in numbers.tolist()]
    found: list[float | None] = numbers.tolist()
    return found


def picked(places: list[int]) -> Any:
    """What takes the things at some places of a sequence."""
    if len(places) == 1:
        [place] = places
        return lambda things: (things[place],)
    return itemgetter(*places)
