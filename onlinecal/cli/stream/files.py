"""A file of lines, which may grow, be renamed, truncated, rewritten or compressed: no line is left out.

docs/engine.md says what is done when a file is no longer the one that was begun.
"""

from __future__ import annotations

import gzip
import os
import stat
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from io import BufferedReader

from onlinecal.cli.output import printable
from onlinecal.cli.stream.lines import LineCutter, Piece
from onlinecal.engine.ledger.records import Noted

CHUNK = 1 << 20
"""Bytes that are read at a time."""

WINDOW = 1 << 10
"""Bytes at the beginning of a file, and before a position in it, by which it is recognised."""

GZIP = b"\x1f\x8b"
OTHERS = {
    "zstd": b"\x28\xb5\x2f\xfd",
    "xz": b"\xfd7zXZ\x00",
    "bzip2": b"BZh",
    "zip": b"PK\x03\x04",
    "lz4": b"\x04\x22\x4d\x18",
}
"""How other compressed files begin."""

MARK = struct.Struct(">Q16s")
"""What is noted of a file beside a position: its inode, and a digest of what it is recognised by."""

Identity = tuple[int, int]
"""Device and inode."""

UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a file can end with."""


def say(path: str, what: str) -> None:
    """A word about a file, on stderr; a name may hold what a terminal would obey."""
    print(f"onlinecal: {printable(path)} {what}", file=sys.stderr)


class NotAFile(OSError):
    """Something has a file's name and is none."""


def check_not_packed(beginning: bytes, packed: dict[str, bytes] = OTHERS, whose: str = "") -> None:
    """Raise OSError for the beginning of something that is compressed in a way that is not read."""
    for kind, magic in packed.items():
        if beginning.startswith(magic):
            raise OSError(
                f"{whose}is compressed with {kind}: unpack it first (a file of gzip is read as it is)"
            )


def check_regular(found: os.stat_result) -> None:
    """Raise NotAFile for a folder, a pipe, a device."""
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile("is no file, it is passed over")


def identity_of(found: os.stat_result) -> Identity:
    """Which file it is, whatever its name."""
    return found.st_dev, found.st_ino


def open_regular(path: str) -> int:
    """The descriptor of a file; OSError for what is no file, without waiting for the other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class InputFile:
    """A file that stays open while it is read, so that it can be read to its end under any name.

    Positions are bytes of the lines: of a file of gzip, when it is unpacked. Raises OSError if it cannot be
    read; the exceptions of its methods are those of UNREADABLE.
    """

    def __init__(self, path: str, noted: Noted | None = None) -> None:
        self.path = path
        self.begun_at, self.grew = 0, time.monotonic()
        self._descriptor: int | None = open_regular(path)
        self._looked = (-1, -1)
        self._packed = False
        self._raw: BufferedReader | None = None
        self._unpacked: gzip.GzipFile | None = None
        self.identity = identity_of(os.fstat(self._descriptor))
        self._begin()
        try:
            if noted is not None and self._is_where(noted):
                self.begun_at = self._read = self._position = noted.position
                self._last = b"" if self._packed else self._before(noted.position)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self._read = self._position = 0
        self._last = self._head = b""
        self._cutter = LineCutter()
        self._packed, self._unpacked_size = False, -1

    @property
    def is_open(self) -> bool:
        """Whether it holds a descriptor."""
        return self._descriptor is not None

    def close(self) -> None:
        """Let the descriptor go."""
        if self._descriptor is not None:
            self._pack()
            os.close(self._descriptor)
            self._descriptor = None

    def reopen(self, path: str) -> bool:
        """Whether it can be read again, under the name that it has now."""
        descriptor = open_regular(path)
        if identity_of(os.fstat(descriptor)) != self.identity:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def has_changed(self, found: os.stat_result) -> bool:
        """Whether it was written since it was closed."""
        return (found.st_size, found.st_mtime_ns) != self._looked

    def more(self, stop: object, name: str | None) -> Iterator[Piece]:
        """The complete lines that are there by now, until `stop` is true; they are noted under `name`."""
        self._looked = size, _ = self._state()
        if self._was_rewritten(size):
            shorter = not self._packed and size < self._read
            how = "is shorter than it was" if shorter else "was rewritten"
            say(self.path, f"{how}: it is read from its beginning")
            yield from self.last(None)
            self._begin()
        for chunk in self._chunks(size, stop):
            self.grew = time.monotonic()
            if not self._packed:
                self._last = (self._last + chunk)[-WINDOW:]
            self._read += len(chunk)
            lines = self._cutter.cut(chunk)
            if lines:
                yield Piece(lines, name, self._position, mark=self.mark)
                self._position += sum(map(len, lines)) + len(lines)

    def last(self, name: str | None) -> Iterator[Piece]:
        """The line at the end, if it has no newline."""
        rest = self._cutter.rest()
        if rest is not None:
            yield Piece([rest], name, self._position, complete=False, mark=self.mark)

    def mark(self, position: int) -> bytes | None:
        """By what the file will be recognised when it is read on from a position; None if it is another."""
        size, _ = self._state()
        mark = MARK.pack(self.identity[1], self._digest(position))
        return None if self._was_rewritten(size) else mark

    def _state(self) -> tuple[int, int]:
        assert self._descriptor is not None
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def _pread(self, count: int, start: int) -> bytes:
        assert self._descriptor is not None
        return os.pread(self._descriptor, count, start)

    def _before(self, position: int) -> bytes:
        start = max(0, position - WINDOW)
        return self._pread(position - start, start)

    def _digest(self, position: int) -> bytes:
        """Of a file of gzip: of its own bytes, all of which count."""
        end = self._state()[0] if self._packed else position
        return blake2b(self._pread(min(WINDOW, end), 0) + self._before(end), digest_size=16).digest()

    def _is_where(self, noted: Noted) -> bool:
        """Whether this is the file that was answered up to there."""
        self._look_at_beginning()
        if self._packed or noted.mark is not None:
            return noted.mark is not None and MARK.unpack(noted.mark)[1] == self._digest(noted.position)
        # ledgers of version 1 knew the position alone
        return noted.position > 0 and self._pread(1, noted.position - 1) == b"\n"

    def _was_rewritten(self, size: int) -> bool:
        if self._pread(len(self._head), 0) != self._head:
            return True
        return not self._packed and (size < self._read or self._before(self._read) != self._last)

    def _look_at_beginning(self) -> None:
        if len(self._head) < WINDOW:
            self._head = self._pread(WINDOW, 0)
            check_not_packed(self._head)
            self._packed = self._head.startswith(GZIP)

    def _chunks(self, size: int, stop: object) -> Iterator[bytes]:
        """What there is to read up to the present size."""
        self._look_at_beginning()
        if not self._packed:
            while not stop and (chunk := self._pread(min(CHUNK, size - self._read), self._read)):
                yield chunk
        elif size != self._unpacked_size:
            try:
                while not stop and (chunk := self._unpack().read1(CHUNK)):
                    yield chunk
            except EOFError as error:
                self._unpacked_size = size
                raise EOFError("ends in the middle of its compressed data") from error
            except (gzip.BadGzipFile, zlib.error) as error:
                self._unpacked_size = size
                raise OSError(f"has damaged compressed data ({error})") from error
            else:
                self._unpacked_size = -1 if stop else size
            finally:
                self._pack()

    def _unpack(self) -> gzip.GzipFile:
        if self._unpacked is None:
            assert self._descriptor is not None
            self._raw = os.fdopen(os.dup(self._descriptor), "rb")
            self._raw.seek(0)
            self._unpacked = gzip.GzipFile(fileobj=self._raw)
            self._unpacked.seek(self._read)
        return self._unpacked

    def _pack(self) -> None:
        if self._raw is not None:
            self._raw.close()
        self._raw = self._unpacked = None
