"""Steering of vectors keeps its bound, learns what there is to learn, and grows with its classes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.recalibration.flooring import project_rows
from onlinecal.steering import vector
from onlinecal.steering.mixing import mix_vectors
from tests.properties import examples

MASSES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 1e-300]))


def asked(state, row):
    out = np.empty(len(row))
    vector.hint(state, np.asarray(row, float), out)
    return out


def hints(rows, labels, known=None):
    """What is made of rows, shape (T, k); the label of row t is learnt before row known[t] is asked about."""
    count, k = rows.shape
    known = np.arange(count) + 1 if known is None else known
    state, found, tickets, learnt = vector.new_vector_steering(k), np.empty(rows.shape), [], 0
    for t, row in enumerate(rows):
        while known[learnt] <= t:
            state[: vector.shared_of(k)] = tickets[learnt]
            vector.learn_label(state, int(labels[learnt]))
            learnt += 1
        found[t] = asked(state, row)
        tickets.append(state[: vector.shared_of(k)].copy())
    return found


def softmax_rows(logits):
    rows = np.exp(logits - logits.max(1, keepdims=True))
    return rows / rows.sum(1, keepdims=True)


def brier(q, labels):
    return ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1)


def log_loss(q, labels):
    return -np.log(q[np.arange(len(labels)), labels])


def drawn(rows, rng):
    return np.minimum((rows.cumsum(1) < rng.random(len(rows))[:, None]).sum(1), rows.shape[1] - 1)


def check_regret(losses, answers):
    """Brier scores of what came out, shape (T,), and of the answers, shape (T, 7), as Theorem 17e says."""
    count = len(losses)
    allowed = math.log(count) + 1.1
    assert losses.sum() <= answers[:, 0].sum() + allowed
    totals = np.array([0.0] + [math.log(6.0)] * (vector.N_ANSWERS - 1))
    for each in answers:
        totals = np.minimum(totals, totals.min() + math.log(12.0 * count)) + each
    assert losses.sum() <= totals.min() + allowed


def play(k, count, row_of, label_of):
    """Losses of the mixture and of its answers, where the label may depend on what was announced."""
    state, eye = vector.new_vector_steering(k), np.eye(k)
    losses, answers = np.empty(count), np.empty((count, vector.N_ANSWERS))
    for t in range(count):
        said = asked(state, row_of(t))
        given_ = state[vector.ANSWERS :][: vector.N_ANSWERS * k].reshape(vector.N_ANSWERS, k).copy()
        label = label_of(t, said, given_)
        losses[t] = ((said - eye[label]) ** 2).sum()
        answers[t] = ((given_ - eye[label]) ** 2).sum(1)
        vector.learn_label(state, label)
    return losses, answers


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 5), st.data())
def test_regret_to_the_best_answer_on_every_sequence(k, data):
    row = st.lists(MASSES, min_size=k, max_size=k)
    rounds = data.draw(st.lists(st.tuples(row, st.integers(0, k - 1)), min_size=1, max_size=40))
    check_regret(*play(k, len(rounds), lambda t: rounds[t][0], lambda t, *_: rounds[t][1]))


@pytest.mark.parametrize("against", range(0, vector.N_ANSWERS, 2))
def test_regret_against_an_opponent_who_plays_on_an_answer(against):
    """Each label is the one that costs what came out most, compared with one of the answers."""
    rng, k = np.random.default_rng(against), 3
    rows = rng.dirichlet(np.full(k, 0.5), 1500)

    def worst(t, said, given_):
        excess = [((said - e) ** 2).sum() - ((given_[against] - e) ** 2).sum() for e in np.eye(k)]
        return int(np.argmax(excess))

    check_regret(*play(k, len(rows), rows.__getitem__, worst))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(2, 6), st.data())
def test_no_label_costs_a_mixture_more_than_the_pooled_loss(k, data):
    n = 4
    masses = data.draw(st.lists(st.lists(MASSES, min_size=k, max_size=k), min_size=n, max_size=n))
    answers = np.array(masses) + 1e-12
    answers /= answers.sum(1, keepdims=True)
    weights = np.array(data.draw(st.lists(st.floats(1e-9, 1.0), min_size=n, max_size=n)))
    weights /= weights.sum()
    out = np.empty(k)
    mix_vectors([*answers.ravel(), *weights], 0, n * k, n, k, 0.0, out)
    pooled = -np.log(weights @ np.exp(-((answers[:, None] - np.eye(k)) ** 2).sum(2)))
    assert out.min() >= 0.0
    assert out.sum() == pytest.approx(1.0)
    assert (((out - np.eye(k)) ** 2).sum(1) <= pooled + 1e-12).all()
    assert out == pytest.approx(project_rows(-pooled[None] / 2.0)[0], abs=1e-12)


EXTREME = (0.0, 1.0, 5e-324, 1e-300, 0.5, 1.0 - 2.0**-53, math.nan, -3.0, 7.0, math.inf)


@pytest.mark.parametrize("kind", ["random", "opposite", "agreeing"])
def test_curves_stay_sane_whatever_comes(kind):
    rng, k = np.random.default_rng(0), 4
    state = vector.new_vector_steering(k)
    for t in range(6000):
        row = rng.choice(EXTREME, k) if t % 2 else rng.dirichlet(np.full(k, 0.1))
        said = asked(state, row)
        assert said.sum() == pytest.approx(1.0, abs=1e-12)
        assert said.min() >= 0.5 / (k * (t + 2.0)) * (1.0 - 1e-9)
        first = state[vector.ANSWERS : vector.ANSWERS + k]
        label = {"random": t % k, "opposite": first.argmin(), "agreeing": first.argmax()}[kind]
        vector.learn_label(state, int(label))
    assert np.isfinite(state).all()
    shared = vector.shared_of(k)
    assert state[shared + vector.WEIGHTS : shared + vector.WEIGHTS + vector.N_ANSWERS].sum() == pytest.approx(
        1.0
    )
    for c in range(k):
        at = shared + vector.SHARED_LENGTH + c * vector.EACH_LENGTH + vector.OWN_SMOOTH + 4
        covariance = state[at : at + 16].reshape(4, 4)
        assert np.linalg.eigvalsh((covariance + covariance.T) / 2.0).min() > -1e-9


@pytest.mark.parametrize(
    ("k", "count", "late", "share"),
    [(3, 8000, 0, 0.005), (10, 8000, 0, 0.005), (3, 3000, 30, 0.01), (3, 3000, 300, 0.01)],
)
def test_next_to_nothing_is_lost_where_nothing_can_be_gained(k, count, late, share):
    """Forecasts that are the truth: within so small a share of their Brier score and of their log loss."""
    rng = np.random.default_rng(k + late)
    rows = softmax_rows(rng.normal(0.0, 3.0, (count, k))) if late else rng.dirichlet(np.full(k, 0.5), count)
    labels = drawn(rows, rng)
    q = hints(rows, labels, np.arange(count) + late + 1)
    assert brier(q, labels).mean() <= (1 + share) * brier(rows, labels).mean()
    assert log_loss(q, labels).mean() <= (1 + share) * log_loss(np.maximum(rows, 1e-15), labels).mean()


POWERS = {
    "too sure": 2.5,
    "too shy": 0.3,
    "one class too rare": 1.0,
    "a power for each class": np.array([0.4, 0.8, 1.5, 3.0]),
}


@pytest.mark.parametrize("kind", POWERS)
def test_what_can_be_put_right_is_put_right(kind):
    """Of what the truth has ahead of the model, nine tenths are won in 8000 rounds, learning included."""
    rng, k = np.random.default_rng(1), 4
    truth = rng.dirichlet(np.full(k, 0.7), 8000) + 1e-9
    truth /= truth.sum(1, keepdims=True)
    rows = truth ** POWERS[kind] * (np.array([0.1, 1, 1, 1]) if "rare" in kind else 1.0)
    rows /= rows.sum(1, keepdims=True)
    labels = drawn(truth, rng)
    own, best, model = (brier(q, labels).mean() for q in (hints(rows, labels), truth, rows))
    assert own - best <= 0.1 * (model - best)


@pytest.mark.parametrize(
    ("count", "known", "first", "won"),
    [
        # a seventh, or half, of what could be won is lost by the delay
        (3000, np.arange(3000) + 31, 0, 0.95 * 0.9),
        (3000, np.arange(3000) + 301, 0, 0.5 * 0.9),
        # labels of their own that come together count each
        (1000, (np.arange(1000) // 50 + 1) * 50, 500, 0.9),
    ],
    ids=["30 late", "300 late", "batches"],
)
def test_it_is_put_right_by_late_labels_too(count, known, first, won):
    rng = np.random.default_rng(3)
    truth = softmax_rows(rng.normal(0.0, 3.0, (count, 3)))
    wrong, labels = softmax_rows(0.5 * np.log(truth)), drawn(truth, rng)
    own, raw, best = (brier(q, labels)[first:].mean() for q in (hints(wrong, labels, known), wrong, truth))
    assert raw - own > won * (raw - best)


def test_classes_that_come_later_change_nothing_before():
    rng = np.random.default_rng(3)
    fresh = vector.new_vector_steering(4)
    assert np.array_equal(
        vector.with_classes(vector.new_vector_steering(2), 4)[vector.shared_of(4) :],
        fresh[vector.shared_of(4) :],
    )
    state = vector.new_vector_steering(3)
    rows = rng.dirichlet(np.ones(3), 500)
    for row, label in zip(rows, drawn(rows, rng).tolist(), strict=True):
        asked(state, row)
        vector.learn_label(state, label)
    row = np.array([0.2, 0.5, 0.3])
    before = asked(state, row)
    ticket = state[: vector.shared_of(3)].copy()
    grown = vector.with_classes(state, 5)
    assert np.array_equal(grown[: vector.shared_of(5)], vector.ticket_with_classes(ticket, 5))
    # the label of the open round may be one that it did not know
    vector.learn_label(grown, 4)
    after = asked(grown, [*row, 0.0, 0.0])
    assert np.abs(after[:3] - before).max() < 0.1
    assert after[4] < 0.1
