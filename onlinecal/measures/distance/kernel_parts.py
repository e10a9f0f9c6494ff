"""What kernels of measures share, written as loops: numpy's functions take numba long to compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import kernel_part


@kernel_part
def infinite(size: int) -> Floats:
    """An array of so many infinities."""
    array = np.empty(size)
    for i in range(size):
        array[i] = np.inf
    return array


@kernel_part
def count_up_to(ascending: Any, value: float) -> int:
    """How many numbers of an ascending array are at most `value`."""
    first, last = 0, len(ascending)
    while first < last:
        middle = (first + last) >> 1
        if ascending[middle] <= value:
            first = middle + 1
        else:
            last = middle
    return first
