"""Steering that is trusted as far as it has proved itself: for streams that may be short.

What steering makes of a probability (`binary`) is mixed with the probability itself by Vovk's aggregating
algorithm once more, at first with a tenth of the weight, and kept away from 0 and 1 by 1/(8n), where n
counts the forecasts asked for so far. With outcomes in time the sum of squared errors exceeds that of the
probabilities themselves by less than 1/10, whatever comes, and that of steering by less than 6/5
(docs/theory.md, Theorem 17d): the price of learning is paid where there is something to be gained.

A state is that of `binary`, with two answers and their weights behind it. The place FORECAST of its ticket
holds what steering made of the probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, kernel_part
from onlinecal.forecasters.binary.cells import clip
from onlinecal.steering.binary import (
    ANSWERS,
    EVENTS,
    FORECAST,
    LATENESS,
    LEAST,
    ROUNDS,
    TICKET,
    learn,
    steer,
    within,
)
from onlinecal.steering.binary import SIZE as STEERING
from onlinecal.steering.binary import new_steering as steering_alone
from onlinecal.steering.lateness import asked_for
from onlinecal.steering.mixing import ETA, HALVES, mixed_answer, reweigh

ROOM = STEERING
WEIGHTS = ROOM + 2
SIZE = WEIGHTS + 2
TRUST = 0.1
"""The weight of steering at first."""
SHARED = 1e-9
"""What is shared of the weights in a round, so that none is ever 0."""


def new_steering() -> NDArray[np.float64]:
    """The state before the first round."""
    return np.concatenate([steering_alone(), [0.0, 0.0, 1.0 - TRUST, TRUST]])


@kernel_part
def advise(state: Any, ticket: Any, raw: float) -> float:
    """What is made of a model's probability (NaN is 1/2); its ticket, shape (TICKET,), is filled in."""
    p = within(raw)
    state[FORECAST] = steer(state, p)
    for i in range(TICKET):
        ticket[i] = state[i]
    write_answers(state)
    least = 0.5 * LEAST / (asked_for(state, LATENESS, state[ROUNDS], state[EVENTS]) + 1.0)
    return clip(mixed_answer(state, ROOM, WEIGHTS, 2), least, 1.0 - least)


@kernel_part
def take_in(state: Any, ticket: Any, outcome: float) -> None:
    """Learn the outcome, in [0, 1], of the probability with this ticket."""
    for i in range(TICKET):
        state[i] = ticket[i]
    write_answers(state)
    judged = learn(state, outcome)
    reweigh(state, ROOM, WEIGHTS, HALVES, outcome, ETA * judged, SHARED)


@kernel_part
def write_answers(state: Any) -> None:
    """Write what the ticket's two answers are into their room: the probability, and what is made of it."""
    state[ROOM] = state[ANSWERS]
    state[ROOM + 1] = state[FORECAST]


@compiled
def ask(state: NDArray[np.float64], ticket: NDArray[np.float64], raw: float) -> float:
    """`advise`, from Python."""
    return advise(state, ticket, raw)


@compiled
def settle(state: NDArray[np.float64], ticket: NDArray[np.float64], outcome: float) -> None:
    """`take_in`, from Python."""
    take_in(state, ticket, outcome)
