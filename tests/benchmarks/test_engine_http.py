"""The HTTP server with a durable ledger: requests a second, and how it bears clients that never read."""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import threading
import time
import urllib.request
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


def flood(port, connections, stop):
    """Send requests ahead on many connections, and never read; whoever is dropped stays away."""
    sent = b"GET /certificate HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1_000
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            selector.register(client, selectors.EVENT_WRITE, [0])
        while not stop.is_set():
            for key, _ in selector.select(0.1):
                try:
                    key.data[0] += key.fileobj.send(sent[key.data[0] % len(sent) :])
                except OSError:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
        for key in [*selector.get_map().values()]:
            key.fileobj.close()


def test_a_thousand_connections_that_never_read(server, note):
    port, process = server
    stop, latencies, memory = threading.Event(), [], []
    flooding = threading.Thread(target=flood, args=(int(port), 1_000, stop))
    flooding.start()
    try:
        for _ in range(60):
            start = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
                assert answer.status == 200
            latencies.append(time.perf_counter() - start)
            resident = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            memory.append(int(resident[1]) / 1024)
            time.sleep(0.3)
        start = time.perf_counter()
        process.terminate()
        process.wait(60)
        note(
            f"http, 1000 connections that never read: /health median {sorted(latencies)[30]:.3f} s, at most"
            f" {max(latencies):.2f} s; memory at most {max(memory):.0f} MB; ends in"
            f" {time.perf_counter() - start:.1f} s; load average {os.getloadavg()[0]:.1f}"
        )
    finally:
        stop.set()
        flooding.join()
