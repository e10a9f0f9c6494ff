"""A small alarm for forecasts whose outcomes come late and in any order. It has 24 bets.

Each bet b has money D_b. When a forecast is made on which it bets, D_b gets its share w_b of 1, and it stakes
all of it, W = D_b. What of W could be lost is put aside until the outcome comes: D_b becomes W times the
smallest factor that the outcome can bring. When the outcome comes, D_b gets what the bet has brought beyond
that. So D_b is what the bet has for certain; nothing is staked twice, and what open forecasts will bring
counts for nothing before it is there. Without open forecasts it is the detector of `CalibrationAlarm`.

Where one of the outcomes hardly changes what is staked, as with a forecast of about 0 or 1, the share of 1 is
put aside as a whole: D_b gets what it has brought only if the other outcome comes. Theorem 5 in
docs/theory-alarms.md bounds the rate of false alarms, whatever outcomes tell of each other.

Factors use +, -, *, / and square roots alone, which IEEE 754 rounds alike on every machine.

How near to 1 a factor must be to count as hardly changing anything is `worth`, which `worth_of` in `worth.py`
makes of alpha. `stake` is called once when a forecast is made, and `pay` at most once when its outcome is
known, with the stakes that `stake` wrote, the same forecast and the same worth: with another one a share
could be given twice, or never. Other forecasts may come in between. Bets from before an alarm are never paid,
which the account sees to. Both write `money`, N_BETS numbers from `start` on, of which none is ever negative;
`evidence` and `strongest` only read.

`engine/watch/account.py` has this money in each key's account, and empties it after an alarm. The money and
the stakes of open forecasts are kept in ledgers, so the order of the bets, their shares and their factors are
part of STATE_FORMAT and of the answers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.compiling import kernel_part

ODDS = 9 / 8, 8 / 9, 3 / 2, 2 / 3, 3.0, 1 / 3
"""Bets on all forecasts multiply the odds by these, and bets on a quarter by the last four of them."""
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
"""For each bet the interval of the forecasts that it is made on, and what is wrong with them if it wins."""

KIND_COUNTS = np.array([N_ODDS, N_STRETCHES, PER_QUARTER])
STAKE_SHARES = np.repeat([0.5, 0.1, 0.4] / KIND_COUNTS, KIND_COUNTS)
"""The shares of 1 that the bets on a forecast get, (BETS_MADE,)."""
BET_FACTORS = np.array([*ODDS, *ODDS[N_ODDS - PER_QUARTER :]])
"""The factors of the odds of all bets on a forecast, without the stretches."""
LEAST_FACTORS, UPWARDS, GAINS = np.minimum(BET_FACTORS, 1.0), BET_FACTORS >= 1.0, np.abs(BET_FACTORS - 1.0)
"""For each such bet, with the factors of both outcomes multiplied by (1 - p) + p BET_FACTORS: the smaller
factor, whether outcome 1 brings the larger one, and how much larger it is."""
SMALLEST_GAIN, LARGEST_FACTOR = GAINS.min(), BET_FACTORS.max()
LARGEST_STAKE, ROUNDED_DOWN = 1e30, 1.0 - 2.0**-23
"""Stakes are floats of 32 bits: the first keeps them finite, and the second never above the money."""


@kernel_part(counted=False)
def stretched(twice: bool, p: float) -> tuple[float, float]:
    """The factors of outcomes 1 and 0 for a bet on half or twice the logit of p."""
    if p == 0.0 or p == 1.0:
        # limits of the factors; on half the logit, an outcome that was declared impossible has no finite one
        impossible = 0.0 if twice else LARGEST_STAKE
        return (impossible, 1.0) if p == 0.0 else (1.0, impossible)
    of_1, of_0 = (p * p, (1.0 - p) * (1.0 - p)) if twice else (math.sqrt(p), math.sqrt(1.0 - p))
    return of_1 / (p * (of_1 + of_0)), of_0 / ((1.0 - p) * (of_1 + of_0))


@kernel_part(counted=False)
def quarter_of(p: float) -> int:
    """The first of the bets on the quarter of [0, 1] in which p lies."""
    return QUARTERS + PER_QUARTER * max(0, min(int(N_QUARTERS * p), N_QUARTERS - 1))


@kernel_part(counted=False)
def staked(money: float) -> float:
    """What a bet with so much money stakes: all of it."""
    return min(money, LARGEST_STAKE) * ROUNDED_DOWN


@kernel_part(counted=False)
def stake(money: Any, start: int, stakes: Any, place: int, p: float, worth: float) -> None:
    """Make the bets on a forecast p; BETS_MADE stakes are written from `place` on."""
    rest, quarter = 1.0 - p, start + quarter_of(p)
    # an outcome moves the factor away from 1 by p or 1 - p times GAINS / weight
    least = min(p, rest)
    # loops of fixed lengths without a branch: the compiler takes several bets at once
    for i in range(N_ODDS):
        weight = rest + p * BET_FACTORS[i]
        money[start + i] += STAKE_SHARES[i] if least * GAINS[i] >= worth * weight else 0.0
        stakes[place + i] = staked(money[start + i])
        money[start + i] *= LEAST_FACTORS[i] / weight
    for i in range(N_ODDS, QUARTERS):
        by_1, by_0 = stretched(i > N_ODDS, p)
        money[start + i] += STAKE_SHARES[i] if min(abs(by_1 - 1.0), abs(by_0 - 1.0)) >= worth else 0.0
        stakes[place + i] = staked(money[start + i])
        money[start + i] *= min(by_1, by_0)
    for i in range(PER_QUARTER):
        bet = N_ODDS + i
        weight = rest + p * BET_FACTORS[bet]
        money[quarter + i] += STAKE_SHARES[QUARTERS + i] if least * GAINS[bet] >= worth * weight else 0.0
        stakes[place + QUARTERS + i] = staked(money[quarter + i])
        money[quarter + i] *= LEAST_FACTORS[bet] / weight


@kernel_part(counted=False)
def pay(money: Any, start: int, stakes: Any, place: int, p: float, y: float, worth: float) -> None:
    """Pay out the bets on a forecast p with the outcome y; y = p gives back just what was staked."""
    rest, rest_of_y, quarter = 1.0 - p, 1.0 - y, start + quarter_of(p)
    for i in range(N_ODDS):
        gain = (y if UPWARDS[i] else rest_of_y) * GAINS[i] / (rest + p * BET_FACTORS[i])
        money[start + i] += stakes[place + i] * gain
    for i in range(N_ODDS, QUARTERS):
        by_1, by_0 = stretched(i > N_ODDS, p)
        gain = max(by_1 - by_0, 0.0) * y + max(by_0 - by_1, 0.0) * rest_of_y
        # the interpreter, too, shall calculate with 64 bits
        money[start + i] += float(stakes[place + i]) * gain
        if min(abs(by_1 - 1.0), abs(by_0 - 1.0)) < worth:
            money[start + i] += kept(STAKE_SHARES[i], y * by_1 + rest_of_y * by_0, worth)
    for i in range(PER_QUARTER):
        bet = N_ODDS + i
        gain = (y if UPWARDS[bet] else rest_of_y) * GAINS[bet] / (rest + p * BET_FACTORS[bet])
        money[quarter + i] += stakes[place + QUARTERS + i] * gain
    if min(p, rest) * SMALLEST_GAIN < worth * LARGEST_FACTOR:
        pay_shares(money, start, p, y, worth)


@kernel_part(counted=False)
def pay_shares(money: Any, start: int, p: float, y: float, worth: float) -> None:
    """Pay out the shares that were put aside as a whole when bets on the odds of p were made."""
    rest, quarter = 1.0 - p, start + quarter_of(p)
    for i in range(N_ODDS + PER_QUARTER):
        weight = rest + p * BET_FACTORS[i]
        if min(p, rest) * GAINS[i] < worth * weight:
            ratio = (1.0 - y + y * BET_FACTORS[i]) / weight
            if i < N_ODDS:
                money[start + i] += kept(STAKE_SHARES[i], ratio, worth)
            else:
                money[quarter + i - N_ODDS] += kept(STAKE_SHARES[QUARTERS + i - N_ODDS], ratio, worth)


@kernel_part(counted=False)
def kept(share: float, ratio: float, worth: float) -> float:
    """What a share has brought: nothing if the factor is so near to 1 that the share is taken back."""
    return share * ratio if abs(ratio - 1.0) >= worth else 0.0


@kernel_part(counted=False)
def evidence(money: Any, start: int) -> float:
    """The money that all bets have for certain; from 1/alpha on it raises an alarm."""
    whole = 0.0
    for bet in range(N_BETS):
        whole += money[start + bet]
    return whole


@kernel_part(counted=False)
def strongest(money: Any, start: int) -> int:
    """The bet that has most money, of equal ones the first."""
    best = 0
    for bet in range(1, N_BETS):
        if money[start + bet] > money[start + best]:
            best = bet
    return best
