"""States as bytes: integers packed closely, checksums, and how to take many of them up quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from struct import unpack_from
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import TABLE
from onlinecal.forecasters.binary.soundness import require

SUM = 4


def with_sum(data: bytes | memoryview) -> bytes:
    """The bytes behind their checksum: compiled code must never run on what a disk has made of a state."""
    return sum_of(data) + data


def sum_of(data: bytes | memoryview) -> bytes:
    """The checksum of some bytes."""
    return crc32(data).to_bytes(SUM, "little")


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """No look for garbage: what a state is made of is none, and would be looked at again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


HEAD = TABLE
"""Integers at the front of a memory that may be large; those behind them are mostly small."""
FEW = 128
"""Up to so many integers Python's loop is faster than numpy's."""
WIDTHS = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}


def pack(memory: NDArray[np.int64]) -> bytes:
    """A memory in few bytes: the width of the table's integers, the header in full, the table."""
    table = memory[HEAD:]
    most = 0
    if len(table) < FEW:
        small = table.tolist()
        most = max(max(small, default=0), -1 - min(small, default=0))
    else:
        most = int(max(table.max(), -1 - table.min()))
    width = next(width for width in WIDTHS if most < 1 << (8 * width - 1))
    return bytes([width]) + memory[:HEAD].astype("<i8").tobytes() + table.astype(WIDTHS[width]).tobytes()


def unpack(data: bytes) -> NDArray[np.int64]:
    """The memory that was packed."""
    head = np.frombuffer(data, "<i8", HEAD, 1)
    table = np.frombuffer(data, WIDTHS[data[0]], -1, 1 + 8 * HEAD)
    return np.concatenate([head, table]).astype(np.int64, copy=False)


def pack_rounds(rounds: NDArray[np.int64]) -> bytes:
    """A window's rounds in few bytes: their number; column by column the integers' width, and they."""
    parts = [len(rounds).to_bytes(4, "little")]
    for column in rounds.T:
        most = int(max(column.max(initial=0), -1 - column.min(initial=0)))
        width = next(width for width in WIDTHS if most < 1 << (8 * width - 1))
        parts.append(bytes([width]) + column.astype(WIDTHS[width]).tobytes())
    return b"".join(parts)


def unpack_rounds(data: bytes) -> NDArray[np.int64]:
    """The rounds that were packed, shape (n, 4); ValueError, KeyError or IndexError if these are none."""
    number, place = int.from_bytes(data[:4], "little"), 4
    rounds = np.empty((4, number if number < len(data) else 0), np.int64)
    for column in rounds:
        width = data[place]
        column[:] = np.frombuffer(data, WIDTHS[width], number, place + 1)
        place += 1 + width * number
    require(place == len(data), "its window's rounds")
    return rounds.T.copy()


def pack_floats(floats: NDArray[Any]) -> bytes:
    """Bits that say which floats are not 0, and these."""
    kept = floats.view(f"i{floats.itemsize}") != 0
    return np.packbits(kept).tobytes() + floats[kept].tobytes()


def first_floats(data: bytes, first: int, number: int) -> list[float]:
    """The first of so many floats of 8 bytes that were packed and are sound."""
    n_bytes = (first + 7) // 8
    kept = f"{int.from_bytes(data[:n_bytes]):0{8 * n_bytes}b}"[:first]
    floats = iter(unpack_from(f"<{kept.count('1')}d", data, (number + 7) // 8))
    return [next(floats) if bit == "1" else 0.0 for bit in kept]


def unpack_floats(data: bytes, kind: str, number: int) -> tuple[NDArray[Any], bytes]:
    """So many floats that were packed, and what is behind them; ValueError if that cannot be."""
    width, start = int(kind[-1]), (number + 7) // 8
    require(len(data) >= start, "the number of its floats")
    kept = np.unpackbits(np.frombuffer(data[:start], np.uint8))[:number].view(np.bool_)
    end = start + width * int(kept.sum())
    require(len(data) >= end, "the number of its floats")
    floats = np.zeros(number, kind)
    floats[kept] = np.frombuffer(data[start:end], kind)
    return floats, data[end:]
