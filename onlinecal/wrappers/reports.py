"""What reports of wrappers and of columns of forecasts have in common: what is counted and proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onlinecal.decisions import decision_bound
from onlinecal.html import Shown, Table

OF_ONE = "of the probability of outcome 1"
"""What certificates of a column are of."""


@dataclass(frozen=True)
class LabelReport(Shown):
    """What became of a wrapper's forecasts and labels.

    Attributes
    ----------
    n_rounds
        Settled rounds: labels whose forecast had been given.
    n_open
        Forecasts that wait for their label.
    n_unmatched
        Labels that came without their forecast.
    n_expired
        Forecasts whose label had not come when `expire_after` was over.
    """

    n_rounds: int
    n_open: int
    n_unmatched: int
    n_expired: int


@dataclass(frozen=True)
class ClassifierReport(LabelReport):
    """The same of a CalibratedClassifier, and what is proven of its forecasts.

    Attributes
    ----------
    certificate, guarantee
        As of the wrapper, sums over the settled rounds.
    strategy
        The strategy by which the coming round is played: what "auto" is by now.
    norm
        What that strategy's distance is of.
    window_certificate
        A proven upper bound on the distance to calibration of the last `window` settled rounds, summed as the
        certificate; None without a window.
    window_guarantee
        What the distance of ANY `window` consecutive settled rounds cannot exceed, summed as the guarantee;
        None without a window.
    certificates
        The certificate of each label's probabilities ("classwise"; empty for the other strategies). Their sum
        is `certificate`, unless other strategies than "binary" have played, too.
    """

    certificate: float
    guarantee: float
    strategy: str
    norm: str
    window_certificate: float | None
    window_guarantee: float | None
    certificates: dict[Any, float]


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
