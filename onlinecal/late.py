"""When each outcome of a file became known: the rows whose forecasts may have learnt from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onlinecal.columns import numbers_of
from onlinecal.rounds import Rounds, group_numbers

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray


def known_from(
    rounds: Rounds, settled_at: str | None, group: str | None, sort: str | None
) -> NDArray[Any] | None:
    """For each row the first row whose forecast may have learnt from its outcome, shape (T,); None: the next.

    Parameters
    ----------
    rounds
        The rows, ordered by `sort`, with these columns in their frame.
    settled_at
        A column that says when an outcome became known: in units of `sort`, or without that the number of a
        row, from 0. Forecasts of later times, or rows, know it.
    group
        A column: outcomes become known after the last row with the same value.
    sort
        The column of times of the forecasts.

    Raises
    ------
    ValueError
        Both columns are named; an outcome has no such time, one before its forecast, or one that cannot be
        compared with `sort`.
    """
    import numpy as np

    rows = np.arange(len(rounds.outcomes))
    if settled_at is not None and group is not None:
        raise ValueError("--settled-at and --group exclude each other: both say when outcomes become known")
    if group is not None:
        of_group = group_numbers(rounds, group)
        last = np.zeros(of_group.max() + 1, dtype=np.int64)
        np.maximum.at(last, of_group, rows)
        return last[of_group] + 1
    if settled_at is None:
        return None
    column = rounds.frame[settled_at]
    times = None if sort is None else rounds.frame[sort]
    advice = "--sort must name the column of the forecasts'"
    return first_knowing(column, times, f"{rounds.name}: column {settled_at!r}", advice)[0]


def first_knowing(
    settled_at: pl.Series, times: pl.Series | None, called: str, advice: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each row the first one that knows its outcome, and numbers in the order of settling; both (T,).

    Parameters
    ----------
    settled_at
        When each outcome became known: in units of `times`, or without those the number of a row.
    times
        Of the forecasts, never decreasing.
    called
        What errors call `settled_at`.
    advice
        What to do where times take the place of row numbers.

    Raises ValueError as `known_from` does, and for times that decrease.
    """
    import numpy as np

    made, settled = _comparable(settled_at, times, called, advice)
    falls = made[1:] < made[:-1]
    if times is not None and falls.any():
        row = int(falls.argmax()) + 1
        raise ValueError(
            f"{times.name} must not decrease, got {times[row]} at row {row} after {times[row - 1]}: "
            "sort the rows"
        )
    early = settled < made
    if early.any():
        row = int(early.argmax())
        own = f"row {row}" if times is None else f"{times.name} {times[row]}"
        raise ValueError(
            f"{called} has {settled_at[row]} at row {row}, before the forecast itself, which is of {own}"
        )
    rows = np.arange(len(settled))
    return np.maximum(np.searchsorted(made, settled, side="right"), rows + 1), settled


def _comparable(
    column: pl.Series, made: pl.Series | None, called: str, advice: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The times of forecasts and of outcomes, both as numbers of shape (T,)."""
    import numpy as np
    import polars as pl

    _check_present(column, called)
    if made is None:
        settled = numbers_of(column)
        if np.isnan(settled).any() or (settled != np.floor(settled)).any():
            raise ValueError(f"{called} holds no row numbers but {column[0]}: of times, {advice}")
        return np.arange(len(settled)), settled
    _check_present(made, made.name)
    if made.dtype == pl.String and column.dtype == pl.String:
        times, settled = numbers_of(made), numbers_of(column)
        if not (np.isnan(times).any() or np.isnan(settled).any()):
            return times, settled
    kinds = [
        "number" if one.dtype.is_numeric() else "time" if one.dtype.is_temporal() else str(one.dtype)
        for one in (made, column)
    ]
    try:
        if kinds[0] != kinds[1]:
            raise pl.exceptions.SchemaError
        both = pl.concat([made.alias("t").to_frame(), column.alias("t").to_frame()], how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{called} and {made.name!r} cannot be compared: {column.dtype} and {made.dtype}"
        ) from error
    ranks = both["t"].rank("dense").to_numpy()
    return ranks[: len(made)], ranks[len(made) :]


def _check_present(column: pl.Series, called: str) -> None:
    """ValueError names the first row without a value."""
    missing = column.is_null() | column.is_nan() if column.dtype.is_float() else column.is_null()
    if missing.any():
        raise ValueError(f"{called} has no value at row {missing.arg_true()[0]}")
