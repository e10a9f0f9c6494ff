"""No accumulator ever wraps: a forecaster whose integers are full says so, and stays as it was."""

import math
import pickle

import numpy as np
import pytest
from river import linear_model

from onlinecal import AlmostOneStepAhead, CalibratedClassifier, SimplexAlmostOneStepAhead
from onlinecal.engine import Engine, Outcome, Query
from onlinecal.forecasters import RunningMean
from onlinecal.forecasters.baselines import mixing
from onlinecal.forecasters.binary import cells, dyadic
from onlinecal.forecasters.binary.cells import FINE, MOVED, REPORT, ROUNDS, SCALE, SPREAD
from onlinecal.forecasters.binary.guarantees import MOST_PROMISED, Biases
from onlinecal.forecasters.simplex.machine import memory as simplex
from tests.forecasters.configurations import ANYTIME, RULES

FULL = "would overflow"
CONFIGS = [{**rule, "n_cells": m} for rule in RULES for m in (1, 7)] + ANYTIME[::3]
WORDS = [MOVED, SPREAD, ROUNDS]


def refused(play, *arguments):
    """Whether a call is refused because the integers are full."""
    try:
        play(*arguments)
    except ValueError as error:
        return FULL in str(error)
    return False


def fill(memory, word, missing):
    """Set an accumulator so that it is `missing` below the largest integer."""
    memory[word] = (1 << 63) - 1 - missing


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((AlmostOneStepAhead, config) for config in CONFIGS),
        *((SimplexAlmostOneStepAhead, config) for config in ({"n_classes": 3, "hints": True}, {})),
    ],
)
def test_a_full_forecaster_refuses_and_stays_as_it_was(kind, config):
    words = [simplex.MOVED]
    if kind is AlmostOneStepAhead:
        words = [*WORDS, *([dyadic.SAVED] if kind(**config).machine.rules is dyadic else [])]
    for word in words:
        forecaster = kind(**config)
        forecaster.replay([0, 1] * 3)
        token = forecaster.forecast()
        least = (1 << 31) - 1000 if kind is AlmostOneStepAhead else (1 << 32) - 300
        assert forecaster._most_rounds >= least
        fill(forecaster.memory, word, 5)
        before = forecaster.memory.tolist()
        calls = [(forecaster.learn_one, {}, 1), (forecaster.observe, token, 1), (forecaster.replay, [1] * 50)]
        if "n_classes" not in config and kind is SimplexAlmostOneStepAhead:
            calls.append((forecaster.learn_one, {}, "new"))
        for call in calls:
            assert refused(*call)
            assert (forecaster.memory.tolist(), forecaster.n_open) == (before, 1)


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_wraps_on_the_way_to_the_brim(config):
    own = [dyadic.SAVED] if "grid" in config else []
    for word in [*WORDS, *own]:
        forecaster = AlmostOneStepAhead(**{**config, "hints": True})
        fill(forecaster.memory, word, (1 << 38) + (1 << 36))
        last = forecaster.memory[WORDS].tolist()
        for y in [1, 0, 0, 1] * 50:
            token = forecaster.forecast(0.3)
            if refused(forecaster.observe, token, y):
                break
            now = forecaster.memory[WORDS].tolist()
            assert now[0] >= last[0]
            assert now[1] >= -1
            assert now[2] > last[2]
            last = now
        assert forecaster.certificate >= 0.0


@pytest.mark.parametrize("config", CONFIGS)
def test_what_a_setting_is_said_to_bear_fits_its_integers(config):
    forecaster = AlmostOneStepAhead(**config)
    most, memory = forecaster._most_rounds, forecaster.memory
    m, unit = int(memory[SCALE]), 2 * int(memory[SCALE]) * int(memory[FINE])
    bound = forecaster._promise(most)
    if "grid" in config:
        assert most <= MOST_PROMISED
        assert (bound + 3) * unit < cells.BRIM
        assert forecaster.machine.rules is not dyadic or (
            dyadic.next_step([*memory[:ROUNDS].tolist(), most - 1, *memory[ROUNDS + 1 :].tolist()]) > 0
        )
    else:
        price = int(memory[FINE]) * (1 if forecaster.report in (None, "midpoint") else 2) + (
            memory[REPORT] == 3
        )
        assert most * int(price) <= cells.BRIM + 2 * price
        slack = memory[cells.HIGH] / memory[SCALE]
        assert Biases.under(forecaster.rule, slack).worst * (m - 1) * m < cells.BRIM


def test_a_horizon_that_cannot_be_played_is_refused():
    with pytest.raises(ValueError, match="horizon must be at most"):
        AlmostOneStepAhead(horizon=10**11, n_cells=2)
    for horizon, made in ((10**11, {"n_cells": 1000}), (10**9 + 7, {})):
        assert AlmostOneStepAhead(horizon=horizon, **made)._most_rounds > horizon


@pytest.mark.slow
def test_with_too_many_rounds_for_a_graded_grid_it_is_uniform():
    forecaster = AlmostOneStepAhead(horizon=10**15)
    assert forecaster._most_rounds > 10**15
    assert forecaster.guarantee <= math.sqrt(10**15)


def test_a_wrapper_whose_table_is_full_learns_nothing():
    model = CalibratedClassifier(linear_model.LogisticRegression(), horizon=1)
    for t in range(4):
        model.predict_proba_one({"a": t})
        model.learn_one({"a": t}, t % 2 == 0)
    model.predict_proba_one({"a": 0.5})
    fill(model._plan.strategies["binary"].projection(True).tables[0].memory, MOVED, 1)
    before = model.n_rounds, model.certificate
    with pytest.raises(ValueError, match=FULL):
        model.learn_one({"a": 0.5}, True)
    assert (model.n_rounds, model.certificate) == before


def test_a_mixing_machine_stops_before_its_counts_stand_still():
    forecaster = RunningMean()
    forecaster.replay([0, 1])
    forecaster.memory[mixing.ROUNDS] = 2.0**53 - 8
    assert any(refused(forecaster.learn_one, {}, 1) for _ in range(8))
    before = forecaster.memory.tolist()
    assert refused(forecaster.replay, np.ones(20, np.uint8))
    assert forecaster.memory.tolist() == before


def test_the_setting_that_wrapped():
    """One cell, the lower end, ones only: each round adds 1 to the distance."""
    forecaster = AlmostOneStepAhead(n_cells=1, report="lower")
    forecaster.replay(np.ones(3, np.uint8))
    assert forecaster.memory[MOVED] == 3 << 32
    most = forecaster._most_rounds
    assert 2.1e9 < most < 2.15e9
    forecaster.memory[[ROUNDS, MOVED]] = most - 3, (most - 3) << 32
    assert forecaster.replay([1, 1, 1]).tolist() == [0.0] * 3
    assert (forecaster.n_rounds, forecaster.certificate) == (most, float(most))
    with pytest.raises(ValueError, match=FULL):
        forecaster.learn_one({}, 1)
    assert pickle.loads(pickle.dumps(forecaster)).certificate == float(most)


def test_no_more_forecasts_are_asked_of_a_full_key_and_the_open_ones_settle():
    with Engine() as engine:
        engine.handle([Query("a", "k"), Query("b", "k"), Outcome("a", 1)])
        book = engine._book
        book.arrays.memory(book.keys["k"].first_lane)[[ROUNDS, MOVED]] = 1 << 40, (1 << 63) - (1 << 60)
        engine.handle([Query("c", "k"), Outcome("b", 1)])
        answer = engine.handle([Query("d", "k")])[0]
        assert answer.reason == "full"
        assert "as many rounds as can be counted" in answer.detail
        assert engine.handle([Outcome("c", 0)])[0].id == "c"


def test_open_forecasts_hardly_take_rounds_from_a_grid_without_a_horizon():
    forecaster = AlmostOneStepAhead()
    for _ in range(2_000):
        forecaster.forecast()
    assert forecaster._most_rounds > 1 << 40
