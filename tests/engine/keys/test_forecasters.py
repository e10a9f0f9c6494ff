"""A key of one lane is the forecaster, with hints, soft or late labels and windows, stored and loaded."""

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.engine import KeyConfig
from tests.engine.one_key import OneKey

LABELS = ("a", "b", "c")
NESTED = {"report", "n_cells", "horizon", "window"}
"""The engine's keys have the grid that tunes itself, unless one of these fixes it."""


def binary(**settings):
    forecaster = AlmostOneStepAhead(hints=True, **settings)
    return {"kind": "binary", **settings}, forecaster


def simplex(classes=None, **settings):
    grid = "nested" if NESTED.intersection(settings) else "adaptive"
    forecaster = SimplexAlmostOneStepAhead(labels=classes, grid=grid, hints=True, **settings)
    return {"kind": "simplex", "classes": classes, **settings}, forecaster


def hint_for(rng, forecaster):
    """A hint, if all classes are known; its numbers add up to 1 without rounding."""
    if not isinstance(forecaster, SimplexAlmostOneStepAhead):
        return rng.random()
    row = rng.multinomial(64, rng.dirichlet(np.ones(3))) / 64
    return dict(zip(LABELS, row.tolist(), strict=True)) if set(forecaster.classes) == set(LABELS) else None


def outcome_for(rng, forecaster):
    """An event or a share of one; a class, or a soft label of some of the classes, in any order."""
    plain = rng.random() < 0.5
    if not isinstance(forecaster, SimplexAlmostOneStepAhead):
        return int(rng.random() < 0.2) if plain else round(rng.random(), 2)
    some = rng.permutation(LABELS)[: 1 if plain else rng.integers(1, 4)].tolist()
    return some[0] if plain else dict(zip(some, rng.dirichlet(np.ones(len(some))).tolist(), strict=True))


@pytest.mark.parametrize("most", [0, 4])
@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (binary, {"window": 20}),
        (binary, {"window": 20, "report": "hint", "slack": 1.0}),
        (binary, {"horizon": 300, "rule": "sign"}),
        (simplex, {}),
        (simplex, {"classes": LABELS, "horizon": 300}),
        (simplex, {"classes": LABELS, "window": 40}),
        (simplex, {"classes": LABELS, "slack": 1.0, "report": "hint", "window": 40, "n_cells": 7}),
        (simplex, {"slack": 2.0, "report": "hint"}),
    ],
)
def test_answers_are_those_of_the_forecaster_bit_for_bit(make, settings, most):
    rng, waiting = np.random.default_rng(len(str(settings)) + most), []
    config, forecaster = make(**settings)
    state, answer = OneKey(KeyConfig(steering=False, **config)), "probability"
    if make is simplex:
        answer = "probabilities"
    for i in range(250):
        hint = hint_for(rng, forecaster) if i > 30 and rng.random() < 0.8 else None
        waiting.append((forecaster.forecast(hint), state.ask(str(i), 2 * i, hint)))
        state.run()
        while len(waiting) > (most if i % 5 else 0):
            token, issued = waiting.pop(int(rng.integers(len(waiting))))
            assert issued.probability == getattr(token, answer)
            value = outcome_for(rng, forecaster)
            state.close(issued, state.key.settings.kind.outcome_of(value))
            state.run()
            forecaster.observe(token, value)
        found = state.summary()
        assert (found.certificate, found.guarantee) == (forecaster.certificate, forecaster.guarantee)
        if "window" in settings:
            bounds = found.window_certificate, found.window_guarantee
            assert bounds == (forecaster.window_certificate, forecaster.window_guarantee)
        if i % 50 == 49:
            again = state.again()
            assert again.dump() == state.dump()
            waiting = [(token, again.open[issued.id]) for token, issued in waiting]
            state = again
    assert state.summary().rounds > 200
