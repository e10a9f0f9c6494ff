"""The engine over HTTP: an ASGI application. Needs the extra `serve`.

docs/over-http.md lists the routes and what they answer.

Routes, statuses and the names of fields are a contract with clients: docs/over-http.md has them. The
application keeps two answers for a moment, so that many who look do not ask the engine as often:
`_last_overview` and `_health_check` of `ReadRoutes`, which alone writes them. The files of the page are read
when the application is made. All else is asked of the engine each time. It runs in the server's event loop,
but for large bodies, which are read in threads (`read`).
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from onlinecal.engine.concurrent import AsyncEngine
from onlinecal.engine.events import (
    Incoming,
    Outcome,
    Parked,
    Query,
    Rejected,
    Withdraw,
    decode,
    encode_lines,
    items_of,
)
from onlinecal.engine.fields import BYTE_ORDER_MARK
from onlinecal.engine.http.bodies import LARGE_BODY, Body, Room, check_size
from onlinecal.engine.http.gate import LOOPBACK_NAMES, Gate
from onlinecal.engine.http.metrics import MEDIA_TYPE, as_text
from onlinecal.engine.http.parameters import Choice, Name, Whole, parameters_of
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.watch.overview import NamedSummary, Overview

LINES_TYPE = "application/x-ndjson"

STATUS = {
    "malformed": 400,
    "unknown": 404,
    "duplicate": 409,
    "settled": 409,
    "withdrawn": 409,
    "parked": 409,
    "full": 409,
    "expired": 410,
    "archived": 410,
    "invalid": 422,
}
"""The status that answers a single rejected event, by the reason; every reason of a `Rejected` needs one."""

LARGEST_BODY = 1 << 20
MOST_EVENTS = 10_000
"""How many events a body may have."""

BODY_SECONDS = 10.0
"""Seconds in which a body must arrive, once it is read."""

ANSWERED_AT_ONCE = 32
"""How many large bodies are made into events and answered at a time; others wait."""

MOST_WATCHED = 100
"""How many keys of each kind in an overview a request may ask for."""

FRESH, PROMPT, STUCK = 1.0, 1.0, 60.0
"""Seconds. An overview is at most FRESH old. /health waits for a busy engine at most for PROMPT, and reports
it as unwell if it is busy for longer than STUCK."""

PAGE = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

Form = Literal["one", "array", "lines"]

EVENT_ROUTES: dict[str, type[Incoming] | None] = {
    "/query": Query,
    "/outcome": Outcome,
    "/withdraw": Withdraw,
    "/events": None,
}
"""The routes that take events, each with the type of its events; None for any type."""

# no line break can be inside of a JSON text, so these are two objects and not parts of one
_two_lines = re.compile(rb"\}[ \t\r]*\n\s*\{")
_encoder = msgspec.json.Encoder()


def create_app(
    engine: AsyncEngine,
    *,
    token: str | None = None,
    largest_body: int = LARGEST_BODY,
    most_events: int = MOST_EVENTS,
    patience: float = BODY_SECONDS,
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
        Seconds in which a body must arrive, once it is read.
    hosts
        Names that the Host header may have; None: any, for a server that other machines can reach.

    Raises ValueError for a token that is too short.
    """
    read_routes, routes = ReadRoutes(engine), list[Route]()
    room, answering = Room(), asyncio.Semaphore(ANSWERED_AT_ONCE)
    for path, wanted in EVENT_ROUTES.items():
        take = EventRoute(engine, room, answering, wanted, largest_body, most_events, patience)
        routes.append(Route(path, take, methods=["POST"]))
    for name in ("certificate", "keys", "watch", "metrics", "health"):
        routes.append(Route(f"/{name}", getattr(read_routes, name)))
    for path, (name, media_type) in PAGE.items():
        content = (files("onlinecal.engine.http") / "static" / name).read_bytes()
        routes.append(Route(path, FileRoute(Response(content, media_type=media_type)), methods=["GET"]))
    return Gate(Router(routes, redirect_slashes=False), token, hosts, frozenset({*PAGE, "/health"}))


@dataclass
class FileRoute:
    """A route that always has the same answer."""

    answer: Response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        parameters_of(scope)
        await self.answer(scope, receive, send)


@dataclass
class EventRoute:
    """A route that takes the events of a body, and answers when they are durable.

    `wanted` is the type of the events, which they then need not name; None: events of any type, in lines.
    """

    engine: AsyncEngine
    room: Room
    answering: asyncio.Semaphore
    wanted: type[Incoming] | None
    largest: int
    most: int
    patience: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        parameters_of(scope)
        check_size(scope, self.largest)
        body = Body(self.room)
        try:
            data = await body.read(receive, self.largest, self.patience)
            async with self.answering if len(data) > LARGE_BODY else nullcontext():
                answer = await self._answer(scope, data)
        finally:
            body.leave()
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, body: bytes) -> Response:
        content_type = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        arguments = body, content_type, self.most, self.wanted
        if len(body) <= LARGE_BODY:
            form, events = read(*arguments)
        else:
            form, events = await asyncio.to_thread(read, *arguments)
        answers = await self.engine.handle(events)
        if form == "lines":
            return Response(encode_lines(answers), media_type=LINES_TYPE)
        if form == "array":
            return json(answers)
        [answer] = answers
        if isinstance(answer, Rejected):
            return json(answer, STATUS[answer.reason])
        return json(answer, 202 if isinstance(answer, Parked) else 200)


def read(
    body: bytes, content_type: bytes, most: int, wanted: type[Incoming] | None
) -> tuple[Form, list[Incoming | Rejected]]:
    """The form of a body, which the answers will have, too; and its events, or refusals where there is none.

    The answer to a single event says by its status whether the event was rejected.
    """
    kinds = LINES_TYPE.encode(), b"application/jsonl"
    form: Form = "one"
    parts = [body]
    body = body.removeprefix(BYTE_ORDER_MARK)
    if wanted is None or content_type.startswith(kinds) or _two_lines.search(body):
        form, parts = "lines", [line for line in body.split(b"\n") if line and not line.isspace()]
    elif body.lstrip()[:1] == b"[":
        items = items_of(body)
        if isinstance(items, Rejected):
            return "one", [items]
        form, parts = "array", items
    if len(parts) > most:
        detail = f"a body may hold {most} events, this one has {len(parts)}: send them in several"
        raise HTTPException(413, detail)
    return form, [decode(part, wanted) for part in parts]


KEY_PARAMETER = {"key": Name()}
PART_PARAMETERS = {
    "offset": Whole(0, 1 << 62, 0),
    "limit": Whole(1, 1_000, 100),
    "order": Choice("met", "largest"),
}
WATCH_PARAMETERS = {"keys": Whole(1, MOST_WATCHED, 10)}
"""The parameters of the routes that read."""


class ReadRoutes:
    """The routes that read numbers of the running engine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._last_overview: tuple[float, Overview] | None = None
        self._health_check: tuple[float, asyncio.Future[list[NamedSummary]]] | None = None

    async def certificate(self, request: Request) -> Response:
        """GET /certificate: the certificate of all keys together, or with ?key= of one."""
        key = parameters_of(request.scope, KEY_PARAMETER)["key"]
        if key is None:
            return json(await self._engine.total())
        summary = await self._engine.summary(key)
        if summary is None:
            raise HTTPException(404, f"no query of key {key!r} was accepted: GET /keys lists the keys")
        return json(as_object((key, summary)))

    async def keys(self, request: Request) -> Response:
        """GET /keys: a part of the list of all keys, or those with the largest certificate per round."""
        part = parameters_of(request.scope, PART_PARAMETERS)
        if part["order"] == "met":
            lines = await self._engine.keys(part["offset"], part["limit"])
        elif part["offset"]:
            detail = f"offset goes with order=met, got {part['offset']} with order=largest: leave it out"
            raise HTTPException(400, detail)
        else:
            lines = await self._engine.largest(part["limit"])
        return json({"keys": list(map(as_object, lines))})

    async def watch(self, request: Request) -> Response:
        """GET /watch: what an operator looks at, with up to ?keys= keys of each kind."""
        overview = await self._overview(request)
        largest, alarmed = (list(map(as_object, some)) for some in (overview.largest, overview.alarmed))
        return json({**msgspec.to_builtins(overview), "largest": largest, "alarmed": alarmed})

    async def metrics(self, request: Request) -> Response:
        """GET /metrics: the overview for Prometheus."""
        return Response(as_text(await self._overview(request)), media_type=MEDIA_TYPE)

    async def _overview(self, request: Request) -> Overview:
        limit = parameters_of(request.scope, WATCH_PARAMETERS)["keys"]
        if self._last_overview is None or time.monotonic() > self._last_overview[0]:
            overview = await self._engine.overview(MOST_WATCHED)
            self._last_overview = time.monotonic() + FRESH, overview
        last = self._last_overview[1]
        return msgspec.structs.replace(last, largest=last.largest[:limit], alarmed=last.alarmed[:limit])

    async def health(self, request: Request) -> Response:
        """GET /health: whether the ledger can be read.

        An engine may be busy for long, as with the first sums over many keys; it counts as well for a minute.
        """
        parameters_of(request.scope)
        now = time.monotonic()
        if self._health_check is None or self._health_check[1].done():
            self._health_check = now, asyncio.ensure_future(self._engine.keys(0, 1))
        since, look = self._health_check
        if (await asyncio.wait({look}, timeout=PROMPT))[0]:
            look.result()
        elif now - since > STUCK:
            raise LedgerError(
                f"the engine has not answered for {now - since:.0f} s: if this lasts, restart it"
            )
        return json({"status": "ok"})


def json(answer: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(_encoder.encode(answer), status, media_type="application/json")


def as_object(line: NamedSummary) -> dict[str, Any]:
    """A key's summary with its name."""
    name, summary = line
    return {"key": name, **msgspec.to_builtins(summary)}
