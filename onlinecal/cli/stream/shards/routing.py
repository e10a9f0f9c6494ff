"""Which shard answers a line, and all answers put back into the order of the lines.

A line that names its key goes to the key's shard. An outcome or a withdrawal that does not is sent to all:
one shard knows its id and answers, to the others it is unknown and changes nothing. So nothing has to be
remembered here, and what a line comes to depends on the lines before it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from onlinecal.cli.stream.lines import LongLine
from onlinecal.cli.stream.shards.messages import Answered, Part
from onlinecal.engine.events import TOGETHER

ALL, FIRST = -1, 0
"""In place of a shard: every one; and the one that answers what is no event."""

REMEMBERED = 1 << 20
"""Keys whose shard is remembered: a hash costs more than looking it up."""

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Keyed(Struct, gc=False):
    """As much of an event as tells where it goes."""

    key: str | None = None


_key_in = msgspec.json.Decoder(Keyed).decode


class Shards(dict[str | None, int]):
    """The shard of each key, out of so many."""

    def __init__(self, count: int) -> None:
        super().__init__({None: ALL})
        self._count = count

    def __missing__(self, key: str) -> int:
        if len(self) > REMEMBERED:
            self.clear()
            self[None] = ALL
        # halves of surrogate pairs are in no encoding; the shard refuses them
        found = self[key] = crc32(key.encode("utf-8", "surrogatepass")) % self._count
        return found

    def of(self, lines: list[bytes]) -> Iterator[int]:
        """The shard of each line."""
        for start in range(0, len(lines), TOGETHER):
            some = lines[start : start + TOGETHER]
            try:
                yield from [self[event.key] for event in map(_key_in, some)]
            except UNREADABLE:
                yield from map(self.of_one, some)

    def of_one(self, line: bytes) -> int:
        """The shard of a line that may be anything."""
        try:
            return self[_key_in(line).key]
        except UNREADABLE:
            return FIRST


class Routed(NamedTuple):
    """A block of lines in parts: shard, places of its lines in the block, message, lines."""

    size: int
    parts: list[tuple[int, NDArray[np.intp], Part, bytes]]


def route(lines: list[bytes], shards: Shards, count: int) -> Routed:
    """Divide lines among so many shards; only those that get some have a part."""
    order = np.fromiter(shards.of(lines), np.int16, len(lines))
    listed = np.empty(len(lines), object)
    listed[:] = lines
    parts = []
    for shard in range(count):
        places = np.flatnonzero((order == shard) | (order == ALL))
        if len(places):
            own = listed[places].tolist()
            longer = [(place, len(line)) for place, line in enumerate(own) if type(line) is LongLine]
            part = Part(len(own), (order[places] == ALL).tobytes(), longer)
            parts.append((shard, places, part, b"\n".join(own)))
    return Routed(len(lines), parts)


def tells_unknown(answer: bytes) -> bool:
    """Whether an answer says that nothing is known of an id. (Within a text its quotes have backslashes.)"""
    return answer.startswith(b'{"type":"rejected"') and b'"reason":"unknown"' in answer


def merge(routed: Routed, answers: list[tuple[Answered, bytes]]) -> list[bytes]:
    """Put the answers of a block's parts, in the order of the parts, into the order of its lines.

    Of those that all were asked the first shard always answers, and another one instead that knows the id.
    """
    merged = np.empty(routed.size, object)
    for (_, places, _, _), (answered, body) in zip(routed.parts, answers, strict=True):
        told = np.frombuffer(answered.told, np.bool_)
        if told.any():
            merged[places[told]] = body.split(b"\n")
    return merged.tolist()
