"""Groups made of categories and predicates, and what a recalibration repaired in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.measures.groups import MulticalibrationReport
from onlinecal.validation import check_groups, check_share

Predicate = Callable[[Any], Any]
Predicates = Mapping[str, Predicate] | Sequence[Predicate] | Predicate | None
EVERYONE = "everyone"


class Category(NamedTuple):
    """All rows with one value in one column; None stands for a missing value."""

    column: str
    value: Any

    @property
    def name(self) -> str:
        """The category in words."""
        return f"{self.column}={'missing' if self.value is None else self.value}"

    def inside(self, codes: Ints, index: dict[Any, int]) -> Bools:
        """Which rows it is, of its column as `encode` has it; none if that has no such value."""
        return codes == index.get(self.value, -1)


class GroupMaker:
    """Turns whatever stands for groups into a boolean matrix, the same groups for every table.

    - Predicates, if any are given, are asked about the table as it is: each returns one boolean a row.
    - A data frame with a column that is not boolean is taken as categories: everyone, every category of a
      column and every pair of categories of two columns is a group, if enough rows belong to it. A pair with
      the same rows as one of its two categories is left out. Missing values are a category of their own;
      categories that were not there in `fit` belong to no group.
    - Anything else is taken as the membership matrix, shape (n, G), boolean or 0/1.

    Parameters
    ----------
    min_mass
        The least share of the rows that a group made of categories must have, in (0, 1].
    predicates
        Names and functions, or functions alone.

    Attributes
    ----------
    names_
        A name for each group, in the order of the columns of the matrix.
    n_groups_
        How many there are.

    """

    def __init__(self, min_mass: float = 0.02, predicates: Predicates = None) -> None:
        self.min_mass = check_share(min_mass, "min_mass")
        self.predicates = named_predicates(predicates)

    def fit(self, groups: Any, n_rows: int, weights: Floats | None = None) -> Bools:
        """Settle which groups there are, from the rows at hand; their membership, shape (n_rows, G)."""
        groups = as_frame(groups)
        self._columns: list[str] | None = None
        if not self.predicates and holds_categories(groups):
            return self._fit_categories(groups, n_rows, weights)
        members = self._ask(groups, n_rows) if self.predicates else check_groups(groups, n_rows)
        names = list(self.predicates) or [str(c) for c in getattr(groups, "columns", range(members.shape[1]))]
        self.names_, self.n_groups_ = names, members.shape[1]
        self._labelled = not self.predicates and hasattr(groups, "columns")
        return members

    def transform(self, groups: Any, n_rows: int) -> Bools:
        """Membership of other rows in the groups of `fit`, shape (n_rows, G)."""
        groups = as_frame(groups)
        if self._columns is not None:
            codes = self._codes(groups, n_rows)
            known = [cell[0] for cell in self._cells if len(cell) == 1]
            return self._members({one: one.inside(*codes[one.column]) for one in known}, n_rows)
        if self.predicates:
            return self._ask(groups, n_rows)
        if self._labelled and hasattr(groups, "columns"):
            by_name = columns_of(groups, self.names_)
            groups = groups[[by_name[name] for name in self.names_]]
        members = check_groups(groups, n_rows)
        if members.shape[1] != self.n_groups_:
            raise ValueError(f"groups must have the {self.n_groups_} columns of fit, got {members.shape[1]}")
        return members

    def _ask(self, table: Any, n_rows: int) -> Bools:
        columns = []
        for name, predicate in self.predicates.items():
            column = check_groups(predicate(table), n_rows, f"the answer of predicate {name!r}")
            if column.shape[1] != 1:
                raise ValueError(f"predicate {name!r} must answer one boolean a row, got {column.shape}")
            columns.append(column)
        return np.ascontiguousarray(np.hstack(columns))

    def _fit_categories(self, frame: Any, n_rows: int, weights: Floats | None) -> Bools:
        self._columns = [str(name) for name in frame.columns]
        least = self.min_mass * (n_rows if weights is None else weights.sum())
        inside: dict[Category, Bools] = {}
        for name, (codes, index) in self._codes(frame, n_rows).items():
            sizes = np.bincount(codes, weights, minlength=len(index))
            frequent = (Category(name, value) for value, k in index.items() if 0 < least <= sizes[k])
            inside |= {one: one.inside(codes, index) for one in frequent}

        def size_of(rows: Bools) -> float:
            return float(rows.sum() if weights is None else weights[rows].sum())

        sizes_of = {one: size_of(rows) for one, rows in inside.items()}
        self._cells: list[tuple[Category, ...]] = [(), *((one,) for one in inside)]
        of_columns = ([one for one in inside if one.column == name] for name in self._columns)
        for left, right in combinations(of_columns, 2):
            for one, other in product(left, right):
                size = size_of(inside[one] & inside[other])
                if size >= least and size not in (sizes_of[one], sizes_of[other]):
                    self._cells.append((one, other))
        self.names_ = [" & ".join(one.name for one in cell) or EVERYONE for cell in self._cells]
        self.n_groups_ = len(self._cells)
        return self._members(inside, n_rows)

    def _members(self, inside: dict[Category, Bools], n_rows: int) -> Bools:
        """Which rows are in all categories of each cell."""
        members = np.ones((self.n_groups_, n_rows), bool)
        for row, cell in zip(members, self._cells, strict=True):
            for category in cell:
                row &= inside[category]
        return np.ascontiguousarray(members.T)

    def _codes(self, frame: Any, n_rows: int) -> dict[str, tuple[Ints, dict[Any, int]]]:
        """What `encode` says of each column of `fit`."""
        names = self._columns or []
        if not hasattr(frame, "columns"):
            raise ValueError(f"groups must be a data frame with columns {names}, got {type(frame)!r}")
        if len(frame) != n_rows:
            raise ValueError(f"groups must have a row for each of the {n_rows} forecasts, got {len(frame)}")
        by_name = columns_of(frame, names)
        return {name: encode(frame[by_name[name]]) for name in names}


def columns_of(frame: Any, names: list[str]) -> dict[str, Any]:
    """A data frame's own names of its columns, by what they are as texts; ValueError if one is missing."""
    by_name = {str(name): name for name in frame.columns}
    if missing := [name for name in names if name not in by_name]:
        raise ValueError(f"groups lacks the column {missing[0]!r} that it had in fit")
    return by_name


def as_frame(groups: Any) -> Any:
    """A Series of pandas or polars as a data frame of one column; anything else as it is."""
    return groups.to_frame() if hasattr(groups, "to_frame") and not hasattr(groups, "columns") else groups


def holds_categories(groups: Any) -> bool:
    """Whether this is a data frame with a column that is not boolean."""
    if not hasattr(groups, "columns") or not hasattr(groups, "dtypes"):
        return False
    return any(str(dtype).lower() not in ("bool", "boolean") for dtype in groups.dtypes)


def encode(column: Any) -> tuple[Ints, dict[Any, int]]:
    """A data frame's column as numbers, and the number of each value, in order of first appearance.

    Missing values (None, NaN, NaT, NA) are the value None.
    """
    index: dict[Any, int] = {}
    absent = column.is_null() if hasattr(column, "is_null") else column.isna()
    # a NaN in a polars column is not null, and not equal to itself
    values = (
        None if gone or value != value else value
        for gone, value in zip(absent.to_list(), column.to_list(), strict=True)
    )
    return np.array([index.setdefault(value, len(index)) for value in values], np.int64), index


def named_predicates(predicates: Predicates) -> dict[str, Predicate]:
    """Predicates by name; those without one are called by their function's name, or their number."""
    if predicates is None:
        return {}
    named: dict[str, Predicate] = {}
    if isinstance(predicates, Mapping):
        named = {str(name): predicate for name, predicate in predicates.items()}
    else:
        for number, predicate in enumerate([predicates] if callable(predicates) else predicates):
            name = getattr(predicate, "__name__", "<lambda>")
            named[str(number) if name in named or name == "<lambda>" else name] = predicate
    for name, predicate in named.items():
        if not callable(predicate):
            raise ValueError(f"predicates must be functions, got {predicate!r} for {name!r}")
    if not named:
        raise ValueError("predicates is empty")
    return named


@dataclass(frozen=True)
class GroupRepair:
    """Each group before and after; print it for a table, the group that was worst first.

    Attributes
    ----------
    before, after
        The reports, with the groups in the same order and level sets of the same width.

    """

    before: MulticalibrationReport
    after: MulticalibrationReport

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group, ready for a data frame."""
        return [
            {
                "group": old.name,
                "count": old.count,
                "mass": old.mass,
                "outcome": old.outcome,
                "forecast_before": old.forecast,
                "forecast_after": new.forecast,
                "violation_before": old.violation,
                "violation_after": new.violation,
                "chance": new.noise,
                "squared_error_before": old.squared_error,
                "squared_error_after": new.squared_error,
            }
            for old, new in zip(self.before.lines, self.after.lines, strict=True)
        ]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len("group"), *(len(row["group"]) for row in rows))
        head = f"{'group':{width}} {'rounds':>9} {'mass':>6} {'outcome':>8}"
        out = [f"{head} {'forecast':>17} {'mu K2':>21} {'brier':>17}"]
        for row in sorted(rows, key=lambda row: -row["violation_before"]):
            text = f"{row['group']:{width}} {row['count']:9d} {row['mass']:6.3f} {row['outcome']:8.4f}"
            text += f" {row['forecast_before']:8.4f}>{row['forecast_after']:8.4f}"
            text += f" {row['violation_before']:10.6f}>{row['violation_after']:10.6f}"
            text += f" {row['squared_error_before']:8.4f}>{row['squared_error_after']:8.4f}"
            out.append(text)
        return "\n".join(out)
