"""Where events come from: standard input as it comes, or files, once; and the signals that end every wait."""

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
from pathlib import Path
from types import FrameType
from typing import BinaryIO, cast

from onlinecal.cli.output import printable
from onlinecal.cli.stream.lines import LineCutter, Piece
from onlinecal.engine.ledger.schema import Noted

CHUNK = 1 << 20
"""Bytes that are read at a time."""

WINDOW = 1 << 10
"""Bytes at the beginning of a file, and before a position in it, by which it is recognised."""

TICK = 1.0
"""Seconds after which waiting is interrupted for the progress line."""

GZIP = b"\x1f\x8b"
OTHERS = {
    "zstd": b"\x28\xb5\x2f\xfd",
    "xz": b"\xfd7zXZ\x00",
    "bzip2": b"BZh",
    "zip": b"PK\x03\x04",
    "lz4": b"\x04\x22\x4d\x18",
}
"""How other compressed files begin."""

UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file can end with."""

SIGNALS = signal.SIGTERM, signal.SIGINT


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

    def wait(self, descriptor: int, seconds: float) -> bool:
        """Whether there is something to read, or the end of it, within so many seconds; not when stopped."""
        ready, _, _ = select.select([self._woken, descriptor], [], [], seconds)
        return descriptor in ready and not self


def read_stream(descriptor: int, stop: Stop, idle: Callable[[], None]) -> Iterator[Piece | None]:
    """The lines of a pipe, a socket or a terminal: whatever is there, without waiting for more."""
    cutter, packed = LineCutter(), {"gzip": GZIP, **OTHERS}
    while not stop:
        if not stop.wait(descriptor, 0.0):
            yield None
            while not stop and not stop.wait(descriptor, TICK):
                idle()
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            rest = cutter.rest()
            if rest is not None:
                yield Piece([rest])
            return
        check_not_packed(chunk, packed, "standard input ")
        packed = {}
        yield Piece(cutter.cut(chunk))


def check_not_packed(beginning: bytes, packed: dict[str, bytes] = OTHERS, whose: str = "") -> None:
    """Raise OSError for the beginning of something that is compressed in a way that is not read."""
    for kind, magic in packed.items():
        if beginning.startswith(magic):
            raise OSError(
                f"{whose}is compressed with {kind}: unpack it first (a file of gzip is read as it is)"
            )


def read_files(
    paths: Iterable[Path], noted: Callable[[str], Noted | None], stop: Stop
) -> Iterator[Piece | None]:
    """The lines of files and folders, in the order given, each file up to its end.

    `noted(path)` says how far a file was answered before: it is read on from there. Raises OSError, which
    names it, for a file that cannot be read, when the lines before it were taken.
    """
    for name in dict.fromkeys(name for path in paths for name in listed(path)):
        try:
            with opened(name) as file:
                yield from lines_of(name, file, noted(name), stop)
        except UNREADABLE as error:
            # what was read so far is answered first
            yield None
            raise OSError(f"{name} {why(error)}") from error
        if stop:
            return


def check_inputs(paths: Iterable[Path]) -> None:
    """ValueError unless each is a file or a folder."""
    for path in paths:
        if not path.is_dir() and not path.is_file():
            what = "is neither a file nor a folder" if path.exists() else "is not there"
            raise ValueError(f"--input {path} {what}")


def listed(path: Path) -> Iterator[str]:
    """A file itself; a folder's *.jsonl and *.jsonl.gz by name, but for those that begin with a dot."""
    whole = os.path.abspath(path)
    if not os.path.isdir(whole):
        yield whole
        return
    for name in sorted(os.listdir(whole)):
        if name.endswith((".jsonl", ".jsonl.gz")) and not name.startswith("."):
            file = os.path.join(whole, name)
            if os.path.isfile(file):
                yield file
            else:
                say(file, "is no file, it is passed over")


def opened(path: str) -> BinaryIO:
    """A file of lines, unpacked if it is one of gzip."""
    with open(path, "rb") as file:
        beginning = file.read(WINDOW)
    check_not_packed(beginning)
    packed = beginning.startswith(GZIP)
    return cast(BinaryIO, gzip.open(path)) if packed else open(path, "rb")


def lines_of(name: str, file: BinaryIO, noted: Noted | None, stop: Stop) -> Iterator[Piece]:
    """The lines of a file behind what was noted of it, or of all of it if it is not the file that was noted.

    Positions are bytes of the lines: of a file of gzip, when it is unpacked.
    """
    head, recent, position = file.read(WINDOW), b"", 0
    if noted is not None and noted.position:
        file.seek(max(0, noted.position - WINDOW))
        recent = file.read(min(WINDOW, noted.position))
        if noted.mark == mark_of(head, recent, noted.position):
            position = noted.position
        else:
            say(name, "is not the file that was answered: it is read from its beginning")
            recent = b""
    file.seek(position)
    read, cutter = position, LineCutter()
    # one read at a time: what comes before damage is taken
    while not stop and (chunk := file.read1(CHUNK)):  # type: ignore[attr-defined]
        recent, read = recent[-WINDOW:] + chunk, read + len(chunk)
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
    return blake2b(head[:position] + before[-WINDOW:], digest_size=16).digest()


def say(path: str, what: str) -> None:
    """A word about a file, on stderr; a name may hold what a terminal would obey."""
    print(f"onlinecal: {printable(path)} {what}", file=sys.stderr)


def why(error: Exception) -> str:
    """Why a file cannot be read."""
    if isinstance(error, EOFError):
        return "ends in the middle of its compressed data"
    if isinstance(error, (gzip.BadGzipFile, zlib.error)):
        return f"has damaged compressed data ({error})"
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be read: {error.strerror}"
    return str(error)
