"""A kernel's compiled code, found again by what the kernel is.

The folder stands for all sources, so a kernel's name need only tell it from other kernels of the same
sources: its place in them, what is in its closure, the types of its arguments, and the processor.

numba's own cache of functions does not fit: it describes the functions in a closure by numbers that each
process draws anew, two processes that write code of one function for different types at the same time can
take each other's, and it loads what is damaged. `CompileResult._reduce` and `_rebuild` are how it takes code
apart and puts it together; these names are the same in numba 0.61 to 0.68.

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
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from onlinecal.compiling import folder
from onlinecal.compiling.folder import is_ours, unchanged

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


class KernelCache(NullCache):
    """What a dispatcher asks for its code; nothing is read or hashed before it does."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """The code for these types, None if it is not there or cannot be trusted."""
        target_context.refresh()
        # whatever is wrong with it, it can be compiled
        with suppress(Exception):
            data = folder.read(self._name(sig, target_context.codegen())) if unchanged() else None
            return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))
        return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keep the code for these types, if that can be."""
        if data.library.has_dynamic_globals or not unchanged():
            return
        # whatever cannot be told or taken apart, it has been compiled
        with suppress(Exception):
            name, code = self._name(sig, data.codegen), dumps(data._reduce())
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
    if isinstance(value, FunctionType) and is_ours(value.__code__.co_filename):
        code = value.__code__
        constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
        inside = [cell.cell_contents for cell in value.__closure__ or ()] + list(value.__defaults__ or ())
        place = value.__module__, value.__qualname__, code.co_firstlineno, code.co_code, constants
        return repr((*place, [fingerprint(one) for one in inside]))
    if isinstance(value, tuple):
        return repr([type(value).__name__, *map(fingerprint, value)])
    if isinstance(value, np.ndarray):
        return repr((value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, type) and issubclass(value, np.generic):
        return value.__name__
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}"
    raise NotKept(repr(value))
