"""The HTTP server with a durable ledger: requests a second, from a process of its own that asks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.benchmarks.conftest import seconds, sort_million

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

SERVE = "from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"
ASKING = Path(__file__)


@pytest.fixture
def server(tmp_path):
    """The port of a server, and its process."""
    command = [sys.executable, "-c", SERVE, "--ledger", str(tmp_path / "ledger.db"), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    yield re.search(r":(\d+)\s*$", line)[1], process
    process.terminate()
    assert process.wait(60) == 0
    process.stderr.close()


@pytest.mark.parametrize("connections", [16, 24, 32])
def test_single_events_over_http(server, note, connections):
    port, process = server
    sort = min(seconds(sort_million) for _ in range(5))

    def used():
        """Seconds of processor time."""
        ticks = Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    for _ in range(3):
        before = used()
        command = [sys.executable, str(ASKING), port, str(connections), str(8_000 // connections)]
        done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        cpu = 1e6 * (used() - before) / (done["requests"] + 40 * connections)
        note(
            f"http, {connections} connections: {done['requests'] / done['seconds']:5.0f} requests/s; p50"
            f" {done['p50']:4.1f} ms, p99 {done['p99']:5.1f} ms; server {cpu:.0f} us of processor a request;"
            f" load average {os.getloadavg()[0]:.1f}"
        )
        assert cpu <= 1e6 * sort / 350


async def caller(port, name, pairs, latencies):
    """Ask for forecasts and settle each, over one connection; seconds per request go to `latencies`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def post(path, body):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        start = time.perf_counter()
        writer.write(f"{head}{body}".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        latencies.append(time.perf_counter() - start)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{answer.decode()}{body.decode()}")

    for i in range(pairs):
        await post("/query", f'{{"id":"{name}/{i}","key":"{name}","hint":{i % 10 / 10}}}')
        await post("/outcome", f'{{"id":"{name}/{i}","value":{int(i % 3 == 0)}}}')
    writer.close()


async def load(port, connections, pairs):
    """What came of it, after a warm-up."""
    run = uuid.uuid4().hex[:8]
    latencies: list[float] = []
    for name, count in ((f"warm/{run}", 20), (run, pairs)):
        latencies.clear()
        start = time.perf_counter()
        await asyncio.gather(
            *(caller(port, f"{name}/{place}", count, latencies) for place in range(connections))
        )
        seconds = time.perf_counter() - start
    latencies.sort()
    quantiles = {f"p{q}": 1e3 * latencies[len(latencies) * q // 100] for q in (50, 90, 99)}
    return {"requests": len(latencies), "seconds": seconds, **quantiles}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(load(*map(int, sys.argv[1:])))))
