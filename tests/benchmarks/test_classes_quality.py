"""Steering of vectors, wrapper and engine against online rivals: the best of each stream in hindsight."""

import json
from pathlib import Path

import numpy as np
import pytest

from onlinecal import CalibratedClassifier, recalibrate_stream
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from onlinecal.steering.vector import hint, learn_label, new_vector_steering
from tests.benchmarks.test_steering_quality import settled_at
from tests.wrappers.scripted import Scripted

STREAMS = Path(__file__).parents[3] / "shared" / "data" / "classes"
RIVALS = STREAMS / "rivals.json"
KEPT = "steering", "auto", "auto, T known", "top-label", "simplex", "simplex, classes found", "engine"
"""What keeps to the targets: Brier score, log loss and accuracy."""


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


def in_engine(rows, labels, **settings):
    """What a key of kind "simplex" answers to these hints, shape (T, k), its classes being discovered."""
    found, events = np.full(rows.shape, 1.0 / rows.shape[1]), []
    for t, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        hint = {str(c): p for c, p in enumerate(row)}
        events += [Query(str(t), "k", hint), Outcome(str(t), str(label))]
    with Engine(None, EngineConfig(KeyConfig(kind="simplex", **settings))) as engine:
        answers = [one for one in engine.handle(events) if isinstance(one, Forecast) and one.probability]
    for one in answers:
        found[int(one.id)] = [one.probability.get(str(c), 0.0) for c in range(rows.shape[1])]
    return found


def played(rows, labels):
    """By player: what was forecast, shape (T, k)."""
    classes = list(range(rows.shape[1]))
    return {
        "model": rows,
        "steering": steered(rows, labels),
        "auto": announced(rows, labels),
        "auto, T known": announced(rows, labels, classes=classes, horizon=len(rows)),
        "top-label": announced(rows, labels, strategy="top-label"),
        "simplex": announced(rows, labels, strategy="simplex", classes=classes),
        "simplex, classes found": announced(rows, labels, strategy="simplex"),
        "engine, not steered": in_engine(rows, labels, steering=False),
        "engine": in_engine(rows, labels),
    }


def scores(q, labels):
    """Brier score over the classes, log loss of forecasts at least .001, accuracy: means."""
    of_label = q[np.arange(len(q)), labels]
    brier = ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1).mean()
    return brier, -np.log(np.clip(of_label, 1e-3, 1)).mean(), (q.argmax(1) == labels).mean()


@pytest.mark.skipif(not RIVALS.exists(), reason="needs ../shared/data/classes")
def test_against_the_best_rival_in_hindsight(note):
    above = {}
    note("% above the best rival of each stream: Brier score / log loss")
    for name, rivals in sorted(json.loads(RIVALS.read_text()).items()):
        stream = np.load(STREAMS / f"{name}.npz")
        rows, labels = stream["P"].astype(float), stream["y"].astype(int)
        rows /= rows.sum(1, keepdims=True)
        own = {player: scores(q, labels) for player, q in played(rows, labels).items()}
        best = np.array([min(rival[kind] for rival in rivals.values()) for kind in ("brier", "log")])
        if not above:
            note(f"| stream | {' | '.join(own)} |")
        line = []
        for player, (*losses, accuracy) in own.items():
            percent = 100.0 * (np.array(losses) / best - 1.0)
            above.setdefault(player, []).append((*percent, accuracy - own["model"][2]))
            line.append(f"{percent[0]:+.1f} / {percent[1]:+.1f}")
        note(f"| {name}, {rows.shape[1]} | {' | '.join(line)} |")
    for player, figures in above.items():
        brier, log, accuracy = np.array(figures).T
        note(
            f"{player}: Brier mean {brier.mean():+.2f}, median {np.median(brier):+.2f},"
            f" worst {brier.max():+.2f};"
            f" log loss {log.mean():+.2f}, {np.median(log):+.2f}, {log.max():+.2f};"
            f" accuracy less the model's at least {accuracy.min():+.4f}"
        )
    for player in KEPT:
        brier, log, accuracy = np.array(above[player]).T
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


@pytest.mark.skipif(not RIVALS.exists(), reason="needs ../shared/data/classes")
@pytest.mark.filterwarnings("ignore::onlinecal.GuaranteeWarning")
def test_late_labels_against_the_best_rival_that_had_them_in_time(note):
    rivals = json.loads(RIVALS.read_text())
    note("| labels known after | strategy | Brier: mean | worst | log loss: mean | worst | above the input |")
    for delay, (title, allowed) in LATE.items():
        for strategy in "auto", "simplex":
            above = []
            for name, known in sorted(rivals.items()):
                stream = np.load(STREAMS / f"{name}.npz")
                rows, labels = stream["P"].astype(float), stream["y"].astype(int)
                rows /= rows.sum(1, keepdims=True)
                result = recalibrate_stream(rows, labels, settled_at(len(rows), delay), strategy=strategy)
                own = np.array(scores(result.probabilities, labels)[:2])
                best = [min(rival[kind] for rival in known.values()) for kind in ("brier", "log")]
                above.append([*(own / best - 1.0), (own / scores(rows, labels)[:2] - 1.0).max()])
            mean, worst = 100.0 * np.mean(above, 0), 100.0 * np.max(above, 0)
            note(
                f"| {title} | {strategy} | {mean[0]:+.1f} % | {worst[0]:+.1f} % | {mean[1]:+.1f} %"
                f" | {worst[1]:+.1f} % | {worst[2]:+.1f} % |"
            )
            assert mean[0] <= allowed
            assert worst[2] <= 1.0
