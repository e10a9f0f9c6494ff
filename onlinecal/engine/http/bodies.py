"""How events come in HTTP bodies and how their answers go out: one, an array of them, or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from onlinecal.engine.events import (
    LONGEST_LINE,
    Answer,
    Incoming,
    Rejected,
    decode,
    encode_lines,
)

JSON, LINES = b"application/json", b"application/x-ndjson"

STATUS = {
    "malformed": 400,
    "unknown": 404,
    "duplicate": 409,
    "settled": 409,
    "withdrawn": 409,
    "full": 409,
    "expired": 410,
    "archived": 410,
    "invalid": 422,
}
"""What a single event that was rejected is answered with, by the reason."""

Events = list[Incoming | Rejected]

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

# no line break can be inside of a JSON text, so these are two objects and not parts of one
_two_lines = re.compile(rb"\}[ \t\r]*\n\s*\{")
_array = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()


class Form(Enum):
    """How many events a body holds, and in what form."""

    ONE = "one"
    ARRAY = "array"
    LINES = "lines"


class TooMany(Exception):
    """A body with more events than a body may hold; the argument is their number."""


def read_typed(
    body: bytes, content_type: bytes, most: int, decoder: msgspec.json.Decoder[Any]
) -> tuple[Form, Events]:
    """The events of one type, which need not name it, in a body; refusals where there is none."""
    if content_type.startswith((LINES, b"application/jsonl")) or _two_lines.search(body):
        return Form.LINES, [_typed(line, decoder) for line in _lines(body, most)]
    if body.lstrip()[:1] != b"[":
        return Form.ONE, [_typed(body, decoder)]
    try:
        found = _array.decode(body)
    except UNREADABLE as error:
        return Form.ONE, [Rejected(None, "malformed", str(error))]
    return Form.ARRAY, [_typed(bytes(one), decoder) for one in _checked(found, most)]


def read_any(body: bytes, content_type: bytes, most: int) -> tuple[Form, Events]:
    """The events of all types in a body of lines."""
    return Form.LINES, [decode(line) for line in _lines(body, most)]


def _lines(body: bytes, most: int) -> list[bytes]:
    """The lines that are not empty."""
    return _checked([line for line in body.split(b"\n") if line and not line.isspace()], most)


def _checked(events: list[Any], most: int) -> list[Any]:
    if len(events) > most:
        raise TooMany(len(events))
    return events


def _typed(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Incoming | Rejected:
    if len(data) > LONGEST_LINE or not data.strip():
        return decode(data)
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        return Rejected(getattr(decode(data), "id", None), "malformed", str(error))


def write(form: Form, answers: Sequence[Answer]) -> tuple[int, bytes, bytes]:
    """Status, content type and body. Of many, each says itself whether it was rejected: the status is 200."""
    if form is Form.LINES:
        return 200, LINES, encode_lines(answers)
    if form is Form.ARRAY:
        return 200, JSON, _encoder.encode(answers)
    [answer] = answers
    status = STATUS[answer.reason] if isinstance(answer, Rejected) else 200
    return status, JSON, _encoder.encode(answer)
