"""Steering of vectors that has to prove itself: never a fifth of a Brier score above the vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal.steering.trust import (
    ask_vector,
    check_vector_steering,
    new_trusted_steering,
    settle_vector,
    ticket_size,
    trusted_ticket_with_classes,
    trusted_with_classes,
    weights_of,
)
from tests.properties import examples

TO_RAW, TO_STEERED = 0.2, 2.4


def errors(rounds, k, known=None):
    """Brier scores of what came out, of the vectors and of steering, shape (T, 3); and the state.

    With `known` fewer classes the others are met when they have weight, or when they come. A label may be a
    distribution, too.
    """
    now = k if known is None else known
    state, found, eye = new_trusted_steering(now), [], np.eye(k)
    for t, (row, label) in enumerate(rounds):
        number, y = (-1, label) if isinstance(label, np.ndarray) else (label, eye[label])
        wanted = max([now, *(np.flatnonzero(row) + 1)])
        state, now = trusted_with_classes(state, now, wanted), wanted
        ticket, out = np.empty(ticket_size(now)), np.empty(now)
        ask_vector(state, ticket, np.ascontiguousarray(row[:now]), out)
        assert out.min() >= 0.25 / (now * (t + 2))
        assert abs(out.sum() - 1) < 1e-9
        told, steered = np.zeros((2, k))
        told[:now], steered[:now] = out, ticket[-now:]
        found.append([((one - y) ** 2).sum() for one in (told, row / row.sum(), steered)])
        wanted = max([now, *(np.flatnonzero(y) + 1)])
        if wanted > now:
            state = trusted_with_classes(state, now, wanted)
            ticket, now = trusted_ticket_with_classes(ticket, now, wanted), wanted
        settle_vector(state, ticket, now, number, y[:now].copy())
    return np.array(found), state, now


def check(rounds, k, known=None):
    found, state, now = errors(rounds, k, known)
    out, raw, steered = found.cumsum(axis=0).T
    assert (out <= raw + TO_RAW).all()
    assert (out <= steered + TO_STEERED).all()
    check_vector_steering(state, np.empty((0, ticket_size(now))), now)


@st.composite
def sequences(draw):
    k = draw(st.integers(1, 5))
    masses = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300]), min_size=k, max_size=k)
    soft = st.lists(st.integers(0, 4), min_size=k, max_size=k).filter(any).map(lambda w: np.array(w) / sum(w))
    rounds = draw(st.lists(st.tuples(masses, st.integers(0, k - 1) | soft), min_size=1, max_size=40))
    rows = [np.array(row) if sum(row) > 0 else np.ones(k) for row, _ in rounds]
    return [(row / row.sum(), label) for row, (_, label) in zip(rows, rounds, strict=True)], k


CORNERS = [(np.eye(3)[t % 3], (t + 1) % 3) for t in range(60)]
RUNS = [(np.full(3, 1 / 3), t // 20) for t in range(60)]


@settings(max_examples=examples(60), deadline=None)
@given(sequences(), st.booleans())
@example((CORNERS, 3), False)
@example((CORNERS, 3), True)
@example((RUNS, 3), False)
@example(([(np.eye(4)[0], t % 4) for t in range(60)], 4), True)
def test_never_a_fifth_above_the_vectors_on_any_sequence(sequence, discovered):
    rounds, k = sequence
    check(rounds, k, 1 if discovered else None)


@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
def test_on_long_streams_too_and_it_learns(power):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4), 3000)
    rows = truth**power / (truth**power).sum(1, keepdims=True)
    labels = np.minimum((truth.cumsum(1) < rng.random(3000)[:, None]).sum(1), 3)
    rounds = list(zip(rows, labels.tolist(), strict=True))
    check(rounds, 4)
    found, state, _ = errors(rounds, 4)
    if power != 1.0:
        assert found[:, 0].sum() < 0.97 * found[:, 1].sum()
        assert state[weights_of(4) + 1] > 0.99
