"""Where events come from: standard input, or files and folders, which may still grow."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType

from simulations.verbs.stream_lines import LineCutter, Piece

CHUNK = 1 << 20
"""Bytes that are read at a time."""

POLL = 0.2
"""Seconds between two looks at files that may have grown."""

GONE = -1
"""In place of the inode of a file that was there."""

TICK = 1.0
"""Seconds after which waiting is interrupted for the progress line."""


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

    def wait(self, descriptor: int | None, seconds: float) -> bool:
        """Whether there is something to read, or the end of it, within so many seconds; not when stopped."""
        watched = [self._woken] if descriptor is None else [self._woken, descriptor]
        ready, _, _ = select.select(watched, [], [], seconds)
        return descriptor in ready and not self


def read_stream(descriptor: int, stop: Stop, idle: Callable[[], None]) -> Iterator[Piece | None]:
    """The lines of a pipe, a socket or a terminal: whatever is there, without waiting for more."""
    cutter = LineCutter()
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
        yield Piece(cutter.cut(chunk))


class InputFile:
    """A file of lines, read on from `position`."""

    def __init__(self, path: str, position: int = 0) -> None:
        self.path = path
        self._position, self._read = position, position
        self._cutter = LineCutter()
        self._inode: int | None = None

    def more(self, stop: Stop) -> Iterator[Piece]:
        """The complete lines that are there by now; none if the file is gone."""
        try:
            found = os.stat(self.path)
            self._begin_again_if_changed(found)
            if self._read < found.st_size:
                yield from self._up_to(found.st_size, stop)
        except FileNotFoundError:
            # what comes back under this name is another file, even if it gets the same inode
            self._inode = GONE if self._inode is not None else None

    def _up_to(self, end: int, stop: Stop) -> Iterator[Piece]:
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self._read)
            while not stop and (chunk := file.read(min(CHUNK, end - self._read))):
                self._read += len(chunk)
                lines = self._cutter.cut(chunk)
                if lines:
                    yield Piece(lines, self.path, self._position)
                    self._position += sum(map(len, lines)) + len(lines)

    def last(self) -> Iterator[Piece]:
        """The line at the end, if it has no newline."""
        rest = self._cutter.rest()
        if rest is not None:
            yield Piece([rest], self.path, self._position, complete=False)

    def _begin_again_if_changed(self, found: os.stat_result) -> None:
        replaced = self._inode is not None and found.st_ino != self._inode
        self._inode = found.st_ino
        if replaced or found.st_size < self._read:
            how = "was replaced" if replaced else "is shorter than it was"
            print(f"onlinecal: {self.path} {how}: it is read from its beginning", file=sys.stderr)
            self._position = self._read = 0
            self._cutter = LineCutter()


class Files:
    """Files and folders of *.jsonl files, in the order given, a folder's files by name.

    `begin(path)` says from which position a file is read.
    """

    def __init__(self, paths: Iterable[Path], begin: Callable[[str], int]) -> None:
        self._paths = list(dict.fromkeys(Path(os.path.abspath(path)) for path in paths))
        self._begin = begin
        self._files: dict[str, InputFile] = {}

    def _found(self) -> Iterator[InputFile]:
        for path in self._paths:
            for name in map(str, listed(path) if path.is_dir() else [path]):
                if name not in self._files:
                    self._files[name] = InputFile(name, self._begin(name))
                yield self._files[name]

    def once(self, stop: Stop) -> Iterator[Piece | None]:
        """All lines up to the ends of the files, as they are when their turn comes."""
        for file in self._found():
            yield from file.more(stop)
            if stop:
                return
            yield from file.last()

    def for_ever(self, stop: Stop, idle: Callable[[], None]) -> Iterator[Piece | None]:
        """All complete lines, and those that are added, also in files that appear."""
        while not stop:
            for file in self._found():
                yield from file.more(stop)
            yield None
            stop.wait(None, POLL)
            idle()


def check_inputs(paths: Iterable[Path]) -> None:
    """ValueError unless each is a file or a folder."""
    for path in paths:
        if not path.is_dir() and not path.is_file():
            what = "is neither a file nor a folder" if path.exists() else "is not there"
            raise ValueError(f"--input {path} {what}")


def listed(folder: Path) -> list[Path]:
    """A folder's *.jsonl files by name, without those that begin with a dot: they are being written."""
    return sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith("."))


def beginning(path: str, noted: int | None) -> int:
    """Where to go on in a file that was answered up to `noted`: there, if a line ends there; else at 0."""
    if not noted:
        return 0
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(noted - 1)
        if file.read(1) == b"\n":
            return noted
        print(
            f"onlinecal: {path} is not the file that was answered: it is read from its beginning",
            file=sys.stderr,
        )
    return 0
