"""Points without bias accept both outcomes while the accounts cover it: hints, coins, changing worlds."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import HIGH, TABLE
from onlinecal.forecasters.binary.grids.uniform import EXCESS, in_use
from tests.forecasters.configurations import fresh, label

ROUNDS = 10**6


def first_edition(**config):
    """The same forecaster by the rules of version 0.1."""
    forecaster = AlmostOneStepAhead(**config)
    forecaster.memory = forecaster.machine.rules.as_first_edition(forecaster.memory)
    forecaster.resume()
    return forecaster


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
    forecaster = fresh(config)
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
        forecaster = AlmostOneStepAhead(n_cells=m, slack=slack, report=report)
        forecaster.replay(outcomes, hints)
        assert forecaster.certificate <= forecaster.guarantee + 1e-9
    beyond = np.maximum(np.abs(forecaster.look_ahead.biases) - forecaster.memory[HIGH] / m, 0).sum()
    assert forecaster.memory[EXCESS] / m == pytest.approx(beyond)
    assert len(in_use(forecaster.memory)) == TABLE + m + 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("config", [{"n_cells": 9}, {"n_cells": 8, "report": "hint"}, {}], ids=label)
def test_with_late_labels_too(config, seed):
    rng = np.random.default_rng(seed)
    forecaster, waiting = fresh(config), []
    for _ in range(600):
        waiting.append(forecaster.forecast(rng.choice([0.1, 0.3, 0.31, 0.9, rng.random()])))
        while len(waiting) > 4 or (waiting and rng.random() < 0.4):
            token = waiting.pop(rng.integers(len(waiting)))
            # against the forecast, most of the time
            forecaster.observe(token, (token.probability < 0.5) ^ (rng.random() < 0.2))
            assert forecaster.certificate <= forecaster.guarantee + 1e-9


@pytest.mark.parametrize(
    "bias", [0.2, 0.5, 0.85, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.1, 0.3, 0.4))]
)
@pytest.mark.parametrize("hinted", [False, True])
def test_on_every_coin_the_certificate_is_at_most_032_root_t(bias, hinted):
    outcomes = np.random.default_rng(0).random(ROUNDS) < bias
    forecaster = AlmostOneStepAhead(slack=0.5, report="midpoint")
    forecaster.replay(outcomes, np.full(ROUNDS, bias) if hinted else None)
    assert forecaster.certificate <= 0.32 * np.sqrt(ROUNDS)


SWITCHING = {
    "blocks of 100": lambda t: t // 100 % 2,
    "blocks of 700": lambda t: t // 700 % 2,
    ".1 and .9 by hundreds": lambda t: np.where(t // 100 % 2, 0.9, 0.1),
    ".1 and .9 by thousands": lambda t: np.where(t // 1000 % 2, 0.9, 0.1),
    ".3 and .7 by thousands": lambda t: np.where(t // 1000 % 2, 0.7, 0.3),
    "levels": lambda t: np.random.default_rng(5).random(100)[t // 1000],
    "drift": lambda t: t / len(t),
}


@pytest.mark.parametrize("kind", SWITCHING)
def test_on_streams_that_switch_it_costs_at_most_a_quarter(kind):
    biases = SWITCHING[kind](np.arange(10**5))
    outcomes = np.random.default_rng(1).random(10**5) < biases
    today, before = AlmostOneStepAhead(), first_edition()
    today.replay(outcomes)
    before.replay(outcomes)
    assert today.certificate <= 1.25 * before.certificate


def test_an_eager_grid_moves_good_hints_less_for_a_greater_certificate_within_the_same_guarantee():
    rng = np.random.default_rng(3)
    hints = rng.beta(2, 5, 50_000)
    outcomes = rng.random(len(hints)) < hints
    calm, eager = (AlmostOneStepAhead(slack=1.5, report="hint") for _ in range(2))
    eager.refine_eagerly()
    moved = [np.abs(one.replay(outcomes, hints) - hints).mean() for one in (calm, eager)]
    assert moved[1] < 0.95 * moved[0]
    assert calm.certificate < eager.certificate <= eager.guarantee == calm.guarantee
    again = pickle.loads(pickle.dumps(eager))
    assert (
        again.replay(outcomes[:999], hints[:999]).tolist()
        == eager.replay(outcomes[:999], hints[:999]).tolist()
    )
    uniform = AlmostOneStepAhead(n_cells=5, report="hint")
    before = uniform.memory.tolist()
    uniform.refine_eagerly()
    assert uniform.memory.tolist() == before
