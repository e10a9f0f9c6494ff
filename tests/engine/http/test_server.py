"""The engine's HTTP server: where it listens, what it bears by itself, and how it is told to stop."""

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from functools import partial

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

import httpx
import typer

from onlinecal.cli.stream.serve import serve as serve_verb
from onlinecal.engine import AsyncEngine, Engine, Rejected
from onlinecal.engine.http.server import is_loopback, read_token, serve
from onlinecal.engine.watch import overview
from tests.copies import be_process

TOKEN = "correct-horse-battery"
SERVE = "import sys; from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"
HEAD = b"Host: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n"
PAGE = b"GET /page.js HTTP/1.1\r\n" + HEAD + b"\r\n"
BODY = b"POST /query HTTP/1.1\r\n" + HEAD + b"Content-Length: 50\r\n\r\n{"
NO_REQUEST = b"\x16\x03\x01 no request\r\n\r\n"
CHUNKED = b"POST /query HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
async def test_only_loopback_goes_without_a_token(host):
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.8.8.8")))
    with pytest.raises(ValueError, match="token"):
        await serve(AsyncEngine(), host, 0)


@pytest.fixture
def server(tmp_path, request):
    """start(*arguments): a server of its own process, on a free port; (process, address).

    By default it is a copy of this process, in the long form one that a shell starts.
    """
    started = []

    def start(*arguments, **variables):
        given = ["--ledger", str(tmp_path / "ledger.db"), "--port", "0", *arguments]
        begin = partial(be_process, partial(typer.run, serve_verb), given)
        is_slow = request.node.get_closest_marker("slow") is not None
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, *given],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
            preexec_fn=None if is_slow else begin,
        )
        started.append(process)
        line = process.stderr.readline()
        found = re.search(r"listening on (http://\S+)", line)
        assert found, line + process.stderr.read()
        return process, found[1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("as_shells_do", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_server_that_is_told_to_stop_answers_what_is_under_way_and_loses_nothing(
    server, tmp_path, as_shells_do
):
    process, address = server()
    answered = []

    async def caller(client, name):
        for i in range(10_000):
            try:
                answer = await client.post("/query", json={"id": f"{name}/{i}", "key": f"key {name}"})
            except httpx.TransportError:
                return
            assert answer.status_code == 200
            answered.append((answer.json()["id"], answer.json()["probability"]))

    async with httpx.AsyncClient(base_url=address) as client:
        callers = [asyncio.create_task(caller(client, name)) for name in range(8)]
        async with asyncio.timeout(30):
            while len(answered) < 100:
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        await asyncio.gather(*callers)
    assert process.wait(30) == 0
    assert process.stderr.read() == ""
    with Engine(tmp_path / "ledger.db") as engine:
        assert engine._ledger.about("tail") == engine.total().events >= len(answered)
        kept = engine._ledger.recall(id for id, _ in answered)
        assert {(id, record.probability) for id, record in kept.items()} == set(answered)


def test_a_token_is_read_from_a_file_or_else_from_the_environment(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(None) is None
    monkeypatch.setenv("ONLINECAL_TOKEN", "another-token-of-its-own")
    assert read_token(file) == TOKEN
    assert read_token(None) == "another-token-of-its-own"
    for content, count in ((b"\n", "0 characters:"), (b"\xff" * 20, "20 characters, of which 20 may not")):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=rf"token: token must have at least 16 .* got one with {count}"):
            read_token(file)
    monkeypatch.setenv("ONLINECAL_TOKEN", "short")
    with pytest.raises(ValueError, match="ONLINECAL_TOKEN in the environment: token must have"):
        read_token(None)


@pytest.mark.slow
def test_the_token_comes_from_a_file_or_the_environment(server, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    process, address = server("--token-file", str(file), ONLINECAL_TOKEN="another-token-of-its-own")
    right = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(f"{address}/certificate").status_code == 401
    assert httpx.get(f"{address}/certificate", headers=right).status_code == 200
    process.terminate()
    assert process.wait(30) == 0
    process, address = server(ONLINECAL_TOKEN=TOKEN)
    assert httpx.get(f"{address}/certificate").status_code == 401
    assert httpx.get(f"{address}/certificate", headers=right).status_code == 200


async def test_a_port_in_use_is_one_clear_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"127\.0\.0\.1 port {port}: .*in use"):
            await serve(AsyncEngine(), "127.0.0.1", port)


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    from onlinecal.cli.stream import serve as stream_serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("server", "app"):
        monkeypatch.delitem(sys.modules, f"onlinecal.engine.http.{name}", raising=False)
        monkeypatch.delattr(f"onlinecal.engine.http.{name}", raising=False)
    with pytest.raises(ValueError, match=r"in a checkout of onlinecal, pip install '.\[serve\]'"):
        stream_serve.serve(tmp_path / "ledger.db")


@contextlib.asynccontextmanager
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


async def test_above_the_most_connections_requests_are_refused_until_others_end(monkeypatch):
    go_on = asyncio.Event()

    async def handle(self, events):
        await go_on.wait()
        return [Rejected(None, "invalid", "never mind")] * len(events)

    monkeypatch.setattr(AsyncEngine, "handle", handle)
    whole = b"POST /query HTTP/1.1\r\n" + HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
    async with served(connections=3) as port:
        others = [asyncio.create_task(asked(port, whole)) for _ in range(3)]
        await asyncio.sleep(0.1)
        for _ in range(2):
            refused = await asked(port, BODY)
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b'"error":"too many connections' in refused
        go_on.set()
        assert [answer.split()[1] for answer in await asyncio.gather(*others)] == [b"422"] * 3
        assert b"200 OK" in await asked(port)


async def test_clients_that_never_read_nor_finish_do_not_hold_up_the_end(small_buffers):
    clients = []
    async with served(grace=1, patience=1_000.0) as port:
        for sent in (PAGE * 30, BODY, b"", b"POST /query HTTP/1.1\r\n"):
            clients.append(client := socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 10)
            client.connect(("127.0.0.1", port))
            client.sendall(sent)
        await asyncio.sleep(0.1)
        assert b"200 OK" in await asked(port)
        start = time.perf_counter()
    assert time.perf_counter() - start < 10
    for client in clients:
        client.close()


async def test_malformed_requests_do_not_fill_the_log(caplog):
    async with served() as port:
        answers = [await asked(port, NO_REQUEST) for _ in range(30)]
    assert [answer.split()[1] for answer in answers] == [b"400"] * 30
    assert caplog.messages.count("Invalid HTTP request received.") == len(caplog.messages) == 1
    assert not logging.getLogger("uvicorn.error").filters


async def test_loggers_of_the_process_are_its_own_and_are_put_back(monkeypatch):
    handler, names = logging.NullHandler(), ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        monkeypatch.setattr(logger, "handlers", [handler])
        monkeypatch.setattr(logger, "propagate", True)

    def settings():
        return [(logger.level, logger.handlers, logger.propagate, logger.filters[:]) for logger in loggers]

    before = settings()
    async with served() as port:
        assert logging.getLogger("uvicorn").handlers == [handler]
        with pytest.raises(OSError, match=f"port {port}"):
            await serve(AsyncEngine(), port=port)
    assert settings() == before


def test_what_was_kept_back_from_the_log_is_counted(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(overview.time, "monotonic", lambda: now[0])
    seldom = overview.RateLimit()
    for now[0] in (0, 1, 2, 70, 71, 200):
        record = logging.makeLogRecord({"msg": "no %s\n", "args": ("request",)})
        if seldom.filter(record):
            lines.append(record.getMessage())
    more = "no request ({} more since this was said last)"
    assert lines == ["no request\n", more.format(2), more.format(1)]
