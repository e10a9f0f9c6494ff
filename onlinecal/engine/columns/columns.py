"""A batch of events in columns: those that are as usual; the others as they are."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes
from onlinecal.engine.columns.scanning import HINT, ODD, OUTCOME, QUERY, TIME, VALUE, cut_out, scan
from onlinecal.engine.columns.texts import joined
from onlinecal.engine.events import LONGEST_NAME, Incoming, Outcome, Query, Rejected, decode, decode_lines

FEW = 40
"""So many events are judged as fast one by one."""
LATEST = sys.float_info.max
"""Times are finite."""


class Columns:
    """Events with ids and keys of printable ASCII, finite times, hints in [0, 1] and outcomes 0 and 1.

    Attributes
    ----------
    kinds
        QUERY, OUTCOME, or ODD where an event is other than that; (n,).
    data, spans
        Where its texts are, id and key, as `scan` has it; (n, 4).
    hints, times
        NaN where there is none, zeros without sign; (n,).
    values
        Of outcomes; (n,).
    """

    kinds: NDArray[np.int8]
    bytes: Bytes
    spans: NDArray[np.int64]
    hints: NDArray[np.float64]
    values: NDArray[np.float64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.kinds)

    def event(self, i: int) -> Incoming | Rejected:
        """The event itself, or what is wrong with it."""
        raise NotImplementedError

    def texts(self, which: NDArray[np.int64], column: int) -> list[str]:
        """The ids (`ID`) or keys (`KEY`) of some events that are not odd."""
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
        self.hints, self.values, self.times = (numbers[:, i].copy() for i in (HINT, VALUE, TIME))

    def texts(self, which: NDArray[np.int64], column: int) -> list[str]:
        """Cut out of the lines, in which no text has a newline."""
        spans = self.spans[which, column : column + 2]
        out = np.empty(int((spans[:, 1] - spans[:, 0]).sum()) + len(spans), np.uint8)
        cut_out(self.bytes, spans, out)
        return out.tobytes().decode("ascii").split("\n")[:-1]

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
        usual = (self.kinds != ODD).tolist()
        self._texts: list[list[str]] = [
            [getattr(event, name) or "" if one else "" for one, event in zip(usual, events, strict=True)]
            for name in ("id", "key")
        ]
        self.bytes, spans = joined([*self._texts[0], *self._texts[1]])
        self.spans = np.hstack([spans[:n], np.where(spans[n:, :1] < spans[n:, 1:], spans[n:], 0)])
        times = [
            None if kind == ODD else event.time  # type: ignore[union-attr]
            for kind, event in zip(self.kinds.tolist(), events, strict=True)
        ]
        self.times = np.array(times, np.float64) + 0.0
        self.hints, self.values = np.full(n, np.nan), np.full(n, np.nan)
        asks, tells = np.flatnonzero(self.kinds == QUERY), np.flatnonzero(self.kinds == OUTCOME)
        hints: Any = [events[i].hint for i in asks.tolist()]  # type: ignore[union-attr]
        self.hints[asks] = np.array(hints, np.float64) + 0.0
        values: Any = [events[i].value for i in tells.tolist()]  # type: ignore[union-attr]
        self.values[tells] = values

    def __len__(self) -> int:
        return len(self._events)

    def texts(self, which: NDArray[np.int64], column: int) -> list[str]:
        """Those of the events."""
        texts = self._texts[column // 2]
        return [texts[i] for i in which.tolist()]

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
        and is_plain(id)
        and (is_plain(key) or (key is None and kind is Outcome))
    ):
        return ODD
    if kind is Query:
        hint = event.hint
        return QUERY if hint is None or (type(hint) is float and 0.0 <= hint <= 1.0) else ODD
    if kind is Outcome:
        value = event.value
        return OUTCOME if type(value) is int and 0 <= value <= 1 else ODD
    return ODD


def is_plain(name: Any) -> bool:
    """Whether a name is one whose bytes are its characters."""
    return type(name) is str and 0 < len(name) <= LONGEST_NAME and name.isascii() and name.isprintable()


def optional(numbers: Any) -> list[float | None]:
    """Numbers, None for NaN."""
    if np.isnan(numbers).any():
        return [None if one != one else one for one in numbers.tolist()]
    found: list[float | None] = numbers.tolist()
    return found
