"""Kernels, and how they are called and held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

from numba import njit, typeof

from onlinecal.compiling.cache import KernelCache
from onlinecal.compiling.events import listen

Kind = TypeVar("Kind")

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
