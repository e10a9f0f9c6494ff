"""States as bytes: checksums, floats of which most are 0, and how to take many states up quickly."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

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


def pack_floats(floats: NDArray[Any]) -> bytes:
    """Bits that say which floats are not 0, and these."""
    kept = floats.view(f"i{floats.itemsize}") != 0
    return np.packbits(kept).tobytes() + floats[kept].tobytes()


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
