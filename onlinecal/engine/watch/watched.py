"""What came of watching a key, as reports, pages and the ledger have it."""

from __future__ import annotations

from msgspec import Struct

from onlinecal.engine.watch.scores import Scores


class Alarm(Struct, frozen=True):
    """That forecasts, or hints, are no longer calibrated.

    Attributes
    ----------
    event
        Number of the event, an outcome, that raised it.
    low, high
        Which of them: from low up to high. Of several classes it is the probability of the likeliest.
    direction
        "too low", "too high", or of all of them "overconfident", "underconfident".
    """

    event: int
    low: float
    high: float
    direction: str

    def __str__(self) -> str:
        where = "all" if self.high - self.low == 1.0 else f"{self.low:g} to {self.high:g}"
        return f"{self.direction} ({where})"


class Watched(Struct, frozen=True, omit_defaults=True):
    """What came of watching a key.

    Attributes
    ----------
    scores
        Of the settled rounds; None if there are none.
    bias, hint_bias
        Of outcomes in [0, 1]: lower bounds on the distance to calibration, sums over rounds as certificates
        are; the larger of abs(sum of p - y) and of abs(sum of (p - 1/2)(p - y))/1.5.
    alarms, hint_alarms
        How many there were, of the forecasts and of the hints.
    last, last_hint
        The last ones.
    """

    scores: Scores | None = None
    bias: float | None = None
    hint_bias: float | None = None
    alarms: int = 0
    hint_alarms: int = 0
    last: Alarm | None = None
    last_hint: Alarm | None = None
