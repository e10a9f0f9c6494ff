"""Load on the engine's HTTP server from a process of its own: connections that ask one thing after the other.

Prints requests, seconds and the latencies' quantiles in milliseconds, as JSON:

    python http_load.py PORT CONNECTIONS PAIRS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid


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
