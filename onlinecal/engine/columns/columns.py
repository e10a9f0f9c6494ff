"""A batch of events in columns: those that are as usual; the others as they are.

Which number a text has: a hash table of short texts, read and written by compiled code.

A text is ASCII without NUL. Its bytes stand in words of 8, the rest of its row is 0, so rows are equal only
if texts are. What is sought comes as the bytes of a line, and becomes no Python object.

Answers as lines of JSON, most of them put together by one compiled pass.

Ids and keys are copied from the lines that were answered, where they need no escapes; floats are written by
msgspec, all of them in one text.
"""

from __future__ import annotations

import secrets
import sys
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes, Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.instructions import borrowed
from onlinecal.engine.columns.scanning import HINT, ID, KEY, ODD, OUTCOME, QUERY, TIME, VALUE, cut_out, scan
from onlinecal.engine.events import LONGEST_NAME, Incoming, Outcome, Query, Rejected, decode, decode_lines
from onlinecal.forecasters.binary.cells import inlined

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


WORD = 8
"""Bytes of a word."""
SEED = secrets.randbits(62)
"""Nobody can choose texts that all fall into one place."""
FACTOR = 0x2545F4914F6CDD1D


class Texts(NamedTuple):
    """Texts by number.

    Attributes
    ----------
    slots
        A number + 1, 0 where there is none; as many as a power of two, twice those of numbers or more.
    hashes
        Those of the texts; (n,).
    words
        The texts; (n, width).
    """

    slots: Ints
    hashes: Ints
    words: Ints


@inlined
def lent(texts: Any) -> Any:
    """The same texts, to loops that count no references to their arrays."""
    return Texts(borrowed(texts.slots), borrowed(texts.hashes), borrowed(texts.words))


@inlined
def word_at(data: Any, at: int, end: int) -> int:
    """Up to 8 bytes of a text."""
    found: Any = 0
    for j in range(min(WORD, end - at)):
        found |= np.int64(data[at + j]) << (8 * j)
    return found


@inlined
def hash_of(data: Any, start: int, end: int, seed: int) -> int:
    """A text's hash."""
    found: Any = seed
    for at in range(start, end, WORD):
        found = (found ^ word_at(data, at, end)) * FACTOR
        found ^= found >> 31
    return found


@inlined
def is_text(words: Any, number: int, data: Any, start: int, end: int) -> bool:
    """Whether this number's text is that of some bytes."""
    width = words.shape[1]
    if end - start > WORD * width:
        return False
    for j in range(width):  # noqa: SIM110
        if words[number, j] != word_at(data, min(start + WORD * j, end), end):
            return False
    return True


@inlined
def place_of(texts: Any, data: Any, start: int, end: int, seed: int) -> int:
    """The slot of a text, or the free one where it would be."""
    slots, hashes, words = texts.slots, texts.hashes, texts.words
    sought, mask = hash_of(data, start, end, seed), len(slots) - 1
    at = sought & mask
    while slots[at] != 0:
        number = slots[at] - 1
        if hashes[number] == sought and is_text(words, number, data, start, end):
            break
        at = (at + 1) & mask
    return at


@inlined
def put_text(texts: Any, number: int, data: Any, start: int, end: int, seed: int, at: int) -> None:
    """Give a number a text, which has room in a row, and the slot where it would be."""
    texts.hashes[number] = hash_of(data, start, end, seed)
    for j in range(texts.words.shape[1]):
        texts.words[number, j] = word_at(data, min(start + WORD * j, end), end)
    texts.slots[at] = number + 1


@inlined
def take_away(texts: Any, number: int) -> None:
    """Forget a number's text, if it has it still; others that it had sent further come nearer."""
    slots, hashes = texts.slots, texts.hashes
    mask = len(slots) - 1
    free = hashes[number] & mask
    while slots[free] != number + 1:
        if slots[free] == 0:
            return
        free = (free + 1) & mask
    at = free
    while True:
        at = (at + 1) & mask
        if slots[at] == 0:
            break
        wanted = hashes[slots[at] - 1] & mask
        if ((at - wanted) & mask) >= ((at - free) & mask):
            slots[free] = slots[at]
            free = at
    slots[free] = 0


@compiled
def put_back(texts: Texts, numbers: Ints) -> None:
    """Enter the texts of some numbers, which have rows and hashes, into slots that are all free."""
    slots, mask = texts.slots, len(texts.slots) - 1
    for number in numbers:
        at = texts.hashes[number] & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = number + 1


@compiled
def forget_texts(texts: Texts, numbers: Ints) -> None:
    """Forget the texts of some numbers."""
    for number in numbers:
        take_away(texts, number)


@compiled
def find_texts(texts: Texts, data: Any, spans: Ints, seed: int, found: Ints) -> None:
    """The numbers of texts, -1 for one that has none; `spans` are their first bytes and ends, (n, 2)."""
    for i in range(len(spans)):
        found[i] = texts.slots[place_of(texts, data, spans[i, 0], spans[i, 1], seed)] - 1


@compiled
def put_texts(texts: Texts, data: Any, spans: Ints, seed: int, numbers: Ints) -> None:
    """Give numbers, which have none, texts that have room in a row; who had the same has it no longer."""
    for i in range(len(spans)):
        start, end = spans[i, 0], spans[i, 1]
        put_text(texts, numbers[i], data, start, end, seed, place_of(texts, data, start, end, seed))


def no_texts() -> Texts:
    """No number yet."""
    return Texts(np.zeros(2, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64))


def with_room(texts: Texts, size: int, width: int) -> Texts:
    """The same texts with room for numbers below `size` and as many words a row."""
    words = np.zeros((size, max(width, texts.words.shape[1])), np.int64)
    words[: len(texts.words), : texts.words.shape[1]] = texts.words
    hashes = np.zeros(size, np.int64)
    hashes[: len(texts.hashes)] = texts.hashes
    larger = Texts(np.zeros(max(2, 2 << (size - 1).bit_length()), np.int64), hashes, words)
    put_back(larger, texts.slots[texts.slots > 0] - 1)
    return larger


def joined(texts: list[str]) -> tuple[NDArray[np.uint8], Ints]:
    """The bytes of texts one behind the other, and their spans, (n, 2)."""
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    if len(texts) == 1:
        return data, np.array([[0, len(data)]])
    ends = np.cumsum([0, *map(len, texts)])
    return data, np.column_stack([ends[:-1], ends[1:]])


def _bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


_FORECAST, _SETTLED = _bytes(b'{"type":"forecast","id":"'), _bytes(b'{"type":"settled","id":"')
_KEY, _PROBABILITY, _CERTIFICATE = (
    _bytes(b'","key":"'),
    _bytes(b'","probability":'),
    _bytes(b',"certificate":'),
)
_END, _SETTLED_END = _bytes(b"}\n"), _bytes(b'"}\n')
LONGEST = len(_FORECAST) + len(_KEY) + len(_PROBABILITY) + len(_CERTIFICATE) + len(_END)
"""Bytes of a line besides id, key and floats."""


@inlined
def put(out: Any, at: int, data: Any, start: int, end: int) -> int:
    """Copy a part of some bytes; where it ends."""
    for i in range(start, end):
        out[at] = data[i]
        at += 1
    return at


@inlined
def put_float(out: Any, at: int, floats: Any, place: int) -> tuple[int, int]:
    """Copy a float up to the comma or bracket behind it; where it ends, here and there."""
    while floats[place] != 44 and floats[place] != 93:
        out[at] = floats[place]
        at += 1
        place += 1
    return at, place + 1


@compiled
def write(
    out: Bytes, kinds: NDArray[np.int8], data: Bytes, spans: Any, floats: Bytes, others: Bytes, ends: Any
) -> int:
    """Write the answers to n lines, `data` with their `spans` (see `scan`); how many bytes these are.

    `kinds`: QUERY for a forecast, whose probability and certificate are next in `floats`, a list in JSON;
    OUTCOME for one that was settled; else what is next in `others`, where each of these ends at its `ends`.
    """
    at, place, other, done = 0, 1, 0, 0
    out, data, spans, floats = borrowed(out), borrowed(data), borrowed(spans), borrowed(floats)
    for i in range(len(kinds)):
        if kinds[i] == QUERY:
            at = put(out, at, _FORECAST, 0, len(_FORECAST))
            at = put(out, at, data, spans[i, ID], spans[i, ID + 1])
            at = put(out, at, _KEY, 0, len(_KEY))
            at = put(out, at, data, spans[i, KEY], spans[i, KEY + 1])
            at = put(out, at, _PROBABILITY, 0, len(_PROBABILITY))
            at, place = put_float(out, at, floats, place)
            at = put(out, at, _CERTIFICATE, 0, len(_CERTIFICATE))
            at, place = put_float(out, at, floats, place)
            at = put(out, at, _END, 0, len(_END))
        elif kinds[i] == OUTCOME:
            at = put(out, at, _SETTLED, 0, len(_SETTLED))
            at = put(out, at, data, spans[i, ID], spans[i, ID + 1])
            at = put(out, at, _SETTLED_END, 0, len(_SETTLED_END))
        else:
            at = put(out, at, others, done, ends[other])
            done = ends[other]
            other += 1
    return at


def answer_lines(
    kinds: NDArray[np.int8], data: bytes, spans: NDArray[np.int64], floats: list[float], others: list[bytes]
) -> bytes:
    """The answers to lines, as `write` takes them."""
    told, rest = msgspec.json.encode(floats), b"".join(others)
    out = np.empty(len(data) + len(told) + len(rest) + LONGEST * len(kinds), np.uint8)
    ends = np.cumsum(list(map(len, others)), dtype=np.int64)
    size = write(out, kinds, _bytes(data), spans, _bytes(told), _bytes(rest), ends)
    return out[:size].tobytes()
