"""Where events come from: standard input as it comes, or files, once; and the signals that end every wait.

Lines are cut out of bytes without keeping what is too long, and put together into batches.

Bytes become a `Piece`, lines that follow each other in one input (`read_stream`, `read_files`), and pieces
become `Gathered`, a batch (`gather`). All are generators, so that nothing is read before it is needed. Beside
its lines a batch has the position in each file behind its last line, and a mark of the file there. The engine
keeps both in its ledger, with the batch: `mark_of` is a saved format.

Two objects have a state. A `LineCutter` has the beginning of one line, that which is not complete. A `Stop`
has the signal that came first; its handlers write it, and everybody else reads. It is made in the main
thread, where Python runs handlers. How many bytes are read or answered together changes no answer.
"""

from __future__ import annotations

import gzip
import os
import select
import signal
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NamedTuple, cast

from onlinecal.cli.output import printable
from onlinecal.engine.events import LONGEST_LINE
from onlinecal.engine.fields import GZIP
from onlinecal.engine.ledger.schema import InputPosition

READ_BYTES = 1 << 20
"""Bytes that are read at a time."""

MARKED_BYTES = 1 << 10
"""Bytes at the beginning of a file, and before a position in it, by which it is recognised: a part of the
marks in ledgers, so it must stay."""

READ_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a file can end with."""

SIGNALS = signal.SIGTERM, signal.SIGINT

MOST_BATCH_BYTES = 1 << 23
"""Bytes of a batch: so that long lines in large batches do not fill the memory."""


class Stop:
    """Becomes true with the first SIGTERM or SIGINT, and ends every wait; the second ends the process.

    A context: the signals mean what they meant before when it is left.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._woken, self._wake = os.pipe()
        self._before = [(number, signal.signal(number, self._note)) for number in SIGNALS]

    def __enter__(self) -> Stop:
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self._woken)
        os.close(self._wake)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        os.write(self._wake, b"!")
        # not even a call into SQLite or a full pipe holds up the second signal then
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    def __bool__(self) -> bool:
        return self.signal is not None

    def wait(self, descriptor: int, seconds: float | None = None) -> bool:
        """Whether there is something to read, or the end of it, within so many seconds; not when stopped."""
        ready, _, _ = select.select([self._woken, descriptor], [], [], seconds)
        return descriptor in ready and not self


class Piece(NamedTuple):
    """Lines that follow each other in an input; `start` is where the first begins, in bytes.

    `path` is None for inputs without positions. A piece that is not `complete` is the last line of an input
    that ends without a newline: more of it may come later, so its position is not noted. `mark(position)` is
    what is noted beside a position.
    """

    lines: list[bytes]
    path: str | None = None
    start: int = 0
    complete: bool = True
    mark: Callable[[int], bytes] | None = None


class Gathered(NamedTuple):
    """Lines to be answered in one transaction, and how far each input will have been answered by then."""

    lines: list[bytes]
    noted: dict[str, tuple[int, bytes | None]]
    """By path: a position, and the mark of it."""


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


def read_stream(descriptor: int, stop: Stop) -> Iterator[Piece | None]:
    """The lines of a pipe, a socket or a terminal: whatever is there, without waiting for more."""
    cutter = LineCutter()
    while not stop:
        if not stop.wait(descriptor, 0.0):
            yield None
            stop.wait(descriptor)
            continue
        chunk = os.read(descriptor, READ_BYTES)
        if not chunk:
            rest = cutter.rest()
            if rest is not None:
                yield Piece([rest])
            return
        yield Piece(cutter.cut(chunk))


def read_files(
    paths: Iterable[Path], noted: Callable[[str], InputPosition | None] | None, stop: Stop
) -> Iterator[Piece | None]:
    """The lines of files and folders, in the order given, each file up to its end.

    `noted(path)` says how far a file was answered before: it is read on from there, and since it will be so
    again, a last line without its newline is left for then. Without `noted` all is read. Raises OSError,
    which names it, for a file that cannot be read, when the lines before it were taken.
    """
    for path in dict.fromkeys(chain.from_iterable(map(listed, paths))):
        name = str(path)
        try:
            with opened(path) as file:
                before = None if noted is None else noted(name)
                for piece in lines_of(name, file, before, stop):
                    if piece.complete or noted is None:
                        yield piece
                    else:
                        note = "ends inside a line, which is left until its newline has come"
                        print(f"onlinecal: {printable(name)} {note}", file=sys.stderr)
        except READ_ERRORS as error:
            # what was read so far is answered first
            yield None
            raise OSError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if stop:
            return


def check_inputs(paths: Iterable[Path]) -> None:
    """ValueError unless each is a file or a folder."""
    for path in paths:
        if not path.is_dir() and not path.is_file():
            raise ValueError(f"--input {path} is neither a file nor a folder: name one that is there")


def listed(path: Path) -> list[Path]:
    """A file itself; a folder's *.jsonl and *.jsonl.gz by name, but for those that begin with a dot.

    Links and dots are resolved: one file is read once, and has one position, whatever it is called.
    """
    whole = path.resolve()
    if not whole.is_dir():
        return [whole]
    named = (entry for entry in sorted(whole.iterdir()) if entry.name.endswith((".jsonl", ".jsonl.gz")))
    return [entry.resolve() for entry in named if entry.is_file() and not entry.name.startswith(".")]


def opened(path: Path) -> BinaryIO:
    """A file of lines, unpacked if it is one of gzip."""
    with path.open("rb") as file:
        packed = file.read(len(GZIP)) == GZIP
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def lines_of(name: str, file: BinaryIO, noted: InputPosition | None, stop: Stop) -> Iterator[Piece]:
    """The lines of a file behind what was noted of it, or of all of it if it is not the file that was noted.

    Positions are bytes of the lines: of a file of gzip, when it is unpacked.
    """
    head, recent, position = file.read(MARKED_BYTES), b"", 0
    if noted is not None and noted.position:
        file.seek(max(0, noted.position - MARKED_BYTES))
        recent = file.read(min(MARKED_BYTES, noted.position))
        if noted.mark == mark_of(head, recent, noted.position):
            position = noted.position
        else:
            note = "is not the file that was answered before: it is read from its beginning"
            print(f"onlinecal: {printable(name)} {note}", file=sys.stderr)
            recent = b""
    file.seek(position)
    read, cutter = position, LineCutter()
    # one read at a time: what comes before damage is taken
    while not stop and (chunk := file.read1(READ_BYTES)):  # type: ignore[attr-defined]
        recent, read = recent[-MARKED_BYTES:] + chunk, read + len(chunk)
        lines = cutter.cut(chunk)
        if lines:
            yield Piece(lines, name, position, mark=partial(mark_at, head, recent, read))
            position += sum(map(len, lines)) + len(lines)
    rest = cutter.rest()
    if rest is not None and not stop:
        yield Piece([rest], name, position, complete=False)


def mark_at(head: bytes, recent: bytes, read: int, position: int) -> bytes:
    """By what a file is recognised at a position in the `recent` bytes, which end where `read` is."""
    return mark_of(head, recent[: len(recent) - (read - position)], position)


def mark_of(head: bytes, before: bytes, position: int) -> bytes:
    """A digest of the beginning of a file, and of what comes before a position in it."""
    return blake2b(head[:position] + before[-MARKED_BYTES:], digest_size=16).digest()


def gather(pieces: Iterable[Piece | None], most: int) -> Iterator[Gathered]:
    """Put lines together, at most so many; None among the pieces means that nothing more is there yet."""
    batch, size = Gathered([], {}), 0
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
                batch.noted[piece.path] = position, None if piece.mark is None else piece.mark(position)
            if len(batch.lines) == most or size >= MOST_BATCH_BYTES:
                yield batch
                batch, size = Gathered([], {}), 0
        if piece is None and batch.lines:
            yield batch
            batch, size = Gathered([], {}), 0
