"""What compiled code will read soon, brought near while it does something else."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from onlinecal.compiling.parts import kernel_part

LINE = 8
"""Numbers of 8 bytes that come together."""


@intrinsic
def fetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Bring near what stands at a place of a flat array; nothing happens if there is no such place."""

    def hint(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.make_array(array)(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(value.data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        # to be read and written, by and by, as data
        builder.call(call, [pointer, number(1), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), hint


@kernel_part
def fetch_all(array: Any, start: int, size: int) -> None:
    """Bring near so many numbers of 8 bytes."""
    for place in range(start, start + size, LINE):
        fetch(array, place)
