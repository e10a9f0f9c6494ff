"""Theorem 15a and Fact 15b: slack that grows with late labels keeps its bound, and skill."""

import math

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, calibration_distance
from onlinecal.forecasters.binary.cells import END, HIGH, LATE, SCALE, SPREAD, TABLE, TILT
from onlinecal.forecasters.binary.dyadic import BASE, ORPHANED, count_debts

SCHEDULES = {
    "lag": lambda t: 30,
    "growing": lambda t: t // 50,
    "days": lambda t: 59 - t % 60,
    "burst": lambda t: 200 if 500 <= t < 700 else 2,
}


def outcome_of(kind, t, forecast, hint, rng):
    """What an adversary, or a world, makes of a forecast."""
    return {
        "coin": rng.random() < 0.5,
        "against": forecast < 0.5,
        "away from the hint": forecast < hint,
        "drift": rng.random() < t / 1500,
    }[kind]


def played(forecaster, schedule, kind, rounds=1500):
    """Forecasts and outcomes in their order of settlement; yields after each one."""
    rng = np.random.default_rng(3)
    due = [[] for _ in range(rounds + 1)]
    for t in range(rounds):
        hint = float(rng.random() if kind != "drift" else t / rounds)
        token = forecaster.forecast(hint)
        outcome = int(outcome_of(kind, t, token.probability, hint, rng))
        due[min(rounds, t + SCHEDULES[schedule](t))].append((token, outcome))
        for waiting in due[t]:
            forecaster.observe(*waiting)
            yield waiting
    for waiting in due[rounds]:
        forecaster.observe(*waiting)
        yield waiting


KINDS = ("coin", "against", "away from the hint", "drift")
WITH_EACH = [
    pytest.param(schedule, kind, marks=() if (i - j) % 4 == 0 else pytest.mark.slow)
    for i, schedule in enumerate(SCHEDULES)
    for j, kind in enumerate(KINDS)
]


@pytest.mark.parametrize(("schedule", "kind"), WITH_EACH)
def test_the_guarantee_of_growing_slack_holds_at_all_times(schedule, kind):
    forecaster = AlmostOneStepAhead(hints=True)
    base, pairs = math.inf, []
    for n, pair in enumerate(played(forecaster, schedule, kind)):
        pairs.append((pair[0].probability, pair[1]))
        assert forecaster.certificate <= forecaster.guarantee
        memory = forecaster.memory
        assert memory[BASE] <= base
        base = memory[BASE]
        if n == 300:
            p, y = np.array(pairs).T
            assert (
                calibration_distance(p, y.astype(int), method="exact").exact <= forecaster.certificate + 1e-9
            )
        if n % 300 == 0:
            positions = memory[TABLE : memory[END] : 2]
            biases = memory[TABLE + 1 : memory[END] : 2] - memory[TILT] * positions
            assert np.abs(biases).sum() == memory[SPREAD]
            again = memory.copy()
            count_debts(again)
            assert again[ORPHANED] == memory[ORPHANED]
            most = memory[HIGH] / memory[SCALE] + memory[LATE]
            assert np.abs(biases).max() / memory[SCALE] <= most


@pytest.mark.parametrize("delay", [1, 10, 100, 1000])
def test_with_that_many_open_from_the_start_it_is_of_order_root_of_them_times_the_rounds(delay):
    forecaster = AlmostOneStepAhead(hints=True)
    tokens = [forecaster.forecast(0.3) for _ in range(delay + 1)]
    slack = 1.5 * math.sqrt(1 + 4 * delay)
    assert forecaster.memory[HIGH] / forecaster.memory[SCALE] == pytest.approx(slack, abs=1e-6)
    for token in tokens:
        forecaster.observe(token, 0)
    bound = slack + 0.75 * delay
    for rounds in (delay + 1, 1000, 20_000, 10**6):
        closed = 2 * math.sqrt(3 * bound * rounds) + 5 / 3 * slack + 2 * (delay + 1)
        assert forecaster._promise(rounds) <= closed * 1.0001


def test_slack_that_was_set_stays():
    for made in ({"slack": 1.5}, {"horizon": 1000}, {"rule": "sign"}, {"window": 100}):
        forecaster = AlmostOneStepAhead(hints=True, **made)
        before = forecaster.memory[HIGH]
        for _ in range(50):
            forecaster.forecast(0.5)
        assert forecaster.memory[HIGH] == before


def test_a_bias_reaches_the_slack_and_all_that_is_open():
    """Fact 15b: the bound of Theorem 15 on one bias is attained."""
    forecaster = AlmostOneStepAhead(horizon=4, n_cells=2, slack=0.5)
    delay = 9
    tokens = [forecaster.forecast() for _ in range(delay + 1)]
    lower = tokens[0].cell[0] / forecaster.memory[SCALE]
    for token in tokens:
        forecaster.observe(token, 0 if lower else 1)
    assert np.abs(forecaster.look_ahead.biases).max() == pytest.approx((delay + 1) * 0.5)


def test_late_hints_are_followed_as_closely_as_those_in_time():
    """Honest hints, labels of 200 at once: with the slack of labels in time blocked cells cost .7 to 1 %."""
    rng = np.random.default_rng(0)
    p = 0.2 * rng.random(8000)
    y = (rng.random(8000) < p).astype(int)
    errors = {}
    for name, made in (("grows", {}), ("fixed", {"slack": 1.5})):
        forecaster = AlmostOneStepAhead(hints=True, **made)
        answers = []
        for day in range(0, 8000, 200):
            tokens = [forecaster.forecast(hint) for hint in p[day : day + 200].tolist()]
            answers += [token.probability for token in tokens]
            for token, outcome in zip(tokens, y[day : day + 200].tolist(), strict=True):
                forecaster.observe(token, outcome)
        errors[name] = ((np.array(answers) - y) ** 2).mean() / ((p - y) ** 2).mean() - 1
    assert errors["grows"] < 0.002 < 0.005 < errors["fixed"]
