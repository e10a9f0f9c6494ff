"""Which rounds are no evidence: those that hardly change a stake, and those that differ by rounding alone."""

from __future__ import annotations

from onlinecal.compiling import kernel_part

LARGEST_WORTH, LEAST_WORTH = 1e-2, 1e-9
SHARE_ROUNDING = 1e-12
"""How far from 0 or 1 rounding may bring a share that is exactly 0 or 1."""


@kernel_part
def worth_of(alpha: float) -> float:
    """How far from 1 a factor must be for the new stake on a bet to stay: alpha, within the limits above.

    The product of 1/alpha factors that are nearer to 1 is below e. If their stakes stayed, their number alone
    would raise an alarm.
    """
    return max(LEAST_WORTH, min(alpha, LARGEST_WORTH))


@kernel_part
def unrounded(p: float, y: float) -> float:
    """The outcome of a forecast; exactly 0 or 1 where the outcome and the forecast are both about that.

    Outcomes that are shares are sums, and rounded: a forecast of exactly 0 would declare 1e-17 impossible.
    """
    if p <= SHARE_ROUNDING and y <= SHARE_ROUNDING:
        return 0.0
    return 1.0 if p >= 1.0 - SHARE_ROUNDING and y >= 1.0 - SHARE_ROUNDING else y
