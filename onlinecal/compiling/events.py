"""What is compiled, while it is compiled: counted for those who ask, told on stderr when it takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from numba.core import event

from onlinecal.compiling import folder

LONG = 1.0
"""Seconds of compiling after which people are told."""
FAMILIES = {
    "onlinecal.forecasters": "forecasters",
    "onlinecal.measures": "measures",
    "onlinecal.recalibration": "recalibrators",
    "onlinecal.wrappers": "wrappers",
    "simulations": "games",
}


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


class _Outermost(event.Listener):
    """Hears of what is compiled, but not of the functions that it calls, which are compiled meanwhile."""

    def __init__(self) -> None:
        self.depth = 0
        self.begin = 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begin = time.perf_counter()
            self.begins(event.data["dispatcher"])
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.ends(event.data["dispatcher"], time.perf_counter() - self.begin)

    def begins(self, dispatcher: Any) -> None:
        """The dispatcher's function begins to be compiled."""

    def ends(self, dispatcher: Any, seconds: float) -> None:
        """It is done, or has failed."""


class _Counter(_Outermost):
    def __init__(self, count: Compiled) -> None:
        super().__init__()
        self.count = count

    def ends(self, dispatcher: Any, seconds: float) -> None:
        self.count.loops += 1
        self.count.seconds += seconds


class _Crier(_Outermost):
    """Tells on stderr of each family of kernels, once, when compiling it takes long."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: dict[str, float] = {}
        self.timer: threading.Timer | None = None
        self.told: set[str] = set()

    def begins(self, dispatcher: Any) -> None:
        family = _family(dispatcher)
        if family is None or family in self.told:
            return
        self.timer = threading.Timer(max(0.0, LONG - self.spent.get(family, 0.0)), self.tell, (family,))
        self.timer.daemon = True
        # at the end of the interpreter, or of the threads that there may be, none can be started
        with suppress(RuntimeError):
            self.timer.start()

    def ends(self, dispatcher: Any, seconds: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        family = _family(dispatcher)
        if family is not None:
            self.spent[family] = self.spent.get(family, 0.0) + seconds

    def tell(self, family: str) -> None:
        self.told.add(family)
        kept = folder.kept_in()
        where = "once for this process" if kept is None else f"once (kept in {kept})"
        # nobody may be there to read it
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"onlinecal: compiling the {family}, {where}\n")
            sys.stderr.flush()


def _family(dispatcher: Any) -> str | None:
    """What people call the kernels that this one belongs to; None for code that is not ours."""
    module = dispatcher.py_func.__module__
    own = [name for package, name in FAMILIES.items() if f"{module}.".startswith(f"{package}.")]
    return own[0] if own else None


@cache
def listen() -> None:
    """Tell from now on."""
    event.register("numba:compile", _Crier())


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
    with event.install_listener("numba:compile", _Counter(count)):
        yield count
