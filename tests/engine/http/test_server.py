"""The engine's HTTP server: where it listens, whom it waits for, and how it is told to stop."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

import httpx

from onlinecal.engine import AsyncEngine, Engine
from onlinecal.engine.http.server import is_loopback, serve
from tests.engine.http.clients import TOKEN

SERVE = "import sys; from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_a_loopback_address_goes_without_a_token(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", ""])
async def test_any_other_address_needs_one(engine, host):
    with pytest.raises(ValueError, match="token"):
        await serve(AsyncEngine(engine), host, 0)


@pytest.fixture
def server(tmp_path):
    """start(*arguments): a server of its own process, on a free port; (process, address)."""
    started = []

    def start(*arguments, **variables):
        command = [sys.executable, "-c", SERVE, "--ledger", str(tmp_path / "ledger.db"), "--port", "0"]
        process = subprocess.Popen(
            [*command, *arguments], stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
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


async def test_a_server_that_is_told_to_stop_answers_what_is_under_way_and_loses_nothing(server, tmp_path):
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


async def test_a_port_in_use_is_one_clear_error(engine):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"127\.0\.0\.1 port {port}: .*in use"):
            await serve(AsyncEngine(engine), "127.0.0.1", port)


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    from onlinecal.cli.stream import serve as stream_serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("server", "app"):
        monkeypatch.delitem(sys.modules, f"onlinecal.engine.http.{name}", raising=False)
        monkeypatch.delattr(f"onlinecal.engine.http.{name}", raising=False)
    with pytest.raises(ValueError, match=r"in a checkout of onlinecal, pip install '.\[serve\]'"):
        stream_serve.serve(tmp_path / "ledger.db")
