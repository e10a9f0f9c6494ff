"""What is no evidence: a stake that a round hardly moves, and what rounding leaves of an outcome."""

from __future__ import annotations

from onlinecal.compiling import kernel_part

LARGEST_WORTH, LEAST_WORTH = 1e-2, 1e-9
ROUNDED = 1e-12
"""How far from 0 or 1 a share may be that is nothing but rounded."""


@kernel_part
def worth_of(alpha: float) -> float:
    """How far from 1 a factor must be for the new stake on a bet to stay: as far as the rate of false alarms.

    1/alpha factors nearer to 1 make less than e together. If their stakes stayed, they would raise an alarm
    by their number alone.
    """
    return max(LEAST_WORTH, min(alpha, LARGEST_WORTH))


@kernel_part
def unrounded(p: float, y: float) -> float:
    """The outcome of a forecast, without what rounding left of it where it and the forecast are about 0 or 1.

    Shares are sums, and rounded: to a forecast of exactly 0 an outcome of 1e-17 would be impossible.
    """
    if p <= ROUNDED and y <= ROUNDED:
        return 0.0
    return 1.0 if p >= 1.0 - ROUNDED and y >= 1.0 - ROUNDED else y
