"""Columns of probabilities and one of outcomes: better probabilities, with a proof, in one call.

Everything here is made for one call: no state is kept from one to the next, and a report never changes. A
column is read and checked whole before the first row is played. Its rows are then played as a wrapper would
play them, in the order of their forecasts.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.decisions import decision_bound
from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_labels, classes_of
from onlinecal.html import Shown, Table, aligned
from onlinecal.measures.scores import class_brier, log_costs, log_loss
from onlinecal.remarks import constant_remarks, input_remarks, silence_remarks, unlearnt_remarks, warn_of
from onlinecal.tables.columns import check_labels as check_numbers
from onlinecal.tables.columns import (
    check_outcomes,
    check_probabilities,
    check_probability_rows,
    check_same_index,
    check_same_length,
)
from onlinecal.tables.frames import as_array, like, names_of
from onlinecal.texts import counted, shown
from onlinecal.validation import as_whole
from onlinecal.wrappers.labels import Labels, Prior, corrected_rows, prior_weights
from onlinecal.wrappers.settling import Group, Settling, completed, groups_of, missing_of, settling_of
from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.choice import (
    KINDS,
    StrategyName,
    check_settings,
    chosen,
    warn_if_empty,
)
from onlinecal.wrappers.strategies.strategy import Settings, Strategy


class ReadStream(NamedTuple):
    """Probabilities of classes, shape (T, k), numbers of those that came, (T,), and the classes' names."""

    table: Floats
    numbers: Ints
    classes: Sequence[Hashable]
    column: bool
    """Only the probabilities of the second class were given, and only those are wanted."""
    missing: NDArray[np.bool_] | None
    """Which outcomes are, shape (T,), their numbers saying nothing; None if all have come."""
    absent: int
    """The number of the outcome that silence means."""


def read_stream(probabilities: Any, outcomes: Any, absent: Hashable = None) -> ReadStream:
    """Probabilities and outcomes of the same rows; ValueError names what is none, and its row.

    `absent` is the outcome that silence means, None: the first class.
    """
    outcomes, missing = missing_of(outcomes)
    array = as_array(probabilities, "probabilities", "a column or a table", "a flat sequence or a table")
    if array.ndim != 2:
        p = check_probabilities(array, "probabilities")
        y = check_outcomes(outcomes if missing is None else completed(outcomes, missing, 0))
        check_same_length(p, y, "probabilities and outcomes")
        if absent not in (None, 0, 1):
            raise ValueError(f"absent must be 0 or 1, got {shown(absent)}")
        numbers = y.astype(np.int64)
        return ReadStream(np.column_stack([1.0 - p, p]), numbers, (0, 1), True, missing, int(absent or 0))
    classes, numbered = _classes(probabilities, array.shape[1])
    table = check_probability_rows(array)
    came = outcomes if missing is None else completed(outcomes, missing, classes[0])
    numbers = _numbers(came, classes, numbered)
    check_same_length(table, numbers, "probabilities and outcomes")
    try:
        silence = 0 if absent is None else int(_numbers([absent], classes, numbered)[0])
    except ValueError:
        raise ValueError(f"absent must be one of the classes {list(classes)}, got {shown(absent)}") from None
    return ReadStream(table, numbers, classes, False, missing, silence)


def _classes(probabilities: Any, k: int) -> tuple[Sequence[Hashable], bool]:
    """What the k columns are called, and whether outcomes may be their numbers, too."""
    names = names_of(probabilities)
    if k < 2:
        flat = "a flat column of those of outcome 1" + (f", df[{names[0]!r}]," if names else "")
        raise ValueError(
            f"probabilities must have a column for each class, at least 2, got {k}: for two classes {flat} "
            "will do"
        )
    if names is None:
        return range(k), True
    classes = check_labels(names, "the columns of probabilities")
    texts = [str(name) for name in classes]
    # columns "1", "2", "3": whether an outcome of 1 is the first or the second of them nobody can know
    return classes, texts == [str(number) for number in range(k)] or not any(map(str.isdigit, texts))


def _numbers(outcomes: Any, classes: Sequence[Hashable], numbered: bool) -> Ints:
    """Outcomes as numbers of classes: they are names of columns, or numbers already."""
    known = {name: number for number, name in enumerate(classes)}
    try:
        return classes_of(outcomes, known, True)[0]
    except ValueError:
        values = as_array(outcomes, "outcomes")
        if not numbered or values.dtype.kind not in "iufb":
            raise
    check_numbers(values, len(classes), "outcomes")
    return values.astype(np.int64)


BRIER, LOG_LOSS = "Brier score", "log loss"
OF_ONE = "of the probability of outcome 1"
"""What certificates of a column are of."""
JITTER = 0.05
"""The width for which a report says what decisions can cost."""


class ProvenReport(Shown):
    """What forecasts of several rows were worth, and what is proven of these."""

    n_rounds: int
    certificate: float
    guarantee: float
    norm: str

    def decision_certificate(self, width: float) -> float:
        """How far promised and realised costs can be apart, an average over rows, for jitter of that `width`.

        As of `RecalibratedStream.decision_certificate`.
        """
        if self.norm != OF_ONE:
            raise ValueError(f"decision_certificate is for one column, got a certificate {self.norm}")
        return decision_bound(self.certificate / max(self.n_rounds, 1), width)

    def __str__(self) -> str:
        _, header, rows, notes = self._table()
        texts = [[cell if isinstance(cell, str) else f"{cell:.4f}" for cell in row] for row in rows]
        return "\n".join([*aligned([header, *texts]), *notes])

    def _shown(self) -> Table:
        return self._table()

    @abstractmethod
    def _table(self) -> Table:
        """What a text shows, too."""

    def _proven(self) -> str:
        n = self.n_rounds
        if not n:
            return "no row is settled: nothing to prove"
        proven, promised = f"{self.certificate / n:.4f} per row", f"{self.guarantee / n:.4f}"
        if self.norm == OF_ONE:
            norm, bounds = "", f"{proven}; no outcomes could make it exceed {promised}"
        else:
            # that of answers that are completed has in it how far they were moved, which outcomes decide
            norm, bounds = f", {self.norm}", f"{proven}; the guarantee is {promised}"
        return f"proven distance to calibration of {n:,} rows{norm}: {bounds}"


class Proven(Shown):
    """Forecasts of several rows with a report."""

    _report: ProvenReport

    def _shown(self) -> Table:
        return self._report._shown()

    def decision_certificate(self, width: float) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, an average over rows.

        The threshold may be any; it is jittered uniformly by up to `width`/2 either way, 0 < width <= 1.
        Costs are those of `threshold_costs`. ValueError for a table, of which no one probability is acted on.
        docs/theory.md, Theorem 4c.
        """
        return self._report.decision_certificate(width)


@dataclass(frozen=True)
class StreamReport(ProvenReport):
    """What columns of forecasts were worth before and after, and what is proven of it.

    Attributes
    ----------
    n_rounds
        How many rows are settled: all scores and bounds are of these.
    n_open
        How many rows are not settled: no outcome has come, or they are not `due` yet.
    n_absent
        How many are settled by `absent`, since no outcome had come by the time they were due.
    n_expired
        Of how many of these an outcome came later, which does not count.
    brier_in, brier_out, brier_constant
        Average of (p - y)^2 of the given and of the recalibrated probabilities, and of the best constant in
        hindsight; of a table it is a sum over its classes.
    log_loss_in, log_loss_out, log_loss_constant
        The same for -log of what was given to the outcome; probabilities are kept 1e-15 away from 0.
    certificate, guarantee
        Proven bounds on the distance to calibration of the recalibrated probabilities, sums over rows: from
        what happened, and beforehand.
    norm
        What that distance is of: "of the probability of outcome 1", or what the strategy bounds of a table.
    remarks
        In words, if the recalibrated ones are worse than the given ones, by more than steering may cost
        (docs/theory.md, Theorem 17c), or than the constant.
    groups
        The report of each group by its key, in the order in which they come; empty without groups.
    brier_corrected, log_loss_corrected
        The same of the given probabilities as `prior` corrects them; None without it.
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
    n_open: int = 0
    n_absent: int = 0
    n_expired: int = 0
    brier_corrected: float | None = None
    log_loss_corrected: float | None = None

    def _unsettled(self) -> list[str]:
        """What there is to say of rows without an outcome of their own."""
        texts = []
        if self.n_open:
            texts.append(f"{counted(self.n_open, 'row')} not settled yet, or never: nothing here is of these")
        if self.n_absent:
            late = f", {self.n_expired:,} of them though an outcome came later" if self.n_expired else ""
            texts.append(f"{counted(self.n_absent, 'row')} settled as absent, since due{late}")
        return texts

    def _table(self) -> Table:
        rows = [
            ("before", self.brier_in, self.log_loss_in),
            ("after", self.brier_out, self.log_loss_out),
            ("best constant", self.brier_constant, self.log_loss_constant),
        ]
        if self.brier_corrected is not None and self.log_loss_corrected is not None:
            rows.insert(1, ("corrected by prior", self.brier_corrected, self.log_loss_corrected))
        notes = [self._proven(), *self._unsettled(), *self.remarks]
        return Table(f"{self.n_rounds:,} rows recalibrated", ("", BRIER, LOG_LOSS), rows, notes)

    def _shown(self) -> Table:
        table = self._table()
        groups = [
            (f"{key}: after", report.brier_out, report.log_loss_out) for key, report in self.groups.items()
        ]
        notes = [*table.notes]
        if self.norm == OF_ONE:
            bound = self.decision_certificate(JITTER)
            notes.append(
                f"whoever acts on a threshold, whichever, jittered by {100 * JITTER:g} points: promised and "
                f"realised cost differ by at most {bound:.4f} per row"
            )
        return table._replace(rows=[*table.rows, *groups], notes=notes)


def _reports(
    read: ReadStream,
    corrected: Floats | None,
    out: Floats,
    settling: Settling,
    norm: str,
    streams: Mapping[Any, Ints],
    bounds: Iterable[tuple[float, float]],
) -> dict[Any, StreamReport]:
    """Of each stream: its rows, and what is proven of these, its certificate and guarantee."""
    reports: dict[Any, StreamReport] = {}
    k = read.table.shape[1]
    # both classes of a column have the same squared error; it is counted once
    parts = 2 if read.column else 1
    ours, theirs = "the recalibrated probabilities", "the given ones"
    for (key, rows), proven in zip(streams.items(), bounds, strict=True):
        settled, silent = rows[settling.settles[rows]], rows[settling.silent[rows]]
        n, numbers = len(settled), read.numbers[settled]
        before, after = (_losses(table[settled], numbers, parts) for table in (read.table, out))
        shares = np.bincount(numbers, minlength=k) / max(n, 1)
        brier, log = (shares * (1.0 - shares)).sum() / parts, (shares * log_costs(shares)).sum()
        constant = {BRIER: float(brier) if n else math.nan, LOG_LOSS: float(log) if n else math.nan}
        remarks = []
        if n:
            # where there is nothing to learn, looking for it costs this much: no reason for a warning
            price = (1 if read.column else k) * 1.5 * math.log(n + 6.0) / n
            remarks += input_remarks(ours, theirs, after, before, price)
            remarks += constant_remarks(ours, n, after, constant, k - 1)
        put_right: dict[str, float] = {}
        if corrected is not None:
            put_right = _losses(corrected[settled], numbers, parts)
        if n and corrected is not None:
            remarks += _prior_remarks(read.table[settled], corrected[settled], shares, read.classes)
        given_up = len(rows) - int(settling.waits[rows].sum())
        if given_up and constant[BRIER] == 0.0:
            advice = "due= says from when on a row without outcome counts as absent="
            remarks += silence_remarks(n, given_up, advice)
        reports[key] = StreamReport(
            n,
            *(before[BRIER], after[BRIER], constant[BRIER]),
            *(before[LOG_LOSS], after[LOG_LOSS], constant[LOG_LOSS]),
            *proven,
            norm,
            tuple(remarks),
            n_open=len(rows) - n,
            n_absent=len(silent),
            n_expired=len(silent) - (0 if read.missing is None else int(read.missing[silent].sum())),
            brier_corrected=put_right.get(BRIER),
            log_loss_corrected=put_right.get(LOG_LOSS),
        )
    return reports


FAR, FAR_OFF = 4.0, 1.25
"""A mean is far from what came if it is so many standard errors away, and differs by this factor."""


def _prior_remarks(
    given: Floats, corrected: Floats, shares: Floats, classes: Sequence[Hashable]
) -> list[str]:
    """A remark if rows (n, k) that a prior has corrected promise some class far too often, or too seldom.

    That is so if the model was not trained as the prior has it. `shares` are how often classes came.
    """
    before, after = given.mean(axis=0), corrected.mean(axis=0)
    errors = np.sqrt((corrected * (1.0 - corrected)).sum(axis=0)) / len(corrected)
    factor = np.maximum(after, shares) / np.maximum(np.minimum(after, shares), 1e-15)
    far = (np.abs(after - shares) > FAR * errors) & (factor > FAR_OFF)
    if not far.any():
        return []
    c = int(np.where(far, factor, 0.0).argmax())
    return [
        f"prior makes {after[c]:.3g} of the mean probability {before[c]:.3g} of {classes[c]!r}, which came "
        f"in {shares[c]:.3g} of the rows: was the model trained to the end, with rows left out or weighted "
        "as prior says? One that was stopped early is nearer to the rates without weights"
    ]


def _losses(table: Floats, numbers: Ints, parts: int) -> dict[str, float]:
    """Averages over rows, by what remarks call them; NaN of none."""
    if not len(table):
        return {BRIER: math.nan, LOG_LOSS: math.nan}
    brier = class_brier(table, numbers) / parts
    return {BRIER: brier, LOG_LOSS: log_loss(table[np.arange(len(table)), numbers])}


@dataclass(frozen=True, eq=False)
class RecalibratedStream(Proven):
    """What `recalibrate_stream` made of T rows of probabilities.

    Attributes
    ----------
    probabilities
        The forecasts, shape (T,) or (T, k), float64: a Series or DataFrame of pandas, polars or another
        library if such were given (index and names kept), else a numpy array.
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
    _by_group: Callable[[], dict[Any, StreamReport]] | None = field(repr=False)

    def report(self) -> StreamReport:
        """Scores before and after, and what is proven; with groups also of each of them."""
        return self._whole_report

    @cached_property
    def _whole_report(self) -> StreamReport:
        """It is made when it is first asked for: there may be many groups."""
        return self._report if self._by_group is None else replace(self._report, groups=self._by_group())


def recalibrate_stream(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    *,
    settled_at: ArrayLike | None = None,
    times: ArrayLike | None = None,
    due: Any = None,
    absent: Hashable = None,
    prior: Prior | None = None,
    groups: ArrayLike | None = None,
    strategy: StrategyName = "auto",
    slack: float | None = None,
    horizon: int | None = None,
) -> RecalibratedStream:
    """Make columns of probabilities better, row by row: each by outcomes known before it, none by its own.

    The forecasts are those that `CalibratedClassifier` gives row by row around a model with these
    probabilities, all its `classes` being declared: steered towards what followed such probabilities so far,
    then moved to the nearest forecast that stays calibrated on any outcomes, with a running certificate. A
    LabelWarning tells if the recalibrated probabilities score worse than the given ones, or than the best
    constant.

    Parameters
    ----------
    probabilities
        Each made before its outcome, in the order in which they were made. Shape (T,), of outcome 1: a numpy
        array, a list, a Series. Or shape (T, k), of k >= 2 classes, each row with sum 1 (up
        to 1e-6): an array, a list of rows, or a DataFrame, the names of whose columns are the classes.
    outcomes
        Shape (T,), each 0 or 1 or boolean; of a table, numbers of classes 0, ..., k-1 or names of columns
        (names only if some are numbers, but not 0, ..., k-1). Rows are matched by position; columns of
        pandas must have the index of the probabilities. None, NaN, null or masked where none has come: such a
        row is forecast, and settled when it is `due`, or else never.
    settled_at
        Shape (T,): when each outcome became known. Row numbers, from 0: forecasts of later rows know it. Or,
        with `times`, times: forecasts made later than that know it. Rows that share an outcome, as those of
        one match do, must also share when it became known, or it leaks into their forecasts. None: each
        outcome is known to the next row's forecast. Of rows without outcome it need not say anything.
    times
        Shape (T,), never decreasing: when each forecast was made, in the units of `settled_at` and `due`.
        Numbers, dates, datetimes, spans or texts of ISO 8601; what can be read in two ways is refused.
    due
        When it is known of each row what came: with the outcome that came by then, else as `absent` it is
        settled at that time, whatever came before. So rows whose outcomes are reported, and come soon, do
        not count more than those of which silence tells, later. A time or a row number for each row, shape
        (T,), or one span after all of them (a number, a timedelta), in the units of `times`. Rows that are
        not due yet, with no later forecast or outcome, are open. An outcome that came after its row was due
        does not count. None: a row without outcome is never settled, and given up as soon as it is forecast.
    absent
        The outcome that silence means: 0 by default, or 1; of a table a class, which must be named.
    prior
        The base rate of outcome 1 in the table that the model was trained on, and in this stream, as
        (0.5, 0.01), if they are known to differ: rows were left out or repeated before training, or weighted,
        if it was trained to the end; boosting that is stopped early is nearer to the rates without weights.
        The odds are put right before anything is learnt. Of a table a pair of dicts with the share of each
        class. The report has scores of the corrected probabilities, and a remark if their mean is far from
        what came.
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
    named = {"outcomes": outcomes, "settled_at": settled_at, "times": times, "due": due, "groups": groups}
    for name, column in named.items():
        check_same_index(probabilities, column, f"probabilities and {name}")
    if due is None and absent is not None:
        raise ValueError(
            f"absent says what silence means from a time on, due, got {shown(absent)} and due=None"
        )
    read = read_stream(probabilities, outcomes, absent)
    if due is not None and absent is None and not read.column:
        raise ValueError(
            f"absent must be one of the classes {list(read.classes)} where due is given, got None"
        )
    check_settings(slack, 1, strategy, horizon)
    horizon = as_whole(horizon)
    settings = Settings(Labels(read.classes), slack, 1, horizon)
    k = len(read.classes)
    kind = chosen(strategy, k, lambda name: KINDS[name](settings), None, horizon)
    warn_if_empty(KINDS[kind](settings), k, horizon)
    if read.column and kind != Binary.name:
        raise ValueError(f"strategy {strategy!r} is for probabilities of shape (T, k), got a column of them")
    if kind == Binary.name and k > 2:
        raise ValueError(f"strategy {strategy!r} is for two classes, got a table of {k}")
    settling = settling_of(len(read.table), read.missing, settled_at, times, due)
    read = read._replace(numbers=np.where(settling.silent, read.absent, read.numbers))
    parts = groups_of(groups, settling)
    asked = read
    if prior is not None:
        weights = prior_weights(prior, read.classes)
        asked = read._replace(table=corrected_rows(read.table, weights))

    norm = OF_ONE if read.column else KINDS[kind].norm
    out, running, bounds = _played(asked, parts, lambda: KINDS[kind](settings))
    certificate, guarantee = (float(in_turn(each)) for each in zip(*bounds, strict=True))
    streams = {part.key: part.rows for part in parts}
    reports = partial(_reports, read, None if prior is None else asked.table, out, settling, norm)
    report = reports({None: np.arange(len(out))}, [(certificate, guarantee)])[None]
    if settled_at is not None:
        unlearnt = unlearnt_remarks(settling.known, len(out), "settled_at")
        report = replace(report, remarks=(*unlearnt, *report.remarks))
    warn_of(report.remarks)
    recalibrated = like(probabilities, out[:, 1].copy() if read.column else out)
    by_group = None if groups is None else partial(reports, streams, bounds)
    return RecalibratedStream(recalibrated, running, guarantee, report, by_group)


def _played(
    read: ReadStream, parts: list[Group], new: Callable[[], Strategy]
) -> tuple[Floats, Floats, list[tuple[float, float]]]:
    """Forecasts (T, k), running certificates (T,), and by group the certificate and guarantee."""
    bounds = []
    out, jumps = np.empty_like(read.table), np.zeros(len(read.table), np.longdouble)
    for part in parts:
        strategy = new()
        tapes = strategy.replay(read.table[part.rows], read.numbers[part.rows], part.schedule)
        out[part.rows] = tapes.forecasts
        # sums of differences of doubles: in more digits, so that of one group they are its certificates again
        rises = np.diff(tapes.certificates.astype(np.longdouble), prepend=0.0)
        np.add.at(jumps, part.known - 1, rises)
        proven = list(strategy.bounded())
        certificate = in_turn(bound.certificate for bound in proven)
        bounds.append((certificate, in_turn(bound.guarantee for bound in proven)))
    return out, np.cumsum(jumps).astype(np.float64), bounds
