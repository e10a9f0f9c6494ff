"""Sums, exponentials and logarithms that are the same on every machine.

The exp and log of the C library, of numpy and of a compiler differ in the last bit between machines. A
forecast that is steered by them, or a search that compares them, would be different on another machine, and a
ledger could not be checked there. These functions use +, -, *, / alone, whose results IEEE 754 fixes to the
last bit; numba neither reorders nor fuses them.

Every bit of these functions is part of what forecasts and ledgers are: another order of operations, or
another coefficient, makes other answers, and old ledgers fail their check. `exponential` and `logarithm` have
two forms each with the same operations in the same order, one for the interpreter and one for kernels;
`tests/recalibration/test_reproducible.py` compares them bit for bit. Callers see to it that arguments are in
the ranges that the functions name, since nothing is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from operator import add

import numpy as np

from onlinecal.compiling import compiled_as


def in_turn(numbers: Iterable[float]) -> float:
    """The sum of numbers, rounded after each; the built-in `sum` rounds differently from Python 3.12 on."""
    return reduce(add, numbers, 0)


LOG2_E = 1.0 / math.log(2.0)
LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""ln 2 to 32 bits, so that its product with an exponent is exact; LN2_LOW is the rest of ln 2."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
ROOT_2 = 1.4142135623730951
LEAST_NORMAL, TWO_TO_54 = 2.0**-1022, 2.0**54
"""Numbers below the first have fewer bits; multiplied by the second they have all bits."""
EXP_COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
LOG_COEFFICIENTS = tuple(1.0 / n for n in range(21, 1, -2))
"""The coefficients of the series of exp and of ln, 1/n! and 1/n, the last ones first."""
LEAST_EXPONENT = -708.0
"""Below this exp is taken to be 0, since the result would leave the range of full precision."""


def exponential(x: float) -> float:
    """exp(x) for x up to 709, to about one unit in the last place; 0 below -708."""
    if x < LEAST_EXPONENT:
        return 0.0
    # rounded to the nearest, of two to the even one
    power = round(x * LOG2_E)
    r = (x - power * LN2_HIGH) - power * LN2_LOW
    # Taylor's series: |r| is at most ln(2)/2, and r^14/14! below 2^-57
    value = EXP_COEFFICIENTS[0]
    for coefficient in EXP_COEFFICIENTS[1:]:
        value = value * r + coefficient
    return math.ldexp(value, power)


def logarithm(x: float) -> float:
    """ln(x) for any x > 0, to about two units in the last place."""
    mantissa, exponent = math.frexp(x)
    mantissa, exponent = 2.0 * mantissa, exponent - 1
    if mantissa > ROOT_2:
        mantissa *= 0.5
        exponent += 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    # ln(m) = 2 (s + s^3/3 + s^5/5 + ...), |s| at most .1716: the omitted terms are below 2^-58 of it
    square = s * s
    value = LOG_COEFFICIENTS[0]
    for coefficient in LOG_COEFFICIENTS[1:]:
        value = value * square + coefficient
    value = 2.0 * s * square * value
    return exponent * LN2_HIGH + (2.0 * s + (value + exponent * LN2_LOW))


@compiled_as(exponential)
def _exponential(x: float) -> float:
    """The same in operations on bits, which numba compiles to few instructions."""
    if x < LEAST_EXPONENT:
        return 0.0
    power = np.rint(x * LOG2_E)
    r = (x - power * LN2_HIGH) - power * LN2_LOW
    value = EXP_COEFFICIENTS[0]
    for coefficient in EXP_COEFFICIENTS[1:]:
        value = value * r + coefficient
    return float(value * np.int64((np.int64(power) + 1023) << 52).view(np.float64))


@compiled_as(logarithm)
def _logarithm(x: float) -> float:
    """The same in operations on bits."""
    scaled, shift = (x * TWO_TO_54, 54) if x < LEAST_NORMAL else (x, 0)
    bits = np.float64(scaled).view(np.int64)
    exponent = (bits >> 52) - 1023 - shift
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    if mantissa > ROOT_2:
        mantissa *= 0.5
        exponent += 1
    # the operator / would check the divisor for 0, and loops over many x could not take several at once
    s = np.divide(mantissa - 1.0, mantissa + 1.0)
    square = s * s
    value = LOG_COEFFICIENTS[0]
    for coefficient in LOG_COEFFICIENTS[1:]:
        value = value * square + coefficient
    value = 2.0 * s * square * value
    return float(exponent * LN2_HIGH + (2.0 * s + (value + exponent * LN2_LOW)))
