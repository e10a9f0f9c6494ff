"""A duel's compiled loop is the game that anyone can play by hand, bit for bit."""

import numpy as np
import pytest

import adversaries
from onlinecal import AlmostOneStepAhead
from simulations import players
from simulations.duel import log_spaced, play

ROUNDS = 700


def play_by_hand(forecaster, adversary, rounds, hints=None):
    """Forecasts, outcomes and certificates, through forecast/observe and Adversary.outcome."""
    forecasts, outcomes, certificates = [], [], []
    for t in range(rounds):
        token = forecaster.forecast(None if hints is None else hints[t])
        rises = forecaster.rules.rises(forecaster.memory, *token.cell, token.probability, True)
        outcome = adversary.outcome(token.probability, *rises)
        forecaster.observe(token, outcome)
        forecasts.append(token.probability)
        outcomes.append(outcome)
        certificates.append(forecaster.certificate)
    return np.array(forecasts), np.array(outcomes), np.array(certificates)


def assert_same_game(spec, adversary_spec, hints=None):
    player = players.create(spec)
    by_hand, compiled = player.build(ROUNDS), player.build(ROUNDS)
    adversary = adversaries.create(adversary_spec, ROUNDS, seed=5)
    duel = play(compiled, adversary, ROUNDS, hints)
    forecasts, outcomes, certificates = play_by_hand(by_hand, adversary, ROUNDS, hints)
    assert np.array_equal(duel.forecasts, forecasts)
    assert np.array_equal(duel.outcomes, outcomes)
    assert np.array_equal(duel.certificates, certificates[duel.checkpoints - 1])
    assert compiled.certificate == by_hand.certificate
    assert compiled.predict_proba_one({}) == by_hand.predict_proba_one({})


@pytest.mark.parametrize("spec", ["sign", "balanced", "adaptive"])
@pytest.mark.parametrize(
    "adversary",
    ["coin:bias=0.8", "certificate-greedy", "two-phase:first=markov,second=certificate-greedy,switch=301"],
)
def test_duel_equals_playing_round_by_round(spec, adversary):
    assert_same_game(spec, adversary)


@pytest.mark.parametrize(
    "spec", ["balanced:slack=1,report=hint", "adaptive:report=hint", "sign:report=upper"]
)
def test_duel_with_hints_equals_playing_round_by_round(spec):
    hints = np.random.default_rng(3).random(ROUNDS)
    assert_same_game(spec, "coin:bias=0.8", hints)


def test_duel_on_a_grid_that_outgrows_its_memory_equals_playing_round_by_round():
    assert_same_game("nested", "coin:bias=0.8")


def test_charged_points_are_the_look_ahead_of_a_replay():
    duel = play(AlmostOneStepAhead(horizon=ROUNDS), adversaries.create("coin", seed=1), ROUNDS)
    forecasts, charged = AlmostOneStepAhead(horizon=ROUNDS).replay(duel.outcomes, return_look_ahead=True)
    assert np.array_equal(duel.forecasts, forecasts)
    assert np.array_equal(duel.charged, charged)


def test_duel_goes_on_from_where_the_forecaster_stands():
    forecaster = AlmostOneStepAhead(grid="nested")
    adversary = adversaries.create("coin", seed=1)
    play(forecaster, adversary, 100)
    duel = play(forecaster, adversary, 50)
    assert forecaster.n_rounds == 150
    assert duel.guarantees[-1] == forecaster.guarantee
    assert duel.certificates[-1] == forecaster.certificate


def test_progress_counts_every_round():
    told = []
    play(AlmostOneStepAhead(horizon=9), adversaries.create("coin"), 300_000, progress=told.append)
    assert sum(told) == 300_000
    assert len(told) > 1


def test_duel_refuses_more_rounds_than_a_stream_has():
    stream = adversaries.replay_sequence([0, 1, 1])
    with pytest.raises(ValueError, match=r"at most the 3 .* got 4"):
        play(AlmostOneStepAhead(horizon=4), stream.adversary(), 4)


@pytest.mark.parametrize("hints", [[0.5], [0.5, np.nan], [0.5, 1.5]])
def test_duel_refuses_hints_that_are_none(hints):
    with pytest.raises(ValueError, match="hints must"):
        play(AlmostOneStepAhead(horizon=2), adversaries.create("coin"), 2, np.array(hints))


@pytest.mark.parametrize("rounds", [1, 2, 10, 12345])
def test_checkpoints_are_distinct_and_end_with_the_last_round(rounds):
    marks = log_spaced(rounds, 50)
    assert marks[0] == 1
    assert marks[-1] == rounds
    assert (np.diff(marks) > 0).all()
