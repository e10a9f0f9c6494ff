"""Arrays without an owner, in compiled code."""

from __future__ import annotations

import sys

import numpy as np
from numba import njit

from onlinecal.compiling.instructions import borrowed


@njit
def hand_over(values, number):
    values[number] += 1
    return values


@njit
def count(values):
    values = borrowed(values)
    for number in range(len(values)):
        if values[number] == 0:
            values = hand_over(values, number)
    return values.sum()


def test_a_borrowed_array_is_the_same_array_and_no_reference_is_kept_or_lost():
    values = np.array([0, 2, 0, 5])
    before = sys.getrefcount(values)
    assert [count(values) for _ in range(1000)] == [9] * 1000
    assert sys.getrefcount(values) == before
    assert values.tolist() == [1, 2, 1, 5]
