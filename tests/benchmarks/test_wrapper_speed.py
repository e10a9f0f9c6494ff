"""What CalibratedClassifier adds to a model's own time, against river's cheapest classifier."""

from __future__ import annotations

import time

import numpy as np
import pytest
from river import dummy, linear_model

from onlinecal import CalibratedClassifier, recalibrate_stream

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


@pytest.mark.parametrize(("late", "n_groups"), [(0, 1), (100, 1), (0, 20_000)])
def test_a_million_rows_of_a_column(note, late, n_groups):
    rng = np.random.default_rng(0)
    p = rng.random(10**6)
    y, settled_at = rng.random(10**6) < p**1.5, np.arange(10**6) // (late + 1) * (late + 1) + late
    groups = rng.integers(0, n_groups, 10**6) if n_groups > 1 else None
    recalibrate_stream(p[:300], y[:300])
    start = time.perf_counter()
    recalibrate_stream(p, y, settled_at, groups=groups)
    seconds = time.perf_counter() - start
    name = f"recalibrate_stream, 10^6 rows, outcomes up to {late} rows late, {n_groups:,} groups"
    note(f"{name:75s} {seconds:9.4f} s   target 3 s")
