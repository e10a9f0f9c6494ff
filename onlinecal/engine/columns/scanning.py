"""Lines of JSON as they mostly are, read by one compiled pass into columns.

Read are objects on one line whose members are those of a query or of an outcome, each once and in any order,
with texts of printable ASCII without escapes and numbers whose nearest float one multiplication or division
finds. Whatever else a line is, even if it is an event, it is `ODD` and left to `events.decode`; what is read
here is what that makes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes
from onlinecal.compiling import compiled
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.events import LONGEST_LINE, LONGEST_NAME
from onlinecal.forecasters.binary.cells import inlined

QUERY, OUTCOME, ODD = 0, 1, 2
"""What a line holds."""

ID, KEY = 0, 2
"""Columns of spans: where a text begins; behind it, where it ends. Both 0 for a key that is not there."""

HINT, VALUE, TIME = 0, 1, 2
"""Columns of numbers; NaN for one that is not there."""

NAMES = {name: int.from_bytes(name.encode()) for name in ("type", "id", "key", "hint", "value", "time")}
_TYPE, _ID, _KEY, _HINT, _VALUE, _TIME = NAMES.values()
_QUERY, _OUTCOME = int.from_bytes(b"query"), int.from_bytes(b"outcome")
_LONGEST = len("outcome")
"""Bytes of the words that matter: as many fit an integer."""

_SEEN_TYPE, _SEEN_ID, _SEEN_KEY, _SEEN_HINT, _SEEN_VALUE, _SEEN_TIME = (1 << i for i in range(6))

ROOM = 10**17
"""One digit more fits an integer below this."""
EXACT, LARGEST_POWER = 1 << 53, 22
"""Integers up to the first and powers of ten up to the second are floats: one operation rounds once."""
POWERS = np.array([float(10**i) for i in range(LARGEST_POWER + 1)])
HALVES = float((1 << 27) + 1)
"""Times this a float is parted into halves (Dekker 1971)."""


@inlined
def past_blanks(data: Any, at: int, end: int) -> int:
    """The first place from `at` on that is no blank."""
    while at < end and data[at] == 32:
        at += 1
    return at


@inlined
def end_of_text(data: Any, at: int, end: int) -> int:
    """Where the text that begins behind the quote at `at` ends, -1 if it is none or an unusual one."""
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
    found: Any = 0
    if end - at <= _LONGEST:
        for i in range(at, end):
            found = found << 8 | np.int64(data[i])
    return found


@inlined
def remainder(mantissa: int, of: float, times: float) -> float:
    """The mantissa less a product near it, next to exactly: products of halves are floats."""
    low = mantissa & 1023
    part = HALVES * of
    of_high = part - (part - of)
    part = HALVES * times
    times_high = part - (part - times)
    of_low, times_low = of - of_high, times - times_high
    product = of * times
    rest = ((of_high * times_high - product) + of_high * times_low + of_low * times_high) + of_low * times_low
    return ((float(mantissa - low) - product) + float(low)) - rest


@inlined
def quotient(mantissa: int, power: float) -> float:
    """The float nearest to their quotient, of more digits than a float has; NaN where that is in doubt.

    What division leaves over says how far the quotient is from its float; half-way between two floats it
    might be either.
    """
    near = float(mantissa) / power
    rest = remainder(mantissa, near, power) / power
    least, most = near + rest * (1 - 2.0**-30), near + rest * (1 + 2.0**-30)
    return least if least == most else np.nan


@inlined
def number(data: Any, at: int, end: int) -> tuple[int, float]:
    """Where a number ends, and its float; -1 if it is none or an unusual one. `null` is NaN."""
    if at + 4 <= end and data[at] == 110 and data[at + 1] == 117 and data[at + 2] == data[at + 3] == 108:
        return at + 4, np.nan
    negative = at < end and data[at] == 45
    if negative:
        at += 1
    mantissa: Any = 0
    first, power = at, 0
    while at < end and 48 <= data[at] <= 57 and mantissa < ROOM:
        mantissa = 10 * mantissa + np.int64(data[at]) - 48
        at += 1
    if at == first or (at > first + 1 and data[first] == 48):
        return -1, 0.0
    if at < end and data[at] == 46:
        at += 1
        point = at
        while at < end and 48 <= data[at] <= 57 and mantissa < ROOM:
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
    # a digit too many ends here, too: what comes next is then neither comma nor brace
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
    """Read one line into row i of spans and numbers; what it holds."""
    if end - at > LONGEST_LINE or at >= end or data[at] != 123 or data[end - 1] != 125:
        return ODD
    end -= 1
    seen, kind = 0, ODD
    while True:
        at = past_blanks(data, at + 1, end)
        stop = end_of_text(data, at, end)
        if stop < 0:
            return ODD
        name = word(data, at + 1, stop)
        at = past_blanks(data, stop + 1, end)
        if at >= end or data[at] != 58:
            return ODD
        at = past_blanks(data, at + 1, end)
        if name in (_TYPE, _ID, _KEY):
            stop = end_of_text(data, at, end)
            size = stop - at - 1
            if stop < 0 or size < 1 or size > LONGEST_NAME:
                return ODD
            if name == _TYPE:
                bit, told = _SEEN_TYPE, word(data, at + 1, stop)
                kind = QUERY if told == _QUERY else OUTCOME if told == _OUTCOME else ODD
            else:
                bit, column = (_SEEN_ID, ID) if name == _ID else (_SEEN_KEY, KEY)
                spans[i, column] = at + 1
                spans[i, column + 1] = stop
            at = stop + 1
        elif name == _VALUE:
            if at >= end or not 48 <= data[at] <= 49:
                return ODD
            bit, numbers[i, VALUE] = _SEEN_VALUE, float(np.int64(data[at]) - 48)
            at += 1
        elif name in (_HINT, _TIME):
            bit, column = (_SEEN_HINT, HINT) if name == _HINT else (_SEEN_TIME, TIME)
            at, numbers[i, column] = number(data, at, end)
            if at < 0:
                return ODD
        else:
            return ODD
        if seen & bit:
            return ODD
        seen |= bit
        at = past_blanks(data, at, end)
        if at == end:
            break
        if data[at] != 44:
            return ODD
    needed, never = _SEEN_TYPE | _SEEN_ID | _SEEN_KEY, _SEEN_VALUE
    if kind == OUTCOME:
        needed, never = _SEEN_TYPE | _SEEN_ID | _SEEN_VALUE, _SEEN_HINT
    if seen & needed != needed or seen & never or numbers[i, HINT] < 0.0 or numbers[i, HINT] > 1.0:
        return ODD
    # zeros without sign
    numbers[i, HINT] += 0.0
    numbers[i, TIME] += 0.0
    return kind


@compiled
def cut_out(data: Bytes, spans: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Write texts, (n, 2) of first bytes and ends, one behind the other, with a newline behind each."""
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
    """Read complete lines, n of them, all without newline but the last perhaps.

    Written are, for each line, its first byte and its end, (n, 2); what it holds, (n,); where id and key are,
    (n, 4); and hint, value and time, (n, 3).
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
