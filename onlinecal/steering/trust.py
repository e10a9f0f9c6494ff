"""Steering that is trusted as far as it has proved itself, for streams that may be short.

Vovk's aggregating algorithm mixes a probability once more with what steering makes of it (`binary`; for
vectors `vector`). At first steering has a tenth of the weight. With outcomes in time the sum of squared
errors exceeds that of the probabilities themselves by less than 1/10, whatever comes, and that of steering by
less than 6/5 (docs/theory.md, Theorem 17d). So streams on which steering gains nothing hardly pay for its
learning. For Brier scores of vectors, sums over the classes, the bounds are 1/5 and 12/5 (Theorem 17f).

A state is that of `binary`, followed by two answers and their weights; FORECAST of its ticket holds what
steering made of the probability. A state for k classes is that of `vector`, followed by two weights. Its
ticket is that of `vector`, followed by what steering made of the vector.

A question is `advise` (`ask_vector`), which fills in a ticket that the caller keeps. Its outcome is `take_in`
(`settle_vector`), with that ticket. Both write the state; what lies at its front between two calls, where
`binary` has the ticket, is not read again. The engine alone uses this module, and keeps states and tickets in
ledgers, so whoever changes a field raises STATE_FORMAT. TRUST and WEIGHT_GIVEN_OUT are part of the answers.

The checks of states that came from outside, as from a ledger, are here, too: compiled code does not check
bounds, and these fields determine which knots and bins of a state it reads and writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part
from onlinecal.compiling.instructions import copy
from onlinecal.forecasters.binary.cells import clip
from onlinecal.layout import Layout
from onlinecal.restoring import require
from onlinecal.steering import binary, mixing, vector
from onlinecal.steering.binary import TICKET
from onlinecal.steering.curves import REACH
from onlinecal.steering.lateness import asked_for
from onlinecal.steering.vector import account_of, shared_of, size_for

STATE = Layout(binary.SIZE)
"""The part of a state behind that of `binary`."""
BOTH_ANSWERS = STATE.field("a probability, and what steering made of it", "probability", 2)
WEIGHTS = STATE.field("how much each of them is trusted", "weight", 2)
SIZE = STATE.end
TRUST = 0.1
"""The weight of steering at first."""
WEIGHT_GIVEN_OUT = 1e-9
"""The share of the weights that each round gives out anew, so that none is ever 0."""
LARGEST_FLOAT_LOGIT = 746.0
"""No logit of a float in (0, 1) is farther from 0."""
ROW_SUM_ROUNDING = 1e-6
"""Rounding may lift the sum of a row above 1 by this."""


def new_steering() -> Floats:
    """The state before the first round."""
    return np.concatenate([binary.new_steering(), [0.0, 0.0, 1.0 - TRUST, TRUST]])


@kernel_part
def advise(state: Any, ticket: Any, raw: float) -> float:
    """The answer to a model's probability (NaN counts as 1/2); fills in its ticket, shape (TICKET,)."""
    p = binary.within(raw)
    state[binary.FORECAST] = binary.steer(state, p)
    for i in range(TICKET):
        ticket[i] = state[i]
    state[BOTH_ANSWERS], state[BOTH_ANSWERS + 1] = p, state[binary.FORECAST]
    asked = asked_for(state, binary.LATENESS, state[binary.ROUNDS], state[binary.EVENTS])
    least = 0.5 * binary.LEAST_DISTANCE / (asked + 1.0)
    return clip(mixing.mixed_answer(state, BOTH_ANSWERS, WEIGHTS, 2), least, 1.0 - least)


@kernel_part
def take_in(state: Any, ticket: Any, outcome: float) -> None:
    """Learn the outcome, in [0, 1], of the probability with this ticket."""
    for i in range(TICKET):
        state[i] = ticket[i]
    state[BOTH_ANSWERS], state[BOTH_ANSWERS + 1] = state[binary.ANSWERS], state[binary.FORECAST]
    judged = binary.learn(state, outcome)
    mixing.reweigh(
        state, BOTH_ANSWERS, WEIGHTS, mixing.HALVES, outcome, mixing.ETA * judged, WEIGHT_GIVEN_OUT
    )


def ticket_size(k: int) -> int:
    """The length of a ticket for k classes."""
    return shared_of(k) + k


def new_trusted_steering(k: int) -> Floats:
    """The state for k classes before the first round."""
    return np.concatenate([vector.new_vector_steering(k), [1.0 - TRUST, TRUST]])


def trusted_with_classes(state: Floats, k: int) -> Floats:
    """The state for fewer classes as one for k, the new ones at the end."""
    return np.concatenate([vector.with_classes(state[:-2], k), state[-2:]])


def trusted_ticket_with_classes(ticket: Floats, before: int, k: int) -> Floats:
    """A ticket for `before` classes as one for k; all its answers give the new classes nothing."""
    at = shared_of(before)
    return np.concatenate([vector.ticket_with_classes(ticket[:at], k), ticket[at:], np.zeros(k - before)])


@compiled
def ask_vector(state: Floats, ticket: Floats, row: Floats, out: Floats) -> None:
    """Write the answer to a model's row, shape (k,), and fill in its ticket."""
    k, shared = len(row), shared_of(len(row))
    vector.steer(state, k, row, out)
    copy(state, 0, ticket, 0, shared)
    copy(out, 0, ticket, shared, k)
    asked = asked_for(state, account_of(k), state[shared + vector.ROUNDS], state[shared + vector.EVENTS])
    least = 0.5 * vector.LEAST_PROBABILITY / (k * (asked + 1.0))
    mixing.mix_vectors(two_answers(state, ticket, k), 4, 0, 2, k, least, out)


@compiled
def settle_vector(state: Floats, ticket: Floats, outcome: Floats) -> None:
    """Learn the outcome of the row with this ticket, a distribution over the classes, shape (k,)."""
    k, shared = len(outcome), shared_of(len(outcome))
    copy(ticket, 0, state, 0, shared)
    both = two_answers(state, ticket, k)
    mixing.credit_vectors(both, 4, 2, 2, k, outcome)
    judged = vector.learn(state, k, outcome)
    mixing.reweigh_by_credit(both, 2, 0, mixing.HALVES, judged, WEIGHT_GIVEN_OUT)
    copy(both, 0, state, size_for(k), 2)


@kernel_part
def two_answers(state: Any, ticket: Any, k: int) -> Any:
    """An array with the two weights, room for two credits, the ticket's vector and the steered vector."""
    both = np.empty(4 + 2 * k)
    copy(state, size_for(k), both, 0, 2)
    copy(ticket, vector.ANSWERS, both, 4, k)
    copy(ticket, shared_of(k), both, 4 + k, k)
    return both


def _is_within(values: Floats, low: float, high: float) -> bool:
    return bool(((values >= low) & (values <= high)).all())


def check_steering(state: Floats, tickets: Floats) -> None:
    """ValueError unless the state, shape (SIZE,), and the tickets of open forecasts, (n, TICKET), can be."""
    require(state.shape == (SIZE,) and tickets.shape[1:] == (TICKET,), "the length of its steering")
    ends = state[[binary.LOWEST, binary.HIGHEST]]
    require(_is_within(ends, -LARGEST_FLOAT_LOGIT, LARGEST_FLOAT_LOGIT), "its steering's ends")
    waiting = "its open forecasts' steering"
    require(_is_within(tickets[:, binary.ANSWERS], 0.0, 1.0), waiting)
    require(_is_within(tickets[:, binary.STRETCHED], -REACH, REACH), waiting)


def check_vector_steering(state: Floats, tickets: Floats, k: int) -> None:
    """ValueError unless the state for k classes and the tickets, (n, ticket_size(k)), can be."""
    shape = size_for(k) + 2, ticket_size(k)
    require((*state.shape, *tickets.shape[1:]) == shape, "the length of its steering")
    own = state[shared_of(k) + vector.SHARED_LENGTH : account_of(k)].reshape(k, vector.EACH_LENGTH)
    ends = own[:, [vector.LOWEST, vector.HIGHEST]]
    require(_is_within(ends, -REACH, REACH), "its steering's ends")
    # rows of a ticket: the answers, the vector itself first; half the stretched logits; the steered vector
    rows = tickets[:, vector.ANSWERS :].reshape(-1, vector.N_ANSWERS + 2, k)
    waiting = "its open forecasts' steering"
    require(_is_within(rows[:, 0], 0.0, 1.0 + ROW_SUM_ROUNDING), waiting)
    require(_is_within(rows[:, vector.N_ANSWERS], -REACH, REACH), waiting)
