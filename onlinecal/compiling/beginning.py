"""Kernels that the interpreter begins: here, and nowhere else, is decided when they are compiled.

To compile a kernel takes seconds, and to load it a good part of one. The interpreter runs the same source at
once, with the same results to the last bit. So it plays the first rounds.

- After as much work as loading takes, the kernel is loaded, if it is kept.
- If it is not, and work goes on, a child process compiles it (`filling`), and it is loaded when that is done.
  A thread would not do: while it compiles it holds numba's one lock, and every other kernel waits.
- A column that is so long that compiling pays has it compiled before it is played.
- Where no child can be started, or nothing can be kept, it is compiled after as much work as that takes.

What is played on is copied, and the copies are put in its place in one step. So an interrupt, an error or
another thread never finds half a round.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import repeat
from operator import setitem
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import typeof, types
from numba.core import config

from onlinecal.compiling import filling
from onlinecal.compiling.folder import alone
from onlinecal.compiling.kernels import compiled, loaded, namespace

Kind = TypeVar("Kind")

LOADING = 0.25
"""Seconds of work after which it is looked whether a kernel can be loaded: about what that takes."""
PATIENCE = 1.0
"""Seconds of work after which more is to be expected, and a child process compiles what is missing."""
AGAIN = 0.05
"""Seconds of work after which it is looked again how far that is."""
LONGEST_WAIT = 60.0
"""Seconds after which nobody waits any more for another process that compiles."""


class Address(NamedTuple):
    """Where another process finds the class that entries belong to."""

    module: str
    name: str
    arguments: tuple[Any, ...] | None = None
    """If that is a function, those for which it makes the class."""

    def reach(self) -> Beginning:
        """The beginning of that class, in any process."""
        found = getattr(import_module(self.module), self.name)
        if self.arguments is not None:
            found(*self.arguments)
        return BEGINNINGS[self]


@dataclass(eq=False)
class Entry:
    """A function that is interpreted until it is compiled.

    Attributes
    ----------
    function
        A kernel's source. It may call parts of kernels, and nothing that is compiled itself.
    n_played
        So many of its arguments, the first ones, are arrays that it plays on. Others it reads or fills.
    types
        Those of its arguments; None: those of a call, of many `rows`.
    seconds
        What the interpreter takes for a row of a call of many.
    compiling
        What it takes to compile, in seconds.
    rows
        Says of the arguments how many rows they have; None: it is a call for one.
    """

    function: Callable[..., Any]
    n_played: int
    types: tuple[Any, ...] | None = None
    seconds: float = 0.0
    compiling: float = 5.0
    rows: Callable[..., int] | None = None
    kernel: Any = field(init=False)
    name: str = field(init=False, default="")
    beginning: Beginning = field(init=False)
    used: bool = field(init=False, default=False)
    was_asked_for: bool = field(init=False, default=False)
    """Whether a child process was to compile it."""
    makers: tuple[type, ...] = field(init=False, default=())
    """What makes the numbers behind those arrays what the types say."""

    def __post_init__(self) -> None:
        self.kernel = compiled(self.function)
        if self.types is not None:
            numbers = self.types[self.n_played :]
            self.makers = tuple(float if kind is types.float64 else int for kind in numbers)

    def __call__(self, *given: Any) -> Any:
        """What the function returns, interpreted or compiled."""
        beginning, ahead = self.beginning, 0.0
        if self.rows is not None:
            ahead = self.seconds * self.rows(*given)
        self.used = True
        if beginning.spent + ahead >= beginning.next_look or at_once():
            compiled_form = beginning.compiled_form_of(self, given, ahead)
            if compiled_form is not None:
                return compiled_form(*given)
        begin = time.perf_counter()
        try:
            return self.interpret(given)
        finally:
            beginning.spent += time.perf_counter() - begin

    def interpret(self, given: tuple[Any, ...]) -> Any:
        """What the function returns, run by the interpreter."""
        played = given[: self.n_played]
        if self.rows is None:
            with TURN:
                copies: list[Any] = [array.copy() for array in played]
                numbers = [make(x) for make, x in zip(self.makers, given[self.n_played :], strict=True)]
                answer = self.function(*[memoryview(array) for array in copies], *numbers)
                put_in_place(played, copies)
            return answer
        # a list takes half of the time of a view, and longer to make
        lists = [array.tolist() for array in played]
        answer = self.function(*lists, *map(seen, given[self.n_played :]))
        copies = [np.array(x, array.dtype) for x, array in zip(lists, played, strict=True)]
        put_in_place(played, copies)
        return answer


def seen(value: Any) -> Any:
    """The same for the interpreter, to which elements of arrays are Python's numbers."""
    if isinstance(value, np.ndarray):
        return value.data
    if isinstance(value, tuple):
        parts = map(seen, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def put_in_place(arrays: tuple[Any, ...], contents: list[Any]) -> None:
    """Give arrays their new contents, all in one step: no signal and no other thread comes between."""
    deque(map(setitem, arrays, repeat(slice(None)), contents), maxlen=0)


class Beginning:
    """Entries of one class, which are compiled together.

    Attributes
    ----------
    spent
        Seconds that the interpreter has played so far.
    next_look
        When it has played so long, it is looked again what there is.
    """

    def __init__(self, address: Address, entries: dict[str, Entry]) -> None:
        self.address, self.entries = address, entries
        self.spent, self.next_look = 0.0, LOADING
        self.kind: type = object
        self.lock = threading.Lock()

    def compiled_form_of(self, entry: Entry, given: tuple[Any, ...], ahead: float) -> Any:
        """What to call in place of an entry; None: the interpreter is to play `ahead` seconds of work."""
        must = at_once() or ahead >= entry.compiling
        if not must and ahead < LOADING and filling.is_busy():
            self.next_look = self.spent + AGAIN
            return None
        # while one thread looks, others play on
        if not self.lock.acquire(blocking=must):
            return None
        try:
            kinds = entry.types or tuple(map(typeof, given))
            point = loaded(entry.kernel, kinds)
            if point is None:
                if not must and not self.has_waited(entry, kinds):
                    return None
                # another process may be about to keep it
                with alone(LONGEST_WAIT):
                    point = entry.kernel.compile(kinds)
            # of calls for many rows the types may be others another time
            compiled_form = entry.kernel if entry.types is None else point
            setattr(self.kind, entry.name, staticmethod(compiled_form))
            return compiled_form
        finally:
            self.lock.release()

    def has_waited(self, entry: Entry, kinds: tuple[Any, ...]) -> bool:
        """Whether it is time that this process compiles an entry itself; else a child may be told to."""
        if entry.was_asked_for or not filling.is_possible():
            self.next_look = max(self.next_look, entry.compiling)
            return self.spent >= entry.compiling
        if self.spent < PATIENCE:
            self.next_look = PATIENCE
            return False
        used = [each for each in self.entries.values() if each.used and each.types is not None]
        wanted = {each.name: each.types or () for each in used} | {entry.name: kinds}
        for name in wanted:
            self.entries[name].was_asked_for = True
        filling.start(self.address, wanted)
        self.next_look = self.spent + AGAIN
        return False


BEGINNINGS: dict[Address, Beginning] = {}
"""All of this process."""

TURN = threading.RLock()
"""Held while a round is interpreted: of two threads that play on one forecaster each plays whole rounds."""

_at_once = 0


def at_once() -> bool:
    """Whether everything is to be compiled at its first call."""
    return _at_once > 0


@contextmanager
def compiled_at_once() -> Iterator[None]:
    """Compile meanwhile whatever is called, in place of having the interpreter begin it."""
    global _at_once
    _at_once += 1
    try:
        yield
    finally:
        _at_once -= 1


def interpreted_first(kind: type[Kind], address: Address, **entries: Any) -> type[Kind]:
    """A `namespace` of entries that the interpreter begins; what is no `Entry` is held as it is.

    With NUMBA_DISABLE_JIT=1 nothing is ever compiled.
    """
    if config.DISABLE_JIT:
        plain = {name: x.kernel if isinstance(x, Entry) else x for name, x in entries.items()}
        return namespace(kind, **plain)
    begun = {name: entry for name, entry in entries.items() if isinstance(entry, Entry)}
    beginning = BEGINNINGS[address] = Beginning(address, begun)
    for name, entry in begun.items():
        entry.name, entry.beginning = name, beginning
    beginning.kind = namespace(kind, **entries)
    return beginning.kind


def _begin_anew_after_a_fork() -> None:
    """Locks may be held by threads that are not here, and the child process is the parent's."""
    global TURN
    TURN = threading.RLock()
    for beginning in BEGINNINGS.values():
        beginning.lock = threading.Lock()
        for entry in beginning.entries.values():
            entry.was_asked_for = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_after_a_fork)
