"""Many clients at once, who send again what was sent: every answer is the first one, nothing counts twice."""

import asyncio
import json
import random

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from onlinecal.engine import AsyncEngine, Engine
from onlinecal.engine.http.server import serve


def request_of(path, body):
    data = body.encode()
    head = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n"
    return head.format(path, len(data)).encode() + data


class Client:
    """A client on a connection of its own, which it opens anew now and then."""

    def __init__(self, port, seed):
        self._port, self._rng, self._streams = port, random.Random(seed), None
        self.answered = {}
        self.requests = 0

    async def post(self, path, body):
        """The lines of an answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request_of(path, body))
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        self.requests += 1
        if self._rng.random() < 0.01:
            writer.close()
            self._streams = None
        return answer.decode().splitlines()

    async def leave_in_the_middle(self, path, body):
        """Send a request and go away before it is answered."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        sent = request_of(path, body)
        writer.write(sent[: self._rng.choice([len(sent), len(sent) - 9])])
        await writer.drain()
        writer.transport.abort()
        self.requests += 1

    async def play(self, name, requests, shared):
        """Ask and settle, alone and many at once, and send again what this client or another has sent."""
        rng, asked = self._rng, []
        while self.requests < requests:
            kind = rng.random()
            if kind < 0.3 and shared:
                sent = rng.choice(shared)
            elif kind < 0.65 or not asked:
                size = rng.choice([1, 1, 1, 20])
                ids = [f"{name}/{self.requests}/{i}" for i in range(size)]
                lines = [
                    {"type": "query", "id": id, "key": f"key {rng.randrange(50)}", "hint": rng.random()}
                    for id in ids
                ]
                asked += ids
                sent = lines
            else:
                some = [
                    asked.pop(rng.randrange(len(asked))) for _ in range(min(len(asked), rng.choice([1, 9])))
                ]
                sent = [{"type": "outcome", "id": id, "value": rng.randrange(2)} for id in some]
            body = "".join(f"{json.dumps(line)}\n" for line in sent)
            if rng.random() < 0.05:
                await self.leave_in_the_middle("/events", body)
            answers = await self.post("/events", body)
            shared.append(sent)
            for line, answer in zip(sent, answers, strict=True):
                event = line["type"], line["id"]
                assert json.loads(answer)["type"] == ("forecast" if line["type"] == "query" else "settled")
                assert self.answered.setdefault(event, answer) == answer


async def assert_all_is_answered_once(path, requests, clients=12):
    listening = asyncio.get_running_loop().create_future()
    async with AsyncEngine(path) as engine:
        serving = asyncio.create_task(serve(engine, port=0, ready=listening.set_result))
        port, shared = int((await listening).rpartition(":")[2]), []
        some = [Client(port, seed) for seed in range(clients)]
        await asyncio.gather(
            *(one.play(f"client {i}", -(-requests // clients), shared) for i, one in enumerate(some))
        )
        serving.cancel()
        await asyncio.wait([serving])
        total = await engine.total()
    answered = {}
    for one in some:
        for event, answer in one.answered.items():
            assert answered.setdefault(event, answer) == answer
    assert total.events == len(answered)
    assert total.rounds == sum(kind == "outcome" for kind, _ in answered)
    with Engine(path) as again:
        # a restart answers the same, and counts nothing anew
        assert again.total() == total
        for sent in shared[:: max(1, len(shared) // 200)]:
            data = "".join(f"{json.dumps(line)}\n" for line in sent).encode()
            wanted = [answered[line["type"], line["id"]] for line in sent]
            assert again.handle_lines(data).decode().splitlines() == wanted
        assert again.total() == total
    return sum(one.requests for one in some)


async def test_what_many_clients_send_and_send_again_is_answered_as_it_was(tmp_path):
    assert await assert_all_is_answered_once(tmp_path / "ledger", 400) >= 400


@pytest.mark.slow
async def test_what_many_clients_send_for_long_is_answered_as_it_was(tmp_path):
    assert await assert_all_is_answered_once(tmp_path / "ledger", 27_444) >= 27_444
