"""The checks that a request has to pass first: who may ask, from which page, and how much.

(Starlette's own check of hosts answers a bare 400 that does not say what is wrong, and only its newer
releases read the name [::1].)
"""

from __future__ import annotations

import asyncio
import hmac
import re

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onlinecal.engine.ledger.file import LedgerError

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

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            self._check(scope)
            # routes that find an "app" in their scope raise refusals, instead of answering them
            scope["app"] = self
            await self.app(scope, receive, with_headers)
        except (HTTPException, LedgerError) as error:
            refusal = error if isinstance(error, HTTPException) else HTTPException(503, str(error))
            status, detail = refusal.status_code, refusal.detail
            if detail in ("Not Found", "Method Not Allowed"):
                detail += f": {scope['method']} {scope['path']}, see docs/engine-contract.md"
            body = msgspec.json.encode({"error": detail})
            answer = Response(body, status, refusal.headers, "application/json")
            await answer(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise HTTPException(400, "a request has one Host header, this one has several")
        host = headers.get(b"host", b"")
        if self._hosts is not None and name_of(host) not in self._hosts:
            raise HTTPException(421, "the Host header must name the loopback address of this server")
        origin = headers.get(b"origin")
        foreign = origin is not None and origin.partition(b"://")[2] != host
        if foreign and scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(403, "pages of another origin may not send events")
        if self._token is not None and scope["path"] not in self._public:
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
                detail = "the header Authorization: Bearer TOKEN is needed, with the right token"
                raise HTTPException(401, detail, {"www-authenticate": "Bearer"})


def check_token(token: str) -> str:
    """A token, checked: it can stand in a header, and is hard to guess."""
    if not re.fullmatch(r"[!-~]{16,}", token):
        raise ValueError(f"token must have at least 16 ASCII characters, no spaces; it has {len(token)}")
    return token


def name_of(host: bytes) -> bytes:
    """A Host header without its port; empty if it is none."""
    match = _host.fullmatch(host)
    return match[1].lower() if match else b""


def size_of_body(scope: Scope, largest: int) -> int:
    """The size of the body, or an upper bound; it is refused if it is too large, or compressed."""
    headers = dict(scope["headers"])
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise cut_off(415, "compressed bodies are not read")
    size = int(headers.get(b"content-length", 0))
    if size > largest:
        raise cut_off(413, f"a body may have {largest} bytes")
    return largest if b"transfer-encoding" in headers else size


async def read_body(receive: Receive, largest: int, patience: float) -> bytes:
    """The request's body; it is refused if it is too large (the rest is not read), or too slow."""
    body, more = b"", True
    try:
        async with asyncio.timeout(patience):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise cut_off(400, "the request was not complete")
                body += message.get("body", b"")
                if len(body) > largest:
                    raise cut_off(413, f"a body may have {largest} bytes")
                more = message.get("more_body", False)
    except TimeoutError:
        raise cut_off(408, f"the body did not arrive in {patience:g} s") from None
    return body


def cut_off(status: int, detail: str) -> HTTPException:
    """A refusal that ends the connection, since the rest of a body may still come on it."""
    return HTTPException(status, detail, {"connection": "close"})
