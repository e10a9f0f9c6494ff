"""What goes into the engine and what comes out: one JSON object a line, told apart by its "type".

    {"type": "query", "id": "q1", "key": "rain/oslo", "hint": 0.7, "time": 0}
    {"type": "forecast", "id": "q1", "key": "rain/oslo", "probability": 0.75, "certificate": 0.0}
    {"type": "outcome", "id": "q1", "value": 1, "time": 86400}
    {"type": "settled", "id": "q1"}

docs/engine-contract.md says what each field means and when each answer is given. None of these objects is
ever part of a cycle, so the garbage collector need not look at them: a batch makes thousands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

LONGEST_NAME = 200
"""How many characters an id, a key or a class label may have."""

LONGEST_LINE = 1 << 16
"""How many bytes a line may have."""

DECODED_TOGETHER = 512
"""So many lines are decoded together; if one of them is no event, they are decoded one by one."""


class Event(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, gc=False):
    """What all incoming events share.

    Attributes
    ----------
    id
        The forecast that the event is about: any text, different for every forecast.
    key
        The stream that it belongs to. Queries need it; with other events it is only compared.
    time
        When it happened, in seconds on any clock; None if that does not matter.
    """

    id: str


class Query(Event, tag="query", frozen=True, gc=False):
    """Asks for a forecast. `hint`: a probability, or for several classes an object of them; None for none."""

    key: str
    hint: float | dict[str, float] | None = None
    time: float | None = None


class Outcome(Event, tag="outcome", frozen=True, gc=False):
    """Says what came. `value`: a number from 0 to 1, false or true, the label of a class, or a soft label.

    A soft label is an object of the classes' probabilities.
    """

    value: bool | int | float | str | dict[str, float]
    key: str | None = None
    time: float | None = None


class Withdraw(Event, tag="withdraw", frozen=True, gc=False):
    """Says that the outcome of a forecast will never be known: it is then never charged."""

    key: str | None = None
    time: float | None = None


class Forecast(Struct, tag="forecast", tag_field="type", frozen=True, gc=False):
    """Answers a query.

    Attributes
    ----------
    id, key
        Those of the query.
    probability
        Of outcome 1; for several classes an object of the classes' probabilities.
    certificate
        A proven upper bound on the distance to calibration of the key's settled rounds when the forecast was
        made, a sum over rounds (in l1 over the classes if there are several).
    """

    id: str
    key: str
    probability: float | dict[str, float]
    certificate: float


class Settled(Struct, tag="settled", tag_field="type", frozen=True, gc=False):
    """Answers an outcome, with the `id` of its forecast."""

    id: str


class Withdrawn(Struct, tag="withdrawn", tag_field="type", frozen=True, gc=False):
    """Answers a withdrawal, with the `id` of its forecast."""

    id: str


class Rejected(Struct, tag="rejected", tag_field="type", frozen=True, gc=False):
    """Answers an event that changed nothing.

    Attributes
    ----------
    id
        The event's id, or None if it could not be read.
    reason
        One word: "malformed" (no event at all), "invalid" (a value that cannot be), "duplicate" (the id has
        been asked for, with different content), "unknown" (no such id), "settled", "withdrawn" (it has been
        closed, in a different way), "expired" (the outcome came too late), "archived" (its forecast was moved
        to an archive), "full" (too many are open, or settled).
    detail
        The same in a sentence that names the field and the value.
    """

    id: str | None
    reason: str
    detail: str


Incoming = Query | Outcome | Withdraw
Answer = Forecast | Settled | Withdrawn | Rejected

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised where bytes are no event."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What tools of Windows write in front of UTF-8; a parser may ignore it (RFC 8259, section 8.1)."""
_decoder = msgspec.json.Decoder(Incoming)
_encoder = msgspec.json.Encoder()


def decode(line: bytes) -> Incoming | Rejected:
    """The event that a line holds, or what is wrong with it."""
    if len(line) > LONGEST_LINE:
        too_long = f"the line has {len(line)} bytes, more than the {LONGEST_LINE} allowed"
        return Rejected(None, "malformed", too_long)
    try:
        return _decoder.decode(line)
    except UNREADABLE as error:
        if line.startswith(BYTE_ORDER_MARK):
            return decode(line[len(BYTE_ORDER_MARK) :])
        return Rejected(_id_in(line), "malformed", str(error) if line.strip() else "the line is empty")


def decode_lines(data: bytes) -> list[Incoming | Rejected]:
    """One event or refusal for each line of `data`, complete lines of JSON in UTF-8."""
    lines = data.split(b"\n")
    return list(decode_all(lines if lines[-1] else lines[:-1]))


def decode_all(lines: list[bytes]) -> Iterator[Incoming | Rejected]:
    """One event or refusal for each line, as by `decode`; where all are events, a loop in C reads them."""
    for start in range(0, len(lines), DECODED_TOGETHER):
        some = lines[start : start + DECODED_TOGETHER]
        try:
            yield from list(map(decode if max(map(len, some)) > LONGEST_LINE else _decoder.decode, some))
        except UNREADABLE:
            yield from map(decode, some)


def encode_lines(answers: Iterable[Answer]) -> bytes:
    """One line for each of the `answers`, JSON in UTF-8."""
    return _encoder.encode_lines(answers)


def _id_in(line: bytes) -> str | None:
    """The id in a line that is an object, but no event."""
    try:
        loose = msgspec.json.decode(line)
    except UNREADABLE:
        return None
    id = loose.get("id") if isinstance(loose, dict) else None
    return id if isinstance(id, str) and len(id) <= LONGEST_NAME else None


def problem_of(event: Any) -> str | None:
    """What is wrong with the id, the key or the time of an event; None if nothing is."""
    for field in ("id", "key"):
        name = getattr(event, field)
        if not is_name(name) and (field == "id" or name is not None or type(event) is Query):
            shown = repr(name) if len(repr(name)) < 60 else f"{repr(name)[:60]}..."
            return f"{field} must be a text of 1 to {LONGEST_NAME} characters without NUL, got {shown}"
    if event.time is None:
        return None
    try:
        if isinstance(event.time, (int, float)) and math.isfinite(event.time):
            return None
    except OverflowError:  # an integer beyond all floats
        pass
    return f"time must be a finite number of seconds, got {event.time!r}"


def only_names(given: list[Any]) -> list[str]:
    """Those of the values that can be names."""
    try:
        # usual names are checked all at once
        if "".join(given).isprintable() and max(map(len, given)) <= LONGEST_NAME and all(given):
            return given
    except (TypeError, ValueError):
        pass
    return [one for one in given if is_name(one)]


def is_name(name: Any) -> bool:
    """Whether something can be an id, a key or a class label: text that every database takes."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME):
        return False
    # half a surrogate pair is in no encoding, and never printable
    return name.isprintable() or not ("\0" in name or any("\ud800" <= sign <= "\udfff" for sign in name))
