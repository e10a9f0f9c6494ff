"""Makes groups of categories or predicates, and reports what a recalibration repaired in each group.

A `GroupMaker` fixes the groups in `fit`; `transform` finds the members of the same groups in other rows.

`fit` alone writes; `transform` and what is asked of groups later change nothing. The order of `names_` is
that of the columns of every membership table, and patches keep groups by their numbers in it: `_cells` may
not be sorted anew. `fit` comes before `transform`, which `GroupRecalibrator` sees to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bools, Floats, pieces
from onlinecal.measures.groups import MulticalibrationReport, multicalibration_report
from onlinecal.tables.columns import check_groups, check_keys
from onlinecal.tables.formats import twice
from onlinecal.tables.frames import names_of, of_arrow, refuse_no_array
from onlinecal.texts import shown
from onlinecal.validation import check_share

Predicate = Callable[[Any], Any]
Predicates = Mapping[str, Predicate] | Sequence[Predicate] | Predicate | None
EVERYONE = "everyone"
BOOLEAN = "bool", "boolean", "bool[pyarrow]"
"""The names of boolean columns' types in pandas and polars, in small letters."""


class Category(NamedTuple):
    """All rows with one value in one column; None stands for a missing value."""

    column: str
    value: Any

    @property
    def name(self) -> str:
        """The category in words."""
        return f"{self.column}={'missing' if self.value is None else self.value}"


class GroupMaker:
    """Turns groups in any form into a boolean matrix, with the same groups for every table.

    - Predicates, if there are some, are called with the table as it is; each returns one boolean a row.
    - A data frame with a column that is not boolean holds categories. Groups are everyone, every category of
      a column, and every pair of categories of two columns, if enough rows belong to it. A pair with the same
      rows as one of its two categories is left out. Missing values are a category of their own. Categories
      that did not come in `fit` belong to no group.
    - Anything else is the membership matrix, shape (n, G), boolean or 0/1.

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
        How many groups there are.

    """

    def __init__(self, min_mass: float = 0.02, predicates: Predicates = None) -> None:
        self.min_mass = check_share(min_mass, "min_mass")
        self.predicates = named_predicates(predicates)

    def fit(self, groups: Any, n_rows: int, weights: Floats | None = None) -> Bools:
        """Fix which groups there are, by these rows; returns their membership, shape (n_rows, G)."""
        groups = groups if self.predicates else as_frame(groups)
        self._columns: list[str] | None = None
        self._cells: list[tuple[Category, ...]] = []
        if not self.predicates and holds_categories(groups):
            return self._fit_categories(groups, n_rows, weights)
        if self.predicates:
            members = self._ask(groups, n_rows)
        else:
            members = check_groups(groups, n_rows, for_text=": give categories as a data frame")
        names = list(self.predicates) or [str(c) for c in getattr(groups, "columns", range(members.shape[1]))]
        self.names_, self.n_groups_ = names, members.shape[1]
        self._labelled = not self.predicates and hasattr(groups, "columns")
        return members

    def transform(self, groups: Any, n_rows: int) -> Bools:
        """Membership of other rows in the groups of `fit`, shape (n_rows, G)."""
        groups = groups if self.predicates else as_frame(groups)
        if self._columns is not None:
            return self._place(groups, n_rows)
        if self.predicates:
            return self._ask(groups, n_rows)
        if self._labelled and hasattr(groups, "columns"):
            self.check_columns(groups.columns)
            by_name = {str(name): name for name in groups.columns}
            groups = groups[[by_name[name] for name in self.names_]]
        members = check_groups(groups, n_rows)
        self._check_number(members.shape[1])
        return members

    def check_columns(self, names: Iterable[Any]) -> None:
        """ValueError unless a table with columns of these names has the groups of `fit`, as far as they say.

        Predicates may ask for any columns.
        """
        given = [str(name) for name in names]
        if self.predicates:
            return
        if self._columns is None and not self._labelled:
            return self._check_number(len(given))
        for name in self.names_ if self._columns is None else self._columns:
            if name not in given:
                raise ValueError(f"groups must have the column {name!r}, which it had in fit")

    def _check_number(self, n_columns: int) -> None:
        if n_columns != self.n_groups_:
            raise ValueError(f"groups must have the {self.n_groups_} columns of fit, got {n_columns}")

    def _ask(self, table: Any, n_rows: int) -> Bools:
        columns = []
        for name, predicate in self.predicates.items():
            column = check_groups(predicate(table), n_rows, f"the answer of predicate {name!r}")
            if column.shape[1] != 1:
                raise ValueError(
                    f"predicate {name!r} must answer one boolean a row, got the shape {column.shape}"
                )
            columns.append(column)
        return np.ascontiguousarray(np.hstack(columns))

    def _fit_categories(self, frame: Any, n_rows: int, weights: Floats | None) -> Bools:
        self._columns, self._cells = [str(name) for name in frame.columns], [()]
        least = self.min_mass * (n_rows if weights is None else weights.sum())

        def size_of(rows: Bools) -> float:
            return float(rows.sum() if weights is None else weights[rows].sum())

        values = self._values(frame, n_rows)
        sizes_of: dict[Category, float] = {}
        frequent: list[list[tuple[Category, Bools]]] = []
        for name in self._columns:
            codes, index = encode(values[name])
            sizes = np.bincount(codes, weights, minlength=len(index))
            kept = [
                (Category(name, value), codes == k) for value, k in index.items() if 0 < least <= sizes[k]
            ]
            frequent.append(kept)
            self._cells += [(category,) for category, _ in kept]
            sizes_of |= {category: size_of(inside) for category, inside in kept}
        inside_of = {category: inside for kept in frequent for category, inside in kept}
        for left, right in combinations(frequent, 2):
            for category, in_category in left:
                for other, in_other in right:
                    size = size_of(in_category & in_other)
                    if size >= least and size not in (sizes_of[category], sizes_of[other]):
                        self._cells.append((category, other))
        self.names_ = [" & ".join(c.name for c in cell) or EVERYONE for cell in self._cells]
        self.n_groups_ = len(self._cells)
        return self._members(inside_of, n_rows)

    def _place(self, frame: Any, n_rows: int) -> Bools:
        values = self._values(frame, n_rows)
        inside: dict[Category, Bools] = {}
        for name in self._columns or ():
            wanted = [cell[0] for cell in self._cells if len(cell) == 1 and cell[0].column == name]
            codes, index = encode(values[name])
            for category in wanted:
                inside[category] = codes == index.get(category.value, -1)
        return self._members(inside, n_rows)

    def _members(self, inside: dict[Category, Bools], n_rows: int) -> Bools:
        """Which rows are in all categories of each cell, computed in pieces of rows that fit in the cache."""
        members = np.ones((n_rows, self.n_groups_), bool)
        for rows in pieces(members):
            for g, cell in enumerate(self._cells):
                for category in cell:
                    members[rows, g] &= inside[category][rows]
        return members

    def _values(self, frame: Any, n_rows: int) -> dict[str, Any]:
        if not hasattr(frame, "columns"):
            raise ValueError(
                f"groups must be a data frame with the columns {self._columns} of fit, "
                f"got a {type(frame).__name__}"
            )
        if len(frame) != n_rows:
            raise ValueError(f"groups must have a row for each of the {n_rows} forecasts, got {len(frame)}")
        self.check_columns(frame.columns)
        by_name = {str(name): name for name in frame.columns}
        return {name: frame[by_name[name]] for name in self._columns or ()}


def as_frame(groups: Any) -> Any:
    """A Series as a data frame of one column, tables of pyarrow as frames of polars, anything else as it is.

    Raises ValueError for frames whose rows are not there yet, and for two columns with the same name.
    """
    refuse_no_array(groups, "groups", "a table")
    if repeated := twice(names_of(groups) or []):
        raise ValueError(
            f"groups must have different names, got two columns {min(map(str, repeated))!r}: rename one"
        )
    if names_of(groups) is not None and not hasattr(groups, "dtypes"):
        return of_arrow(groups, f"groups of type {type(groups).__name__}")
    return groups.to_frame() if hasattr(groups, "to_frame") and not hasattr(groups, "columns") else groups


def holds_categories(groups: Any) -> bool:
    """Whether this is a data frame with a column that is not boolean."""
    if not hasattr(groups, "columns") or not hasattr(groups, "dtypes"):
        return False
    return not all(str(dtype).lower() in BOOLEAN for dtype in groups.dtypes)


def encode(column: Any) -> tuple[NDArray[np.int64], dict[Any, int]]:
    """A data frame's column as codes, and the code of each value, in order of first appearance.

    Missing values (None, NaN, NaT, NA) become None. Raises ValueError for values without a hash, as lists.
    """
    import polars as pl

    try:
        return _encoded(column)
    # polars cannot compare values that it holds as objects of Python
    except (TypeError, pl.exceptions.PolarsError) as error:
        values = column.to_list()
        row = next((row for row, value in enumerate(values) if not isinstance(value, Hashable)), None)
        if row is None:
            raise ValueError(
                f"groups must hold texts or numbers, got polars' type Object in column {shown(column.name)}: "
                "give str(...) of each value"
            ) from error
        raise ValueError(
            f"groups must hold texts, numbers or other values with a hash, got {shown(values[row])} in "
            f"column {shown(column.name)} at row {row}: give str(...) of each"
        ) from error


def _encoded(column: Any) -> tuple[NDArray[np.int64], dict[Any, int]]:
    index: dict[Any, int] = {}
    if hasattr(column, "is_null"):
        values = column.unique(maintain_order=True)
        absent, listed = values.is_null(), values.to_list()
        known = values.alias("value").to_frame().with_row_index("code")
        rows = column.alias("value").to_frame()
        joined = rows.join(known, "value", "left", nulls_equal=True, maintain_order="left")
        codes = joined["code"].to_numpy()
    else:
        codes, values = column.factorize(use_na_sentinel=False)
        absent, listed = values.isna(), values.tolist()
    # NaN in a polars column is not null; it is found by not being equal to itself
    is_gap = [bool(missing or value != value) for missing, value in zip(absent, listed, strict=True)]
    keys = [None if gap else value for gap, value in zip(is_gap, listed, strict=True)]
    check_keys(keys, f"groups, in {column.name!r},")
    numbers = np.array([index.setdefault(key, len(index)) for key in keys], np.int64)
    return numbers[codes], index


def named_predicates(predicates: Predicates) -> dict[str, Predicate]:
    """Predicates by name; one without a name gets its function's name, or its number."""
    if predicates is None:
        return {}
    if callable(predicates):
        predicates = [predicates]
    if not isinstance(predicates, Iterable):
        raise ValueError(
            f"predicates must be a function, or several in a list or a dict by name, got {shown(predicates)}"
        )
    if not isinstance(predicates, Mapping):
        named: dict[str, Predicate] = {}
        for number, predicate in enumerate(predicates):
            name = getattr(predicate, "__name__", str(number))
            named[name if name not in named and name != "<lambda>" else str(number)] = predicate
        predicates = named
    for name, predicate in predicates.items():
        if not callable(predicate):
            raise ValueError(f"predicates must be functions, got {predicate!r} for {name!r}")
    if not predicates:
        raise ValueError("predicates is empty: give at least one function, or leave it out")
    return {str(name): predicate for name, predicate in predicates.items()}


@dataclass(frozen=True)
class GroupRepair:
    """How calibrated forecasts are inside each group, before and after recalibration.

    `GroupRecalibrator.report` makes it. Printing it shows a table, the group with the largest violation
    before in front.

    Attributes
    ----------
    before, after
        A `MulticalibrationReport` of the forecasts before and after recalibration, with the groups in the
        same order and level sets of the same width.
    """

    before: MulticalibrationReport
    after: MulticalibrationReport

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group, in the order of the groups, ready for a data frame.

        The keys are `group` (the name), `count` (rows in the group), `mass` (their share of all rows) and
        `outcome` (their mean outcome). `forecast` (the mean), `squared_error` (the mean over the group) and
        `violation` (the group's `multicalibration_error`, an average over all rows) each stand there twice,
        with `_before` and `_after` at the end. `chance` is the violation that the forecasts after would be
        expected to have by chance alone, were all of them right.
        """
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


def repair_of(
    before: NDArray[np.float64],
    y: Any,
    after: NDArray[np.float64],
    members: NDArray[Any],
    n_levels: int | None,
    names: list[str],
) -> GroupRepair:
    """The repair of forecasts (n,) for outcomes (n,), in groups (n, G) of bytes."""
    inside = members.view(np.bool_)
    return GroupRepair(
        *(multicalibration_report(p, y, inside, n_bins=n_levels, names=names) for p in (before, after))
    )
