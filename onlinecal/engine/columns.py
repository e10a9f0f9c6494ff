"""A batch of events in columns. Events come as lines, which compiled code mostly reads, or as objects.

Compiled code reads usual lines of JSON into columns, in one pass. It reads objects on one line with the
members of a query or of an outcome, each once and in any order. Texts must be printable ASCII without
escapes; numbers must be such that one multiplication or division finds the nearest float. Every other line,
even if it is an event, is `OTHER` and left to `events.decode`. What is read here is exactly what
`events.decode` would read.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Floats
from onlinecal.compiling import compiled, inlined
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.events import (
    LONGEST_LINE,
    LONGEST_NAME,
    Incoming,
    Outcome,
    Query,
    Rejected,
    decode,
    decode_lines,
    problem_of,
)

QUERY, OUTCOME, OTHER = 0, 1, 2
"""What a line holds: a query, an outcome, or anything else."""

ID, KEY = 0, 2
"""Columns of `spans`: where a text begins; the next column says where it ends. Both are 0 without a key."""

HINT, VALUE, TIME = 0, 1, 2
"""Columns of `numbers`; NaN where there is none."""

NAMES = {name: int.from_bytes(name.encode()) for name in ("type", "id", "key", "hint", "value", "time")}
_TYPE, _ID, _KEY, _HINT, _VALUE, _TIME = NAMES.values()
_QUERY, _OUTCOME = int.from_bytes(b"query"), int.from_bytes(b"outcome")
_LONGEST = len("outcome")
"""Bytes of the longest word that matters; so many fit an integer."""

_SEEN_TYPE, _SEEN_ID, _SEEN_KEY, _SEEN_HINT, _SEEN_VALUE, _SEEN_TIME = (1 << i for i in range(6))

ROOM_FOR_A_DIGIT = 10**17
"""An integer below this has room for one digit more."""
EXACT, LARGEST_POWER = 1 << 53, 22
"""Integers up to the first, and ten to the powers up to the second, are exact as floats."""
POWERS = np.array([float(10**i) for i in range(LARGEST_POWER + 1)])
SPLITTER = float((1 << 27) + 1)
"""A float times this is how Dekker (1971) splits it into two halves."""

FEW_EVENTS = 16
"""Fewer events than these are handled one by one, without arrays, which is as fast."""
WITHDRAW, REFUSED = 3, 4
"""Kinds of events besides QUERY and OUTCOME."""


@inlined
def past_blanks(data: Any, at: int, end: int) -> int:
    """The first place from `at` on that holds no blank."""
    while at < end and data[at] == 32:
        at += 1
    return at


@inlined
def end_of_text(data: Any, at: int, end: int) -> int:
    """Where the text ends whose first quote is at `at`; -1 if there is no text, or an unusual one."""
    if at >= end or data[at] != 34:
        return -1
    at += 1
    while at < end:
        byte = data[at]
        if byte == 34:
            return at
        if byte < 32 or byte > 126 or byte == 92:
            return -1
        at += 1
    return -1


@inlined
def word(data: Any, at: int, end: int) -> int:
    """A short text as an integer, 0 for a long one."""
    letters: Any = 0
    if end - at <= _LONGEST:
        for i in range(at, end):
            letters = letters << 8 | np.int64(data[i])
    return letters


@inlined
def remainder(mantissa: int, of: float, times: float) -> float:
    """The mantissa minus a product near it, almost exactly: products of halves are exact as floats."""
    low = mantissa & 1023
    part = SPLITTER * of
    of_high = part - (part - of)
    part = SPLITTER * times
    times_high = part - (part - times)
    of_low, times_low = of - of_high, times - times_high
    product = of * times
    rest = ((of_high * times_high - product) + of_high * times_low + of_low * times_high) + of_low * times_low
    return ((float(mantissa - low) - product) + float(low)) - rest


@inlined
def quotient(mantissa: int, power: float) -> float:
    """The float nearest to mantissa/power, for a mantissa with more digits than a float; NaN where in doubt.

    The remainder of the division says how far the quotient is from its float. In doubt is what lies close to
    half-way between two floats.
    """
    near = float(mantissa) / power
    rest = remainder(mantissa, near, power) / power
    least, most = near + rest * (1 - 2.0**-30), near + rest * (1 + 2.0**-30)
    return least if least == most else np.nan


@inlined
def number(data: Any, at: int, end: int) -> tuple[int, float]:
    """Where a number ends, and its float; -1 if it is none, or an unusual one. `null` is NaN."""
    if at + 4 <= end and data[at] == 110 and data[at + 1] == 117 and data[at + 2] == data[at + 3] == 108:
        return at + 4, np.nan
    negative = at < end and data[at] == 45
    if negative:
        at += 1
    mantissa: Any = 0
    first, power = at, 0
    while at < end and 48 <= data[at] <= 57 and mantissa < ROOM_FOR_A_DIGIT:
        mantissa = 10 * mantissa + np.int64(data[at]) - 48
        at += 1
    if at == first or (at > first + 1 and data[first] == 48):
        return -1, 0.0
    if at < end and data[at] == 46:
        at += 1
        point = at
        while at < end and 48 <= data[at] <= 57 and mantissa < ROOM_FOR_A_DIGIT:
            mantissa = 10 * mantissa + np.int64(data[at]) - 48
            at += 1
        power = point - at
        if power == 0:
            return -1, 0.0
    if at < end and (data[at] in (101, 69)):
        at += 1
        sign: Any = 1
        if at < end and (data[at] in (43, 45)):
            sign = 44 - np.int64(data[at])
            at += 1
        exponent: Any = 0
        first = at
        while at < end and 48 <= data[at] <= 57 and at < first + 3:
            exponent = 10 * exponent + np.int64(data[at]) - 48
            at += 1
        if at == first:
            return -1, 0.0
        power += sign * exponent
    # a number with too many digits ends here, too: what comes next is then neither comma nor brace
    if abs(power) > LARGEST_POWER or (mantissa > EXACT and power > 0):
        return -1, 0.0
    if mantissa <= EXACT or power == 0:
        value = float(mantissa)
        value = value * POWERS[power] if power >= 0 else value / POWERS[-power]
    else:
        value = quotient(mantissa, POWERS[-power])
        if value != value:
            return -1, 0.0
    return at, -value if negative else value


@inlined
def read_line(data: Any, at: int, end: int, i: int, spans: Any, numbers: Any) -> int:
    """Read one line into row i of spans and numbers; returns what it holds."""
    if end - at > LONGEST_LINE or at >= end or data[at] != 123 or data[end - 1] != 125:
        return OTHER
    end -= 1
    seen, kind = 0, OTHER
    while True:
        at = past_blanks(data, at + 1, end)
        stop = end_of_text(data, at, end)
        if stop < 0:
            return OTHER
        name = word(data, at + 1, stop)
        at = past_blanks(data, stop + 1, end)
        if at >= end or data[at] != 58:
            return OTHER
        at = past_blanks(data, at + 1, end)
        if name in (_TYPE, _ID, _KEY):
            stop = end_of_text(data, at, end)
            size = stop - at - 1
            if stop < 0 or size < 1 or size > LONGEST_NAME:
                return OTHER
            if name == _TYPE:
                bit, value = _SEEN_TYPE, word(data, at + 1, stop)
                kind = QUERY if value == _QUERY else OUTCOME if value == _OUTCOME else OTHER
            else:
                bit, column = (_SEEN_ID, ID) if name == _ID else (_SEEN_KEY, KEY)
                spans[i, column] = at + 1
                spans[i, column + 1] = stop
            at = stop + 1
        elif name == _VALUE:
            if at >= end or not 48 <= data[at] <= 49:
                return OTHER
            bit, numbers[i, VALUE] = _SEEN_VALUE, float(np.int64(data[at]) - 48)
            at += 1
        elif name in (_HINT, _TIME):
            bit, column = (_SEEN_HINT, HINT) if name == _HINT else (_SEEN_TIME, TIME)
            at, numbers[i, column] = number(data, at, end)
            if at < 0:
                return OTHER
        else:
            return OTHER
        if seen & bit:
            return OTHER
        seen |= bit
        at = past_blanks(data, at, end)
        if at == end:
            break
        if data[at] != 44:
            return OTHER
    needed, never = _SEEN_TYPE | _SEEN_ID | _SEEN_KEY, _SEEN_VALUE
    if kind == OUTCOME:
        needed, never = _SEEN_TYPE | _SEEN_ID | _SEEN_VALUE, _SEEN_HINT
    if seen & needed != needed or seen & never or numbers[i, HINT] < 0.0 or numbers[i, HINT] > 1.0:
        return OTHER
    # -0.0 becomes 0.0
    numbers[i, HINT] += 0.0
    numbers[i, TIME] += 0.0
    return kind


@compiled
def cut_out(data: Bytes, spans: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Copy texts, whose first bytes and ends are given, (n, 2), with a newline behind each."""
    data, at = borrowed(data), 0
    for i in range(len(spans)):
        for j in range(spans[i, 0], spans[i, 1]):
            out[at] = data[j]
            at += 1
        out[at] = 10
        at += 1


@compiled
def scan(
    data: Bytes, lines: NDArray[np.int64], kinds: NDArray[np.int8], spans: Any, numbers: NDArray[np.float64]
) -> None:
    """Read n complete lines; the last one may lack its newline.

    For each line, this writes its first byte and its end into `lines`, (n, 2); what it holds into `kinds`,
    (n,); where id and key are into `spans`, (n, 4); and hint, value and time into `numbers`, (n, 3).
    """
    at, data, spans, numbers = 0, borrowed(data), borrowed(spans), borrowed(numbers)
    for i in range(len(kinds)):
        end = at
        while end < len(data) and data[end] != 10:
            end += 1
        lines[i, 0] = at
        lines[i, 1] = end
        for j in range(4):
            spans[i, j] = 0
        for j in range(3):
            numbers[i, j] = np.nan
        kinds[i] = read_line(data, at, end, i, spans, numbers)
        at = end + 1


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
