"""Kernels and the functions that they call: how they are compiled, called and held.

numba compiles a function that another calls as a library of its own, optimises that, makes machine code of
it, links it into the caller's and optimises the whole again: what stands seven calls deep is optimised seven
times, and only the last time matters. Here a part stays as it was lowered until the kernel, with all parts
in it, is optimised as ever. It saves up to half of the time to compile and changes neither results nor speed.
The exception are parts that are inlined into hot loops: they are faster if optimised before.

numba's documented way to have another compiler is `pipeline_class` with passes of its own. What is not
documented are libraries; the names used here are the same in numba 0.61 to 0.68.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakSet

from numba import njit, typeof
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable

from onlinecal.compiling.cache import KernelCache

Kind = TypeVar("Kind")

kernels: WeakSet[Any] = WeakSet()
"""All kernels of this process, compiled or not yet."""


def compiled(function: Callable[..., Any]) -> Any:
    """A kernel: compiled at its first call with arguments of these types, or loaded from disk."""
    dispatcher = njit(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT it is
        dispatcher._cache = KernelCache(function)
        kernels.add(dispatcher)
    return dispatcher


def entry_point(kernel: Any, *types: Any) -> Callable[..., Any]:
    """The kernel for these types of arguments alone, compiled now: numba need not choose at every call."""
    return kernel.compile(types) if hasattr(kernel, "compile") else kernel


def address_of(kernel: Any, signature: Any) -> Any:
    """Where the machine code of a kernel with this signature begins, for `instructions.called`.

    The kernel must live as long as the address. Where nothing is compiled it is the function itself.
    """
    if not hasattr(kernel, "compile"):
        return kernel
    kernel.compile(signature)
    result = kernel.overloads[signature.args]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


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


class PartLibrary(JITCodeLibrary):
    """What a part is compiled to: code to be linked into kernels, not machine code."""

    optimised: bool

    def finalize(self) -> None:
        """Link what the part calls, and optimise; else all of that is left to the kernel."""
        if self.optimised:
            super().finalize()
        self._finalized = True

    def _finalize_final_module(self) -> None:
        pass


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """numba's lowering without machine code: a part is called only by what it is linked into."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, and tell numba how the part is called."""
        flags, library = state.flags, PartLibrary(state.targetctx.codegen(), "part")
        state.library, library.optimised = library, bool(flags.forceinline)
        # only now: what a part calls is compiled once for all parts and kernels if their flags are the same
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().run_pass(state)
        result = state["cr"]
        if result.env.consts:
            raise NotImplementedError(f"{state.func_id.func_qualname} is a part and uses Python objects")
        # never called: dispatchers want something built in to know a part by
        entry = [result.fndesc].index
        linked = [] if library.optimised else library._linking_libraries
        state.targetctx.insert_user_function(entry, result.fndesc, [library, *linked])
        state["cr"] = result._replace(cfunc=entry)
        return True


class PartCompiler(CompilerBase):
    """numba's compiler with a part's lowering."""

    def define_pipelines(self) -> list[PassManager]:
        """numba's passes, the one that lowers exchanged."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        pipeline = PassManager("part")
        pipeline.passes = [(PartLowering if one is NativeLowering else one, name) for one, name in passes]
        pipeline.finalize()
        return [pipeline]


def kernel_part(function: Callable[..., Any] | None = None, optimised: bool = False, **options: Any) -> Any:
    """A function that kernels call and the interpreter runs as it stands; options as of `numba.jit`.

    optimised: by itself, and then inlined wherever it is called.
    """
    # flags as of kernels, see `PartLowering`
    options |= {"pipeline_class": PartCompiler, "no_cpython_wrapper": False, "forceinline": optimised}
    decorate = register_jitable(**options)
    return decorate if function is None else decorate(function)


uncounted = kernel_part(_nrt=False)
"""A part that makes no arrays and keeps none of those it is given, nor do parts that it calls.

No references are counted in it: else two calls for each array in every part with a loop, a fifth of the
time of a round of the simplex machine.
"""
