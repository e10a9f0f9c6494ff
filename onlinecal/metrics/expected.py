"""Expected calibration error of a stream."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

from onlinecal.measures.monitor import parts
from onlinecal.metrics.monitored import CRUMB
from onlinecal.metrics.probability_metric import ProbabilityMetric
from onlinecal.validation import check_count


class ECE(ProbabilityMetric):
    """Expected calibration error: bias of each level set, as `onlinecal.expected_calibration_error` has it.

    `get()` is the average over rounds (the sum divided by the rounds); 0 before the first.

    Parameters
    ----------
    bins
        None: rounds with exactly the same forecast are a level set; memory grows with the number of different
        forecasts. A number B: the bins [i/B, (i+1)/B) are, the last one closed; memory is B counts.
    pos_val
        The label whose probability is looked at; labels other than 0, 1, False and True must be named.
    top_label
        True: the probability of the answer's most probable label is looked at, for any number of labels.

    Examples
    --------
    >>> from onlinecal.metrics import ECE
    >>> metric, binned = ECE(), ECE(bins=10)
    >>> for y, p in [(True, 0.82), (False, 0.82), (True, 0.84)]:
    ...     metric.update(y, p)
    ...     binned.update(y, p)
    >>> metric
    ECE: 0.266667
    >>> binned
    ECE: 0.16

    References
    ----------
    Foster and Vohra (1998), asymptotic calibration; Naeini, Cooper and Hauskrecht (2015) for bins.
    """

    def __init__(self, bins: int | None = None, pos_val: Any = True, top_label: bool = False) -> None:
        if bins is not None:
            check_count(bins, "bins")
        super().__init__(pos_val, top_label)
        self.bins = bins
        self._edges = None if bins is None else [i / bins for i in range(bins)]
        # by value: rounds with outcome 0 and 1; by bin: rounds, and the sum of forecasts less outcomes
        self._sums: dict[float, list[float]] = {}
        self._rounds = 0.0

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        self._rounds += w
        if self._edges is None:
            sums = self._sums.setdefault(forecast, [0.0, 0.0])
            for place, part in enumerate(parts(outcome)):
                sums[place] += w * part
        else:
            sums = self._sums.setdefault(bisect_right(self._edges, forecast) - 1, [0.0, 0.0])
            sums[0] += w
            sums[1] += w * (forecast - outcome)

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        key = forecast if self._edges is None else bisect_right(self._edges, forecast) - 1
        needed = [w * part for part in parts(outcome)] if self._edges is None else [w]
        crumb = 0.0 if outcome in (0, 1) else CRUMB * w
        kept = self._sums.get(key, ())
        if not kept or any(have < need - crumb for have, need in zip(kept, needed, strict=False)):
            raise ValueError(f"this round was not counted: forecast {forecast!r} with outcome {outcome}")
        self._count(forecast, outcome, -w)
        if self._edges is None:
            if all(abs(part) <= crumb for part in self._sums[key]):
                del self._sums[key]
        elif not self._sums[key][0]:
            del self._sums[key]

    def _average(self) -> float:
        if not self._rounds:
            return 0.0
        if self._edges is None:
            biases = [p * (zeros + ones) - ones for p, (zeros, ones) in self._sums.items()]
        else:
            biases = [bias for _, bias in self._sums.values()]
        return math.fsum(map(abs, biases)) / self._rounds
