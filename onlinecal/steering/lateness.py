"""How much is learnt of an outcome that comes late.

Forecasts may be asked for before the outcomes of earlier ones are known. Then an outcome is worth less, for
two reasons. It tells of the model as it was some time ago. And outcomes that become known together may be one
observation, as those of all forecasts during one match are. Of m outcomes between two forecasts, which have
the correlation rho, each counts 1/(1 + (m - 1) rho) (Kish's design effect).

rho is estimated from the residuals of the batches of outcomes so far, with the present one. A residual is an
outcome less the present answer of the fastest curve. Against the given answers, the outcomes of a model that
is wrong in one direction would look like one observation.

An account is a stretch of a steering state (`binary`, `vector`), and these two modules alone call the
functions that write; `trust` calls `asked_for`, too. When a forecast is asked for, they call `begin_batch`
once, and `asked_for` after they have counted the forecast. When an outcome is learnt, they call `take_note`,
once for each class, and then `parts_learnt`, once. These three write; `asked_for` and `likeness` only read.
`binary` and `vector` say who keeps their states, and an account with them.

What always holds once an outcome is learnt, or a forecast asked for: RUN counts the outcomes learnt since a
forecast was last asked for, and the sums of residuals are over just these. So all of them are 0 after
`begin_batch`. ALIKE and ALIKE_AT_MOST are sums over the batches before, of more than one outcome each, of
which older ones weigh less (BATCH_MEMORY).

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
ALIKE_AT_MOST = ACCOUNT.field("the denominator of rho", "sum of squares")
LEFT_SQUARES = ACCOUNT.field("the residuals of this batch", "sum of squares")
WAS_LATE = ACCOUNT.field("whether any outcome was late", "0 or 1")
LEFT_SUMS = ACCOUNT.end
"""From here on the account has the sum of the residuals of this batch, for each of k classes (one for
two)."""
BATCH_MEMORY = 0.95
"""Each batch multiplies the weight of those before it by this."""


@kernel_part
def account_size(k: int) -> int:
    """The length of an account for k classes; zeros before the first outcome."""
    return LEFT_SUMS + k


@kernel_part
def asked_for(state: Any, at: int, rounds: float, events: float) -> float:
    """How many forecasts were asked for, among so many events of which `rounds` were outcomes.

    As long as all outcomes came in time it is one more than the outcomes. Then who asks twice before an
    outcome must get the same forecast twice, so the second question does not count.
    """
    if rounds == 0.0 or state[at + WAS_LATE] > 0.0:
        return events - rounds
    return rounds + 1.0


@kernel_part
def begin_batch(state: Any, at: int, k: int) -> None:
    """End the batch of the outcomes so far, since a forecast is asked for."""
    run = state[at + RUN]
    if run == 0.0:
        return
    if run > 1.0:
        alike, whole = likeness(state, at, k)
        state[at + ALIKE] = BATCH_MEMORY * state[at + ALIKE] + alike
        state[at + ALIKE_AT_MOST] = BATCH_MEMORY * state[at + ALIKE_AT_MOST] + whole
    state[at + PREVIOUS] = run
    state[at + RUN] = state[at + LEFT_SQUARES] = 0.0
    for c in range(k):
        state[at + LEFT_SUMS + c] = 0.0


@kernel_part
def likeness(state: Any, at: int, k: int) -> tuple[float, float]:
    """How alike the residuals of this batch are: two numbers; sums of both over batches have rho as ratio.

    The first is the squared sum of the residuals less the sum of their squares, per outcome. The second is
    what the first would be if all outcomes of the batch were one observation.
    """
    total, run = 0.0, state[at + RUN]
    for c in range(k):
        total += state[at + LEFT_SUMS + c] * state[at + LEFT_SUMS + c]
    return (total - state[at + LEFT_SQUARES]) / run, state[at + LEFT_SQUARES] * (run - 1.0) / run


@kernel_part
def take_note(state: Any, at: int, c: int, left: float) -> None:
    """Note the residual of an outcome for class c."""
    state[at + LEFT_SUMS + c] += left
    state[at + LEFT_SQUARES] += left * left


@kernel_part
def parts_learnt(state: Any, at: int, k: int, late: float) -> tuple[float, float]:
    """The parts of the noted outcome that weights learn and that slow curves learn.

    `late` is how many events came in between. Curves learn the root of the timely part that weights learn,
    and neither part is more than the outcome counts in its batch. rho is 1 until something is known of it.
    """
    if late > 0.0:
        state[at + WAS_LATE] = 1.0
    state[at + RUN] += 1.0
    alike, whole = state[at + ALIKE], state[at + ALIKE_AT_MOST]
    if state[at + RUN] > 1.0:
        more_alike, more = likeness(state, at, k)
        alike, whole = alike + more_alike, whole + more
    most = max(state[at + RUN], state[at + PREVIOUS])
    rho = min(max(alike / whole, 0.0), 1.0) if whole > 0.0 else 1.0
    alone = 1.0 / (1.0 + max(most - 1.0, 0.0) * rho)
    timely = 1.0 / math.sqrt(1.0 + late)
    return min(timely, alone), min(math.sqrt(timely), alone)
