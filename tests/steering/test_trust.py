"""Steering that has to prove itself: never a tenth of a squared error above the probabilities, or vectors."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal.compiling import compiled
from onlinecal.steering import trust
from onlinecal.steering.binary import EVENTS, FORECAST, LATENESS, ROUNDS, TICKET
from onlinecal.steering.lateness import asked_for
from onlinecal.steering.vector import size_for
from tests.properties import examples

ask, settle = compiled(trust.advise), compiled(trust.take_in)
TO_RAW, TO_STEERED = 0.1, 1.2
"""Of squared errors; of Brier scores, in which each error counts twice, it is the double."""


def errors(rounds):
    """Squared errors of what came out, of the probabilities and of steering, shape (T, 3); and the state."""
    state, ticket, found = trust.new_steering(), np.empty(TICKET), []
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
    trust.check_steering(state, np.empty((0, TICKET)))
    assert state[ROUNDS] == len(rounds)
    return found, state


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
    found, state = check(list(zip(p.tolist(), y.tolist(), strict=True)))
    if power != 1.0:
        assert found[:, 0].sum() < 0.97 * found[:, 1].sum()
        assert state[trust.WEIGHTS + 1] > 0.99
    assert state.shape == (trust.SIZE,)


def brier_scores(rounds, k, known=None):
    """Brier scores of what came out, of the vectors and of steering, shape (T, 3); and the state.

    With `known` fewer classes the others are met when they have weight, or when they come. A label may be a
    distribution, too.
    """
    now = k if known is None else known
    state, found, eye = trust.new_trusted_steering(now), [], np.eye(k)
    for t, (row, label) in enumerate(rounds):
        y = label if isinstance(label, np.ndarray) else eye[label]
        wanted = max([now, *(np.flatnonzero(row) + 1)])
        state, now = trust.trusted_with_classes(state, wanted), wanted
        ticket, out = np.empty(trust.ticket_size(now)), np.empty(now)
        trust.ask_vector(state, ticket, np.ascontiguousarray(row[:now]), out)
        assert out.min() >= 0.25 / (now * (t + 2))
        assert abs(out.sum() - 1) < 1e-9
        told, steered = np.zeros((2, k))
        told[:now], steered[:now] = out, ticket[-now:]
        found.append([((one - y) ** 2).sum() for one in (told, row / row.sum(), steered)])
        wanted = max([now, *(np.flatnonzero(y) + 1)])
        if wanted > now:
            state = trust.trusted_with_classes(state, wanted)
            ticket, now = trust.trusted_ticket_with_classes(ticket, now, wanted), wanted
        trust.settle_vector(state, ticket, y[:now].copy())
    return np.array(found), state, now


def check_vectors(rounds, k, known=None):
    found, state, now = brier_scores(rounds, k, known)
    out, raw, steered = found.cumsum(axis=0).T
    assert (out <= raw + 2 * TO_RAW).all()
    assert (out <= steered + 2 * TO_STEERED).all()
    trust.check_vector_steering(state, np.empty((0, trust.ticket_size(now))), now)
    return found, state


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
    check_vectors(rounds, k, 1 if discovered else None)


@pytest.mark.parametrize("power", [0.3, 1.0, 3.0])
def test_vectors_on_long_streams_too(power):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4), 3000)
    rows = truth**power / (truth**power).sum(1, keepdims=True)
    labels = np.minimum((truth.cumsum(1) < rng.random(3000)[:, None]).sum(1), 3)
    rounds = list(zip(rows, labels.tolist(), strict=True))
    found, state = check_vectors(rounds, 4)
    if power != 1.0:
        assert found[:, 0].sum() < 0.97 * found[:, 1].sum()
        assert state[size_for(4) + 1] > 0.99


def test_forecasts_are_counted_when_they_are_asked_for_also_where_labels_are_late():
    state, tickets = trust.new_steering(), np.empty((5, TICKET))
    for n, ticket in enumerate(tickets, 1):
        ask(state, ticket, 0.5)
        assert asked_for(state, LATENESS, state[ROUNDS], state[EVENTS]) == n
    for ticket in tickets:
        settle(state, ticket, 1.0)
        assert asked_for(state, LATENESS, state[ROUNDS], state[EVENTS]) == 5
