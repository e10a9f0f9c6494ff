"""Checks of the columns and tables that users hand in; those that return something return plain arrays.

A refusal is a ValueError that names the argument, the value and its row. No function changes its arguments,
but what is returned may share memory with them: who writes to it makes a copy first.

Nothing here has a state. What is accepted, and the types of what is returned, are part of the interface of
everything that takes arrays: uint8 from `check_shares` says that all outcomes are 0 or 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence, Sized
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.tables.frames import as_array, missing_in, names_of
from onlinecal.tables.numbers import number_of
from onlinecal.texts import shown
from onlinecal.validation import PLAIN_ARRAY, known_outcome

ROW_AND_CLASS = "row", "class"


def refuse(
    bad: Any, values: NDArray[Any], rule: str, hint: str = "", axes: Sequence[str] = ROW_AND_CLASS
) -> None:
    """Refuse the first value, or row of a table, where `bad` is true; the error names it and its place."""
    if bad.any():
        place = np.unravel_index(np.argmax(bad), bad.shape)
        raise ValueError(f"{rule}, got {np.asarray(values[place]).tolist()!r} at {_at(place, axes)}{hint}")


def _at(place: Sequence[Any], axes: Sequence[str] = ROW_AND_CLASS) -> str:
    return ", ".join(f"{axis} {i}" for axis, i in zip(axes, place, strict=False))


def check_outcomes(outcomes: ArrayLike, name: str = "outcomes") -> NDArray[np.uint8]:
    """Outcomes of shape (T,), each 0 or 1 or boolean, as uint8."""
    array = check_vector(outcomes, name)
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    rule = f"{name} must be 0/1 or boolean"
    if array.dtype.kind not in "iuf":
        # as in `outcome_of`, a value of any type is let through if it equals 0 or 1
        known = [known_outcome(outcome) for outcome in array.tolist()]
        if None not in known:
            return np.array(known, np.uint8)
        array = as_numbers(array, rule, _text_hint(name))
    hint = _code_hint(array, name)
    if ((array > 0) & (array < 1)).any():
        hint = ": these are no outcomes; are probabilities and outcomes swapped?"
    refuse((array != 0) & (array != 1), array, rule, hint)
    return array.astype(np.uint8, copy=False)


def _text_hint(name: str) -> str:
    """What to do about outcomes that are texts, for an error about them."""
    return f": compare texts first, as in {name} == 'yes'"


def _code_hint(array: NDArray[Any], name: str) -> str:
    """What to do about outcomes in other codes than 0 and 1, for an error about them."""
    if ((array == -1) | (array == 1)).all():
        return f": for -1 and 1 give ({name} + 1) // 2"
    if ((array == 1) | (array == 2)).all():
        return f": for 1 and 2 give {name} - 1"
    return ""


def as_numbers(
    array: NDArray[Any],
    rule: str,
    for_text: str = ": turn texts into numbers first",
    axes: Sequence[str] = ROW_AND_CLASS,
) -> NDArray[np.float64]:
    """The numbers of an array of any dtype as float64; an error names the first value that is no number.

    numpy makes texts of numbers beside texts: the first that spells no number is named then, if there is one.
    """
    if array.dtype.kind in "iufb":
        return array.astype(np.float64, copy=False)
    values = array.ravel().tolist()
    for number, value in enumerate(values):
        if not isinstance(value, Real) or array.dtype.kind in "mM":
            if array.dtype.kind == "U":
                number = next((n for n, text in enumerate(values) if math.isnan(number_of(text))), 0)
            hint = ": leave the row out" if value is None else ""
            if isinstance(value, (str, bytes)):
                hint = for_text
            place = np.unravel_index(number, array.shape)
            raise ValueError(f"{rule}, got {shown(values[number])} at {_at(place, axes)}{hint}")
    try:
        return array.astype(np.float64)
    except OverflowError as error:
        sizes = np.array([abs(value) > sys.float_info.max for value in values])
        place = np.unravel_index(sizes.argmax(), array.shape)
        raise ValueError(
            f"{rule}, got a number that is too large for a float at {_at(place, axes)}"
        ) from error


def check_number_column(values: ArrayLike, name: str, rule: str) -> NDArray[np.float64]:
    """Numbers of shape (T,) as float64, NaN where one is missing; errors say that `name` must `rule`."""
    array = check_vector(values, name)
    gaps = missing_in(array)
    return as_numbers(np.where(gaps, np.nan, array) if gaps.any() else array, f"{name} must {rule}")


def _scale_hint(array: NDArray[Any]) -> str:
    """What numbers outside [0, 1] may be instead of probabilities, for an error about them."""
    if (array < 0.0).any():
        return ": are they scores or log odds?"
    known = array[~np.isnan(array)]
    hints = []
    if (known > 2.0).any() and (known <= 100.0).all():
        hints.append("are they percent? divide by 100")
    if (known >= 1.0).all() and (known != np.floor(known)).any():
        hints.append(
            "are they decimal odds? 1 / odds, divided by its sum over all outcomes, is a probability"
        )
    return f": {'; or '.join(hints)}" if hints else ""


def check_shares(outcomes: ArrayLike, name: str = "outcomes") -> NDArray[np.uint8] | NDArray[np.float64]:
    """Outcomes of shape (T,), each boolean or a number in [0, 1].

    As uint8 if all of them are 0 or 1, else as float64: the type tells which they are.
    """
    array = check_vector(outcomes, name)
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    rule = f"{name} must be numbers in [0, 1] or boolean"
    if array.dtype.kind not in "iuf":
        # a text of numpy's equals neither
        if array.dtype.kind != "U":
            # as in `share_of`, a value of any type is let through if it equals 0 or 1
            listed = array.tolist()
            known = [known_outcome(outcome) for outcome in listed]
            array = np.empty(len(listed), object)
            array[:] = [
                value if outcome is None else outcome for value, outcome in zip(listed, known, strict=True)
            ]
        array = as_numbers(array, rule, _text_hint(name))
    refuse(~((array >= 0) & (array <= 1)), array, rule, _code_hint(array, name))
    whole = array.dtype.kind != "f" or bool(np.all((array == 0) | (array == 1)))
    # adding 0.0 turns -0.0 into 0.0
    return array.astype(np.uint8, copy=False) if whole else array.astype(np.float64) + 0.0


def check_probabilities(values: ArrayLike, name: str = "forecasts") -> NDArray[np.float64]:
    """Probabilities of shape (T,), each a finite number in [0, 1], as float64."""
    array = check_vector(values, name)
    if array.dtype.kind not in "iufb":
        array = as_numbers(array, f"{name} must be numbers in [0, 1]")
    array = array.astype(np.float64, copy=False)
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        refuse(bad, array, f"{name} must lie in [0, 1]", _scale_hint(array))
    return array


def check_same_length(first: Sized, second: Sized, names: str) -> None:
    """Refuse two vectors that do not belong to the same rounds."""
    if len(first) != len(second):
        raise ValueError(f"{names} must have the same length, got {len(first)} and {len(second)}")


def check_same_index(first: Any, second: Any, names: str) -> None:
    """Refuse two objects of pandas with different indexes, since their rows are matched by position."""
    if not (hasattr(first, "iloc") and hasattr(second, "iloc")):
        return
    check_same_length(first, second, names)
    if not first.index.equals(second.index):
        raise ValueError(
            f"{names} must have the same index, since rows are matched by position: align them, or give "
            ".to_numpy() of one if the order is right"
        )


def check_history(forecasts: ArrayLike, outcomes: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Forecasts and outcomes of the same rounds, shapes (T,), as float64 and uint8."""
    check_same_index(forecasts, outcomes, "forecasts and outcomes")
    p, y = check_probabilities(forecasts), check_outcomes(outcomes)
    check_same_length(p, y, "forecasts and outcomes")
    return p, y


def check_share_history(
    forecasts: ArrayLike, outcomes: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.uint8] | NDArray[np.float64]]:
    """Forecasts and outcomes in [0, 1] of the same rounds, shapes (T,), as `check_shares` returns them."""
    check_same_index(forecasts, outcomes, "forecasts and outcomes")
    p, y = check_probabilities(forecasts), check_shares(outcomes)
    check_same_length(p, y, "forecasts and outcomes")
    check_order_of(p, y)
    return p, y


def check_order_of(
    forecasts: NDArray[Any], outcomes: NDArray[Any], names: str = "forecasts, outcomes"
) -> None:
    """Refuse forecasts that are all 0 or 1 beside outcomes that are not, since they may be swapped.

    Other libraries take outcomes first. Whoever means such forecasts gives them a hair away from 0 and 1.
    """
    first, second = names.split(", ")
    if _is_certain(forecasts, 0.0) and not _is_certain(outcomes, NEARLY_CERTAIN):
        raise ValueError(
            f"{first} are all 0 or 1, and {second} are not: are they swapped? The order is {names}. If this "
            f"is meant, give numpy.clip({first}, 1e-15, 1 - 1e-15)"
        )


NEARLY_CERTAIN = 1e-9
"""An outcome this near to 0 or 1 counts as 0 or 1 that was rounded, and not as a share."""


def _is_certain(values: NDArray[Any], within: float) -> bool:
    """Whether all values are 0 or 1, up to a difference of `within`."""
    return values.dtype == np.uint8 or bool(((values <= within) | (values >= 1.0 - within)).all())


def check_vector(values: ArrayLike, name: str, for_table: str = "") -> NDArray[Any]:
    """A non-empty array of shape (T,), of any dtype; a table with one column becomes that column.

    `for_table` says what to do about a table, for the error; by default to give one of its columns.
    """
    array = as_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1 and hasattr(values, "shape"):
        array = array[:, 0]
    if array.ndim != 1:
        names = names_of(values)
        advice = ": give a list of values"
        if array.ndim == 2:
            advice = f": give one column of it{f', as df[{names[0]!r}]' if names else ''}"
            if len(array) == 1 and not names:
                advice = f": give its one row, as {name}[0]"
            elif for_table and array.shape[1] > 1:
                advice = for_table
        if names and len(set(names)) < len(names):
            called = next(n for n in names if names.count(n) > 1)
            advice = f": two of its columns are called {called!r}, rename one"
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}{advice}")
    if array.size == 0:
        raise ValueError(f"{name} is empty: give at least one value")
    return np.require(array, requirements=PLAIN_ARRAY)


FIRST_INEXACT_FLOAT = 2.0**53
"""From here on floats cannot tell neighbouring whole numbers apart."""
ROW_TOLERANCE = 1e-6
"""How far the sum of a row of class probabilities may be from 1: float32 rows of 1,000 classes pass."""


def check_probability_rows(
    values: ArrayLike, name: str = "probabilities", keep_single: bool = False
) -> NDArray[np.float64]:
    """A table of class probabilities, shape (n, k): finite, not negative, each row with sum 1, as float64.

    The sum of a row may differ from 1 by 1e-6; rows are not rescaled. With `keep_single` an array of float32
    is returned itself, not a copy, also where it is mapped from a file; callers then convert it in pieces.
    """
    table = as_array(values, name, "a table", "a table with rows of equal length")
    if table.ndim != 2:
        hint = f": for two classes give numpy.column_stack([1 - {name}, {name}])" if table.ndim == 1 else ""
        raise ValueError(f"{name} must be two-dimensional, (rounds, classes), got shape {table.shape}{hint}")
    if table.size == 0:
        raise ValueError(f"{name} is empty, its shape is {table.shape}: give at least one row")
    if table.dtype.kind not in "iufb":
        table = as_numbers(table, f"{name} must be numbers in [0, 1]")
    if not (keep_single and table.dtype in (np.float32, np.float64) and table.flags.c_contiguous):
        table = np.require(table, np.float64, PLAIN_ARRAY)
    bad = ~((table >= 0.0) & (table <= 1.0 + ROW_TOLERANCE))
    if bad.any():
        refuse(bad, table, f"{name} must lie in [0, 1]", _scale_hint(table))
    sums = table.sum(axis=1, dtype=np.float64)
    hint = f": for two classes give numpy.column_stack([1 - {name}, {name}])" if table.shape[1] == 1 else ""
    if table.shape[1] > 1 and sums.max() < 1.0 - ROW_TOLERANCE:
        hint = ": is a class left out?"
    refuse(np.abs(sums - 1.0) > ROW_TOLERANCE, sums, f"{name} must sum to 1 in every row", hint)
    return table


def check_labels(
    labels: ArrayLike,
    n_classes: int | None,
    name: str = "labels",
    for_text: str = ": number the classes first",
) -> NDArray[np.int64]:
    """Class numbers of shape (n,), whole numbers from 0 to n_classes - 1, as int64; None: however many.

    `for_text` says what to do about names of classes, for the error.
    """
    array = check_vector(labels, name, f": give class numbers, of one-hot rows numpy.argmax({name}, axis=1)")
    rule = f"{name} must be class numbers " + ("from 0 on" if n_classes is None else f"0..{n_classes - 1}")
    if array.dtype.kind not in "iufb":
        array = as_numbers(array, rule, for_text)
    bad = ~((array >= 0) & (array < (FIRST_INEXACT_FLOAT if n_classes is None else n_classes)))
    if array.dtype.kind == "f":
        bad |= array != np.floor(array)
    hint = _code_hint(array, name) if n_classes == 2 else ""
    if array.min() >= 1 and array.max() == n_classes:
        hint = ": are they counted from 1?"
    refuse(bad, array, rule, hint)
    return array.astype(np.int64, copy=False)


def check_labelled_rows(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Class probabilities (n, k) and the classes that came true (n,), as float64 and int64."""
    check_same_index(probabilities, labels, "probabilities and labels")
    _check_kinds(probabilities, labels)
    table = check_probability_rows(probabilities)
    classes = check_labels(labels, table.shape[1])
    check_same_length(table, classes, "probabilities and labels")
    return table, classes


def _check_kinds(probabilities: Any, labels: Any) -> None:
    """Refuse a column of probabilities beside a table of labels: they are swapped."""
    if len(getattr(probabilities, "shape", ())) == 1 and len(getattr(labels, "shape", ())) == 2:
        raise ValueError(
            "probabilities must be a table and labels a column, got them the other way round: swap them"
        )


def check_outcome_rows(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Class probabilities (n, k) with the classes that came true (n,), or with soft labels (n, k).

    Labels are soft if they are a table of several columns: each row holds probabilities of the classes.
    """
    array = as_array(labels, "labels")
    if array.ndim != 2 or array.shape[1] == 1:
        return check_labelled_rows(probabilities, labels)
    check_same_index(probabilities, labels, "probabilities and labels")
    _check_kinds(probabilities, labels)
    table, soft = check_probability_rows(probabilities), check_probability_rows(array, "labels")
    if soft.shape != table.shape:
        raise ValueError(f"labels must have the shape {table.shape} of probabilities, got {soft.shape}")
    check_order_of(table, soft, "probabilities, labels")
    return table, soft


def check_keys(keys: Iterable[Any], name: str = "groups") -> None:
    """Refuse floats of 2^53 and more as names, since different whole numbers become the same float there."""
    for key in keys:
        if isinstance(key, float) and abs(key) >= FIRST_INEXACT_FLOAT and math.isfinite(key):
            raise ValueError(
                f"{name} must not be floats of 2^53 and more, which have lost digits, got {key!r}: "
                "read ids as texts or whole numbers"
            )


def check_groups(groups: Any, n_rounds: int, name: str = "groups", for_text: str = "") -> NDArray[np.bool_]:
    """Membership of shape (n_rounds, G), boolean or 0/1, G >= 1: as a boolean array, rows contiguous.

    The groups may also be a data frame of boolean columns, or a single group of shape (n_rounds,). `for_text`
    says what to do about texts, for the error.
    """
    table = as_array(groups, name, "a table", "a table with rows of equal length")
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} must be a table (rounds, groups), not empty, got shape {table.shape}")
    if len(table) != n_rounds:
        raise ValueError(f"{name} must have a row for each of the {n_rounds} forecasts, got {len(table)}")
    if table.dtype != np.bool_:
        known = (table == 0) | (table == 1) if table.dtype.kind in "iufO" else np.zeros(table.shape, bool)
        text = next((value for value in table[~known][:1] if isinstance(value, (str, bytes))), None)
        hint = "" if text is None else for_text or f": give each group booleans, as column == {str(text)!r}"
        refuse(~known, table, f"{name} must be boolean or 0/1", hint, ("row", "group"))
        table = table.astype(np.bool_)
    return np.ascontiguousarray(table)
