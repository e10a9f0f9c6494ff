"""Checks of what users hand to the simplex forecaster: parameters, class labels, soft labels, hints.

Those that check raise ValueError, and none changes its arguments.

Nothing here has a state. The order of classes is that of the forecaster; new ones get the numbers behind
those of the known ones, in the order in which they come. That order is saved with every memory. How sums of
rows are formed (`totals`) and weights are rounded (`weights_of`) decides what is charged, so it is part of
the answers; MOST_PARTS and MOST_CLASSES bound what the integers of a memory bear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.tables.columns import as_numbers
from onlinecal.tables.frames import as_array, objects_of
from onlinecal.texts import shown
from onlinecal.validation import check_number

MOST_CLASSES = 1 << 10
MOST_SLACK = 1000.0
SUM_TOLERANCE = 1e-6
ROUNDED_BY = 2.0**-52
"""Rounding may bring the sum of a distribution so far from one, for each class."""


def plain(label: Any) -> Any:
    """A numpy scalar as a Python value; numpy's times are kept, since Python's are less fine."""
    if not isinstance(label, np.generic) or isinstance(label, np.datetime64 | np.timedelta64):
        return label
    return label.item()


def check_label(label: Any, name: str) -> Any:
    """A hashable label that equals itself, None excepted; numpy's scalars as Python's."""
    plain_label = plain(label)
    try:
        hash(plain_label)
    except TypeError as error:
        raise ValueError(
            f"{name} must be a hashable class label, as a text, a number or a tuple, got {shown(label)}"
        ) from error
    is_infinite = isinstance(plain_label, float | Decimal) and not math.isfinite(plain_label)
    if plain_label is None or is_infinite or not _equals_itself(plain_label):
        raise ValueError(f"{name} must be a class label, neither missing nor infinite, got {label!r}")
    return plain_label


def _equals_itself(label: Any) -> bool:
    """Whether a label equals itself, unlike markers of missing values; so must the parts of a tuple."""
    if isinstance(label, tuple):
        return all(map(_equals_itself, label))
    try:
        return bool(label == label)
    except TypeError:  # the NA of pandas
        return False


def check_labels(labels: Any, name: str) -> tuple[Any, ...]:
    """Different labels, at least one, in the order given."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Sequence, np.ndarray)):
        raise ValueError(f"{name} must be a list of class labels, got {shown(labels)}")
    known = tuple(check_label(label, f"{name} at place {i}") for i, label in enumerate(labels))
    if not 1 <= len(known) <= MOST_CLASSES:
        raise ValueError(f"{name} must hold 1 to {MOST_CLASSES} class labels, got {len(known)}")
    if len(set(known)) < len(known):
        twice = next(label for label in known if known.count(label) > 1)
        raise ValueError(f"{name} must be different from each other, got {shown(twice)} twice")
    return known


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
    if isinstance(outcomes, (str, bytes, Mapping)):
        raise ValueError(f"{name} must be a flat sequence of class labels, got {shown(outcomes)}")
    labels = objects_of(outcomes, name)
    if not labels:
        raise ValueError(f"{name} is empty: give at least one")
    try:
        distinct = list(dict.fromkeys(labels))
    except TypeError:
        # some label has no hash: the checks below name it with its row
        distinct = labels
    numbers, number_of = dict(known), {}
    for label in distinct:
        try:
            if fixed:
                number_of[label] = class_of(label, known, name)
            else:
                number_of[label] = numbers.setdefault(check_label(label, name), len(numbers))
        except ValueError as error:
            raise ValueError(f"{error} at row {labels.index(label)}") from error
    if len(numbers) > MOST_CLASSES:
        raise ValueError(
            f"{name} must be of at most {MOST_CLASSES} classes, got {len(numbers)}: join rare ones"
        )
    newcomers = {label: number for label, number in numbers.items() if number >= len(known)}
    return np.fromiter(map(number_of.__getitem__, labels), np.int64, len(labels)), newcomers


def check_distributions(values: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    """Probability vectors of that shape, divided by their sums over the last axis.

    They must be finite numbers in [0, 1] whose sum is one, up to 1e-6. A difference from one would be added
    to every distance, so only vectors whose sum is one up to rounding are given back as they are.
    """
    array = as_array(values, name, f"an array of shape {shape}", f"of shape {shape}")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    allowed = f"{name} must be numbers in [0, 1] that sum to 1"
    if len(shape) == 1 and array.dtype.kind not in "iufb" and not all(map(_may_be_share, array)):
        # one vector has no rows, which other errors would name
        raise ValueError(f"{allowed}, got {shown([plain(value) for value in values])}")
    array = as_numbers(array, f"{name} must be numbers in [0, 1]")
    rows = array.reshape(-1, shape[-1])
    bad = ~((rows >= 0.0) & (rows <= 1.0)).all(axis=1) | ~(np.abs(rows.sum(axis=1) - 1.0) <= SUM_TOLERANCE)
    if bad.any():
        row = int(np.argmax(bad))
        place = f" at row {row}" if len(shape) > 1 else ""
        raise ValueError(f"{allowed}, got {shown(rows[row].tolist())}{place}")
    return normalised(array)


def _may_be_share(value: Any) -> bool:
    is_number: bool = isinstance(value, Real)
    return is_number and 0.0 <= value <= 1.0


def normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their sums; those that sum to one, up to rounding, are not changed."""
    total = totals(vectors)[..., None]
    return np.where(np.abs(total - 1.0) <= ROUNDED_BY * vectors.shape[-1], vectors, vectors / total)


def totals(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of rows, each added up from its first entry on, so that a row in a table has the same sum."""
    sums: NDArray[np.float64] = np.cumsum(vectors, axis=-1)[..., -1]
    return sums


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


def over_known(hints: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Hints of shape (..., n) for the k <= n known classes, which get the weight of others in proportion."""
    if k == hints.shape[-1]:
        return hints
    known = hints[..., :k]
    weight = known.sum(axis=-1, keepdims=True)
    return np.where(weight > 0.0, known / np.where(weight > 0.0, weight, 1.0), 1.0 / k)


def check_slack(slack: Any, n_classes: int) -> None:
    """Refuse a slack below Tijdeman's bound for that many classes (0: for any number), unless it is None."""
    least = 1.0 if n_classes == 0 else 1.0 - 1.0 / max(1, 2 * n_classes - 2)
    if slack is not None:
        allowed = f"None or a number from {least:g} to {MOST_SLACK:g}"
        check_number(slack, "slack", least, MOST_SLACK, allowed=allowed)


MOST_PARTS = 1 << 16
"""A round is divided into at most so many parts: soft labels are rounded to multiples of one over this."""
MIXED = -1
"""The number of an outcome that is a soft label of two classes or more."""
SOFT_TYPES = frozenset({dict, list, np.ndarray})
"""The types that soft labels in a sequence have, and that no label can have."""


class Soft(NamedTuple):
    """A soft label over the known classes and `newcomers`, which have the numbers behind theirs."""

    vector: NDArray[np.float64]
    newcomers: tuple[Any, ...] = ()


def is_soft(outcome: Any) -> bool:
    """Whether an outcome can only be meant as a distribution: a dict, a list, an array; no label is one."""
    # whatever has a hash is a label; this quick check comes first
    if type(outcome).__hash__ is not None:
        return False
    return isinstance(outcome, (Mapping, list)) or (isinstance(outcome, np.ndarray) and outcome.ndim > 0)


def outcome_of(outcome: Any, known: dict[Any, int], fixed: bool, name: str) -> Any:
    """A label, or a `Soft` one of two classes or more; with `fixed` a new class is refused."""
    if not is_soft(outcome):
        if fixed:
            class_of(outcome, known, name)
        return check_label(outcome, name)
    soft = soft_of(outcome, known, fixed, name)
    return soft if soft.vector.max() < 1.0 else [*known, *soft.newcomers][int(soft.vector.argmax())]


def soft_of(outcome: Any, known: dict[Any, int], fixed: bool, name: str) -> Soft:
    """The distribution, from a dict by label (missing: 0) or a sequence in the order of the known classes.

    Labels that are not known are newcomers if they have weight, unless the classes are `fixed`.
    """
    if not isinstance(outcome, Mapping):
        if not known:
            raise ValueError(
                f"{name} must be a label or a dict while no class is known, got {shown(outcome)}"
            )
        if any(not isinstance(p, (Real, np.generic)) for p in outcome) or len(outcome) != len(known):
            wanted = f"one of the classes {shown(list(known))}, or {len(known)} probabilities"
            raise ValueError(f"{name} must be {wanted}, got {shown(outcome)}")
        return Soft(whole(check_distributions(outcome, (len(known),), name)))
    if not outcome:
        raise ValueError(f"{name} must be a label, or probabilities that sum to 1, got {outcome!r}")
    vector: list[Any] = [0.0] * len(known)
    newcomers: list[Any] = []
    for label, value in outcome.items():
        number = class_of(label, known, f"the labels of {name}") if fixed else known.get(label)
        if number is not None:
            vector[number] = value
        else:
            newcomers.append(check_label(label, f"the labels of {name}"))
            vector.append(value)
    checked = whole(check_distributions(vector, (len(vector),), name))
    kept = [i for i, p in enumerate(checked.tolist()) if i < len(known) or p > 0.0]
    return Soft(checked[kept], tuple(newcomers[i - len(known)] for i in kept if i >= len(known)))


class ClassOutcomes(NamedTuple):
    """The outcomes of a whole sequence, over the k classes that are known at the end.

    Attributes
    ----------
    numbers
        The number of each row's class, shape (T,), or MIXED.
    vectors
        The rows as distributions, shape (T, k); (0, k) if none is MIXED.
    newcomers
        The classes that are first met in a row, by row.
    """

    numbers: NDArray[np.int64]
    vectors: NDArray[np.float64]
    newcomers: dict[int, tuple[Any, ...]]

    @classmethod
    def of_numbers(cls, numbers: NDArray[np.int64], k: int, newcomers: Any = None) -> ClassOutcomes:
        """Outcomes from the numbers of k classes."""
        return cls(numbers, np.empty((0, k)), newcomers or {})

    @classmethod
    def of_vectors(cls, vectors: NDArray[np.float64], newcomers: dict[int, tuple[Any, ...]]) -> ClassOutcomes:
        """Outcomes from distributions, shape (T, k)."""
        numbers = np.where(vectors.max(axis=1) == 1.0, vectors.argmax(axis=1), MIXED)
        return cls(numbers, vectors if MIXED in numbers else vectors[:0], newcomers)

    def row(self, t: int, known: dict[Any, int]) -> Any:
        """The outcome of a row, when these classes are known: a label, or a `Soft` one."""
        newcomers = self.newcomers.get(t, ())
        if self.numbers[t] == MIXED:
            return Soft(self.vectors[t, : len(known) + len(newcomers)], newcomers)
        return [*known, *newcomers][self.numbers[t]]


def outcomes_of(outcomes: Any, known: dict[Any, int], fixed: bool, name: str = "outcomes") -> ClassOutcomes:
    """Outcomes from labels, from a table of soft labels (T, k), or from a list of labels, some of them soft.

    With `fixed` a new class is refused.
    """
    if getattr(outcomes, "ndim", 1) == 2:
        rows, columns = outcomes.shape
        if not known:
            raise ValueError(
                f"{name} must be one-dimensional while no class is known, got shape {outcomes.shape}: name "
                "the classes first (labels= or n_classes=), or give a list of dicts by label"
            )
        if columns != len(known):
            wanted = f"or a table of soft labels over the {len(known)} known classes"
            raise ValueError(f"{name} must be one-dimensional, {wanted}, got shape {outcomes.shape}")
        return ClassOutcomes.of_vectors(whole(check_distributions(outcomes, (rows, len(known)), name)), {})
    newcomers: dict[int, tuple[Any, ...]] = {}
    if not isinstance(outcomes, (list, tuple)) or not SOFT_TYPES.intersection(map(type, outcomes)):
        numbers, labels = classes_of(outcomes, known, fixed, name)
        for label, number in labels.items():
            newcomers[int(np.argmax(numbers == number))] = (label,)
        return ClassOutcomes.of_numbers(numbers, len(known) + len(labels), newcomers)
    known_so_far, rows_so_far = dict(known), []
    for t, outcome in enumerate(outcomes):
        try:
            # a label is read as a distribution with all weight on it
            given = outcome if is_soft(outcome) else {check_label(outcome, name): 1.0}
            soft = soft_of(given, known_so_far, fixed, name)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error} at row {t}") from error
        if soft.newcomers:
            newcomers[t] = soft.newcomers
            known_so_far |= {label: len(known_so_far) + i for i, label in enumerate(soft.newcomers)}
        rows_so_far.append(soft.vector)
    vectors = np.zeros((len(rows_so_far), len(known_so_far)))
    for row, vector in zip(vectors, rows_so_far, strict=True):
        row[: len(vector)] = vector
    return ClassOutcomes.of_vectors(vectors, newcomers)


def whole(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their sums, however near these are to one, so that an only class has all the weight."""
    total = totals(vectors)[..., None]
    return np.where(total == 1.0, vectors, vectors / total)


def weights_of(vectors: NDArray[np.float64], parts: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Whole weights with the sum `parts`, shape (..., k), and how far in l1 they are from the vectors.

    The sums up to each class are rounded. So the distance is at most (k - 1)/parts, and a class without
    weight gets none.
    """
    upto = np.rint(np.minimum(np.cumsum(vectors, axis=-1), 1.0) * parts).astype(np.int64)
    # after the last class with weight the sum is one, except for rounding
    upto = np.where(np.cumsum(vectors[..., ::-1], axis=-1)[..., ::-1] - vectors <= 0.0, parts, upto)
    weights = np.diff(upto, axis=-1, prepend=0)
    # always in one memory layout, since kernels are compiled for each layout
    return weights, np.asarray(totals(np.abs(vectors - weights / parts)), order="C")
