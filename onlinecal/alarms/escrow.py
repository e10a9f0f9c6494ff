"""A small alarm for forecasts whose outcomes come late and in any order: 24 bets, made when forecasts are.

Each bet b has money D_b. When a forecast is made D_b gets its share w_b of 1, and the bet, if it is made on
forecasts like this, stakes all of it, W = D_b. What of W could be lost is put aside until the outcome comes:
D_b becomes W times the smallest factor that the outcome can bring. When the outcome comes, D_b gets what the
bet has brought beyond that. So D_b is what the bet has for certain; nothing is staked twice, and what open
forecasts will bring counts for nothing before it is there. Without open forecasts it is the detector of
`CalibrationAlarm`. docs/theory-alarms.md, Theorem 5, has what is proved of it, whatever outcomes tell of each
other.

Factors use +, -, *, / and square roots alone, which IEEE 754 rounds alike on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.compiling import kernel_part

ODDS = 9 / 8, 8 / 9, 3 / 2, 2 / 3, 3.0, 1 / 3
"""By what bets of all forecasts multiply the odds; upwards first. Those of one quarter: the last four."""
STRETCHES = 2
"""Behind them: half the logit of all forecasts, which are then too sure of themselves, and twice."""
WHOLE, PART, PARTS = len(ODDS), 4, 4
QUARTERS = WHOLE + STRETCHES
N_BETS = QUARTERS + PART * PARTS
MADE = QUARTERS + PART
"""How many bets are made on a forecast."""

SHARES = np.array(
    [0.5 / WHOLE] * WHOLE + [0.1 / STRETCHES] * STRETCHES + [0.4 / (PART * PARTS)] * PART * PARTS
)
"""What each bet gets of 1 with every forecast."""
BY = np.array([*ODDS, *ODDS[WHOLE - PART :]])
"""The factors of the odds of the bets on a forecast, without the stretches."""
LEAST, UPWARDS, BROUGHT = np.minimum(BY, 1.0), BY >= 1.0, np.abs(BY - 1.0)
"""Of such a bet, times the odds' (1 - p) + p BY: its smallest factor; whether it is on outcome 1; what that
brings beyond the smallest."""
LARGEST, ROUNDED_DOWN = 1e30, 1.0 - 2.0**-23
"""Stakes fit floats of 32 bits, and are never more than the money."""


@kernel_part
def stretched(twice: bool, p: float) -> tuple[float, float]:
    """The factors of outcomes 1 and 0 for a bet on half or twice the logit of p, which is not 0 or 1."""
    one, zero = (p * p, (1.0 - p) * (1.0 - p)) if twice else (math.sqrt(p), math.sqrt(1.0 - p))
    return one / (p * (one + zero)), zero / ((1.0 - p) * (one + zero))


@kernel_part
def quarter_of(p: float) -> int:
    """Behind those of all forecasts, the first of the bets of the quarter in which p is."""
    return QUARTERS + PART * max(0, min(int(PARTS * p), PARTS - 1))


@kernel_part
def staked(money: float) -> float:
    """What a bet stakes, of so much money."""
    return min(money, LARGEST) * ROUNDED_DOWN


@kernel_part
def stake(money: Any, start: int, ticket: Any, place: int, p: float) -> None:
    """Make the bets on a forecast p; the stakes, MADE of them, are written into the ticket."""
    for bet in range(N_BETS):
        money[start + bet] += SHARES[bet]
    rest, quarter = 1.0 - p, start + quarter_of(p)
    # loops of fixed lengths without a branch: the compiler takes several bets at once
    for i in range(WHOLE):
        ticket[place + i] = staked(money[start + i])
        money[start + i] *= LEAST[i] / (rest + p * BY[i])
    for i in range(WHOLE, QUARTERS):
        ticket[place + i] = staked(money[start + i])
        if 0.0 < p < 1.0:
            one, zero = stretched(i > WHOLE, p)
            money[start + i] *= min(one, zero)
    for i in range(PART):
        ticket[place + QUARTERS + i] = staked(money[quarter + i])
        money[quarter + i] *= LEAST[WHOLE + i] / (rest + p * BY[WHOLE + i])


@kernel_part
def pay(money: Any, start: int, ticket: Any, place: int, p: float, y: float) -> None:
    """Pay out what the bets on a forecast p have brought; y = p gives back what was staked, no more."""
    rest, none, quarter = 1.0 - p, 1.0 - y, start + quarter_of(p)
    for i in range(WHOLE):
        gain = (y if UPWARDS[i] else none) * BROUGHT[i] / (rest + p * BY[i])
        money[start + i] += ticket[place + i] * gain
    for i in range(WHOLE, QUARTERS):
        if 0.0 < p < 1.0:
            one, zero = stretched(i > WHOLE, p)
            gain = max(one - zero, 0.0) * y + max(zero - one, 0.0) * none
            money[start + i] += ticket[place + i] * gain
    for i in range(PART):
        gain = (y if UPWARDS[WHOLE + i] else none) * BROUGHT[WHOLE + i] / (rest + p * BY[WHOLE + i])
        money[quarter + i] += ticket[place + QUARTERS + i] * gain


@kernel_part
def evidence(money: Any, start: int) -> float:
    """What all bets have for certain: an alarm from 1/alpha on."""
    whole = 0.0
    for bet in range(N_BETS):
        whole += money[start + bet]
    return whole


@kernel_part
def strongest(money: Any, start: int) -> int:
    """The bet that has most."""
    best = 0
    for bet in range(1, N_BETS):
        if money[start + bet] > money[start + best]:
            best = bet
    return best


def region_of(bet: int) -> tuple[float, float]:
    """Where a bet is made: the forecasts from the first number up to the second."""
    if bet < QUARTERS:
        return 0.0, 1.0
    quarter = (bet - QUARTERS) // PART
    return quarter / PARTS, (quarter + 1) / PARTS


def direction_of(bet: int) -> str:
    """What is wrong with the forecasts if a bet wins."""
    if WHOLE <= bet < QUARTERS:
        return "overconfident" if bet == WHOLE else "underconfident"
    return "too low" if bet % 2 == 0 else "too high"
