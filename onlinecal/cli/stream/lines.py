"""Lines as they come: cut out of bytes without keeping what is too long, and put together into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from onlinecal.engine.events import LONGEST_LINE

GARBAGE = 100_000, 20, 100
"""Thresholds of the garbage collector. A batch makes some 10^5 objects and next to no cycles; looking for
them at every 700, as is usual, took a third of all time with 10,000 keys in memory."""

MOST_BYTES = 1 << 23
"""Bytes of a batch: so that long lines in large batches do not fill the memory."""


class Piece(NamedTuple):
    """Lines that follow each other in an input; `start` is where the first begins, in bytes.

    `path` is None for inputs without positions. A piece that is not `complete` is the last line of an input
    that ends without a newline: more of it may come later. `mark(position)` is what is noted beside a
    position.
    """

    lines: list[bytes]
    path: str | None = None
    start: int = 0
    complete: bool = True
    mark: Callable[[int], bytes] | None = None


class Gathered(NamedTuple):
    """Lines to be answered in one transaction, and how far each input will have been answered by then."""

    lines: list[bytes]
    positions: dict[str, int]
    marks: dict[str, bytes] = {}  # noqa: RUF012 (never changed)


def key_of(path: str) -> str:
    """What a path is called in a ledger: itself, with what is no text spelt out."""
    return path.encode("utf-8", "backslashreplace").decode()


class LongLine(bytes):
    """In place of a line longer than any event may be: of its bytes only their number is kept."""

    size: int

    def __len__(self) -> int:
        return self.size


class LineCutter:
    """Cuts chunks of an input into lines; keeps the beginning of a line that is not complete yet."""

    def __init__(self) -> None:
        self._begun, self._size = bytearray(), 0

    def cut(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk completes."""
        lines = chunk.split(b"\n")
        self._begin(lines[0])
        if len(lines) == 1:
            return []
        last = lines.pop()
        lines[0] = self.rest() or b""
        self._begin(last)
        return lines

    def rest(self) -> bytes | None:
        """Take away the line that has begun; None if none has."""
        line: bytes | None = bytes(self._begun) if self._size else None
        if self._size > LONGEST_LINE:
            line = LongLine()
            line.size = self._size
        self._begun, self._size = bytearray(), 0
        return line

    def _begin(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= LONGEST_LINE:
            self._begun += part
        else:
            self._begun.clear()


def gather(pieces: Iterable[Piece | None], most: int) -> Iterator[Gathered]:
    """Put lines together, at most so many; None among the pieces means that nothing more is there yet."""
    batch, size = Gathered([], {}, {}), 0
    for piece in chain(pieces, [None]):
        taken, position = 0, 0 if piece is None else piece.start
        while piece is not None and taken < len(piece.lines):
            part = piece.lines[taken : taken + most - len(batch.lines)]
            taken += len(part)
            batch.lines.extend(part)
            length = sum(map(len, part)) + len(part)
            size, position = size + length, position + length
            # a line without end is answered, but not noted as answered: it may still grow
            if piece.path is not None and piece.complete:
                batch.positions[piece.path] = position
                if piece.mark is not None:
                    batch.marks[piece.path] = piece.mark(position)
            if len(batch.lines) == most or size >= MOST_BYTES:
                yield batch
                batch, size = Gathered([], {}, {}), 0
        if piece is None and batch.lines:
            yield batch
            batch, size = Gathered([], {}, {}), 0
