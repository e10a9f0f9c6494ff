"""Steering of vectors that is trusted as far as it has proved itself: `trust`, for several classes.

What steering makes of a vector (`vector`) is mixed with the vector itself by Vovk's aggregating algorithm
once more, at first with a tenth of the weight, and no part of the result is below 1/(4kn), where n counts
the forecasts asked for so far. With labels in time the sum of Brier scores (squared errors, a sum over the
classes) exceeds that of the vectors themselves by less than 1/5, whatever comes and however many classes
there are, and that of steering by less than 12/5 (docs/theory.md, Theorem 17f): twice what `trust`
guarantees, since with two classes each error counts twice.

A state for k classes is that of `vector`, with two weights behind it, and room for two answers, k
probabilities each, and for what these deserve. A ticket is that of `vector` with what steering made of the
vector behind it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part
from onlinecal.steering.lateness import asked_for
from onlinecal.steering.mixing import HALVES, credit_vectors, mix_vectors, reweigh_by_credit
from onlinecal.steering.trust import SHARED as SHARED_WEIGHT
from onlinecal.steering.trust import TRUST
from onlinecal.steering.vector import (
    ANSWERS,
    EVENTS,
    LEAST,
    ROUNDS,
    account_of,
    learn,
    new_vector_steering,
    shared_of,
    size_for,
    steer,
    ticket_with_classes,
    with_classes,
)


@kernel_part
def weights_of(k: int) -> int:
    """Where the weights are in a state for k classes: behind that of `vector`."""
    return size_for(k)


def room_size(k: int) -> int:
    """The length of the room behind the weights: two answers, and what each deserves."""
    return 2 * k + 2


def ticket_size(k: int) -> int:
    """The length of a ticket for k classes."""
    return shared_of(k) + k


def new_trusted_steering(k: int) -> Floats:
    """The state for k classes before the first round."""
    return np.concatenate([new_vector_steering(k), [1.0 - TRUST, TRUST], np.zeros(room_size(k))])


def trusted_with_classes(state: Floats, before: int, k: int) -> Floats:
    """The state for `before` classes as one for k, the new ones at the end."""
    at = weights_of(before)
    return np.concatenate([with_classes(state[:at], k), state[at : at + 2], np.zeros(room_size(k))])


def trusted_ticket_with_classes(ticket: Floats, before: int, k: int) -> Floats:
    """A ticket for `before` classes as one for k, to the new ones of which every answer gave nothing."""
    at = shared_of(before)
    return np.concatenate([ticket_with_classes(ticket[:at], k), ticket[at:], np.zeros(k - before)])


@compiled
def ask(state: Floats, ticket: Floats, row: Floats, out: Floats) -> None:
    """Write what is made of a model's row, shape (k,), and fill in its ticket."""
    k, shared = len(row), len(ticket) - len(row)
    steer(state, k, row, out)
    for i in range(shared):
        ticket[i] = state[i]
    for c in range(k):
        ticket[shared + c] = out[c]
    write_answers(state, ticket, k)
    weights = weights_of(k)
    asked = asked_for(state, account_of(k), state[shared + ROUNDS], state[shared + EVENTS])
    least = 0.5 * LEAST / (k * (asked + 1.0))
    mix_vectors(state, weights + 2, weights, 2, k, least, out)


@compiled
def settle(state: Floats, ticket: Floats, k: int, label: int, soft: Floats) -> None:
    """Learn what followed the row with this ticket: the number of a label, or -1 and a soft one, (k,)."""
    weights = weights_of(k)
    for i in range(shared_of(k)):
        state[i] = ticket[i]
    write_answers(state, ticket, k)
    credit_vectors(state, weights + 2, weights + 2 + 2 * k, 2, k, label, soft)
    judged = learn(state, k, label, soft)
    reweigh_by_credit(state, weights + 2 + 2 * k, weights, HALVES, judged, SHARED_WEIGHT)


@kernel_part
def write_answers(state: Any, ticket: Any, k: int) -> None:
    """Write a ticket's two answers into their room: the vector, and what steering made of it."""
    room = weights_of(k) + 2
    for c in range(k):
        state[room + c] = ticket[ANSWERS + c]
        state[room + k + c] = ticket[shared_of(k) + c]
