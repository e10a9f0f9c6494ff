"""The HTTP server with a durable ledger: requests a second."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

SERVE = "from onlinecal.cli.stream.serve import serve; import typer; typer.run(serve)"
LOAD = Path(__file__).with_name("http_load.py")


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

    def used():
        """Seconds of processor time."""
        ticks = Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    for _ in range(3):
        before = used()
        command = [sys.executable, str(LOAD), port, str(connections), str(8_000 // connections)]
        done = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        cpu = 1e6 * (used() - before) / (done["requests"] + 40 * connections)
        note(
            f"http, {connections} connections: {done['requests'] / done['seconds']:5.0f} requests/s, target"
            f" 2000; p50 {done['p50']:4.1f} ms, p99 {done['p99']:5.1f} ms, target 20; server {cpu:.0f} us of"
            f" processor a request; load average {os.getloadavg()[0]:.1f}"
        )
