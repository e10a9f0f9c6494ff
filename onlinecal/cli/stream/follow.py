"""Files and folders that are read once, or followed: which file a name means, and what is read of it when."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from onlinecal.cli.stream.files import (
    MARK,
    UNREADABLE,
    Identity,
    InputFile,
    NotAFile,
    check_regular,
    identity_of,
    say,
)
from onlinecal.cli.stream.inputs import Stop
from onlinecal.cli.stream.lines import Piece
from onlinecal.engine.ledger.records import Noted

POLL = 0.2
"""Seconds between two looks at files that may have grown."""

LINGER = 60.0
"""Seconds without a new line for which a file is still read that has lost its name."""

MOST_OPEN = 200
"""Files that are kept open: those that grew last."""


class Files:
    """Files and folders of *.jsonl and *.jsonl.gz, in the order given, a folder's files by name.

    `noted(path)` says how far a file was answered before. A file that cannot be read is passed over with a
    word on stderr; `unread` has those that hold lines.
    """

    def __init__(self, paths: Iterable[Path], noted: Callable[[str], Noted | None]) -> None:
        self._paths = [*dict.fromkeys(map(os.path.abspath, paths))]
        self._noted = noted
        self._files: dict[str, InputFile] = {}
        self._names: dict[Identity, str] = {}
        self._nameless: dict[Identity, InputFile] = {}
        self._open: dict[str, None] = {}
        self._told: dict[str, str] = {}
        self._met: set[str] = set()
        self.unread: dict[str, None] = {}

    def once(self, stop: Stop) -> Iterator[Piece | None]:
        """All lines up to the ends of the files, as they are when their turn comes."""
        for name in self._listed():
            yield from self._read(name, stop)
            file = self._files.get(name)
            if file is not None and file.is_open:
                if not stop and name not in self._told:
                    yield from file.last(name)
                self._close(name)
            if stop:
                return
        yield from self._read_nameless(stop, linger=0.0)

    def for_ever(self, stop: Stop, idle: Callable[[], None]) -> Iterator[Piece | None]:
        """All complete lines, and those that are added, also in files that appear."""
        while not stop:
            for name in dict.fromkeys([*self._listed(), *self._files]):
                yield from self._read(name, stop)
            yield from self._read_nameless(stop, LINGER)
            yield None
            stop.wait(None, POLL)
            idle()

    def _listed(self) -> Iterator[str]:
        """The files' names, as they are now."""
        for path in self._paths:
            try:
                yield from listed(path) if os.path.isdir(path) else [path]
            except OSError as error:
                self._tell(path, error)

    def _read(self, name: str, stop: Stop) -> Iterator[Piece]:
        """What there is to read under a name by now."""
        try:
            yield from self._look(name, stop)
            self._told.pop(name, None)
        except UNREADABLE as error:
            self._tell(name, error)

    def _look(self, name: str, stop: Stop) -> Iterator[Piece]:
        file = self._files.get(name)
        try:
            found = os.stat(name)
            check_regular(found)
        except (FileNotFoundError, NotAFile):
            if file is not None:
                yield from self._lose(name, stop)
            raise
        if file is not None and identity_of(found) != file.identity:
            yield from self._lose(name, stop)
            say(name, "was replaced: it is read from its beginning")
            file = None
        if file is None:
            yield from self._begin(name, identity_of(found), stop)
            file = self._files[name]
        elif not file.is_open and not (file.has_changed(found) and file.reopen(name)):
            return
        grew = file.grew
        yield from file.more(stop, name)
        if file.grew != grew or name not in self._open:
            self._open.pop(name, None)
            self._open[name] = None
            if len(self._open) > MOST_OPEN:
                self._close(next(iter(self._open)))

    def _begin(self, name: str, identity: Identity, stop: Stop) -> Iterator[Piece]:
        """Open a file that is new under its name; first, what is left of the one that had the name before."""
        before = self._names.get(identity)
        if before is not None and not is_at(before, identity):
            self._forget(before)
        renamed = self._nameless.pop(identity, None)
        if renamed is not None:
            self._know(name, renamed)
            return
        # the ledger knows of the file that had this name when the run began
        noted = None if name in self._met else self._noted(name)
        file = InputFile(name, noted)
        self._met.add(name)
        self._know(name, file)
        if noted is not None and noted.position and not file.begun_at:
            left = self._left_of(name, noted)
            if left is None:
                say(name, "is not the file that was answered: it is read from its beginning")
            else:
                say(name, f"was replaced: first the rest of what was answered, now {left.path}, is read")
                yield from left.more(stop, name)
                self._nameless[left.identity] = left

    def _left_of(self, name: str, noted: Noted) -> InputFile | None:
        """The file that was noted under a name, if it lies under another beside it and is not being read."""
        if noted.mark is None:
            return None
        try:
            path = beside(name, MARK.unpack(noted.mark)[0])
            if path is None:
                return None
            file = InputFile(path, noted)
        except OSError:
            return None
        if file.begun_at and file.identity not in self._names and file.identity not in self._nameless:
            return file
        file.close()
        return None

    def _know(self, name: str, file: InputFile) -> None:
        self._files[name], self._names[file.identity] = file, name

    def _forget(self, name: str) -> InputFile:
        """A file has lost its name, and is read without it for a while."""
        file = self._files.pop(name)
        self._open.pop(name, None)
        # another name of the same file may have taken this place
        self._names.pop(file.identity, None)
        path = beside(name, file.identity[1]) if not file.is_open else None
        if file.is_open or (path is not None and file.reopen(path)):
            self._nameless[file.identity] = file
        return file

    def _lose(self, name: str, stop: Stop) -> Iterator[Piece]:
        """Read a file to its end that has lost its name."""
        file = self._forget(name)
        if file.is_open:
            yield from file.more(stop, name)

    def _read_nameless(self, stop: Stop, linger: float) -> Iterator[Piece]:
        """What writers still add to files that have lost their names; at last, the lines without an end."""
        for identity, file in [*self._nameless.items()]:
            try:
                yield from file.more(stop, None)
                if stop or time.monotonic() - file.grew < linger:
                    continue
                yield from file.last(None)
            except UNREADABLE as error:
                self._tell(file.path, error)
            file.close()
            del self._nameless[identity]

    def _close(self, name: str) -> None:
        self._files[name].close()
        self._open.pop(name, None)

    def _tell(self, name: str, error: Exception) -> None:
        """Say once why a file is not read."""
        what = str(error)
        if isinstance(error, FileNotFoundError):
            what = "is a link to nothing" if os.path.islink(name) else "is not there any more"
        elif isinstance(error, OSError) and error.errno is not None:
            what = f"cannot be read: {error.strerror}"
        if self._told.get(name) != what:
            self._told[name] = what
            say(name, what)
        if not isinstance(error, (FileNotFoundError, NotAFile)):
            self.unread[name] = None


def listed(folder: str) -> list[str]:
    """A folder's *.jsonl and *.jsonl.gz by name; those that begin with a dot are still being written."""
    return sorted(
        os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.endswith((".jsonl", ".jsonl.gz")) and not name.startswith(".")
    )


def is_at(name: str, identity: Identity) -> bool:
    """Whether a name means that file."""
    try:
        return identity_of(os.stat(name)) == identity
    except OSError:
        return False


def beside(name: str, inode: int) -> str | None:
    """The file with an inode in the folder of a name, under another name."""
    with os.scandir(os.path.dirname(name)) as entries:
        return next((one.path for one in entries if one.inode() == inode and one.path != name), None)


def check_inputs(paths: Iterable[Path]) -> None:
    """ValueError unless each is a file or a folder."""
    for path in paths:
        if not path.is_dir() and not path.is_file():
            what = "is neither a file nor a folder" if path.exists() else "is not there"
            raise ValueError(f"--input {path} {what}")
