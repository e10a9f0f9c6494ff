"""The theorems of docs/theory.md, on every short outcome sequence and on random long ones."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from onlinecal import AlmostOneStepAhead, calibration_distance, expected_calibration_error
from onlinecal.forecasters.binary.cells import FINE, HIGH, MIDPOINT, MOVED, REPORT, SCALE, SPREAD
from tests.forecasters.configurations import (
    ANYTIME,
    RULES,
    UNIFORM,
    configs,
    every_game,
    exact_distance,
    fresh,
    hinted_sequences,
)
from tests.properties import examples

TOLERANCE = 1e-9


LENGTH, LONGER = 6, 15


def check(forecaster, game):
    assert exact_distance(game) <= forecaster.certificate + TOLERANCE
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize(
    ("config", "length"),
    [
        *((config, LENGTH) for config in UNIFORM[1::4] + ANYTIME),
        *(pytest.param(config, LONGER, marks=pytest.mark.slow) for config in UNIFORM + ANYTIME),
    ],
)
def test_on_all_sequences_distance_is_below_its_bounds(config, length):
    forecaster = fresh(config)
    for game in every_game(forecaster, length):
        check(forecaster, game)


@pytest.mark.parametrize("config", RULES)
def test_with_a_horizon_it_holds_on_all_of_that_length(config):
    for horizon in range(1, LENGTH + 2):
        forecaster = fresh({**config, "horizon": horizon})
        for game in every_game(forecaster, horizon):
            if len(game) == horizon:
                check(forecaster, game)


@settings(max_examples=examples(400), deadline=None)
@given(configs, hinted_sequences())
def test_reports_stay_in_reach_biases_within_bounds_and_certificates_say_what_they_say(config, played):
    """A certificate understates by no more than floats round: 2^-52 for a hint, 2^-51 of it all."""
    outcomes, hints = played
    forecaster, moved, forecasts, charged = fresh(config, hints=True), Fraction(0), [], []
    scale, slip = int(forecaster.memory[SCALE]), len(outcomes) * Fraction(1, 2**52)
    bound = 1.0 if config.get("rule") == "sign" else forecaster.memory[HIGH] / scale
    for y, hint in zip(outcomes.tolist(), hints, strict=True):
        token = forecaster.forecast(hint)
        lower, step = token.cell
        width = token.upper - token.lower
        reach = width / 2 if forecaster.memory[REPORT] == MIDPOINT else width
        assert token.lower <= token.probability <= token.upper
        assert max(token.probability - token.lower, token.upper - token.probability) <= reach + 1e-15
        moved += abs(Fraction(token.probability) - Fraction(lower + step * y, scale))
        forecasts.append(token.probability)
        charged.append((lower + step * y) / scale)
        forecaster.observe(token, y)
        points, biases = forecaster.look_ahead
        # a point without bias may be charged with either outcome, once
        assert (np.abs(biases) <= np.maximum(bound, np.maximum(points, 1 - points)) + 1e-15).all()
        assert (biases[0], biases[-1], points[0], points[-1]) == (0.0, 0.0, 0.0, 1.0)
    bias = expected_calibration_error(charged, outcomes, normalize=False)
    exact = moved + Fraction(int(forecaster.memory[SPREAD]), scale)
    assert float(exact - moved) == pytest.approx(bias, abs=TOLERANCE)
    assert exact <= Fraction(forecaster.certificate) * (1 + Fraction(1, 2**51)) + slip
    assert forecaster.certificate <= exact + TOLERANCE + len(outcomes) * 2.0**-31
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
    if len(outcomes) <= 120:
        distance = calibration_distance(forecasts, outcomes, method="exact").exact
        assert distance <= forecaster.certificate + TOLERANCE


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 10, 17, 100, 999, 10**4, 10**6, 10**9 + 7])
def test_the_guarantees_are_below_the_published_curves(horizon):
    assert AlmostOneStepAhead(horizon=horizon).guarantee <= math.sqrt(horizon)
    paper = AlmostOneStepAhead(horizon=horizon, rule="sign", report="lower")
    assert paper.guarantee <= 2 * math.sqrt(horizon)
    for slack in (0.5, 0.7, 1.0, 3.0):
        for report, reach in (("midpoint", 0.5), ("lower", 1.0), ("hint", 1.0)):
            hints = report == "hint"
            forecaster = AlmostOneStepAhead(horizon=horizon, slack=slack, report=report, hints=hints)
            # points that accept both outcomes may cost less than 1 more (Theorem 7a)
            assert forecaster.guarantee <= 2 * math.sqrt(slack * reach * horizon) * (1 + 1e-12) + hints


@pytest.mark.parametrize("m", [22])
def test_the_guarantee_counts_what_hints_are_rounded_up(m):
    """The border of a cell, as a float times m, can lie beyond it: a unit more than 1/m from the far end."""
    forecaster = AlmostOneStepAhead(n_cells=m, slack=3.0, hints=True)
    memory, before, dearest = forecaster.memory, 0, 0
    for y, hint in [(y, k / m) for k in range(m + 1) for y in (0, 1)] * 4:
        forecaster.observe(forecaster.forecast(hint), y)
        dearest, before = max(dearest, int(memory[MOVED]) - before), int(memory[MOVED])
    assert dearest == 2 * memory[FINE] + 1  # so this much can be due in every round
    unit = 2 * m * int(memory[FINE])
    for rounds in (10**3, 10**6, 10**9):
        due = Fraction(rounds * dearest, unit) + 3 * (m - 1)
        assert forecaster._promise(rounds) >= float(due) * (1 - 2**-51)


@pytest.mark.parametrize("grid", ["nested", "adaptive"])
def test_the_anytime_guarantee_is_below_sqrt_3t_at_all_times(grid):
    rounds = np.unique(np.concatenate([np.arange(1, 1000), np.geomspace(1, 1e12, 1000).astype(np.int64)]))
    doublings = [int(4 / 3 * 4**k) + shift for k in range(19) for shift in (0, 1, 2)]
    balanced = AlmostOneStepAhead(grid=grid)
    sign = AlmostOneStepAhead(grid=grid, rule="sign", report="upper")
    for t in [*rounds.tolist(), *doublings]:
        assert balanced._promise(t) <= math.sqrt(3 * t)
        assert sign._promise(t) <= 2 * math.sqrt(3 * t)


CLOSED = [(0.75, "midpoint", 0.5), (1.5, "midpoint", 0.5), (0.5, "hint", 1.0), (3.0, "hint", 1.0)]


@pytest.mark.parametrize(("slack", "report", "reach"), CLOSED)
def test_the_closed_form_holds_while_the_slack_is_at_most_three_times_the_reach(slack, report, reach):
    forecaster = AlmostOneStepAhead(slack=slack, report=report, hints=report == "hint")
    for t in [*range(1, 3000), *np.geomspace(3000, 1e12, 2000).astype(np.int64).tolist()]:
        assert forecaster._promise(t) <= 2 * math.sqrt(3 * slack * reach * t) * (1 + 1e-15)


@pytest.mark.parametrize("late", [1, 6])
@pytest.mark.parametrize(
    ("config", "reach"),
    [
        ({"n_cells": 9, "slack": 0.5, "report": "midpoint"}, 0.5),
        ({"n_cells": 9, "rule": "sign", "report": "midpoint"}, 0.5),
        ({"grid": "nested", "slack": 1.0, "report": "lower"}, 1.0),
        ({"grid": "nested", "rule": "sign", "report": "midpoint"}, 0.5),
        ({"grid": "adaptive", "slack": 1.0, "report": "lower"}, 1.0),
        ({"grid": "adaptive", "slack": 0.5, "report": "midpoint"}, 0.5),
        # points without bias are free, and may pass c by 1 - 1/m - c
        ({"n_cells": 9, "slack": 0.5, "report": "midpoint", "hints": True}, 0.5),
    ],
)
def test_late_labels_cost_what_theorem_15_says(config, reach, late):
    rounds, forecaster = 500, AlmostOneStepAhead(**config)
    in_time = forecaster._promise(rounds)
    forecaster._note_late(late)
    m = config.get("n_cells")
    if m is None:
        # the base grid of a round: the coarsest 2^k with t <= (4/3) 4^k c/d
        c = 1.0 if config.get("rule") == "sign" else config["slack"]
        m = next(2**k for k in range(20) if rounds <= 4 ** (k + 1) * c / (3 * reach))
    cost = late * sum(max(j / m, 1 - j / m) for j in range(1, m))
    cost += {"nested": late * reach, "adaptive": (late + 1) * (1 + reach)}.get(config.get("grid"), 0.0)
    if config.get("hints"):
        free = (m + 1) // 2 / m
        cost += late + 1 - (1 - 1 / m - max(free, 0.5))
    assert forecaster._promise(rounds) - in_time == pytest.approx(cost, rel=1e-9)


def test_slack_that_has_grown_stays_in_the_guarantee():
    forecaster = AlmostOneStepAhead(hints=True)
    forecaster.replay([1, 0] * 50)
    forecaster.machine.rules.note_late(forecaster.memory, 7)
    # the memory alone says so, as where a compiled loop played on it
    grown = forecaster._promise(100)
    forecaster._note_late(7)
    assert forecaster._promise(100) == grown
    forecaster._note_late(8)
    assert forecaster._promise(100) > grown
