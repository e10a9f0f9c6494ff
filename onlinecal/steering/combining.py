"""Several models of one event: each is steered, and the steered probabilities are mixed to one.

A model's probabilities are steered as if it were alone (`binary`). Beside the N steered models there is a
*stack*, the logistic regression of the outcome on their logits; an extended Kalman filter, which begins with
the mean of the logits, follows its coefficients. A *tracking* mixture of all these, by Vovk's aggregating
algorithm, has weights that follow the one which is best at present. In the last stage Vovk's algorithm mixes
the tracking mixture with the models themselves, by their losses so far.

A model may be silent in a round. Then it learns nothing, and in the mixtures it counts as if it had given the
answer of the others together (specialists). So the bound holds for the rounds in which a model speaks
(docs/theory.md, Theorem 17g). If all are silent, the share of ones so far is the answer.

`advise` answers a question and leaves its ticket at the front of the state; `take_in` learns the outcome of
the round whose ticket is there; `write_weights` only reads. Whoever asks again in between keeps a copy of the
ticket. The ticket has those of the models, so `take_in` puts each into its model's state by itself; `advise`
has each model that speaks count its event. Of the shared part `take_in` changes MOST_LATE, ROUNDS, ONES,
losses, tracking weights and the stack. `advise` only counts EVENTS there, and writes what is scratch: the
logits, and the weights of the last stage, which `write_weights` reads before the next question. (The gains
are room for `take_in`.) Wrappers keep these states in pickles, and the engine has none. The constants are
part of the answers.

References
----------
Vovk (1990, 1998), Herbster and Warmuth (1998), see `mixing`. Freund, Schapire, Singer and Warmuth (1997),
using and combining predictors that specialize. Fahrmeir (1992), see `curves`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, entry_point, kernel_part
from onlinecal.compiling.instructions import copy
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.binary.cells import clip
from onlinecal.layout import Layout
from onlinecal.steering import binary
from onlinecal.steering.curves import curvature, sigmoid
from onlinecal.steering.mixing import ETA, mixed_answer, reweigh
from onlinecal.steering.replaying import Schedule

STACK_PRIOR = 0.5
"""The stack's prior weight in the tracking mixture; the models share the rest."""
TRACKING_PRIOR = 0.9
"""The tracking mixture's prior weight in the last stage; the models share the rest."""
LATE_RATE = 0.3
"""Once outcomes have come late the learning rate of the last stage is this divided by `room_for` the greatest
delay so far; before it is `ETA`."""
STACK_VARIANCE, STACK_RATE = 0.05, 1e-4
"""The prior variance of the stack's coefficients, and how fast it forgets."""
LEAST_STACKED = 1e-6
"""The stack takes logits of probabilities that are moved at least so far away from 0 and 1."""

# A state for n models: ticket | shared part | n states of `binary`. The ticket is that of the open forecast.
# Behind these fields it has the answers of n models, of the stack and of the tracking mixture; for each model
# whether it spoke; and for each model its ticket.
TICKET_PART = Layout()
ASKED = TICKET_PART.field("forecasts asked for before", "count")
ANSWER = TICKET_PART.field("what was answered", "probability")
SPOKEN = TICKET_PART.field("the mixture of the models that spoke", "probability")
ANSWERS = TICKET_PART.end
# Behind these fields the shared part has tracking weights and their prior (n + 1 each), losses and weights of
# the last stage (n + 2 each, of which those of the stack are not used), the stack's coefficients, their
# covariance (n^2), and room for logits and gains (n each).
SHARED_PART = Layout()
MOST_LATE = SHARED_PART.field("the most forecasts that came between a forecast and its outcome", "count")
ROUNDS = SHARED_PART.field("rounds learnt", "count")
ONES = SHARED_PART.field("outcomes that were 1", "count")
EVENTS = SHARED_PART.field("forecasts asked for", "count")
WEIGHTS = SHARED_PART.end


@kernel_part
def ticket_size(n: int) -> int:
    """The length of a ticket, at the front of the state: where the shared part begins."""
    return ANSWERS + (n + 2) + n + n * binary.TICKET


@kernel_part
def losses_at(n: int) -> int:
    """Where the losses of the last stage are; its weights and the stack's coefficients follow."""
    return ticket_size(n) + WEIGHTS + 2 * (n + 1)


@kernel_part
def stack_at(n: int) -> int:
    """Where the stack's coefficients are; covariance, logits and gains follow, and the states of models."""
    return losses_at(n) + 2 * (n + 2)


@kernel_part
def models_at(n: int) -> int:
    """Where the states of the models begin."""
    return stack_at(n) + n + n * n + 2 * n


@kernel_part
def room_for(late: float) -> float:
    """The least power of 2 above the greatest delay. So the learning rate changes seldom as delays grow."""
    room = 1.0
    while room <= late:
        room *= 2.0
    return room


def regret_bound(share: float, late: float) -> float:
    """By how much the mixture's squared errors, a sum over rounds, can exceed those of one that is mixed.

    `share` is its prior weight in the last stage, `late` the greatest delay. docs/theory.md, Theorem 17g.
    """
    if late == 0.0:
        return math.log(1.0 / share) / ETA
    room = room_for(late)
    return math.log(1.0 / share) * room / LATE_RATE + 1.04 * (math.log2(room) * late + 2.0 * room)


def new_combining(n: int) -> Floats:
    """The state for n models before the first round."""
    shared, stack = ticket_size(n), stack_at(n)
    state = np.concatenate([np.zeros(models_at(n)), np.tile(binary.new_steering(), n)])
    state[shared + WEIGHTS : losses_at(n)] = [*[(1.0 - STACK_PRIOR) / n] * n, STACK_PRIOR] * 2
    state[stack : stack + n] = 1.0 / n
    state[stack + n : stack + n + n * n] = (STACK_VARIANCE * np.eye(n)).ravel()
    return state


@kernel_part
def advise(state: Any, row: Any) -> float:
    """The answer to the models' probabilities, shape (n,), NaN for silent ones; the state has the ticket."""
    n = len(row)
    shared, spoke, weights = ticket_size(n), ANSWERS + n + 2, losses_at(n) + n + 2
    state[shared + EVENTS] += 1.0
    state[ASKED] = state[shared + EVENTS]
    speaking = 0
    for i in range(n):
        p = float(row[i])
        state[spoke + i] = 0.0
        if p == p:
            at, ticket = models_at(n) + i * binary.SIZE, spoke + n + i * binary.TICKET
            state[ANSWERS + i] = binary.steer(state[at : at + binary.SIZE], binary.within(p))
            copy(state, at, state, ticket, binary.TICKET)
            state[spoke + i] = 1.0
            speaking += 1
    least = binary.LEAST_DISTANCE / (state[shared + ROUNDS] + 1.0)
    if speaking == 0:
        ones = (state[shared + ONES] + 0.5) / (state[shared + ROUNDS] + 1.0)
        state[ANSWER] = clip(ones, least, 1.0 - least)
        return float(state[ANSWER])
    for i in range(n):
        state[weights + i] = state[shared + WEIGHTS + i] * state[spoke + i]
    state[weights + n] = state[shared + WEIGHTS + n]
    state[SPOKEN] = mixed_answer(state, ANSWERS, weights, n)
    state[ANSWERS + n] = clip(sigmoid(stacked(state, n)), least, 1.0 - least)
    state[ANSWERS + n + 1] = mixed_answer(state, ANSWERS, weights, n + 1)
    weigh(state, n)
    state[ANSWER] = mixed_answer(state, ANSWERS, weights, n + 2)
    return float(state[ANSWER])


@kernel_part
def stacked(state: Any, n: int) -> float:
    """The logit of the stack's answer; the models' logits are written to the state."""
    stack, spoke, total = stack_at(n), ANSWERS + n + 2, 0.0
    logits = stack + n + n * n
    for i in range(n):
        answer = state[ANSWERS + i] if state[spoke + i] > 0.0 else state[SPOKEN]
        answer = clip(answer, LEAST_STACKED, 1.0 - LEAST_STACKED)
        state[logits + i] = logarithm(answer / (1.0 - answer))
        total += state[stack + i] * state[logits + i]
    return total


@kernel_part
def weigh(state: Any, n: int) -> None:
    """Write the weights of the last stage, exponential in the losses so far; silent models have 0."""
    late, losses, spoke = state[ticket_size(n) + MOST_LATE], losses_at(n), ANSWERS + n + 2
    rate, weights = ETA if late == 0.0 else LATE_RATE / room_for(late), losses + n + 2
    least = state[losses + n + 1]
    for i in range(n):
        if state[spoke + i] > 0.0:
            least = min(least, state[losses + i])
    total = 0.0
    for i in range(n + 2):
        prior = TRACKING_PRIOR if i > n else 0.0 if i == n else state[spoke + i] * (1.0 - TRACKING_PRIOR) / n
        state[weights + i] = prior * exponential(-rate * (state[losses + i] - least))
        total += state[weights + i]
    for i in range(n + 2):
        state[weights + i] /= total


@kernel_part
def take_in(state: Any, n: int, outcome: Any) -> None:
    """Learn the outcome, 0 or 1, of the round of n models whose ticket is here."""
    came = float(outcome)
    shared, spoke, losses = ticket_size(n), ANSWERS + n + 2, losses_at(n)
    state[shared + MOST_LATE] = max(state[shared + MOST_LATE], state[shared + EVENTS] - state[ASKED])
    rounds = state[shared + ROUNDS]
    state[shared + ROUNDS] = rounds + 1.0
    state[shared + ONES] += came
    judged, speaking = 1.0, 0
    for i in range(n):
        if state[spoke + i] > 0.0:
            at, ticket = models_at(n) + i * binary.SIZE, spoke + n + i * binary.TICKET
            copy(state, ticket, state, at, binary.TICKET)
            judged = min(judged, binary.learn(state[at : at + binary.SIZE], came))
            speaking += 1
    if speaking == 0:
        return
    for i in range(n + 2):
        says = i >= n or state[spoke + i] > 0.0
        error = (state[ANSWERS + i] if says else state[ANSWER]) - came
        state[losses + i] += error * error
    learn_stack(state, n, came, math.sqrt(judged))
    for i in range(n):
        if state[spoke + i] == 0.0:
            state[ANSWERS + i] = state[ANSWERS + n + 1]
    share = judged / (judged * rounds + binary.SHARE_DELAY)
    prior = state[shared + WEIGHTS + n + 1 : losses]
    reweigh(state, ANSWERS, shared + WEIGHTS, prior, came, ETA * judged, share)


@kernel_part
def learn_stack(state: Any, n: int, outcome: float, part: float) -> None:
    """Let the stack learn the outcome, or a part of it, by an extended Kalman filter as in `curves`."""
    stack = stack_at(n)
    covariance, logits = stack + n, stack + n + n * n
    gains = logits + n
    answer = sigmoid(stacked(state, n))
    error = outcome - answer
    spread = 0.0
    for i in range(n):
        gain = 0.0
        for j in range(n):
            gain += state[covariance + i * n + j] * state[logits + j]
        state[gains + i] = gain
        spread += gain * state[logits + i]
    bend = part * curvature(answer, error)
    scale = 1.0 + bend * spread
    for i in range(n):
        state[stack + i] += part * state[gains + i] * error / scale
        for j in range(n):
            at = covariance + i * n + j
            state[at] -= state[gains + i] * state[gains + j] * bend / scale
            state[at] += part * STACK_RATE * ((STACK_VARIANCE if i == j else 0.0) - state[at])


@kernel_part
def write_weights(state: Any, out: Any) -> None:
    """Write how much each model counts in the answer whose ticket is here, shape (n,), with sum 1.

    That is its own weight and its part of the tracking mixture's weight, in which the stack's part is divided
    in proportion to the sizes of its coefficients. Silent models have 0, and so have all if none speaks.
    """
    n = len(out)
    shared, spoke, stack = ticket_size(n), ANSWERS + n + 2, stack_at(n)
    weights = losses_at(n) + n + 2
    tracking, coefficients = state[shared + WEIGHTS + n], 1e-300
    for i in range(n):
        tracking += state[spoke + i] * state[shared + WEIGHTS + i]
        coefficients += state[spoke + i] * abs(state[stack + i])
    for i in range(n):
        part = state[shared + WEIGHTS + i]
        part += state[shared + WEIGHTS + n] * abs(state[stack + i]) / coefficients
        out[i] = state[spoke + i] * (state[weights + i] + state[weights + n + 1] * part / tracking)


ask, settle, weights_of = (entry_point(compiled(part)) for part in (advise, take_in, write_weights))
"""The same three, compiled."""


def combined(
    state: Floats, table: Floats, outcomes: NDArray[np.uint8], schedule: Schedule
) -> tuple[Floats, Floats, Floats]:
    """Ask about every row of a table, shape (T, n), and learn the outcomes as the schedule says.

    Returns the answers, shape (T,), and two arrays (T, n): what each model was steered to, NaN where it is
    silent, and how much it counted.
    """
    answers = np.empty(len(table)), np.full(table.shape, np.nan), np.empty(table.shape)
    kept = np.empty((schedule.most_late + 1, ticket_size(table.shape[1])))
    replay(state, kept, schedule.events, np.ascontiguousarray(table), outcomes, answers)
    return answers


@compiled
def replay(state: Floats, kept: Floats, events: Any, table: Floats, outcomes: Any, answers: Any) -> None:
    """`combined`, compiled; open tickets wait in rows of `kept`."""
    n, length = table.shape[1], kept.shape[1]
    steps, places, _ = events
    hints, steered, weights = answers
    for step in steps:
        if step < 0:
            copy(kept[places[~step]], 0, state, 0, length)
            take_in(state, n, outcomes[~step])
            continue
        hints[step] = advise(state, table[step])
        write_weights(state, weights[step])
        for i in range(n):
            if table[step, i] == table[step, i]:
                steered[step, i] = state[ANSWERS + i]
        if places[step] >= 0:
            copy(state, 0, kept[places[step]], 0, length)
