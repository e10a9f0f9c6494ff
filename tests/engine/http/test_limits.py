"""What the HTTP server bears by itself: large and slow bodies, many connections, lines of the log, an end."""

import asyncio
import contextlib
import logging
import socket
import time
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from onlinecal.engine import AsyncEngine
from onlinecal.engine.http.server import RateLimit, serve

HEAD = b"Host: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n"
BODY = b"POST /query HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n{"
NO_REQUEST = b"\x16\x03\x01 no request\r\n\r\n"
CHUNKED = b"POST /query HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


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


async def asked(port, sent=HEALTH):
    """All that a server answers on a connection of its own until it or we end it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        async with asyncio.timeout(20):
            return await reader.readuntil(b'"ok"}') if sent is HEALTH else await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_it_listens_before_any_key_is_read(monkeypatch):
    monkeypatch.setattr("onlinecal.engine.engine.Engine.total", None)
    async with served() as port:
        assert b"200 OK" in await asked(port)


@pytest.mark.parametrize(
    ("sent", "status"),
    [(BODY, b"408"), (CHUNKED + b"ffffffff\r\n" + b" " * (1 << 21), b"413"), (NO_REQUEST, b"400")],
)
async def test_a_slow_an_endless_and_a_malformed_request_are_ended(sent, status):
    async with served(patience=0.3) as port:
        heard = await asked(port, sent)
        # who still sends may find the connection closed before it has read the answer
        assert heard.split()[1] == status if heard else status == b"413"
        assert b"200 OK" in await asked(port)


async def test_a_silent_connection_is_closed_after_its_last_request():
    async with served(silence=1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEALTH)
        await reader.readuntil(b'"ok"}')
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


async def test_above_the_most_connections_requests_are_refused_until_others_end():
    async with served(connections=3) as port:
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        await asyncio.sleep(0.1)
        refused = await asked(port, BODY)
        assert refused.startswith(b"HTTP/1.1 503 ")
        for _, writer in others:
            writer.close()
        await asyncio.sleep(0.1)
        assert b"200 OK" in await asked(port)


async def test_clients_that_never_read_nor_finish_do_not_hold_up_the_end():
    clients = []
    async with served(grace=1, patience=1_000.0) as port:
        for sent, times in ((HEALTH * 5_000, 20), (BODY, 1), (b"", 1), (b"POST /query HTTP/1.1\r\n", 1)):
            clients.append(client := socket.create_connection(("127.0.0.1", port)))
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(times):
                    client.send(sent)
                    await asyncio.sleep(0.01)
        assert b"200 OK" in await asked(port)
        start = time.perf_counter()
    assert time.perf_counter() - start < 10
    for client in clients:
        client.close()


async def test_malformed_requests_do_not_fill_the_log(caplog):
    async with served() as port:
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)
        try:
            answers = [await asked(port, NO_REQUEST) for _ in range(30)]
        finally:
            logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert [answer.split()[1] for answer in answers] == [b"400"] * 30
    assert caplog.messages.count("Invalid HTTP request received.") == len(caplog.messages) == 1
    assert not logging.getLogger("uvicorn.error").filters


def test_what_was_kept_back_from_the_log_is_counted():
    now = [0.0]
    seldom = RateLimit(60.0, clock=lambda: now[0])
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
