"""How many loops had to be compiled: what makes a first run slow, and the next one not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numba.core import event


@dataclass
class Compiled:
    """Loops compiled so far, by this process or those it was told of, and the seconds that took."""

    loops: int = 0
    seconds: float = 0.0

    def add(self, other: Compiled) -> None:
        """Count what another process has compiled."""
        self.loops += other.loops
        self.seconds += other.seconds

    @property
    def notice(self) -> str | None:
        """One line for people, None if there is nothing to tell."""
        if self.loops == 0:
            return None
        noun = "1 loop" if self.loops == 1 else f"{self.loops} loops"
        return f"compiled {noun} for the first time ({self.seconds:.1f} s); the next run starts at once"


class _Listener(event.Listener):
    """Counts what is compiled and not found on disk; functions that a loop calls count with the loop."""

    def __init__(self, count: Compiled) -> None:
        self.count = count
        self.depth = 0
        self.begin = 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begin = time.perf_counter()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.count.loops += 1
            self.count.seconds += time.perf_counter() - self.begin


@contextmanager
def counting() -> Iterator[Compiled]:
    """Count the loops that this process compiles meanwhile.

    Examples
    --------
    >>> with counting() as compiled:
    ...     pass
    >>> compiled.notice is None
    True
    """
    count = Compiled()
    with event.install_listener("numba:compile", _Listener(count)):
        yield count
