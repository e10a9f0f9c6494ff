"""Windows of wrapped classifiers: what is proven of the last rounds when several tables share them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import datasets, linear_model, preprocessing

from onlinecal import CalibratedClassifier, calibration_distance
from tests.forecasters.simplex.test_windows import distance as joint_distance
from tests.wrappers.scripted import Said, Scripted, by_node

TOLERANCE = 1e-6


def coins(number, seed=0):
    """A model's probability and a label that follows it for a while, then its opposite."""
    rng = np.random.default_rng(seed)
    for t in range(number):
        p = round(rng.random(), 2)
        yield {"p": p, "t": t}, bool(rng.random() < (p if (t // 100) % 2 else 1 - p))


def classes(number, k, seed=0):
    """A model's probabilities of k labels, which appear one after the other."""
    rng = np.random.default_rng(seed)
    for t in range(number):
        known = min(k, 1 + t // 20)
        answer = dict(enumerate(rng.dirichlet(np.ones(known))))
        yield {"answer": answer, "t": t}, int(rng.integers(known))


def settled_windows(model, rounds, late, window):
    """After each label: the forecasts and labels of the last `window` rounds that have one."""
    asked, settled = [], []
    for t, (x, y) in enumerate(rounds):
        model.predict_proba_one(x)
        asked.append((x, y, model.forecasts_one(x)))
        if t >= late:
            x, y, forecasts = asked[t - late]
            model.learn_one(x, y)
            settled.append((forecasts, y))
            yield settled[-window:]


def distance_of(settled, together=False):
    """Summed over the labels' events, unless they are one; a label that was not forecast had a 0."""
    if any(isinstance(name, tuple) for forecasts, _ in settled for name in forecasts):
        nodes = by_node(settled).values()
        return sum(calibration_distance(p, y, method="exact").exact for p, y in nodes)
    events = {}
    for forecasts, y in settled:
        for name, p in forecasts.items():
            events.setdefault(None if together else name, []).append((p, float(y == name)))
        if y not in forecasts and len(forecasts) != 1:
            events.setdefault(y, []).append((0.0, 1.0))
    return sum(
        calibration_distance(*zip(*pairs, strict=True), method="exact").exact for pairs in events.values()
    )


BINARY = [
    {},
    {"slack": 0.5},
    {"n_buckets": 4},
    {"n_buckets": 3, "slack": 0.5, "horizon": 300},
    {"horizon": 300},
    {"strategy": "binary", "slack": 2.0},
]


@pytest.mark.parametrize("config", BINARY, ids=str)
@pytest.mark.parametrize("window", [1, 7, 40])
@pytest.mark.parametrize("late", [0, 5])
def test_the_window_of_all_tables_together(config, window, late):
    model = CalibratedClassifier(Said(), window=window, **config)
    for t, settled in enumerate(settled_windows(model, coins(300), late, window)):
        assert model.window_certificate <= model.window_guarantee + TOLERANCE
        if t % 5 == 0:
            assert distance_of(settled) <= model.window_certificate + TOLERANCE
    # the window is well below what the same rounds would cost one by one
    assert model.window_certificate < window


@pytest.mark.parametrize(
    ("strategy", "k"),
    [("auto", 3), ("auto", 5), ("classwise", 4), ("top-label", 4), ("binary", 3), ("tree", 4)],
)
@pytest.mark.parametrize("late", [0, 4])
def test_labels_that_appear_one_after_the_other(strategy, k, late):
    window = 30
    model = CalibratedClassifier(Scripted(), strategy=strategy, window=window)
    rounds = classes(250, k)
    for settled in settled_windows(model, rounds, late, window):
        assert model.window_certificate <= model.window_guarantee + TOLERANCE
        together = model.current_strategy == "top-label"
        assert distance_of(settled, together) <= model.window_certificate + TOLERANCE


@pytest.mark.parametrize("late", [0, 4])
def test_all_labels_together_if_they_are_known(late):
    window, k = 5, 3
    model = CalibratedClassifier(Scripted(), strategy="simplex", window=window, classes=range(k))
    for settled in settled_windows(model, classes(150, k), late, window):
        vectors = tuple(tuple(forecasts[label] for label in range(k)) for forecasts, _ in settled)
        due = joint_distance(vectors, tuple(y for _, y in settled))
        assert due <= model.window_certificate + TOLERANCE
        assert model.window_certificate <= model.window_guarantee + TOLERANCE
    assert model.window_guarantee == model._strategies["simplex"].forecaster.window_guarantee
    assert 0 < model.window_certificate < model.certificate


def test_one_table_has_the_forecasters_bound_and_several_share_one_grid():
    for window in (100, 1000, 12345):
        one = CalibratedClassifier(Said(), window=window)
        list(settled_windows(one, coins(200), 0, window))
        surprises = one._strategies["certain"].bounded()[0].certificate
        assert one.window_guarantee <= surprises + 2 * math.sqrt(2 * window) * 1.000001
        shared = CalibratedClassifier(Said(), window=window, n_buckets=5)
        list(settled_windows(shared, coins(200), 0, window))
        assert shared.window_guarantee <= surprises + 2 * math.sqrt(2 * window * 5) * 1.000001


def test_a_window_shows_what_the_average_hides():
    """Phishing, then the same with labels at random: the window is of the present alone."""
    model = CalibratedClassifier(
        preprocessing.StandardScaler() | linear_model.LogisticRegression(), window=200
    )
    for x, y in datasets.Phishing():
        model.predict_proba_one(x)
        model.learn_one(x, y)
    assert model.window_certificate <= model.window_guarantee < 45
    assert 0 < model.window_certificate < model.certificate


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
