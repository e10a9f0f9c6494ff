"""Columns of a file as groups: by their values, or by ranges of many numbers.

Ranges are fixed by the rows that are given to `of`, and are then the same for all other rows: of the method
`groups` by those that are fitted, of a comparison's worst group and of `measure` by all. The three numbers
below decide which groups there are, and so what `groups` answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from onlinecal.arrays import Floats
from onlinecal.cli.verbs import check_different
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.tables.classes import column
from onlinecal.tables.rounds import Rounds
from onlinecal.texts import shown

MOST_PLAIN_VALUES = 12
"""A column of numbers with more distinct values is cut into N_RANGES ranges."""
N_RANGES = 4
LEAST_DIGITS = 2
"""Bounds have so many significant digits, or more where ranges would come to have the same rows."""


@dataclass(frozen=True)
class GroupColumns:
    """How columns become categories: by their values, or columns of many numbers by ranges.

    Attributes
    ----------
    cuts
        The bounds of the ranges of each column; none for columns taken by their values.
    """

    cuts: dict[str, tuple[float, ...]]

    @classmethod
    def of(cls, frame: pl.DataFrame, names: Sequence[str]) -> GroupColumns:
        """Quartiles of the columns of numbers that have more than 12 different values."""
        check_different(names, "--group")
        cuts = {}
        for name in names:
            values = column(frame, name, f"--group {name}: the file")
            bounds: tuple[float, ...] = ()
            if values.dtype.is_numeric() and values.n_unique() > MOST_PLAIN_VALUES:
                bounds = readable_quantiles(values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy())
            cuts[name] = bounds
        return cls(cuts)

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Each column as texts, null where a value is missing."""
        columns = []
        for name, bounds in self.cuts.items():
            values = column(frame, name, f"--group {name}: the file")
            if not bounds:
                columns.append(values.cast(pl.String))
                continue
            if not values.dtype.is_numeric():
                raise ValueError(
                    f"--group {name}: the column must hold numbers as in the rows that were fitted, whose "
                    f"groups are ranges of numbers, got {_not_a_number(values)}; mend it, or leave --group "
                    f"{name} out"
                )
            found = values.cast(pl.Float64).to_numpy()
            missing = np.isnan(found)
            places = np.where(missing, len(bounds) + 1, np.searchsorted(bounds, found, side="right"))
            columns.append(pl.Series(name, [*range_names(bounds), None], pl.String).gather(places))
        return pl.DataFrame(columns)


def readable_quantiles(values: Floats) -> tuple[float, ...]:
    """The quartiles of numbers (n,), each once, ascending, with as few digits as keep the ranges apart.

    No two bounds are equal, and every range that has rows between the quartiles themselves has some still. A
    quartile that is infinite is no bound.
    """
    with np.errstate(invalid="ignore"):
        quantiles = np.unique(np.quantile(values, np.arange(1, N_RANGES) / N_RANGES))
    exact = quantiles[np.isfinite(quantiles)]
    for digits in range(LEAST_DIGITS, 17):
        rounded = np.array([float(f"{bound:.{digits}g}") for bound in exact])
        if len(np.unique(rounded)) == len(exact) and _n_ranges(rounded, values) >= _n_ranges(exact, values):
            return tuple(rounded.tolist())
    return tuple(exact.tolist())


def _n_ranges(bounds: Floats, values: Floats) -> int:
    """How many of the ranges between the bounds have rows."""
    return len(np.unique(np.searchsorted(bounds, values, side="right")))


def range_names(bounds: Sequence[float]) -> list[str]:
    """The names of the ranges, one more than there are bounds; a bound belongs to the range above it."""
    # the shortest text of each number, so that two bounds never look the same
    ends = [repr(bound).removesuffix(".0") for bound in bounds]
    return [f"below {ends[0]}", *(f"{low} to {high}" for low, high in pairwise(ends)), f"from {ends[-1]}"]


def _not_a_number(values: pl.Series) -> str:
    """A value of a column that is not numeric, as an error shows it."""
    present = values.drop_nulls()
    if present.is_empty():
        return "no value at all"
    if present.dtype == pl.String:
        others = present.filter(present.cast(pl.Float64, strict=False).is_null())
        present = others if len(others) else present
    return shown(present[0])


def group_reports(rounds: Rounds, groups: list[str], n_bins: int) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts, on everyone, all values of the columns, and pairs of values.

    Raises ValueError if a column of groups is listed twice.
    """
    table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
    maker = GroupMaker()
    members = maker.fit(table, rounds.frame.height)
    return {
        name: multicalibration_report(forecasts, rounds.outcomes, members, n_bins=n_bins, names=maker.names_)
        for name, forecasts in rounds.forecasts.items()
    }
