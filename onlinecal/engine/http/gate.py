"""What a request has to pass before it is looked at: who may ask, from which page, how much.

(Starlette's own check of hosts answers a bare 400 that does not say what is wrong, and only its newer
releases read the name [::1].)
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from onlinecal.engine.ledger.file import LedgerError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

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
"""They go with every answer."""

SHORTEST_TOKEN = 16


class Refusal(Exception):
    """Ends a request with a status and a sentence."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


class Gate:
    """An ASGI application in front of another.

    Parameters
    ----------
    app
        What is behind it.
    token
        What `Authorization: Bearer ...` must say, except for the paths in `public`; None: nothing.
    hosts
        Names in the Host header that requests may be addressed to; None: any. On a loopback address this
        keeps out web pages whose own name was made to mean this machine.
    public
        Paths without any data, which need no token.
    """

    def __init__(
        self,
        app: App,
        token: str | None,
        hosts: frozenset[bytes] | None,
        public: frozenset[str],
    ) -> None:
        self._app, self._hosts, self._public = app, hosts, public
        self._token = None if token is None else check_token(token).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, with_headers)
        except Refusal as refusal:
            await respond(with_headers, refusal.status, said(refusal.detail), headers=refusal.headers)
        except LedgerError as error:
            await respond(with_headers, 503, said(str(error)))

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise Refusal(400, "a request has one Host header, this one has several")
        host = headers.get(b"host", b"")
        if self._hosts is not None and name_of(host) not in self._hosts:
            raise Refusal(421, "the Host header must name the loopback address that this server is bound to")
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.partition(b"://")[2] != host
        if foreign and scope["method"] not in ("GET", "HEAD"):
            raise Refusal(403, "pages of another origin may not send events")
        if self._token is not None and scope["path"] not in self._public:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
                raise Refusal(401, "the header Authorization: Bearer TOKEN is needed, with the right token",
                              (b"www-authenticate", b"Bearer"))  # fmt: skip


def check_token(token: str) -> str:
    """A token that can stand in a header and is not guessed."""
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"token must have at least {SHORTEST_TOKEN} ASCII characters, no spaces; it has {len(token)}"
        )
    return token


def name_of(host: bytes) -> bytes:
    """A Host header without its port; empty if it is none."""
    found = _host.fullmatch(host)
    return found[1].lower() if found else b""


def size_of_body(scope: Scope, largest: int) -> int:
    """How large the body is, at most; a Refusal if it is too large, or compressed."""
    size, chunked = 0, False
    for name, value in scope["headers"]:
        if name == b"content-encoding" and value.strip().lower() != b"identity":
            raise Refusal(415, "compressed bodies are not read", (b"connection", b"close"))
        if name == b"content-length":
            size = int(value)
        chunked |= name == b"transfer-encoding"
    if size > largest:
        raise too_large(largest)
    return largest if chunked else size


async def read_body(receive: Receive, largest: int, patience: float) -> bytes:
    """The request's body; a Refusal if it is too large (the rest is not read), or too slow."""
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(patience):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the request was not complete", (b"connection", b"close"))
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > largest:
                    raise too_large(largest)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive in {patience:g} s", (b"connection", b"close")) from None
    return b"".join(parts)


def too_large(largest: int) -> Refusal:
    """The refusal of a body of more bytes than that."""
    return Refusal(413, f"a body may have {largest} bytes", (b"connection", b"close"))


def said(detail: str) -> bytes:
    """An error as JSON."""
    return msgspec.json.encode({"error": detail})


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = b"application/json",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    """Send a whole answer."""
    length = str(len(body)).encode()
    lines = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
