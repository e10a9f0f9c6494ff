"""Kernels and the functions that they call: how they are compiled, called and held.

A *kernel* (`compiled`) is a function that Python calls and that numba compiles, with all *parts* that it
calls (`kernel_part`, `inlined`, `uncounted`), into one piece of machine code. In a checkout `CONTRIBUTING.md`
has all these words in a table.

Most kernels are declared while modules are imported; those that are made for certain rules, as the loops of
duels, when a cached function is first asked for them. Nothing is compiled then, but for entry points with
named types. numba's dispatcher of a kernel holds its code, one piece for each choice of types, and only ever
gets more of it. The marks that decorators leave on a function (`optimised`, `counted`, `error_model`,
`compiled_as`) are written once, and read by `ingredients`: a kernel is compiled anew when they change.
"""

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
"""All kernels of this process, compiled or not yet. Only tests look at them."""


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
    """The same function, whose results are Python's numbers, like those of compiled code, not numpy's."""

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
        The function that is decorated, if there are no other arguments.
    optimised
        True: it is optimised by itself and then inlined wherever it is called. False: it is optimised with
        the kernel that calls it.
    counted
        Whether references to arrays are counted. They need not be if the part neither makes arrays, nor
        returns any, nor calls what does; a part that does is refused when it is compiled. It may take slices.
        Counting takes two calls for each array in every part with a loop, a fifth of the time of a round of
        the simplex machine.
    error_model
        What divisions do if the divisor is 0: "python" raises, "numpy" does not.
    """
    # an ingredient of kernels, see `ingredients`
    way = {"optimised": optimised, "counted": counted, "error_model": error_model}
    decorate = register_jitable(**part_options(optimised, counted), error_model=error_model)

    def part(function: Callable[..., Any]) -> Callable[..., Any]:
        vars(function).update(way)
        return decorate(function)

    return part if function is None else part(function)


inlined = partial(kernel_part, optimised=True, counted=False, error_model="numpy")
"""The decorator for rules of hot loops: they are inlined into the loop that calls them, their divisions do
not raise (no divisor is ever 0 there), and references are not counted in them. Around a call that is not
inlined or could raise, numba counts references to arrays: two atomic operations, about 10 ns, in every round,
even if the call is on a branch that is hardly ever taken. Rules that are optimised before they are inlined
make replays a third faster."""

uncounted = partial(kernel_part, counted=False, error_model="numpy")
"""The decorator for parts that are large or seldom needed: a loop has such a part once, however often it
calls it. References to arrays are not counted in it."""


def compiled_as(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator for a function that kernels call in place of a plain one, which the interpreter runs.

    It is for bits and integers of 64 bits, for which Python has no quick words. Both functions must give the
    same results.
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

    If types are named, the kernel is compiled for them now; if none are, those of the first call count.
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
    """The address of a kernel's machine code for this `signature` of numba, for `instructions.called`.

    The kernel is compiled for it if that has not been done. It must live as long as the address, an int. With
    NUMBA_DISABLE_JIT=1 the answer is the function itself.
    """
    if not hasattr(kernel, "compile"):
        return kernel
    kernel.compile(signature)
    result = kernel.overloads[signature.args]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


def namespace(kind: type[Kind], **entries: Any) -> type[Kind]:
    """A class that has these entries, under the names that `kind` declares; no objects are made of it.

    An object that holds it does not refer to numba. River measures an object by following all references from
    it. It stops at classes, while from a dispatcher, or from a tuple of them, it would go on into all of
    numba.
    """
    held = {name: staticmethod(x) if hasattr(type(x), "__get__") else x for name, x in entries.items()}
    return type(kind.__name__, (kind,), {"__doc__": kind.__doc__, "__slots__": (), **held})
