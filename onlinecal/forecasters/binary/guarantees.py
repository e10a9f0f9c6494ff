"""The a-priori bounds on the distance to calibration, as sums over rounds; docs/theory.md has the proofs.

c bounds a point's bias (the slack; 1 for the sign rule) and d/m the distance from a report to the
charged point (d = 1/2 for the midpoint, 1 for the other reports).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

from onlinecal.forecasters.binary.cells import AT_HINT, BRIM, FINE, REPORT, SCALE, Memory
from onlinecal.forecasters.binary.dyadic import ALLOWANCE, MOST_ROUNDS, last_round


def cells_for(horizon: int, bound: float | Fraction, reach: float) -> int:
    """m = ceil(sqrt(d T / c)), exactly; with it the bound on a uniform grid is at most 2 sqrt(c d T)."""
    square = Fraction(reach) * horizon / Fraction(bound)
    m = math.isqrt(square.numerator // square.denominator)
    while m * m < square:
        m += 1
    return max(m, 1)


def uniform_guarantee(
    rounds: int, n_cells: int, bound: float, reach: float, late: int = 0, unit: float = 0.0
) -> float:
    """d T/m + c (m - 1), and (m - 1) more for each forecast that may be open besides the newest.

    A round costs one `unit` more where the distance of a hint can be rounded up beyond its cell.
    """
    return reach * rounds / n_cells + rounds * unit + (bound + late) * (n_cells - 1)


def window_cells(window: int, rule: str, slack: float, reach: float, share: int = 1) -> int:
    """m = ceil(sqrt(d W / (2 c))), with 2 c = 1 for the sign rule; `share`: grids that share the window."""
    return cells_for(window, Fraction(1 if rule == "sign" else 2 * slack) * share, reach)


def window_biases(n_cells: int, rule: str, slack: float, late: int, free: bool) -> float:
    """The lengths of the intervals that biases stay in, over the inner points: what a window can add.

    That is 2 c each, 1 for the sign rule, and 1 more for each forecast that may be open besides the newest.
    Where unbiased points are free to accept both outcomes, a bias may reach v, or v - 1, if that is beyond c.
    """
    inner = n_cells - 1
    lengths = inner * (1.0 if rule == "sign" else 2.0 * slack)
    if free and rule != "sign":
        within = min(inner, math.floor(Fraction(slack) * n_cells))
        beyond = Fraction((inner - within) * (inner + within + 1), 2 * n_cells)
        lengths = 2.0 * (slack * within + float(beyond))
    return lengths + late * inner


def unit_of_hints(memory: Memory) -> float:
    """What a hint's distance on a uniform grid may be rounded up to beyond the width of its cell."""
    m = int(memory[SCALE])
    # lower/m * m is exact for powers of two, and for hints on the border of a cell only for them
    exact = memory[REPORT] != AT_HINT or m & (m - 1) == 0
    return 0.0 if exact else 1.0 / (2 * m * int(memory[FINE]))


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


def uniform_rounds(n_cells: int, dearest: int, bound: float, late: int = 0) -> int:
    """How many rounds the accumulators of a uniform grid bear, if none adds more than `dearest` to MOVED.

    SPREAD, in units of 1/m, is at most (c + late) m (m - 1), and rises by at most m in a round.
    """
    most = -(-BRIM // dearest)
    if (Fraction(bound) + late) * n_cells * (n_cells - 1) >= BRIM:
        most = min(most, BRIM // n_cells)
    return most


def dyadic_rounds(pace: int, bound: float, reach: float, tuned: bool, late: int = 0) -> int:
    """How many rounds the accumulators of a dyadic grid bear.

    MOVED and SAVED, in units of 2^-37, fit while the distance is below 2^26; SPREAD and the orphans' bias, in
    units of 2^-28, below 2^35, which they cannot reach in 2^34 rounds. Half of it is kept for what the
    guarantee leaves out.
    """

    def is_too_many(rounds: int) -> bool:
        moved = dyadic_guarantee(rounds, pace, bound, reach, tuned) + (late + 1) * (1.0 + 2.0 * reach)
        biased = dyadic_guarantee(rounds, pace, bound, reach, tuned, late)
        return moved >= 1 << 25 or (rounds > 1 << 34 and biased >= 1 << 34)

    return bisect_left(range(1, MOST_ROUNDS + 1), True, key=is_too_many)
