"""Standard input as it comes, and the signals that end every wait for input."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from onlinecal.cli.stream.files import CHUNK, GZIP, OTHERS, check_not_packed
from onlinecal.cli.stream.lines import LineCutter, Piece

TICK = 1.0
"""Seconds after which waiting is interrupted for the progress line."""


SIGNALS = signal.SIGTERM, signal.SIGINT


class Stop:
    """Becomes true with the first SIGTERM or SIGINT, and ends every wait; the second ends the process.

    `end` does the same from within. A context: the signals mean what they meant before when it is left.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._ended = False
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

    def end(self) -> None:
        """End every wait, from any thread: there is nothing to wait for any more."""
        self._ended = True
        os.write(self._wake, b"!")

    def __bool__(self) -> bool:
        return self._ended or self.signal is not None

    def wait(self, descriptor: int | None, seconds: float) -> bool:
        """Whether there is something to read, or the end of it, within so many seconds; not when stopped."""
        watched = [self._woken] if descriptor is None else [self._woken, descriptor]
        ready, _, _ = select.select(watched, [], [], seconds)
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
