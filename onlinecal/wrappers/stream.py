"""Columns of probabilities and one of outcomes: better probabilities, with a proof, in one call.

What recalibrated columns were worth before and after, beside what is proven of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.html import Shown, Table
from onlinecal.measures.scores import class_brier, log_costs, log_loss
from onlinecal.remarks import (
    GuaranteeWarning,
    beside,
    constant_remarks,
    input_remarks,
    vacuous_remarks,
    warn_of,
)
from onlinecal.wrappers.labels import Labels
from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.catalogue import (
    KINDS,
    StrategyName,
    check_settings,
    chosen,
    new_strategies,
    new_strategy,
)
from onlinecal.wrappers.strategies.simplex import Simplex
from onlinecal.wrappers.strategies.steered_vectors import SteeredVectors
from onlinecal.wrappers.strategies.strategy import Strategy
from onlinecal.wrappers.stream_input import Given, Group, groups_of, known_of, read_stream

BRIER, LOG_LOSS = "Brier score", "log loss"
OF_ONE = "of the probability of outcome 1"
"""What certificates of a column are of."""


@dataclass(frozen=True)
class StreamReport(Shown):
    """What columns of forecasts were worth before and after, and what is proven of it.

    Attributes
    ----------
    n_rounds
        How many rows.
    brier_in, brier_out, brier_constant
        Average of (p - y)^2 of what came in, of what went out, and of the best constant in hindsight; of a
        table it is a sum over its classes.
    log_loss_in, log_loss_out, log_loss_constant
        The same for -log of what was given to the outcome; probabilities are kept 1e-15 away from 0.
    certificate, guarantee
        Proven bounds on the distance to calibration of what went out, sums over rows: from what happened,
        and beforehand.
    norm
        What that distance is of: "of the probability of outcome 1", or what the strategy bounds of a table.
    remarks
        In words, if what went out is worse than what came in, by more than steering may cost
        (docs/theory.md, Theorem 17c), or than the constant.
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
    norm: str
    remarks: tuple[str, ...] = ()
    groups: dict[Any, StreamReport] = field(default_factory=dict)

    def _scores(self) -> list[tuple[str, float, float]]:
        return [
            ("came in", self.brier_in, self.log_loss_in),
            ("came out", self.brier_out, self.log_loss_out),
            ("best constant", self.brier_constant, self.log_loss_constant),
        ]

    def _proven(self) -> str:
        n = self.n_rounds
        proven, promised = f"{self.certificate / n:.4f} per row", f"{self.guarantee / n:.4f}"
        if self.norm == OF_ONE:
            norm, bounds = "", f"{proven}; no outcomes could make it exceed {promised}"
        else:
            # that of answers that are completed has in it how far they were moved, which outcomes decide
            norm, bounds = f", {self.norm}", f"{proven}; the guarantee is {promised}"
        return f"proven distance to calibration of {n:,} rows{norm}: {bounds}"

    def __str__(self) -> str:
        head = f"{'':14}{BRIER:>12}{LOG_LOSS:>10}"
        lines = [f"{name:14}{brier:12.4f}{log:10.4f}" for name, brier, log in self._scores()]
        return "\n".join([head, *lines, self._proven(), *self.remarks])

    def _shown(self) -> Table:
        rows = self._scores()
        rows += [(f"{key}: came out", one.brier_out, one.log_loss_out) for key, one in self.groups.items()]
        notes = (self._proven(), *self.remarks)
        return Table(f"{self.n_rounds:,} rows recalibrated", ("", BRIER, LOG_LOSS), rows, notes)


def report_of(
    given: Given,
    out: Floats,
    certificate: float,
    guarantee: float,
    norm: str,
) -> StreamReport:
    """Of what came in and what went out, shape (T, k), and the bounds, in that norm."""
    n, k = given.table.shape
    before, after = _losses(given.table, given), _losses(out, given)
    shares = np.bincount(given.numbers, minlength=k) / n
    constant = {
        BRIER: float((shares * (1.0 - shares)).sum()) / _parts(given),
        LOG_LOSS: float((shares * log_costs(shares)).sum()),
    }
    # where there is nothing to learn, looking for it costs this much: no reason for a warning
    price = (1 if given.column else k) * 1.5 * math.log(n + 6.0) / n
    remarks = input_remarks("what comes out", "what came in", beside(after, before), price)
    remarks += constant_remarks("what comes out", n, beside(after, constant), k - 1)
    return StreamReport(
        n,
        before[BRIER],
        after[BRIER],
        constant[BRIER],
        before[LOG_LOSS],
        after[LOG_LOSS],
        constant[LOG_LOSS],
        certificate,
        guarantee,
        norm,
        tuple(remarks),
    )


def _losses(table: Floats, given: Given) -> dict[str, float]:
    """Averages over rows, by what remarks call them."""
    brier = class_brier(table, given.numbers) / _parts(given)
    return {BRIER: brier, LOG_LOSS: log_loss(table[np.arange(len(table)), given.numbers])}


def _parts(given: Given) -> int:
    """Both classes of a column have the same squared error; it is counted once."""
    return 2 if given.column else 1


@dataclass(frozen=True, eq=False)
class RecalibratedStream(Shown):
    """What `recalibrate_stream` made of T rows of probabilities.

    Attributes
    ----------
    probabilities
        The forecasts, shape (T,) or (T, k), float64: a pandas or polars Series or DataFrame if such came in
        (index and names kept), else a numpy array.
    certificate
        Shape (T,): a proven upper bound on the distance to calibration of `probabilities`, in the rows
        settled before the forecast after this row; the last one of all rows. A sum over rows; with groups
        also over groups. `report().norm` says what it is of: of the probability of outcome 1; for tables
        with "classwise" a sum over classes of the distance of each, with "simplex" over classes of the
        distance of all together, with "top-label" of the greatest probability of each row.
    guarantee
        What the certificate cannot exceed, whatever the outcomes; summed as it is. How far "classwise" and
        "top-label" moved their forecasts to make rows with sum 1 is in it as it was.
    """

    probabilities: Any
    certificate: Floats
    guarantee: float
    _report: StreamReport = field(repr=False)
    _by_group: ByGroup | None = field(repr=False)

    def _shown(self) -> Table:
        return self._report._shown()

    def report(self) -> StreamReport:
        """Scores before and after, and what is proven; with groups also of each of them."""
        return (
            self._report if self._by_group is None else replace(self._report, groups=self._by_group.reports)
        )


@dataclass
class ByGroup:
    """What reports of groups are made from, when they are first asked for: there may be many."""

    given: Given
    out: Floats
    parts: list[Group]
    bounds: list[tuple[float, float]]
    norm: str

    @cached_property
    def reports(self) -> dict[Any, StreamReport]:
        """The report of each group."""
        return {
            key: report_of(self.given.of(rows), self.out[rows], *each, self.norm)
            for (key, rows, *_), each in zip(self.parts, self.bounds, strict=True)
        }


def recalibrate_stream(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    settled_at: ArrayLike | None = None,
    *,
    times: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    strategy: StrategyName = "auto",
    slack: float | None = None,
    horizon: int | None = None,
) -> RecalibratedStream:
    """Recalibrate columns of probabilities online: each row by what was known before it, no row by its own.

    The forecasts are those that `CalibratedClassifier` gives row by row around a model with these
    probabilities, all its `classes` being declared: steered towards what followed such probabilities so far,
    then moved to the nearest forecast that stays calibrated on any outcomes, with a running certificate. A
    LabelWarning tells if what comes out scores worse than what came in, or than the best constant.

    Parameters
    ----------
    probabilities
        Each made before its outcome, in the order in which they were made. Shape (T,), of outcome 1: a numpy
        array, a list, a pandas or polars Series. Or shape (T, k), of k >= 2 classes, each row with sum 1 (up
        to 1e-6): an array, a list of rows, or a DataFrame, the names of whose columns are the classes.
    outcomes
        Shape (T,), each 0 or 1 or boolean; of a table, numbers of classes 0, ..., k-1 or names of columns
        (names only if some are numbers, but not 0, ..., k-1). Rows are matched by position.
    settled_at
        Shape (T,): when each outcome became known. Row numbers, from 0: forecasts of later rows know it. Or,
        with `times`, times: forecasts made later than that know it. Rows that share an outcome, as those of
        one match do, must also share when it became known, or it leaks into their forecasts. None: each
        outcome is known to the next row's forecast.
    times
        Shape (T,), never decreasing: when each forecast was made, in the units of `settled_at`.
    groups
        Shape (T,): a key for each row; each key has a forecaster of its own.
    strategy
        As of `CalibratedClassifier`: what of a table is calibrated. By default the second class of two; of
        up to ten each one against the rest, of more the top one; with a horizon what promises most.
    slack, horizon
        As of `CalibratedClassifier`; by default none. The horizon is that of each group.

    Returns
    -------
    The forecasts, the certificate after each row, the guarantee and a report.

    Raises
    ------
    ValueError
        Names the argument, the value and its row.

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
    docs/theory.md, sections 2 to 6; docs/theory-simplex.md.
    """
    given = read_stream(probabilities, outcomes)
    check_settings(slack, 1, strategy, horizon)
    kind = _kind(strategy, given, slack, horizon)
    parts = groups_of(groups, *known_of(settled_at, times, given))

    def new() -> Strategy:
        return new_strategy(kind, slack, 1, horizon, declared=given.classes, steering=SteeredVectors())

    norm = OF_ONE if given.column else KINDS[kind].norm
    out, running, bounds = _played(given, parts, new)
    certificate, guarantee = (float(in_turn(each)) for each in zip(*bounds, strict=True))
    report = report_of(given, out, certificate, guarantee, norm)
    warn_of(report.remarks)
    by_group = None if groups is None else ByGroup(given, out, parts, bounds, norm)
    return RecalibratedStream(_like(probabilities, given, out), running, guarantee, report, by_group)


def _kind(strategy: StrategyName, given: Given, slack: float | None, horizon: int | None) -> str:
    """The name of the strategy that is played."""
    k = len(given.classes)
    # two classes leave no choice that depends on what they promise, and all are much to compile
    strategies = new_strategies(slack, 1, horizon, None, given.classes) if k > 2 else {}
    kind = chosen(strategy, k, None, strategies, horizon)
    if kind == Simplex.name and horizon is not None and k > 2:
        warn_of(vacuous_remarks(*strategies[kind].outlook(k, horizon), k, horizon), GuaranteeWarning, level=4)
    if given.column and kind != Binary.name:
        raise ValueError(f"strategy {strategy!r} is for probabilities of shape (T, k), got a column of them")
    if kind == Binary.name and k > 2:
        raise ValueError(f"strategy {strategy!r} is for two classes, got a table of {k}")
    return kind


def _played(
    given: Given, parts: list[Group], new: Callable[[], Strategy]
) -> tuple[Floats, Floats, list[tuple[float, float]]]:
    """Forecasts (T, k), running certificates (T,), and by group the certificate and guarantee."""
    labels, bounds, begin = Labels(given.classes), [], 0
    order = np.concatenate([part.rows for part in parts])
    ordered, played = given.of(order), np.empty_like(given.table)
    certificates = np.empty(len(order), np.longdouble)
    before = np.zeros_like(certificates)
    for part in parts:
        strategy, end = new(), begin + len(part.rows)
        rows = slice(begin, end)
        tapes = strategy.replay(ordered.table[rows], ordered.numbers[rows], labels, part.schedule)
        played[rows], certificates[rows] = tapes.forecasts, tapes.certificates
        before[begin + 1 : end] = tapes.certificates[:-1]
        begin = end
        proven = list(strategy.bounded())
        bounds.append((in_turn(one.certificate for one in proven), in_turn(one.guarantee for one in proven)))
    # sums of differences of doubles: in more digits, so that of one group they are its certificates again
    jumps = np.zeros_like(certificates)
    np.add.at(jumps, np.concatenate([part.known for part in parts]) - 1, certificates - before)
    out = np.empty_like(played)
    out[order] = played
    return out, np.cumsum(jumps).astype(np.float64), bounds


def _like(probabilities: Any, given: Given, out: Floats) -> Any:
    """Forecasts (T, k) as what was given, of pandas, polars or numpy; of a column the second class."""
    values = (out[:, 1] if given.column else out).copy()
    library = type(probabilities).__module__.partition(".")[0]
    if library == "pandas" and hasattr(probabilities, "index"):
        import pandas as pd

        if given.column:
            return pd.Series(values, index=probabilities.index, name=probabilities.name)
        return pd.DataFrame(values, index=probabilities.index, columns=probabilities.columns)
    if library == "polars":
        import polars as pl

        if given.column:
            return pl.Series(probabilities.name, values)
        return pl.DataFrame(values, probabilities.columns)
    return values
