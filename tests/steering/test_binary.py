"""Steering keeps its bounds, buckets pay, and a long stream stays small."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.steering import binary
from onlinecal.steering.binary import ANSWERS, CURVES, N_ANSWERS, TICKET, WEIGHTS, new_steering
from onlinecal.steering.curves import FREE_LENGTH, N_FEATURES, N_KNOTS, SMOOTH_LENGTH
from onlinecal.steering.mixing import mixed_answer, pooled_loss
from tests.properties import examples

PROBABILITIES = st.floats(0, 1)


def play(rounds):
    """What is made of probabilities, shape (T,), each before its outcome is learnt, and the seven answers."""
    state, found, answers = new_steering(), [], []
    for p, outcome in rounds:
        found.append(binary.ALONE.hint_of(state, p))
        answers.append(state[ANSWERS : ANSWERS + N_ANSWERS].copy())
        binary.ALONE.learn_outcome(state, int(outcome))
    return np.array(found), np.array(answers).reshape(-1, N_ANSWERS)


def hints(p, y):
    """What is made of forecasts, shape (T,)."""
    return play(list(zip(p.tolist(), y.tolist(), strict=True)))[0]


def best_with_changes(answers, price):
    """The least sum of squared errors of any sequence of answers, with a price for every change."""
    totals = np.array([0.0] + [math.log(7.0) / 2.0] * (N_ANSWERS - 1))
    for losses in answers:
        totals = np.minimum(totals, totals.min() + price) + losses
    return totals.min()


def check_regret(rounds):
    count, outcomes = len(rounds), np.array([outcome for _, outcome in rounds])
    mixed, answers = play(rounds)
    mixed, answers = (mixed - outcomes) ** 2, (answers - outcomes[:, None]) ** 2
    allowed = math.log(count + 6.0) + math.log(1.0 + count / 99.0) / 2.0 - 1.0
    assert mixed.sum() <= answers[:, 0].sum() + allowed
    assert mixed.sum() <= best_with_changes(answers, math.log(67.0 * (count + 100.0)) / 2.0) + allowed


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.integers(0, 1)), min_size=1, max_size=120))
def test_regret_to_the_best_answer_on_every_sequence(rounds):
    check_regret(rounds)


@pytest.mark.parametrize("changes", [0, 1, 5])
def test_regret_on_worlds_that_change(changes):
    rng, rounds = np.random.default_rng(changes), []
    for t in range(4000):
        p = rng.random()
        truth = p if p < 0.7 else 0.3
        rounds.append((p, int((rng.random() < truth) ^ (t * (changes + 1) // 4000 % 2))))
    check_regret(rounds)


@pytest.mark.parametrize("seed", range(3))
def test_regret_against_an_opponent_who_plays_on_the_mixture(seed):
    """Each outcome is the one that costs what came out more than the probability itself."""
    rng = np.random.default_rng(seed)
    state, rounds = new_steering(), []
    for _ in range(3000):
        p = float(rng.choice([0.2, 0.5, 0.9]))
        mixed = binary.ALONE.hint_of(state, p)
        outcome = max((0, 1), key=lambda y: (mixed - y) ** 2 - (p - y) ** 2)
        binary.ALONE.learn_outcome(state, outcome)
        rounds.append((p, outcome))
    check_regret(rounds)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(PROBABILITIES, min_size=5, max_size=5), st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=5)
)
def test_no_outcome_costs_a_mixture_more_than_the_pooled_loss(answers, weights):
    state = [*answers, *(weight / sum(weights) for weight in weights)]
    answer = mixed_answer(state, 0, 5, 5)
    assert 0.0 <= answer <= 1.0
    for outcome in (0, 1):
        assert (answer - outcome) ** 2 <= pooled_loss(state, 0, 5, 5, outcome) + 1e-12


EXTREME = (0.0, 1.0, 5e-324, 1e-300, 1e-17, 0.5, 1.0 - 2.0**-53, math.nan, -3.0, 7.0)


@pytest.mark.parametrize("kind", ["random", "opposite", "agreeing"])
def test_curves_stay_sane_whatever_comes(kind):
    """Covariances stay between 0 and those of the prior, what comes out is never surer than it may be."""
    rng = np.random.default_rng(0)
    state = new_steering()
    for t in range(5_000):
        p = EXTREME[rng.integers(len(EXTREME))] if t % 2 else rng.random()
        outcome = {"random": t % 3 == 0, "opposite": p < 0.5, "agreeing": p > 0.5}[kind]
        hint = binary.ALONE.hint_of(state, p)
        assert 0.25 / (t + 2.0) <= hint <= 1.0 - 0.25 / (t + 2.0)
        binary.ALONE.learn_outcome(state, int(outcome))
        if t % 500 == 499:
            assert np.isfinite(state).all()
            assert state[WEIGHTS : WEIGHTS + N_ANSWERS].sum() == pytest.approx(1.0)
            for at in (CURVES, CURVES + SMOOTH_LENGTH + FREE_LENGTH):
                covariance = state[at + N_FEATURES : at + SMOOTH_LENGTH].reshape(N_FEATURES, N_FEATURES)
                for part in (covariance, np.eye(N_FEATURES) - covariance):
                    assert np.linalg.eigvalsh((part + part.T) / 2.0).min() > -1e-9
                variances = state[at + SMOOTH_LENGTH + N_KNOTS : at + SMOOTH_LENGTH + FREE_LENGTH]
                assert ((variances > 0.0) & (variances <= 1.0)).all()


def log_loss(p, y):
    return -np.log(np.maximum(np.where(y, p, 1.0 - p), 1e-15)).mean()


@pytest.mark.parametrize("kind", ["even", "sure", "rare"])
def test_next_to_nothing_is_lost_where_nothing_can_be_gained(kind):
    """Forecasts that are the truth: within 1 % of their Brier score and of their log loss."""
    rng = np.random.default_rng(3)
    logit = {"even": 1.5, "sure": 4.0, "rare": 1.2}[kind] * rng.normal(size=40_000) - 6.0 * (kind == "rare")
    p = 1.0 / (1.0 + np.exp(-logit))
    y = rng.random(40_000) < p
    q = hints(p, y)
    assert ((q - y) ** 2).mean() <= 1.01 * ((p - y) ** 2).mean()
    assert log_loss(q, y) <= 1.01 * log_loss(p, y)


def test_the_ranking_of_saturated_forecasts_is_kept():
    """All forecasts are below 1e-13, and how far below says nearly all there is to say."""
    rng = np.random.default_rng(4)
    depth = rng.uniform(30.0, 700.0, 5000)
    truth = 1.0 / (1.0 + (depth / 120.0) ** 3)
    y = rng.random(5000) < truth
    q = hints(np.exp(-depth), y)
    best, constant = ((truth - y) ** 2).mean(), y.mean() * (1.0 - y.mean())
    assert best + 0.1 * (constant - best) >= ((q - y) ** 2).mean()


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_a_model_too_sure_or_too_timid_is_put_right_on_a_short_stream(factor):
    """In 300 rounds at least seven tenths of what the true temperature would gain in log loss."""
    gained, possible = 0.0, 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        logit = 2.0 * rng.normal(size=300)
        truth = 1.0 / (1.0 + np.exp(-logit))
        y = rng.random(300) < truth
        p = 1.0 / (1.0 + np.exp(-logit * factor))
        gained += log_loss(p, y) - log_loss(hints(p, y), y)
        possible += log_loss(p, y) - log_loss(truth, y)
    assert gained >= 0.7 * possible


@pytest.mark.parametrize(("biased", "allowed"), [(0.0, 1.04), (0.7, 0.97)])
def test_a_match_whose_rows_wait_for_one_outcome_is_one_observation(biased, allowed):
    """300 matches of 50 rows, labelled together at the end: honest rows stay, biased ones are put right."""
    rng = np.random.default_rng(5)
    state, own, model = new_steering(), 0.0, 0.0
    for _ in range(300):
        start = rng.normal(0.0, 0.8)
        outcome = int(rng.random() < 1.0 / (1.0 + math.exp(-start)))
        # log odds given a Brownian motion that drifts with the outcome
        steps = (2 * outcome - 1) * 0.01 + math.sqrt(0.02) * rng.normal(size=50)
        tickets = []
        for p in (1.0 / (1.0 + np.exp(-(start + np.cumsum(steps) + biased)))).tolist():
            own += (binary.ALONE.hint_of(state, p) - outcome) ** 2
            model += (p - outcome) ** 2
            tickets.append(state[:TICKET].copy())
        for ticket in tickets:
            state[:TICKET] = ticket
            binary.ALONE.learn_outcome(state, outcome)
    assert own <= allowed * model


def test_the_ends_of_the_curves_are_the_farthest_logits_that_came():
    state, probabilities = new_steering(), [0.3, 1e-7, 0.999, 1e-5, 1.0 - 1e-9, 0.0, 1.0]
    for p in probabilities:
        binary.ALONE.hint_of(state, p)
        binary.ALONE.learn_outcome(state, 0)
    assert state[binary.LOWEST] == pytest.approx(math.log(1e-7 / (1.0 - 1e-7)), rel=1e-6)
    assert state[binary.HIGHEST] == pytest.approx(math.log((1.0 - 1e-9) / 1e-9), rel=1e-6)
