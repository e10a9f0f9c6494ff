"""The bodies of requests: how large they may be, how long they may take, and how many are held at a time.

Everything runs in the event loop. An application (`create_app`) has one `Room`, and for each request that
brings events calls `check_size`, `Body.read` and, once its answer is made or it was given up, `Body.leave`;
only `Body` calls the room. A body takes a place once it is large (`Room.enter`), is `arriving` until it has
`arrived`, and gives its place back when the answer to its request is made (`Body.leave`), before that is
sent. What always holds between two steps: somebody waits in `_queue` only while no place is free; `_arriving`
has the bodies with a place that are still read, in the order in which they began. The numbers below say who
waits and who is refused, and change no answer of the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope

LARGE_BODY = 1 << 14
"""A body of more bytes is large. It needs a place from when so many have come until it is answered."""

PLACES = 128
"""How many large bodies are held at a time; others wait until there is a place."""

FAIR_SHARE = 1.0
"""Seconds after which a large body that has not arrived loses its place, if others wait for one."""


class Room:
    """Places for large bodies: first come, first served. A slow one loses its place when others wait.

    Parameters
    ----------
    places
        How many there are.
    fair_share
        Seconds in which a body must arrive, once it has its place, if others wait for one.
    """

    def __init__(self, places: int = PLACES, fair_share: float = FAIR_SHARE) -> None:
        self._free, self._fair_share = places, fair_share
        self._queue: deque[asyncio.Future[None]] = deque()
        # the bodies that still arrive, the slowest first: the clock that ends one, and when it began
        self._arriving: dict[asyncio.Timeout, float] = {}
        self._ended: set[asyncio.Timeout] = set()
        self._next_look: asyncio.TimerHandle | None = None

    async def enter(self) -> None:
        """Take a place, as soon as one is free and all who came before have theirs."""
        if self._free:
            self._free -= 1
            return
        admitted = asyncio.get_running_loop().create_future()
        self._queue.append(admitted)
        self._look()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.leave()
            else:
                # `leave` may have passed over it since it was cancelled
                with suppress(ValueError):
                    self._queue.remove(admitted)
            raise

    def leave(self) -> None:
        """Give a place back."""
        while self._queue:
            admitted = self._queue.popleft()
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1

    def arriving(self, clock: asyncio.Timeout) -> None:
        """The rest of a body with a place is read from now on, until its clock is over."""
        self._arriving[clock] = asyncio.get_running_loop().time()
        self._look()

    def arrived(self, clock: asyncio.Timeout) -> None:
        """A body is there, or was given up."""
        self._arriving.pop(clock, None)
        self._ended.discard(clock)

    def has_ended(self, clock: asyncio.Timeout) -> bool:
        """Whether a body had to go for others who wait."""
        return clock in self._ended

    def _look(self) -> None:
        """End the slowest bodies, as many as there are others who wait, if they have had their share."""
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        loop = asyncio.get_running_loop()
        for clock, since in list(self._arriving.items())[: len(self._queue) - len(self._ended)]:
            if since + self._fair_share > loop.time():
                self._next_look = loop.call_at(since + self._fair_share, self._look)
                return
            del self._arriving[clock]
            self._ended.add(clock)
            clock.reschedule(loop.time())


class Body:
    """The body of a request, and its place in a room once it has one."""

    def __init__(self, room: Room) -> None:
        self._room, self._has_place = room, False

    async def read(self, receive: Receive, largest: int, patience: float) -> bytes:
        """All of it; refused if it has more than `largest` bytes (the rest is not read), or is too slow.

        It has `patience` seconds, and as many more as it waits for a place.
        """
        body, more, clock = bytearray(), True, asyncio.timeout(patience)
        try:
            async with clock:
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise cut_off(400, "the request was not complete: send it again")
                    body += message.get("body", b"")
                    if len(body) > largest:
                        raise too_large("more", largest)
                    more = message.get("more_body", False)
                    if len(body) > LARGE_BODY and not self._has_place:
                        await self._take_place(clock)
                        if more:
                            self._room.arriving(clock)
        except TimeoutError:
            others = " in time, and others wait" if self._room.has_ended(clock) else f" in {patience:g} s"
            raise cut_off(408, f"the body did not arrive{others}: send it again, or fewer events") from None
        finally:
            self._room.arrived(clock)
        return bytes(body)

    async def _take_place(self, clock: asyncio.Timeout) -> None:
        """Take a place; the clock stands still meanwhile."""
        now, end = asyncio.get_running_loop().time, clock.when()
        began = now()
        clock.reschedule(None)
        await self._room.enter()
        self._has_place = True
        clock.reschedule(None if end is None else end + now() - began)

    def leave(self) -> None:
        """Give the place back."""
        if self._has_place:
            self._has_place = False
            self._room.leave()


def check_size(scope: Scope, largest: int) -> None:
    """Refuse a body that says of itself that it is too large, or compressed."""
    headers = dict(scope["headers"])
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise cut_off(415, "compressed bodies are not read: send it as it is, without Content-Encoding")
    size = int(headers.get(b"content-length", 0))
    if size > largest:
        raise too_large(str(size), largest)


def too_large(size: str, largest: int) -> HTTPException:
    """The refusal of a body that has so many bytes."""
    return cut_off(413, f"a body may have {largest} bytes, this one has {size}: send fewer events at a time")


def cut_off(status: int, detail: str) -> HTTPException:
    """A refusal that ends the connection, since the rest of a body may still come on it."""
    return HTTPException(status, detail, {"connection": "close"})
