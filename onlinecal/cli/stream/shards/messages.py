"""What goes through the pipes between the process that reads and writes and its workers: blocks of lines."""

from __future__ import annotations

import struct
from typing import IO, Any, TypeVar

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig

SIZES = struct.Struct(">QQ")
"""Bytes of a message's head and of its body."""


class Begin(Struct):
    """The first message to a worker: its ledger, and how to open it; `batch`: most lines of a transaction."""

    ledger: str
    config: EngineConfig
    kept: dict[str, int]
    """How much stays in memory, by the names of an engine's arguments."""
    batch: int
    log_json: bool
    first: bool
    """Whether it has the first shard, which also answers what no shard knows."""


class Part(Struct):
    """A worker's part of a block of lines, which are the body.

    Attributes
    ----------
    lines
        How many there are.
    shared
        A byte each: 1 if all shards are asked, and the one that knows the id answers.
    longer
        Places of lines that are longer than any event may be, and their sizes.
    inputs
        How far inputs are answered, for the ledger to note; a path is bytes where it is no text.
    last
        Whether the worker is to write its states and end.
    """

    lines: int = 0
    shared: bytes = b""
    longer: list[tuple[int, int]] = []
    inputs: list[tuple[Any, int, bytes | None]] = []
    last: bool = False


class Answered(Struct):
    """What a worker says to a message; its answers, a line each, are the body.

    Attributes
    ----------
    told
        A byte for each line that it was sent: 1 if it has answered it.
    keys, open
        How many keys it has in memory, and how many of their forecasts are open.
    error
        Why it cannot go on; it ends then.
    is_request
        Whether that is because the request was wrong.
    """

    told: bytes = b""
    keys: int = 0
    open: int = 0
    error: str | None = None
    is_request: bool = False


Message = TypeVar("Message", bound=Struct)


def send(pipe: IO[bytes], head: Struct, body: bytes = b"") -> None:
    """Write a message."""
    packed = msgspec.msgpack.encode(head)
    pipe.write(SIZES.pack(len(packed), len(body)) + packed)
    pipe.write(body)
    pipe.flush()


def receive(pipe: IO[bytes], kind: type[Message]) -> tuple[Message, bytes]:
    """Read a message; EOFError if the other side has ended."""
    head, body = SIZES.unpack(exactly(pipe, SIZES.size))
    return msgspec.msgpack.decode(exactly(pipe, head), type=kind), exactly(pipe, body)


def exactly(pipe: IO[bytes], size: int) -> bytes:
    """So many bytes."""
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError("the other side has ended")
    return data
