"""What estimators are fed when all of them are tried, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import datasets

NAN, INF = float("nan"), float("inf")
Refusal = tuple[str, tuple[Any, ...], str]
"""A method, its arguments, and what the ValueError says: the argument and the value."""

PHISHING = list(datasets.Phishing().take(160))
SEGMENTS = list(datasets.ImageSegments().take(160))
APPROVAL = list(datasets.TrumpApproval().take(160))
RNG = np.random.default_rng(0)
GAMES = [(bool(RNG.random() < p), p) for p in RNG.integers(0, 21, 60) / 20]
FORECAST_GAMES = [(p, y) for y, p in GAMES]
TARGETS = [({0.0: 0.5 * p, 1.0: p}, 2.0 * y) for p, y in FORECAST_GAMES]
TABLE, LABELS = RNG.dirichlet(np.full(3, 0.6), 200), RNG.integers(0, 3, 200)
LABELS = np.where(RNG.random(200) < 0.6, TABLE.argmax(axis=1), LABELS)
FORECASTS, MEMBERS = RNG.random(200), RNG.random((200, 2)) < 0.5
OUTCOMES = (RNG.random(200) < 0.5 * FORECASTS + 0.3 * MEMBERS[:, 0]).astype(int)

NO_OUTCOMES: list[Refusal] = [
    *(
        ("learn_one", ({}, y), "y must be 0, 1, False or True, got")
        for y in (2, -1, "yes", None, 1.2, NAN, [1], np.array([0, 1]))
    ),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ([[0, 1]],), "outcomes must be one-dimensional"),
]
NO_SHARES: list[Refusal] = [
    *(
        ("learn_one", ({}, y), r"y must be a number in \[0, 1\], False or True, got")
        for y in (2, -1, 1.2, "yes", "0.5", None, NAN, [1], np.array([0, 1]))
    ),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ([0, 0.5, 1.2],), r"outcomes must be numbers in \[0, 1\] or boolean, got 1.2 at row 2"),
    ("replay", ([0, NAN],), "outcomes must be .* got nan at row 1"),
]
NO_HINTS: list[Refusal] = [
    ("replay", ([0, 1], [0.5]), "same length"),
    ("replay", ([0, 1], [0.5, 1.5]), r"hints must lie in \[0, 1\], got 1.5 at row 1"),
]
UNEXPECTED: list[Refusal] = [("replay", ([0, 1], [0.5, 0.5]), "make it with hints=True")]
NO_CLASSES: list[Refusal] = [
    *(("learn_one", ({}, y), "y must be .*, got") for y in (None, NAN, INF, [1], {}, np.array([0, 1]))),
    ("replay", ([],), "outcomes is empty"),
    ("replay", ("012",), "outcomes must be a flat sequence of class labels, got '012'"),
    ("replay", (np.zeros((2, 2), int),), "one-dimensional"),
]
NO_VECTORS: list[Refusal] = [
    ("replay", ([0, 1, [2]],), r"outcomes must be one of the classes .*, got \[2\] at row 2"),
    ("replay", ([0, 1], [[0.5, 0.5, 0.0]]), "same length"),
    ("replay", ([0, 1], [0.5, 0.5]), r"hints must have shape \(2, 3\), got \(2,\)"),
    ("replay", ([0, 1], [[0.5, 0.5, 0], [0.5, 0.6, 0]]), "hints must be numbers in .* at row 1"),
]
NO_ANSWERS: list[Refusal] = [
    *(
        ("update", (True, answer), r"y_pred must be a number in \[0, 1\], got")
        for bad in (NAN, 1.5, -0.1, "high", None)
        for answer in (bad, {True: bad})
    ),
    *(("update", (y, 0.5), "y_true must be 0, 1, False, True or") for y in (2, NAN, None, "yes", [1])),
    *(("update", (True, 0.5, weight), "w must be") for weight in (NAN, -1, INF)),
]
NO_ROUNDS: list[Refusal] = [
    ("update", (1.5, 0), "forecast must be a number in .* got 1.5"),
    ("update", (0.5, 2), "outcome must be .* got 2"),
    ("update_many", ([0.5, 2.0], [0, 1]), "forecasts must lie in .* got 2.0 at row 1"),
    ("update_many", ([0.5, 0.5], [0, 3]), "outcomes must be .* got 3 at row 1"),
]
NO_TARGET: list[Refusal] = [
    ("update", ({0.0: 1.5}, 0.0), "chances must be numbers in .* got 1.5 at threshold 0.0"),
    ("update", ({0.0: 0.5}, None), "y must be"),
]
NO_WATCH: list[Refusal] = [
    (name, given, message.replace("forecast ", "p ").replace("outcome ", "y "))
    for name, given, message in NO_ROUNDS
]
NO_LABELS: list[Refusal] = [
    ("learn_one", ({}, y), r"y must be a (hashable )?class label, .*got") for y in (None, NAN, INF, [1])
]
NO_TARGETS: list[Refusal] = [
    ("learn_one", ({}, y), "y must be a .*number.*, got") for y in (None, NAN, INF, "1", [1], 10**400)
]
HALVES = [[0.5, 0.5], [0.2, 0.8]]
NO_TABLES: list[Refusal] = [
    ("fit", ([[0.5, 0.6], [0.5, 0.5]], [0, 1]), r"X must sum to 1 in every row, got 1\.1 at row 0"),
    ("fit", ([[0.5, 0.5], [INF, 0.5]], [0, 1]), "X must lie in .* got inf at row 1"),
    ("fit", ([[1.0], [1.0]], [0, 0]), "X must have at least 2 columns, got 1"),
    ("fit", (HALVES, [0, 2]), r"y must be class numbers 0\.\.1, got 2 at row 1"),
    ("predict_proba", ([[0.5, 0.5]],), "X has 2 features, but .* is expecting 3 features"),
    ("predict_proba", ([[0.5, 0.5, 0.5]],), "X must sum to 1"),
]
ALL = [[1], [1]]
NO_GROUPS: list[Refusal] = [
    ("fit", ([0.1, 1.2], [0, 1], ALL), r"X must lie in \[0, 1\], got 1.2 at row 1"),
    ("fit", ([0.1, 0.2], [0, 2], ALL), "y must be 0/1 or boolean, got 2 at row 1"),
    ("fit", ([0.1, 0.2], [0, 1], [[1]]), "groups must have a row for each of the 2 forecasts, got 1"),
    ("fit", ([0.1, 0.2], [0, 1], [[1], [3]]), "groups must be boolean or 0/1, got .*3.* at row 1, group 0"),
    ("predict_proba", ([0.5], [[1]]), "groups must have the 2 columns of fit, got 1"),
]
LINE = [[0.0], [1.0]]
NO_FEATURES: list[Refusal] = [
    ("fit", (LINE, [0, 2]), r"y must lie in \[0, 1\], got 2.0 at row 1"),
    ("fit", ([0.0, 1.0], [0, 1]), "X must be two-dimensional"),
    ("fit", ([[0.0], [1.0, 2.0]], [0, 1]), "X must be a table with rows of equal length"),
    ("fit", (LINE, [0, 1], [0.5]), "initial must have a forecast for each of the 2 rows, got 1"),
    ("fit", (LINE, [0, 1], [0.5, 1.5]), r"initial must lie in \[0, 1\], got 1.5 at row 1"),
    ("fit", (LINE, [0, 1], lambda X: [0.5, NAN]), r"initial must lie in \[0, 1\], got nan at row 1"),
]

NO_CLASSIFIED: list[Refusal] = [
    ("fit", (TABLE, np.zeros(200)), r"y must have labels of at least two classes, got one class: 0\.0"),
    ("fit", (TABLE, np.arange(200) == 7), "cv=5 needs at least 2 rows of every class, got 1 of class True"),
    ("fit", (TABLE, LABELS, np.ones(3)), "sample_weight must have a weight for each of 200 rows, got 3"),
    ("fit", (np.where(TABLE > 0.9, NAN, TABLE), LABELS), "contains NaN"),
    ("predict_proba", (HALVES,), "X has 2 features, but .* is expecting 3 features"),
]
NO_BATCHES: list[Refusal] = [
    ("fit", (TABLE, np.zeros(200)), r"y must have labels of at least two classes, got one class: 0\.0"),
    ("fit", (np.where(TABLE > 0.9, NAN, TABLE), LABELS), "contains NaN"),
    ("partial_fit", (TABLE, LABELS + 1), r"y must be one of the classes \[0, 1, 2\], got 3 at row"),
    ("partial_fit", (TABLE, LABELS[:3]), r"inconsistent numbers of samples: \[200, 3\]"),
    ("partial_fit", (TABLE, LABELS, [0, 1]), r"classes must be \[0, 1, 2\], as before, got \[0, 1\]"),
    ("partial_fit", (TABLE, LABELS, [0, "b", None]), "classes must be all numbers, or all texts"),
    ("partial_fit", (HALVES, LABELS[:2]), "X has 2 features, but .* is expecting 3 features"),
    ("predict_proba", (HALVES,), "X has 2 features, but .* is expecting 3 features"),
]
