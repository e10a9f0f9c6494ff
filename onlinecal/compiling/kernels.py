"""Kernels and the functions that they call: how they are compiled, called and held."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
from numba import njit, typeof
from numba.core import config
from numba.extending import overload, register_jitable

from onlinecal.compiling.cache import KernelCache, NotThere, only_what_is_there
from onlinecal.compiling.internals import kernel_options, look_into, part_options

Kind = TypeVar("Kind")

kernels: WeakSet[Any] = WeakSet()
"""All kernels of this process, compiled or not yet."""


def compiled(function: Callable[..., Any]) -> Any:
    """A kernel: compiled at its first call with arguments of these types, or loaded from disk.

    With NUMBA_DISABLE_JIT=1, numba's way to debug, the interpreter runs the function as it stands.
    """
    if config.DISABLE_JIT:
        return interpreted(function)
    dispatcher = njit(function, **kernel_options())
    look_into(dispatcher, KernelCache(function))
    kernels.add(dispatcher)
    return dispatcher


def loaded(kernel: Any, types: tuple[Any, ...]) -> Any:
    """The entry point of a kernel for these types if it need not be compiled, else None."""
    with suppress(NotThere), only_what_is_there():
        return kernel.compile(types)
    return None


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which answers Python's numbers, as compiled code does, in place of numpy's."""

    @wraps(function)
    def kernel(*given: Any, **named: Any) -> Any:
        answer = function(*given, **named)
        if isinstance(answer, tuple):
            return tuple(one.item() if isinstance(one, np.generic) else one for one in answer)
        return answer.item() if isinstance(answer, np.generic) else answer

    return kernel


def kernel_part(
    function: Callable[..., Any] | None = None,
    optimised: bool = False,
    counted: bool = True,
    error_model: str = "python",
) -> Any:
    """A function that kernels call and the interpreter runs as it stands.

    Parameters
    ----------
    function
        What is decorated, if nothing else is given.
    optimised
        By itself, and then inlined wherever it is called; else with the kernel that calls it.
    counted
        Whether references to arrays are. They need not be in a part that makes no arrays and keeps none of
        those it is given, nor do parts that it calls. Else these are two calls for each array in every part
        with a loop, a fifth of the time of a round of the simplex machine.
    error_model
        Of divisions: "python" raises if the divisor is 0, "numpy" does not.
    """
    # an ingredient of kernels, see `ingredients`
    way = {"optimised": optimised, "counted": counted, "error_model": error_model}
    decorate = register_jitable(**part_options(optimised, counted), error_model=error_model)

    def part(function: Callable[..., Any]) -> Callable[..., Any]:
        vars(function).update(way)
        return decorate(function)

    return part if function is None else part(function)


inlined = partial(kernel_part, optimised=True, error_model="numpy")
"""How a rule of a hot loop is compiled: into the loop that calls it, with divisions that do not raise (no
divisor is ever 0 there). Around a call that stays a call or could raise, numba counts references to arrays:
two atomic operations, about 10 ns, in every round, even if the call is on a branch that is hardly ever taken.
Optimised before they are inlined, rules make replays a third faster."""

uncounted = partial(kernel_part, counted=False, error_model="numpy")
"""The same for what is large or seldom needed: it stands once in a loop, however often it is called."""


def compiled_as(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates what kernels call in place of a plain function, which the interpreter runs.

    For bits and integers of 64 bits, which Python has no quick words for. Both answer the same.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        # an ingredient of kernels, see `ingredients`
        vars(plain)["compiled_as"] = function
        options = part_options(optimised=False, counted=False)

        @overload(plain, jit_options=options | {"error_model": "numpy"}, strict=False)
        def chosen(*given: Any, **named: Any) -> Callable[..., Any]:
            return function

        return function

    return enter


def entry_point(kernel: Any, *types: Any) -> Callable[..., Any]:
    """A kernel for one choice of types of arguments, so that numba need not choose at every call.

    They are named and compiled now; if none are, those of the first call count.
    """
    if not hasattr(kernel, "compile"):
        return kernel
    if types:
        return kernel.compile(types)
    entry: list[Callable[..., Any]] = []

    def call(*given: Any) -> Any:
        if not entry:
            entry.append(kernel.compile(tuple(map(typeof, given))))
        return entry[0](*given)

    return call


def address_of(kernel: Any, signature: Any) -> Any:
    """Where the machine code of a kernel with this signature begins, for `instructions.called`.

    The kernel must live as long as the address. Where nothing is compiled it is the function itself.
    """
    if not hasattr(kernel, "compile"):
        return kernel
    kernel.compile(signature)
    result = kernel.overloads[signature.args]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def namespace(kind: type[Kind], **entries: Any) -> type[Kind]:
    """A class that has these entries, under the names that `kind` declares; no objects are made of it.

    An object may hold it without holding numba: river measures an object by a walk over all references from
    it, which stops at classes and would go on from a dispatcher, or from a tuple of them, into all of numba.
    """
    held = {name: staticmethod(x) if hasattr(type(x), "__get__") else x for name, x in entries.items()}
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__, "__slots__": (), **held})
