"""What a client may take of the server before it has shown a token: memory, time, and connections.

A `Connection` stands between a socket and uvicorn's protocol, to which it hands on what it hears. It reads
along with a parser of its own, of the kind that uvicorn has. So it knows at any time what of a request is
still missing, and it touches nothing that is private to uvicorn.

Everything runs in the event loop. Three tell a connection something: the socket (`connection_made`, then any
of `data_received`, `pause_writing` and `resume_writing`, and `connection_lost` at the end, once); the
application (`admit` and `answered`, by way of `gate`); and the clocks that it has set itself. Each of them
writes the fields of this connection alone. Only `Connections` knows all of them.

What always holds between two steps of the loop: a connection is in one of the two dictionaries of
`Connections` from its beginning until it is lost, or gives way to another. `_deadline` is a clock that ends
the connection: it runs until the head of a request is there, from the beginning of the connection or from the
first byte of a later request, and behind a refusal. `_stalled` is a clock that runs while the client has to
take something. Once `_is_heard` is False, nothing that comes is read any more. The limits below, and those
that `Connections` is given, say who is refused, and change no answer of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onlinecal.engine.http.gate import CALLER

LARGEST_HEAD = 1 << 15
"""Bytes of a request beside its body: its address, headers and trailers. What marks the chunks of a body may
take as many bytes as the body itself."""
MOST_HEADERS = 100

TOO_LARGE = (
    f"a request may have {MOST_HEADERS} headers, and {LARGEST_HEAD} bytes beside its body: send fewer, or "
    "shorter ones"
)

MOST_ON_THE_WAY = 32
"""How many requests a client may send on one connection without waiting for their answers."""

READ_BYTES = 1 << 14
"""Bytes that are read at a time; the sizes are compared with the limits after each."""

FAREWELL = 2.0
"""Seconds in which a client that was refused may read why. What it still sends is dropped."""


class TooLarge(Exception):
    """A request has too much beside its body, or a connection too many requests."""


class RequestReader:
    """Reads the requests of a connection, and keeps nothing of them but their sizes.

    Attributes
    ----------
    heads
        Requests whose head was read and that are not answered.
    whole
        The same of requests that were read to their end.
    is_inside
        Whether a request has begun and is not at its end.
    """

    def __init__(self) -> None:
        self.heads = self.whole = 0
        self.is_inside = False
        self._bytes = self._body = self._headers = 0
        self._parser = httptools.HttpRequestParser(cast(Any, self))
        # as in uvicorn's: a client may go on sending after the last request of a connection
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def read(self, data: bytes) -> None:
        """Read what comes next; raises TooLarge, or an error of httptools for what is no HTTP."""
        for start in range(0, len(data), READ_BYTES):
            part = memoryview(data)[start : start + READ_BYTES]
            try:
                self._parser.feed_data(part)
            except httptools.HttpParserCallbackError as error:
                raise error.__context__ or error from None
            if self.is_inside:
                self._bytes += len(part)
                if self._bytes - self._body > LARGEST_HEAD + self._body:
                    raise TooLarge

    def answered(self) -> None:
        """A request was answered, perhaps before all of it was read."""
        self.heads -= 1
        self.whole -= 1

    # -- what the parser calls

    def on_message_begin(self) -> None:
        """A request begins."""
        if self.heads >= MOST_ON_THE_WAY:
            raise TooLarge
        self.is_inside = True
        self._bytes = self._body = self._headers = 0

    def on_header(self, _name: bytes, _value: bytes) -> None:
        """A header or a trailer ends."""
        self._headers += 1
        if self._headers > MOST_HEADERS:
            raise TooLarge

    def on_headers_complete(self) -> None:
        """The head of a request ends."""
        self.heads += 1

    def on_body(self, body: bytes) -> None:
        """A part of a body was read."""
        self._body += len(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        self.is_inside = False
        self.whole += 1


class Connections:
    """The open connections of a server.

    Parameters
    ----------
    most
        How many there may be. Where there are as many, a new one takes the place of one that is not owed an
        answer: if possible of one without an admitted request, and of these of the oldest.
    patience
        Seconds in which the head of a request must arrive: the first from the beginning of the connection,
        each other one from its first byte. And seconds in which a client must take a part of its answer.
    farewell
        What is sent to a client that is refused before its request can be answered: bytes, by the status.
    """

    def __init__(self, most: int, patience: float, farewell: Callable[[int, str], bytes]) -> None:
        self._most, self.patience, self.farewell = most, patience, farewell
        # those without an admitted request, and those with one; first those that are not used for longest
        self._strangers: dict[Connection, None] = {}
        self._admitted: dict[Connection, None] = {}

    def __call__(self, **settings: Any) -> Connection:
        """A new connection, as uvicorn makes them."""
        return Connection(self, **settings)

    def add(self, connection: Connection) -> bool:
        """Add a connection; whether there is a place for it."""
        is_full = len(self._strangers) + len(self._admitted) >= self._most
        self._strangers[connection] = None
        if not is_full:
            return True
        for some in (self._strangers, self._admitted):
            for other in some:
                if other is not connection and other.gives_way():
                    self.remove(other)
                    other.end()
                    return True
        return False

    def admit(self, connection: Connection) -> None:
        """Put a connection among those with an admitted request."""
        if self.remove(connection):
            self._admitted[connection] = None

    def remove(self, connection: Connection) -> bool:
        """Forget a connection; whether it was known."""
        known = connection in self._strangers or connection in self._admitted
        self._strangers.pop(connection, None)
        self._admitted.pop(connection, None)
        return known


class Connection(asyncio.Protocol):
    """A connection: what it hears goes to uvicorn's protocol, as long as it keeps within the limits.

    `settings` are those by which uvicorn makes its own protocol.
    """

    def __init__(self, connections: Connections, *, app_state: dict[str, Any], **settings: Any) -> None:
        self._connections, self._reader = connections, RequestReader()
        self._server = HttpToolsProtocol(app_state={**app_state, CALLER: self}, **settings)
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._is_heard = True
        self.is_surplus = False

    # -- what the application says

    def admit(self) -> None:
        """The request has the token, or none is needed."""
        self._connections.admit(self)

    def answered(self) -> None:
        """The answer to a request was sent."""
        self._reader.answered()
        if (
            self._reader.heads <= 0
            and self._deadline is None
            and (self._reader.is_inside or not self._is_heard)
        ):
            # a part of a request was heard already: the rest of this one, or the next one
            self._end_after(self._connections.patience)

    # -- what the socket says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        # `pause_writing` is called whenever a client does not take all that is sent
        self._transport.set_write_buffer_limits(0)
        self.is_surplus = not self._connections.add(self)
        self._end_after(self._connections.patience)
        self._server.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        if not self._is_heard:
            return
        try:
            self._reader.read(data)
        except TooLarge:
            self._refuse(431, TOO_LARGE)
            return
        except httptools.HttpParserUpgrade:
            # nothing else is spoken here: uvicorn answers the request as any other
            pass
        except httptools.HttpParserError:
            # uvicorn finds the same, answers it, and closes
            self._is_heard = False
        self._server.data_received(data)
        if self._reader.heads > 0:
            self._end_never()
        elif self._deadline is None:
            self._end_after(self._connections.patience)

    def eof_received(self) -> None:
        """A client sends no more."""
        self._server.eof_received()

    def pause_writing(self) -> None:
        """A client does not take its answer as fast as it comes."""
        self._watch_writing()
        self._server.pause_writing()

    def resume_writing(self) -> None:
        """A client has taken all that was sent."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._server.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._connections.remove(self)
        self._end_never()
        if self._stalled is not None:
            self._stalled.cancel()
        self._server.connection_lost(exc)

    # -- how it ends

    def gives_way(self) -> bool:
        """Whether another connection may take its place: it is owed no answer, or does not take it."""
        return self._reader.whole <= 0 or self._stalled is not None

    def end(self) -> None:
        """Close the connection; what the client has not taken is lost."""
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def _end_never(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_after(self, seconds: float) -> None:
        self._end_never()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._end_in_time)

    def _end_in_time(self) -> None:
        if self._is_heard and self._reader.is_inside and not self._transport.is_closing():
            self._refuse(408, f"the request did not arrive in {self._connections.patience:g} s: try again")
        else:
            self.end()

    def _refuse(self, status: int, why: str) -> None:
        """Tell a client that it is not heard any more, and why if no other answer is under way."""
        self._is_heard = False
        if self._reader.heads > 0 or self._transport.is_closing():
            self._transport.abort()
            return
        # to close at once, with something unread, would take the answer from the client
        self._transport.write(self._connections.farewell(status, why))
        if not self._transport.is_closing():
            self._transport.write_eof()
        self._end_after(FAREWELL)

    def _watch_writing(self, before: int = -1) -> None:
        """Give a client up that has taken nothing for too long."""
        size = self._transport.get_write_buffer_size()
        if size == before:
            self._transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._stalled = loop.call_later(self._connections.patience, self._watch_writing, size)
