"""The HTTP server among clients that take more than their share: of memory, connections, lines of the log."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from onlinecal.engine import AsyncEngine
from onlinecal.engine.http.connections import LONGEST_HEAD, MOST_HEADERS, SLICE, Crowd
from onlinecal.engine.http.gate import network_of
from onlinecal.engine.http.server import KERNEL, Seldom, serve

HEAD = b"Host: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n"


@asynccontextmanager
async def served(**settings):
    """A server in this process: its port; afterwards it is told to stop."""
    listening = asyncio.get_running_loop().create_future()
    async with AsyncEngine() as engine:
        serving = asyncio.create_task(serve(engine, port=0, ready=listening.set_result, **settings))
        async with asyncio.timeout(60):
            yield int((await listening).rpartition(":")[2])
        serving.cancel()
        done, _ = await asyncio.wait([serving], timeout=20)
        assert done
        assert serving.cancelled()


async def until(true):
    """Wait for something, but not for ever."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


async def asked(port, sent=HEALTH):
    """All that a server answers on a connection of its own until it or we end it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        return await reader.readuntil(b'"ok"}') if sent is HEALTH else await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def never_reading(port):
    """A connection whose buffers are small."""
    client = socket.socket()
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        client.setsockopt(socket.SOL_SOCKET, buffer, KERNEL)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


def push(client, ahead=HEALTH * 2_000):
    """Send what goes without waiting; how much that was."""
    sent = 0
    try:
        while True:
            sent += client.send(ahead[sent % len(HEALTH) :])
    except BlockingIOError:
        return sent


def test_a_client_that_sends_ahead_and_never_reads_is_held_back():
    async def main():
        crowd, sent = Crowd(), 0

        def held_back():
            nonlocal sent
            more = push(client)
            sent += more
            # a server that takes in all there is keeps kilobytes for each of these requests
            assert sent < 3_000_000
            return not more and all(one.flow.held and one.flow.write_paused for one in crowd._all)

        async with served(crowd=crowd, silence=1_000.0, rate=None, grace=0.1) as port:
            with never_reading(port) as client:
                await until(lambda: crowd._all)
                await until(held_back)
                [connection] = crowd._all
                assert len(connection.pipeline) <= SLICE // len(HEALTH) + 1
                assert len(connection._rest) <= 4 * KERNEL
                assert connection.transport.get_write_buffer_size() < 2_000
                assert b"200 OK" in await asked(port)

    asyncio.run(main())


def test_a_client_that_takes_no_answers_is_dropped():
    async def main():
        def dropped():
            try:
                push(client)
            except ConnectionError:
                return True
            return False

        async with served(silence=0.2, rate=None) as port:
            with never_reading(port) as client:
                await until(dropped)

    asyncio.run(main())


def test_clients_that_never_read_do_not_hold_up_the_end():
    async def main():
        crowd = Crowd()
        async with served(crowd=crowd, silence=1_000.0, grace=0.3, rate=None) as port:
            clients = [never_reading(port) for _ in range(3)]

            def all_wait():
                for client in clients:
                    push(client)
                return len(crowd._all) == 3 and all(one.flow.write_paused for one in crowd._all)

            await until(all_wait)
        for client in clients:
            client.close()

    asyncio.run(main())


def test_requests_that_are_sent_ahead_are_answered_in_their_order():
    def query(name):
        body = json.dumps({"id": name, "key": "k"}).encode()
        return b"POST /query HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (HEAD, len(body), body)

    async def main():
        async with served() as port:
            last = HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            names = [f"q{i}/" + "x" * (i % 150) for i in range(500)]
            sent = b"".join(query(name) + HEALTH * (i % 3) for i, name in enumerate(names)) + last
            answers = (await asked(port, sent)).split(b"\r\n\r\n")
            found = [json.loads(answer.partition(b"HTTP/1.1")[0]) for answer in answers[1:]]
            assert [one["id"] for one in found if "id" in one] == names
            assert found.count({"status": "ok"}) == sum(i % 3 for i in range(500)) + 1

    asyncio.run(main())


class Visitor:
    """A connection as a crowd sees it."""

    def __init__(self, crowd, client, spare=True):
        self.crowd, self.client, self.can_be_spared, self.gone = crowd, client, spare, False

    def leave(self):
        self.gone = True
        self.crowd.forget(self, self.client)


def test_of_a_crowd_the_oldest_goes_that_can_be_spared():
    crowd = Crowd(most=4, most_of_a_client=2)
    first, second, third = (Visitor(crowd, "a", spare) for spare in (False, True, False))
    assert all(crowd.admit(one, "a") for one in (first, second, third))
    assert [one.gone for one in (first, second, third)] == [False, True, False]
    assert not crowd.admit(Visitor(crowd, "a"), "a")
    others = [Visitor(crowd, name) for name in "bcdef"]
    assert all(crowd.admit(one, one.client) for one in others)
    assert [one.gone for one in others] == [True, True, True, False, False]
    for one in (first, third, *others):
        crowd.forget(one, one.client)
    assert not crowd._all
    assert not crowd._of


def test_idle_connections_make_room_for_who_asks_and_busy_ones_do_not():
    async def main():
        crowd = Crowd(most_of_a_client=3)
        async with served(crowd=crowd) as port:
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            await until(lambda: len(crowd._all) == 3)
            assert b"200 OK" in await asked(port)
            assert await idle[0][0].read() == b""
            await until(lambda: len(crowd._all) == 2)
            body = b"POST /query HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n{"
            busy = [*idle[1:], await asyncio.open_connection("127.0.0.1", port)]
            for _, writer in busy:
                writer.write(body)
            await until(lambda: not any(one.can_be_spared for one in crowd._all))
            refused = await asked(port, b"GET")
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert "error" in json.loads(refused.partition(b"\r\n\r\n")[2])
            for _, writer in (*idle, *busy):
                writer.close()

    asyncio.run(main())


CHUNKED = b"POST /nothing HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
QUERY = CHUNKED.replace(b"nothing", b"query")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /health HTTP/1.1\r\n" + HEAD + b"ab: c\r\n" * MOST_HEADERS + b"\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\n" + HEAD + b"x: " + b"y" * (3 * LONGEST_HEAD), b""),
        (QUERY + b"0\r\n" + b"x: " + b"y" * (3 * LONGEST_HEAD), b""),
        # the answer comes before the body, which nobody reads
        (CHUNKED + b"ffffffff\r\n" + b"y" * (8 * LONGEST_HEAD), b"404"),
        (
            QUERY + b"100000\r\n" + b" " * (1 << 20) + b"\r\n1\r\n \r\n",
            b"413",
        ),
    ],
)
def test_what_is_no_request_and_no_body_is_not_read_for_ever(sent, status):
    async def main():
        async with served(patience=1_000.0, silence=1_000.0) as port:
            heard = await asked(port, sent)
            assert not heard or heard.split()[1] == status

    asyncio.run(main())


def test_an_upgrade_is_answered_as_the_plain_request_that_it_is():
    async def main():
        async with served(silence=1_000.0) as port:
            upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"
            heard = await asked(port, HEALTH[:-2] + upgrade + b"more")
            assert heard.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in heard

    asyncio.run(main())


class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def test_malformed_requests_do_not_fill_the_log():
    async def main():
        kept = Kept()
        async with served() as port:
            logging.getLogger("uvicorn.error").addHandler(kept)
            try:
                answers = [await asked(port, b"\x16\x03\x01 no request\r\n\r\n") for _ in range(30)]
                answers += [await asked(port, HEALTH[:-2] + b"Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n")]
            finally:
                logging.getLogger("uvicorn.error").removeHandler(kept)
        assert [answer.split()[1] for answer in answers] == [b"400"] * 30 + [b"200"]
        assert kept.lines == ["Invalid HTTP request received."]

    asyncio.run(main())
    assert not logging.getLogger("uvicorn.error").filters


def test_what_was_kept_back_from_the_log_is_counted():
    now = [0.0]
    seldom = Seldom(60.0, clock=lambda: now[0])
    lines = []
    for second in (0, 1, 2, 70, 71, 200):
        now[0] = second
        record = logging.makeLogRecord({"msg": "no %s\n", "args": ("request",)})
        if seldom.filter(record):
            lines.append(record.getMessage())
    assert lines == [
        "no request\n",
        "no request (2 more since this was said last)",
        "no request (1 more since this was said last)",
    ]


def test_a_client_has_one_ipv4_address_or_a_network_of_ipv6():
    assert network_of("10.0.0.1") != network_of("10.0.0.2")
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("") == ""
