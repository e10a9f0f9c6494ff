"""Steering that is trusted as far as it has proved itself: for streams that may be short.

What steering makes of a probability (`binary`) or of a vector (`vector`) is mixed with that itself by Vovk's
aggregating algorithm once more, at first with a tenth of the weight. A probability is kept away from 0 and 1
by 1/(8n), and no part of a vector of k classes is below 1/(4kn), where n counts the forecasts asked for so
far. With outcomes in time the sum of squared errors exceeds that of the probabilities themselves by less than
1/10, whatever comes, and that of steering by less than 6/5 (docs/theory.md, Theorem 17d): the price of
learning is paid where there is something to be gained. For Brier scores of vectors, a sum over the classes,
it is 1/5 and 12/5, however many classes there are (Theorem 17f): with two classes each error counts twice.

A state is that of `binary`, with two answers and their weights behind it. The place FORECAST of its ticket
holds what steering made of the probability. A state for k classes is that of `vector`, with two weights
behind it, and room for two answers, k probabilities each, and for what these deserve. Its ticket is that of
`vector` with what steering made of the vector behind it.

Whether a state that came from outside, say a ledger, can be gone on with is checked here, too: compiled code
looks at no bounds, and knots and bins are places in a state that follow from these fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part
from onlinecal.forecasters.binary.cells import clip
from onlinecal.forecasters.binary.soundness import require
from onlinecal.steering import binary, vector
from onlinecal.steering.binary import TICKET
from onlinecal.steering.curves import REACH
from onlinecal.steering.lateness import asked_for
from onlinecal.steering.mixing import (
    ETA,
    HALVES,
    credit_vectors,
    mix_vectors,
    mixed_answer,
    reweigh,
    reweigh_by_credit,
)
from onlinecal.steering.vector import account_of, shared_of

ROOM = binary.SIZE
WEIGHTS = ROOM + 2
SIZE = WEIGHTS + 2
TRUST = 0.1
"""The weight of steering at first."""
SHARED = 1e-9
"""What is shared of the weights in a round, so that none is ever 0."""
FARTHEST = 746.0
"""No logit of a float in (0, 1) is farther from 0."""
ROUNDING = 1e-6


def new_steering() -> Floats:
    """The state before the first round."""
    return np.concatenate([binary.new_steering(), [0.0, 0.0, 1.0 - TRUST, TRUST]])


@kernel_part
def advise(state: Any, ticket: Any, raw: float) -> float:
    """What is made of a model's probability (NaN is 1/2); its ticket, shape (TICKET,), is filled in."""
    p = binary.within(raw)
    state[binary.FORECAST] = binary.steer(state, p)
    for i in range(TICKET):
        ticket[i] = state[i]
    write_answers(state)
    asked = asked_for(state, binary.LATENESS, state[binary.ROUNDS], state[binary.EVENTS])
    least = 0.5 * binary.LEAST / (asked + 1.0)
    return clip(mixed_answer(state, ROOM, WEIGHTS, 2), least, 1.0 - least)


@kernel_part
def take_in(state: Any, ticket: Any, outcome: float) -> None:
    """Learn the outcome, in [0, 1], of the probability with this ticket."""
    for i in range(TICKET):
        state[i] = ticket[i]
    write_answers(state)
    judged = binary.learn(state, outcome)
    reweigh(state, ROOM, WEIGHTS, HALVES, outcome, ETA * judged, SHARED)


@kernel_part
def write_answers(state: Any) -> None:
    """Write what the ticket's two answers are into their room: the probability, and what is made of it."""
    state[ROOM] = state[binary.ANSWERS]
    state[ROOM + 1] = state[binary.FORECAST]


@kernel_part
def weights_of(k: int) -> int:
    """Where the weights are in a state for k classes: behind that of `vector`."""
    return vector.size_for(k)


def room_size(k: int) -> int:
    """The length of the room behind the weights: two answers, and what each deserves."""
    return 2 * k + 2


def ticket_size(k: int) -> int:
    """The length of a ticket for k classes."""
    return shared_of(k) + k


def new_trusted_steering(k: int) -> Floats:
    """The state for k classes before the first round."""
    return np.concatenate([vector.new_vector_steering(k), [1.0 - TRUST, TRUST], np.zeros(room_size(k))])


def trusted_with_classes(state: Floats, before: int, k: int) -> Floats:
    """The state for `before` classes as one for k, the new ones at the end."""
    at = weights_of(before)
    return np.concatenate([vector.with_classes(state[:at], k), state[at : at + 2], np.zeros(room_size(k))])


def trusted_ticket_with_classes(ticket: Floats, before: int, k: int) -> Floats:
    """A ticket for `before` classes as one for k, to the new ones of which every answer gave nothing."""
    at = shared_of(before)
    return np.concatenate([vector.ticket_with_classes(ticket[:at], k), ticket[at:], np.zeros(k - before)])


@compiled
def ask_vector(state: Floats, ticket: Floats, row: Floats, out: Floats) -> None:
    """Write what is made of a model's row, shape (k,), and fill in its ticket."""
    k, shared = len(row), len(ticket) - len(row)
    vector.steer(state, k, row, out)
    for i in range(shared):
        ticket[i] = state[i]
    for c in range(k):
        ticket[shared + c] = out[c]
    write_vectors(state, ticket, k)
    weights = weights_of(k)
    asked = asked_for(state, account_of(k), state[shared + vector.ROUNDS], state[shared + vector.EVENTS])
    least = 0.5 * vector.LEAST / (k * (asked + 1.0))
    mix_vectors(state, weights + 2, weights, 2, k, least, out)


@compiled
def settle_vector(state: Floats, ticket: Floats, k: int, label: int, soft: Floats) -> None:
    """Learn what followed the row with this ticket: the number of a label, or -1 and a soft one, (k,)."""
    weights = weights_of(k)
    for i in range(shared_of(k)):
        state[i] = ticket[i]
    write_vectors(state, ticket, k)
    credit_vectors(state, weights + 2, weights + 2 + 2 * k, 2, k, label, soft)
    judged = vector.learn(state, k, label, soft)
    reweigh_by_credit(state, weights + 2 + 2 * k, weights, HALVES, judged, SHARED)


@kernel_part
def write_vectors(state: Any, ticket: Any, k: int) -> None:
    """Write a ticket's two answers into their room: the vector, and what steering made of it."""
    room = weights_of(k) + 2
    for c in range(k):
        state[room + c] = ticket[vector.ANSWERS + c]
        state[room + k + c] = ticket[shared_of(k) + c]


def check_steering(state: Floats, tickets: Floats) -> None:
    """ValueError unless the state, shape (SIZE,), and the tickets of open forecasts, (n, TICKET), can be."""
    require(state.shape == (SIZE,) and tickets.shape[1:] == (TICKET,), "the length of its steering")
    ends = state[[binary.LOWEST, binary.HIGHEST]]
    require(bool((np.abs(ends) <= FARTHEST).all()), "its steering's ends")
    p = tickets[:, binary.ANSWERS]
    require(bool(((p >= 0.0) & (p <= 1.0)).all()), "its open forecasts' steering")
    require(bool((np.abs(tickets[:, binary.STRETCHED]) < REACH).all()), "its open forecasts' steering")


def check_vector_steering(state: Floats, tickets: Floats, k: int) -> None:
    """ValueError unless the state for k classes and the tickets, (n, ticket_size(k)), can be."""
    start, at = shared_of(k), weights_of(k)
    require(state.shape == (at + 2 + room_size(k),), "the length of its steering")
    require(tickets.shape[1:] == (ticket_size(k),), "the length of its steering")
    own = slice(start + vector.SHARED, account_of(k))
    ends = state[own].reshape(k, vector.EACH)[:, [vector.LOWEST, vector.HIGHEST]]
    require(bool((np.abs(ends) < REACH).all()), "its steering's ends")
    # the answers, the vector itself first, half the stretched logits, what steering made of the vector
    rows = tickets[:, vector.ANSWERS :].reshape(-1, vector.N_ANSWERS + 2, k)
    p = rows[:, 0]
    require(bool(((p >= 0.0) & (p < 1.0 + ROUNDING)).all()), "its open forecasts' steering")
    require(bool((np.abs(rows[:, vector.N_ANSWERS]) < REACH).all()), "its open forecasts' steering")
