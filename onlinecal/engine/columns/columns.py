"""A batch of events in columns. Events come as lines, which compiled code mostly reads, or as objects."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.engine.columns.scanning import HINT, ID, KEY, OTHER, OUTCOME, QUERY, TIME, VALUE, cut_out, scan
from onlinecal.engine.events import Incoming, Outcome, Query, Rejected, decode, decode_lines, problem_of

FEW_EVENTS = 16
"""Fewer events than these are handled one by one, without arrays, which is as fast."""
WITHDRAW, REFUSED = 3, 4
"""Kinds of events besides `scanning.QUERY` and `scanning.OUTCOME`."""


Column = Floats | list[float]


class Columns:
    """Events whose ids, keys and times are checked; hints and outcomes may still be wrong.

    Attributes
    ----------
    kinds
        QUERY, OUTCOME, WITHDRAW or REFUSED, a byte each, which numpy reads without a copy; (n,).
    ids, keys
        As they came; "" for a key that was not given.
    hints, values, times
        Probabilities, outcomes 0 and 1, and seconds; NaN where there is none, never -0.0; (n,). Each is an
        array, or for less than FEW_EVENTS events a list.
    unusual
        Hints and outcomes that are no such numbers, as they came, by event.
    refusals
        The answers to REFUSED events, by event.
    """

    def __init__(
        self, kinds: bytearray, ids: list[str], keys: list[str], hints: Column, values: Column, times: Column
    ) -> None:
        self.kinds, self.ids, self.keys = kinds, ids, keys
        self.hints, self.values, self.times = hints, values, times
        self.unusual: dict[int, Any] = {}
        self.refusals: dict[int, Rejected] = {}

    def __len__(self) -> int:
        return len(self.kinds)

    def put(self, i: int, event: Incoming | Rejected) -> None:
        """Write an event, or a refusal, into row i."""
        if not isinstance(event, Rejected):
            problem = problem_of(event)
            if problem is None:
                self._put(i, event)
                return
            event = Rejected(event.id if isinstance(event.id, str) else None, "invalid", problem)
        self.kinds[i], self.refusals[i] = REFUSED, event

    def _put(self, i: int, event: Incoming) -> None:
        self.ids[i], self.keys[i] = event.id, event.key or ""
        self.times[i] = nan if event.time is None else float(event.time) + 0.0
        if isinstance(event, Query):
            self.kinds[i], hint = QUERY, event.hint
            if type(hint) is float and 0.0 <= hint <= 1.0:
                self.hints[i] = hint + 0.0
            elif hint is not None:
                self.unusual[i] = hint
        elif isinstance(event, Outcome):
            self.kinds[i], value = OUTCOME, event.value
            if type(value) is int and 0 <= value <= 1:
                self.values[i] = value
            else:
                self.unusual[i] = value
        else:
            self.kinds[i] = WITHDRAW

    def refuse(self, i: int, reason: str, detail: str) -> None:
        """Refuse the event i."""
        self.kinds[i], self.refusals[i] = REFUSED, Rejected(self.ids[i], reason, detail)

    def time(self, i: int) -> float | None:
        """The time of an event; None if it has none."""
        time = float(self.times[i])
        return time if time == time else None

    def hint(self, i: int) -> Any:
        """The hint of a query, as it came; None if it has none."""
        if i in self.unusual:
            return self.unusual[i]
        hint = float(self.hints[i])
        return hint if hint == hint else None

    def value(self, i: int) -> Any:
        """The value of an outcome, as it came."""
        return self.unusual[i] if i in self.unusual else int(self.values[i])


def empty_columns(n: int) -> Columns:
    """Columns for so many events, all still to be written."""
    # a short list takes less time than an array
    hints, values, times = ([nan] * n for _ in range(3)) if n < FEW_EVENTS else np.full((3, n), nan)
    return Columns(bytearray([REFUSED] * n), [""] * n, [""] * n, hints, values, times)


def columns_of_events(events: Iterable[Incoming | Rejected]) -> Columns:
    """The columns of events, and of refusals of what could not be read."""
    listed = list(events)
    columns = empty_columns(len(listed))
    for i, event in enumerate(listed):
        columns.put(i, event)
    return columns


def columns_of_lines(data: bytes) -> Columns:
    """The columns of complete lines of JSON."""
    n = data.count(b"\n") + (not data.endswith(b"\n") and len(data) > 0)
    if n < FEW_EVENTS:
        return columns_of_events(decode_lines(data))
    source = np.frombuffer(data, np.uint8)
    lines, spans, kinds, numbers = (
        np.empty((n, 2), np.int64),
        np.empty((n, 4), np.int64),
        np.empty(n, np.int8),
        np.empty((n, 3)),
    )
    scan(source, lines, kinds, spans, numbers)
    hints, values, times = (numbers[:, i].copy() for i in (HINT, VALUE, TIME))
    other = np.flatnonzero(kinds == OTHER)
    spans[other], numbers[other] = 0, nan
    columns = Columns(
        bytearray(kinds), texts_in(source, spans[:, ID : ID + 2]), texts_in(source, spans[:, KEY : KEY + 2]),
        hints, values, times,
    )  # fmt: skip
    for array in (hints, values, times):
        array[other] = nan
    for i, (start, end) in zip(other.tolist(), lines[other].tolist(), strict=True):
        columns.put(i, decode(data[start:end]))
    return columns


def texts_in(source: NDArray[np.uint8], spans: NDArray[np.int64]) -> list[str]:
    """Texts cut out of lines; none of them contains a newline."""
    out = np.empty(int((spans[:, 1] - spans[:, 0]).sum()) + len(spans), np.uint8)
    cut_out(source, spans, out)
    return out.tobytes().decode("ascii").split("\n")[:-1]


def values_at(column: NDArray[Any] | list[Any], which: list[int]) -> list[Any]:
    """The values of a column at these places."""
    if isinstance(column, list):
        return [column[i] for i in which]
    values: list[Any] = column[which].tolist()
    return values


def none_for_nan(numbers: Iterable[float]) -> list[float | None]:
    """The numbers, with None in the place of NaN."""
    return [None if one != one else one for one in numbers]
