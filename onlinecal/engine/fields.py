"""The fields of events: what each may be, and in words what is wrong with anything else.

Every way into the engine is checked by these functions, lines of JSON as well as Python's objects, so that
all of them get the same answers; `columns.py` takes usual events many at a time, by the same rules. A reason
is "malformed" where there is no event at all (no JSON, a missing or unknown field, a value of a kind that the
field cannot have), and "invalid" where a value of the right kind cannot be.

Nothing here has a state. The reasons, "malformed" and "invalid", are part of the contract
(docs/engine-contract.md); the words behind them may change.
"""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timedelta
from functools import cache, lru_cache
from math import nan
from numbers import Real
from typing import Any, NoReturn

import numpy as np

from onlinecal.catalogue import did_you_mean
from onlinecal.texts import cut, shown

LONGEST_NAME = 200
"""How many characters an id, a key or a class label may have. Ledgers hold names of that length, and longer
ones are not looked for in them: so it must not become less."""

EVENT_FIELDS = {
    "query": ("id", "key", "hint", "time"),
    "outcome": ("id", "value", "key", "time"),
    "withdraw": ("id", "key", "time"),
}
"""The fields of each type of event."""
NEEDED_FIELDS = {"query": ("id", "key"), "outcome": ("id", "value"), "withdraw": ("id",)}
"""Those that an event cannot be without."""

NAME_WANTED = "text or a whole number"
WANTED = {
    "id": NAME_WANTED,
    "key": NAME_WANTED,
    "hint": "a probability, an object of the classes' probabilities, or null",
    "value": "0, 1, false, true, a number between, a class label or an object of the classes' probabilities",
    "time": "a number of seconds, or a text such as 2026-01-31T09:30:00Z",
}
"""What each field may be, for errors."""

MEANT = {
    **dict.fromkeys(("event", "kind", "op", "event_type"), "type"),
    **dict.fromkeys(("uuid", "event_id", "query_id", "forecast_id", "request_id", "uid"), "id"),
    **dict.fromkeys(("lane", "stream", "series", "name", "topic", "group", "model", "entity"), "key"),
    **dict.fromkeys(("probability", "prob", "p", "score", "prediction", "forecast", "y_prob"), "hint"),
    **dict.fromkeys(("outcome", "label", "y", "target", "result", "truth", "actual", "y_true"), "value"),
    **dict.fromkeys(("timestamp", "ts", "at", "date", "datetime", "ts_ms", "event_time"), "time"),
}
"""What other systems call the fields."""
LONGEST_MISTAKE = 20
"""Longer names are not compared with the fields: it takes long, and nobody mistypes so much."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What tools of Windows write in front of UTF-8; a parser may ignore it (RFC 8259, section 8.1)."""
GZIP = b"\x1f\x8b"
LONGEST_WHOLE = 400
"""A whole number with more digits is beyond all floats, and is read as infinite."""
SHOWN_LETTERS = 60
"""So many characters of a value are shown in an answer."""

ONE_A_LINE = "write each event on one line"
LOOKS_LIKE = '{"type": "query", "id": "q1", "key": "rain/oslo", "hint": 0.7}'

# a line of a JSON text that was written with line breaks: a member of an object, or its brackets
_piece = re.compile(r'\s*(?:"(?:[^"\\]|\\.)*"\s*:|[]}][\s,\]}]*$)')
_EPOCH = datetime(1970, 1, 1)


class NoEvent(ValueError):
    """Says why something is no event; `reason` is the word for it, "malformed" or "invalid"."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def shown_json(value: Any) -> str:
    """A value as answers show it: what JSON has a word for in that word, and not all of a long one."""
    words = {None: "null", True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return words[value]
    return cut(shown(value), SHOWN_LETTERS)


def refuse_kind(field: str, value: Any, remedy: str = "") -> NoReturn:
    """Refuse a value of a kind that a field cannot have."""
    if isinstance(value, str) and _is_number(value):
        remedy = ": write the number without quotes"
    raise NoEvent("malformed", f"{field} must be {WANTED[field]}, got {shown_json(value)}{remedy}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def is_number(value: Any) -> bool:
    """Whether a value is a number; False and True are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


# -- names


def is_name(name: Any) -> bool:
    """Whether something can be an id, a key or a class label: text that every database takes."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME):
        return False
    # half a surrogate pair is in no encoding, and never printable
    return name.isprintable() or not ("\0" in name or any("\ud800" <= sign <= "\udfff" for sign in name))


def only_names(values: list[Any]) -> list[str]:
    """Those of the values that can be names."""
    return values if are_names(values) else [value for value in values if is_name(value)]


def are_names(values: list[Any]) -> bool:
    """Whether all values are usual names, checked at once; others may be names, too."""
    try:
        return "".join(values).isprintable() and max(map(len, values)) <= LONGEST_NAME and all(values)
    except (TypeError, ValueError):
        return False


def name_of(value: Any, field: str, needed: bool = True) -> str:
    """An id or a key as text, "" for none: a whole number is its text, so 7 and "7" are one name."""
    if is_name(value):
        return str(value)
    if value is None and not needed:
        return ""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if is_whole and abs(value) < 10 ** (LONGEST_NAME - 1):
        return str(int(value))
    if not is_whole and not isinstance(value, str):
        refuse_kind(field, value)
    what = f"a text of 1 to {LONGEST_NAME} characters without NUL or halves of surrogate pairs"
    # a number may have too many digits for Python to show them
    got = f"a number of more than {LONGEST_NAME - 1} digits" if is_whole else shown_json(value)
    raise NoEvent("invalid", f"{field} must be {what}, got {got}")


def readable_id(value: Any) -> str | None:
    """An id as it stands in a refusal: None if it cannot be one."""
    try:
        return name_of(value, "id")
    except NoEvent:
        return None


# -- times


def seconds_of(time: Any) -> float:
    """A time in seconds, NaN for none. A text, or a `datetime`, with a zone is the seconds since 1970."""
    if time is None:
        return nan
    if isinstance(time, datetime):
        time = time.isoformat()
    if isinstance(time, str):
        return _seconds_of_text(time)
    if not is_number(time):
        refuse_kind("time", time)
    seconds = float_of(time) + 0.0
    if not math.isfinite(seconds):
        raise NoEvent("invalid", f"time must be a finite number of seconds, got {seconds}")
    return seconds


def _seconds_of_text(text: str) -> float:
    """The seconds since 1970 of a text in ISO 8601: the float that is nearest, of up to nine digits."""
    match = _iso().fullmatch(text)
    if match is None:
        remedy = "write it as 2026-01-31T09:30:00Z, or send seconds since 1970"
        if _is_number(text):
            remedy = "write the number of seconds without quotes"
        raise NoEvent("invalid", f"time {shown_json(text)} cannot be read: {remedy}")
    *parts, fraction, zone = match.groups()
    if zone is None:
        remedy = "end it with Z for UTC or an offset such as +02:00, or send seconds since 1970"
        raise NoEvent("invalid", f"time {shown_json(text)} names no zone: {remedy}")
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    try:
        local = datetime(year, month, day, hour, minute, second)
    except ValueError:
        remedy = (
            "years begin at 0001, months end at 12, days where their month does, hours at 23, minutes and "
            "seconds at 59"
        )
        raise NoEvent("invalid", f"time {shown_json(text)} is in no calendar: {remedy}") from None
    whole = (local - _EPOCH) // timedelta(seconds=1) - _offset_of(zone)
    scale = 10 ** len(fraction or "")
    # a quotient of two integers is the nearest float
    return (whole * scale + int(fraction or 0)) / scale


def _offset_of(zone: str) -> int:
    """The seconds by which a zone's clocks are ahead of UTC."""
    if zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    seconds = 3600 * int(digits[:2]) + 60 * int(digits[2:] or 0)
    return -seconds if zone[0] == "-" else seconds


@cache
def _iso() -> re.Pattern[str]:
    # tables read the same texts; what else they need is loaded only where there are any
    from onlinecal.tables.times import ISO

    return re.compile(ISO, re.ASCII)


# -- hints and outcomes: only their kinds; the key's forecaster says which values can be


def hint_of(hint: Any) -> float | dict[str, float] | None:
    """A hint with floats for its numbers; NoEvent for one that no key can have."""
    if hint is None:
        return None
    return float_of(hint) if is_number(hint) else _probabilities_of("hint", hint)


def value_of(value: Any) -> Any:
    """An outcome, an object with floats for its numbers; NoEvent for one that no key can have."""
    if value is None:
        refuse_kind("value", value, ": if it will never be known, send a withdraw")
    return value if isinstance(value, (Real, np.bool_, str)) else _probabilities_of("value", value)


def _probabilities_of(field: str, value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        refuse_kind(field, value)
    for label, p in value.items():
        if not is_number(p):
            remedy = ": write the number without quotes" if isinstance(p, str) and _is_number(p) else ""
            raise NoEvent(
                "malformed",
                f"{field} must be an object with a number for each class, got {shown_json(p)} for "
                f"{shown_json(label)}{remedy}",
            )
    return {label: float_of(p) for label, p in value.items()}


def float_of(number: Any) -> float:
    """A number as a float: infinite where it is a whole number beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# -- objects of JSON


def type_of(fields: dict[str, Any], wanted: str | None = None) -> str:
    """The type of an event with these fields, each of which it may have; NoEvent if there is no such event.

    Where the type is `wanted` already, the event need not name it.
    """
    type = fields.get("type", wanted)
    if not isinstance(type, str) or type not in EVENT_FIELDS:
        _refuse_envelope(fields)
        allowed = "query, outcome or withdraw"
        if "type" not in fields:
            raise NoEvent("malformed", f"type is missing: it must be {allowed}")
        near = _near(type, "type", (*EVENT_FIELDS,)) if isinstance(type, str) else ""
        raise NoEvent("malformed", f"type must be {allowed}, got {shown_json(type)}{near}")
    if wanted is not None and type != wanted:
        raise NoEvent(
            "malformed",
            f"type must be {wanted} at /{wanted}, or left out, got {shown_json(type)}: send it to /events",
        )
    for name in fields:
        if name != "type" and name not in EVENT_FIELDS[type]:
            _refuse_envelope(fields)
            raise NoEvent(
                "malformed",
                f"unknown field {shown_json(name)}{_near(name, 'field', EVENT_FIELDS[type])}",
            )
    for name in NEEDED_FIELDS[type]:
        if name not in fields:
            raise NoEvent("malformed", f"{name} is missing: it must be {WANTED[name]}")
    return type


def _near(name: str, what: str, known: tuple[str, ...]) -> str:
    """What a wrong name may have meant, and which names there are."""
    if len(name) > LONGEST_MISTAKE:
        return f". Known: {', '.join(known)}"
    return _did_you_mean(name, what, known)


@lru_cache(1000)
def _did_you_mean(name: str, what: str, known: tuple[str, ...]) -> str:
    meant = MEANT.get(name.lower()) if what == "field" else None
    return did_you_mean(meant if meant in known else name.lower(), known)


def _refuse_envelope(fields: dict[str, Any]) -> None:
    """Refuse an object in which a message system has wrapped something else."""
    wrapped = [name for name, value in fields.items() if _is_event(value)]
    if _is_change(fields) or _is_change(fields.get("payload")):
        after = "after" if _is_change(fields) else "payload.after"
        what, send = "an envelope of Debezium", f"send what is in its `{after}` (SMT ExtractNewRecordState)"
    elif "schema" in fields and "payload" in fields:
        what, send = "an envelope of Kafka Connect", "send its `payload` (schemas.enable=false)"
    elif wrapped:
        what, send = "an envelope around an event", f"send what is in its {shown_json(wrapped[0])}"
    else:
        return
    raise NoEvent("malformed", f"this is {what}: {send}")


def _is_change(value: Any) -> bool:
    return isinstance(value, dict) and "op" in value and not value.keys().isdisjoint({"before", "after"})


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in EVENT_FIELDS


def object_in(line: bytes) -> dict[str, Any]:
    """The JSON object in a line; NoEvent says why there is none.

    Of a field that comes twice the last one counts.
    """
    value = json_in(line)
    if isinstance(value, dict):
        return value
    if isinstance(value, list):
        detail = f"this is a list: {ONE_A_LINE} (over HTTP, /query, /outcome and /withdraw take lists)"
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        detail = "this is a text that has JSON in it: it was encoded twice, send the inner one"
    else:
        detail = f"an event is an object such as {LOOKS_LIKE}, got {shown_json(value)}"
    raise NoEvent("malformed", detail)


def json_in(data: bytes) -> Any:
    """What some JSON says; NoEvent says why it cannot be read."""
    if not data.strip():
        raise NoEvent("malformed", f"the line is empty: an event is like {LOOKS_LIKE}")
    if data.startswith(GZIP):
        raise NoEvent("malformed", "this begins as a file of gzip does: unpack it first")
    data = data.removeprefix(BYTE_ORDER_MARK)
    if b"\0" in data or data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise NoEvent("malformed", "there are NUL bytes, as in UTF-16: write events in UTF-8")
    try:
        return _json.decode(text := data.decode())
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is not UTF-8: write events in UTF-8"
    except json.JSONDecodeError as error:
        detail = _unreadable(text, error)
    except RecursionError:
        detail = "the JSON is nested too deeply: an event is an object of numbers and texts"
    raise NoEvent("malformed", detail)


def _unreadable(text: str, error: json.JSONDecodeError) -> str:
    """In words why a text is no JSON."""
    rest = text[error.pos :].strip()
    if _piece.match(text):
        return f"this is a piece of a JSON text with line breaks: {ONE_A_LINE}"
    if not rest or error.msg.startswith("Unterminated string"):
        return f"the JSON ends in the middle: it was cut off, or has line breaks; {ONE_A_LINE}"
    if error.msg.startswith("Extra data"):
        return f"more follows behind the first JSON value: {ONE_A_LINE}"
    if rest[0] == "'":
        return f"this is no JSON at character {error.pos + 1}: texts have double quotes"
    where = f"character {error.pos + 1}, {shown_json(rest[0])}"
    return f"this is no JSON at {where}: an event is like {LOOKS_LIKE}"


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_WHOLE else float(digits)


def _no_constant(name: str) -> NoReturn:
    raise NoEvent("malformed", f"{name} is no number of JSON: leave the field out, or send null")


_json = json.JSONDecoder(parse_int=_whole, parse_constant=_no_constant)
