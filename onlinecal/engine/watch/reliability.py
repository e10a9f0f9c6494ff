"""Reliability of all keys together: how often outcomes came, by bins of forecasts.

The book counts: when the keys have played a batch, it calls `add_events`, if binary ones settled something,
and `add`. `is_written` is False from then on until the engine calls `dump`, for a commit; all others read. If
that commit fails, the engine begins again with what the ledger has. What `dump` makes is saved in the ledger:
BINS and the order of the axes are part of STATE_FORMAT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onlinecal.arrays import Floats
from onlinecal.compiling import Address, Entry, interpreted_first
from onlinecal.engine.keys.lanes import ClassForecast, class_shares
from onlinecal.engine.watch.key_watch import likeliest

BINS = 20
EVENTS, LIKELIEST = 0, 1
"""Two kinds of rounds: those with outcomes in [0, 1]; those with several classes, whose likeliest one
counts."""


def count(sums: Floats, forecasts: Floats, outcomes: Floats) -> None:
    """Add rounds, of shape (n,), to the sums of bins, (BINS, 4); a forecast that is NaN is left out.

    Rounds are added one after the other, so the sums do not depend on how they were cut into batches.
    """
    for i in range(len(outcomes)):
        p, y = forecasts[i], outcomes[i]
        if p == p:
            place = max(0, min(int(p * BINS), BINS - 1))
            sums[place, 0] += 1.0
            sums[place, 1] += p
            sums[place, 2] += y
            sums[place, 3] += (p - 0.5) * (p - y)


class Counting:
    """What is counted of settled rounds: an entry point, which is interpreted first."""

    count: ClassVar[Callable[[Floats, Floats, Floats], None]]


COUNTING = interpreted_first(
    Counting,
    Address(__name__, "COUNTING"),
    count=Entry(
        count,
        0,
        seconds=2e-6,
        compiling=1.0,
        rows=lambda sums, forecasts, outcomes: len(outcomes),
    ),
)


class Bin(Struct, frozen=True):
    """Rounds whose forecasts lie close together: how many, the mean forecast and the mean outcome."""

    rounds: int
    forecast: float
    outcome: float


class Side(Struct, frozen=True):
    """The reliability of all forecasts, or of all hints, since the ledger began to count it.

    Attributes
    ----------
    rounds
        How many settled rounds had a forecast, or a hint. Of several classes the likeliest one counts, so
        rounds before the first class was known do not.
    bins
        The bins that have rounds, from 0 to 1; empty without rounds.
    distance
        Lower and upper bound on the distance to calibration, all keys as one sequence; sums over rounds. None
        if there are rounds with several classes; (0, 0) without rounds.
    """

    rounds: int
    bins: list[Bin]
    distance: tuple[float, float] | None


class Reliability:
    """Counts rounds in bins, by their forecasts and by their hints, of both kinds.

    Attributes
    ----------
    since
        Number of the last event before the first that was counted.
    is_written
        Whether there is nothing new since the last `dump`.
    """

    def __init__(self, since: int = 0) -> None:
        self.since, self.is_written = since, False
        # axes: kind, side, bin; the number of rounds, the sums of p, of y, and of (p - 1/2)(p - y)
        self._sums: Floats = np.zeros((2, 2, BINS, 4))

    def add(self, settled: Sequence[tuple[ClassForecast, Any]]) -> None:
        """Count settled forecasts of several classes with their outcomes."""
        for side, of in enumerate(("probability", "hint")) if settled else ():
            likely = [likeliest(getattr(forecast, of)) for forecast, _ in settled]
            came = [
                class_shares(y).get(label or "", 0.0)
                for (label, _), (_, y) in zip(likely, settled, strict=True)
            ]
            COUNTING.count(
                self._sums[LIKELIEST, side], np.array([p for _, p in likely]), np.array(came, np.float64)
            )
            self.is_written = False

    def add_events(self, forecasts: Floats, hints: Floats, outcomes: Floats) -> None:
        """Count rounds with outcomes in [0, 1], (n,); a hint is NaN where there was none."""
        for side, probabilities in enumerate((forecasts, hints)):
            COUNTING.count(self._sums[EVENTS, side], probabilities, outcomes)
        self.is_written = False

    def side(self, side: int) -> Side:
        """The reliability of the forecasts (0) or of the hints (1)."""
        both = self._sums[:, side].sum(axis=0)
        bins = [Bin(int(n), p / n, y / n) for n, p, y, _ in both.tolist() if n]
        has_classes = bool(self._sums[LIKELIEST, side].any())
        return Side(int(both[:, 0].sum()), bins, None if has_classes else bracket(both))

    def both(self, certificate: float, rounds: int) -> tuple[Side, Side]:
        """That of forecasts and of hints; a certificate of the same rounds bounds the distance."""
        forecasts, hints = self.side(0), self.side(1)
        if forecasts.distance is not None and forecasts.rounds == rounds:
            low, high = forecasts.distance
            forecasts = replace(forecasts, distance=(low, max(low, min(high, certificate))))
        return forecasts, hints

    def dump(self) -> bytes:
        """The state in bytes, as the ledger keeps it."""
        self.is_written = True
        return msgspec.msgpack.encode((self.since, self._sums.astype("<f8").tobytes()))

    @classmethod
    def load(cls, data: bytes) -> Reliability:
        """The counts that were dumped."""
        since, floats = msgspec.msgpack.decode(data, type=tuple[int, bytes])
        reliability = cls(since)
        reliability._sums = np.frombuffer(floats, "<f8").reshape(reliability._sums.shape).astype(np.float64)
        return reliability


def bracket(sums: Floats) -> tuple[float, float]:
    """Bounds on the distance to calibration from the sums of bins, shape (BINS, 4).

    Below: for calibrated q, sum w(q)(y - q) is 0 for every function w, so sum w(p)(y - p) is at most
    (max of w + max of the slope) times sum abs(p - q); docs/theory-tables.md has the proof. Above: forecasts
    may all move to the mean outcome m of their bin; for p in it abs(p - m) is at most the chord over the bin.
    """
    n, p, y, tilt = sums.T
    below = max(abs((p - y).sum()), abs(tilt.sum()) / 1.5)
    low = np.arange(BINS) / BINS
    high = low + 1.0 / BINS
    mean = np.divide(y, n, out=np.zeros(BINS), where=n > 0)
    chord = ((n * high - p) * abs(low - mean) + (p - n * low) * abs(high - mean)) * BINS
    return float(below), float(max(below, chord.sum()))
