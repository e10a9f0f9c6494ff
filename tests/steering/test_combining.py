"""Several models mixed: never far behind the best, in the rounds in which it speaks, in time and late."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.steering import combining
from onlinecal.steering.replaying import Schedule
from tests.properties import examples

SILENT = math.nan


def play(rows, answer, delay=0):
    """Squared errors (T, N + 2) of the models steered, of the tracking mixture and of what came out.

    NaN where a model is silent. `answer(c, t)` is the outcome; it is known before `delay` + 1 further
    forecasts are made.
    """
    rows = np.asarray(rows, float)
    total, n = rows.shape
    state, found = combining.new_combining(n), []
    tickets, outcomes, size = [], [], combining.ticket_size(n)
    for t, row in enumerate(rows):
        c = combining.ask(state, row)
        assert 0.0 < c < 1.0
        assert c == state[combining.ANSWER]
        y = answer(c, t)
        told = [
            *np.where(np.isnan(row), np.nan, state[combining.ANSWERS : combining.ANSWERS + n]),
            state[combining.ANSWERS + n + 1],
            c,
        ]
        found.append((np.array(told) - y) ** 2)
        tickets.append(state[:size].copy())
        outcomes.append(y)
        for due in [t - delay] if t < total - 1 else range(max(t - delay, 0), total):
            if due >= 0:
                state[:size] = tickets[due]
                combining.settle(state, n, outcomes[due])
    assert state[size + combining.MOST_LATE] == min(delay, total - 1)
    return np.array(found)


def check(found, delay=0):
    """Theorem 17g, 1 to 3, after every round."""
    n = found.shape[1] - 2
    for i in range(n):
        spoke = ~np.isnan(found[:, i])
        ahead = (found[spoke, -1] - found[spoke, i]).cumsum()
        assert (ahead <= combining.regret_bound(0.1 / n, delay) + 1e-9).all()
    someone = ~np.isnan(found[:, :n]).all(axis=1)
    ahead = (found[someone, -1] - found[someone, -2]).cumsum()
    assert (ahead <= combining.regret_bound(0.9, delay) + 1e-9).all()


def best_sequence(losses, changes):
    """The least sum of a sequence of models that speak and that changes at most so often."""
    losses = np.where(np.isnan(losses), np.inf, losses)
    best = np.tile(losses[0], (changes + 1, 1))
    for row in losses[1:]:
        before = np.concatenate([[np.inf], best.min(axis=1)[:-1]])
        best = np.minimum(best, before[:, None]) + row
    return best.min(axis=1)


PATTERNS = [
    [(0.0, 1.0)] * 8,
    [(0.0, 1.0), (1.0, 0.0)] * 4,
    [(0.5, 1.0), (SILENT, 0.2), (0.9, SILENT), (SILENT, SILENT)] * 2,
    [(0.3, 0.3)] * 8,
]


@pytest.mark.parametrize("rows", PATTERNS)
@pytest.mark.parametrize("delay", [0, 2])
def test_never_far_behind_a_model_on_any_short_sequence(rows, delay):
    for outcomes in itertools.product((0, 1), repeat=8):
        check(play(rows, lambda _, t, outcomes=outcomes: outcomes[t], delay), delay)


def spoken(number):
    return st.lists(
        st.lists(
            st.just(SILENT) | st.sampled_from([0.0, 1.0]) | st.floats(0, 1), min_size=number, max_size=number
        ),
        min_size=1,
        max_size=60,
    )


ANSWERING = {
    "against it": lambda c, t: int(c < 0.5),
    "half way": lambda c, t: int(t > 20),
    "in runs": lambda c, t: t // 7 % 2,
}


@settings(max_examples=examples(40), deadline=None)
@given(spoken(3), st.sampled_from(sorted(ANSWERING)), st.integers(0, 5))
def test_nor_on_others_with_delays_against_those_who_answer_it(rows, how, delay):
    check(play(rows, ANSWERING[how], delay), delay)


@pytest.mark.parametrize("how", sorted(ANSWERING))
@pytest.mark.parametrize("changes", [0, 1, 3])
def test_it_follows_the_best_sequence_of_models(how, changes):
    rng = np.random.default_rng(changes)
    rows = rng.choice([0.02, 0.98, SILENT], (400, 3), p=[0.4, 0.4, 0.2])
    rows[np.isnan(rows).all(axis=1), 0] = 0.5
    rows[:, 0] = np.where(np.isnan(rows[:, 0]), 0.5, rows[:, 0])
    found = play(rows, ANSWERING[how])
    rounds, n = found.shape[0], 3
    bound = 0.5 * math.log(20 * n / 9) + 0.5 * math.log(1 + rounds / 99)
    bound += changes / 2 * math.log(2 * n * (rounds + 100))
    assert found[:, -1].sum() <= best_sequence(found[:, :n], changes)[changes] + bound


@pytest.mark.parametrize("delay", [1, 4, 20])
def test_the_bound_for_late_outcomes_holds_where_they_come_in_runs_of_that_length(delay):
    """Runs as long as the delay, of which each is known when it is over."""
    check(play([(0.0, 1.0)] * 400, lambda c, t: int(t // (delay + 1) % 2 == 0), delay), delay)


def test_steered_models_do_not_see_each_other():
    rng = np.random.default_rng(0)
    p, y = rng.random(300), rng.integers(0, 2, 300, np.uint8)
    schedule = Schedule(np.arange(300), np.arange(1, 301), np.ones(300, bool))
    both = [
        combining.combined(combining.new_combining(2), np.column_stack([p, q]), y, schedule)
        for q in (p, rng.random(300))
    ]
    (_, steered, weights), (_, beside_another, _) = both
    assert np.array_equal(steered[:, 0], beside_another[:, 0])
    assert np.array_equal(steered[:, 0], steered[:, 1])
    assert np.allclose(weights.sum(axis=1), 1.0)


def test_compiled_and_interpreted_play_agree_to_the_bit():
    rng = np.random.default_rng(1)
    rows = rng.choice([0.0, 0.2, 0.7, 1.0, SILENT], (120, 3))
    outcomes = rng.integers(0, 2, 120)
    compiled, interpreted = combining.new_combining(3), combining.new_combining(3)
    for row, y in zip(rows, outcomes.tolist(), strict=True):
        assert combining.ask(compiled, row) == combining.advise(interpreted, row)
        combining.settle(compiled, 3, y)
        combining.take_in(interpreted, 3, y)
    assert np.array_equal(compiled, interpreted)


def test_a_silent_model_keeps_its_weight_however_well_the_others_do():
    state, n = combining.new_combining(3), 3
    weights = slice(combining.ticket_size(n) + combining.WEIGHTS, combining.losses_at(n))
    for _ in range(30):
        before = state[weights][2]
        combining.ask(state, np.array([0.95, 0.9, np.nan]))
        combining.settle(state, n, 1)
        # all that it can lose is its part of what is shared
        assert state[weights][2] > 0.95 * before
