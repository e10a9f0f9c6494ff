"""Hints are said beforehand; rounds without one; points without bias accept both outcomes."""

import pickle
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, OneStepAhead
from onlinecal.forecasters.binary.cells import HIGH, HINTED, LAST_MIDDLE, SCALE, TABLE, in_use
from onlinecal.forecasters.binary.uniform import EXCESS
from tests.forecasters.configurations import fresh

CONFIGS = [
    *({}, {"slack": 0.75}, {"report": "midpoint"}, {"rule": "sign"}, {"grid": "nested"}, {"n_cells": 4}),
    *({"n_cells": 7, "slack": 0.5}, {"n_cells": 3, "rule": "sign"}, {"horizon": 40}, {"window": 30}),
]
TOLERANCE = 1e-9


def made(config):
    return AlmostOneStepAhead(**config, hints=True)


def test_a_report_that_follows_hints_needs_them():
    with pytest.raises(ValueError, match="report='hint' needs hints: make the forecaster with hints=True"):
        AlmostOneStepAhead(report="hint")
    for kind in (AlmostOneStepAhead, OneStepAhead):
        with pytest.raises(ValueError, match="hints must be True or False, got 'yes'"):
            kind(hints="yes")


@pytest.mark.parametrize("config", CONFIGS)
def test_the_first_round_without_a_hint_gets_the_cell_nearest_to_one_half(config):
    for asked_before in ([], [0.9], [0.1, 0.3]):
        forecaster = made(config)
        for hint in asked_before:
            forecaster.forecast(hint)
        token = forecaster.forecast()
        assert token.lower <= 0.5 <= token.upper
        assert token.probability == (token.lower + token.upper) / 2
        assert forecaster.predict_proba_one({})[True] == token.probability


@pytest.mark.parametrize("config", CONFIGS)
def test_a_round_without_a_hint_gets_the_valid_cell_nearest_to_the_last(config):
    rng, forecaster = np.random.default_rng(1), made({**config, "report": "hint"})
    for t in range(400):
        middle = forecaster.memory[LAST_MIDDLE] / (2 * forecaster.memory[1])
        plain, hinted = forecaster.forecast(), forecaster.forecast(middle)
        assert plain.cell == hinted.cell
        assert plain.probability == pytest.approx((plain.lower + plain.upper) / 2, abs=1e-15)
        token = forecaster.forecast(rng.random()) if t % 3 else plain
        forecaster.observe(token, rng.random() < 0.6)
        assert forecaster.memory[LAST_MIDDLE] / forecaster.memory[1] == pytest.approx(
            token.lower + token.upper
        )


@pytest.mark.parametrize("config", [*CONFIGS, {"n_cells": 1}, {"n_cells": 2}])
def test_the_guarantee_holds_for_any_mix_of_rounds_with_hints_and_without(config):
    for outcomes in product((0, 1), repeat=6):
        for mix in range(0, 64, 7):
            forecaster = made(config)
            promised = forecaster._promise(6)
            for t, y in enumerate(outcomes):
                hint = (0.4, 0.9, 0.0)[t % 3] if mix >> t & 1 else None
                forecaster.observe(forecaster.forecast(hint), y)
            slack = 1.0 if forecaster.rule == "sign" else forecaster.memory[HIGH] / forecaster.memory[SCALE]
            points, biases = forecaster.look_ahead
            # but for one charge of a free point
            assert (np.abs(biases) <= np.maximum(slack, np.maximum(points, 1 - points)) + TOLERANCE).all()
            assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
            assert (forecaster.window_certificate or 0) <= (forecaster.window_guarantee or 0) + TOLERANCE
            assert forecaster._promise(6) == promised


@pytest.mark.parametrize("config", [{}, {"n_cells": 5}, {"n_cells": 5, "rule": "sign"}])
def test_a_memory_that_does_not_fit_whether_there_are_hints_is_refused(config):
    forecaster = made(config)
    forecaster.replay([1, 0, 1], [0.3, 0.7, 0.1])
    assert forecaster.memory[HINTED] == 1
    forecaster.hints = False
    with pytest.raises(ValueError, match="cannot be that of any run"):
        pickle.loads(pickle.dumps(forecaster))


@pytest.mark.parametrize(
    "config", [*({"n_cells": m} for m in (51, 52, 64)), {"n_cells": 51, "rule": "sign"}, {}], ids=str
)
def test_hints_that_are_always_right_are_followed_from_the_first_visit(config):
    outcomes = np.random.default_rng(0).integers(0, 2, 2000)
    forecaster = fresh(config, hints=True)
    forecasts = forecaster.replay(outcomes, outcomes.astype(float))
    assert ((forecasts - outcomes) ** 2).sum() < 0.3
    assert forecaster.certificate <= forecaster.guarantee


TABLES = [
    pytest.param(m, slack, report, length, marks=() if length == 3 and not number % 3 else pytest.mark.slow)
    for length in (3, 4, 5)
    for i, m in enumerate((2, 3, 4, 7))
    for j, slack in enumerate((0.5, 0.75, 1.0))
    for number, report in enumerate(("midpoint", "hint", "upper"), i + j)
]
"""All of them; by default every two settings of a table of few rounds, not all three with each other."""


@pytest.mark.parametrize(("m", "slack", "report", "length"), TABLES)
def test_whatever_hints_and_outcomes_the_certificate_is_below_the_guarantee(m, slack, report, length):
    rounds = list(product((0.0, 0.4, 0.7), (0, 1)))
    for game in product(rounds, repeat=length):
        hints, outcomes = zip(*game, strict=True)
        forecaster = AlmostOneStepAhead(n_cells=m, slack=slack, report=report, hints=True)
        forecaster.replay(outcomes, hints)
        assert forecaster.certificate <= forecaster.guarantee + 1e-9
    beyond = np.maximum(np.abs(forecaster.look_ahead.biases) - forecaster.memory[HIGH] / m, 0).sum()
    assert forecaster.memory[EXCESS] / m == pytest.approx(beyond)
    assert len(in_use(forecaster.memory)) == TABLE + 2 * (m + 1)


def test_an_eager_grid_moves_good_hints_less_for_a_greater_certificate_within_the_same_guarantee():
    rng = np.random.default_rng(3)
    hints = rng.beta(2, 5, 50_000)
    outcomes = rng.random(len(hints)) < hints
    calm = AlmostOneStepAhead(slack=1.5, report="hint", hints=True)
    eager = AlmostOneStepAhead(slack=1.5, hints=True)
    moved = [np.abs(one.replay(outcomes, hints) - hints).mean() for one in (calm, eager)]
    assert moved[1] < 0.95 * moved[0]
    assert calm.certificate < eager.certificate <= eager.guarantee == calm.guarantee
