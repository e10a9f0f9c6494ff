"""What columns of forecasts and their reports have in common: what is proven of them."""

from __future__ import annotations

from typing import Any

from onlinecal.decisions import decision_bound
from onlinecal.html import Shown, Table

OF_ONE = "of the probability of outcome 1"
"""What certificates of a column are of."""


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

    _report: Any

    def _shown(self) -> Table:
        table: Table = self._report._shown()
        return table

    def decision_certificate(self, width: float) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, an average over rows.

        The threshold may be any; it is jittered uniformly by up to `width`/2 either way, 0 < width <= 1.
        Costs are those of `threshold_costs`. ValueError for a table, of which no one probability is acted on.
        docs/theory.md, Theorem 4c.
        """
        bound: float = self._report.decision_certificate(width)
        return bound
