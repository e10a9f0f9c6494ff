"""Functions that compiled code does in one instruction, or in none, and for which Python has no word.

Each function has two forms, one that the interpreter runs and one that numba makes instructions of. Both must
give the same bits. None has a state. Code that is compiled is named by what these functions are made of, too:
a change here has all kernels compiled anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros
from numba.extending import intrinsic, overload

from onlinecal.compiling.kernels import compiled_as, kernel_part

LINE = 8
"""So many numbers of 8 bytes come together from memory."""


def lowest_bit(word: int) -> int:
    """The place of the lowest bit that is set in a word of 64 bits, which is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def highest_bit(word: int) -> int:
    """The place of the highest bit that is set in a word of 64 bits, which is not 0."""
    return (int(word) % (1 << 64)).bit_length() - 1


@overload(lowest_bit)
def _lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: trailing_zeros(np.int64(word))


@overload(highest_bit)
def _highest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: 63 - leading_zeros(np.int64(word))


def whole(number: Any) -> int:
    """A whole number as an integer of 64 bits."""
    return int(number)


@overload(whole, inline="always")
def _whole(number):  # type: ignore[no-untyped-def]
    return lambda number: np.int64(number)


def borrowed(array: Any) -> Any:
    """The same array without an owner; the caller of the kernel must hold the array meanwhile.

    Where a loop passes an array to a function that is not inlined, numba counts a reference, which takes two
    atomic operations. Without an owner nothing is counted. In the interpreter this changes nothing.

    Numba does not see that both are one array, and drops a store into the borrowed one if the path that it is
    on does not use that array any more, as before a `return`. So store there only where a loop goes on.
    """
    return array


@overload(borrowed, inline="always")
def _borrowed(array):  # type: ignore[no-untyped-def]
    return lambda array: _without_owner(array)


@intrinsic
def _without_owner(typing_context: Any, array: Any) -> Any:

    def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.make_array(array)(context, builder, arguments[0])
        value.meminfo = cgutils.get_null_value(value.meminfo.type)
        return value._getvalue()

    return array(array), view


@intrinsic
def _call(typing_context: Any, address: Any, arguments: Any) -> Any:
    """The value that machine code at an address, as of `address_of`, returns for a tuple of arguments."""

    def call(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention, kinds = context.call_conv, list(arguments)
        kind = convention.get_function_type(types.int64, kinds)
        code = builder.inttoptr(values[0], kind.as_pointer())
        given = cgutils.unpack_tuple(builder, values[1])
        status, result = convention.call_function(builder, code, types.int64, kinds, given)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return types.int64(address, arguments), call


def called(function: Any, *arguments: Any) -> int:
    """The whole number that a function returns; compiled code gets the function as an address.

    The loop that calls it is compiled once for all functions that take arguments of these types.
    """
    return int(function(*arguments))


@overload(called)
def _called(function, *arguments):  # type: ignore[no-untyped-def]
    return lambda function, *arguments: _call(function, arguments)


@kernel_part
def copy(source: Any, start: int, target: Any, at: int, n: int) -> None:
    """Copy so many numbers from a place of one flat array to a place of another, or of the same.

    An assignment of slices takes numba ten times as long to compile, for each kind of arrays.
    """
    for i in range(n):
        target[at + i] = source[start + i]


def row_of(table: Any, row: int) -> Any:
    """A row of a table, without a copy. Python's views have no such word."""
    if isinstance(table, memoryview):
        bits: Any = table.cast("B")
        width = table.nbytes // table.itemsize // len(table)
        return bits.cast(table.format)[row * width : (row + 1) * width]
    return table[row]


@overload(row_of, inline="always")
def _row_of(table, row):  # type: ignore[no-untyped-def]
    return lambda table, row: table[row]


def to_fetch(table: Any) -> Any:
    """The numbers of a table one after the other, for `fetch`. The interpreter does nothing."""


@overload(to_fetch, inline="always")
def _to_fetch(table):  # type: ignore[no-untyped-def]
    return lambda table: _without_owner(table.ravel())


def fetch(array: Any, start: int, size: int) -> None:
    """Begin to load numbers of 8 bytes of a flat array, which will be read soon, into the nearest cache.

    Places outside of the array do no harm. The interpreter does nothing.
    """


@compiled_as(fetch)
def _fetch(array: Any, start: int, size: int) -> None:
    for place in range(start, start + size, LINE):
        _prefetch_instruction(array, place)


@intrinsic
def _prefetch_instruction(typing_context: Any, array: Any, place: Any) -> Any:

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
