"""Hostile requests, by the thousand: each is answered or ended, none is an error of the server or counts."""

import asyncio
import json
import logging
import random
import re
from contextlib import suppress

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from onlinecal.engine import AsyncEngine, Engine
from onlinecal.engine.http.server import serve

TOKEN = "correct-horse-battery"
PATHS = ("/query", "/outcome", "/withdraw", "/events")
READS = ("/certificate", "/keys", "/watch", "/metrics", "/health", "/", "/page.js", "/nothing")
EVENT = {"id": "hostile", "key": "k", "hint": 0.5}

NO_NAMES = None, True, "", "\0", "\ud800", "x" * 201, [], {}, [[]], {"a": 1}
NO_HINTS = -1, 2, 10**400, "x", "", [], {}, True, {"a": 0.5}, float("nan"), float("inf")
METHODS = "GET", "POST", "POST", "POST", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "get"
ODD_PATHS = "*", "//", "/..", "/%2e%2e/", "/query/", "/%00", "http://evil/", "/\xe9", ""
MORE_HEADERS = (
    b"Origin: http://evil.example", b"Content-Encoding: gzip", b"Expect: 100-continue", b"Connection: close",
    b"Connection: Upgrade\r\nUpgrade: websocket", b"Content-Type: application/x-ndjson",
    b"Content-Type: \xff", b" folded: line", b"no colon", b"\0: a", b"a: \0", b"Host: other", b": empty",
    b"X: " + b"y" * 40_000, b"\r\n".join([b"x: y"] * 120), b"Upgrade: h2c\r\nConnection: Upgrade",
)  # fmt: skip
ODD_SIZES = b"-1", b"+5", b"0x10", b"", b"5, 6", b"\xb2"

STATUSES = {200, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 421, 422, 431}


def wrong_event(rng):
    """An event that no engine accepts, whichever type is read."""
    event = dict(EVENT)
    kind = rng.randrange(4)
    if kind == 0:
        event[rng.choice(["id", "key"])] = rng.choice(NO_NAMES)
    elif kind == 1:
        event["hint"] = rng.choice(NO_HINTS)
    elif kind == 2:
        event[rng.choice(["kye", "lane", "", "id ", "a" * 1_000])] = rng.choice([*NO_NAMES, *NO_HINTS])
    else:
        del event[rng.choice(["id", "key"])]
    event["type"] = rng.choice(["query", "qeury", "outcome", "", 7, None])
    return json.dumps(event)


def wrong_body(rng):
    kind = rng.randrange(9)
    if kind == 0:
        return b"[" * rng.choice([10, 1_000, 100_000])
    if kind == 1:
        return rng.randbytes(rng.randrange(300))
    if kind == 2:
        return ("\ufeff" + wrong_event(rng)).encode(
            rng.choice(["utf-16", "utf-8", "utf-32"]), "surrogatepass"
        )
    if kind == 3:
        return ("[" + ",".join(wrong_event(rng) for _ in range(rng.randrange(30))) + "]").encode()
    if kind == 4:
        ends = rng.choice(["\n", "\r\n", "\r", "\n\n", "\x0b", "\u2028"])
        return ends.join(wrong_event(rng) for _ in range(rng.randrange(30))).encode()
    if kind == 5:
        return wrong_event(rng)[: rng.randrange(60)].encode()
    if kind == 6:
        return b"\n" * rng.choice([1, 1 << 10, (1 << 20) + 1])
    if kind == 7:
        return b'{"id": ' + b"9" * rng.choice([30, 5_000, 70_000])
    return wrong_event(rng).encode()


def parameters(rng):
    some = ["key=a", "kye=a", "limit=0", "limit=x", "offset=-1", "keys=1e9", "order=up", "=", "&&", "%ff=%ff"]
    some += ["key=%00", "key=" + "k" * 300, "a=b;c=d", "limit=%C2%B2", "key=a&key=b", "?", "%", "%zz", "\xff"]
    return "?" + "&".join(rng.sample(some, rng.randrange(1, 4)))


def framed(rng, body, headers):
    """A body with what says where it ends, which may be a lie."""
    size, kind = len(body), rng.randrange(12)
    if kind < 5:
        return [*headers, b"Content-Length: %d" % size], body
    if kind == 5:
        return [*headers, b"Content-Length: %d" % (size + rng.choice([1, 1 << 30, 10**30]))], body
    if kind == 6:
        return [*headers, b"Content-Length: " + rng.choice(ODD_SIZES)], body
    if kind == 7:
        return [*headers, b"Content-Length: 3", b"Content-Length: %d" % size], body
    if kind == 8:
        return [*headers, b"Content-Length: %d" % size, b"Transfer-Encoding: chunked"], body
    if kind == 9:
        sizes = rng.choice([b"%x" % size, b"-1", b"ffffffffffffffffff", b"g", b"%x;a=%s" % (size, b"b" * 99)])
        chunks = sizes + b"\r\n" + body + b"\r\n0\r\n" + rng.choice([b"", b"a: b\r\n"]) + b"\r\n"
        return [*headers, b"Transfer-Encoding: chunked"], chunks
    if kind == 10:
        return [*headers, b"Transfer-Encoding: " + rng.choice([b"gzip", b"chunked, gzip", b"xchunked"])], body
    return headers, body


def well_formed(rng):
    """A request that is as it should be, but for one thing or two."""
    body, headers = wrong_body(rng), [b"Host: 127.0.0.1", b"Authorization: Bearer " + TOKEN.encode()]
    if rng.random() < 0.3:
        headers.append(rng.choice(MORE_HEADERS))
    lines = b"POST " + rng.choice(PATHS).encode() + b" HTTP/1.1", *headers
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body


def hostile(rng):
    """The bytes of a hostile request, or of several."""
    if rng.random() < 0.4:
        return well_formed(rng)
    method, path = rng.choice(METHODS), rng.choice([*PATHS, *PATHS, *READS])
    if rng.random() < 0.2:
        path = rng.choice(ODD_PATHS)
    if rng.random() < 0.3:
        path += parameters(rng)
    version = rng.choice(["HTTP/1.1"] * 12 + ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9", ""])
    headers = [b"Host: " + rng.choice([b"127.0.0.1"] * 9 + [b"evil.example", b"", b"[::1]", b"a" * 300])]
    if rng.random() < 0.9:
        token = rng.choice([TOKEN.encode()] * 9 + [b"x", b"", b"\xe9" * 20, TOKEN.encode() + b"x"])
        headers.append(b"Authorization: Bearer " + token)
    headers += rng.sample(MORE_HEADERS, rng.choice([0, 0, 0, 1, 1, 2, 5]))
    headers, body = framed(rng, wrong_body(rng) if method != "GET" or rng.random() < 0.2 else b"", headers)
    end = rng.choice([b"\r\n"] * 8 + [b"\n", b"\r"])
    sent = end.join([f"{method} {path} {version}".encode("latin-1"), *headers, b"", b""]) + body
    kind = rng.randrange(20)
    if kind == 0:
        return sent[: rng.randrange(len(sent))]
    if kind == 1:
        place = rng.randrange(min(len(sent), 300))
        return sent[:place] + bytes([rng.randrange(256)]) + sent[place + 1 :]
    if kind == 2:
        return sent * rng.choice([2, 5, 50])
    if kind == 3:
        return rng.choice(
            [b"\x16\x03\x01" + rng.randbytes(200), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n" * 500]
        )
    return sent


async def ask(port, sent, rng):
    """Send something; returns the statuses that came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    with suppress(ConnectionError):
        cut = rng.randrange(len(sent) + 1)
        for part in (sent[:cut], sent[cut:]) if rng.random() < 0.3 else (sent,):
            writer.write(part)
            await writer.drain()
        how = rng.random()
        if how < 0.1:
            writer.transport.abort()
            return []
        if how < 0.5:
            writer.write_eof()
        # what is answered at all is answered at once; what has no end is ended by its deadline
        async with asyncio.timeout(20):
            while part := await reader.read(1 << 16):
                heard += part
    writer.close()
    return [int(status) for status in re.findall(rb"^HTTP/1.1 (\d{3})", heard, re.M) if status != b"100"]


async def assert_nothing_happens(seed, number, caplog):
    rng, engine = random.Random(seed), Engine()
    listening = asyncio.get_running_loop().create_future()
    settings = {"token": TOKEN, "patience": 0.5, "silence": 1, "ready": listening.set_result}
    async with AsyncEngine(engine) as around:
        serving = asyncio.create_task(serve(around, port=0, **settings))
        port, room = int((await listening).rpartition(":")[2]), asyncio.Semaphore(100)

        async def one(sent, seed):
            async with room:
                return sent, await ask(port, sent, random.Random(seed))

        answers = await asyncio.gather(*(one(hostile(rng), place) for place in range(number)))
        for sent, statuses in answers:
            assert set(statuses) <= STATUSES, sent[:2_000]
        assert engine.total().events == 0
        # and the server is as it was
        body = json.dumps({"id": "good", "key": "k", "hint": 0.5}).encode()
        head = (
            "POST /query HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {TOKEN}",
            "Connection: close",
        )
        good = "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body
        assert await ask(port, good, random.Random(1)) == [200]
        serving.cancel()
        await asyncio.wait([serving])
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    engine.close()
    return answers


async def test_hostile_requests_are_answered_or_ended_and_change_nothing(caplog):
    answers = await assert_nothing_happens(0, 250, caplog)
    # for most of the reasons for which a request can be refused
    heard = {status for _, some in answers for status in some}
    assert heard >= STATUSES - {409, 410, 422}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
async def test_thousands_of_hostile_requests_are_answered_or_ended(seed, caplog):
    await assert_nothing_happens(seed, 1_073, caplog)
