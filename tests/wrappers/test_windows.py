"""Windows of wrapped classifiers: what is promised of the last rounds, and which strategy promises enough.

That their certificates hold is tried in tests/test_certificates.py, of a tree in strategies/test_tree.py.
"""

import math
from itertools import product

import numpy as np
import pytest

from onlinecal import CalibratedClassifier
from tests.wrappers.scripted import Said, Scripted, coins, played


def test_one_table_has_the_forecasters_bound_and_several_share_one_grid():
    for window, buckets in product((100, 12345), (1, 5)):
        model = CalibratedClassifier(Said(), window=window, n_buckets=buckets)
        played(model, coins(200))
        surprises = model._strategies["certain"].bounded()[0].certificate
        assert model.window_guarantee <= surprises + 2 * math.sqrt(2 * window * buckets) * 1.000001


@pytest.mark.parametrize(
    ("k", "window", "settings", "name"),
    [
        (3, 10**6, {}, "simplex"),
        (3, 10**4, {"slack": 1.0}, "simplex"),
        (3, 10**4, {}, "classwise"),
        (10, 1000, {}, "tree"),
        (26, 1000, {}, "top-label"),
    ],
)
def test_auto_is_what_can_be_guaranteed_of_any_window(k, window, settings, name):
    model = CalibratedClassifier(Scripted(), window=window, classes=list(range(k)), **settings)
    assert model.current_strategy == name
    outlook = model._plan.outlook(k, window, is_window=True)
    assert name == "top-label" or outlook.share <= (0.2 if name == "simplex" else 0.5)
    rng = np.random.default_rng(k)
    rounds = [
        ({"answer": dict(enumerate(rng.dirichlet(np.ones(k)))), "t": t}, int(rng.integers(k)))
        for t in range(200)
    ]
    played(model, rounds)
    # what it could guarantee is what its windows are guaranteed, as they were forecast
    moved = sum(getattr(part, "window_given", 0.0) for part in model._parts())
    assert model.window_guarantee == pytest.approx(outlook.guarantee + moved, rel=1e-6)


def test_auto_needs_the_labels_for_a_joint_window():
    model = CalibratedClassifier(Scripted(), window=10**6)
    for t, label in enumerate("abc"):
        model.learn_one({"answer": {}, "t": t}, label)
    assert model.current_strategy == "classwise"
