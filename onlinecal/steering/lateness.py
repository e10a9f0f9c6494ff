"""How much is learnt of an outcome that comes late.

Forecasts may be asked for before the outcomes of earlier ones are known. Two things then make an outcome
worth less. It speaks of a model of some time ago; and outcomes that become known together may be one
observation, as those of all forecasts during one match are. Of m outcomes between two forecasts, which
correlate by rho, each counts 1/(1 + (m - 1) rho) (Kish's design effect). rho is followed by what was left
over of the batches of outcomes so far, the one that is coming in included. That is measured against what the
fastest curve would answer by now: a model that is wrong in one direction would otherwise look like one
observation.

References
----------
Kish (1965), Survey Sampling (the design effect). Joulani, Gyorgy and Szepesvari (2013), online learning under
delayed feedback (what a delay costs).
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import kernel_part
from onlinecal.layout import Layout

ACCOUNT = Layout()
"""The account, a stretch of a flat state."""
RUN = ACCOUNT.field("outcomes since the last forecast", "count")
PREVIOUS = ACCOUNT.field("outcomes in the batch before", "count")
ALIKE = ACCOUNT.field("the numerator of rho", "sum of squares")
WHOLE = ACCOUNT.field("the denominator of rho", "sum of squares")
SQUARES = ACCOUNT.field("of this batch what was left over", "sum of squares")
LATE = ACCOUNT.field("whether any outcome was late", "0 or 1")
SUMS = ACCOUNT.end
"""Then of this batch, for each of k classes (one if there are two), the sum of what was left over."""
BATCH_MEMORY = 0.95
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
        alike, whole = likeness(state, at, k)
        state[at + ALIKE] = BATCH_MEMORY * state[at + ALIKE] + alike
        state[at + WHOLE] = BATCH_MEMORY * state[at + WHOLE] + whole
    state[at + PREVIOUS] = run
    state[at + RUN] = state[at + SQUARES] = 0.0
    for c in range(k):
        state[at + SUMS + c] = 0.0


@kernel_part
def likeness(state: Any, at: int, k: int) -> tuple[float, float]:
    """By how much the squared sum of this batch exceeds that of independent outcomes, per outcome.

    And the same if all its outcomes were one.
    """
    total, run = 0.0, state[at + RUN]
    for c in range(k):
        total += state[at + SUMS + c] * state[at + SUMS + c]
    return (total - state[at + SQUARES]) / run, state[at + SQUARES] * (run - 1.0) / run


@kernel_part
def take_note(state: Any, at: int, c: int, left: float) -> None:
    """Note what an outcome left over of class c."""
    state[at + SUMS + c] += left
    state[at + SQUARES] += left * left


@kernel_part
def parts_learnt(state: Any, at: int, k: int, late: float) -> tuple[float, float]:
    """What weights learn of the outcome that was noted, and what slow curves do, the root of that.

    `late` is how many events came in between. Neither is more than what the outcome counts among those that
    come with it; rho is 1 until something is known.
    """
    if late > 0.0:
        state[at + LATE] = 1.0
    state[at + RUN] += 1.0
    alike, whole = state[at + ALIKE], state[at + WHOLE]
    if state[at + RUN] > 1.0:
        more_alike, more = likeness(state, at, k)
        alike, whole = alike + more_alike, whole + more
    most = max(state[at + RUN], state[at + PREVIOUS])
    rho = min(max(alike / whole, 0.0), 1.0) if whole > 0.0 else 1.0
    alone = 1.0 / (1.0 + max(most - 1.0, 0.0) * rho)
    timely = 1.0 / math.sqrt(1.0 + late)
    return min(timely, alone), min(math.sqrt(timely), alone)
