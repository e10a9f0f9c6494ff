"""Columns of probabilities and one of outcomes: better probabilities, with a proof, in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.decisions import decision_bound
from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_labels, classes_of
from onlinecal.html import Shown, Table
from onlinecal.measures.scores import class_brier, log_costs, log_loss
from onlinecal.remarks import (
    GuaranteeWarning,
    constant_remarks,
    input_remarks,
    vacuous_remarks,
    warn_of,
)
from onlinecal.rounds import first_knowing
from onlinecal.steering.replaying import Schedule
from onlinecal.tables import like
from onlinecal.validation import check_labels as check_numbers
from onlinecal.validation import (
    check_outcomes,
    check_probabilities,
    check_probability_rows,
    check_same_index,
    check_same_length,
    check_shares,
    check_vector,
)
from onlinecal.wrappers.labels import Labels
from onlinecal.wrappers.strategies.catalogue import (
    KINDS,
    StrategyName,
    check_settings,
    chosen,
    new_strategies,
)
from onlinecal.wrappers.strategies.events import Binary
from onlinecal.wrappers.strategies.simplex import Simplex
from onlinecal.wrappers.strategies.strategy import Settings, SteeredVectors, Strategy

UNITS = "D", "ms", "us", "ns"
"""Of numpy's times those that polars reads."""


class Given(NamedTuple):
    """Probabilities of classes, shape (T, k), numbers of those that came, (T,), and the classes' names.

    `column`: only the probabilities of the second class were given, and only those are wanted.
    """

    table: Floats
    numbers: Ints
    classes: Sequence[Hashable]
    column: bool

    def of(self, rows: Ints) -> Given:
        """Some rows of it."""
        return self._replace(table=self.table[rows], numbers=self.numbers[rows])


class Group(NamedTuple):
    """One stream among those of a column: its key, its rows, and in which order these settle.

    `known` has for each row, as they settle, the first row of the column that knows it.
    """

    key: Hashable
    rows: Ints
    schedule: Schedule
    known: Ints


def read_stream(probabilities: Any, outcomes: Any) -> Given:
    """Probabilities and outcomes of the same rows; ValueError names what is none, and its row."""
    try:
        dimensions = len(getattr(probabilities, "shape", None) or np.shape(probabilities))
    except ValueError:  # ragged, which the check below says
        dimensions = 1
    if dimensions != 2:
        p, y = check_probabilities(probabilities, "probabilities"), _events(outcomes)
        check_same_length(p, y, "probabilities and outcomes")
        return Given(np.column_stack([1.0 - p, p]), y.astype(np.int64), (0, 1), True)
    table = check_probability_rows(probabilities)
    classes, numbered = _classes(probabilities, table.shape[1])
    numbers = _numbers(outcomes, classes, numbered)
    check_same_length(table, numbers, "probabilities and outcomes")
    return Given(table, numbers, classes, False)


def _events(outcomes: ArrayLike) -> NDArray[np.uint8]:
    """Outcomes 0 and 1; ValueError says what takes shares."""
    try:
        return check_outcomes(outcomes)
    except ValueError as error:
        try:
            check_shares(outcomes)
        except ValueError:
            raise error from None
        raise ValueError(
            f"{error}: steering learns from events; outcomes between 0 and 1 go with "
            "AlmostOneStepAhead, whose replay takes them with the probabilities as hints"
        ) from None


def _classes(given: Any, k: int) -> tuple[Sequence[Hashable], bool]:
    """What the k columns are called, and whether outcomes may be their numbers, too."""
    if k < 2:
        raise ValueError(
            f"probabilities must have a column for each class, at least 2, got {k}: for two classes a flat "
            "column of those of outcome 1 will do"
        )
    if not hasattr(given, "columns"):
        return range(k), True
    names = getattr(given, "column_names", given.columns)  # of pyarrow, whose columns are arrays
    classes = check_labels(list(names), "the columns of probabilities")
    texts = [str(name) for name in classes]
    # columns "1", "2", "3": whether an outcome of 1 is the first or the second of them nobody can know
    return classes, texts == [str(number) for number in range(k)] or not any(map(str.isdigit, texts))


def _numbers(outcomes: Any, classes: Sequence[Hashable], numbered: bool) -> Ints:
    """Outcomes as numbers of classes: they are names of columns, or numbers already."""
    known = {name: number for number, name in enumerate(classes)}
    if getattr(outcomes, "ndim", 1) == 2:
        raise ValueError(
            f"outcomes must have one label a row, got shape {outcomes.shape}: soft labels go with "
            "SimplexAlmostOneStepAhead, whose replay takes them with the probabilities as hints"
        )
    try:
        return classes_of(outcomes, known, True)[0]
    except ValueError:
        values = np.asarray(outcomes)
        if not numbered or values.dtype.kind not in "iufb":
            raise
    check_numbers(values, len(classes), "outcomes")
    return values.astype(np.int64)


def known_of(
    settled_at: ArrayLike | None, times: ArrayLike | None, given: Given
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """For each row the first one that knows its outcome, and numbers in the order of settling; both (T,)."""
    if settled_at is None:
        if times is not None:
            raise ValueError("times say nothing without settled_at, got None for that")
        rows = np.arange(len(given.table))
        return rows + 1, rows
    column = _series(settled_at, "settled_at", given)
    made = None if times is None else _series(times, "times", given)
    known, settled = first_knowing(column, made, "settled_at", "give the forecasts' as times=")
    return known.astype(np.int64), settled


def groups_of(groups: ArrayLike | None, known: NDArray[np.int64], settled: NDArray[Any]) -> list[Group]:
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
    check_same_length(known, keys, "probabilities and groups")
    numbers: dict[Hashable, int] = {}
    of_row = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys):
        if key is None or key != key:
            raise ValueError(f"groups must name a key for every row, got {key!r} at row {row}")
        try:
            of_row[row] = numbers.setdefault(key, len(numbers))
        except TypeError as error:
            raise ValueError(f"groups must be keys with a hash, got {key!r} at row {row}") from error
    rows = np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row))[:-1])
    return dict(zip(numbers, rows, strict=True))


def _series(values: Any, name: str, given: Given) -> Any:
    """Times or row numbers as a polars Series of that name, one for each of the rows."""
    import polars as pl

    if not isinstance(values, pl.Series):
        array = check_vector(values, name)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in UNITS:
            array = array.astype("datetime64[ms]")
        values = pl.Series(name, array.tolist() if array.dtype.kind == "O" else array)
    check_same_length(given.table, values, f"probabilities and {name}")
    return values.alias(name)


BRIER, LOG_LOSS = "Brier score", "log loss"
OF_ONE = "of the probability of outcome 1"
"""What certificates of a column are of."""
JITTER = 0.05
"""The width for which a report says what decisions can cost."""


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
            ("before", self.brier_in, self.log_loss_in),
            ("after", self.brier_out, self.log_loss_out),
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

    def decision_certificate(self, width: float) -> float:
        """How far promised and realised costs can be apart, an average over rows, for jitter of that `width`.

        As of `RecalibratedStream.decision_certificate`.
        """
        if self.norm != OF_ONE:
            raise ValueError(f"decision_certificate is for one column, got a certificate {self.norm}")
        return decision_bound(self.certificate / self.n_rounds, width)

    def __str__(self) -> str:
        head = f"{'':14}{BRIER:>12}{LOG_LOSS:>10}"
        lines = [f"{name:14}{brier:12.4f}{log:10.4f}" for name, brier, log in self._scores()]
        return "\n".join([head, *lines, self._proven(), *self.remarks])

    def _shown(self) -> Table:
        rows = self._scores()
        rows += [(f"{key}: after", one.brier_out, one.log_loss_out) for key, one in self.groups.items()]
        notes = [self._proven(), *self.remarks]
        if self.norm == OF_ONE:
            bound = self.decision_certificate(JITTER)
            notes.append(
                f"whoever acts on a threshold, whichever, jittered by {100 * JITTER:g} points: promised and "
                f"realised cost differ by at most {bound:.4f} per row"
            )
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
    remarks = input_remarks("what comes out", "what came in", after, before, price)
    remarks += constant_remarks("what comes out", n, after, constant, k - 1)
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
        The forecasts, shape (T,) or (T, k), float64: a Series or DataFrame of pandas, polars or another
        library if such came in (index and names kept), else a numpy array.
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

    def decision_certificate(self, width: float) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, an average over rows.

        The threshold may be any; it is jittered uniformly by up to `width`/2 either way, 0 < width <= 1.
        Costs are those of `threshold_costs`. ValueError for a table, of which no one probability is acted on.
        docs/theory.md, Theorem 4c.
        """
        return self._report.decision_certificate(width)

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
    """Make columns of probabilities better, row by row: each by outcomes known before it, none by its own.

    The forecasts are those that `CalibratedClassifier` gives row by row around a model with these
    probabilities, all its `classes` being declared: steered towards what followed such probabilities so far,
    then moved to the nearest forecast that stays calibrated on any outcomes, with a running certificate. A
    LabelWarning tells if what comes out scores worse than what came in, or than the best constant.

    Parameters
    ----------
    probabilities
        Each made before its outcome, in the order in which they were made. Shape (T,), of outcome 1: a numpy
        array, a list, a Series. Or shape (T, k), of k >= 2 classes, each row with sum 1 (up
        to 1e-6): an array, a list of rows, or a DataFrame, the names of whose columns are the classes.
    outcomes
        Shape (T,), each 0 or 1 or boolean; of a table, numbers of classes 0, ..., k-1 or names of columns
        (names only if some are numbers, but not 0, ..., k-1). Rows are matched by position; columns of
        pandas must have the index of the probabilities.
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
    named = {"outcomes": outcomes, "settled_at": settled_at, "times": times, "groups": groups}
    for name, column in named.items():
        check_same_index(probabilities, column, f"probabilities and {name}")
    given = read_stream(probabilities, outcomes)
    check_settings(slack, 1, strategy, horizon)
    settings = Settings(slack, 1, horizon, None, given.classes)
    kind = _kind(strategy, given, settings)
    parts = groups_of(groups, *known_of(settled_at, times, given))

    def new() -> Strategy:
        return KINDS[kind](settings._replace(steering=SteeredVectors()))

    norm = OF_ONE if given.column else KINDS[kind].norm
    out, running, bounds = _played(given, parts, new)
    certificate, guarantee = (float(in_turn(each)) for each in zip(*bounds, strict=True))
    report = report_of(given, out, certificate, guarantee, norm)
    warn_of(report.remarks)
    by_group = None if groups is None else ByGroup(given, out, parts, bounds, norm)
    told = like(probabilities, out[:, 1].copy() if given.column else out)
    return RecalibratedStream(told, running, guarantee, report, by_group)


def _kind(strategy: StrategyName, given: Given, settings: Settings) -> str:
    """The name of the strategy that is played."""
    k, horizon = len(given.classes), settings.horizon
    # two classes leave no choice that depends on what they promise, and all are much to compile
    strategies = new_strategies(settings) if k > 2 else {}
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
