"""Duels of several classes: the compiled loop plays what tokens play, and every bound is kept."""

from __future__ import annotations

import numpy as np
import pytest

import adversaries
from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.machine import compiled as machine
from onlinecal.forecasters.simplex.machine.memory import certificate, enlarged
from onlinecal.forecasters.simplex.machine.table import LIMIT
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW
from simulations.games import duel as duel_module
from simulations.games.duel import play
from simulations.games.several import CATALOGUE, Baseline, create_player


def by_hand(forecaster, adversary, T, hints=None, rises=None):
    """Tokens, one at a time, and the certificate after every round."""
    forecasts, outcomes, certificates = [], [], []
    for t in range(T):
        token = forecaster.forecast(None if hints is None else hints[t])
        forecasts.append(token.vector)
        rising = None if rises is None else rises(forecaster)
        outcomes.append(adversary.outcome(token.vector, rising))
        forecaster.observe(token, outcomes[-1])
        certificates.append(forecaster.certificate)
    return np.array(forecasts), outcomes, certificates


def rises_of(forecaster):
    """What each outcome would do to the certificate, by trying it on a copy of the memory."""
    answer = []
    for outcome in range(forecaster.n_classes):
        memory = enlarged(forecaster.memory)
        memory[LIMIT] = FOREVER
        before = certificate(memory)
        assert machine.advance(memory, NO_WINDOW, outcome)
        answer.append(certificate(memory) - before)
    return answer


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
    duel = play(duelling.new_run(), adversary, 300, hints)
    forecasts, outcomes, certificates = by_hand(forecaster, adversary, 300, hints)
    assert np.array_equal(duel.forecasts, forecasts)
    assert duel.outcomes.tolist() == outcomes
    assert duel.certificates.tolist() == [certificates[t - 1] for t in duel.checkpoints]
    assert duel.guarantees[-1] == forecaster.guarantee
    replayed, charged = again.replay(outcomes, hints, return_look_ahead=True)
    assert np.array_equal(duel.forecasts, replayed)
    assert np.array_equal(duel.charged, charged)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_greedy_adversary_is_told_what_each_outcome_would_do(k):
    adversary = adversaries.create_multiclass("certificate-greedy", k, 150, seed=6)
    duelling, forecaster = (SimplexAlmostOneStepAhead(k, horizon=150) for _ in range(2))
    duel = play(duelling.new_run(), adversary, 150)
    forecasts, outcomes, _ = by_hand(forecaster, adversary, 150, rises=rises_of)
    assert duel.outcomes.tolist() == outcomes
    assert np.array_equal(duel.forecasts, forecasts)
    # against a constant one class becomes frequent
    assert np.bincount(play(Baseline(k), adversary, 150).outcomes).max() > 140


def test_the_loop_may_be_left_and_entered_anywhere(monkeypatch):
    T, told = 2000, []
    adversary = adversaries.create_multiclass("two-phase:switch=777", 3, T)
    whole = play(SimplexAlmostOneStepAhead(3).new_run(), adversary, T, n_checkpoints=1)
    assert whole.checkpoints.tolist() == [1, T]
    monkeypatch.setattr(duel_module, "ROUNDS_AT_A_TIME", 91)
    parts = play(SimplexAlmostOneStepAhead(3).new_run(), adversary, T, progress=told.append)
    assert np.array_equal(whole.forecasts, parts.forecasts)
    assert np.array_equal(whole.outcomes, parts.outcomes)
    assert (sum(told), adversary.n_rounds) == (T, 0)


def test_baselines_forecast_what_they_say():
    k, prior = 3, 2.0
    adversary = adversaries.create_multiclass("weights", k, 400)
    assert (play(Baseline(k), adversary, 400).forecasts == 1 / 3).all()
    running = play(Baseline(k, prior), adversary, 400)
    seen = np.eye(k)[running.outcomes].cumsum(axis=0) - np.eye(k)[running.outcomes]
    assert np.allclose(running.forecasts, (seen + prior) / (seen.sum(axis=1, keepdims=True) + k * prior))
    assert np.array_equal(running.charged, running.forecasts)
    assert np.isnan(running.certificates).all()


def test_impossible_duels_are_refused():
    stream = adversaries.replay_labels([0, 1, 2])
    with pytest.raises(ValueError, match="at most the 3 that labels has, got 4"):
        play(Baseline(3), stream.adversary(), 4)
    with pytest.raises(ValueError, match=r"hints must have the shape \(3, 3\), got \(3, 2\)"):
        play(Baseline(3), stream.adversary(), 3, np.full((3, 2), 0.5))


def test_unknown_players_are_refused():
    assert [create_player(name).spec for name in CATALOGUE.entries] == list(CATALOGUE.entries)
    for spec, message in (
        ("balanced", "unknown forecaster of several classes 'balanced'"),
        ("uniform:prior=1", "uniform has no parameter 'prior'; it takes none"),
        ("simplex:cells=0", r"cells must be a whole number in \[1, "),
    ):
        with pytest.raises(ValueError, match=message):
            create_player(spec)
    player = create_player("simplex:slack=0.75")
    assert player.build(3, 100) is not None
    with pytest.raises(ValueError, match=r"slack must be None or a number from 0\.9"):
        player.build(6, 100)
