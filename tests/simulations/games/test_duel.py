"""A duel's compiled loop is the game that anyone can play by hand, bit for bit."""

from itertools import product

import numpy as np
import pytest
from numba.extending import register_jitable

import adversaries
from adversaries import Adversary, Kind, Phase
from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters import FosterForecaster
from onlinecal.forecasters.binary.cells import NO_HINT
from simulations.games import players
from simulations.games.duel import foresight, log_spaced, play

ROUNDS = 700


def play_by_hand(forecaster, adversary, rounds, hints=None):
    """Forecasts, outcomes and certificates, through forecast/observe and Adversary.outcome."""
    forecasts, outcomes, certificates = [], [], []
    for t in range(rounds):
        token = forecaster.forecast(None if hints is None else hints[t])
        rises = forecaster.rules.certificate_rises(forecaster.memory, *token.cell, token.probability, True)
        outcome = adversary.outcome(token.probability, *rises)
        forecaster.observe(token, outcome)
        forecasts.append(token.probability)
        outcomes.append(outcome)
        certificates.append(forecaster.certificate)
    return np.array(forecasts), np.array(outcomes), np.array(certificates)


@pytest.mark.parametrize(
    "spec, adversary_spec",
    [
        *product(
            ["sign", "balanced", "nested", "adaptive"],
            [
                "coin:bias=0.8",
                "certificate-greedy",
                "two-phase:first=markov,second=certificate-greedy,switch=301",
            ],
        ),
        *product(["balanced:slack=1,report=hint", "adaptive:report=hint", "sign:report=upper"], ["hints"]),
    ],
)
def test_duel_equals_playing_round_by_round_and_charged_points_are_the_look_ahead_of_a_replay(
    spec, adversary_spec
):
    player, hints = players.create(spec), None
    if adversary_spec == "hints":
        adversary_spec, hints = "coin:bias=0.8", np.random.default_rng(3).random(ROUNDS)
    by_hand, compiled, replayed = (player.build(ROUNDS, hinted=hints is not None) for _ in range(3))
    adversary = adversaries.create(adversary_spec, ROUNDS, seed=5)
    duel = play(compiled, adversary, ROUNDS, hints)
    forecasts, outcomes, certificates = play_by_hand(by_hand, adversary, ROUNDS, hints)
    assert np.array_equal(duel.forecasts, forecasts)
    assert np.array_equal(duel.outcomes, outcomes)
    assert np.array_equal(duel.certificates, certificates[duel.checkpoints - 1])
    assert compiled.certificate == by_hand.certificate
    assert compiled.predict_proba_one({}) == by_hand.predict_proba_one({})
    again, charged = replayed.replay(duel.outcomes, hints, return_look_ahead=True)
    assert np.array_equal(duel.forecasts, again)
    assert np.array_equal(duel.charged, charged)


def test_duel_goes_on_from_where_the_forecaster_stands_and_checkpoints_end_with_the_last_round():
    forecaster, adversary = AlmostOneStepAhead(grid="nested"), adversaries.create("coin", seed=1)
    play(forecaster, adversary, 100)
    duel = play(forecaster, adversary, 50)
    assert forecaster.n_rounds == 150
    assert duel.guarantees[-1] == forecaster.guarantee
    assert duel.certificates[-1] == forecaster.certificate
    for rounds, number in product((1, 2, 10, 12345), (1, 2, 50)):
        marks = log_spaced(rounds, number)
        assert (marks[0], marks[-1]) == (1, rounds)
        assert (np.diff(marks) > 0).all()


def test_duels_that_cannot_be_are_refused():
    coin, stream = adversaries.create("coin"), adversaries.replay_sequence([0, 1, 1]).adversary()
    with pytest.raises(ValueError, match=r"at most the 3 .* got 4"):
        play(AlmostOneStepAhead(horizon=4), stream, 4)
    for hints in ([0.5], [0.5, np.nan], [0.5, 1.5]):
        with pytest.raises(ValueError, match="hints must"):
            play(AlmostOneStepAhead(horizon=2, hints=True), coin, 2, np.array(hints))
    with pytest.raises(ValueError, match="make it with hints=True"):
        play(AlmostOneStepAhead(horizon=2), coin, 2, np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="draw must be one of hidden, seen, got 'shown'"):
        play(FosterForecaster(), coin, 10, draw="shown")


BASELINES = ["constant:at=0.3", "running-mean", "drift-corrected", "foster", "foster-hart", "foster-vohra",
             "linear-optimisation", "minimax", "two-choices"]  # fmt: skip


def in_the_interpreter(forecaster, adversary, rounds, draw, rises):
    """A duel on a list: forecasts, charged values, outcomes and the memory; `rises` tells the adversary."""
    rules = forecaster.rules
    memory = [*forecaster.memory.tolist(), *[0] * 4 * rounds * (forecaster.memory.dtype == np.int64)]
    draws = forecaster.draws(rounds).tolist()
    seen = draw == "seen" or not draws
    game = []
    for u in draws or [0.0] * rounds:
        a, b, forecast, shown = rules.announce(memory, NO_HINT, u)
        outcome = adversary.outcome(forecast if seen else shown, *rises(rules, memory, a, b, forecast, seen))
        game.append((forecast, rules.point(memory, a, b, outcome, forecast), outcome))
        rules.settle(memory, a, b, outcome, forecast)
    return (*np.array(game).T, memory)


def one_round(rules, memory, a, b, forecast, seen):
    return rules.certificate_rises(memory, a, b, forecast, seen)


def brute_force(depth):
    """What foresight must say: the certificates after all 2^depth sequences, each played on its own copy."""

    def rises(rules, memory, a, b, forecast, seen):
        now = rules.certificate_rises(memory, a, b, forecast, seen)
        if not seen:
            a, b, forecast, _ = rules.announce(memory, NO_HINT, 0.5)
        told = []
        for first in (0, 1):
            further = []
            for rest in adversaries.all_sequences(depth - 1).tolist() if depth > 1 else [[]]:
                copy = list(memory)
                rules.settle(copy, a, b, first, forecast)
                begin = rules.certificate(copy)
                for y in rest:
                    c, d, p, _ = rules.announce(copy, NO_HINT, 0.5)
                    rules.settle(copy, c, d, y, p)
                further.append(rules.certificate(copy) - begin)
            told.append(now[first] + max(further))
        return told

    return rises


def assert_same_duel(spec, adversary_spec, draw, rounds, rises):
    plain, compiled = (players.create(spec).build(rounds, seed=2) for _ in range(2))
    first, second = (adversaries.create(adversary_spec, rounds, seed=5) for _ in range(2))
    duel = play(compiled, first, rounds, draw=draw)
    *game, memory = in_the_interpreter(plain, second, rounds, draw, rises)
    for found, expected in zip((duel.forecasts, duel.charged, duel.outcomes), game, strict=True):
        assert found.tolist() == expected.tolist()
    assert duel.certificates[-1] == plain.rules.certificate(memory)


@pytest.mark.parametrize("draw", ["hidden", "seen"])
@pytest.mark.parametrize("adversary", ["certificate-greedy", "coin:bias=0.8", "threshold"])
@pytest.mark.parametrize("spec", BASELINES)
def test_a_baseline_plays_the_same_duel_in_the_interpreter(spec, adversary, draw):
    assert_same_duel(spec, adversary, draw, 150, one_round)


@register_jitable
def is_below_half(state, t, forecast, rise_zero, rise_one, u):
    return forecast < 0.5


def test_a_step_may_answer_with_a_truth_value():
    kind = Kind("below", "whether the forecast is below 1/2", "adaptive", "a test", step=is_below_half)
    theirs = Adversary("below", kind, [Phase(is_below_half, np.empty(0))])
    one, other = (AlmostOneStepAhead(horizon=50) for _ in range(2))
    expected = play(one, adversaries.create("threshold"), 50)
    assert play(other, theirs, 50).outcomes.tolist() == expected.outcomes.tolist()


def failing_step(state, t, forecast, rise_zero, rise_one, u):
    return int(1.0 / (3.0 - t))


def test_what_a_step_raises_in_a_compiled_loop_is_raised():
    kind = Kind("failing", "fails in round 3", "oblivious", "a test", step=failing_step)
    adversary = Adversary("failing", kind, [Phase(register_jitable(failing_step), np.empty(0))])
    play(AlmostOneStepAhead(horizon=3), adversary, 3)
    with pytest.raises(ZeroDivisionError):
        play(AlmostOneStepAhead(horizon=4), adversary, 4)


def test_draws_go_on_from_duel_to_duel_and_over_long_ones_whose_progress_is_told():
    adversary, told = adversaries.create("alternating"), []
    whole, parts = FosterForecaster(horizon=300_000), FosterForecaster(horizon=300_000)
    expected = play(whole, adversary, 300_000, progress=told.append).forecasts
    pieces = [play(parts, adversary, number).forecasts for number in (1_000, 299_000)]
    assert np.concatenate(pieces).tobytes() == expected.tobytes()
    assert sum(told) == 300_000
    assert len(told) > 1


def test_an_adversary_sees_the_draw_or_the_mean_of_the_draw():
    for draw in ("seen", "hidden"):
        duel = play(FosterForecaster(horizon=500), adversaries.create("threshold"), 500, draw=draw)
        assert np.array_equal(duel.outcomes, duel.forecasts < 0.5) == (draw == "seen")


AHEAD = ["balanced", "nested", "adaptive", "one-step-ahead", "running-mean", "foster", "minimax",
         "foster-hart", "linear-optimisation", "two-choices", "drift-corrected"]  # fmt: skip


@pytest.mark.parametrize("draw", ["hidden", "seen"])
@pytest.mark.parametrize("depth", [3, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (2, 6))])
@pytest.mark.parametrize("spec", AHEAD)
def test_look_ahead_is_the_best_of_all_continuations(spec, depth, draw):
    rounds = 60 if depth == 6 else 40
    assert_same_duel(spec, f"certificate-greedy:depth={depth}", draw, rounds, brute_force(depth))


def test_rounds_that_are_foreseen_may_halve_the_cells_of_a_nested_grid():
    forecaster = AlmostOneStepAhead(grid="nested")
    rules, cells = forecaster.rules, set()
    foresee = foresight(rules)
    for y in np.random.default_rng(1).integers(0, 2, 30):
        announced = rules.announce(forecaster.memory, NO_HINT, 0.5)[:3]
        expected = brute_force(4)(rules, [*forecaster.memory.tolist(), *[0] * 200], *announced, True)
        assert foresee(forecaster.memory, *announced, True, 4) == tuple(expected)
        forecaster.learn_one({}, int(y))
        cells.add(len(forecaster.look_ahead.points))
    assert cells == {3, 5, 9}
