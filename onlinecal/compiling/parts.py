"""Functions that kernels call: compiled into them, and made machine code there, once.

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
from typing import Any, ClassVar

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable


class OptimisedLibrary(JITCodeLibrary):
    """What a part is compiled to: code to be linked into kernels, not machine code."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def to_link(self) -> list[JITCodeLibrary]:
        """All that a caller has to link."""
        return [self]


class LoweredLibrary(OptimisedLibrary):
    """The same, as it was lowered."""

    def finalize(self) -> None:
        """Leave everything to the kernel, also to link what the part calls."""
        self._finalized = True

    def to_link(self) -> list[JITCodeLibrary]:
        """All that a caller has to link."""
        return [self, *self._linking_libraries]


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """numba's lowering without machine code: a part is called only by what it is linked into."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower, and tell numba how the part is called."""
        # only now: what a part calls is compiled once for all parts and kernels if their flags are the same
        flags = state.flags
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        super().run_pass(state)
        result = state["cr"]
        if result.env.consts:
            raise NotImplementedError(f"{state.func_id.func_qualname} is a part and uses Python objects")
        # never called: dispatchers want something built in to know a part by
        entry = [result.fndesc].index
        state.targetctx.insert_user_function(entry, result.fndesc, state.library.to_link())
        state["cr"] = result._replace(cfunc=entry)
        return True


class PartCompiler(CompilerBase):
    """numba's compiler with a part's library and a part's lowering."""

    library: ClassVar[type[OptimisedLibrary]] = LoweredLibrary

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        library = self.library(targetctx.codegen(), "part") if library is None else library
        super().__init__(typingctx, targetctx, library, *rest)

    def define_pipelines(self) -> list[PassManager]:
        """numba's passes, the one that lowers exchanged."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        pipeline = PassManager("part")
        pipeline.passes = [(PartLowering if one is NativeLowering else one, name) for one, name in passes]
        pipeline.finalize()
        return [pipeline]


class OptimisedPartCompiler(PartCompiler):
    """The same, and the part is optimised."""

    library = OptimisedLibrary


def kernel_part(function: Callable[..., Any] | None = None, optimised: bool = False, **options: Any) -> Any:
    """A function that kernels call and the interpreter runs as it stands; options as of `numba.jit`.

    optimised: before it is inlined, too.
    """
    compiler = OptimisedPartCompiler if optimised else PartCompiler
    # flags as of kernels, see `PartLowering`
    decorate = register_jitable(pipeline_class=compiler, no_cpython_wrapper=False, **options)
    return decorate if function is None else decorate(function)


uncounted = kernel_part(_nrt=False)
"""A part that makes no arrays and keeps none of those it is given, nor do parts that it calls.

No references are counted in it: else two calls for each array in every part with a loop, a fifth of the
time of a round of the simplex machine.
"""
