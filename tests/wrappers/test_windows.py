"""Windows of wrapped classifiers: what is promised of the last rounds, and which strategy promises enough.

That their certificates hold is tried in tests/test_certificates.py, of a tree in strategies/test_tree.py.
"""

import math
from itertools import product

import numpy as np
import pytest

from onlinecal import CalibratedClassifier
from onlinecal.steering.binary import PARTS
from onlinecal.wrappers.strategies.projection import Projection
from tests.wrappers.scripted import Said, Scripted, coins, played


def test_one_table_has_the_forecasters_bound_and_several_share_one_grid():
    for window, buckets in product((100, 12345), (1, 5)):
        model = CalibratedClassifier(Said(), window=window, n_buckets=buckets, classes=[False, True])
        played(model, coins(200))
        assert model.window_guarantee <= 2 * math.sqrt(2 * window * buckets) * 1.000001


@pytest.mark.parametrize(
    ("k", "name", "settings"),
    [
        (3, "simplex", {"window": 10**6}),
        (3, "simplex", {"window": 10**4, "slack": 1.0}),
        (3, "classwise", {"window": 10**4}),
        (10, "tree", {"window": 1000}),
        (26, "top-label", {"window": 1000}),
        (3, "simplex", {"horizon": 10**6}),
        (3, "classwise", {"horizon": 1000}),
        (26, "tree", {"horizon": 10**4}),
        (26, "classwise", {"horizon": 10**5}),
        (20, "top-label", {"horizon": 300}),
    ],
)
def test_auto_is_what_can_be_guaranteed_of_windows_or_the_horizon(k, name, settings):
    window, rounds = "window" in settings, settings.get("window") or settings["horizon"]
    model, rng = (
        CalibratedClassifier(Scripted(), classes=list(range(k)), **settings),
        np.random.default_rng(k),
    )
    assert model.current_strategy == name
    promised, trivial = model._plan.current.outlook(k, rounds, is_window=window)
    assert name == "top-label" or promised / trivial <= (0.2 if name == "simplex" else 0.5)
    shares = rng.dirichlet(np.ones(k), 200 if window else min(rounds, 1000))
    played(
        model,
        [({"answer": dict(enumerate(row)), "t": t}, int(rng.integers(k))) for t, row in enumerate(shares)],
    )
    # what it could guarantee is what its rounds, or its windows, are guaranteed, as they were forecast
    if window:
        parts = [part for part in model._plan.parts() if isinstance(part, Projection)]
        moved = sum(part._recently_away.most / PARTS for part in parts)
        assert model.window_guarantee == pytest.approx(promised + moved, rel=1e-6)
    elif rounds <= 1000:
        tables = [table for part in model._plan.current.bounded() for table in part.tables]
        assert sum(table.guarantee for table in tables) == pytest.approx(promised, rel=0.01)


def test_auto_needs_the_labels_for_a_joint_window():
    model = CalibratedClassifier(Scripted(), window=10**6)
    for t, label in enumerate("abc"):
        model.learn_one({"answer": {}, "t": t}, label)
    assert model.current_strategy == "classwise"
