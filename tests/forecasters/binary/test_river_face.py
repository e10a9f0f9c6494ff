"""The river face: labels of every kind, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1, 0, 1],
        [np.True_, np.False_, np.True_],
        list(np.array([1, 0, 1])),
        [1.0, 0.0, 1.0],
    ],
)
def test_labels_of_every_kind_mean_the_same(labels):
    plain, other = AlmostOneStepAhead(), AlmostOneStepAhead()
    for y, label in zip([True, False, True], labels, strict=True):
        plain.learn_one({}, y)
        other.learn_one({}, label)
    assert other.predict_proba_one({}) == plain.predict_proba_one({})
    assert other.memory.tolist() == plain.memory.tolist()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"n_cells": 0}, "n_cells"),
        ({"grid": "square"}, "grid must be one of auto, uniform, nested, adaptive, got 'square'"),
        ({"rule": "fair"}, "rule must be one of"),
        ({"report": "middle"}, "report must be one of"),
        ({"slack": 0.4}, "slack must be a number from 0.5"),
        ({"grid": "uniform"}, "needs a horizon or n_cells"),
        ({"grid": "adaptive", "n_cells": 5}, "fixes a uniform grid"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        AlmostOneStepAhead(**parameters)
