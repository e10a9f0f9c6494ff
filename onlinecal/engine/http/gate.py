"""The checks that a request has to pass first: who may ask, and from which page.

(Starlette's own check of hosts answers a bare 400 that does not say what is wrong, and only its newer
releases read the name [::1].)

A gate keeps nothing of a request. For each it calls its caller's `admit` at most once, and `answered` when
the last part of an answer was sent. The order of the checks counts: who has no token is told so before the
application sees the request. Headers and statuses are what clients see: docs/over-http.md has them.
"""

from __future__ import annotations

import hmac
import re
from http import HTTPStatus
from typing import Protocol

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinecal.engine.ledger.file import LedgerError

CONTRACT = "https://onlinecal.github.io/onlinecal/engine-contract.html"
"""The page that says what there is to ask for."""

SHOWN_LETTERS = 60
"""So many characters of a header are shown in a refusal."""

LOOPBACK_NAMES = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})

_host = re.compile(rb"([\w.-]+|\[[0-9a-f:.]+\])(?::\d{0,5})?", re.IGNORECASE)

HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy",
     b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
     b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]  # fmt: skip
"""The headers of every answer."""


CALLER = "caller"
"""Under this name the `state` of a request's scope has the connection that it came on."""


class Caller(Protocol):
    """Where a request came from."""

    is_surplus: bool
    """Whether there were too many connections already: then its requests are refused."""

    def admit(self) -> None:
        """The request has the token, or none is needed."""

    def answered(self) -> None:
        """The answer to a request was sent."""


class AnyCaller:
    """Where all requests come from if another server runs the application."""

    is_surplus = False

    def admit(self) -> None:
        """Nothing happens."""

    def answered(self) -> None:
        """Nothing happens."""


ANY_CALLER = AnyCaller()


def caller_of(scope: Scope) -> Caller:
    """Where a request came from."""
    caller: Caller = scope.get("state", {}).get(CALLER, ANY_CALLER)
    return caller


class Gate:
    """An ASGI application that checks requests for another one, and answers refusals in JSON.

    Parameters
    ----------
    app
        The application behind the gate.
    token
        What `Authorization: Bearer ...` must say, except for the paths in `public`; None: nothing.
    hosts
        Names in the Host header that requests may be addressed to; None: any. On a loopback address this
        keeps out web pages whose own name was made to mean this machine.
    public
        Paths without any data, which need no token.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, hosts: frozenset[bytes] | None, public: frozenset[str]
    ) -> None:
        self.app, self._hosts, self._public = app, hosts, public
        self._token = None if token is None else check_token(token).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        caller = caller_of(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                caller.answered()

        try:
            if caller.is_surplus:
                detail = "too many connections are owed an answer: try again later"
                raise HTTPException(503, detail, {"connection": "close"})
            self._check(scope)
            if scope["path"] not in self._public:
                caller.admit()
            # routes that find an "app" in their scope raise refusals, instead of answering them
            scope["app"] = self
            await self.app(scope, receive, with_headers)
        except (HTTPException, LedgerError) as error:
            refusal = error if isinstance(error, HTTPException) else HTTPException(503, str(error))
            status, detail = refusal.status_code, refusal.detail
            if detail in ("Not Found", "Method Not Allowed"):
                detail += f": {scope['method']} {scope['path']}, see {CONTRACT}"
            body = error_of(detail)
            answer = Response(body, status, refusal.headers, "application/json")
            await answer(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise HTTPException(400, "a request has one Host header, this one has several: send one")
        host = headers.get(b"host", b"")
        if self._hosts is not None and name_of(host) not in self._hosts:
            names = ", ".join(sorted(name.decode() for name in self._hosts))
            raise HTTPException(
                421,
                f"the Host header must be one of {names}, got {header_text(host)}: use one of these "
                "addresses, let a proxy send one of them, or start the server with --host and a token",
            )
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.partition(b"://")[2] != host
        if foreign and scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(
                403,
                f"the Origin header must be that of this server, {header_text(host)}, got "
                f"{header_text(origin)}: pages of another origin may not send events",
            )
        if self._token is not None and scope["path"] not in self._public:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                detail = "the header Authorization: Bearer TOKEN is needed, with the right token"
                raise HTTPException(401, detail, {"www-authenticate": "Bearer"})


def error_of(detail: str) -> bytes:
    """A refusal in JSON."""
    return msgspec.json.encode({"error": detail})


def farewell(status: int, detail: str) -> bytes:
    """The answer, head and body, to a client whose request cannot be read to its end."""
    body = error_of(detail)
    headers = [
        *HEADERS,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", body])


def check_token(token: str) -> str:
    """A token, checked: it can stand in a header, and is hard to guess."""
    if not re.fullmatch(r"[!-~]{16,}", token):
        wrong = len(re.findall(r"[^!-~]", token))
        beside = f", of which {wrong} may not stand in it" if wrong else ""
        raise ValueError(
            f"token must have at least 16 characters, all of them ASCII and none a space, got one with "
            f"{len(token)} characters{beside}: make another, as by `openssl rand -hex 16`"
        )
    return token


def header_text(header: bytes | None) -> str:
    """A header as refusals show it."""
    return repr((header or b"").decode("latin-1")[:SHOWN_LETTERS])


def name_of(host: bytes) -> bytes:
    """A Host header without its port; empty if it is none."""
    match = _host.fullmatch(host)
    return match[1].lower() if match else b""
