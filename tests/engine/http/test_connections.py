"""What clients may take of the server before they have shown a token: memory, time, connections."""

import asyncio
import socket
import time
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

import httptools

from onlinecal.engine import AsyncEngine
from onlinecal.engine.http.connections import (
    FAREWELL,
    LARGEST_HEAD,
    MOST_HEADERS,
    MOST_ON_THE_WAY,
    READ_BYTES,
    RequestReader,
    TooLarge,
)
from onlinecal.engine.http.server import serve

TOKEN = "correct-horse-battery"
HEAD = b"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
RIGHT = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
QUERY = b'{"id":"q","key":"k"}'
ASKED = HEAD + RIGHT + b"Content-Length: %d\r\n\r\n" % len(QUERY) + QUERY


@asynccontextmanager
async def served(**settings):
    """A server in this process that wants a token: its port."""
    listening = asyncio.get_running_loop().create_future()
    async with AsyncEngine() as engine:
        serving = asyncio.create_task(
            serve(engine, port=0, token=TOKEN, ready=listening.set_result, **settings)
        )
        try:
            yield int((await listening).rpartition(":")[2])
        finally:
            serving.cancel()
            await asyncio.wait([serving], timeout=20)


class Client:
    """A connection, and what is sent and heard on it."""

    def __init__(self, reader, writer):
        self._reader, self.writer = reader, writer

    @classmethod
    async def at(cls, port, *sent):
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        for one in sent:
            client.writer.write(one)
        return client

    async def ends(self, seconds=5.0):
        """The statuses of all answers until the server closes the connection; TimeoutError if it does not."""
        heard = b""
        async with asyncio.timeout(seconds):
            try:
                while more := await self._reader.read(1 << 16):
                    heard += more
            except ConnectionError:
                pass
        self.writer.close()
        return [part[:3] for part in heard.split(b"HTTP/1.1 ")[1:]]

    async def status(self):
        """The status of the next answer."""
        async with asyncio.timeout(5):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await self._reader.readexactly(length)
        return head.split()[1]


def lines(number, size):
    return b"".join(b"x-%d: %s\r\n" % (i, b"a" * size) for i in range(number))


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def read_until_it_is_too_much(sent, size):
    """Where the part begins at which a reader stops."""
    reader = RequestReader()
    for start in range(0, len(sent), size):
        try:
            reader.read(sent[start : start + size])
        except (TooLarge, httptools.HttpParserError):
            return start
    raise AssertionError("all was read")


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + lines(MOST_HEADERS + 1, 1),
        HEAD + lines(40, 1 << 10),
        HEAD + b"x: " + b"a" * (1 << 17),
        b"GET /?" + b"a" * (1 << 17),
        b"G" * (1 << 17),
        HEAD + b"a" * (1 << 17),
        CHUNKED + b"1\r\n{\r\n0\r\n" + lines(MOST_HEADERS + 1, 1),
        CHUNKED + b"1\r\n{\r\n0\r\nx: " + b"a" * (1 << 17),
        CHUNKED + b"1;" + b"a" * (1 << 17),
        CHUNKED + b"1\r\n{\r\n" * (1 << 15),
        HEALTH * (MOST_ON_THE_WAY + 1),
    ],
    ids=[
        "lines", "bytes", "one header", "address", "method", "name", "trailers", "one trailer", "extension",
        "chunks of a byte", "requests",
    ],
)  # fmt: skip
def test_a_reader_stops_before_it_has_read_much_more_than_a_request_may_have(sent):
    for size in (1_000, 1 << 18):
        assert read_until_it_is_too_much(sent, size) <= LARGEST_HEAD + READ_BYTES


@pytest.mark.parametrize("size", [1, 7, 1 << 12, 1 << 20])
def test_a_reader_knows_at_any_time_what_of_a_request_is_missing(size):
    head = HEAD + b"x: " + b"a" * (LARGEST_HEAD - 1_000) + b"\r\n" + lines(MOST_HEADERS - 5, 0)
    sized = head + b"Content-Length: 70000\r\n\r\n"
    body = b" " * 70_000
    chunks = b"a\r\n0123456789\r\n" * 4_000 + b"0\r\nlast: 1\r\n\r\n"
    reader, sent = RequestReader(), sized + body + CHUNKED + chunks + HEALTH + HEALTH[:-1]
    ends, heads, whole = 0, 0, 0
    marks = []
    for part, is_head in ((sized, 1), (body, 0), (CHUNKED, 1), (chunks, 0), (HEALTH, 2)):
        ends += len(part)
        heads, whole = heads + min(is_head, 1), whole + (is_head != 1)
        marks.append((ends, heads, whole))
    for start in range(0, len(sent), size):
        reader.read(sent[start : start + size])
        done = start + size
        expected = max(((h, w) for end, h, w in marks if end <= done), default=(0, 0))
        assert (reader.heads, reader.whole) == expected
    assert reader.is_inside
    for _ in range(3):
        reader.answered()
    assert (reader.heads, reader.whole) == (0, 0)


async def test_a_request_with_too_much_beside_its_body_is_told_so_and_takes_no_memory():
    async with served() as port:
        for sent in ([HEAD + lines(MOST_HEADERS + 1, 1)], [HEAD, *[b"x: " + b"a" * (1 << 20) + b"\r\n"] * 8]):
            client = await Client.at(port, *sent)
            assert await client.ends() == [b"431"]
        # a chunked body, whose head could be read, is cut off
        client = await Client.at(port, CHUNKED.replace(b"\r\n\r\n", b"\r\n" + RIGHT + b"\r\n"))
        client.writer.write(b"1\r\n{\r\n0\r\n" + lines(MOST_HEADERS + 1, 1))
        assert await client.ends() in ([], [b"400"])
        assert await (await Client.at(port, ASKED)).status() == b"200"


SLOW = {
    "silent": b"",
    "empty lines": b"\r\n",
    "half a line": b"GET /hea",
    "half a head": HEAD,
    "half a body without the token": HEAD + b"Content-Length: 50\r\n\r\n{",
    "half a body": HEAD + RIGHT + b"Content-Length: 50\r\n\r\n{",
    "half of a second head": ASKED + HEAD,
    "half of a second body": ASKED + HEAD + b"Content-Length: 50\r\n\r\n{",
    "no chunk": HEAD + RIGHT + b"Transfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("trickles", [False, True], ids=["and then nothing", "and then a byte now and then"])
async def test_who_does_not_finish_a_request_is_closed_at_the_deadline(trickles):
    patience = 0.5
    async with served(patience=patience, silence=30) as port:
        start = time.monotonic()
        clients = {name: await Client.at(port, sent) for name, sent in SLOW.items()}
        ends = {name: asyncio.create_task(client.ends(10)) for name, client in clients.items()}
        for _ in range(50 if trickles else 0):
            for name, client in clients.items():
                client.writer.write(b"\r\n"[:2] if name == "empty lines" else b"0"[: name != "silent"])
            await asyncio.sleep(0.1)
            if all(one.done() for one in ends.values()):
                break
        heard = {name: await one for name, one in ends.items()}
        # a head, and then a body, and a farewell
        assert time.monotonic() - start < 2 * patience + FAREWELL + 1
    assert heard["silent"] == []
    assert heard["half a head"] == heard["half a body"] == heard["no chunk"] == [b"408"]
    assert heard["half a body without the token"][0] == b"401"
    assert heard["half of a second head"][0] == b"200"


@pytest.mark.parametrize("sent", SLOW.values(), ids=SLOW)
async def test_a_client_with_the_token_is_served_whoever_holds_all_connections(sent):
    async with served(connections=20) as port:
        known = await Client.at(port, ASKED)
        assert await known.status() == b"200"
        others = [await Client.at(port, sent) for _ in range(30)]
        await asyncio.sleep(0.05)
        for _ in range(3):
            client = await Client.at(port, ASKED)
            assert await client.status() == b"200"
        if RIGHT not in sent:
            # who had the token keeps the connection
            known.writer.write(ASKED)
            assert await known.status() == b"200"
        for one in others:
            one.writer.close()


async def test_who_does_not_take_the_answers_gives_way_and_is_closed(small_buffers):
    page = b"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * MOST_ON_THE_WAY
    with ExitStack() as stack:

        def never_reads(port):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 10)
            client.connect(("127.0.0.1", port))
            client.sendall(page)
            client.setblocking(False)
            return client

        async with served(connections=3, patience=0.2, grace=1) as port:
            client = [never_reads(port) for _ in range(3)][-1]
            await asyncio.sleep(0.2)
            assert await (await Client.at(port, HEALTH)).status() == b"200"
            await asyncio.sleep(1)
            got = b""
            with suppress(ConnectionResetError):
                async with asyncio.timeout(5):
                    while part := await asyncio.get_running_loop().sock_recv(client, 1 << 20):
                        got += part
            assert got.count(b"200 OK") < MOST_ON_THE_WAY


async def test_who_takes_the_answers_late_gets_them_all(small_buffers):
    page = b"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * MOST_ON_THE_WAY
    async with served(grace=1) as port:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 10)
            client.connect(("127.0.0.1", port))
            client.sendall(page)
            client.setblocking(False)
            await asyncio.sleep(0.1)
            got = b""
            async with asyncio.timeout(20):
                while got.count(b"200 OK") < MOST_ON_THE_WAY:
                    got += await asyncio.get_running_loop().sock_recv(client, 1 << 20)


async def test_a_client_may_pause_between_requests_for_longer_than_a_request_may_take():
    async with served(patience=0.2, silence=30) as port:
        client = await Client.at(port, ASKED)
        assert await client.status() == b"200"
        await asyncio.sleep(0.5)
        client.writer.write(ASKED)
        assert await client.status() == b"200"
