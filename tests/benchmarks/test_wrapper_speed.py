"""What CalibratedClassifier adds to a model's own time, against river's cheapest classifier."""

from __future__ import annotations

import numpy as np
import pytest
from river import dummy, linear_model

from onlinecal import CalibratedClassifier

MODELS = {
    "LogisticRegression": linear_model.LogisticRegression,
    "PriorClassifier": dummy.PriorClassifier,
}


def coins(count=100_000):
    rng = np.random.default_rng(0)
    return [
        ({"a": a}, bool(y)) for a, y in zip(rng.random(count).tolist(), rng.random(count) < 0.4, strict=True)
    ]


ROUNDS = coins()


def pairs(model):
    for x, y in ROUNDS:
        model.predict_proba_one(x)
        model.learn_one(x, y)


@pytest.mark.parametrize("settings", [{}, {"n_buckets": 10}], ids=["plain", "ten buckets"])
@pytest.mark.parametrize("name", MODELS)
def test_the_wrapper_against_the_prior_classifier(compare, name, settings):
    build = MODELS[name]
    pairs(CalibratedClassifier(build(), **settings))
    compare(
        lambda: pairs(CalibratedClassifier(build(), **settings)),
        lambda: pairs(dummy.PriorClassifier()),
        "at most 2" if not settings else "none stated",
        less=lambda: pairs(build()),
    )
