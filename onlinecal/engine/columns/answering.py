"""Answers as lines of JSON, most of them put together by one compiled pass.

Ids and keys are copied from the lines that were answered, where they need no escapes; floats are written by
msgspec, all of them in one text.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bytes
from onlinecal.compiling import compiled
from onlinecal.compiling.borrowed import borrowed
from onlinecal.engine.columns.scanning import ID, KEY, OUTCOME, QUERY
from onlinecal.forecasters.binary.cells import inlined


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
