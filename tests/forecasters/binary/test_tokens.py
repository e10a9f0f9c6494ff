"""Forecasts as tokens: settled in any order, each once, with an honest guarantee when labels are late."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance
from tests.forecasters.configurations import configs, fresh, play_late
from tests.properties import examples


@settings(max_examples=examples(150), deadline=None)
@given(
    configs,
    st.lists(st.integers(0, 1), min_size=1, max_size=120),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_with_late_labels_certificate_and_guarantee_still_hold(config, outcomes, most_open, seed):
    forecaster = fresh(config, hints=True)
    rng = np.random.default_rng(seed)
    settled = play_late(forecaster, outcomes, most_open, rng, rng.random)
    forecasts = [token.probability for token, _ in settled]
    distance = calibration_distance(forecasts, [y for _, y in settled], method="exact").exact
    assert distance <= forecaster.certificate + 1e-9
    assert forecaster.certificate <= forecaster.guarantee + 1e-9
    assert forecaster.n_open == 0


@pytest.mark.parametrize("delay", [1, 3, 10])
@pytest.mark.parametrize("config", [{"horizon": 3000}, {"grid": "nested"}, {}])
def test_an_adversary_who_knows_the_delay_cannot_break_the_late_guarantee(config, delay):
    forecaster = AlmostOneStepAhead(**config)
    for _ in range(3000 // (delay + 1)):
        tokens = [forecaster.forecast() for _ in range(delay + 1)]
        y = int(tokens[0].probability < 0.5)
        for token in tokens:
            forecaster.observe(token, y)
        assert forecaster.certificate <= forecaster.guarantee


def test_the_lanes_of_late_labels_share_one_bound():
    """D + 1 forecasters in turn: a union of calibrated sequences is calibrated, sqrt((D + 1) T) in all."""
    rounds, delay = 2000, 3
    lanes = [AlmostOneStepAhead(horizon=rounds // (delay + 1)) for _ in range(delay + 1)]
    outcomes = np.random.default_rng(0).random(rounds) < 0.3
    for t, y in enumerate(outcomes):
        lanes[t % (delay + 1)].learn_one({}, bool(y))
    assert sum(lane.certificate for lane in lanes) <= np.sqrt((delay + 1) * rounds)


def test_a_token_is_settled_once():
    forecaster = AlmostOneStepAhead(horizon=10)
    token = forecaster.forecast()
    forecaster.observe(token, 1)
    before = forecaster.memory.copy()
    with pytest.raises(ValueError, match="forecast 0 has been settled before"):
        forecaster.observe(token, 1)
    assert forecaster.memory.tolist() == before.tolist()


def test_a_token_of_another_forecaster_is_refused():
    first, second = AlmostOneStepAhead(horizon=10), AlmostOneStepAhead(horizon=10)
    second.forecast()
    with pytest.raises(ValueError, match="issued by another forecaster"):
        second.observe(first.forecast(), 1)
    with pytest.raises(ValueError, match="must be a Forecast"):
        second.observe(0.5, 1)
    assert second.n_rounds == 0


@pytest.mark.parametrize("outcome", [2, -1, 1.2, "1", None, float("nan"), [1]])
def test_a_bad_outcome_leaves_the_token_open(outcome):
    forecaster = AlmostOneStepAhead(hints=True)
    token = forecaster.forecast(0.3)
    with pytest.raises(ValueError, match="outcome must be a number in"):
        forecaster.observe(token, outcome)
    assert forecaster.n_open == 1
    forecaster.observe(token, 1)


@pytest.mark.parametrize("hint", [-0.1, 1.1, float("nan"), float("inf"), "0.5", True + 1])
def test_a_bad_hint_issues_nothing(hint):
    forecaster = AlmostOneStepAhead(hints=True)
    with pytest.raises(ValueError, match="hint must be a number in"):
        forecaster.forecast(hint)
    assert forecaster.n_open == 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_a_copy_settles_the_tokens_that_were_open(duplicate):
    forecaster = AlmostOneStepAhead(slack=1.0, hints=True)
    forecaster.replay([0, 1, 1, 0, 1])
    token = forecaster.forecast(0.7)
    twin = duplicate(forecaster)
    for each in (forecaster, twin):
        each.observe(token, 1)
        each.replay([0, 1] * 50)
    assert twin.memory.tolist() == forecaster.memory.tolist()
    assert twin.predict_proba_one({}) == forecaster.predict_proba_one({})


def test_a_token_tells_its_cell():
    token = AlmostOneStepAhead(n_cells=10, hints=True).forecast(0.4)
    assert token.lower <= token.probability <= token.upper
    assert token.upper - token.lower == pytest.approx(0.1)
    assert float(token) == token.probability
    assert token.hint == 0.4


def test_a_withdrawn_forecast_is_never_charged():
    forecaster = AlmostOneStepAhead(n_cells=4)
    first, second = forecaster.forecast(), forecaster.forecast()
    forecaster.withdraw(first)
    assert forecaster.n_open == 1
    assert forecaster.n_rounds == 0
    for settle in (forecaster.withdraw, lambda token: forecaster.observe(token, 1)):
        with pytest.raises(ValueError, match="forecast 0 has been settled before"):
            settle(first)
    forecaster.observe(second, 1)
    assert forecaster.n_rounds == 1
