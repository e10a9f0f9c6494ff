"""The account by which a key is watched: sums of losses, biases, and bets for alarms, of its settled rounds.

The account is one flat array, which compiled code updates without the C library, so that every machine comes
to the same bits. Forecasts and hints have an alarm each (`onlinecal.alarms.escrow`). The stakes on a forecast
and those on its hint, behind them, are one array.

For a round `ask` is called when its forecast is made, if there are alarms, and `settle` when its outcome is
known; a round without an outcome has its stakes given back by `settle_bets`. For binary keys `play` calls
these (`keys/playing.py`). For keys of several classes `KeyWatch` calls `make_bets` and `pay_bets`, and adds
to the sums itself. A key that begins has zeros, and one that is loaded what was stored. A key's scores and
alarms are read from here.

An account only has alarms, sums over settled rounds and the money of bets, so it does not depend on how
events were cut into batches. Forecasts do not depend on it. But states in ledgers hold it as it is, and a
check compares them bit for bit with a replay: whoever changes the order of its numbers, a formula, or the
order in which something is added up raises STATE_FORMAT. The order of figures, behind BOUNDS, may change
freely, since they are never saved.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.alarms.escrow import BETS_MADE, N_BETS, evidence, pay, stake, strongest
from onlinecal.alarms.worth import unrounded, worth_of
from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.compiling.instructions import row_of
from onlinecal.elementary import logarithm
from onlinecal.measures.scores import LEAST_PROBABILITY

Stakes = NDArray[np.float32]

FORECAST, HINT = 0, 1
"""The two sides that have alarms: forecasts and hints."""
ALARMS = 0
"""For each side: how many alarms there were, the event of the last, and the bet that had most money then."""
PER_ALARM = 3
BIASES = ALARMS + 2 * PER_ALARM
"""For each side: the sums of p - y, and of (p - 1/2)(p - y)."""
UNHINTED = BIASES + 4
"""Of rounds without a hint: their number, the sums of outcomes and of squared outcomes, and the squared
errors and log losses of the forecasts."""
HINTED = UNHINTED + 5
"""The same of rounds with a hint; behind them the losses of the hints."""
MONEY = HINTED + 7
ACCOUNT_SIZE = MONEY + 2 * N_BETS
N_STAKES = 2 * BETS_MADE

BOUNDS = 0
"""The figures that are summed over keys begin with five: rounds, open and expired forecasts, certificate and
guarantee. Two numbers of alarms follow, of forecasts and of hints."""
SCORES = HINTED_SCORES = 7
"""Of a key with hints: rounds, and as sums the losses of hints, of forecasts, and of the best constant; each
time the squared errors and the log losses."""
UNHINTED_SCORES = HINTED_SCORES + 7
"""The same of a key without hints, which has two losses less."""
LAST_ALARM = UNHINTED_SCORES + 5
"""The event of the last alarm, 0 if there was none; it is not summed."""
N_FIGURES = LAST_ALARM + 1


def new_account() -> Floats:
    """An account before the first round."""
    return np.zeros(ACCOUNT_SIZE)


@uncounted
def ask(state: Floats, stakes: Stakes, p: float, hint: float, threshold: float) -> None:
    """Bet on a forecast, and on its hint unless that is NaN; fills in the stakes, of shape (N_STAKES,)."""
    worth = worth_of(1.0 / threshold)
    stake(state, MONEY, stakes, 0, p, worth)
    if hint == hint:
        stake(state, MONEY + N_BETS, stakes, BETS_MADE, hint, worth)


@uncounted
def settle_bets(
    state: Floats,
    stakes: Stakes,
    side: int,
    p: float,
    y: float,
    asked: float,
    number: float,
    threshold: float,
) -> bool:
    """Pay out the bets of one side with an outcome; returns whether that raised an alarm.

    With the threshold inf there are no alarms. Bets from before the last alarm bring nothing; at an alarm all
    bets begin anew.
    """
    start, alarm = MONEY + side * N_BETS, ALARMS + side * PER_ALARM
    if asked > state[alarm + 1]:
        pay(state, start, stakes, side * BETS_MADE, p, unrounded(p, y), worth_of(1.0 / threshold))
    if not evidence(state, start) >= threshold:
        return False
    state[alarm] += 1.0
    state[alarm + 1] = number
    state[alarm + 2] = strongest(state, start)
    for bet in range(N_BETS):
        state[start + bet] = 0.0
    return True


@uncounted
def log_cost(probability: float) -> float:
    """The log loss of an outcome that was given this probability."""
    return -logarithm(max(probability, LEAST_PROBABILITY))


@uncounted
def settle(
    state: Floats,
    stakes: Stakes,
    p: float,
    hint: float,
    y: float,
    asked: float,
    number: float,
    threshold: float,
) -> int:
    """Take up the outcome y, at event `number`, of a forecast made at event `asked` with a hint or NaN.

    Returns 1 if that raised an alarm of the forecasts, 2 of the hints, 3 of both, else 0.
    """
    group, raised = HINTED if hint == hint else UNHINTED, 0
    state[group] += 1.0
    state[group + 1] += y
    state[group + 2] += y * y
    for side in range(2 if hint == hint else 1):
        probability, bias, loss = hint if side else p, BIASES + 2 * side, group + 3 + 2 * side
        state[bias] += probability - y
        state[bias + 1] += (probability - 0.5) * (probability - y)
        state[loss] += (probability - y) * (probability - y)
        if y < 1.0:
            state[loss + 1] += (1.0 - y) * log_cost(1.0 - probability)
        if y > 0.0:
            state[loss + 1] += y * log_cost(probability)
        if settle_bets(state, stakes, side, probability, y, asked, number, threshold):
            raised += 1 + side
    return raised


make_bets, pay_bets = compiled(ask), compiled(settle_bets)
"""`ask` and `settle_bets`, for those who call them from Python."""


def fill_in_figures(accounts: Floats, which: Ints, out: Floats) -> None:
    """The figures of keys behind the first five, from their accounts, of which `which` says the rows.

    They come to the same bits as those that `key_watch.watched_by` makes means of.
    """
    for k in range(len(which)):
        account, row = row_of(accounts, which[k]), row_of(out, k)
        row[SCORES - 2], row[SCORES - 1] = account[ALARMS], account[ALARMS + PER_ALARM]
        row[LAST_ALARM] = 0.0
        for side in range(2):
            if account[ALARMS + side * PER_ALARM] > 0.0:
                row[LAST_ALARM] = max(row[LAST_ALARM], account[ALARMS + side * PER_ALARM + 1])
        for place in range(SCORES, LAST_ALARM):
            row[place] = 0.0
        hinted = account[HINTED] > 0.0
        group, at = (HINTED, HINTED_SCORES) if hinted else (UNHINTED, UNHINTED_SCORES)
        rounds = account[group]
        if rounds == 0.0:
            continue
        row[at] = rounds
        for place in range(2 if hinted else 0):
            at += 1
            row[at] = account[group + 5 + place] / rounds * rounds
        for place in range(2):
            at += 1
            row[at] = account[group + 3 + place] / rounds * rounds
        p, square = min(1.0, account[group + 1] / rounds), account[group + 2] / rounds
        row[at + 1] = max(0.0, square - p * p) * rounds
        row[at + 2] = (p * log_cost(p) + (1.0 - p) * log_cost(1.0 - p)) * rounds
