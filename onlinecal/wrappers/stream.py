"""A column of probabilities and one of outcomes: better probabilities, with a proof, in one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.forecasters.binary.defaults import SLACK_WITH_HINTS
from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.late import first_knowing
from onlinecal.remarks import warn_of
from onlinecal.steering.replaying import Schedule
from onlinecal.validation import (
    check_count,
    check_outcomes,
    check_probabilities,
    check_same_length,
    check_vector,
)
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.stream_report import StreamReport, report_of

Floats = NDArray[np.float64]
UNITS = "D", "ms", "us", "ns"
"""Of numpy's times those that polars reads."""


@dataclass(frozen=True, eq=False)
class RecalibratedStream:
    """What `recalibrate_stream` made of a column of T probabilities.

    Attributes
    ----------
    probabilities
        The forecasts, shape (T,): a pandas or polars Series if such came in (index and name kept), else a
        numpy array; float64.
    certificate
        Shape (T,): a proven upper bound on the distance to calibration of the rows settled before the
        forecast after this row; the last one of all rows. A sum over rows; with groups also over groups.
    guarantee
        What the certificate cannot exceed, whatever the outcomes; a sum over groups, too.
    """

    probabilities: Any
    certificate: Floats
    guarantee: float
    _report: StreamReport = field(repr=False)

    def report(self) -> StreamReport:
        """Scores before and after, and what is proven; with groups also of each of them."""
        return self._report


class Group(NamedTuple):
    """One stream among those of a column: its key, its rows, and in which order these settle.

    `known` has for each row, as they settle, the first row of the column that knows it.
    """

    key: Hashable
    rows: NDArray[np.int64]
    schedule: Schedule
    known: NDArray[np.int64]


def recalibrate_stream(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    settled_at: ArrayLike | None = None,
    *,
    times: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    slack: float | None = None,
    horizon: int | None = None,
) -> RecalibratedStream:
    """Recalibrate a column of probabilities online: each row by what was known before it, no row by its own.

    The forecasts are those that `CalibratedClassifier` gives row by row around a model with these
    probabilities: steered towards what followed such probabilities so far, then moved to the nearest
    forecast that stays calibrated on any outcomes, with a running certificate. A LabelWarning tells if what
    comes out scores worse than what came in, or than the best constant.

    Parameters
    ----------
    probabilities
        Shape (T,), of outcome 1, each made before its outcome, in the order in which they were made: a numpy
        array, a list, a pandas or polars Series.
    outcomes
        Shape (T,), each 0 or 1 or boolean; rows are matched by position.
    settled_at
        Shape (T,): when each outcome became known. Row numbers, from 0: forecasts of later rows know it. Or,
        with `times`, times: forecasts made later than that know it. Rows that share an outcome, as those of
        one match do, must also share when it became known, or it leaks into their forecasts. None: each
        outcome is known to the next row's forecast.
    times
        Shape (T,), never decreasing: when each forecast was made, in the units of `settled_at`.
    groups
        Shape (T,): a key for each row; each key has a forecaster of its own.
    slack, horizon
        As of `CalibratedClassifier`: by default 1.5 and none. The horizon is that of each group.

    Returns
    -------
    The forecasts, the certificate after each row, the guarantee and a report.

    Raises
    ------
    ValueError
        Names the argument, the value and its row. Tables of several classes are refused: see
        `CalibratedClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import recalibrate_stream
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> result = recalibrate_stream(p, rng.random(5000) < p**2)
    >>> report = result.report()
    >>> bool(report.brier_out < report.brier_in - 0.02)
    True
    >>> bool(result.certificate[-1] <= result.guarantee)
    True

    References
    ----------
    docs/theory.md, sections 2 to 6.
    """
    p, y = _checked(probabilities, outcomes)
    check_slack(slack := SLACK_WITH_HINTS if slack is None else slack)
    if horizon is not None:
        check_count(horizon, "horizon")
    parts = _groups(groups, *_known(settled_at, times, p))
    out, running, bounds = _played(p, y, parts, lambda: Projection(slack, 1, horizon))
    certificate, guarantee = (float(sum(each)) for each in zip(*bounds, strict=True))
    by_group: dict[Any, StreamReport] = {}
    if groups is not None:
        for (key, rows, *_), each in zip(parts, bounds, strict=True):
            by_group[key] = report_of(p[rows], out[rows], y[rows], *each)
    report = report_of(p, out, y, certificate, guarantee, by_group)
    warn_of(report.remarks)
    return RecalibratedStream(_like(probabilities, out), running, guarantee, report)


def _played(
    p: Floats, y: NDArray[np.uint8], parts: list[Group], new_projection: Callable[[], Projection]
) -> tuple[Floats, Floats, list[tuple[float, float]]]:
    """Forecasts (T,), running certificates (T,), and by group the certificate and guarantee."""
    # sums of differences of doubles: in more digits, so that of one group they are its certificates again
    out, jumps, bounds = np.empty(len(p)), np.zeros(len(p), np.longdouble), []
    for _, rows, schedule, known in parts:
        projection = new_projection()
        tapes = projection.replay(p[rows], y[rows], schedule)
        out[rows] = tapes.forecasts
        np.add.at(jumps, known - 1, np.diff(tapes.certificates.astype(np.longdouble), prepend=0.0))
        bounds.append((projection.certificate, projection.guarantee))
    return out, np.cumsum(jumps).astype(np.float64), bounds


def _checked(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, NDArray[np.uint8]]:
    shape = getattr(probabilities, "shape", ())
    if len(shape) == 2:
        raise ValueError(
            f"probabilities must be one-dimensional, those of outcome 1, got shape {shape}: "
            "for several classes wrap their model in CalibratedClassifier"
        )
    p, y = check_probabilities(probabilities, "probabilities"), check_outcomes(outcomes)
    check_same_length(p, y, "probabilities and outcomes")
    return p, y


def _known(
    settled_at: ArrayLike | None, times: ArrayLike | None, p: Floats
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """For each row the first one that knows its outcome, and numbers in the order of settling; both (T,)."""
    if settled_at is None:
        if times is not None:
            raise ValueError("times say nothing without settled_at, got None for that")
        rows = np.arange(len(p))
        return rows + 1, rows
    column = _series(settled_at, "settled_at", p)
    made = None if times is None else _series(times, "times", p)
    known, settled = first_knowing(column, made, "settled_at", "give the forecasts' as times=")
    return known.astype(np.int64), settled


def _groups(groups: ArrayLike | None, known: NDArray[np.int64], settled: NDArray[Any]) -> list[Group]:
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
    keys = check_vector(groups, "groups").tolist()
    check_same_length(known, np.asarray(keys, dtype=object), "probabilities and groups")
    numbers: dict[Hashable, int] = {}
    of_row = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys):
        if key is None or key != key:
            raise ValueError(f"groups must name a key for every row, got {key!r} at row {row}")
        try:
            of_row[row] = numbers.setdefault(key, len(numbers))
        except TypeError as error:
            raise ValueError(f"groups must be keys with a hash, got {key!r} at row {row}") from error
    ends = np.cumsum(np.bincount(of_row))[:-1]
    return dict(zip(numbers, np.split(np.argsort(of_row, kind="stable"), ends), strict=True))


def _series(values: Any, name: str, p: Floats) -> Any:
    """Times or row numbers as a polars Series of that name, one for each of the probabilities."""
    import polars as pl

    if not isinstance(values, pl.Series):
        array = check_vector(values, name)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in UNITS:
            array = array.astype("datetime64[ms]")
        values = pl.Series(name, array.tolist() if array.dtype.kind == "O" else array)
    if len(values) != len(p):
        raise ValueError(
            f"probabilities and {name} must have the same length, got {len(p)} and {len(values)}"
        )
    return values.alias(name)


def _like(given: Any, values: Floats) -> Any:
    """The values as what was given: a Series of pandas or polars, else an array."""
    library = type(given).__module__.partition(".")[0]
    if library == "pandas" and hasattr(given, "index"):
        import pandas as pd

        return pd.Series(values, index=given.index, name=given.name)
    if library == "polars":
        import polars as pl

        return pl.Series(given.name, values)
    return values
