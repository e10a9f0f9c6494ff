"""What river says an online estimator takes is what the estimator keeps, not the compiler behind it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from river import base

from onlinecal import forecasters, wrappers
from onlinecal.alarms import DistributionAlarm
from tests.estimators import public_estimators

MOST = 64 * 1024

ESTIMATORS = {kind.__name__: kind for kind in public_estimators() if issubclass(kind, base.Base)}


def after_rounds(kind: type[Any], labels: tuple[Any, ...]) -> Any:
    given = next(iter(kind._unit_test_params()), {})
    estimator = kind(**given)
    for t in range(100):
        x, y = {"a": float(t % 7)}, labels[t * t % 7 % len(labels)]
        if isinstance(estimator, base.Classifier):
            estimator.predict_proba_one(x)
            estimator.learn_one(x, y)
        elif isinstance(estimator, base.Regressor):
            estimator.predict_one(x)
            estimator.learn_one(x, float(y))
        elif isinstance(estimator, DistributionAlarm):
            estimator.update({0.5: 0.7}, float(y))
        elif isinstance(estimator, base.DriftDetector):
            estimator.update(0.3, y)
        else:
            estimator.update(y, {False: 0.7, True: 0.3})
    return estimator


@pytest.mark.filterwarnings(
    "ignore::onlinecal.LabelWarning", "ignore::onlinecal.recalibration.SampleSizeWarning"
)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_takes_no_more_than_it_keeps(name: str):
    estimator = after_rounds(ESTIMATORS[name], (False, True))
    put_down = pickle.dumps(estimator)
    # counts of many small tuples take about six times the room of their pickle
    most = max(MOST, 10 * len(put_down))
    assert estimator._raw_memory_usage < most < 4 * MOST
    assert pickle.loads(put_down)._raw_memory_usage < most


@pytest.mark.parametrize("strategy", ["auto", "binary", "simplex", "top-label", "classwise", "tree"])
def test_a_wrapper_takes_no_more_whatever_its_strategy(strategy: str):
    model = wrappers.CalibratedClassifier(forecasters_of_three(), strategy=strategy, n_buckets=3)
    for t in range(100):
        model.predict_proba_one({"a": t})
        model.learn_one({"a": t}, "xyz"[t * t % 7 % 3])
    assert model._raw_memory_usage < MOST


def forecasters_of_three() -> Any:
    return forecasters.SimplexAlmostOneStepAhead(labels=["x", "y", "z"])
