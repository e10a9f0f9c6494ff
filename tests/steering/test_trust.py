"""Steering that has to prove itself: never a tenth of a squared error above the probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal.steering.binary import FORECAST, ROUNDS, TICKET
from onlinecal.steering.trust import SIZE, WEIGHTS, ask, check_steering, new_steering, settle
from tests.properties import examples

TO_RAW, TO_STEERED = 0.1, 1.2


def errors(rounds):
    """Squared errors of what came out, of the probabilities and of steering, shape (T, 3); and the state."""
    state, ticket, found = new_steering(), np.empty(TICKET), []
    for t, (p, y) in enumerate(rounds):
        out = ask(state, ticket, p)
        least = 0.125 / (t + 2)
        assert least <= out <= 1 - least
        found.append([(out - y) ** 2, (p - y) ** 2, (ticket[FORECAST] - y) ** 2])
        settle(state, ticket, y)
    return np.array(found), state


def check(rounds):
    found, state = errors(rounds)
    out, raw, steered = found.cumsum(axis=0).T
    assert (out <= raw + TO_RAW).all()
    assert (out <= steered + TO_STEERED).all()
    check_steering(state, np.empty((0, TICKET)))
    assert state[ROUNDS] == len(rounds)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1) | st.floats(0, 1)), min_size=1, max_size=60))
@example([(0.0, 0), (1.0, 1)] * 40)
@example([(1.0, 0), (0.0, 1)] * 40)
@example([(0.5, 1)] * 60 + [(0.5, 0)] * 60)
def test_never_a_tenth_above_the_probabilities_on_any_sequence(rounds):
    check(rounds)


@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
def test_on_long_streams_too_and_it_learns(power):
    rng = np.random.default_rng(0)
    truth = rng.random(4000)
    p = truth**power / (truth**power + (1 - truth) ** power)
    y = (rng.random(4000) < truth).astype(int)
    check(list(zip(p.tolist(), y.tolist(), strict=True)))
    found, state = errors(list(zip(p.tolist(), y.tolist(), strict=True)))
    if power != 1.0:
        assert found[:, 0].sum() < 0.97 * found[:, 1].sum()
        assert state[WEIGHTS + 1] > 0.99
    assert state.shape == (SIZE,)
