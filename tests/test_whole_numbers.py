"""Whole numbers that are written as floats, 1e6 rows say, are taken wherever a number of things is due."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

from onlinecal import adversaries, measures, recalibration
from onlinecal.engine import KeyConfig
from tests.estimators import EXAMPLES

COUNTS = {
    "horizon", "window", "n_cells", "n_bins", "n_levels", "cv", "n_classes",
    "n_buckets", "n_atoms", "n_actions", "n_recent", "capacity", "first_fit", "max_rounds", "min_rows",
    "most_waiting",
}  # fmt: skip
"""Parameters that are whole numbers, of whatever class."""


def cases() -> list[Any]:
    """Each example of an estimator with a parameter that is set to a whole number, or is one by default."""
    found = {}
    for name, example in EXAMPLES.items():
        kind = type(example.build())
        for parameter, about in inspect.signature(kind).parameters.items():
            value = example.settings.get(parameter, about.default)
            if (kind.__name__, parameter) == ("RecalibratedClassifierCV", "cv"):
                continue  # scikit-learn reads it, as it may be more than a number there
            if parameter in COUNTS and type(value) is int and value > 0:
                found.setdefault((kind.__name__, parameter), (name, parameter, value))
    return [pytest.param(*case, id=f"{kind}-{parameter}") for (kind, parameter), case in found.items()]


def build(name: str, parameter: str, value: Any) -> Any:
    return type(EXAMPLES[name].build())(**{**copy.deepcopy(EXAMPLES[name].settings), parameter: value})


@pytest.mark.usefixtures("few_corrections")
@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")
@pytest.mark.parametrize("name, parameter, value", cases())
def test_a_whole_float_is_that_number(name, parameter, value):
    example = EXAMPLES[name]
    assert example.play(build(name, parameter, float(value)), example.first) == example.play(
        build(name, parameter, value), example.first
    )
    for bad in (value + 0.5, float("nan"), float("inf"), True, str(value)):
        with pytest.raises(ValueError, match=f"{parameter} must be"):
            example.play(build(name, parameter, bad), example.first)


def test_an_engines_keys_take_whole_floats():
    config = KeyConfig(horizon=1e6, lanes=2.0)
    assert config == KeyConfig(horizon=1_000_000, lanes=2)
    assert (type(config.horizon), type(config.lanes)) == (int, int)
    with pytest.raises(ValueError, match="lanes must be a whole number"):
        KeyConfig(lanes=1.5)


P, Y = [0.2, 0.2, 0.7, 0.9], [0, 1, 1, 1]
ROWS, LABELS = [[0.2, 0.8], [0.6, 0.4], [0.9, 0.1]], [1, 0, 0]
CALLS = {
    "n_bins": lambda count: measures.expected_calibration_error(P, Y, n_bins=count),
    "n_nodes": lambda count: measures.lower_calibration_distance(P, Y, n_nodes=count).upper,
    "n_draws": lambda count: measures.chance_level(P, "ece", Y, n_draws=count).p_value,
    "n_actions": lambda count: measures.decision_calibration_error(ROWS, LABELS, count),
    "top": lambda count: len(measures.lp_calibration_report(ROWS, LABELS, 2, n_bins=4, top=count)),
    "n_resamples": lambda count: measures.lp_calibration_interval(ROWS, LABELS, n_resamples=count),
    "n_classes": lambda count: recalibration.refrain_losses(count).tolist(),
    "T": lambda count: adversaries.all_sequences(count).tolist(),
    "horizon": lambda count: adversaries.create("threshold", horizon=count).horizon,
    "rounds": lambda count: adversaries.misleading_hints(count, 4).outcomes.tolist(),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_take_whole_floats(name):
    assert CALLS[name](3.0) == CALLS[name](np.float64(3.0)) == CALLS[name](3)
    for bad in (3.5, float("nan"), True):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            CALLS[name](bad)
