"""A kernel's compiled code, found again by what the kernel is made of.

numba's own cache of functions does not do. It does not notice an edit of a function in another file that a
cached function calls. Two processes that write code of one function for different types at the same time can
get each other's code. And it loads damaged files.

A dispatcher calls `load_overload` before it compiles, and `save_overload` after. Neither ever raises, but for
`NotThere`, which only callers in `only_what_is_there` can meet; that mark is a thread's own. A name has all
that the code depends on (`_name`). If something is missing there, wrong code may be loaded, so parts may be
added freely, and none taken away.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba import types
from numba.core import config
from numba.core.caching import NullCache

import onlinecal.compiling.folder as folder
from onlinecal.compiling.ingredients import fingerprint
from onlinecal.compiling.internals import can_be_kept, put_together, take_apart

SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "USING_SVML")
"""The settings of numba's configuration that change the code."""


_thread = threading.local()


class NotThere(Exception):
    """There is no code, and it is not to be compiled."""


@contextmanager
def only_what_is_there() -> Iterator[None]:
    """A context in which this thread compiles nothing: code that is not there raises `NotThere`."""
    _thread.loads_only = True
    try:
        yield
    finally:
        _thread.loads_only = False


def loads_only() -> bool:
    """Whether this thread is in that context."""
    return getattr(_thread, "loads_only", False)


class KernelCache(NullCache):
    """The cache of one dispatcher, which reads and hashes nothing before it is asked for code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types, None if it is not there or cannot be trusted.

        If another process compiles it just now, it is waited for.
        """
        # whatever is wrong with the file, the kernel can be compiled
        with suppress(Exception):
            name = self._name(sig, target_context.codegen())
            data = folder.read(name)
            if data is None and not loads_only():
                folder.take_turn(name)
                data = folder.read(name)
            if data is not None:
                # the functions that the code refers to; this takes a third of a second
                target_context.refresh()
                found = put_together(target_context, data)
                folder.end_turn()
                return found
        if loads_only():
            raise NotThere
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for these types, if it can be kept."""
        # if the code cannot be kept, it is compiled all the same
        with suppress(Exception):
            if can_be_kept(data):
                folder.write(self._name(sig, data.codegen), take_apart(data))
        folder.end_turn()

    def _name(self, sig: Any, codegen: Any) -> str:
        """The name of the code's file."""
        args = sig if isinstance(sig, tuple) else sig.args
        fields = [one.fields for one in args if isinstance(one, types.BaseNamedTuple)]
        settings = [getattr(config, setting, None) for setting in SETTINGS]
        parts = fingerprint(self._function), str(sig), fields, codegen.magic_tuple(), settings
        return f"{self._function.__name__}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"
