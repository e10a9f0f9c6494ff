"""Models and streams whose every answer is known, and a driver that notes what was answered."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from river import base

from onlinecal import calibration_distance


class Scripted(base.Classifier):
    """Answers with the dictionary that the features carry under "answer"."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return dict(x["answer"])


class Told(Scripted):
    """Answers with its features, which are probabilities."""

    def predict_proba_one(self, x):
        return dict(x)


class Said(Scripted):
    """Answers True with the probability that the features carry under "p"."""

    def predict_proba_one(self, x):
        return {False: 1.0 - x["p"], True: x["p"]}


class Round(NamedTuple):
    answer: dict
    forecasts: dict
    label: object


def in_rounds(model, rounds, ask, late=0):
    """Ask about every round; its label comes when `late` more have been asked about. What was answered."""
    waiting = deque()
    for x, y in rounds:
        yield ask(x)
        waiting.append((dict(x), y) if late else (x, y))
        if len(waiting) > late:
            model.learn_one(*waiting.popleft())
    for x, y in waiting:
        model.learn_one(x, y)


def played(model, rounds, late=0):
    """What was answered in rounds, what was forecast, and the labels."""
    rounds = list(rounds)
    answers = in_rounds(
        model, rounds, lambda x: (model.predict_proba_one(x), model.certified_proba_one(x)), late
    )
    return [Round(*answer, y) for answer, (_, y) in zip(answers, rounds, strict=True)]


def events(record):
    """Every forecast that was given, and whether what it spoke of came true: shapes (n,).

    What is forecast of one half of some labels, given that it is either, counts where it is.
    """
    pairs = [
        (p, label in name[1] if _is_node(name) else label == name)
        for _, forecasts, label in record
        for name, p in forecasts.items()
        if not _is_node(name) or label in name[0] + name[1]
    ]
    p, y = np.array(pairs, dtype=float).T
    return p, y


def by_node(record):
    """Of (forecasts, label) by a tree: for each node forecasts and outcomes of the rounds below it."""
    found = {}
    for forecasts, label in record:
        for name, p in forecasts.items():
            if _is_node(name) and label in name[0] + name[1]:
                # the lowest numbers in its halves stay when labels are added
                found.setdefault((name[0][0], name[1][0]), []).append((p, label in name[1]))
    return {node: np.array(pairs, dtype=float).T for node, pairs in found.items()}


def _is_node(name):
    return isinstance(name, tuple) and isinstance(name[0], tuple)


def distance(record):
    """A proven lower end of the distance of what was answered: no certificate may be below it."""
    return calibration_distance(*events(record), budget=0.2).lower


def coins(count, seed=0, labels=(False, True)):
    """Features {"p", "t"} and labels drawn with exactly that probability of the second label."""
    rng = np.random.default_rng(seed)
    p = rng.random(count)
    return [({"p": float(q), "t": t}, labels[int(rng.random() < q)]) for t, q in enumerate(p)]
