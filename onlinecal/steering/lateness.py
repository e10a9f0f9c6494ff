"""How much is learnt of an outcome that comes late.

Forecasts may be asked for before the outcomes of earlier ones are known. Two things then make an outcome
worth less. It speaks of a model of some time ago; and outcomes that become known together may be one
observation, as those of all forecasts during one match are. Which of the two it is shows in what was left
over: of m outcomes between two forecasts, which correlate by rho, each counts 1/(1 + (m - 1) rho) (Kish's
design effect). rho is followed by the batches of outcomes so far, the one that is coming in included.

What is left over is measured against what the fastest curve would answer by now, not against what was
answered: a model that is wrong in one direction would otherwise look like one observation.

The account is a stretch of a flat state, with a sum for each of k classes: k = 1 for two classes.

References
----------
Kish (1965), Survey Sampling (the design effect). Joulani, Gyorgy and Szepesvari (2013), online learning under
delayed feedback (what a delay costs).
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import kernel_part

RUN, PREVIOUS, ALIKE, WHOLE, SQUARES, LATE, SUMS = range(7)
"""The account: outcomes since the last forecast and in the batch before; rho, as a quotient of two sums; of
this batch the sum of squares of what was left over; whether any outcome was late; of this batch, by class,
the sum of what was left over."""
FORGETTING = 0.95
"""What a batch leaves of those before it."""


@kernel_part
def account_size(k: int) -> int:
    """The length of an account for k classes; zeros before the first outcome."""
    return SUMS + k


@kernel_part
def asked_for(state: Any, at: int, rounds: float, events: float) -> float:
    """How many forecasts were asked for, of so many events, of which so many were outcomes.

    While all outcomes came in time it is one more than these: who asks again has the same forecast.
    """
    if rounds == 0.0 or state[at + LATE] > 0.0:
        return events - rounds
    return rounds + 1.0


@kernel_part
def begin_batch(state: Any, at: int, k: int) -> None:
    """A forecast is asked for: outcomes so far are of a batch that is over."""
    run = state[at + RUN]
    if run == 0.0:
        return
    if run > 1.0:
        state[at + ALIKE] = FORGETTING * state[at + ALIKE] + beyond_chance(state, at, k)
        state[at + WHOLE] = FORGETTING * state[at + WHOLE] + possible(state, at)
    state[at + PREVIOUS] = run
    state[at + RUN] = state[at + SQUARES] = 0.0
    for c in range(k):
        state[at + SUMS + c] = 0.0


@kernel_part
def beyond_chance(state: Any, at: int, k: int) -> float:
    """By how much the squared sum of this batch exceeds that of independent outcomes, per outcome."""
    total = 0.0
    for c in range(k):
        total += state[at + SUMS + c] * state[at + SUMS + c]
    return float((total - state[at + SQUARES]) / state[at + RUN])


@kernel_part
def possible(state: Any, at: int) -> float:
    """The same if all its outcomes were one."""
    return float(state[at + SQUARES] * (state[at + RUN] - 1.0) / state[at + RUN])


@kernel_part
def take_note(state: Any, at: int, c: int, left: float) -> None:
    """Note what was left over of class c; RUN has counted the outcome already."""
    state[at + SUMS + c] += left
    state[at + SQUARES] += left * left


@kernel_part
def share_alone(state: Any, at: int, k: int) -> float:
    """1/(1 + (m - 1) rho), what an outcome of this batch counts: rho is 1 until something is known."""
    alike, whole = state[at + ALIKE], state[at + WHOLE]
    if state[at + RUN] > 1.0:
        alike += beyond_chance(state, at, k)
        whole += possible(state, at)
    most = max(state[at + RUN], state[at + PREVIOUS])
    rho = min(max(alike / whole, 0.0), 1.0) if whole > 0.0 else 1.0
    return float(1.0 / (1.0 + max(most - 1.0, 0.0) * rho))


@kernel_part
def share_late(late: float) -> float:
    """1/sqrt(1 + n): what weights learn of an outcome if n events came between forecast and outcome."""
    return 1.0 / math.sqrt(1.0 + late)
