"""Which rounds are no evidence: those that hardly change a stake, and those that differ by rounding alone.

Both functions are pure. Alarms ask them, and so do the engine's accounts (`engine/watch/account.py`), whose
money is kept in ledgers: another constant makes other alarms, and other money than a ledger has.
"""

from __future__ import annotations

from onlinecal.compiling import kernel_part

LARGEST_WORTH = 1e-2
"""The threshold where alpha is larger. A bet that shifts the logit by .1 changes by 5 % at a forecast of 1/2:
with a threshold of .1, say, its stakes would never stay."""
LEAST_WORTH = 1e-9
"""The threshold where alpha is smaller, or 0, as without alarms: a factor that is 1 but for rounding is about
1e-16 away from 1, and no evidence."""
SHARE_ROUNDING = 1e-12
"""How far from 0 or 1 rounding may bring a share that is exactly 0 or 1."""


@kernel_part
def worth_of(alpha: float) -> float:
    """The threshold: a new stake on a bet stays only if its factor differs from 1 by at least this.

    It is alpha, clipped to the limits above. The product of 1/alpha factors that differ less from 1 is below
    e. If the stakes on them stayed, 1 in each round, their number alone would raise an alarm at 1/alpha.
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
