"""The defining property of each adversary that answers the forecaster, and of two-phase."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.adversaries import create
from tests.adversaries.play import play_plainly, scripted_game

probabilities = st.floats(0.0, 1.0)
forecast_lists = st.lists(
    st.one_of(probabilities, st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=200
)


@given(forecast_lists, probabilities, st.integers(0, 1000))
def test_a_coin_as_announced_a_threshold_and_one_that_moves(forecasts, at, seed):
    T = len(forecasts)
    p, u = np.array(forecasts), np.random.default_rng(seed).random(T)
    line = 0.25 + 0.5 * np.minimum(np.arange(T) / max(T // 2 - 1, 1), 1.0)
    for spec, expected in (
        ("bernoulli-forecast", u < p),
        (f"threshold:at={at!r}", p < at),
        ("threshold-sweep:start=0.25,end=0.75", p < line),
    ):
        adversary = create(spec, horizon=max(T // 2, 1), seed=seed)
        assert [adversary.outcome(forecast) for forecast in forecasts] == expected.astype(int).tolist()


@given(forecast_lists, st.integers(0, 50))
def test_early_stopped_coin_never_lets_its_bias_be_paid_back(forecasts, seed):
    T = len(forecasts)
    adversary = create("early-stopped-coin:scale=0.8,exponent=0.4", horizon=T, seed=seed)
    limit = 0.8 * T**0.4
    coins = np.random.default_rng(seed).random(T) < 0.5
    total, stopped = 0.0, False
    for t, forecast in enumerate(forecasts):
        outcome = adversary.outcome(forecast)
        before = abs(total)
        total += outcome - forecast
        if stopped:
            assert abs(total) >= before
            assert abs(total) >= limit
        else:
            assert outcome == coins[t]
        stopped = stopped or abs(total) >= limit


@given(
    forecast_lists, st.integers(0, 100), st.sampled_from([None, 1, 2, 3]), st.sampled_from([0.25, 0.5, 0.8])
)
def test_bisection_moves_the_truth_to_where_the_forecasts_cannot_be_paid_back(forecasts, seed, depth, power):
    T = len(forecasts)
    length = max(round(T**power), 1)
    adversary = create(
        f"bisection:exponent={power}{f',depth={depth}' if depth else ''}", horizon=T, seed=seed
    )
    uniforms = np.random.default_rng(seed).random(T)
    low, high = 0.0, 1.0
    for epoch, first in enumerate(range(0, T, length)):
        if depth and epoch % depth == 0:
            low, high = 0.0, 1.0
        middle, bias = (low + high) / 2, 0.0
        for t in range(first, min(first + length, T)):
            outcome = adversary.outcome(forecasts[t])
            assert outcome == int(uniforms[t] < middle)
            bias += outcome - forecasts[t]
        low, high = (middle, high) if bias > 0 else (low, middle)


def test_an_epoch_of_bisection_lasts_at_least_one_round_and_at_most_the_game():
    (shortest,) = create("bisection:scale=0", horizon=50).phases
    (longest,) = create("bisection:scale=1e300", horizon=50).phases
    assert (shortest.state[0], longest.state[0]) == (1.0, 50.0)


@given(forecast_lists)
def test_boundary_hugger_pushes_against_the_last_move(forecasts):
    adversary = create("boundary-hugger")
    outcomes = [adversary.outcome(p) for p in forecasts]
    assert outcomes[0] == 1
    for t in range(1, len(forecasts)):
        if forecasts[t] == forecasts[t - 1]:
            assert outcomes[t] == outcomes[t - 1]
        else:
            assert outcomes[t] == int(forecasts[t] < forecasts[t - 1])


@given(forecast_lists, st.integers(1, 12))
def test_bias_builder_never_lets_the_bias_of_a_cell_shrink(forecasts, cells):
    adversary = create(f"bias-builder:cells={cells}")
    biases = np.zeros(cells)
    for forecast in forecasts:
        cell = min(int(forecast * cells), cells - 1)
        outcome = adversary.outcome(forecast)
        grown = biases[cell] + (outcome - forecast)
        assert abs(grown) >= abs(biases[cell])
        biases[cell] = grown


@pytest.mark.parametrize(("rounds", "share"), [(34, 0.7), (100, 1.0), (1000, 0.96), (10_000, 0.96)])
def test_graded_lifter_comes_near_the_root_of_half_the_rounds(rounds, share):
    forecaster, (phase,), total = (
        AlmostOneStepAhead(horizon=rounds),
        create("graded-lifter", rounds).phases,
        0.0,
    )
    for t in range(rounds):
        forecast = forecaster.predict_proba_one({})[True]
        outcome = phase.step(phase.state, t, forecast, 0.0, 0.0, 0.0)
        forecaster.learn_one({}, outcome)
        total += forecast - outcome
    # it keeps the forecaster's books
    room, half = int(phase.state[0]), len(forecaster.look_ahead.points) // 2
    middle = 7 + 2 * room + 1
    assert (phase.state[middle - half : middle + half + 1] == forecaster.look_ahead.biases).all()
    assert (phase.state[7 : 8 + half] == forecaster.look_ahead.points[half:]).all()
    assert share * np.sqrt(rounds / 2) <= total <= forecaster.certificate <= forecaster.guarantee


rises = st.floats(-1.0, 1.0)


@given(st.lists(st.tuples(probabilities, rises, rises), min_size=1, max_size=50), st.sampled_from([0, 1]))
def test_certificate_greedy_takes_the_larger_rise(rounds, tie):
    adversary = create(f"certificate-greedy:tie={tie}")
    for forecast, zero, one in rounds:
        outcome = adversary.outcome(forecast, zero, one)
        if abs(zero - one) > 1e-12:
            assert outcome == int(one > zero)
        else:
            assert outcome == tie


def test_certificate_greedy_breaks_ties_by_the_draw():
    adversary = create("certificate-greedy:tie=0.3", seed=2)
    outcomes = [adversary.outcome(0.5, 0.1, 0.1) for _ in range(2000)]
    assert outcomes == (np.random.default_rng(2).random(2000) < 0.3).astype(int).tolist()
    assert create("certificate-greedy:tie=1").outcome(0.5, 0.1 + 0.2, 0.3) == 1


@pytest.mark.parametrize("first, second", [("coin", "threshold"), ("bias-builder", "linear-drift")])
@pytest.mark.parametrize("T, switch", [(101, None), (100, 30)])
def test_two_phase_equals_its_parts(first, second, T, switch):
    forecasts, zero, one = scripted_game(T)
    spec = f"two-phase:first={first},second={second}" + (f",switch={switch}" if switch else "")
    adversary = create(spec, horizon=T, seed=12)
    outcomes = play_plainly(adversary, forecasts, zero, one)
    at = switch or T // 2
    part = create(first, horizon=at, seed=12)
    assert outcomes[:at] == play_plainly(part, forecasts[:at], zero[:at], one[:at])
    (phase,) = create(second, horizon=T - at).phases
    uniforms = np.random.default_rng(12).random(T)
    rest = [
        phase.step(phase.state, t, forecasts[at + t], zero[at + t], one[at + t], uniforms[at + t])
        for t in range(T - at)
    ]
    assert outcomes[at:] == rest


def test_two_phase_is_as_powerful_as_its_stronger_part_and_shares_out_the_rounds():
    powers = {"coin": "oblivious", "threshold": "adaptive", "certificate-greedy:depth=3": "internal"}
    for first, power in powers.items():
        adversary = create(f"two-phase:first=[{first}],second=blocks", horizon=9)
        assert adversary.power == power
        assert [phase.depth for phase in adversary.phases] == [3 if "depth" in first else 1, 1]
    adversary = create("two-phase:first=[two-phase:first=coin,second=blocks],second=threshold", horizon=41)
    assert [phase.rounds for phase in adversary.phases] == [10, 10, None]
    assert [phase.power for phase in adversary.phases] == ["oblivious", "oblivious", "adaptive"]
