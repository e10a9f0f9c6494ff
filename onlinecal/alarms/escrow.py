"""A small alarm for forecasts whose outcomes come late and in any order: 24 bets, made with each forecast.

Each bet b has money D_b. When a forecast is made on which it bets, D_b gets its share w_b of 1, and it stakes
all of it, W = D_b. What of W could be lost is put aside until the outcome comes: D_b becomes W times the
smallest factor that the outcome can bring. When the outcome comes, D_b gets what the bet has brought beyond
that. So D_b is what the bet has for certain; nothing is staked twice, and what open forecasts will bring
counts for nothing before it is there. Without open forecasts it is the detector of `CalibrationAlarm`.

Where one of the outcomes hardly changes what is staked, as with a forecast of about 0 or 1, the share of 1 is
put aside as a whole: D_b gets what it has brought only if the other outcome comes. docs/theory-alarms.md,
Theorem 5, has what is proved of it, whatever outcomes tell of each other.

Factors use +, -, *, / and square roots alone, which IEEE 754 rounds alike on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.compiling import kernel_part

ODDS = 9 / 8, 8 / 9, 3 / 2, 2 / 3, 3.0, 1 / 3
"""Bets on all forecasts multiply the odds by these, upwards first; those on one quarter by the last four."""
N_STRETCHES = 2
"""Two more bets on all forecasts: on half the logit (they are too sure of themselves), and on twice."""
N_ODDS, PER_QUARTER, N_QUARTERS = len(ODDS), 4, 4
QUARTERS = N_ODDS + N_STRETCHES
"""The first of the bets on quarters."""
N_BETS = QUARTERS + PER_QUARTER * N_QUARTERS
BETS_MADE = QUARTERS + PER_QUARTER
"""How many bets are made on each forecast."""

WAYS = "too low", "too high"
MEANINGS = [(0.0, 1.0, way) for way in (*WAYS * (N_ODDS // 2), "overconfident", "underconfident")]
MEANINGS += [
    (quarter / N_QUARTERS, (quarter + 1) / N_QUARTERS, way)
    for quarter in range(N_QUARTERS)
    for way in WAYS * (PER_QUARTER // 2)
]
"""Of each bet the forecasts that it is made on, those from the first number up to the second; and what is
wrong with them if it wins."""

SIZES = np.array([N_ODDS, N_STRETCHES, PER_QUARTER])
SHARES = np.repeat([0.5, 0.1, 0.4] / SIZES, SIZES)
"""The shares of 1 that the bets on a forecast get, (BETS_MADE,)."""
FACTORS = np.array([*ODDS, *ODDS[N_ODDS - PER_QUARTER :]])
"""The factors of the odds of all bets on a forecast, without the stretches."""
LEAST_FACTORS, UPWARDS, GAINS = np.minimum(FACTORS, 1.0), FACTORS >= 1.0, np.abs(FACTORS - 1.0)
"""An outcome multiplies what such a bet stakes. Times (1 - p) + p FACTORS, these are the smaller of the two
factors, whether outcome 1 brings the larger one, and how much larger that is."""
LEAST_GAIN, LARGEST_ODDS = GAINS.min(), FACTORS.max()
LARGEST, ROUNDED_DOWN = 1e30, 1.0 - 2.0**-23
"""Stakes are floats of 32 bits: these keep them finite, and never more than the money."""


@kernel_part
def stretched(twice: bool, p: float) -> tuple[float, float]:
    """The factors of outcomes 1 and 0 for a bet on half or twice the logit of p."""
    if p == 0.0 or p == 1.0:
        # their limits; on half the logit that of what was declared impossible is infinite
        impossible = 0.0 if twice else LARGEST
        return (impossible, 1.0) if p == 0.0 else (1.0, impossible)
    one, zero = (p * p, (1.0 - p) * (1.0 - p)) if twice else (math.sqrt(p), math.sqrt(1.0 - p))
    return one / (p * (one + zero)), zero / ((1.0 - p) * (one + zero))


@kernel_part
def quarter_of(p: float) -> int:
    """The first of the bets on the quarter of [0, 1] in which p lies."""
    return QUARTERS + PER_QUARTER * max(0, min(int(N_QUARTERS * p), N_QUARTERS - 1))


@kernel_part
def staked(money: float) -> float:
    """What a bet with so much money stakes: all of it."""
    return min(money, LARGEST) * ROUNDED_DOWN


@kernel_part
def stake(money: Any, start: int, stakes: Any, place: int, p: float, worth: float) -> None:
    """Make the bets on a forecast p; BETS_MADE stakes are written from `place` on."""
    rest, quarter = 1.0 - p, start + quarter_of(p)
    # outcomes move the factors from 1 by p or 1 - p times GAINS / weight
    least = min(p, rest)
    # loops of fixed lengths without a branch: the compiler takes several bets at once
    for i in range(N_ODDS):
        weight = rest + p * FACTORS[i]
        money[start + i] += SHARES[i] if least * GAINS[i] >= worth * weight else 0.0
        stakes[place + i] = staked(money[start + i])
        money[start + i] *= LEAST_FACTORS[i] / weight
    for i in range(N_ODDS, QUARTERS):
        one, zero = stretched(i > N_ODDS, p)
        money[start + i] += SHARES[i] if min(abs(one - 1.0), abs(zero - 1.0)) >= worth else 0.0
        stakes[place + i] = staked(money[start + i])
        money[start + i] *= min(one, zero)
    for i in range(PER_QUARTER):
        bet = N_ODDS + i
        weight = rest + p * FACTORS[bet]
        money[quarter + i] += SHARES[QUARTERS + i] if least * GAINS[bet] >= worth * weight else 0.0
        stakes[place + QUARTERS + i] = staked(money[quarter + i])
        money[quarter + i] *= LEAST_FACTORS[bet] / weight


@kernel_part
def pay(money: Any, start: int, stakes: Any, place: int, p: float, y: float, worth: float) -> None:
    """Pay out the bets on a forecast p with the outcome y; y = p gives back just what was staked."""
    rest, none, quarter = 1.0 - p, 1.0 - y, start + quarter_of(p)
    for i in range(N_ODDS):
        gain = (y if UPWARDS[i] else none) * GAINS[i] / (rest + p * FACTORS[i])
        money[start + i] += stakes[place + i] * gain
    for i in range(N_ODDS, QUARTERS):
        one, zero = stretched(i > N_ODDS, p)
        gain = max(one - zero, 0.0) * y + max(zero - one, 0.0) * none
        # a float of 64 bits in the interpreter, too
        money[start + i] += float(stakes[place + i]) * gain
        if min(abs(one - 1.0), abs(zero - 1.0)) < worth:
            money[start + i] += kept(SHARES[i], y * one + none * zero, worth)
    for i in range(PER_QUARTER):
        gain = (y if UPWARDS[N_ODDS + i] else none) * GAINS[N_ODDS + i] / (rest + p * FACTORS[N_ODDS + i])
        money[quarter + i] += stakes[place + QUARTERS + i] * gain
    if min(p, rest) * LEAST_GAIN < worth * LARGEST_ODDS:
        pay_shares(money, start, p, y, worth)


@kernel_part
def pay_shares(money: Any, start: int, p: float, y: float, worth: float) -> None:
    """Pay out the shares that were put aside as a whole when bets on the odds of p were made."""
    rest, quarter = 1.0 - p, start + quarter_of(p)
    for i in range(N_ODDS + PER_QUARTER):
        weight = rest + p * FACTORS[i]
        if min(p, rest) * GAINS[i] < worth * weight:
            ratio = (1.0 - y + y * FACTORS[i]) / weight
            if i < N_ODDS:
                money[start + i] += kept(SHARES[i], ratio, worth)
            else:
                money[quarter + i - N_ODDS] += kept(SHARES[QUARTERS + i - N_ODDS], ratio, worth)


@kernel_part
def kept(share: float, ratio: float, worth: float) -> float:
    """What a share has brought, if it has been worth while; else it is taken back."""
    return share * ratio if abs(ratio - 1.0) >= worth else 0.0


@kernel_part
def evidence(money: Any, start: int) -> float:
    """The money that all bets have for certain; from 1/alpha on it raises an alarm."""
    whole = 0.0
    for bet in range(N_BETS):
        whole += money[start + bet]
    return whole


@kernel_part
def strongest(money: Any, start: int) -> int:
    """The bet that has most money."""
    best = 0
    for bet in range(1, N_BETS):
        if money[start + bet] > money[start + best]:
            best = bet
    return best
