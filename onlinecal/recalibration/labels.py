"""Labels as users have them, of any kind, as class numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.validation import check_labels


def number_labels(
    labels: ArrayLike, n_classes: int, classes: Sequence[Hashable] | None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Labels as class numbers, shape (n,), and the classes, shape (k,).

    Raises
    ------
    ValueError
        A number of classes other than n_classes, a class named twice, a label that is no class.
    """
    if classes is None:
        return check_labels(labels, n_classes, "y"), np.arange(n_classes)
    known = np.empty(len(classes), dtype=object)
    known[:] = classes if isinstance(classes, list) else list(classes)
    if len(known) != n_classes:
        raise ValueError(f"classes must name the {n_classes} columns of P, got {len(known)} of them")
    numbers = {label: number for number, label in enumerate(known)}
    if len(numbers) != n_classes:
        twice = next(label for number, label in enumerate(known) if numbers[label] != number)
        raise ValueError(f"classes must differ, got {twice!r} twice")
    if not isinstance(labels, Iterable):
        raise ValueError(f"y must be a sequence of labels, got {labels!r}")
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    found = np.empty(len(values), dtype=np.int64)
    for row, label in enumerate(values):
        try:
            found[row] = numbers[label]
        except (KeyError, TypeError):
            raise ValueError(f"y must be one of the classes, got {label!r} at row {row}") from None
    if not len(found):
        raise ValueError("y is empty")
    if all(isinstance(label, (bool, int, float, str, np.generic)) for label in known):
        plain = np.array(known.tolist())
        # numpy turns mixed kinds into one; only keep an array whose entries are still the labels
        known = plain if plain.tolist() == known.tolist() else known
    return found, known
