"""Whether a state of `trust` or `vector_trust` that came from outside, say a ledger, can be gone on with.

Compiled code looks at no bounds: knots and bins are places in a state that follow from these fields.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.forecasters.binary.soundness import require
from onlinecal.steering import vector
from onlinecal.steering.binary import ANSWERS, HIGHEST, LOWEST, STRETCHED, TICKET
from onlinecal.steering.curves import REACH
from onlinecal.steering.trust import SIZE
from onlinecal.steering.vector_trust import room_size, ticket_size, weights_of

FARTHEST = 746.0
"""No logit of a float in (0, 1) is farther from 0."""
ROUNDING = 1e-6


def check_steering(state: Floats, tickets: Floats) -> None:
    """ValueError unless the state, shape (SIZE,), and the tickets of open forecasts, (n, TICKET), can be."""
    require(state.shape == (SIZE,) and tickets.shape[1:] == (TICKET,), "the length of its steering")
    ends = state[[LOWEST, HIGHEST]]
    require(bool((np.abs(ends) <= FARTHEST).all()), "its steering's ends")
    p = tickets[:, ANSWERS]
    require(bool(((p >= 0.0) & (p <= 1.0)).all()), "its open forecasts' steering")
    require(bool((np.abs(tickets[:, STRETCHED]) < REACH).all()), "its open forecasts' steering")


def check_vector_steering(state: Floats, tickets: Floats, k: int) -> None:
    """ValueError unless the state for k classes and the tickets, (n, ticket_size(k)), can be."""
    start, at = vector.shared_of(k), weights_of(k)
    require(state.shape == (at + 2 + room_size(k),), "the length of its steering")
    require(tickets.shape[1:] == (ticket_size(k),), "the length of its steering")
    own = slice(start + vector.SHARED, vector.account_of(k))
    ends = state[own].reshape(k, vector.EACH)[:, [vector.LOWEST, vector.HIGHEST]]
    require(bool((np.abs(ends) < REACH).all()), "its steering's ends")
    # the answers, the vector itself first, half the stretched logits, what steering made of the vector
    rows = tickets[:, vector.ANSWERS :].reshape(-1, vector.N_ANSWERS + 2, k)
    p = rows[:, 0]
    require(bool(((p >= 0.0) & (p < 1.0 + ROUNDING)).all()), "its open forecasts' steering")
    require(bool((np.abs(rows[:, vector.N_ANSWERS]) < REACH).all()), "its open forecasts' steering")
