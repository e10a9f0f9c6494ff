"""Which outcomes a forecaster takes does not depend on the way in which it is told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.estimators import EXAMPLES

FORECASTERS = {
    name: example
    for name, example in EXAMPLES.items()
    if type(example.build()).__module__.startswith("onlinecal.forecasters")
}
"""All that are public, with their settings."""
OUTCOMES: list[Any] = [
    0, 1, True, False, 0.0, 1.0, np.int64(1), np.bool_(False), np.float32(1.0), 0.3, np.float32(0.25), 1e-300,
    Fraction(1, 3), Fraction(1), Decimal(1), -0.0, 1.5, -1, 2, 1 + 0j, 0.5 + 0.5j, float("nan"), float("inf"),
    None, "yes", "1", (), [1], {}, {0: 0.5, 1: 0.5}, {0: 1.0},
    {0: 0.7}, {True: 0.5, False: 0.5}, np.array([0.5, 0.5]),
]  # fmt: skip


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "learn_one": lambda model, y: model.learn_one({}, y),
    "observe": lambda model, y: model.observe(model.forecast(), y),
    "answer": lambda model, y: model.answer(y),
    "replay": lambda model, y: model.replay([y]),
}


def is_taken(way: str, model: Any, outcome: Any) -> bool:
    try:
        WAYS[way](copy.deepcopy(model), outcome)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", FORECASTERS)
def test_all_ways_take_the_same_outcomes(name):
    model = FORECASTERS[name].build()
    model.learn_one({}, 1)
    ways = [way for way in WAYS if hasattr(model, way)]
    assert len(ways) > 1
    for outcome in OUTCOMES:
        taken = {way: is_taken(way, model, outcome) for way in ways}
        assert len(set(taken.values())) == 1, (outcome, taken)
