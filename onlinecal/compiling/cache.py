"""A kernel's compiled code, found again by what the kernel is.

The folder stands for all sources, so a kernel's name need only tell it from other kernels of the same
sources: its place in them, what is in its closure, the types of its arguments, and the processor.

numba's own cache of functions (`numba.core.caching.FunctionCache`) does not fit: it describes the functions
in a closure by numbers that each process draws anew, and two processes that write code of one function for
different types at the same time can take each other's. So this is another `_Cache`, what a dispatcher asks
for code before it compiles. `CompileResult._reduce` and `_rebuild` are how numba's cache takes code apart
and puts it together. These names are the same in numba 0.61 to 0.68.

Code refers to functions by names that end in a number, which numba counts from 1 in every process. So code
of two processes, such as two versions of one loop that differ in what they close over, could have the same
names, and in a third process the first that was loaded would be called in the place of both. Here every
process counts from a number of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import secrets
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from onlinecal.compiling import folder
from onlinecal.compiling.sources import is_ours, unchanged

SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "USING_SVML")
"""What numba's configuration can change in the code."""


def number_apart() -> None:
    """Let this process count its functions from a number that no other one is near."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))


number_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=number_apart)


class NotKept(Exception):
    """It cannot be told for sure what this code was made from, so it is not kept."""


class KernelCache(_Cache):
    """What a dispatcher asks for its code; nothing is read or hashed before it does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder that new code goes to."""
        kept = folder.kept_in()
        return None if kept is None else str(kept)

    def enable(self) -> None:
        """Look for code, and keep it."""
        self._enabled = True

    def disable(self) -> None:
        """Do neither."""
        self._enabled = False

    def flush(self) -> None:
        """Nothing to do: what is compiled anew is written anew."""

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """The code for these types, None if it is not there or cannot be trusted."""
        target_context.refresh()
        if not self._enabled or not unchanged():
            return None
        try:
            data = folder.read(self._name(sig, target_context.codegen()))
            return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception:
            # whatever is wrong with it, it can be compiled
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keep the code for these types, if that can be."""
        portable = all(one.can_cache for one in data.lifted) and not data.library.has_dynamic_globals
        if not self._enabled or not portable or not unchanged():
            return
        try:
            name, code = self._name(sig, data.codegen), dumps(data._reduce())
        except Exception:
            # whatever cannot be told or taken apart, it has been compiled
            return
        folder.write(name, code)

    def _name(self, sig: Any, codegen: Any) -> str:
        """The name of the code's file."""
        args = sig if isinstance(sig, tuple) else sig.args
        fields = [one.fields for one in args if isinstance(one, types.BaseNamedTuple)]
        settings = [getattr(config, setting, None) for setting in SETTINGS]
        parts = fingerprint(self._function), str(sig), fields, codegen.magic_tuple(), settings
        return f"{self._function.__name__}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"


def fingerprint(value: Any) -> str:
    """What a kernel, or a value in its closure, is: the same in every process that has the same sources.

    Raises
    ------
    NotKept
        If that cannot be told: functions of a user, objects.
    """
    # of what numba has made the function that it was made of
    value = getattr(value, "py_func", getattr(value, "__wrapped__", value))
    if isinstance(value, FunctionType):
        code = value.__code__
        if not is_ours(code.co_filename):
            raise NotKept(f"{value.__qualname__} of {code.co_filename}")
        constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
        inside = [cell.cell_contents for cell in value.__closure__ or ()] + list(value.__defaults__ or ())
        place = value.__module__, value.__qualname__, code.co_firstlineno, code.co_code, constants
        return repr((*place, [fingerprint(one) for one in inside]))
    if isinstance(value, tuple):
        return repr([type(value).__name__, *(fingerprint(one) for one in value)])
    if isinstance(value, np.ndarray):
        return repr((value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest()))
    if isinstance(value, type) and issubclass(value, np.generic):
        return value.__name__
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}"
    raise NotKept(repr(value))
