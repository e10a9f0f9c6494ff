"""Groups that are made of columns, and recorded forecasts measured inside them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from onlinecal.cli.recalibrating.events import column
from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.rounds import Rounds

if TYPE_CHECKING:
    from rich.table import Table

MOST_VALUES = 12
"""A column of numbers with more distinct values than this is cut into ranges."""
RANGES = 4


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
    def of(cls, frame: pl.DataFrame, names: list[str]) -> GroupColumns:
        """Quartiles of the columns of numbers that have more than 12 different values."""
        if len(set(names)) < len(names):
            raise ValueError(f"a group is listed twice: {', '.join(names)}")
        cuts = {}
        for name in names:
            values = column(frame, name)
            bounds: tuple[float, ...] = ()
            if values.dtype.is_numeric() and values.n_unique() > MOST_VALUES:
                present = values.cast(pl.Float64).drop_nulls().drop_nans().to_numpy()
                found = np.quantile(present, np.arange(1, RANGES) / RANGES)
                bounds = tuple(float(f"{bound:.2g}") for bound in np.unique(found))
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
            floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
            labels = _range_names(bounds)
            places = pl.Series(np.searchsorted(bounds, floats, "right"))
            texts = pl.Series(name, labels, dtype=pl.String).gather(places)
            columns.append(texts.set(pl.Series(np.isnan(floats)), None))
        return pl.DataFrame(columns)


def _range_names(bounds: tuple[float, ...]) -> list[str]:
    ends = [f"{bound:g}" for bound in bounds]
    middle = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"below {ends[0]}", *middle, f"from {ends[-1]}"]


def group_reports(rounds: Rounds, groups: list[str], n_levels: int) -> dict[str, MulticalibrationReport]:
    """A report for every column of forecasts: everyone, all values of the columns, all pairs of two columns.

    Raises ValueError for columns of groups that are listed twice.
    """
    try:
        table = GroupColumns.of(rounds.frame, groups)(rounds.frame)
    except ValueError as error:
        raise ValueError(f"{rounds.name}: {error}") from error
    maker = GroupMaker()
    members = maker.fit(table, rounds.frame.height)
    return {
        name: multicalibration_report(forecasts, rounds.outcomes, members, n_levels, maker.names_)
        for name, forecasts in rounds.forecasts.items()
    }


def group_table(name: str, report: MulticalibrationReport, n_levels: int) -> Table:
    """A line per group, the one with the largest violation first; averages over rounds."""
    from onlinecal.cli.output import table

    lines = sorted(report.lines, key=lambda line: -line.violation)
    rows = [
        [
            line.name,
            f"{line.count:,}",
            f"{line.forecast:.4f}",
            f"{line.outcome:.4f}",
            f"{line.squared_error:.4f}",
            f"{line.violation:.2g}",
            f"{line.noise:.2g}",
            "–"
            if line.worst is None
            else f"{line.worst.forecast:.3f} → {line.worst.outcome:.3f} in {line.worst.count:,}",
        ]
        for line in lines
        if line.count
    ]
    return table(
        f"{name} in each group, level sets of width 1/{n_levels}: averages over rounds",
        ["group", "rounds", "forecast", "outcome", "Brier", "violation", "by chance", "worst level set"],
        rows,
    )
