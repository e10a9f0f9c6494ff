"""The a-priori bounds on the distance to calibration, as sums over rounds; docs/theory.md has the proofs.

c bounds a point's bias (the slack; 1 for the sign rule) and d/m the distance from a report to the
charged point (d = 1/2 for the midpoint, 1 for the other reports).
"""

from __future__ import annotations

import math
from fractions import Fraction

from onlinecal.forecasters.dyadic import ALLOWANCE, last_round


def cells_for(horizon: int, bound: float, reach: float) -> int:
    """m = ceil(sqrt(d T / c)), exactly; with it the bound on a uniform grid is at most 2 sqrt(c d T)."""
    square = Fraction(reach) * horizon / Fraction(bound)
    m = math.isqrt(square.numerator // square.denominator)
    while m * m < square:
        m += 1
    return max(m, 1)


def uniform_guarantee(rounds: int, n_cells: int, bound: float, reach: float, late: int = 0) -> float:
    """d T/m + c (m - 1), and (m - 1) more for each forecast that may be open besides the newest."""
    return reach * rounds / n_cells + (bound + late) * (n_cells - 1)


def dyadic_guarantee(rounds: int, pace: int, bound: float, reach: float, tuned: bool, late: int = 0) -> float:
    """sum over s <= t of d/m_s, plus c (m_t - 1), plus (5/3) c when the grid tunes itself.

    m_s is the base grid of round s. With c = d (the two rules as published) this is at most
    2 sqrt(3 c d t) for every t; see docs/theory.md for what late labels add.
    """
    level, start, moved = 0, 0, 0.0
    while rounds > (end := last_round(pace, level)):
        moved += reach * (end - start) / (1 << level)
        level, start = level + 1, end
    m = 1 << level
    total = moved + reach * (rounds - start) / m + bound * (m - 1)
    if tuned:
        total += float(ALLOWANCE) * bound
    if late:
        total += late * (m - 1) + (late + 1) * (1.0 + 2.0 * reach)
    return total
