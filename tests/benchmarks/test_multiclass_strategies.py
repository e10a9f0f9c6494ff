"""Ways to calibrate several labels, side by side: accuracy, scores, errors and certificates per round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from river import base, datasets, linear_model, naive_bayes, preprocessing, tree
from sklearn.datasets import load_iris, load_wine

from onlinecal import CalibratedClassifier, expected_calibration_error

STRATEGIES = ("simplex", "classwise", "tree", "top-label")
MODELS = {
    "bayes": naive_bayes.GaussianNB,
    "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    "tree": tree.HoeffdingTreeClassifier,
}
ROUNDS = 1800


def shuffled(data: Any) -> Iterator[tuple[dict[int, float], int]]:
    """A table again and again, in a new order each time."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(len(data.target)) for _ in range(ROUNDS // len(data.target) + 1)])
    for row in rows[:ROUNDS]:
        yield dict(enumerate(data.data[row])), int(data.target[row])


STREAMS = {
    "ImageSegments": lambda: datasets.ImageSegments(),
    "wine": lambda: shuffled(load_wine()),
    "iris": lambda: shuffled(load_iris()),
}


def scores(model: base.Classifier, stream: Any) -> dict[str, float]:
    """Per round: accuracy, Brier score over all labels, log loss, ECE of the top label in 15 bins."""
    answers, labels = [], []
    for x, y in stream:
        answers.append(model.predict_proba_one(x))
        labels.append(y)
        model.learn_one(x, y)
    names = sorted(set(labels), key=str)
    p = np.array([[answer.get(name, 0.0) for name in names] for answer in answers])
    y = np.array([names.index(label) for label in labels])
    rows = np.arange(len(y))
    hits = (p.argmax(axis=1) == y) & (p.sum(axis=1) > 0)
    top = np.clip(p.max(axis=1), 0, 1)
    squared = (p**2).sum(axis=1) - 2 * p[rows, y] + 1
    return {
        "accuracy": float(hits.mean()),
        "Brier": float(squared.mean()),
        "log loss": float(-np.log(np.maximum(p[rows, y], 1e-6)).mean()),
        "top ECE": expected_calibration_error(top, hits, bins=15, normalize=True),
        "certificate": getattr(model, "certificate", np.nan) / len(y),
        "guarantee": getattr(model, "guarantee", np.nan) / len(y),
    }


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    names = f"{'stream':14s} {'model':8s} {'strategy':10s}"
    note(f"{names} accuracy   Brier  log loss  top ECE  certificate guarantee")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stream", STREAMS)
def test_strategies(note, stream, name):
    table = {"base": scores(MODELS[name](), STREAMS[stream]())}
    for strategy in STRATEGIES:
        model = CalibratedClassifier(MODELS[name](), strategy=strategy)
        table[strategy] = scores(model, STREAMS[stream]())
    for strategy, one in table.items():
        note(
            f"{stream:14s} {name:8s} {strategy:10s} {one['accuracy']:8.3f} {one['Brier']:7.3f} "
            f"{one['log loss']:9.3f} {one['top ECE']:8.3f} {one['certificate']:12.3f} {one['guarantee']:9.3f}"
        )
    for strategy in STRATEGIES:
        assert table[strategy]["certificate"] <= table[strategy]["guarantee"]
    if stream != "ImageSegments":
        # with three labels the joint promise costs little
        assert table["simplex"]["Brier"] <= 1.15 * min(one["Brier"] for one in table.values())
