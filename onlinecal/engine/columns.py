"""A batch of events in columns, whose ids, keys and times are checked.

Events come as objects, decoded from lines or made in Python. `Columns.put` checks one event and writes it.
`columns_of_events` reads many at a time: what is usual is checked all at once, the rest one by one.

All lists of a `Columns` have the same length, one entry for each event. They are written while a batch is
read; on Spark `put` then refuses rows without a position. Later only two calls write: `append`, by which the
judge adds an outcome that was parked, and `refuse`, by which turns refuse a query with another key, and
`refuse_archived` an event about a forecast that was moved to an archive. A batch is used once, and never
saved. The numbers of kinds may change freely; kernels that read them are then compiled anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import product
from math import inf, nan
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.engine.events import (
    Incoming,
    Outcome,
    Query,
    Rejected,
    Withdraw,
    checked,
    decode_lines,
)
from onlinecal.engine.fields import are_names, is_name
from onlinecal.texts import shown

QUERY, OUTCOME, WITHDRAW, REFUSED = range(4)
"""Kinds of events. Refused are those that no key can accept."""
_KINDS: dict[type, int] = {Query: QUERY, Outcome: OUTCOME, Withdraw: WITHDRAW}

FEW_EVENTS = 16
"""Fewer events than these are handled one by one, without arrays: one alone takes two thirds of the time. The
answers are the same, so the number may change freely."""

LARGEST = sys.float_info.max

_NAMELESS = Withdraw("")

_USUAL = {
    *product([Query], [float, NoneType], [str], [float, NoneType]),
    *product([Outcome], [int], [str, NoneType], [float, NoneType]),
    *product([Withdraw], [NoneType], [str, NoneType], [float, NoneType]),
}
"""Types of usual events, each with the types of its hint or outcome, its key and its time."""


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
        """Check an event, or take a refusal, and write it into row i, where nothing is but perhaps its names.

        ValueError for what is neither.
        """
        if not isinstance(event, Rejected):
            if type(event) not in _KINDS:
                raise no_event(event)
            event = checked(event)
        if isinstance(event, Rejected):
            self.kinds[i], self.refusals[i] = REFUSED, event
        else:
            self._put(i, event)

    def _put(self, i: int, event: Incoming) -> None:
        # these are texts and a number by now
        self.ids[i], self.keys[i] = event.id, event.key or ""  # type: ignore[assignment]
        self.times[i], self.kinds[i] = nan if event.time is None else event.time, _KINDS[type(event)]  # type: ignore[assignment]
        if isinstance(event, Query):
            hint = event.hint
            if type(hint) is float and 0.0 <= hint <= 1.0:
                self.hints[i] = hint + 0.0
            elif hint is not None:
                self.unusual[i] = hint
        elif isinstance(event, Outcome):
            value = event.value
            if type(value) is int and 0 <= value <= 1:
                self.values[i] = value
            else:
                self.unusual[i] = value

    def refuse(self, i: int, reason: str, detail: str) -> None:
        """Refuse the event i."""
        self.kinds[i], self.refusals[i] = REFUSED, Rejected(self.ids[i], reason, detail)

    def append(self, id: str, key: str, value: Any, time: float | None) -> None:
        """Add an outcome behind the other events; it was checked when it came."""
        self.kinds.append(REFUSED)
        self.ids.append("")
        self.keys.append("")
        self.hints, self.values, self.times = map(_with_nan, (self.hints, self.values, self.times))
        self._put(len(self.kinds) - 1, Outcome(id, value, key or None, time))

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


def _with_nan(column: Column) -> Column:
    return [*column, nan] if isinstance(column, list) else np.append(column, nan)


def no_event(value: Any) -> ValueError:
    """The error for what stands among events and is none."""
    return ValueError(
        f"events must be Query, Outcome, Withdraw or Rejected, got {shown(value)}: decode_lines makes them "
        "of lines of JSON"
    )


def listed_events(events: Any) -> list[Any]:
    """Events as a list, which are not looked at; ValueError if they are no list of anything."""
    if not isinstance(events, Iterable):
        raise ValueError(
            f"events must be a list of Query, Outcome, Withdraw or Rejected, got {shown(events)}: put a "
            "single one in a list, [event]"
        )
    return list(events)


def empty_columns(n: int) -> Columns:
    """Columns for so many events, all still to be written."""
    # a short list takes less time than an array
    hints, values, times = ([nan] * n for _ in range(3)) if n < FEW_EVENTS else np.full((3, n), nan)
    return Columns(bytearray([REFUSED] * n), [""] * n, [""] * n, hints, values, times)


def columns_of_lines(data: bytes) -> Columns:
    """The columns of complete lines of JSON."""
    return columns_of_events(decode_lines(data))


def columns_of_events(events: Iterable[Incoming | Rejected]) -> Columns:
    """The columns of events, and of refusals of what could not be read; ValueError for anything else."""
    listed = listed_events(events)
    columns = empty_columns(len(listed))
    rest = range(len(listed)) if len(listed) < FEW_EVENTS else _put_usual(columns, listed)
    for i in rest:
        columns.put(i, listed[i])
    return columns


def _put_usual(columns: Columns, events: list[Any]) -> list[int]:
    """Write all usual events at once, just as `put` would; the places of the others, which are left alone."""
    types = list(map(type, events))
    if not _KINDS.keys() >= set(types):
        # refusals, and what is no event, are not usual: a withdrawal without a name takes their places
        events = [event if kind in _KINDS else _NAMELESS for event, kind in zip(events, types, strict=True)]
        types = list(map(type, events))
    ids, keys = [event.id for event in events], [event.key for event in events]
    times = [event.time for event in events]
    contents = [
        event.hint if kind is Query else event.value if kind is Outcome else None
        for event, kind in zip(events, types, strict=True)
    ]
    usual = _of_usual_types(types, ids, keys, times, contents)
    for i in np.flatnonzero(~usual).tolist():
        ids[i], keys[i], times[i], contents[i] = "", None, None, None
    seconds, numbers = floats_of(times), floats_of(contents)
    usual &= np.isfinite(seconds) | _are_none(seconds, times)
    usual &= ((numbers >= 0.0) & (numbers <= 1.0)) | _are_none(numbers, contents)
    kinds = np.frombuffer(bytes(map(_KINDS.__getitem__, types)), np.int8)
    columns.kinds[:] = np.where(usual, kinds, REFUSED).astype(np.int8).tobytes()
    columns.ids, columns.keys = ids, [key or "" for key in keys]
    # adding 0.0 makes 0.0 of -0.0
    columns.hints[:] = np.where(usual & (kinds == QUERY), numbers + 0.0, nan)
    columns.values[:] = np.where(usual & (kinds == OUTCOME), numbers, nan)
    columns.times[:] = np.where(usual, seconds + 0.0, nan)
    return np.flatnonzero(~usual).tolist()


def _of_usual_types(
    types: list[type], ids: list[Any], keys: list[Any], times: list[Any], contents: list[Any]
) -> NDArray[np.bool_]:
    """Which events have names that can be, and contents (hints or outcomes) of usual types."""
    usual = np.ones(len(types), np.bool_)
    if not _USUAL.issuperset(zip(types, map(type, contents), map(type, keys), map(type, times), strict=True)):
        rows = zip(types, map(type, contents), map(type, keys), map(type, times), strict=True)
        usual &= [row in _USUAL for row in rows]
    if not are_names(ids):
        usual &= list(map(is_name, ids))
    if not are_names([key for key in keys if key is not None]):
        usual &= [key is None or is_name(key) for key in keys]
    return usual


def _are_none(numbers: Floats, values: list[Any]) -> NDArray[np.bool_]:
    """Which numbers are NaN because the value is None; a value may be NaN itself."""
    missing = np.isnan(numbers)
    if missing.any() and np.count_nonzero(missing) != values.count(None):
        missing &= [value is None for value in values]
    return missing


def floats_of(numbers: list[Any]) -> Floats:
    """The numbers as floats, None as NaN, and whole numbers that are beyond all floats as infinite."""
    try:
        try:
            # three times as fast as the next, but knows no None
            return np.fromiter(numbers, np.float64, len(numbers))
        except TypeError:
            return np.array(numbers, np.float64)
    except OverflowError:
        known = [nan if number is None else number if abs(number) <= LARGEST else inf for number in numbers]
        return np.array(known, np.float64)


def values_at(column: NDArray[Any] | list[Any], which: list[int]) -> list[Any]:
    """The values of a column at these places."""
    if isinstance(column, list):
        return [column[i] for i in which]
    values: list[Any] = column[which].tolist()
    return values


def none_for_nan(numbers: list[float]) -> list[Any]:
    """The numbers, with None in the place of NaN."""
    total = sum(numbers)
    if total == total:
        # a NaN would make the sum one
        return numbers
    return [None if number != number else number for number in numbers]
