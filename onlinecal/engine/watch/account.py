"""What is kept of a key's settled rounds to watch it: sums of losses, biases, and bets for alarms.

A state is one flat array, taken on by compiled code; nothing in it goes through the C library, so that
every machine comes to the same bits. Forecasts and hints each have an alarm of their own
(`onlinecal.alarms.escrow`); a ticket has the stakes on one forecast, and behind them those on its hint.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.alarms.escrow import MADE, N_BETS, evidence, pay, stake, strongest
from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.elementary import logarithm
from onlinecal.measures.scores import CLIP

Ticket = NDArray[np.float32]

FORECAST, HINT = 0, 1
"""Whose alarm."""
ALARMS = 0
"""Of each: how many there were, at which event the last, and which bet had most."""
PER_ALARM = 3
BIASES = ALARMS + 2 * PER_ALARM
"""Of each: sums of p - y, and of (p - 1/2)(p - y)."""
UNHINTED = BIASES + 4
"""Rounds, sums of outcomes and of their squares, squared errors and log losses of forecasts without hint."""
HINTED = UNHINTED + 5
"""The same of those with one; behind them the losses of the hints."""
MONEY = HINTED + 7
SIZE = MONEY + 2 * N_BETS
TICKET = 2 * MADE


def new_account() -> Floats:
    """The state before the first round."""
    return np.zeros(SIZE)


@compiled
def ask(state: Floats, ticket: Ticket, p: float, hint: float) -> None:
    """A forecast is made, with a hint or NaN: the ticket, shape (TICKET,), is filled in."""
    stake(state, MONEY, ticket, 0, p)
    if hint == hint:
        stake(state, MONEY + N_BETS, ticket, MADE, hint)


@compiled
def settle_bets(
    state: Floats,
    ticket: Ticket,
    whose: int,
    p: float,
    y: float,
    asked: float,
    number: float,
    threshold: float,
) -> bool:
    """An outcome came for a forecast or a hint: whether that raised an alarm. Threshold inf: never.

    Bets of before the last alarm bring nothing; at an alarm all bets begin anew.
    """
    start, alarm = MONEY + whose * N_BETS, ALARMS + whose * PER_ALARM
    if asked > state[alarm + 1]:
        pay(state, start, ticket, whose * MADE, p, y)
    if not evidence(state, start) >= threshold:
        return False
    state[alarm] += 1.0
    state[alarm + 1] = number
    state[alarm + 2] = strongest(state, start)
    for bet in range(N_BETS):
        state[start + bet] = 0.0
    return True


@compiled
def log_cost(given: float) -> float:
    """The log loss of an outcome that was given this probability."""
    return -logarithm(max(given, CLIP))


@compiled
def settle(
    state: Floats,
    ticket: Ticket,
    p: float,
    hint: float,
    y: float,
    asked: float,
    number: float,
    threshold: float,
) -> int:
    """The outcome y came, at event `number`, of a forecast made at event `asked` with a hint or NaN.

    1 if that raised an alarm of the forecasts, 2 of the hints, 3 of both, else 0.
    """
    group, raised = HINTED if hint == hint else UNHINTED, 0
    state[group] += 1.0
    state[group + 1] += y
    state[group + 2] += y * y
    for whose in range(2 if hint == hint else 1):
        told, bias, loss = hint if whose else p, BIASES + 2 * whose, group + 3 + 2 * whose
        state[bias] += told - y
        state[bias + 1] += (told - 0.5) * (told - y)
        state[loss] += (told - y) * (told - y)
        if y < 1.0:
            state[loss + 1] += (1.0 - y) * log_cost(1.0 - told)
        if y > 0.0:
            state[loss + 1] += y * log_cost(told)
        if settle_bets(state, ticket, whose, told, y, asked, number, threshold):
            raised += 1 + whose
    return raised
