"""Slack and report, unless set, change with the first hint; until then all is as it ever was."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary import defaults
from onlinecal.forecasters.binary.grids import dyadic, uniform
from tests.forecasters.configurations import label

WITHOUT = {"slack": defaults.SLACK_WITHOUT_HINTS, "report": defaults.REPORT_WITHOUT_HINTS}
FIXED = {"slack": defaults.SLACK_ON_FIXED_GRIDS, "report": "hint"}
TUNED = {"slack": defaults.SLACK_WITH_HINTS, "report": "hint"}
BEGINNINGS = [
    ({}, TUNED),
    ({"slack": 0.75}, {"report": "hint"}),
    ({"report": "midpoint"}, {"slack": defaults.SLACK_WITH_HINTS}),
    ({"rule": "sign"}, {"report": "hint"}),
    ({"grid": "nested"}, FIXED),
    ({"n_cells": 4}, FIXED),
    ({"n_cells": 7, "slack": 0.5}, {"report": "hint"}),
    ({"horizon": 40}, FIXED),
    ({"window": 30}, FIXED),
    ({"n_cells": 3, "rule": "sign"}, {"report": "hint"}),
]
CONFIGS = [config for config, _ in BEGINNINGS]
TOLERANCE = 1e-9


def without_bits(forecaster):
    """The memory but for what it notes of the defaults."""
    memory = forecaster.machine.rules.in_use(forecaster.memory).tolist()
    if forecaster.machine.rules is uniform:
        memory[uniform.DEFAULTS] = 0
    else:
        memory[dyadic.TUNED] &= (1 << dyadic.DEFAULTS) - 1
    return memory


@pytest.mark.parametrize(("config", "with_hints"), BEGINNINGS, ids=label)
def test_without_hints_and_with_hints_from_the_first_round_on_it_is_what_could_be_set(config, with_hints):
    rng = np.random.default_rng(0)
    outcomes, hints = rng.random(500) < 0.3, rng.random(500)
    for guide, settings in ((None, WITHOUT), (hints, with_hints)):
        forecaster, meant = AlmostOneStepAhead(**config), AlmostOneStepAhead(**{**settings, **config})
        if guide is not None:
            meant.refine_eagerly()
        for shares in (outcomes, np.where(outcomes, 0.8, 0.1)):
            played, wanted = forecaster.replay(shares, guide), meant.replay(shares, guide)
            assert played.tolist() == wanted.tolist()
            assert without_bits(forecaster) == without_bits(meant)
            assert forecaster.guarantee == meant.guarantee
            assert forecaster.window_guarantee == meant.window_guarantee


def checked(forecaster, late=0):
    """No bias beyond c, but for one charge of a free point and late labels; certificates below guarantees."""
    slack = 1.0 if forecaster.rule == "sign" else forecaster.slack_of(forecaster.memory)
    points, biases = forecaster.look_ahead
    charge = np.maximum(points, 1 - points)
    assert (np.abs(biases) <= np.maximum(slack, charge) + late * charge + TOLERANCE).all()
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
    if forecaster.window_guarantee is not None:
        assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE


@pytest.mark.parametrize("config", [*CONFIGS, {"n_cells": 1}, {"n_cells": 2}], ids=label)
def test_whenever_hints_begin_the_guarantee_holds_before_and_after(config):
    for outcomes in product((0, 1), repeat=6):
        for first in range(6):
            forecaster = AlmostOneStepAhead(**config)
            for t, y in enumerate(outcomes):
                hint = None if t < first else (0.4, 0.9, 0.0)[t % 3]
                forecaster.observe(forecaster.forecast(hint), y)
            checked(forecaster)


@pytest.mark.parametrize("late", [0, 3])
@pytest.mark.parametrize("config", CONFIGS, ids=label)
def test_long_streams_too_in_events_replays_and_copies(config, late):
    for first in (1, 5, 23, 180):
        rng = np.random.default_rng(first)
        forecaster, replayed, waiting = AlmostOneStepAhead(**config), AlmostOneStepAhead(**config), []
        before = forecaster.guarantee
        for t in range(500):
            waiting.append(forecaster.forecast(None if t < first else rng.choice([0.1, 0.31, rng.random()])))
            if t == first:
                assert forecaster.guarantee >= before
                forecaster = pickle.loads(pickle.dumps(forecaster))
            while len(waiting) > late or (waiting and rng.random() < 0.4):
                token = waiting.pop(rng.integers(len(waiting)))
                forecaster.observe(token, (token.probability < 0.5) ^ (rng.random() < 0.2))
            before = forecaster.guarantee
            if t % 7 == 0:
                checked(forecaster, late)
        # a replay is the same as events
        outcomes, hints = rng.integers(0, 2, 200), rng.random(200)
        played = AlmostOneStepAhead(**config)
        replayed.replay(outcomes[:first])
        played.replay(outcomes[:first])
        forecasts = []
        for y, hint in zip(outcomes, hints, strict=True):
            token = played.forecast(hint)
            forecasts.append(token.probability)
            played.observe(token, y)
        assert replayed.replay(outcomes, hints).tolist() == forecasts
        assert replayed.memory[: len(played.memory)].tolist() == played.memory.tolist()


def test_a_first_hint_counts_for_the_coming_round_of_the_river_face_too():
    forecaster = AlmostOneStepAhead()
    forecaster.replay([1, 0, 1, 1] * 30)
    forecaster.withdraw(forecaster.forecast(0.2))
    forecast = forecaster.predict_proba_one({})[True]
    again = AlmostOneStepAhead()
    again.replay([1, 0, 1, 1] * 30)
    again.expect_hints()
    assert again.predict_proba_one({})[True] == forecast == forecaster.forecast().probability
    assert again.guarantee == forecaster.guarantee


@pytest.mark.parametrize("config", [{}, {"n_cells": 5}, {"n_cells": 5, "rule": "sign"}], ids=label)
def test_a_memory_whose_marks_do_not_fit_its_settings_is_refused(config):
    for asked, other in ((config, {**config, **WITHOUT}), ({**config, **WITHOUT}, config)):
        for guide in (None, [0.3, 0.7, 0.1]):
            forecaster = AlmostOneStepAhead(**asked)
            forecaster.replay([1, 0, 1], guide)
            state = pickle.dumps(forecaster)
            assert pickle.loads(state).memory.tolist() == forecaster.memory.tolist()
            forecaster.slack, forecaster.report = other.get("slack"), other.get("report")
            with pytest.raises(ValueError, match="cannot be that of any run"):
                pickle.loads(pickle.dumps(forecaster))
