"""The lowest and highest bits of a word, one instruction each in compiled code."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload


def lowest_bit(word: int) -> int:
    """The place of the lowest bit that is set in a word of 64 bits, which is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def highest_bit(word: int) -> int:
    """The place of the highest bit that is set in a word of 64 bits, which is not 0."""
    return (int(word) % (1 << 64)).bit_length() - 1


def _counting(name: str) -> Any:
    """The number of zeros before the first bit that is set, from one end of the word."""

    @intrinsic
    def count(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.int64), generate

    return count


_trailing_zeros, _leading_zeros = _counting("cttz"), _counting("ctlz")


@overload(lowest_bit)
def _lowest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: _trailing_zeros(word)


@overload(highest_bit)
def _highest_bit(word):  # type: ignore[no-untyped-def]
    return lambda word: 63 - _leading_zeros(word)
