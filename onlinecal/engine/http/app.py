"""The engine over HTTP: an ASGI application. Needs the extra `serve`.

docs/engine.md lists the routes and what they answer.

How events come in HTTP bodies and how their answers go out: one, an array of them, or JSON lines.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from onlinecal.engine.concurrent import AsyncEngine, Room
from onlinecal.engine.events import (
    LONGEST_LINE,
    LONGEST_NAME,
    Answer,
    Incoming,
    Outcome,
    Query,
    Rejected,
    Withdraw,
    decode,
    encode_lines,
    is_name,
)
from onlinecal.engine.http import app as bodies
from onlinecal.engine.http.gate import (
    LOOPBACK_NAMES,
    Gate,
    Receive,
    Refusal,
    Scope,
    Send,
    read_body,
    respond,
    size_of_body,
)
from onlinecal.engine.http.metrics import MEDIA_TYPE, as_text
from onlinecal.engine.keys.totals import Line
from onlinecal.engine.watch.overview import Overview

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


LARGEST_BODY = 1 << 20
MOST_EVENTS = 10_000
"""Events of a body."""

PATIENCE = 10.0
"""Seconds in which a body must have arrived, once there is room for it."""

ROOM = 1 << 24
"""Bytes of the large bodies that are being read and answered at a time."""

LONGEST_PAGE = 1_000
"""Keys in one answer."""

MOST_WATCHED = 100
"""Keys of each kind in an overview that a request may ask for."""

LARGE = 1 << 14
"""Bytes of a body from which on it waits until there is room for it, and is read in a thread of its own."""

FRESH = 1.0
"""Seconds for which an overview is good."""

PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

Reader = Callable[[bytes, bytes, int], tuple[Form, Events]]


def create_app(
    engine: AsyncEngine,
    *,
    token: str | None = None,
    largest_body: int = LARGEST_BODY,
    most_events: int = MOST_EVENTS,
    patience: float = PATIENCE,
    hosts: frozenset[bytes] | None = LOOPBACK_NAMES,
) -> Gate:
    """The ASGI application of an engine, which stays open when the server stops.

    Parameters
    ----------
    engine
        Answers the events.
    token
        What clients must send as `Authorization: Bearer ...`, at least 16 characters; None: nothing.
    largest_body
        Bytes of a request's body.
    most_events
        Events in a request's body.
    patience
        Seconds in which there must be room for a body, and in which it must then have arrived.
    hosts
        Names that the Host header may have; None: any, for a server that other machines can reach.

    Raises ValueError for a token that is too short.
    """
    room = Room(max(ROOM, largest_body))
    intake = partial(
        Intake, engine, room, largest_body=largest_body, most_events=most_events, patience=patience
    )
    readings = Readings(engine)
    routes = [
        Place("/query", intake(typed(Query)), methods=["POST"]),
        Place("/outcome", intake(typed(Outcome)), methods=["POST"]),
        Place("/withdraw", intake(typed(Withdraw)), methods=["POST"]),
        Place("/events", intake(bodies.read_any), methods=["POST"]),
        Place("/certificate", readings.certificate),
        Place("/keys", readings.keys),
        Place("/watch", readings.watch),
        Place("/metrics", readings.metrics),
        Place("/health", readings.health),
        *(Place(path, static(*source)) for path, source in PAGE.items()),
    ]
    router = Router(routes, redirect_slashes=False, default=nothing_here)
    return Gate(router, token, hosts, frozenset({*PAGE, "/health"}))


class Place(Route):
    """A path, which refuses what it does not take in words."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request to it."""
        if self.methods and scope["method"] not in self.methods:
            allowed = ", ".join(sorted(self.methods))
            detail = f"{scope['path']} takes {allowed}, not {scope['method']}"
            raise Refusal(405, detail, (b"allow", allowed.encode()))
        await super().handle(scope, receive, send)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Any other path."""
    raise Refusal(404, f"there is nothing at {scope['path']}: docs/engine.md lists the paths")


def typed(event: type[Any]) -> Reader:
    """Reads bodies of events of one type."""
    return partial(bodies.read_typed, decoder=msgspec.json.Decoder(event))


class Intake:
    """Takes the events of a body, all that are in it, and answers when they are durable."""

    def __init__(
        self,
        engine: AsyncEngine,
        room: Room,
        read: Reader,
        *,
        largest_body: int,
        most_events: int,
        patience: float,
    ) -> None:
        self._engine, self._room, self._read = engine, room, read
        self._largest, self._most, self._patience = largest_body, most_events, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        size = size_of_body(scope, self._largest)
        if size < LARGE:
            status, content_type, answer = await self._answer(scope, receive)
        else:
            async with self._place(size):
                status, content_type, answer = await self._answer(scope, receive)
        await respond(send, status, answer, content_type)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes]:
        body = await read_body(receive, self._largest, self._patience)
        content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        try:
            if len(body) < LARGE:
                form, events = self._read(body, content_type, self._most)
            else:
                form, events = await asyncio.to_thread(self._read, body, content_type, self._most)
        except bodies.TooMany as error:
            detail = f"a body may hold {self._most} events, this one has {error}: send them in several"
            raise Refusal(413, detail) from None
        return bodies.write(form, await self._engine.handle(events))

    @asynccontextmanager
    async def _place(self, size: int) -> AsyncIterator[None]:
        """Room for a large body while it is read and answered."""
        try:
            async with asyncio.timeout(self._patience):
                await self._room.enter(size)
        except TimeoutError:
            detail = "too many large bodies are being read, send it again"
            raise Refusal(503, detail, (b"retry-after", b"1"), (b"connection", b"close")) from None
        try:
            yield
        finally:
            self._room.leave(size)


class Seen(NamedTuple):
    """An overview with the first so many keys of each kind, and until when it is good."""

    limit: int
    until: float
    overview: Overview | None


class Readings:
    """What there is to read: numbers of the running engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._seen = Seen(0, 0.0, None)

    async def certificate(self, request: Request) -> Response:
        """GET /certificate: of all keys together, or with ?key= of one."""
        key = request.query_params.get("key")
        if key is None:
            return json(await self._engine.total())
        if not is_name(key):
            raise Refusal(400, f"key must have 1 to {LONGEST_NAME} characters and no NUL, got {key[:40]!r}")
        summary = await self._engine.summary(key)
        if summary is None:
            raise Refusal(404, f"no forecast was asked for with key {key!r}")
        return json(as_object((key, summary)))

    async def keys(self, request: Request) -> Response:
        """GET /keys: a part of the list of all keys, or the largest in certificate per round."""
        offset = number_in(request, "offset", 0, 1 << 62)
        limit = number_in(request, "limit", 100, LONGEST_PAGE, 1)
        order = request.query_params.get("order", "met")
        if order not in ("met", "largest"):
            raise Refusal(400, f"order must be met or largest, got {order!r}")
        if order == "largest" and offset:
            raise Refusal(400, f"offset goes with order=met, got {offset}")
        if order == "met":
            lines = await self._engine.keys(offset, limit)
        else:
            lines = (await self._overview(limit)).largest
        return json({"keys": [as_object(line) for line in lines]})

    async def _overview(self, limit: int) -> Overview:
        """An overview, at most a second old, with so many keys of each kind."""
        seen = self._seen
        if seen.overview is None or limit > seen.limit or time.monotonic() > seen.until:
            overview = await self._engine.overview(limit)
            self._seen = seen = Seen(limit, time.monotonic() + FRESH, overview)
        assert seen.overview is not None
        largest, alarmed = seen.overview.largest[:limit], seen.overview.alarmed[:limit]
        return msgspec.structs.replace(seen.overview, largest=largest, alarmed=alarmed)

    async def watch(self, request: Request) -> Response:
        """GET /watch: what an operator looks at, with up to ?keys= keys of each kind."""
        overview = await self._overview(number_in(request, "keys", 10, MOST_WATCHED, 1))
        found = msgspec.to_builtins(overview)
        for name in ("largest", "alarmed"):
            found[name] = [as_object(line) for line in getattr(overview, name)]
        return json(found)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics: the same for Prometheus."""
        overview = await self._overview(number_in(request, "keys", 10, MOST_WATCHED, 1))
        return Response(as_text(overview), media_type=MEDIA_TYPE)

    async def health(self, _: Request) -> Response:
        """GET /health: whether the ledger can be read."""
        await self._engine.keys(0, 1)
        return json({"status": "ok"})


def json(answer: Any) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(answer), media_type="application/json")


def as_object(line: Line) -> dict[str, Any]:
    """A key's summary with its name."""
    name, summary = line
    return {"key": name, **msgspec.to_builtins(summary)}


def number_in(request: Request, name: str, default: int, most: int, least: int = 0) -> int:
    """A whole number among the query's parameters."""
    text = request.query_params.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > most:
        raise Refusal(400, f"{name} must be a whole number of at most {most}, got {text[:40]!r}")
    if int(text) < least:
        raise Refusal(400, f"{name} must be at least {least}, got {text}")
    return int(text)


def static(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """A file of the page."""
    content = (files("onlinecal.engine.http") / "static" / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer
