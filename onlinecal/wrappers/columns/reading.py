"""Reads a column or a table of probabilities with the outcomes of the same rows.

Here is checked what all that follows relies on: probabilities in [0, 1], rows with sum 1, outcomes that are
classes, and as many of them as rows. Where an outcome is missing its number stands for nothing: `completed`
has filled the gap with one that came. A column becomes a table of two classes, of which the second is given
back. Nothing here has a state; the fields of `Classes` are saved by name with a column.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters.simplex.input import check_labels, classes_of
from onlinecal.tables.columns import check_labels as check_numbers
from onlinecal.tables.columns import (
    check_outcomes,
    check_probabilities,
    check_probability_rows,
    check_same_length,
)
from onlinecal.tables.frames import as_array, names_of
from onlinecal.texts import shown
from onlinecal.wrappers.settling import completed, missing_of


class Classes(NamedTuple):
    """What the k columns of a table are called, or those of a single column."""

    names: Sequence[Hashable]
    is_column: bool = False
    """Only the probabilities of the second class are given, and only those are wanted."""
    are_numbers: bool = True
    """Whether outcomes may be numbers of classes, besides their names."""

    def numbers_of(self, outcomes: Any) -> Ints:
        """Outcomes that have come as numbers of classes, shape (T,); ValueError for what is none."""
        if self.is_column:
            return check_outcomes(outcomes).astype(np.int64)
        known = {name: number for number, name in enumerate(self.names)}
        try:
            return classes_of(outcomes, known, True)[0]
        except ValueError:
            values = as_array(outcomes, "outcomes")
            if not self.are_numbers or values.dtype.kind not in "iufb":
                raise
        check_numbers(values, len(self.names), "outcomes")
        return values.astype(np.int64)

    def silence(self, absent: Hashable) -> int:
        """The number of the outcome that silence means; None: the first class."""
        if absent is None:
            return 0
        if self.is_column:
            if absent not in (0, 1):
                raise ValueError(f"absent must be 0 or 1, got {shown(absent)}")
            return int(absent == 1)
        try:
            return int(self.numbers_of([absent])[0])
        except ValueError:
            known = list(self.names)
            raise ValueError(f"absent must be one of the classes {known}, got {shown(absent)}") from None


A_COLUMN = Classes((0, 1), True)


class ReadStream(NamedTuple):
    """Probabilities of k classes, shape (T, k), and numbers of those that came, (T,)."""

    table: Floats
    numbers: Ints
    missing: NDArray[np.bool_] | None
    """Which outcomes are, shape (T,), their numbers saying nothing; None if all have come."""
    classes: Classes


def read_stream(probabilities: Any, outcomes: Any, expected: Classes | None = None) -> ReadStream:
    """Probabilities and outcomes of the same rows; ValueError names what is none, and its row.

    Outcomes are None if none has come. `expected` are the classes of earlier rows, if there are any.
    """
    even = "a flat sequence, or a table with rows of equal length"
    array = as_array(probabilities, "probabilities", "a column or a table", even)
    if array.ndim not in (1, 2):
        got = f"shape {array.shape}" if array.ndim else shown(probabilities)
        raise ValueError(f"probabilities must be a column, (T,), or a table, (T, k), got {got}")
    outcomes, missing = missing_of([None] * len(array) if outcomes is None else outcomes)
    is_column = array.ndim != 2
    if expected is not None and expected.is_column != is_column:
        wanted = (
            "a column, the probabilities of outcome 1"
            if expected.is_column
            else "a table with a column for each class"
        )
        raise ValueError(f"probabilities must be {wanted}, as in earlier rows, got shape {array.shape}")
    if is_column:
        classes, p = A_COLUMN, check_probabilities(array, "probabilities")
        table = np.column_stack([1.0 - p, p])
    else:
        classes = _classes(probabilities, array.shape[1], expected)
        table = check_probability_rows(array)
    came = outcomes if missing is None else completed(outcomes, missing, classes.names[0])
    numbers = classes.numbers_of(came)
    check_same_length(table, numbers, "probabilities and outcomes")
    return ReadStream(table, numbers, missing, classes)


def _classes(probabilities: Any, k: int, expected: Classes | None) -> Classes:
    """What the k columns are called; those of earlier rows must be called the same."""
    names = names_of(probabilities)
    if expected is not None:
        known = list(expected.names)
        if k != len(known) or (names is not None and list(names) != known):
            raise ValueError(
                f"probabilities must have the columns {known}, in this order, as in earlier rows, got "
                f"{f'{k} columns without names' if names is None else list(names)}"
            )
        return expected
    if k < 2:
        flat = "the column of outcome 1 alone" + (f", as df[{names[0]!r}]" if names else ", of shape (T,)")
        raise ValueError(
            f"probabilities must have a column for each class, at least 2, got {k}: for two classes give "
            f"{flat}"
        )
    if names is None:
        return Classes(range(k))
    classes = check_labels(names, "the columns of probabilities")
    texts = [str(name) for name in classes]
    # columns "1", "2", "3": whether an outcome of 1 is the first or the second of them nobody can know
    are_numbers = texts == [str(number) for number in range(k)] or not any(map(str.isdigit, texts))
    return Classes(classes, are_numbers=are_numbers)
