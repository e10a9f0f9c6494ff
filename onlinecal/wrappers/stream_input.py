"""What `recalibrate_stream` is given, checked: probabilities, outcomes, when these are known, groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters.simplex.input import check_labels, classes_of
from onlinecal.rounds import first_knowing
from onlinecal.steering.replaying import Schedule
from onlinecal.validation import (
    check_labels as check_numbers,
)
from onlinecal.validation import (
    check_outcomes,
    check_probabilities,
    check_probability_rows,
    check_same_length,
    check_shares,
    check_vector,
)

UNITS = "D", "ms", "us", "ns"
"""Of numpy's times those that polars reads."""


class Given(NamedTuple):
    """Probabilities of classes, shape (T, k), numbers of those that came, (T,), and the classes' names.

    `column`: only the probabilities of the second class were given, and only those are wanted.
    """

    table: Floats
    numbers: Ints
    classes: Sequence[Hashable]
    column: bool

    def of(self, rows: Ints) -> Given:
        """Some rows of it."""
        return self._replace(table=self.table[rows], numbers=self.numbers[rows])


class Group(NamedTuple):
    """One stream among those of a column: its key, its rows, and in which order these settle.

    `known` has for each row, as they settle, the first row of the column that knows it.
    """

    key: Hashable
    rows: Ints
    schedule: Schedule
    known: Ints


def read_stream(probabilities: Any, outcomes: Any) -> Given:
    """Probabilities and outcomes of the same rows; ValueError names what is none, and its row."""
    try:
        dimensions = len(getattr(probabilities, "shape", None) or np.shape(probabilities))
    except ValueError:  # ragged, which the check below says
        dimensions = 1
    if dimensions != 2:
        p, y = check_probabilities(probabilities, "probabilities"), _events(outcomes)
        check_same_length(p, y, "probabilities and outcomes")
        return Given(np.column_stack([1.0 - p, p]), y.astype(np.int64), (0, 1), True)
    table = check_probability_rows(probabilities)
    classes, numbered = _classes(probabilities, table.shape[1])
    numbers = _numbers(outcomes, classes, numbered)
    check_same_length(table, numbers, "probabilities and outcomes")
    return Given(table, numbers, classes, False)


def _events(outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Outcomes 0 and 1; ValueError says what takes shares."""
    try:
        return check_outcomes(outcomes)
    except ValueError as error:
        try:
            check_shares(outcomes)
        except ValueError:
            raise error from None
        raise ValueError(
            f"{error}: steering learns from events; outcomes between 0 and 1 go with "
            "AlmostOneStepAhead, whose replay takes them with the probabilities as hints"
        ) from None


def _classes(given: Any, k: int) -> tuple[Sequence[Hashable], bool]:
    """What the k columns are called, and whether outcomes may be their numbers, too."""
    if k < 2:
        raise ValueError(
            f"probabilities must have a column for each class, at least 2, got {k}: for two classes a flat "
            "column of those of outcome 1 will do"
        )
    if not hasattr(given, "columns"):
        return range(k), True
    classes = check_labels(list(given.columns), "the columns of probabilities")
    texts = [str(name) for name in classes]
    # columns "1", "2", "3": whether an outcome of 1 is the first or the second of them nobody can know
    return classes, texts == [str(number) for number in range(k)] or not any(map(str.isdigit, texts))


def _numbers(outcomes: Any, classes: Sequence[Hashable], numbered: bool) -> Ints:
    """Outcomes as numbers of classes: they are names of columns, or numbers already."""
    known = {name: number for number, name in enumerate(classes)}
    if getattr(outcomes, "ndim", 1) == 2:
        raise ValueError(
            f"outcomes must have one label a row, got shape {outcomes.shape}: soft labels go with "
            "SimplexAlmostOneStepAhead, whose replay takes them with the probabilities as hints"
        )
    try:
        return classes_of(outcomes, known, True)[0]
    except ValueError:
        values = np.asarray(outcomes)
        if not numbered or values.dtype.kind not in "iufb":
            raise
    check_numbers(values, len(classes), "outcomes")
    return values.astype(np.int64)


def known_of(
    settled_at: ArrayLike | None, times: ArrayLike | None, given: Given
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """For each row the first one that knows its outcome, and numbers in the order of settling; both (T,)."""
    if settled_at is None:
        if times is not None:
            raise ValueError("times say nothing without settled_at, got None for that")
        rows = np.arange(len(given.table))
        return rows + 1, rows
    column = _series(settled_at, "settled_at", given)
    made = None if times is None else _series(times, "times", given)
    known, settled = first_knowing(column, made, "settled_at", "give the forecasts' as times=")
    return known.astype(np.int64), settled


def groups_of(groups: ArrayLike | None, known: NDArray[np.int64], settled: NDArray[Any]) -> list[Group]:
    """The streams among the rows, in the order in which they begin."""
    parts: dict[Hashable, NDArray[np.int64]] = {None: np.arange(len(known))}
    if groups is not None:
        parts = _rows_by_key(groups, known)
    found = []
    for key, rows in parts.items():
        order = np.argsort(settled[rows], kind="stable")
        at = known[rows][order]
        found.append(Group(key, rows, Schedule(order, np.searchsorted(rows, at)), at))
    return found


def _rows_by_key(groups: Any, known: NDArray[np.int64]) -> dict[Hashable, NDArray[np.int64]]:
    array = check_vector(groups, "groups")
    check_same_length(known, array, "probabilities and groups")
    if array.dtype.kind in "biuU":
        return _rows_by_plain_key(array)
    keys = array.tolist()
    numbers: dict[Hashable, int] = {}
    of_row = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys):
        if key is None or key != key:
            raise ValueError(f"groups must name a key for every row, got {key!r} at row {row}")
        try:
            of_row[row] = numbers.setdefault(key, len(numbers))
        except TypeError as error:
            raise ValueError(f"groups must be keys with a hash, got {key!r} at row {row}") from error
    return dict(zip(numbers, _split(of_row), strict=True))


def _rows_by_plain_key(keys: NDArray[Any]) -> dict[Hashable, NDArray[np.int64]]:
    """The same for keys of which none can be missing."""
    distinct, first, places = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return dict(zip(distinct[order].tolist(), _split(ranks[places]), strict=True))


def _split(of_row: Ints) -> list[Ints]:
    """The rows of each number, from 0."""
    return np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row))[:-1])


def _series(values: Any, name: str, given: Given) -> Any:
    """Times or row numbers as a polars Series of that name, one for each of the rows."""
    import polars as pl

    if not isinstance(values, pl.Series):
        array = check_vector(values, name)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in UNITS:
            array = array.astype("datetime64[ms]")
        values = pl.Series(name, array.tolist() if array.dtype.kind == "O" else array)
    check_same_length(given.table, values, f"probabilities and {name}")
    return values.alias(name)
