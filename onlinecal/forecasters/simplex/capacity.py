"""How many rounds, and how many late labels, the integers of a simplex memory bear."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.machine import FINENESS, units
from onlinecal.forecasters.simplex.table import MOVED, ROUNDS, SPREAD


def most_rounds(memory: NDArray[np.int64], changing: bool) -> int:
    """How many rounds fit in all, whatever they are (see `rounds_left`)."""
    return BRIM // (2 * (FINENESS if changing else units(memory)) + 1)


def rounds_left(memory: NDArray[np.int64], changing: bool) -> int:
    """How many more rounds fit whatever they are; with `changing` also if the grid or the classes change."""
    now = units(memory)
    finest = max(FINENESS, now) if changing else now
    moved = -(-int(memory[MOVED]) * finest // now)
    by_bias = (BRIM - int(memory[SPREAD])) >> 22
    return max(0, min((BRIM - moved) // (2 * finest + 1), by_bias, FOREVER - int(memory[ROUNDS])))


def check_bears(memory: NDArray[np.int64], changing: bool, rounds: int) -> None:
    """ValueError if the integers might not bear so many more rounds; an empty memory bears them."""
    if len(memory) and rounds_left(memory, changing) < rounds:
        raise ValueError(
            f"this forecaster's integers cannot bear {rounds} more rounds after {memory[ROUNDS]}: "
            "begin a new one"
        )


def most_late(k: int, scale: int, slack: float | None) -> int:
    """How many late labels leave the labels' products 2 k M^2 (1 + |alpha_j|) within 64 bits; -1: not even 0.

    With D labels late no alpha_j is below -c - D, and they add up to zero, so none is above (k - 1)(c + D).
    Without slack and late labels all are within (-1, 1).
    """
    most = (1 << 62) // (2 * k * scale * scale) - 1
    if slack is None and most < 2 * k:
        return 0
    return max(-1, most // max(1, k - 1) - math.ceil(slack or 1.0))
