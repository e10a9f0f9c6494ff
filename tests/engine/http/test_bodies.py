"""Large bodies: how many are held at a time, and who gives way."""

import asyncio
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from starlette.exceptions import HTTPException

from onlinecal.engine.http.bodies import LARGE_BODY, Body, Room

HALF = {"type": "http.request", "body": b" " * (LARGE_BODY + 1), "more_body": True}
REST = {"type": "http.request", "body": b" ", "more_body": False}


class Sender:
    """A client that sends half a body, and the rest when it is told to."""

    def __init__(self, room):
        self.rest, self.body = asyncio.Event(), Body(room)
        self.messages = [HALF, REST]
        self.reading = asyncio.create_task(self.read())

    async def read(self):
        try:
            return len(await self.body.read(self.receive, 1 << 20, 10.0))
        except HTTPException as refusal:
            self.body.leave()
            return refusal.status_code, refusal.detail

    async def receive(self):
        message = self.messages.pop(0)
        if message is REST:
            await self.rest.wait()
        return message

    async def ends(self):
        """How its body ends: with how many bytes, or with a status and why."""
        return await asyncio.wait_for(self.reading, 5)


SLOW = 408, "the body did not arrive in time, and others wait: send it again, or fewer events"


@contextmanager
def senders(room, number):
    some = [Sender(room) for _ in range(number)]
    yield some
    for one in some:
        one.reading.cancel()


async def passes(sender):
    """Whether a body goes on arriving."""
    await asyncio.sleep(0.02)
    return not sender.messages and not sender.reading.done()


async def test_a_large_body_waits_for_a_place_and_keeps_it_until_it_is_answered():
    room = Room(places=1)
    with senders(room, 2) as (first, second):
        assert await passes(first)
        assert not await passes(second)
        first.rest.set()
        assert await first.ends() == LARGE_BODY + 2
        # it has arrived, so it is not slow, whoever waits
        assert not await passes(second)
        first.body.leave()
        assert await passes(second)


async def test_slow_bodies_give_way_as_many_as_others_wait_and_only_then():
    room = Room(places=3, fair_share=0.1)
    with senders(room, 3) as slow:
        await asyncio.sleep(0.2)
        assert not any(one.reading.done() for one in slow)
        with senders(room, 2) as others:
            for one in others:
                one.rest.set()
            assert [await one.ends() for one in others] == [LARGE_BODY + 2] * 2
            assert [one.reading.done() for one in slow] == [True, True, False]
            assert [await one.ends() for one in slow[:2]] == [SLOW, SLOW]


async def test_a_body_that_has_just_begun_has_its_share_of_time_even_if_others_wait():
    room = Room(places=1, fair_share=0.2)
    with senders(room, 3) as (first, second, third):
        assert await passes(first)
        first.rest.set()
        assert await first.ends() == LARGE_BODY + 2
        first.body.leave()
        assert await passes(second)
        assert await second.ends() == SLOW
        assert await passes(third)


async def test_who_no_longer_waits_takes_no_place():
    room = Room(places=1)
    with senders(room, 3) as (first, second, third):
        await passes(first)
        second.reading.cancel()
        first.rest.set()
        await first.ends()
        first.body.leave()
        assert await passes(third)
        third.body.leave()
        # admitted and cancelled in the same breath
        entering = asyncio.create_task(room.enter())
        await asyncio.sleep(0)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        room.leave()
        await asyncio.wait_for(room.enter(), 1)


async def test_who_is_cancelled_just_before_a_place_is_free_is_cancelled_and_nothing_else():
    room = Room(places=1)
    await room.enter()
    waiting = asyncio.create_task(room.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    room.leave()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(room.enter(), 1)


@pytest.mark.parametrize("size", [1, LARGE_BODY])
async def test_small_bodies_need_no_place(size):
    body = Body(Room(places=0))
    messages = [{"type": "http.request", "body": b" " * size, "more_body": False}]

    async def receive():
        return messages.pop()

    assert len(await body.read(receive, 1 << 20, 1.0)) == size
