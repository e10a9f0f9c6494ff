"""What a recalibrated column was worth before and after, beside what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.scores import best_constant_brier, brier_score, cross_entropy
from onlinecal.remarks import beside, constant_remarks, input_remarks

Floats = NDArray[np.float64]


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

    def __str__(self) -> str:
        n, rows = (
            self.n_rounds,
            [
                ("", "Brier score", "log loss"),
                ("came in", f"{self.brier_in:.4f}", f"{self.log_loss_in:.4f}"),
                ("came out", f"{self.brier_out:.4f}", f"{self.log_loss_out:.4f}"),
                ("best constant", f"{self.brier_constant:.4f}", f"{self.log_loss_constant:.4f}"),
            ],
        )
        lines = [f"{name:14}{brier:>12}{log:>10}".rstrip() for name, brier, log in rows]
        bounds = (
            f"{self.certificate / n:.4f} per row; no outcomes could make it exceed {self.guarantee / n:.4f}"
        )
        return "\n".join([*lines, f"proven distance to calibration of {n:,} rows: {bounds}", *self.remarks])


def report_of(
    p: Floats,
    out: Floats,
    y: NDArray[np.uint8],
    certificate: float,
    guarantee: float,
    groups: dict[Any, StreamReport] | None = None,
) -> StreamReport:
    """Of what came in and what went out, outcomes (all of shape (T,)) and the bounds."""
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
