"""What is kept of a key's settled rounds to watch it: sums of losses, biases, and bets for alarms.

A state is one flat array, taken on by compiled code; nothing in it goes through the C library, so that
every machine comes to the same bits. Forecasts and hints each have an alarm of their own
(`onlinecal.alarms.escrow`); a ticket has the stakes on one forecast, and behind them those on its hint.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.alarms.escrow import MADE, N_BETS, evidence, pay, stake, strongest
from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part
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


@kernel_part
def pay_out(state: Any, ticket: Any, whose: int, p: float, y: float, asked: float) -> None:
    """Pay out a forecast's or a hint's bets, unless they were made before the last alarm."""
    if asked > state[ALARMS + whose * PER_ALARM + 1]:
        pay(state, MONEY + whose * N_BETS, ticket, whose * MADE, p, y)


@kernel_part
def look(state: Any, whose: int, number: float, threshold: float) -> bool:
    """Raise an alarm, at the event of that number, if there is reason to; its bets begin anew."""
    start, alarm = MONEY + whose * N_BETS, ALARMS + whose * PER_ALARM
    if not evidence(state, start) >= threshold:
        return False
    state[alarm] += 1.0
    state[alarm + 1] = number
    state[alarm + 2] = strongest(state, start)
    for bet in range(N_BETS):
        state[start + bet] = 0.0
    return True


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
    """An outcome came for a forecast or a hint: whether that raised an alarm. Threshold inf: never."""
    pay_out(state, ticket, whose, p, y, asked)
    return look(state, whose, number, threshold)


@compiled
def log_cost(given: float) -> float:
    """The log loss of an outcome that was given this probability."""
    return -logarithm(max(given, CLIP))


@kernel_part
def add_losses(state: Any, start: int, p: float, y: float) -> None:
    """Add a round's squared error and log loss."""
    state[start] += (p - y) * (p - y)
    if y < 1.0:
        state[start + 1] += (1.0 - y) * log_cost(1.0 - p)
    if y > 0.0:
        state[start + 1] += y * log_cost(p)


@kernel_part
def add_bias(state: Any, whose: int, p: float, y: float) -> None:
    """Add a round's biases."""
    state[BIASES + 2 * whose] += p - y
    state[BIASES + 2 * whose + 1] += (p - 0.5) * (p - y)


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
    group = HINTED if hint == hint else UNHINTED
    state[group] += 1.0
    state[group + 1] += y
    state[group + 2] += y * y
    add_losses(state, group + 3, p, y)
    add_bias(state, 0, p, y)
    pay_out(state, ticket, 0, p, y, asked)
    raised = 1 if look(state, 0, number, threshold) else 0
    if hint == hint:
        add_losses(state, group + 5, hint, y)
        add_bias(state, 1, hint, y)
        pay_out(state, ticket, 1, hint, y, asked)
        raised += 2 if look(state, 1, number, threshold) else 0
    return raised
