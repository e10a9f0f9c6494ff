"""Metrics that are read off the streaming monitor."""

from __future__ import annotations

from typing import Any

from onlinecal.measures import CalibrationMonitor, Interval
from onlinecal.measures.monitor import parts
from onlinecal.metrics.probability_metric import ProbabilityMetric

CRUMB = 1e-9
"""Sums of outcomes between 0 and 1 are off by less; no part of a round that is told apart is as small."""


class RevertibleMonitor(CalibrationMonitor):
    """A monitor that can take rounds back.

    A forecast's tally stays once it is there, even at zero: so a forecast is always looked up where it was
    counted, and taking it back undoes exactly what counting it did.
    """

    def revert(self, forecast: float, outcome: float) -> None:
        """Take back one round; ValueError if there is none like it."""
        value = forecast if forecast in self._tallies else round(forecast * self.resolution) / self.resolution
        tally = self._tallies.get(value)
        taken = parts(outcome)
        if tally is None or any(kept < part - CRUMB for kept, part in zip(tally, taken, strict=True)):
            raise ValueError(f"this round was not counted: forecast {forecast!r} with outcome {outcome}")
        for place, part in enumerate(taken):
            left = tally[place] - part
            tally[place] = left if left > CRUMB else 0
        self.n_rounds -= 1
        self.moved = max(0.0, self.moved - abs(forecast - value)) if self.n_rounds else 0.0


class MonitoredMetric(ProbabilityMetric):
    """A metric with a lower and an upper end, in bounded memory; `get()` is the upper end, an average.

    Subclasses say which measure. It is computed when it is asked for, and again only after more rounds.
    """

    def __init__(self, resolution: int, pos_val: Any, top_label: bool) -> None:
        super().__init__(pos_val, top_label)
        self.resolution = resolution
        self._monitor = RevertibleMonitor(resolution)
        self._found: Interval | None = None

    @property
    def works_with_weights(self) -> bool:
        """False: rounds are counted, not weighed."""
        return False

    def _count(self, forecast: float, outcome: float, w: float) -> None:
        self._check_weight(w)
        self._monitor.update(forecast, outcome)
        self._found = None

    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        self._check_weight(w)
        self._monitor.revert(forecast, outcome)
        self._found = None

    def _check_weight(self, w: float) -> None:
        if w != 1.0:
            raise ValueError(f"{type(self).__name__} counts rounds; w must be 1, got {w!r}")

    def _measure(self) -> Interval:
        raise NotImplementedError

    @property
    def interval(self) -> Interval:
        """Where the measure lies, lower and upper end proven; averages over rounds.

        Raises ValueError as `get` does.
        """
        self._check_met()
        if self._found is None:
            self._found = self._measure()
        return self._found

    def _average(self) -> float:
        return self.interval.upper
