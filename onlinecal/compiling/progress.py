"""The progress of compiling: loops are counted, and a line on stderr says if compiling takes long.

`LISTENER` is the one state, a listener of numba's for the whole process. numba calls `on_start` and `on_end`
in pairs, nested for the parts of a kernel, so that `depth` is 0 while nothing is compiled. `counting` adds a
count to `counts` and takes it away. What was told, and how long each package took, is kept for the process.
All this is for people: no result depends on it, so texts and seconds may change freely.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from numba.core import event

from onlinecal.compiling.folder import kept_in
from onlinecal.compiling.ingredients import PACKAGES

QUIET_SECONDS = 1.0
"""People are told after so many seconds of compiling."""

SECONDS = {
    "engine": 10,
    "forecasters": 10,
    "measures": 5,
    "recalibration": 5,
    "steering": 8,
    "simulations": 3,
}
"""What the first use of a package usually compiles for, on an ordinary machine; others take less."""


@dataclass
class Compiled:
    """How many loops were compiled, here and in other processes that were added, and in how many seconds."""

    loops: int = 0
    seconds: float = 0.0

    def add(self, other: Compiled) -> None:
        """Add the `loops` and `seconds` of another count to these."""
        self.loops += other.loops
        self.seconds += other.seconds

    @property
    def notice(self) -> str | None:
        """One line for people, or None if nothing was compiled."""
        if self.loops == 0:
            return None
        noun = "1 loop" if self.loops == 1 else f"{self.loops} loops"
        return f"compiled {noun} for the first time ({self.seconds:.1f} s); the next run starts at once"


class Listener(event.Listener):
    """Listens to numba's compiling; functions that are compiled for a kernel count as parts of it."""

    def __init__(self) -> None:
        self.depth, self.begin = 0, 0.0
        self.counts: dict[int, Compiled] = {}
        self.spent: dict[str, float] = defaultdict(float)
        self.told: set[str] = set()
        self.timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Start a timer, since a function begins to be compiled: people are told once for each package."""
        self.depth += 1
        if self.depth > 1:
            return
        self.begin, package = time.perf_counter(), _package(event)
        if package.split(".")[0] in PACKAGES and package not in self.told:
            self.timer = threading.Timer(max(0.0, QUIET_SECONDS - self.spent[package]), self.tell, (package,))
            self.timer.daemon = True
            # no thread can be started while the interpreter ends, or if there are too many
            with suppress(RuntimeError):
                self.timer.start()

    def on_end(self, event: Any) -> None:
        """Count the function, which is compiled or has failed, and stop the timer."""
        self.depth -= 1
        if self.depth == 0:
            seconds = time.perf_counter() - self.begin
            self.spent[_package(event)] += seconds
            for count in list(self.counts.values()):
                count.add(Compiled(1, seconds))
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
        # an interrupt may have come before `on_start`
        self.depth = max(0, self.depth)

    def tell(self, package: str) -> None:
        """Say on stderr what is compiled, for how long, and where it is kept."""
        self.told.add(package)
        kept = kept_in()
        seconds = SECONDS.get(package.rpartition(".")[2], 2)
        where = "once for this process" if kept is None else f"once (kept in {kept})"
        # stderr may be closed or missing
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"onlinecal: compiling {package} for some {seconds} seconds, {where}\n")
            sys.stderr.flush()


def _package(event: Any) -> str:
    """The package of the compiled function, such as "onlinecal.measures"; a console's functions have none."""
    return ".".join(str(event.data["dispatcher"].py_func.__module__).split(".")[:2])


LISTENER = Listener()
event.register("numba:compile", LISTENER)


@contextmanager
def counting() -> Iterator[Compiled]:
    """A context that gives a `Compiled`, which counts the loops that this process compiles meanwhile.

    Examples
    --------
    >>> with counting() as compiled:
    ...     pass
    >>> compiled.notice is None
    True
    """
    count = Compiled()
    LISTENER.counts[id(count)] = count
    try:
        yield count
    finally:
        del LISTENER.counts[id(count)]
