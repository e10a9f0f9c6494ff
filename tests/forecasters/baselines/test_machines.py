"""The baselines as machines: interpreter and compiled code, rounds and replays, copies, river, refusals."""

from inspect import signature

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.forecasters import baselines
from tests.forecasters.baselines.games import BASELINES, RANDOMISED, in_the_interpreter, parameters
from tests.forecasters.configurations import sequences
from tests.properties import examples


@settings(max_examples=examples(120), deadline=None)
@given(
    st.sampled_from([*BASELINES, baselines.UCalibratedForecaster]),
    st.sampled_from([1, 2, 3, 7, 20]),
    sequences(longest=200),
    st.integers(0, 2**32 - 1),
)
def test_rounds_replays_and_the_interpreter_play_the_same_game(kind, m, outcomes, cut):
    rounds, replayed, plain = (kind(**parameters(kind, m)) for _ in range(3))
    forecasts, charged, memory = in_the_interpreter(plain, outcomes)
    for y, p in zip(outcomes, forecasts, strict=True):
        assert rounds.predict_proba_one({}) == {False: 1.0 - p, True: p}
        rounds.learn_one({}, bool(y))
    cut = cut % len(outcomes)
    answers = [replayed.replay(piece) for piece in (outcomes[:cut], outcomes[cut:]) if len(piece)]
    assert np.concatenate(answers).tolist() == charged
    assert kind is baselines.PowerOfTwoChoices or charged == forecasts
    plain.memory = np.array(memory)
    plain._resume()
    assert rounds.memory.tobytes() == replayed.memory.tobytes() == plain.memory.tobytes()
    assert rounds.certificate == replayed.certificate
    assert rounds.n_rounds == len(outcomes)
    assert rounds.predict_proba_one({}) == replayed.predict_proba_one({}) == plain.predict_proba_one({})


@pytest.mark.parametrize(
    "kind", [*RANDOMISED, baselines.UCalibratedForecaster], ids=lambda kind: kind.__name__
)
def test_equal_seeds_give_equal_bytes_and_draws_are_nobody_elses(kind):
    outcomes = np.random.default_rng(0).integers(0, 2, 300)
    first, second, other, pair = (
        kind(horizon=300, seed=seed).replay(outcomes).tobytes() for seed in (4, 4, 5, (4, 1))
    )
    assert first == second
    assert len({first, other, pair}) == 3
    drawn = kind(seed=3)._draws(1000)
    assert abs(np.corrcoef(drawn, np.random.default_rng(3).random(1000))[0, 1]) < 0.1


def test_what_draws_has_a_seed_and_nothing_else_has():
    for kind in [*BASELINES, baselines.UCalibratedForecaster]:
        assert kind.randomised == ("seed" in signature(kind).parameters)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("ConstantForecaster", {"at": 1.5}, r"at must be a number in \[0, 1\], got 1.5"),
        ("RunningMean", {"prior": 0.0}, "prior must be a positive number of at most 1e.09, got 0.0"),
        ("DriftCorrectedHalf", {"epsilon": 0.6}, "epsilon must be a number above 0 and at most 0.5, got 0.6"),
        ("FosterForecaster", {"n_cells": 2**21}, "n_cells must be at most 1048576, got 2097152"),
        ("FosterForecaster", {"seed": None}, "seed must be a non-negative integer .*, got None"),
        ("UCalibratedForecaster", {"rate": 0.95}, "rate must be a number above 0 and at most 0.9, got 0.95"),
    ],
)
def test_bad_parameters_are_refused_by_name(kind, given, message):
    with pytest.raises(ValueError, match=message):
        getattr(baselines, kind)(**given)


def test_running_mean_and_constant_forecast_what_they_say():
    outcomes = np.array([1, 1, 0, 1])
    assert baselines.RunningMean().replay(outcomes).tolist() == [1 / 2, 2 / 3, 3 / 4, 3 / 5]
    assert baselines.RunningMean(prior=0.5).replay(outcomes) == pytest.approx(
        [0.5, 1.5 / 2, 2.5 / 3, 2.5 / 4]
    )
    assert baselines.ConstantForecaster(0.3).replay(outcomes).tolist() == [0.3] * 4
