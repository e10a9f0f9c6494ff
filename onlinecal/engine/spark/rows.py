"""Rows of Spark on their way to a key's turn and back: many in one, since Spark hands them over one by one.

Before the shuffle all rows of a key are put into one, column by column: numbers as bytes, ids in one text,
and what is not as usual as the line that the engine on one machine would read. Answers leave together, too:
in arrays those that only have numbers, the others as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.engine.events import (
    Answer,
    Forecast,
    Incoming,
    Outcome,
    Query,
    Rejected,
    Settled,
    decode,
)
from onlinecal.engine.spark.event_lines import ASKS, UNPLACED, VALUES

if TYPE_CHECKING:
    import pyarrow

REPLY = (
    "type string, id string, position long, probability double, probabilities map<string, double>, "
    "certificate double, reason string, detail string"
)
"""What a worker says of one event."""

TOLD = (
    "key string, ids array<string>, positions array<long>, probabilities array<double>, "
    "certificates array<double>, others string"
)
"""Answers of a key: forecasts of a probability and, without one, settlements; or others, as JSON."""

NUMBERS = {"position": "<i8", "code": "<i1", "hint": "<f8", "time": "<f8"}
"""Columns that are packed as bytes: the type of their numbers."""

PACKED = "key string, position binary, code binary, hint binary, time binary, id string, line string"
"""Rows of a key: bytes of numbers, and texts with a newline between any two."""

BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_AS_BINARY = [BINARY[str(value).lower()] for value in VALUES]

PACK = 32 << 20
"""Bytes of rows that are packed together before they are shuffled."""

TOGETHER = 1000
"""Answers of a key that leave in one row."""


class Reply(Struct, omit_defaults=True):
    """An answer that is told as JSON; the fields of REPLY."""

    type: str
    id: str | None
    position: int | None
    probability: float | None = None
    probabilities: dict[str, float] | None = None
    certificate: float | None = None
    reason: str | None = None
    detail: str | None = None


_encoder = msgspec.json.Encoder()


def packs(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a key in one, as far as PACK bytes of rows go."""
    waiting: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size > PACK:
            yield from packed(waiting)
            waiting, size = [], 0
    yield from packed(waiting)


def packed(batches: list[pyarrow.RecordBatch]) -> list[pyarrow.RecordBatch]:
    """Rows of `event_lines.columns_of` with the same key joined to one of PACKED, by position."""
    if not batches:
        return []
    import pyarrow
    from pyarrow import compute

    table = pyarrow.Table.from_batches(batches).sort_by("position")
    columns = [name for name in table.column_names if name != "key"]
    grouped = table.group_by("key", use_threads=False).aggregate([(name, "list") for name in columns])
    joined = {"key": grouped["key"].combine_chunks()}
    for name in columns:
        lists = grouped[f"{name}_list"].combine_chunks()
        kind = NUMBERS.get(name)
        if kind is None:
            joined[name] = compute.binary_join(lists, "\n")
            continue
        numbers = lists.flatten().to_numpy(zero_copy_only=False).astype(kind)
        ends = (lists.offsets.to_numpy() - lists.offsets[0].as_py()) * numbers.itemsize
        buffers = [None, pyarrow.py_buffer(ends.astype("<i4")), pyarrow.py_buffer(numbers)]
        joined[name] = pyarrow.Array.from_buffers(pyarrow.binary(), len(lists), buffers)
    return pyarrow.table(joined).to_batches()


class KeyRows:
    """Rows of `key` in the order of their positions.

    Attributes
    ----------
    positions
        None where a row has none: these come first; (n,).
    """

    def __init__(self, key: str | None, rows: Iterable[Any], is_binary: bool) -> None:
        some = list(rows)
        self._key, self._is_binary = key, is_binary
        placed, codes, hints, times = (
            np.frombuffer(b"".join([row[name] for row in some]), kind) for name, kind in NUMBERS.items()
        )
        ids, lines = ("\n".join([row[name] for row in some]).split("\n") for name in ("id", "line"))
        if not _are_in_order(placed, codes):
            order = _order(placed, codes, hints, times, ids, lines)
            placed, codes, hints, times = (one[order] for one in (placed, codes, hints, times))
            ids, lines = ([one[i] for i in order] for one in (ids, lines))
        self._codes, self._lines, self._ids = codes.tolist(), lines, ids
        self.positions: list[int | None] = placed.tolist()
        for i in np.flatnonzero(codes == UNPLACED).tolist():
            self.positions[i] = None
        # zeros without sign
        self._hints, self._times = (hints + 0.0).tolist(), (times + 0.0).tolist()

    def events(self) -> list[Incoming | Rejected]:
        """The events, or what is wrong with them."""
        return [self.event(i) for i in range(len(self._codes))]

    def event(self, i: int) -> Incoming | Rejected:
        """The event of a row, or what is wrong with it."""
        code, time = self._codes[i], self._times[i]
        if code < ASKS:
            line = self._lines[i].encode()
            return refused(line, "position") if code == UNPLACED else event_of(line, self._is_binary)
        at = None if time != time else time
        if code == ASKS:
            hint = self._hints[i]
            return Query(self._ids[i], self._key, None if hint != hint else hint, at)  # type: ignore[arg-type]
        value = VALUES[code - ASKS - 1]
        return Outcome(self._ids[i], _AS_BINARY[code - ASKS - 1] if self._is_binary else value, None, at)

    def refusals(self) -> list[Answer]:
        """What rows are answered that have no key."""
        return [refused(line.encode(), "key") for line in self._lines]


def _are_in_order(positions: Any, codes: Any) -> bool:
    return bool((codes != UNPLACED).all() and (positions[1:] > positions[:-1]).all())


def _order(positions: Any, codes: Any, hints: Any, times: Any, ids: list[str], lines: list[str]) -> list[int]:
    """Where the rows are in their order; without a position first, with the same one by what they say."""
    names = msgspec.json.Encoder().encode
    said = [
        line
        if code < ASKS
        else f'{{"type":"{"query" if code == ASKS else "outcome"}","id":{names(id).decode()}'
        for code, id, line in zip(codes.tolist(), ids, lines, strict=True)
    ]
    bits = (codes.tolist(), hints.view(np.int64).tolist(), times.view(np.int64).tolist())
    keys = list(zip((codes != UNPLACED).tolist(), positions.tolist(), said, *bits, strict=True))
    return sorted(range(len(keys)), key=keys.__getitem__)


def event_of(line: bytes, is_binary: bool) -> Incoming | Rejected:
    """The event that a line holds; texts are read as numbers if the key's outcomes are 0 and 1."""
    event = decode(line)
    if is_binary and type(event) is Outcome and isinstance(event.value, str):
        value = BINARY.get(event.value.strip().lower())
        return event if value is None else Outcome(event.id, value, event.key, event.time)
    return event


def refused(line: bytes, missing: str) -> Rejected:
    """The refusal of a row without a key or a position."""
    return Rejected(decode(line).id, "invalid", f"{missing} must not be null")


def told(positions: list[int | None], answers: list[Answer]) -> Iterator[tuple[Any, ...]]:
    """What leaves the worker of a key's answers: rows of TOLD without the key."""
    ids, at, numbers, certificates, others = [], [], [], [], []
    for position, answer in zip(positions, answers, strict=True):
        if isinstance(answer, Settled):
            number, certificate = None, None
        elif isinstance(answer, Forecast) and type(answer.probability) is float:
            number, certificate = answer.probability, answer.certificate
        else:
            others.append(reply_of(answer, position))
            continue
        ids.append(answer.id)
        at.append(position)
        numbers.append(number)
        certificates.append(certificate)
    for start in range(0, len(ids), TOGETHER):
        span = slice(start, start + TOGETHER)
        # tuples: Spark looks through lists for rows
        yield tuple(ids[span]), tuple(at[span]), tuple(numbers[span]), tuple(certificates[span]), None
    for start in range(0, len(others), TOGETHER):
        yield None, None, None, None, _encoder.encode(others[start : start + TOGETHER]).decode()


def reply_of(answer: Answer, position: int | None) -> Reply:
    """An answer as it leaves the worker by itself."""
    if isinstance(answer, Forecast):
        if isinstance(answer.probability, dict):
            return Reply("forecast", answer.id, position, None, answer.probability, answer.certificate)
        return Reply("forecast", answer.id, position, answer.probability, None, answer.certificate)
    kind = str(answer.__struct_config__.tag)
    if isinstance(answer, Rejected):
        return Reply(kind, answer.id, position, reason=answer.reason, detail=answer.detail)
    return Reply(kind, answer.id, position)
