"""Windows of wrapped classifiers: what is promised of the last rounds, and which strategy promises enough.

That their certificates hold is tried in tests/test_certificates.py, of a tree in strategies/test_tree.py.
"""

import math

import numpy as np
import pytest

from onlinecal import CalibratedClassifier
from tests.wrappers.scripted import Said, Scripted, coins, played


def test_one_table_has_the_forecasters_bound_and_several_share_one_grid():
    for window in (100, 1000, 12345):
        one = CalibratedClassifier(Said(), window=window)
        played(one, coins(200))
        surprises = one._strategies["certain"].bounded()[0].certificate
        assert one.window_guarantee <= surprises + 2 * math.sqrt(2 * window) * 1.000001
        shared = CalibratedClassifier(Said(), window=window, n_buckets=5)
        played(shared, coins(200))
        assert shared.window_guarantee <= surprises + 2 * math.sqrt(2 * window * 5) * 1.000001


def test_what_does_not_go_is_refused():
    with pytest.raises(ValueError, match="simplex"):
        CalibratedClassifier(Said(), strategy="simplex", window=10)
    with pytest.raises(ValueError, match="window=10 does not go with n_buckets='auto'"):
        CalibratedClassifier(Said(), n_buckets="auto", window=10)
    for window in (0, 1.5, "10"):
        with pytest.raises(ValueError, match="window"):
            CalibratedClassifier(Said(), window=window)


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
    labels = list(range(k))
    model = CalibratedClassifier(Scripted(), window=window, classes=labels, **settings)
    assert model.current_strategy == name
    outlook = model._plan.outlook(k, window, is_window=True)
    assert name == "top-label" or outlook.share <= (0.2 if name == "simplex" else 0.5)
    rng = np.random.default_rng(k)
    for t in range(200):
        x = {"answer": dict(enumerate(rng.dirichlet(np.ones(k)))), "t": t}
        model.predict_proba_one(x)
        model.learn_one(x, int(rng.integers(k)))
    # what it could guarantee is what its windows are guaranteed, as they were forecast
    moved = sum(getattr(part, "window_given", 0.0) for part in model._parts())
    assert model.window_guarantee == pytest.approx(outlook.guarantee + moved, rel=1e-6)


def test_auto_needs_the_labels_for_a_joint_window():
    model = CalibratedClassifier(Scripted(), window=10**6)
    for t, label in enumerate("abc"):
        model.learn_one({"answer": {}, "t": t}, label)
    assert model.current_strategy == "classwise"
