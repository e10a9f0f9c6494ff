"""Steering of vectors keeps its bound, learns what there is to learn, and grows with its classes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.recalibration.flooring import project_rows
from onlinecal.steering.mixing import mix_vectors
from onlinecal.steering.vector import (
    ANSWERS,
    EACH,
    N_ANSWERS,
    OWN_SMOOTH,
    SHARED,
    WEIGHTS,
    classes_of,
    new_vector_steering,
    shared_of,
    ticket_with_classes,
    vector_steering,
    with_classes,
)
from onlinecal.wrappers.strategies.strategy import SteeredVectors
from tests.properties import examples

STEERING = vector_steering()
MASSES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 1e-300]))


def asked(state, row):
    out = np.empty(len(row))
    STEERING.hint(state, np.asarray(row, float), out)
    return out


def answers_of(state, k):
    return state[ANSWERS : ANSWERS + N_ANSWERS * k].reshape(N_ANSWERS, k).copy()


def hints(rows, labels):
    """What is made of rows, shape (T, k), each before its label is learnt."""
    state, found = new_vector_steering(rows.shape[1]), np.empty(rows.shape)
    for t, (row, label) in enumerate(zip(rows, labels.tolist(), strict=True)):
        found[t] = asked(state, row)
        STEERING.learn(state, label)
    return found


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
    totals = np.array([0.0] + [math.log(6.0)] * (N_ANSWERS - 1))
    for each in answers:
        totals = np.minimum(totals, totals.min() + math.log(12.0 * count)) + each
    assert losses.sum() <= totals.min() + allowed


def play(k, count, row_of, label_of):
    """Losses of the mixture and of its answers, where the label may depend on what was announced."""
    state, eye = new_vector_steering(k), np.eye(k)
    losses, answers = np.empty(count), np.empty((count, N_ANSWERS))
    for t in range(count):
        hint = asked(state, row_of(t))
        given_ = answers_of(state, k)
        label = label_of(t, hint, given_)
        losses[t] = ((hint - eye[label]) ** 2).sum()
        answers[t] = ((given_ - eye[label]) ** 2).sum(1)
        STEERING.learn(state, label)
    return losses, answers


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 5), st.data())
def test_regret_to_the_best_answer_on_every_sequence(k, data):
    row = st.lists(MASSES, min_size=k, max_size=k)
    rounds = data.draw(st.lists(st.tuples(row, st.integers(0, k - 1)), min_size=1, max_size=40))
    check_regret(*play(k, len(rounds), lambda t: rounds[t][0], lambda t, *_: rounds[t][1]))


@pytest.mark.parametrize("against", range(N_ANSWERS))
def test_regret_against_an_opponent_who_plays_on_an_answer(against):
    """Each label is the one that costs what came out most, compared with one of the answers."""
    rng, k = np.random.default_rng(against), 3
    rows = rng.dirichlet(np.full(k, 0.5), 1500)

    def worst(t, hint, given_):
        excess = [((hint - e) ** 2).sum() - ((given_[against] - e) ** 2).sum() for e in np.eye(k)]
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


def test_a_mixture_at_a_greater_rate_would_break_the_bound():
    """What the test above says is not idle: at the rate 1.1 some answers have no mixture."""
    answers, rate = np.array([[0.6, 0.4], [0.4, 0.6]]), 1.1
    pooled = -np.log(0.5 * np.exp(-rate * ((answers[:, None] - np.eye(2)) ** 2).sum(2)).sum(0)) / rate
    # by symmetry the middle would be best, and it costs 1/2
    assert pooled.max() < 0.5 - 1e-4


EXTREME = (0.0, 1.0, 5e-324, 1e-300, 0.5, 1.0 - 2.0**-53, math.nan, -3.0, 7.0, math.inf)


@pytest.mark.parametrize("kind", ["random", "opposite", "agreeing"])
def test_curves_stay_sane_whatever_comes(kind):
    rng, k = np.random.default_rng(0), 4
    state = new_vector_steering(k)
    for t in range(6000):
        row = rng.choice(EXTREME, k) if t % 2 else rng.dirichlet(np.full(k, 0.1))
        hint = asked(state, row)
        assert hint.sum() == pytest.approx(1.0, abs=1e-12)
        assert hint.min() >= 0.5 / (k * (t + 2.0)) * (1.0 - 1e-9)
        first = state[ANSWERS : ANSWERS + k]
        label = {"random": t % k, "opposite": first.argmin(), "agreeing": first.argmax()}[kind]
        STEERING.learn(state, int(label))
    assert np.isfinite(state).all()
    shared = shared_of(k)
    assert state[shared + WEIGHTS : shared + WEIGHTS + N_ANSWERS].sum() == pytest.approx(1.0)
    for c in range(k):
        at = shared + SHARED + c * EACH + OWN_SMOOTH + 4
        covariance = state[at : at + 16].reshape(4, 4)
        assert np.linalg.eigvalsh((covariance + covariance.T) / 2.0).min() > -1e-9


@pytest.mark.parametrize("k", [3, 10])
def test_next_to_nothing_is_lost_where_nothing_can_be_gained(k):
    """Forecasts that are the truth: within .5 % of their Brier score and of their log loss."""
    rng = np.random.default_rng(k)
    rows = rng.dirichlet(np.full(k, 0.5), 8000)
    labels = drawn(rows, rng)
    q = hints(rows, labels)
    assert brier(q, labels).mean() <= 1.005 * brier(rows, labels).mean()
    assert log_loss(q, labels).mean() <= 1.005 * log_loss(np.maximum(rows, 1e-15), labels).mean()


@pytest.mark.parametrize("kind", ["too sure", "too shy", "one class too rare", "a power for each class"])
def test_what_can_be_put_right_is_put_right(kind):
    """Of what the truth has ahead of the model, nine tenths are won in 8000 rounds, learning included."""
    rng, k = np.random.default_rng(1), 4
    truth = rng.dirichlet(np.full(k, 0.7), 8000) + 1e-9
    truth /= truth.sum(1, keepdims=True)
    powers = {
        "too sure": 2.5,
        "too shy": 0.3,
        "one class too rare": 1.0,
        "a power for each class": np.array([0.4, 0.8, 1.5, 3.0]),
    }
    rows = truth ** powers[kind] * (np.array([0.1, 1, 1, 1]) if "rare" in kind else 1.0)
    rows /= rows.sum(1, keepdims=True)
    labels = drawn(truth, rng)
    own, best, model = (brier(q, labels).mean() for q in (hints(rows, labels), truth, rows))
    assert own - best <= 0.1 * (model - best)


def test_the_names_of_the_classes_do_not_matter():
    rng = np.random.default_rng(2)
    rows, order = rng.dirichlet(np.full(5, 0.3), 1000), rng.permutation(5)
    labels = drawn(rows**2 / (rows**2).sum(1, keepdims=True), rng)
    there = hints(np.ascontiguousarray(rows[:, order]), np.argsort(order)[labels])
    # the curve that all classes share learns from them one after the other
    assert np.abs(there - hints(rows, labels)[:, order]).max() < 0.02


def test_classes_that_come_later_change_nothing_before():
    rng = np.random.default_rng(3)
    fresh = new_vector_steering(4)
    assert np.array_equal(with_classes(new_vector_steering(2), 4)[shared_of(4) :], fresh[shared_of(4) :])
    state = new_vector_steering(3)
    rows = rng.dirichlet(np.ones(3), 500)
    for row, label in zip(rows, drawn(rows, rng).tolist(), strict=True):
        asked(state, row)
        STEERING.learn(state, label)
    row = np.array([0.2, 0.5, 0.3])
    before = asked(state, row)
    ticket = state[: shared_of(3)].copy()
    grown = with_classes(state, 5)
    assert classes_of(grown) == 5
    assert np.array_equal(grown[: shared_of(5)], ticket_with_classes(ticket, 5))
    # the label of the open round may be one that it did not know
    STEERING.learn(grown, 4)
    after = asked(grown, [*row, 0.0, 0.0])
    assert np.abs(after[:3] - before).max() < 0.1
    assert after[4] < 0.1


@pytest.mark.parametrize("late", [0, 1, 40])
def test_late_labels_and_labels_that_appear_on_the_way(late):
    rng, names = np.random.default_rng(4), "abcdef"
    vectors, waiting, losses = SteeredVectors(), [], []
    for t in range(1200):
        known = names[: 2 + t // 300]
        truth = rng.dirichlet(np.full(len(known), 0.5))
        said = np.sqrt(truth) / np.sqrt(truth).sum()
        hint = vectors.ask(dict(zip(known, said.tolist(), strict=True)), list(known))
        assert sum(hint.values()) == pytest.approx(1.0)
        label = str(rng.choice(list(known), p=truth))
        losses.append(
            [
                sum((p - (k == label)) ** 2 for k, p in one.items())
                for one in (hint, dict(zip(known, said.tolist(), strict=True)))
            ]
        )
        waiting.append((vectors.ticket(), label))
        if len(waiting) > late:
            ticket, label = waiting.pop(0)
            vectors.present(ticket)
            vectors.learn(label)
    own, model = np.array(losses)[300:].mean(0)
    assert own < model
    assert list(vectors.numbers) == list(names[:5])


def late_hints(rows, labels, known):
    """What is made of rows, shape (T, k), where the label of row t is known before row known[t] is asked."""
    k = rows.shape[1]
    state, found, ticket = new_vector_steering(k), np.empty(rows.shape), shared_of(k)
    tickets, learnt = [], 0
    for t, row in enumerate(rows):
        while known[learnt] <= t:
            state[:ticket] = tickets[learnt]
            STEERING.learn(state, int(labels[learnt]))
            learnt += 1
        found[t] = asked(state, row)
        tickets.append(state[:ticket].copy())
    return found


@pytest.mark.parametrize("late", [30, 300])
def test_a_true_model_loses_next_to_nothing_by_late_labels_and_a_wrong_one_is_put_right(late):
    rng = np.random.default_rng(late)
    truth = softmax_rows(rng.normal(0.0, 3.0, (3000, 3)))
    labels, known = drawn(truth, rng), np.arange(3000) + late + 1
    assert log_loss(late_hints(truth, labels, known), labels).mean() < 1.01 * log_loss(truth, labels).mean()
    wrong = softmax_rows(0.5 * np.log(truth))
    own, raw, best = (brier(q, labels).mean() for q in (late_hints(wrong, labels, known), wrong, truth))
    # a seventh, or half, of what could be won is lost by the delay
    assert raw - own > (1.0 - late / 600) * 0.9 * (raw - best)


def test_rare_classes_may_be_as_rare_as_the_forecasts_that_are_open_allow():
    rows = np.tile([0.999, 0.0005, 0.0005], (2000, 1))
    found = late_hints(rows, np.zeros(2000, int), np.full(2000, 9999))
    assert found[1999, 1] < 0.01


def softmax_rows(logits):
    rows = np.exp(logits - logits.max(1, keepdims=True))
    return rows / rows.sum(1, keepdims=True)


def in_batches(rows, labels, size):
    """What is made of rows whose labels are known when a batch of so many is complete."""
    return late_hints(rows, labels, (np.arange(len(rows)) // size + 1) * size)


def test_labels_of_one_match_are_one_observation():
    rng, rows, labels = np.random.default_rng(0), [], []
    for _ in range(100):
        # logits on their way to those that the outcome is drawn from
        rows.append(softmax_rows(rng.normal(0.0, 0.6, 3) + rng.normal(0.0, 0.2, (50, 3)).cumsum(0)))
        labels += drawn(rows[-1][-1:], rng).tolist() * 50
    told, y = np.concatenate(rows), np.array(labels)
    assert brier(in_batches(told, y, 50), y).mean() < 1.01 * brier(told, y).mean()


def test_labels_of_their_own_that_come_together_count_each():
    rng = np.random.default_rng(3)
    truth = softmax_rows(rng.normal(0.0, 3.0, (1000, 3)))
    wrong = softmax_rows(0.5 * np.log(truth))
    labels = drawn(truth, rng)
    own, raw, best = (brier(q, labels)[500:].mean() for q in (in_batches(wrong, labels, 50), wrong, truth))
    assert raw - own > 0.9 * (raw - best)


def test_a_label_that_is_not_asked_about_again_leaves_its_share_to_the_others():
    vectors = SteeredVectors()
    vectors.ask({"a": 0.2, "b": 0.3, "c": 0.5}, ["a", "b", "c"])
    hint = vectors.ask({"a": 0.4, "b": 0.6}, ["a", "b"])
    assert list(hint) == ["a", "b"]
    assert sum(hint.values()) == pytest.approx(1.0)
    assert vectors.ask({}, ["a", "b"]) == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.1)
