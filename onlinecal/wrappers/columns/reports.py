"""What forecasts of several rows were worth, and what is proven of them.

A report never changes, and its fields are what users read. `reports_of` computes it from rows that were
played; scores and bounds are of settled rows alone. Nothing here decides a forecast: JITTER, FAR and FAR_OFF
are about what a text says. `tests/corpus` keeps reports of columns, remarks included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.decisions import decision_bound
from onlinecal.html import Shown, Table, aligned
from onlinecal.measures.scores import class_brier, log_costs, log_loss
from onlinecal.remarks import constant_remarks, input_remarks, silence_remarks
from onlinecal.texts import counted
from onlinecal.validation import check_flag
from onlinecal.wrappers.columns.reading import Classes
from onlinecal.wrappers.columns.rows import Rows

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

    def decision_certificate(self, width: float, *, normalize: bool = False) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, a sum over settled rows.

        The threshold may be any. Somebody acts where a forecast is at least the threshold plus U, with U
        uniform from -width/2 to width/2. Acting in vain costs the threshold, not acting where it would have
        helped costs 1 minus the threshold. The mean costs over U that the forecasts promise, and those that
        the outcomes bring, differ by at most (1 + 1/width) times the certificate, which is returned. With
        normalize=True it is divided by the number of settled rows. Raises ValueError unless 0 < width <= 1,
        and for a table of class probabilities. docs/theory.md, Theorem 4c.
        """
        if self.norm != OF_ONE:
            raise ValueError(
                f"decision_certificate needs a column of probabilities, got a table, whose certificate is "
                f"{self.norm}: recalibrate the column of the class that decisions are about"
            )
        scale = max(self.n_rounds, 1) if check_flag(normalize, "normalize") else 1
        return decision_bound(self.certificate / scale, width)

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
        # the guarantee of answers that are completed has in it how far they were moved, which outcomes decide
        whatever = "whatever the outcomes, " if self.norm == OF_ONE else ""
        norm = "" if self.norm == OF_ONE else f" ({self.norm})"
        return (
            f"distance to calibration per row, {n:,} rows{norm}: "
            f"at most {self.certificate / n:.4f} (certificate); "
            f"{whatever}at most {self.guarantee / n:.4f} (guarantee)"
        )


class Proven(Shown):
    """Forecasts of several rows with a report."""

    _report: ProvenReport

    def _with(self, **hidden: Any) -> Self:
        """This result with what its constructor, which users see, does not take."""
        for name, value in hidden.items():
            object.__setattr__(self, f"_{name}", value)
        return self

    def _shown(self) -> Table:
        return self._report._shown()

    def decision_certificate(self, width: float, *, normalize: bool = False) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, a sum over settled rows.

        The threshold may be any. Somebody acts where a forecast is at least the threshold plus U, with U
        uniform from -width/2 to width/2. Acting in vain costs the threshold, not acting where it would have
        helped costs 1 minus the threshold. The mean costs over U that the forecasts promise, and those that
        the outcomes bring, differ by at most (1 + 1/width) times the certificate, which is returned. With
        normalize=True it is divided by the number of settled rows. Raises ValueError unless 0 < width <= 1,
        and for a table of class probabilities. docs/theory.md, Theorem 4c.
        """
        return self._report.decision_certificate(width, normalize=normalize)


@dataclass(frozen=True)
class StreamReport(ProvenReport):
    """What probabilities were worth before and after `recalibrate_stream`, and what is proven of them.

    Attributes
    ----------
    n_rounds
        How many rows are settled, that is have an outcome that counts: all scores and bounds are of these.
    n_open
        How many rows are not settled: no outcome has come, or they are not `due` yet.
    n_absent
        How many rows are settled with the outcome `absent`, since none had come by the time they were due.
    n_expired
        Of how many of these an outcome came later, which does not count.
    brier_in, brier_out, brier_constant
        Average over settled rows of (p - y)^2, of the given probabilities, of the recalibrated ones, and of
        the constant that is best in hindsight; of a table a row's score is the sum over its classes. NaN
        without settled rows, as all scores.
    log_loss_in, log_loss_out, log_loss_constant
        The same for -log(p), p the probability of the outcome that came, at least 1e-15.
    certificate, guarantee
        Proven upper bounds on the distance to calibration of the recalibrated probabilities, sums over
        settled rows. The certificate follows from what happened; the guarantee is what the certificate could
        not exceed, whatever the outcomes.
    norm
        In words, what that distance is of: "of the probability of outcome 1", or of a table what its strategy
        calibrates, as "a sum over the classes, each one against the rest".
    remarks
        What looks wrong, a sentence each; empty if nothing does. The recalibrated probabilities are worse
        than the given ones, by more than learning may cost (docs/theory.md, Theorem 17c), or than the
        constant; nothing could be learnt, since by `settled_at` or `due` all rows were settled after the last
        forecast; all outcomes that came are the same, and many rows have none; `prior` is far off.
    groups
        The StreamReport of each group's rows by the group's key, in the order in which the keys first come;
        empty without groups.
    brier_corrected, log_loss_corrected
        The same scores of the given probabilities after `prior` has put them right; None without `prior`.
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
            bound = self.decision_certificate(JITTER, normalize=True)
            # a cost is at most 1 a row, so a larger bound says nothing
            if bound < 1.0:
                notes.append(
                    f"if you act on any threshold, jittered by {100 * JITTER:g} points: promised and "
                    f"realised cost differ by at most {bound:.4f} per row"
                )
        return table._replace(rows=[*table.rows, *groups], notes=notes)


def reports_of(
    read: Rows,
    came: Ints,
    classes: Classes,
    corrected: Floats | None,
    out: Floats,
    norm: str,
    streams: Mapping[Any, Ints],
    bounds: Iterable[tuple[float, float]],
) -> dict[Any, StreamReport]:
    """Of each stream: its rows, and what is proven of these, its certificate and guarantee.

    `came` has the number of what each row was settled as, shape (T,).
    """
    reports: dict[Any, StreamReport] = {}
    settling, k = read.settling, len(classes.names)
    # both classes of a column have the same squared error; it is counted once
    parts = 2 if classes.is_column else 1
    ours, theirs = "the recalibrated probabilities", "the given ones"
    for (key, rows), proven in zip(streams.items(), bounds, strict=True):
        settled, silent = rows[settling.settles[rows]], rows[settling.silent[rows]]
        n, numbers = len(settled), came[settled]
        before, after = (_losses(table[settled], numbers, parts) for table in (read.table, out))
        shares = np.bincount(numbers, minlength=k) / max(n, 1)
        brier, log = (shares * (1.0 - shares)).sum() / parts, (shares * log_costs(shares)).sum()
        constant = {BRIER: float(brier) if n else math.nan, LOG_LOSS: float(log) if n else math.nan}
        remarks = []
        if n:
            # where there is nothing to learn, looking for it costs this much: no reason for a warning
            price = (1 if classes.is_column else k) * 1.5 * math.log(n + 6.0) / n
            remarks += input_remarks(ours, theirs, after, before, price)
            remarks += constant_remarks(ours, n, after, constant, k - 1)
        put_right: dict[str, float] = {}
        if corrected is not None:
            put_right = _losses(corrected[settled], numbers, parts)
        if n and corrected is not None:
            remarks += _prior_remarks(read.table[settled], corrected[settled], shares, classes.names)
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
