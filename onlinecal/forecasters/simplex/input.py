"""Checks on what users hand to the simplex forecaster: class labels, outcomes, hints.

All functions raise ValueError and leave their arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import check_count, check_number, check_vector

MOST_CLASSES = 1 << 10
MOST_SLACK = 1000.0
SUM_TOLERANCE = 1e-6
ROUNDED = 2.0**-52
"""So far from one, a class, the sum of a distribution may be since its numbers were rounded."""
FEW_SHOWN = 12
"""So many items of a list are shown in an error."""
LONGEST_SHOWN = 300
"""Characters."""


def check_label(label: Any, name: str) -> Any:
    """A hashable label that equals itself, None excepted; numpy's scalars as Python's."""
    plain = label.item() if isinstance(label, np.generic) else label
    try:
        hash(plain)
    except TypeError as error:
        raise ValueError(f"{name} must be a hashable class label, got {shown(label)}") from error
    if plain is None or (isinstance(plain, float) and not math.isfinite(plain)):
        raise ValueError(f"{name} must be a class label, got {label!r}")
    return plain


def check_labels(labels: Any, name: str) -> tuple[Any, ...]:
    """Different labels, at least one, in the order given."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Sequence, np.ndarray)):
        raise ValueError(f"{name} must be a list of class labels, got {shown(labels)}")
    known = tuple(check_label(label, name) for label in labels)
    if not 1 <= len(known) <= MOST_CLASSES:
        raise ValueError(f"{name} must hold 1 to {MOST_CLASSES} class labels, got {len(known)}")
    if len(set(known)) < len(known):
        twice = next(label for label in known if known.count(label) > 1)
        raise ValueError(f"{name} must be different from each other, got {shown(twice)} twice")
    return known


def shown(value: Any) -> str:
    """A value as errors show it: not all of one that is long."""
    text = repr(value) if not isinstance(value, (list, tuple)) else repr(value[:FEW_SHOWN])
    if isinstance(value, (list, tuple)) and len(value) > FEW_SHOWN:
        text = f"{text[:-1]}, ... {len(value):,} in all{text[-1]}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def class_of(label: Any, known: dict[Any, int], name: str) -> int:
    """The number of a known class."""
    try:
        number = known.get(label)
    except TypeError:
        number = None
    if number is None:
        raise ValueError(f"{name} must be one of the classes {shown(list(known))}, got {shown(label)}")
    return number


def classes_of(
    outcomes: Any, known: dict[Any, int], fixed: bool, name: str = "outcomes"
) -> tuple[NDArray[np.int64], dict[Any, int]]:
    """The class number of each outcome, and the classes that are new, numbered on in order of appearance.

    With `fixed` a new class is refused.
    """
    if isinstance(outcomes, np.ndarray) and outcomes.dtype != object:
        distinct, first, places = np.unique(
            check_vector(outcomes, name), return_index=True, return_inverse=True
        )
        order = np.argsort(first)
        labels, rows = distinct[order].tolist(), first[order].tolist()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        found, newcomers = number_labels(labels, rows, known, fixed, name)
        return found[ranks[places]], newcomers
    if isinstance(outcomes, (str, bytes, Mapping)) or not hasattr(outcomes, "__iter__"):
        raise ValueError(f"{name} must be a flat sequence of class labels, got {shown(outcomes)}")
    labels = check_vector(outcomes, name).tolist() if isinstance(outcomes, np.ndarray) else list(outcomes)
    if not labels:
        raise ValueError(f"{name} is empty")
    try:
        return np.fromiter(map(known.__getitem__, labels), np.int64, len(labels)), {}
    except (KeyError, TypeError):
        return number_labels(labels, range(len(labels)), known, fixed, name)


def number_labels(
    labels: list[Any], rows: Iterable[int], known: dict[Any, int], fixed: bool, name: str
) -> tuple[NDArray[np.int64], dict[Any, int]]:
    """The number of each label, and the new classes; `rows` says where the labels stand."""
    numbers, found = dict(known), np.empty(len(labels), np.int64)
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        try:
            if fixed:
                found[i] = class_of(label, known, name)
            else:
                found[i] = numbers.setdefault(check_label(label, name), len(numbers))
        except ValueError as error:
            raise ValueError(f"{error} at row {row}") from error
    if len(numbers) > MOST_CLASSES:
        raise ValueError(f"{name} hold {len(numbers)} classes; at most {MOST_CLASSES} can be told apart")
    return found, {label: number for label, number in numbers.items() if number >= len(known)}


def check_distributions(values: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Probability vectors of that shape, divided by their sums over the last axis.

    They must be finite numbers in [0, 1] whose sum is one, up to 1e-6. What the sum is off would be added to
    every distance; so only what sums to one up to rounding is given back as it is.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape}, got a ragged sequence") from error
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if array.dtype.kind not in "iufb":
        raise ValueError(f"{name} must be numbers in [0, 1], got {shown(values)}")
    array = array.astype(np.float64)
    rows = array.reshape(-1, shape[-1])
    bad = ~((rows >= 0.0) & (rows <= 1.0)).all(axis=1) | ~(np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        place = f" at row {row}" if len(shape) > 1 else ""
        got = shown(rows[row].tolist())
        raise ValueError(f"{name} must be numbers in [0, 1] that sum to 1, got {got}{place}")
    return normalised(array)


def normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their sums; those that sum to one, up to rounding, are not changed."""
    total = totals(vectors)[..., None]
    return np.where(np.abs(total - 1.0) <= ROUNDED * vectors.shape[-1], vectors, vectors / total)


def totals(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of rows, each from its first entry on: the same for a row alone and in a table."""
    found: NDArray[np.float64] = np.cumsum(vectors, axis=-1)[..., -1]
    return found


def hint_of(hint: Any, known: dict[Any, int], name: str = "hint") -> NDArray[np.float64]:
    """A hint as one probability a class, from a dict by label (missing: 0) or a sequence in their order."""
    if isinstance(hint, Mapping):
        vector: list[Any] = [0.0] * len(known)
        for label, value in hint.items():
            vector[class_of(label, known, f"the labels of {name}")] = value
        return check_distributions(vector, (len(known),), name)
    if not isinstance(hint, (Sequence, np.ndarray)) or isinstance(hint, str):
        raise ValueError(f"{name} must be a dict or a sequence of {len(known)} numbers, got {shown(hint)}")
    return check_distributions(hint, (len(known),), name)


def over_known(hints: NDArray[np.float64]) -> NDArray[np.float64]:
    """Hints cut to the known classes, shape (..., k): the weight of others is shared out among these."""
    weight = hints.sum(axis=-1, keepdims=True)
    return np.where(weight > 0.0, hints / np.where(weight > 0.0, weight, 1.0), 1.0 / hints.shape[-1])


def check_slack(slack: Any, n_classes: int) -> None:
    """Refuse a slack below Tijdeman's bound for that many classes (0: for any number), or none at all."""
    least = 1.0 if n_classes == 0 else 1.0 - 1.0 / max(1, 2 * n_classes - 2)
    if slack is not None:
        allowed = f"None or a number from {least:g} to {MOST_SLACK:g}"
        check_number(slack, "slack", least, MOST_SLACK, allowed=allowed)


def check_counts(**counts: tuple[int | None, int | None]) -> None:
    """Refuse counts, by name (a count or None, the most that it may be or None), that are none."""
    for name, (count, most) in counts.items():
        if count is not None:
            check_count(count, name, most=most)


def check_grid(
    grid: str, known: tuple[Any, ...], n_cells: int | None, horizon: int | None, window: int | None
) -> None:
    """Refuse a window where the classes are not known, and what fixes a grid for one that tunes itself."""
    if window is not None and not known:
        raise ValueError(f"window={window} needs n_classes or labels, got neither")
    if window is not None and grid == "adaptive":
        raise ValueError(f"window={window} fixes a grid; it does not go with grid 'adaptive'")
    if grid == "adaptive" and (n_cells is not None or horizon is not None):
        raise ValueError(
            f"grid 'adaptive' tunes itself: it does not go with n_cells={n_cells!r}, horizon={horizon!r}"
        )
