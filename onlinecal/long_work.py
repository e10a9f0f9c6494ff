"""What people are told of long work that they did not expect to be long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

Tell = Callable[[float], None]
"""Called with the share of the work that is done, which never falls; it is 1 at the end."""

LONG = 15.0
"""Seconds after which people are told."""


def untold(share: float) -> None:
    """Tell nobody."""


def part_of(tell: Tell, begin: float, end: float) -> Tell:
    """What a part of the work tells, which is that from one share to another."""
    return lambda share: tell(begin + min(share, 1.0) * (end - begin))


def told(what: str, advice: str) -> Tell:
    """Tell on stderr, from so many seconds on, at every tenth of the work; at first with the advice."""
    begin, last = time.monotonic(), -1

    def tell(share: float) -> None:
        nonlocal last
        tenth = int(10.0 * share)
        if tenth <= last or share >= 1.0 or time.monotonic() < begin + LONG:
            return
        line = f"onlinecal: {what}: {10 * tenth} % done" + (f"; {advice}" if last < 0 else "")
        last = tenth
        # nobody may be there to read it
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    return tell
