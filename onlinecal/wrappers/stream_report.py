"""What recalibrated columns were worth before and after, beside what is proven of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.html import Shown, Table
from onlinecal.measures.scores import class_brier, log_costs, log_loss
from onlinecal.remarks import beside, constant_remarks, input_remarks
from onlinecal.wrappers.stream_input import Given

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
