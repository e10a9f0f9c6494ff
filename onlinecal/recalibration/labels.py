"""Labels as users have them, of any kind or one-hot, as class numbers; names of columns as classes."""

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

    Labels may be one-hot, shape (n, k): in the order of the classes, or a DataFrame whose columns they name.

    Raises
    ------
    ValueError
        A number of classes other than n_classes, a class named twice, a label that is no class, a row that
        is not one-hot.
    """
    if classes is None:
        if (found := _from_one_hot(labels, np.arange(n_classes))) is not None:
            return found, np.arange(n_classes)
        return check_labels(labels, n_classes, "y"), np.arange(n_classes)
    known = np.empty(len(classes), dtype=object)
    known[:] = classes if isinstance(classes, list) else list(classes)
    if len(known) != n_classes:
        raise ValueError(f"classes must name the {n_classes} columns of P, got {len(known)} of them")
    numbers = {label: number for number, label in enumerate(known)}
    if len(numbers) != n_classes:
        twice = next(label for number, label in enumerate(known) if numbers[label] != number)
        raise ValueError(f"classes must differ, got {twice!r} twice")
    if (found := _from_one_hot(labels, known)) is not None:
        return found, _plain(known)
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
    return found, _plain(known)


def _plain(known: NDArray[Any]) -> NDArray[Any]:
    """Classes as an array of numbers or texts, if its entries are still the labels."""
    if all(isinstance(label, (bool, int, float, str, np.generic)) for label in known):
        plain = np.array(known.tolist())
        # numpy turns mixed kinds into one
        return plain if plain.tolist() == known.tolist() else known
    return known


def column_names(table: Any) -> list[Hashable] | None:
    """The names of a DataFrame's columns; None for what has none."""
    names = getattr(table, "columns", None)
    return None if names is None else list(names)


def classes_of(table: Any, labels: Any, classes: Sequence[Hashable] | None) -> Sequence[Hashable] | None:
    """The given classes; if None, the names of the table's columns, where the labels are such names.

    None again where columns have no names, or labels are others: class numbers.
    """
    names = column_names(table)
    if classes is not None or names is None or len(set(names)) != len(names):
        return classes
    found = column_names(labels)
    if found is not None and set(found) == set(names):
        return names
    try:
        values = set(np.asarray(labels).tolist())
    except (TypeError, ValueError):
        return None
    # where only some of the texts are names, the message tells which one is not
    strays = any(isinstance(value, str) for value in values) and not values.isdisjoint(names)
    return names if values <= set(names) or strays else None


def _from_one_hot(labels: Any, known: NDArray[Any]) -> NDArray[np.int64] | None:
    """Class numbers from a table (n, k) of one 1 a row; None if labels are no table of k columns."""
    names = column_names(labels)
    if names is None and any(isinstance(label, tuple) for label in known):
        return None
    try:
        table = np.asarray(labels)
    except ValueError:
        return None
    if table.ndim != 2 or table.shape[1] < 2:
        return None
    if table.shape[1] != len(known):
        raise ValueError(f"y must have shape (n,), or one-hot (n, {len(known)}), got {table.shape}")
    ones = table == 1
    bad = ~(ones | (table == 0)).all(axis=1) | (ones.sum(axis=1) != 1)
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"y must have one 1 and else 0 in every row, got {table[row].tolist()} at row {row}")
    if names is not None and set(names) == set(known.tolist()):
        order = [names.index(label) for label in known.tolist()]
        ones = ones[:, order]
    return ones.argmax(axis=1)
