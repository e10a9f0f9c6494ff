"""Columns of a file as groups: by their values, or by ranges of many numbers.

Ranges are fixed by the rows that are given to `of`, and are then the same for all other rows: of the method
`groups` by those that are fitted, of a comparison's worst group and of `measure` by all. The two numbers
below, and the digits of the bounds, decide which groups there are, and so what `groups` answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.tables.classes import column
from onlinecal.tables.rounds import Rounds

MOST_PLAIN_VALUES = 12
"""A column of numbers with more distinct values is cut into N_RANGES ranges."""
N_RANGES = 4


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
        if len(set(names)) < len(names):
            raise ValueError(f"a group is listed twice: {', '.join(names)}")
        cuts = {}
        for name in names:
            values = column(frame, name)
            bounds: tuple[float, ...] = ()
            if values.dtype.is_numeric() and values.n_unique() > MOST_PLAIN_VALUES:
                present = values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
                quantiles = np.quantile(present, np.arange(1, N_RANGES) / N_RANGES)
                bounds = tuple(float(f"{bound:.2g}") for bound in np.unique(quantiles))
            cuts[name] = bounds
        return cls(cuts)

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Each column as texts, null where a value is missing."""
        columns = []
        for name, bounds in self.cuts.items():
            values = column(frame, name)
            if not bounds:
                columns.append(values.cast(pl.String))
                continue
            if not values.dtype.is_numeric():
                raise ValueError(f"column {name!r} must hold numbers, got {values.drop_nulls()[0]!r}")
            ends = [f"{bound:g}" for bound in bounds]
            inner = (f"{low} to {high}" for low, high in pairwise(ends))
            labels = [f"below {ends[0]}", *inner, f"from {ends[-1]}"]
            ranges = values.cast(pl.Float64).fill_nan(None).cut(bounds, labels=labels, left_closed=True)
            columns.append(ranges.cast(pl.String))
        return pl.DataFrame(columns)


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
