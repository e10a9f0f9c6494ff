"""A duel's compiled loop is the game that anyone can play by hand, bit for bit, also of many classes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numba.extending import register_jitable

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, adversaries
from onlinecal.adversaries import Adversary, Kind, Phase
from onlinecal.forecasters import FosterForecaster
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import DONE
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine.memory import LIMIT, certificate, enlarged
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW
from onlinecal.simulations.games import duel as duel_module
from onlinecal.simulations.games import players
from onlinecal.simulations.games.duel import log_spaced, play
from onlinecal.simulations.games.players import MULTICLASS_CATALOGUE, MulticlassBaseline, create_player

ROUNDS = 700


def play_by_hand(forecaster, adversary, rounds, hints=None, rises=lambda *_: (None,)):
    """Forecasts, outcomes and certificates, through forecast/observe and Adversary.outcome."""
    forecasts, outcomes, certificates = [], [], []
    for t in range(rounds):
        token = forecaster.forecast(None if hints is None else hints[t])
        forecasts.append(token.vector if hasattr(token, "vector") else token.probability)
        outcomes.append(adversary.outcome(forecasts[-1], *rises(forecaster, token)))
        forecaster.observe(token, outcomes[-1])
        certificates.append(forecaster.certificate)
    return np.array(forecasts), outcomes, np.array(certificates)


def rises_of_two(forecaster, token):
    return forecaster._rules.certificate_rises(forecaster.memory, *token.cell, token.probability, True)


@pytest.mark.parametrize(
    "spec, adversary_spec",
    [
        *product(
            ["paper", "balanced", "nested", "adaptive"],
            [
                "coin:bias=0.8",
                "certificate-greedy",
                "two-phase:first=markov,second=certificate-greedy,switch=301",
            ],
        ),
        *product(["balanced:slack=1,report=hint", "adaptive:report=hint", "paper:report=upper"], ["hints"]),
    ],
)
def test_duel_equals_playing_by_round_and_charges_the_look_ahead(spec, adversary_spec):
    player, hints = players.create(spec), None
    if adversary_spec == "hints":
        adversary_spec, hints = "coin:bias=0.8", np.random.default_rng(3).random(ROUNDS)
    by_hand, compiled, replayed = (player.build(ROUNDS, hinted=hints is not None) for _ in range(3))
    adversary = adversaries.create(adversary_spec, ROUNDS, seed=5)
    duel = play(compiled, adversary, ROUNDS, hints=hints)
    forecasts, outcomes, certificates = play_by_hand(by_hand, adversary, ROUNDS, hints, rises_of_two)
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
    labels, blind = adversaries.replay_labels([0, 1, 2]).adversary(), AlmostOneStepAhead(horizon=2)
    for forecaster, adversary, rounds, hints, words in (
        (AlmostOneStepAhead(horizon=4), stream, 4, None, r"at most the 3 .* got 4"),
        (MulticlassBaseline(3), labels, 4, None, "at most the 3 that labels has, got 4"),
        (
            MulticlassBaseline(3),
            labels,
            3,
            np.full((3, 2), 0.5),
            r"hints must have the shape \(3, 3\), got \(3, 2\)",
        ),
        (blind, coin, 2, np.array([0.5]), "hints must"),
        (blind, coin, 2, np.array([0.5, np.nan]), "hints must"),
        (blind, coin, 2, np.array([0.5, 1.5]), "hints must"),
        (blind, coin, 2, np.array([0.5, 0.5]), "make it with hints=True"),
    ):
        with pytest.raises(ValueError, match=words):
            play(forecaster, adversary, rounds, hints=hints)
    with pytest.raises(ValueError, match=r"rounds must be a whole number of at least 1, got 2\.5"):
        play(AlmostOneStepAhead(horizon=4), coin, 2.5)
    with pytest.raises(ValueError, match="n_checkpoints must be a whole number of at least 1, got 0"):
        play(AlmostOneStepAhead(horizon=4), coin, 2, n_checkpoints=0)
    with pytest.raises(ValueError, match="draw must be one of hidden, seen, got 'shown'"):
        play(FosterForecaster(), coin, 10, draw="shown")


BASELINES = ["constant:at=0.3", "running-mean", "drift-corrected", "foster", "foster-hart", "foster-vohra",
             "linear-optimisation", "minimax", "two-choices"]  # fmt: skip


def in_the_interpreter(forecaster, adversary, rounds, draw, rises):
    """A duel on a list: forecasts, charged values, outcomes and the memory; `rises` tells the adversary."""
    rules = forecaster._rules
    memory = [*forecaster.memory.tolist(), *[0] * 4 * rounds * (forecaster.memory.dtype == np.int64)]
    draws = forecaster._draws(rounds).tolist()
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
    assert duel.certificates[-1] == plain._rules.certificate(memory)


@pytest.mark.parametrize("draw", ["hidden", "seen"])
@pytest.mark.parametrize("adversary", ["certificate-greedy", "coin:bias=0.8", "threshold"])
@pytest.mark.parametrize("spec", BASELINES)
def test_a_baseline_plays_the_same_duel_interpreted(spec, adversary, draw):
    assert_same_duel(spec, adversary, draw, 150, one_round)


@register_jitable
def is_below_half(state, t, forecast, rise_zero, rise_one, u):
    return forecast < 0.5 / (1 - t // 50)


def test_a_step_may_answer_with_a_truth_value_and_what_it_raises_in_a_compiled_loop_is_raised():
    kind = Kind("below", "whether the forecast is below 1/2", "adaptive", "a test", step=is_below_half)
    below = Adversary("below", kind, [Phase(is_below_half, np.empty(0))])
    one, other = (AlmostOneStepAhead(horizon=50) for _ in range(2))
    expected = play(one, adversaries.create("threshold"), 50)
    assert play(other, below, 50).outcomes.tolist() == expected.outcomes.tolist()
    with pytest.raises(ZeroDivisionError):
        play(AlmostOneStepAhead(horizon=51), below, 51)


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


AHEAD = ["balanced", "adaptive", "foster"]
"""A fixed grid, one that is refined, and draws: each is a loop of its own to compile."""
OTHERS_AHEAD = ["running-mean", "minimax", "nested", "one-step-ahead", "foster-hart", "linear-optimisation",
                "two-choices", "drift-corrected"]  # fmt: skip


@pytest.mark.parametrize("draw", ["hidden", "seen"])
@pytest.mark.parametrize("depth", [3, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (2, 6))])
@pytest.mark.parametrize(
    "spec", [*AHEAD, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS_AHEAD)]
)
def test_look_ahead_is_the_best_of_all_continuations(spec, depth, draw):
    rounds = 60 if depth == 6 else 40
    assert_same_duel(spec, f"certificate-greedy:depth={depth}", draw, rounds, brute_force(depth))


def rises_of_several(forecaster, _token):
    """What each outcome would do to the certificate, by trying it on a copy of the memory."""
    answer = []
    for outcome in range(forecaster.n_classes):
        memory = enlarged(forecaster.memory)
        memory[LIMIT] = FOREVER
        before = certificate(memory)
        assert machine.advance(memory, NO_WINDOW, outcome, 1) == DONE
        answer.append(certificate(memory) - before)
    return (answer,)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize(
    "settings",
    [
        {"horizon": 300},
        {"n_cells": 7},
        {},
        {"horizon": 300, "hints": True},
        {"slack": 1.5, "report": "barycentre", "hints": True},
        {"slack": 1.5, "report": "hint", "hints": True},
    ],
)
@pytest.mark.parametrize("spec", ["two-phase:first=dirichlet-drift,second=least-likely", "target-sweep"])
def test_a_duel_is_bit_equal_to_playing_by_hand(k, settings, spec):
    duelling, forecaster, again = (SimplexAlmostOneStepAhead(k, **settings) for _ in range(3))
    hints = np.random.default_rng(k).dirichlet(np.ones(k), 300) if "hints" in settings else None
    adversary = adversaries.create_multiclass(spec, k, 300, seed=2)
    duel = play(duelling._new_run(), adversary, 300, hints=hints)
    forecasts, outcomes, certificates = play_by_hand(forecaster, adversary, 300, hints)
    assert np.array_equal(duel.forecasts, forecasts)
    assert duel.outcomes.tolist() == outcomes
    assert np.array_equal(duel.certificates, certificates[duel.checkpoints - 1])
    assert duel.guarantees[-1] == forecaster.guarantee
    replayed, charged = again.replay(outcomes, hints, return_look_ahead=True)
    assert np.array_equal(duel.forecasts, replayed)
    assert np.array_equal(duel.charged, charged)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_greedy_adversary_is_told_what_each_outcome_would_do(k):
    adversary = adversaries.create_multiclass("certificate-greedy", k, 150, seed=6)
    duelling, forecaster = (SimplexAlmostOneStepAhead(k, horizon=150) for _ in range(2))
    duel = play(duelling._new_run(), adversary, 150)
    forecasts, outcomes, _ = play_by_hand(forecaster, adversary, 150, rises=rises_of_several)
    assert duel.outcomes.tolist() == outcomes
    assert np.array_equal(duel.forecasts, forecasts)
    # against a constant one class becomes frequent
    assert np.bincount(play(MulticlassBaseline(k), adversary, 150).outcomes).max() > 140


def test_the_loop_may_be_left_and_entered_anywhere(monkeypatch):
    T, told = 2000, []
    adversary = adversaries.create_multiclass("two-phase:switch=777", 3, T)
    whole = play(SimplexAlmostOneStepAhead(3)._new_run(), adversary, T, n_checkpoints=1)
    assert whole.checkpoints.tolist() == [1, T]
    monkeypatch.setattr(duel_module, "ROUNDS_AT_A_TIME", 91)
    parts = play(SimplexAlmostOneStepAhead(3)._new_run(), adversary, T, progress=told.append)
    assert np.array_equal(whole.forecasts, parts.forecasts)
    assert np.array_equal(whole.outcomes, parts.outcomes)
    assert (sum(told), adversary.n_rounds) == (T, 0)


def test_baselines_forecast_what_they_say():
    k, prior = 3, 2.0
    adversary = adversaries.create_multiclass("weights", k, 400)
    assert (play(MulticlassBaseline(k), adversary, 400).forecasts == 1 / 3).all()
    running = play(MulticlassBaseline(k, prior), adversary, 400)
    seen = np.eye(k)[running.outcomes].cumsum(axis=0) - np.eye(k)[running.outcomes]
    assert np.allclose(running.forecasts, (seen + prior) / (seen.sum(axis=1, keepdims=True) + k * prior))
    assert np.array_equal(running.charged, running.forecasts)
    assert np.isnan(running.certificates).all()


def test_unknown_players_are_refused():
    assert [create_player(name).spec for name in MULTICLASS_CATALOGUE.entries] == list(
        MULTICLASS_CATALOGUE.entries
    )
    for spec, message in (
        ("balanced", "unknown forecaster of several classes 'balanced'"),
        ("uniform:prior=1", "uniform has no parameter 'prior'; it takes no parameters"),
        ("simplex:cells=0", r"cells must be a whole number in \[1, "),
    ):
        with pytest.raises(ValueError, match=message):
            create_player(spec)
    player = create_player("simplex:slack=0.75")
    assert player.build(100, n_classes=3) is not None
    with pytest.raises(ValueError, match=r"slack must be None or a number from 0\.9"):
        player.build(100, n_classes=6)
