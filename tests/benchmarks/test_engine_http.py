"""The HTTP server with a durable ledger: requests a second, from a process of its own that asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT
from tests.benchmarks.conftest import seconds, sort_million

SERVE = "from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"


@pytest.fixture
def server(tmp_path):
    """The port of a server, and its process."""
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason="needs the extra serve")
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

    asking = [sys.executable, "-m", "tests.benchmarks.test_engine_http", port, str(connections)]
    for _ in range(3):
        before = used()
        done = subprocess.run([*asking, str(8_000 // connections)], cwd=ROOT, capture_output=True, check=True)
        told = json.loads(done.stdout)
        cpu = 1e6 * (used() - before) / told["requests"]
        note(f"http, {connections} connections: {told}; server {cpu:.0f} us of processor a request")
        assert cpu <= 1e6 * sort / 50


def ask(port, name, pairs):
    """Ask for forecasts and settle each, over one connection: seconds per request."""
    connection, latencies = HTTPConnection("127.0.0.1", port), []
    for i in range(pairs):
        for path, body in (
            ("/query", {"id": f"{name}/{i}", "key": name, "hint": i % 10 / 10}),
            ("/outcome", {"id": f"{name}/{i}", "value": int(i % 3 == 0)}),
        ):
            start = time.perf_counter()
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
            latencies.append(time.perf_counter() - start)
            assert answer.status == 200, text
    return latencies


def main(port, connections, pairs):
    """What came of it: requests, a second and in milliseconds."""
    run, start = uuid.uuid4().hex[:8], time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        names = [f"{run}/{place}" for place in range(connections)]
        latencies = np.concatenate([*pool.map(lambda name: ask(port, name, pairs), names)])
    rate = len(latencies) / (time.perf_counter() - start)
    p50, p99 = 1e3 * np.quantile(latencies, [0.5, 0.99])
    print(json.dumps({"requests": len(latencies), "a second": int(rate), "p50": p50, "p99": p99}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
