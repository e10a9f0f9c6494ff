"""When each outcome of a file became known: the rows whose forecasts may have learnt from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onlinecal.columns import numbers_of
from onlinecal.rounds import Rounds, group_numbers

if TYPE_CHECKING:
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
    times, settled = _comparable(rounds, settled_at, sort)
    early = settled < times
    if early.any():
        row = int(early.argmax())
        own = f"row {row}" if sort is None else f"{sort} {rounds.frame[sort][row]}"
        raise ValueError(
            f"{rounds.name}: column {settled_at!r} has {rounds.frame[settled_at][row]} at row {row}, "
            f"before the forecast itself, which is of {own}"
        )
    return np.maximum(np.searchsorted(times, settled, side="right"), rows + 1)


def _comparable(rounds: Rounds, settled_at: str, sort: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The times of forecasts, increasing, and of outcomes, both as numbers of shape (T,)."""
    import numpy as np
    import polars as pl

    column = rounds.frame[settled_at]
    if column.null_count():
        row = column.is_null().arg_true()[0]
        raise ValueError(f"{rounds.name}: column {settled_at!r} has no value at row {row}")
    if sort is None:
        settled = numbers_of(column)
        if np.isnan(settled).any() or (settled != np.floor(settled)).any():
            raise ValueError(
                f"{rounds.name}: column {settled_at!r} holds no row numbers but {column[0]}: of times, "
                "--sort must name the column of the forecasts'"
            )
        return np.arange(len(settled)), settled
    made = rounds.frame[sort]
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
            f"{rounds.name}: {settled_at!r} and {sort!r} cannot be compared: {column.dtype} and {made.dtype}"
        ) from error
    ranks = both["t"].rank("dense").to_numpy()
    return ranks[: len(made)], ranks[len(made) :]
