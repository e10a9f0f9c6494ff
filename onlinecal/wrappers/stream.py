"""A column of probabilities and one of outcomes: better probabilities, with a proof, in one call."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.late import first_knowing
from onlinecal.measures.scores import best_constant_brier, brier_score, cross_entropy
from onlinecal.remarks import beside, constant_remarks, input_remarks, warn_of
from onlinecal.validation import (
    check_count,
    check_outcomes,
    check_probabilities,
    check_same_length,
    check_vector,
)
from onlinecal.wrappers.strategies.catalogue import SLACK
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.replaying import Schedule

Floats = NDArray[np.float64]
UNITS = "D", "ms", "us", "ns"
"""Of numpy's times those that polars reads."""


@dataclass(frozen=True)
class StreamReport:
    """What a column of forecasts was worth before and after, and what is proven of it.

    Attributes
    ----------
    n_rounds
        How many rows.
    brier_in, brier_out, brier_constant
        Average of (p - y)^2 of what came in, of what went out, and of the best constant in hindsight.
    log_loss_in, log_loss_out, log_loss_constant
        The same for -log of what was given to the outcome; probabilities are kept 1e-15 away from 0.
    certificate, guarantee
        Proven bounds on the distance to calibration of what went out, sums over rows: from what happened,
        and beforehand.
    remarks
        In words, if what went out is worse than what came in or than the constant.
    groups
        The report of each group by its key, in the order in which they come; empty without groups.
    """

    n_rounds: int
    brier_in: float
    brier_out: float
    brier_constant: float
    log_loss_in: float
    log_loss_out: float
    log_loss_constant: float
    certificate: float
    guarantee: float
    remarks: tuple[str, ...] = ()
    groups: dict[Any, StreamReport] = field(default_factory=dict)


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
    """One stream among those of a column: its key, its rows, and for these in which order they settle.

    `settled` has for each settled row the first row of the column that may know it.
    """

    key: Hashable
    rows: NDArray[np.int64]
    schedule: Schedule
    settled: NDArray[np.int64]


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
    check_slack(slack := SLACK if slack is None else slack)
    if horizon is not None:
        check_count(horizon, "horizon")
    known, settled = _known(settled_at, times, p)
    out, jumps = np.empty(len(p)), np.zeros(len(p), np.longdouble)
    bounds: dict[Any, tuple[float, float]] = {}
    parts = list(_groups(groups, known, settled))
    for key, rows, schedule, at in parts:
        projection = Projection(slack, 1, horizon)
        tapes = projection.replay(p[rows], y[rows], schedule)
        out[rows] = tapes.forecasts
        np.add.at(jumps, at - 1, np.diff(tapes.certificates.astype(np.longdouble), prepend=0.0))
        bounds[key] = projection.certificate, projection.guarantee
    certificate, guarantee = (float(sum(each)) for each in zip(*bounds.values(), strict=True))
    by_group = (
        {}
        if groups is None
        else {key: _report(p[rows], out[rows], y[rows], *bounds[key]) for key, rows, *_ in parts}
    )
    report = _report(p, out, y, certificate, guarantee, by_group)
    warn_of(report.remarks)
    running = np.cumsum(jumps).astype(np.float64)
    return RecalibratedStream(_like(probabilities, out), running, guarantee, report)


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


def _groups(groups: ArrayLike | None, known: NDArray[np.int64], settled: NDArray[Any]) -> Iterator[Group]:
    """The streams among the rows, in the order in which they begin."""
    parts: dict[Hashable, NDArray[np.int64]] = {None: np.arange(len(known))}
    if groups is not None:
        parts = _rows_by_key(groups, known)
    for key, rows in parts.items():
        order = np.argsort(settled[rows], kind="stable")
        at = known[rows][order]
        yield Group(key, rows, Schedule(order, np.searchsorted(rows, at)), at)


def _rows_by_key(groups: Any, known: NDArray[np.int64]) -> dict[Hashable, NDArray[np.int64]]:
    keys = check_vector(groups, "groups").tolist()
    check_same_length(known, np.asarray(keys, dtype=object), "probabilities and groups")
    numbers: dict[Hashable, int] = {}
    of_row = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys):
        if key is None or key != key:
            raise ValueError(f"groups must name a key for every row, got {key!r} at row {row}")
        of_row[row] = numbers.setdefault(key, len(numbers))
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


def _report(
    p: Floats,
    out: Floats,
    y: NDArray[np.uint8],
    certificate: float,
    guarantee: float,
    groups: dict[Any, StreamReport] | None = None,
) -> StreamReport:
    n, ones = len(y), float(y.sum())
    before, after = _losses(p, y), _losses(out, y)
    constant = {
        "Brier score": best_constant_brier(n, ones) / n,
        "log loss": cross_entropy(np.full(n, ones / n), y) / n,
    }
    remarks = input_remarks("what comes out", "what came in", beside(after, before))
    remarks += constant_remarks("what comes out", n, beside(after, constant))
    (brier_in, log_in), (brier_out, log_out), (brier, log) = (
        tuple(one.values()) for one in (before, after, constant)
    )
    return StreamReport(
        n,
        brier_in,
        brier_out,
        brier,
        log_in,
        log_out,
        log,
        certificate,
        guarantee,
        tuple(remarks),
        groups or {},
    )


def _losses(p: Floats, y: NDArray[np.uint8]) -> dict[str, float]:
    """Averages over rows, by what remarks call them."""
    return {"Brier score": brier_score(p, y) / len(y), "log loss": cross_entropy(p, y) / len(y)}


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
