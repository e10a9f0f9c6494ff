"""Several classes: steering, wrapper and engine against online rivals, and the strategies side by side."""

from __future__ import annotations

import numpy as np
import pytest
from river import datasets, linear_model, naive_bayes, preprocessing, tree
from sklearn.datasets import load_iris, load_wine

from onlinecal import CalibratedClassifier, expected_calibration_error, recalibrate_stream
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from onlinecal.steering.vector import hint, learn_label, new_vector_steering
from tests.benchmarks.conftest import above_rivals, recorded
from tests.benchmarks.test_steering_quality import settled_at
from tests.wrappers.scripted import Scripted


def steered(rows, labels):
    """What steering makes of each row, shape (T, k), before its label is learnt."""
    state, found = new_vector_steering(rows.shape[1]), np.empty(rows.shape)
    for row, label, out in zip(rows, labels.tolist(), found, strict=True):
        hint(state, row, out)
        learn_label(state, label)
    return found


def announced(rows, labels, **settings):
    """What the wrapper announces around a model that answers with these rows, shape (T, k)."""
    model, found = CalibratedClassifier(Scripted(), **settings), np.zeros(rows.shape)
    for row, label, out in zip(rows.tolist(), labels.tolist(), found, strict=True):
        x = {"answer": dict(enumerate(row))}
        for name, p in model.predict_proba_one(x).items():
            out[name] = p
        model.learn_one(x, label)
    return found


def in_engine(rows, labels):
    """What a key of kind "simplex" answers to these hints, shape (T, k), its classes being discovered."""
    found, events = np.full(rows.shape, 1.0 / rows.shape[1]), []
    for t, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        hint = {str(c): p for c, p in enumerate(row)}
        events += [Query(str(t), "k", hint), Outcome(str(t), str(label))]
    with Engine(None, EngineConfig(KeyConfig(kind="simplex"))) as engine:
        answers = [one for one in engine.handle(events) if isinstance(one, Forecast) and one.probability]
    for one in answers:
        found[int(one.id)] = [one.probability.get(str(c), 0.0) for c in range(rows.shape[1])]
    return found


def played(rows, labels):
    """By player: what was forecast, shape (T, k)."""
    classes = list(range(rows.shape[1]))
    yield "steering", steered(rows, labels)
    yield "auto", announced(rows, labels)
    yield "auto, T known", announced(rows, labels, classes=classes, horizon=len(rows))
    yield "top-label", announced(rows, labels, strategy="top-label")
    yield "simplex", announced(rows, labels, strategy="simplex", classes=classes)
    yield "simplex, classes found", announced(rows, labels, strategy="simplex")
    yield "engine", in_engine(rows, labels)


def scores(q, labels):
    """Brier score over the classes, log loss of forecasts at least .001, accuracy: means."""
    of_label = q[np.arange(len(q)), labels]
    return {
        "brier": ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1).mean(),
        "log": -np.log(np.clip(of_label, 1e-3, 1)).mean(),
        "accuracy": (q.argmax(1) == labels).mean(),
    }


def test_against_the_best_rival_in_hindsight(note):
    above = {}
    for _, rows, labels, rivals in recorded("classes"):
        accuracy = scores(rows, labels)["accuracy"]
        for player, q in played(rows, labels):
            own = scores(q, labels)
            above.setdefault(player, []).append((*above_rivals(own, rivals), own["accuracy"] - accuracy))
    note("% above the best rival of each stream")
    for player, figures in above.items():
        brier, log, accuracy = np.array(figures).T
        note(
            f"{player}: Brier mean {brier.mean():+.2f}, worst {brier.max():+.2f}; log loss {log.mean():+.2f},"
            f" {log.max():+.2f}; accuracy less the model's at least {accuracy.min():+.4f}"
        )
        assert brier.mean() <= -4.0
        assert brier.max() <= 0.5
        assert log.mean() <= -6.0
        assert log.max() <= 1.0
        assert accuracy.min() >= -0.01


LATE = {
    "10": ("10 rounds", -6.0),
    "100": ("100 rounds", -4.0),
    "day100": ("days of 100", -4.0),
    "day500": ("days of 500", -1.0),
}
"""How it is called; the mean Brier score that must be kept to, in percent above that of the best rivals."""


@pytest.mark.filterwarnings("ignore::onlinecal.GuaranteeWarning")
def test_late_labels_against_the_best_rival_that_had_them_in_time(note):
    note("| labels known after | strategy | Brier: mean | worst | log loss: mean | worst | above the input |")
    for delay, (title, allowed) in LATE.items():
        for strategy in "auto", "simplex":
            above = []
            for _, rows, labels, rivals in recorded("classes"):
                result = recalibrate_stream(
                    rows, labels, settled_at=settled_at(len(rows), delay), strategy=strategy
                )
                own = scores(result.probabilities, labels)
                came_in = max(above_rivals(own, {"input": scores(rows, labels)}))
                above.append([*above_rivals(own, rivals), came_in])
            mean, worst = np.mean(above, 0), np.max(above, 0)
            note(
                f"| {title} | {strategy} | {mean[0]:+.1f} % | {worst[0]:+.1f} % | {mean[1]:+.1f} %"
                f" | {worst[1]:+.1f} % | {worst[2]:+.1f} % |"
            )
            assert mean[0] <= allowed
            assert worst[2] <= 1.0


STRATEGIES = ("simplex", "classwise", "tree", "top-label")
MODELS = {
    "bayes": naive_bayes.GaussianNB,
    "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
    "tree": tree.HoeffdingTreeClassifier,
}
ROUNDS = 1800


def shuffled(data):
    """A table again and again, in a new order each time."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(len(data.target)) for _ in range(ROUNDS // len(data.target) + 1)])
    for row in rows[:ROUNDS]:
        yield dict(enumerate(data.data[row])), int(data.target[row])


STREAMS = {
    "ImageSegments": datasets.ImageSegments,
    "wine": lambda: shuffled(load_wine()),
    "iris": lambda: shuffled(load_iris()),
}


def online(model, stream):
    """Scores of a model that learns, and the ECE of its top label; with certificate and guarantee a round."""
    answers, labels = [], []
    for x, y in stream:
        answers.append(model.predict_proba_one(x))
        labels.append(y)
        model.learn_one(x, y)
    names, numbers = np.unique(np.array(labels, dtype=str), return_inverse=True)
    said = [{str(name): p for name, p in answer.items()} for answer in answers]
    q = np.array([[answer.get(name, 0.0) for name in names] for answer in said])
    hits = q.argmax(1) == numbers
    return {
        **scores(q, numbers),
        "ECE": expected_calibration_error(np.clip(q.max(1), 0, 1), hits, n_bins=15),
        "certificate": getattr(model, "certificate", np.nan) / len(q),
        "guarantee": getattr(model, "guarantee", np.nan) / len(q),
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("stream", STREAMS)
def test_strategies_beside_each_other_and_the_model(note, stream, name):
    table = {"base": online(MODELS[name](), STREAMS[stream]())}
    for strategy in STRATEGIES:
        model = CalibratedClassifier(MODELS[name](), strategy=strategy)
        table[strategy] = online(model, STREAMS[stream]())
        assert table[strategy]["certificate"] <= table[strategy]["guarantee"]
    for strategy, one in table.items():
        figures = "  ".join(f"{what} {value:.3f}" for what, value in one.items())
        note(f"{stream:14s} {name:8s} {strategy:10s} {figures}")
    if stream != "ImageSegments":
        # with three labels the joint promise costs little
        assert table["simplex"]["brier"] <= 1.15 * min(one["brier"] for one in table.values())
