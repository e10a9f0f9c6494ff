"""All uses of numba's undocumented names.

Each has a documented way beside it, which is taken if numba lacks a name or behaves differently: parts are
then compiled as `register_jitable` compiles them, and kernels by every process anew. That takes longer and
changes no result. The names are the same in numba 0.61 to 0.68.

In numba's words *lowering* is the pass that makes LLVM code of a function, and a *library* is what holds that
code. `kernels` hands a *kernel* and its *parts* to the compilers here, which do all that numba does, and only
lower into other libraries. A compiler lives for one function; nothing here outlives it. What may change
freely is when code is optimised. Two things have to stay: a kernel's name in machine code is unique in all
processes (`number_apart`), and nothing else of it is visible (`KernelLibrary`). On them rests that code of
several processes can be loaded together.
"""

from __future__ import annotations

import pickle
import secrets
from typing import Any

from llvmlite.binding import Linkage
from numba.core import codegen, compiler, options, typed_passes, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.serialize import dumps
from numba.core.targetconfig import ConfigStack

from onlinecal.compiling.folder import end_turn
from onlinecal.compiling.garbage import without_garbage_collection

JITCodeLibrary: Any = getattr(codegen, "JITCodeLibrary", object)
NativeLowering: Any = getattr(typed_passes, "NativeLowering", object)
NopythonTypeInference: Any = getattr(typed_passes, "NopythonTypeInference", object)
ARE_THERE = object not in (JITCodeLibrary, NativeLowering, NopythonTypeInference)

LARGE = 1 << 59
"""Kernels have numbers from here on, which numba's own counting does not reach."""


def kernel_options() -> dict[str, Any]:
    """Options for `njit` with which a kernel's code can be kept, if numba has them."""
    return {"pipeline_class": KernelCompiler} if ARE_THERE else {}


def part_options(optimised: bool, counted: bool) -> dict[str, Any]:
    """The options of `register_jitable` for those of `kernels.kernel_part`, if numba has them."""
    # flags as of kernels: what a part calls is then compiled once for all parts and kernels
    chosen: dict[str, Any] = {"no_cpython_wrapper": False, "forceinline": optimised}
    if ARE_THERE:
        chosen["pipeline_class"] = PartCompiler
    if hasattr(options.DefaultOptions, "_nrt"):
        chosen["_nrt"] = counted
    return chosen


class KernelLibrary(JITCodeLibrary):
    """A kernel's code, in which everything but the kernel itself is hidden.

    Code refers to functions by names that end in a number, which numba counts from 1 in every process. So
    code from two processes could have the same names, and a third process that loads both would call the
    first in place of the second. Here only the kernel's own name is visible, which `number_apart` makes
    unique.
    """

    def _finalize_final_module(self) -> None:
        for function in self._final_module.functions:
            # so numba marks what is linked in
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._finalize_final_module()


class OwnLowering(NativeLowering):
    """numba's lowering into a library of ours; into numba's own, if that cannot be done."""

    def run_pass(self, state: Any) -> bool:
        """Lower as `lower` does."""
        flags = state.flags
        names = "no_compile", "no_cpython_wrapper", "no_cfunc_wrapper"
        before = {name: getattr(flags, name) for name in names}
        try:
            self.lower(state)
        except (AttributeError, TypeError):
            state.library = None
            for name, value in before.items():
                setattr(flags, name, value)
            super().run_pass(state)
        return True

    def lower(self, state: Any) -> None:
        """Lower into a library of this kind."""
        raise NotImplementedError

    def lower_into(self, library: Any, state: Any) -> None:
        """Do what numba does, with this library."""
        state.library = library
        super().run_pass(state)


class KernelLowering(OwnLowering):
    """The lowering of a kernel, whose machine code can be kept."""

    _name = "kernel_lowering"

    def lower(self, state: Any) -> None:
        """Lower, and compile what is then there."""
        library = KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        self.lower_into(library, state)


class PartLibrary(JITCodeLibrary):
    """The code of a part, which is linked into kernels and is no machine code.

    numba compiles a function that another one calls as a library of its own, optimises it, makes machine code
    of it, links it into the caller's library and optimises the whole again. So code seven calls deep is
    optimised seven times, and only the last time matters. Here a part stays as it was lowered, and the kernel
    with all its parts is optimised once. This halves the time to compile and changes neither results nor
    speed. Parts that are inlined into hot loops are an exception: loops are faster if these are optimised
    before.
    """

    optimised: bool

    def finalize(self) -> None:
        """Link and optimise a part that is `optimised`; for others the kernel does it."""
        if self.optimised:
            super().finalize()
        self._finalized = True

    def _finalize_final_module(self) -> None:
        pass


class PartLowering(OwnLowering):
    """The lowering of a part, without machine code, since only the code that it is linked into calls it."""

    _name = "part_lowering"

    def lower(self, state: Any) -> None:
        """Lower, and tell numba how the part is called."""
        name = state.func_id.func_qualname
        if not state.flags.nrt and any(map(holds_array, [state.return_type, *types_of_calls(state)])):
            raise NotImplementedError(
                f"{name} counts no references, so it may neither make nor return an array: "
                "hand it the array, or make it a kernel_part"
            )
        flags, library = state.flags, PartLibrary(state.targetctx.codegen(), "part")
        library.optimised = bool(flags.forceinline)
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        self.lower_into(library, state)
        result = state["cr"]
        if result.env.consts:
            raise NotImplementedError(f"{name} is a part and uses Python objects")
        # it is never called; dispatchers need something built in that identifies the part
        entry = [result.fndesc].index
        linked = [] if library.optimised else library._linking_libraries
        state.targetctx.insert_user_function(entry, result.fndesc, [library, *linked])
        state["cr"] = result._replace(cfunc=entry)


def holds_array(kind: Any) -> bool:
    """Whether values of this type are arrays or hold some."""
    return isinstance(kind, types.Array) or any(map(holds_array, getattr(kind, "types", ())))


def types_of_calls(state: Any) -> list[Any]:
    """The types of what the functions return that a function calls; a slice is no call."""
    calls = state.calltypes.items()
    return [signature.return_type for call, signature in calls if getattr(call, "op", "") == "call"]


class TypingOnce(NopythonTypeInference):
    """numba's inference of types, which compiles the functions that are called.

    numba compiles a function anew for each choice of flags that a caller has, though the function has flags
    of its own. A quarter of all functions was compiled twice or more for this. Here all callers show the
    same flags.
    """

    _name = "typing_once"

    def run_pass(self, state: Any) -> bool:
        """Infer types as numba does, with the flags of a caller hidden."""
        with ConfigStack().enter(shown_flags(state.flags)):
            return bool(super().run_pass(state))


def shown_flags(flags: Any) -> Any:
    """A caller's flags as functions that it calls are to see them."""
    shown = flags.copy()
    shown.forceinline = shown.no_cpython_wrapper = shown.dbg_optnone = False
    shown.nrt, shown.error_model = True, "python"
    # what is set is not equal to what is so by default
    shown.fastmath = flags.fastmath
    return shown


if ARE_THERE:
    for changed in (KernelLowering, PartLowering, TypingOnce):
        register_pass(mutates_CFG=True, analysis_only=False)(changed)


class OwnCompiler(CompilerBase):
    """numba's compiler with an inference of types and a lowering of ours."""

    lowering: type

    def define_pipelines(self) -> list[PassManager]:
        """numba's passes, two of them replaced by ours."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        pipeline = PassManager("own")
        ours = {NativeLowering: self.lowering, NopythonTypeInference: TypingOnce}
        pipeline.passes = [(ours.get(kind, kind), name) for kind, name in passes]
        pipeline.finalize()
        return [pipeline]


class KernelCompiler(OwnCompiler):
    """The compiler of kernels."""

    lowering = KernelLowering

    def compile_extra(self, function: Any) -> Any:
        """Compile without collecting garbage, which takes a tenth of the time and finds nothing."""
        try:
            with without_garbage_collection():
                return super().compile_extra(function)
        except BaseException:
            # an interrupt, perhaps: no other process is to wait for this one
            end_turn()
            raise

    def define_pipelines(self) -> list[PassManager]:
        """The same passes, after the kernel has got its number."""
        number_apart(self.state.func_id)
        return super().define_pipelines()


class PartCompiler(OwnCompiler):
    """The compiler of parts."""

    lowering = PartLowering


def number_apart(identity: Any) -> None:
    """Name a function by a number that no other function has, in any process."""
    identity.unique_id = LARGE + secrets.randbits(59)
    identity.unique_name = f"{identity.func_qualname}${identity.unique_id}"


def can_be_kept(result: Any) -> bool:
    """Whether another process can load this code together with code of other processes."""
    own = isinstance(result.library, KernelLibrary) and result.fndesc.uid >= LARGE
    return own and not result.library.has_dynamic_globals


def look_into(dispatcher: Any, cache: Any) -> None:
    """Make a dispatcher take code from this cache and give it new code."""
    dispatcher._cache = cache


def take_apart(result: Any) -> bytes:
    """Compiled code as bytes; any error means that it cannot be kept."""
    return bytes(dumps(result._reduce()))


def put_together(target_context: Any, data: bytes) -> Any:
    """The compiled code from the bytes of `take_apart`; any error means that it must be compiled."""
    return compiler.CompileResult._rebuild(target_context, *pickle.loads(data))
