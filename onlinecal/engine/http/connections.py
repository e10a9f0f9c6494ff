"""Connections: how many a client may have, how long each may wait, and how much of it waits in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from onlinecal.engine.http.app import PATIENCE
from onlinecal.engine.http.gate import network_of, said

MOST_CONNECTIONS = 1_000
MOST_OF_A_CLIENT = 250

LONGEST_HEAD = 1 << 16
"""Bytes of a request that are not its body, and of what comes after an answer and is no request."""

MOST_HEADERS = 100

SLICE = 512
"""Bytes that are parsed at a time: the requests in them are all that can wait for the one before."""

KEEP_ALIVE = 30.0
"""Seconds between two requests of a connection, and in which an answer must have been taken."""

GRACE = 10.0
"""Seconds that requests under way get when the server stops."""

_no_room = said("too many connections, come back later")
NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"retry-after: 1\r\nconnection: close\r\n\r\n%b" % (len(_no_room), _no_room)
)


class Crowd:
    """All connections of a server, those of each client in the order in which they came.

    For a new one that is too many, the oldest goes that can be spared: it waits for its client to send a
    request or to take an answer, or the client has sent requests ahead.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_of_a_client: int = MOST_OF_A_CLIENT) -> None:
        self.most, self._most_of_a_client = most, most_of_a_client
        self._all: dict[Connection, None] = {}
        self._of: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def admit(self, new: Connection, client: str) -> bool:
        """Whether there is room for a connection, if need be in the place of another."""
        for most, among in ((self._most_of_a_client, self._of[client]), (self.most, self._all)):
            if len(among) >= most:
                spare = next((one for one in among if one.can_be_spared), None)
                if spare is None:
                    break
                spare.leave()
        else:
            self._all[new] = self._of[client][new] = None
            return True
        return False

    def forget(self, gone: Connection, client: str) -> None:
        """A connection has ended."""
        self._all.pop(gone, None)
        self._of[client].pop(gone, None)
        if not self._of[client]:
            del self._of[client]


class Alarm:
    """Calls a function in some seconds, unless it is stopped; starting it again changes nothing."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """From now on, unless it runs already."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._ring_once)

    def stop(self) -> None:
        """Not any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring_once(self) -> None:
        self._handle = None
        self._ring()


class Flow(FlowControl):
    """Flow control that reads nothing more while a request waits for the one before it."""

    held = False

    def resume_reading(self) -> None:
        """Read on, unless a request waits."""
        if not self.held:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """Ends connections on which nothing gets on, and holds back requests that come before they are due.

    Requests are answered in their order, so what a client sends ahead is left unparsed, in the end in its own
    machine; answers wait for the client to take the one before.
    """

    flow: Flow
    crowd = Crowd()
    patience, silence, grace = PATIENCE, KEEP_ALIVE, GRACE

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request, if there is room."""
        super().connection_made(transport)
        self.flow = Flow(transport)
        # any byte that the client has not taken holds back the next answer, and starts the alarm
        transport.set_write_buffer_limits(high=0)
        self._address = network_of(self.client[0] if self.client else "")
        self._rest = memoryview(b"")
        self._unheard = 0
        self._late = Alarm(self.loop, self.patience, self._give_up)
        self._unread = Alarm(self.loop, self.silence, self.leave)
        if self.crowd.admit(self, self._address):
            self._late.start()
        else:
            transport.write(NO_ROOM)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.crowd.forget(self, self._address)
        self._late.stop()
        self._unread.stop()
        super().connection_lost(exc)

    def leave(self) -> None:
        """End it now: what the client has not taken is dropped."""
        self.crowd.forget(self, self._address)
        self.transport.abort()

    def shutdown(self) -> None:
        """End it when what is under way has been answered, or at the end of the grace."""
        super().shutdown()
        self.loop.call_later(self.grace, self.leave)

    def pause_writing(self) -> None:
        """Bytes of an answer wait for the client."""
        super().pause_writing()
        self._unread.start()

    def resume_writing(self) -> None:
        """The client has taken all."""
        super().resume_writing()
        self._unread.stop()

    def data_received(self, data: bytes) -> None:
        """Take in requests."""
        self._rest = memoryview(bytes(self._rest) + data) if self._rest else memoryview(data)
        self._parse()

    def on_response_complete(self) -> None:
        """Go on with what has waited."""
        super().on_response_complete()
        self._parse()

    def on_message_begin(self) -> None:
        """The beginning of a request."""
        super().on_message_begin()
        self._unheard = 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse the request (400) if it has too many."""
        if len(self.headers) == MOST_HEADERS:
            raise ValueError(f"a request may have {MOST_HEADERS} headers")
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Part of a body: it may come in chunks whose frames are as long as itself."""
        if not self.cycle.response_complete:
            self._unheard -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._unheard = 0
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        # the request has been taken for a plain one, but what follows cannot be parsed any more
        self.cycle.keep_alive = False

    @property
    def can_be_spared(self) -> bool:
        """Whether this is not a client that waits for the answer to its only request."""
        return self._wants_request or self.flow.write_paused or bool(self.pipeline)

    @property
    def _wants_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _parse(self) -> None:
        """Parse what has come, up to a request that has to wait."""
        while self._rest and not self.pipeline and not self.transport.is_closing():
            part, self._rest = self._rest[:SLICE], self._rest[SLICE:]
            self._unheard += len(part)
            super().data_received(bytes(part))
            if self._unheard > LONGEST_HEAD:
                self.leave()
        if self.transport.is_closing():
            return
        held, self.flow.held = self.flow.held, bool(self.pipeline)
        if held:
            self.flow.resume_reading()
        if not self._wants_request:
            self._late.stop()
        elif self._unheard:
            self._late.start()

    def _give_up(self) -> None:
        if self._wants_request:
            self.transport.close()
