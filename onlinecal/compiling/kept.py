"""A kernel's compiled code, found by what it was made from.

Code refers to functions by names that end in a number, which numba counts from 1 in every process. So code
of two processes, such as two versions of one loop that differ in what they close over, could have the same
names, and in a third process the first that was loaded would be called in the place of both. Here every
process counts from a number of its own.

numba offers no public way to say where code is kept. `numba.core.caching._Cache` is what a dispatcher asks
for code before it compiles; `CompileResult._reduce` and `_rebuild` are how numba's own cache takes code apart
and puts it together. These names are the same in numba 0.61 to 0.68.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import secrets
import sys
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

import llvmlite
import numba
import numpy as np
from numba import njit, typeof, types
from numba.core import config
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from onlinecal.compiling import folder
from onlinecal.compiling.events import listen
from onlinecal.compiling.sources import check_unchanged, fingerprint, source_digest

Kind = TypeVar("Kind")

SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "USING_SVML")
"""What numba's configuration can change in the code."""


FORMAT = "names of functions differ between processes"
"""Part of every digest: code from before this was so is not found."""


def number_apart() -> None:
    """Let this process count its functions from a number that no other one is near."""
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(60))


number_apart()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=number_apart)


kernels: WeakSet[Any] = WeakSet()
"""All kernels of this process, compiled or not yet."""


def compiled(function: Callable[..., Any]) -> Any:
    """A kernel: compiled at its first call with arguments of these types, or loaded from disk."""
    dispatcher = njit(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT it is
        listen()
        dispatcher._cache = KernelCache(function)
        kernels.add(dispatcher)
    return dispatcher


def entry_point(kernel: Any, *types: Any) -> Callable[..., Any]:
    """The kernel for these types of arguments alone, compiled now: numba need not choose at every call."""
    return kernel.compile(types) if hasattr(kernel, "compile") else kernel


def at_once(kernel: Any) -> Callable[..., Any]:
    """A kernel that is always given the same types, compiled for those that come first."""
    entry: list[Callable[..., Any]] = []

    def call(*given: Any) -> Any:
        if not entry:
            entry.append(entry_point(kernel, *map(typeof, given)))
        return entry[0](*given)

    return call


def namespace(kind: type[Kind], **entries: Any) -> type[Kind]:
    """A class that has these entries, under the names that `kind` declares; no objects are made of it.

    An object may hold it without holding numba: river measures an object by a walk over all references from
    it, which stops at classes and would go on from a dispatcher, or from a tuple of them, into all of numba.
    """
    held = {name: staticmethod(x) if hasattr(type(x), "__get__") else x for name, x in entries.items()}
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__, "__slots__": (), **held})


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
        if not self._enabled:
            return None
        try:
            self._check_unchanged()
            data = folder.read(self._name(sig, target_context.codegen()))
            return None if data is None else CompileResult._rebuild(target_context, *pickle.loads(data))
        except Exception:
            # whatever is wrong with it, it can be compiled
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keep the code for these types, if that can be."""
        if (
            not self._enabled
            or any(not one.can_cache for one in data.lifted)
            or data.library.has_dynamic_globals
        ):
            return
        try:
            self._check_unchanged()
            name, code = self._name(sig, data.codegen), dumps(data._reduce())
        except Exception:
            # whatever cannot be told or taken apart, it has been compiled
            return
        folder.write(name, code)

    def _check_unchanged(self) -> None:
        """NotKept unless the sources on disk are what this process has loaded."""
        modules: set[str] = set()
        fingerprint(self._function, modules)
        check_unchanged(modules)

    def _name(self, sig: Any, codegen: Any) -> str:
        """The name of the code's file: a digest of all that it depends on."""
        modules: set[str] = set()
        what = fingerprint(self._function, modules)
        parts = (
            FORMAT,
            what,
            source_digest(*modules),
            _described(sig),
            codegen.magic_tuple(),
            numba.__version__,
            llvmlite.__version__,
            np.__version__,
            sys.implementation.cache_tag,
            [(setting, getattr(config, setting, None)) for setting in SETTINGS],
        )
        return f"{self._function.__name__}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"


def _described(sig: Any) -> str:
    """The types of a call as text, with the names of fields."""
    args = sig if isinstance(sig, tuple) else sig.args
    fields = [one.fields for one in args if isinstance(one, types.BaseNamedTuple)]
    return f"{sig} {fields}"
