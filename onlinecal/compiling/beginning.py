"""Kernels that the interpreter runs first. Only this module decides when they are compiled.

Compiling a kernel takes seconds, and loading it a good part of a second. The interpreter runs the same source
at once, with the same results to the last bit. So it plays the first rounds.

- After as much work as loading takes, the kernel is loaded, if it is kept.
- If it is not kept, and work goes on, a child process compiles it (`filling`), and it is loaded when that is
  done. A thread would not do: while it compiles it holds numba's one lock, and every other kernel waits.
- For a column that is so long that compiling pays, the kernel is compiled before the column is played.
- If no child can be started, or nothing can be kept, the kernel is compiled after as much work as that takes.

The arrays that are played on are copied, and in one step the copies take their place. So an interrupt, an
error or another thread never finds half a round.

Entries are declared by `interpreted_first`, while modules are imported or when a cached function is first
asked for a class. Each call of one goes through `Entry.__call__`, until its compiled form stands in its place
in the class, for good (`compiled_form_of`). These two, with what they call, write `spent`, `next_look`,
`used` and `was_asked_for`, which is also forgotten after a fork. They do without a lock for `spent` and
`next_look`, where a lost count only delays a look. `Beginning.lock` is held while a compiled form is loaded
or made, and PLAYING_TURN while a single round is interpreted; in a call for many rows no other thread may
have the arrays.

What always holds: whenever compiled code takes over, the answers are the same to the last bit. So all
constants of time here may change freely.
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
from onlinecal.compiling.kernels import compiled, loaded, namespace

Kind = TypeVar("Kind")

LOAD_AFTER = 0.25
"""After so many seconds of work, about what loading takes, a kernel is loaded if it is kept."""
CHILD_AFTER = 1.0
"""After so many seconds of work more is likely to come, and a child process compiles missing kernels."""
LOOKS_APART = 0.05
"""So many seconds of work lie between two looks at what the child has done."""


class Address(NamedTuple):
    """Where another process finds the class that entries belong to."""

    module: str
    name: str
    arguments: tuple[Any, ...] | None = None
    """The arguments for which it makes the class, if the name is that of a function."""

    def reach(self) -> Beginning:
        """The `Beginning` of that class, in any process: its module is imported, and its maker called."""
        maker = getattr(import_module(self.module), self.name)
        if self.arguments is not None:
            maker(*self.arguments)
        return BEGINNINGS[self]


@dataclass(eq=False)
class Entry:
    """A function that is interpreted until it is compiled.

    Attributes
    ----------
    function
        A kernel's source. It may call parts of kernels, and nothing that is compiled itself.
    n_played
        How many arguments, from the first on, are arrays that it plays on. It reads or fills the others.
    types
        The types of its arguments; None: those of each call, which is for many `rows`.
    seconds
        How long the interpreter takes for a row, in a call for many rows.
    compiling
        How long compiling takes, in seconds.
    rows
        The function from the arguments to the number of rows; None: a call is for one row.
    views
        Whether the interpreter sees arrays as views, whose numbers are Python's. Else it sees numpy's arrays:
        ten times as slow, but their whole numbers have 64 bits, as those of compiled code have.
    """

    function: Callable[..., Any]
    n_played: int
    types: tuple[Any, ...] | None = None
    seconds: float = 0.0
    compiling: float = 5.0
    rows: Callable[..., int] | None = None
    views: bool = True
    kernel: Any = field(init=False)
    name: str = field(init=False, default="")
    beginning: Beginning = field(init=False)
    used: bool = field(init=False, default=False)
    was_asked_for: bool = field(init=False, default=False)
    """Whether a child process was told to compile it."""
    makers: tuple[type, ...] = field(init=False, default=())
    """The Python types of the numbers behind the arrays that it plays on."""

    def __post_init__(self) -> None:
        self.kernel = compiled(self.function)
        if self.types is not None:
            numbers = self.types[self.n_played :]
            self.makers = tuple(float if kind is types.float64 else int for kind in numbers)

    def __call__(self, *given: Any) -> Any:
        """Call the function, interpreted or compiled."""
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
        """Call the function in the interpreter, with the arguments `given`; what it plays on is changed."""
        played = given[: self.n_played]
        if self.rows is None:
            with PLAYING_TURN:
                copies: list[Any] = [array.copy() for array in played]
                numbers = [make(x) for make, x in zip(self.makers, given[self.n_played :], strict=True)]
                answer = self.function(*[memoryview(array) for array in copies], *numbers)
                put_in_place(played, copies)
            return answer
        if not self.views:
            return self.function(*given)
        # a list is twice as fast as a view, but takes longer to make
        lists = [array.tolist() for array in played]
        answer = self.function(*lists, *map(seen, given[self.n_played :]))
        copies = [np.array(x, array.dtype) for x, array in zip(lists, played, strict=True)]
        put_in_place(played, copies)
        return answer


def seen(value: Any) -> Any:
    """The value for the interpreter, in which elements of arrays are Python's numbers."""
    if isinstance(value, np.ndarray):
        return value.data
    if isinstance(value, tuple):
        parts = map(seen, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def put_in_place(arrays: tuple[Any, ...], contents: list[Any]) -> None:
    """Give arrays their new contents, all in one step: no signal and no other thread can come between."""
    deque(map(setitem, arrays, repeat(slice(None)), contents), maxlen=0)


class Beginning:
    """Entries of one class, which are compiled together.

    Attributes
    ----------
    spent
        How many seconds the interpreter has played so far.
    next_look
        When it has played so many seconds, it looks again for compiled code.
    """

    def __init__(self, address: Address, entries: dict[str, Entry]) -> None:
        self.address, self.entries = address, entries
        self.spent, self.next_look = 0.0, LOAD_AFTER
        self.kind: type = object
        self.lock = threading.Lock()

    def compiled_form_of(self, entry: Entry, given: tuple[Any, ...], ahead: float) -> Any:
        """The compiled form of an entry; None: the interpreter is to play `ahead` seconds of work."""
        must = at_once() or ahead >= entry.compiling
        if not must and ahead < LOAD_AFTER and filling.is_busy():
            self.next_look = self.spent + LOOKS_APART
            return None
        # while one thread looks, others play on
        if not self.lock.acquire(blocking=must):
            return None
        try:
            kinds = entry.types or tuple(map(typeof, given))
            point = loaded(entry.kernel, kinds)
            if point is None:
                if not must and not self.must_compile_here(entry, kinds):
                    return None
                point = entry.kernel.compile(kinds)
            # calls for many rows may have other types the next time
            compiled_form = entry.kernel if entry.types is None else point
            setattr(self.kind, entry.name, staticmethod(compiled_form))
            return compiled_form
        finally:
            self.lock.release()

    def must_compile_here(self, entry: Entry, kinds: tuple[Any, ...]) -> bool:
        """Whether this process is to compile an entry itself, now.

        If a child was told to and has ended without it, or if none can be started, it does after as much work
        as compiling takes. Otherwise a child is told to, as soon as work has gone on for long enough and no
        other child is at work. Where the answer is no, `next_look` says when to ask again.
        """
        if entry.was_asked_for or not filling.is_possible():
            self.next_look = max(self.next_look, entry.compiling)
            return self.spent >= entry.compiling
        if self.spent < CHILD_AFTER:
            self.next_look = CHILD_AFTER
            return False
        if filling.is_busy():
            self.next_look = self.spent + LOOKS_APART
            return False
        used = [each for each in self.entries.values() if each.used and each.types is not None]
        wanted = {each.name: each.types or () for each in used} | {entry.name: kinds}
        for name in wanted:
            self.entries[name].was_asked_for = True
        filling.start(self.address, wanted)
        self.next_look = self.spent + LOOKS_APART
        return False


BEGINNINGS: dict[Address, Beginning] = {}
"""All beginnings of this process."""

PLAYING_TURN = threading.RLock()
"""The lock that is held while a round is interpreted, so that two threads on one forecaster play whole
rounds."""

_at_once = 0


def at_once() -> bool:
    """Whether everything is to be compiled at its first call."""
    return _at_once > 0


@contextmanager
def compiled_at_once() -> Iterator[None]:
    """A context in which every kernel is compiled at its first call, and the interpreter begins none.

    It holds for all threads of the process, and may be nested.
    """
    global _at_once
    _at_once += 1
    try:
        yield
    finally:
        _at_once -= 1


def interpreted_first(kind: type[Kind], address: Address, **entries: Any) -> type[Kind]:
    """A `namespace` of entries that the interpreter begins; anything but an `Entry` is held as it is.

    `kind` declares the names of `entries`, and `address` says where another process finds what is returned, a
    class. With NUMBA_DISABLE_JIT=1 nothing is ever compiled.
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
    """Make new locks after a fork, since threads that held them are gone, and forget the parent's child."""
    global PLAYING_TURN
    PLAYING_TURN = threading.RLock()
    for beginning in BEGINNINGS.values():
        beginning.lock = threading.Lock()
        for entry in beginning.entries.values():
            entry.was_asked_for = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew_after_a_fork)
