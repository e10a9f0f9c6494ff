"""Points without bias accept both outcomes while the accounts cover it: hints, coins, changing worlds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import HIGH, TABLE
from onlinecal.forecasters.binary.grids.uniform import EXCESS, in_use
from tests.forecasters.configurations import fresh, label

ROUNDS = 10**6


@pytest.mark.parametrize(
    "config",
    [
        {"n_cells": 51},
        {"n_cells": 52},
        {"n_cells": 64},
        {"n_cells": 51, "slack": 0.75},
        {"n_cells": 51, "report": "hint"},
        {"n_cells": 51, "rule": "sign"},
        {"horizon": 2000},
        {},
        {"slack": 1.0, "report": "hint"},
    ],
    ids=label,
)
def test_hints_that_are_always_right_are_followed_from_the_first_visit(config):
    outcomes = np.random.default_rng(0).integers(0, 2, 2000)
    forecaster = fresh(config, hints=True)
    forecasts = forecaster.replay(outcomes, outcomes.astype(float))
    assert ((forecasts - outcomes) ** 2).sum() < 0.3
    assert forecaster.certificate <= forecaster.guarantee


@pytest.mark.parametrize("report", ["midpoint", "hint", "upper"])
@pytest.mark.parametrize("slack", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("m", [2, 3, 4, 7])
@pytest.mark.parametrize("length", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_whatever_hints_and_outcomes_the_certificate_is_below_the_guarantee(m, slack, report, length):
    rounds = list(product((0.0, 0.4, 0.7), (0, 1)))
    for game in product(rounds, repeat=length):
        hints, outcomes = zip(*game, strict=True)
        forecaster = AlmostOneStepAhead(n_cells=m, slack=slack, report=report, hints=True)
        forecaster.replay(outcomes, hints)
        assert forecaster.certificate <= forecaster.guarantee + 1e-9
    beyond = np.maximum(np.abs(forecaster.look_ahead.biases) - forecaster.memory[HIGH] / m, 0).sum()
    assert forecaster.memory[EXCESS] / m == pytest.approx(beyond)
    assert len(in_use(forecaster.memory)) == TABLE + m + 1


@pytest.mark.parametrize(
    "bias", [0.2, 0.5, 0.85, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.1, 0.3, 0.4))]
)
@pytest.mark.parametrize("hinted", [False, True])
def test_on_every_coin_the_certificate_is_at_most_032_root_t(bias, hinted):
    outcomes = np.random.default_rng(0).random(ROUNDS) < bias
    forecaster = AlmostOneStepAhead(slack=0.5, report="midpoint", hints=hinted)
    forecaster.replay(outcomes, np.full(ROUNDS, bias) if hinted else None)
    assert forecaster.certificate <= 0.32 * np.sqrt(ROUNDS)


def test_an_eager_grid_moves_good_hints_less_for_a_greater_certificate_within_the_same_guarantee():
    rng = np.random.default_rng(3)
    hints = rng.beta(2, 5, 50_000)
    outcomes = rng.random(len(hints)) < hints
    calm = AlmostOneStepAhead(slack=1.5, report="hint", hints=True)
    eager = AlmostOneStepAhead(slack=1.5, hints=True)
    moved = [np.abs(one.replay(outcomes, hints) - hints).mean() for one in (calm, eager)]
    assert moved[1] < 0.95 * moved[0]
    assert calm.certificate < eager.certificate <= eager.guarantee == calm.guarantee
