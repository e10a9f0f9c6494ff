"""What goes into the engine and what comes out: one JSON object a line, told apart by its "type".

    {"type": "query", "id": "q1", "key": "rain/oslo", "hint": 0.7, "time": 0}
    {"type": "forecast", "id": "q1", "key": "rain/oslo", "probability": 0.75, "certificate": 0.0}
    {"type": "outcome", "id": "q1", "value": 1, "time": 86400}
    {"type": "settled", "id": "q1"}

docs/engine-contract.md says what each field means and when each answer is given. None of these objects is
ever part of a cycle, so the garbage collector need not look at them: a batch makes thousands.

Nothing here has a state, and no object ever changes. The types, names and order of fields are what clients
write and read. The answers of topics also stand in a ledger's outbox, as JSON, until they have arrived
(`topics.py`): whoever changes how an answer is written raises STATE_FORMAT.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from onlinecal.engine.fields import (
    NoEvent,
    hint_of,
    json_in,
    name_of,
    object_in,
    readable_id,
    seconds_of,
    type_of,
    value_of,
)
from onlinecal.texts import shown

LONGEST_LINE = 1 << 16
"""How many bytes a line may have; a longer one is answered as malformed, from whichever input it came."""

DECODED_TOGETHER = 512
"""So many lines are decoded together; if one of them is no event, they are decoded one by one."""


class Event(Struct, tag_field="type", forbid_unknown_fields=True, frozen=True, gc=False):
    """What all incoming events share.

    Attributes
    ----------
    id
        The forecast that the event is about: any text, different for every forecast. A whole number is taken
        as its text, so 7 and "7" are the same id.
    key
        The stream that it belongs to, a text or a whole number as `id`. Queries need it; with other events it
        is only compared.
    time
        When it happened, in seconds on any clock; None if that does not matter. A text in ISO 8601 with a
        zone, such as "2026-01-31T09:30:00Z", is the seconds since 1970.
    """

    id: str | int


class Query(Event, tag="query", frozen=True, gc=False):
    """Asks for a forecast: an event for an engine, which answers it with a `Forecast` or a `Rejected`.

    Making one checks nothing; values are checked when an engine answers it.

    Attributes
    ----------
    id
        The name of the forecast: a text of 1 to 200 characters, different for every forecast. A whole number
        is taken as its text.
    key
        The name of the stream that it belongs to, a text or a whole number as `id`. Each key has a forecaster
        of its own, from its first query on.
    hint
        The probability that a model gives to outcome 1, from 0 to 1; or for several classes a dict with the
        probability of each label, with sum 1. None: there is none.
    time
        When it is asked for: seconds on any clock, or a text in ISO 8601 with a zone, such as
        "2026-01-31T09:30:00Z", which is the seconds since 1970. None: no time; where forecasts expire, the
        latest time of the key's events counts. Times decide only what expires.
    """

    key: str | int
    hint: float | dict[str, float] | None = None
    time: float | str | None = None


class Outcome(Event, tag="outcome", frozen=True, gc=False):
    """Says what came: an event for an engine, which settles the forecast by it.

    It is answered with a `Settled`, a `Parked` or a `Rejected`. Making one checks nothing; values are checked
    when an engine answers it.

    Attributes
    ----------
    id
        The `id` of the query whose forecast this settles.
    value
        Of a key of kind "binary" 0, 1, False, True or a number between. Else the label of a class, a text, or
        of kind "simplex" a dict with the probability of each label, with sum 1.
    key
        The key of the query. It is only compared: an outcome with another key is rejected. None: it is not
        compared.
    time
        When the outcome became known, on the query's clock: seconds, or a text such as
        "2026-01-31T09:30:00Z". None: no time. Times decide only what expires.
    """

    value: bool | int | float | str | dict[str, float]
    key: str | int | None = None
    time: float | str | None = None


class Withdraw(Event, tag="withdraw", frozen=True, gc=False):
    """Says that the outcome of the forecast `id` will never be known: it then counts in no certificate.

    An engine answers it with a `Withdrawn` or a `Rejected`. Making one checks nothing.

    Attributes
    ----------
    id
        The `id` of the query.
    key
        The key of the query. It is only compared: a withdrawal with another key is rejected. None: it is not
        compared.
    time
        When this became known, on the query's clock: seconds, or a text such as "2026-01-31T09:30:00Z". None:
        no time. Times decide only what expires.
    """

    key: str | int | None = None
    time: float | str | None = None


class Forecast(Struct, tag="forecast", tag_field="type", frozen=True, gc=False):
    """Answers a query that was accepted.

    Attributes
    ----------
    id, key
        Those of the query, as texts.
    probability
        Of outcome 1, from 0 to 1; for several classes a dict with the probability of each label: of the
        `classes` of the configuration, or else of those that have come as outcomes so far, so that it may be
        empty. Labels that only hints have named are not in it.
    certificate
        A proven upper bound on the distance to calibration of the key's rounds that were settled when the
        forecast was made: a sum over rounds (of several classes also over the classes), to be divided by
        their number for an average. Of kind "lp" it is no bound but the l_p error of these rounds, times
        their number.
    """

    id: str
    key: str
    probability: float | dict[str, float]
    certificate: float


class Settled(Struct, tag="settled", tag_field="type", frozen=True, gc=False):
    """Answers an outcome that was accepted: the forecast with this `id` is settled, a round of its key.

    The same outcome, sent again with the same value and time, gets the same answer and changes nothing.
    """

    id: str


class Withdrawn(Struct, tag="withdrawn", tag_field="type", frozen=True, gc=False):
    """Answers a withdrawal that was accepted: the forecast with this `id` is closed without an outcome.

    The same withdrawal, sent again with the same time, gets the same answer and changes nothing.
    """

    id: str


class Parked(Struct, tag="parked", tag_field="type", frozen=True, gc=False):
    """Answers an outcome that came before the query with the same `id`: it waits for that query.

    When the query comes, its forecast is made, and settled by this outcome at once if it can have it. `park`
    of `EngineConfig` says for how many events the outcome waits; then it is dropped.
    """

    id: str


class Rejected(Struct, tag="rejected", tag_field="type", frozen=True, gc=False):
    """Answers an event that was not accepted, and changed nothing.

    Attributes
    ----------
    id
        The event's id as a text, or None if it could not be read.
    reason
        One word: "malformed" (no event at all), "invalid" (a value that is not allowed), "duplicate" (the id
        has been asked for, with another key, hint or time), "unknown" (no forecast was asked for with that
        id), "settled" or "withdrawn" (the forecast has been closed like that before, and this event is
        another one), "parked" (an outcome of that id waits for its query, and this is another one), "expired"
        (the outcome or the withdrawal came too late), "archived" (its forecast was moved to an archive),
        "full" (too many forecasts of the key are open or settled, or too many outcomes parked).
    detail
        The same in a sentence, which names the field and the value, and says what to do.
    """

    id: str | None
    reason: str
    detail: str


Incoming = Query | Outcome | Withdraw
Answer = Forecast | Settled | Withdrawn | Parked | Rejected

WORDS: dict[type[Answer], str] = {
    Forecast: "forecast",
    Settled: "settled",
    Withdrawn: "withdrawn",
    Parked: "parked",
    Rejected: "rejected",
}
"""What JSON calls each type of answer."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What is raised where bytes are no event."""

_TYPES: dict[str, type[Incoming]] = {"query": Query, "outcome": Outcome, "withdraw": Withdraw}
_NAMES = {type: name for name, type in _TYPES.items()}
_decoders: dict[type[Incoming] | None, msgspec.json.Decoder[Incoming]] = {
    None: msgspec.json.Decoder(Incoming),
    **{type: msgspec.json.Decoder(type) for type in _TYPES.values()},
}
_decode = _decoders[None].decode
_array = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()


def decode(line: bytes, wanted: type[Incoming] | None = None) -> Incoming | Rejected:
    """The event that a line holds, or what is wrong with it.

    Where only events of the type `wanted` can come, a line need not name it.
    """
    if len(line) > LONGEST_LINE:
        too_long = (
            f"the line has {len(line)} bytes, more than the {LONGEST_LINE} allowed: write each event on a "
            "line of its own"
        )
        return Rejected(None, "malformed", too_long)
    try:
        return _decoders[wanted].decode(line)
    except UNREADABLE:
        return _decode_in_words(line, wanted)


def _decode_in_words(line: bytes, wanted: type[Incoming] | None) -> Incoming | Rejected:
    """As `decode`, of a line that its decoder does not take; slower, but it knows why."""
    id = None
    try:
        fields = object_in(line)
        id = readable_id(fields.get("id"))
        type = type_of(fields, None if wanted is None else _NAMES[wanted])
        fields.pop("type", None)
        return checked(_TYPES[type](**fields))
    except NoEvent as error:
        return Rejected(id, error.reason, str(error))


def checked(event: Incoming) -> Incoming | Rejected:
    """An event whose fields have values of their kinds, its names as texts and its time in seconds.

    What is wrong with it otherwise.
    """
    try:
        id, seconds = name_of(event.id, "id"), seconds_of(event.time)
        key, time = name_of(event.key, "key", type(event) is Query), seconds if seconds == seconds else None
        if isinstance(event, Query):
            return Query(id, key, hint_of(event.hint), time)
        if isinstance(event, Outcome):
            return Outcome(id, value_of(event.value), key or None, time)
        return Withdraw(id, key or None, time)
    except NoEvent as error:
        return Rejected(readable_id(event.id), error.reason, str(error))


def items_of(data: bytes) -> list[bytes] | Rejected:
    """The items of a list of JSON, each as JSON; or what is wrong with it."""
    try:
        return list(map(bytes, _array.decode(data)))
    except UNREADABLE:
        try:
            json_in(data)
        except NoEvent as error:
            return Rejected(None, error.reason, str(error))
        return Rejected(
            None,
            "malformed",
            "this is no list of events that can be read: write [{...}, {...}], with all texts in UTF-8",
        )


def decode_lines(data: bytes) -> list[Incoming | Rejected]:
    """The events in `data`, bytes with lines of JSON in UTF-8; the last line may lack its end.

    Returns a list with one entry for each line: a `Query`, `Outcome` or `Withdraw`, or a `Rejected` that says
    why the line is none. An empty line and one of more than 65,536 bytes are none. Nothing is raised for a
    bad line; ValueError if `data` is not bytes.
    """
    if not isinstance(data, (bytes, bytearray)):
        raise ValueError(
            f"data must be bytes, lines of JSON in UTF-8, got {shown(data)}: give text.encode() of a text"
        )
    count = data.count(b"\n") + (data[-1:] not in (b"", b"\n"))
    if not _has_long_line(data):
        try:
            # a third faster than line by line, but it stops at what is no event, and passes over empty lines
            events: list[Incoming | Rejected] = list(_decoders[None].decode_lines(data))
        except UNREADABLE:
            events = []
        if len(events) == count:
            return events
    return decode_all(data.split(b"\n")[:count])


def _has_long_line(data: bytes) -> bool:
    """Whether there is a line of more than LONGEST_LINE bytes."""
    start = 0
    while len(data) - start > LONGEST_LINE:
        end = data.rfind(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def decode_all(lines: list[bytes]) -> list[Incoming | Rejected]:
    """One event or refusal for each line, as by `decode`; where all are events, a loop in C reads them."""
    events: list[Incoming | Rejected] = []
    for start in range(0, len(lines), DECODED_TOGETHER):
        some = lines[start : start + DECODED_TOGETHER]
        try:
            events += list(map(decode if max(map(len, some)) > LONGEST_LINE else _decode, some))
        except UNREADABLE:
            events += map(decode, some)
    return events


def encode_lines(answers: Iterable[Answer]) -> bytes:
    """Answers as bytes: one line of JSON in UTF-8, with its end, for each of the `answers`, in their order.

    `answers` are what `Engine.handle` returns; without any there are no bytes. Raises ValueError for anything
    else.
    """
    listed = list(answers) if isinstance(answers, Iterable) else [answers]
    if not WORDS.keys() >= set(map(type, listed)):
        wrong = next(answer for answer in listed if type(answer) not in WORDS)
        raise ValueError(
            f"answers must be a list of answers, as Engine.handle returns them, got {shown(wrong)}"
        )
    return _encoder.encode_lines(listed)
