"""The engine at a glance, for its page, for Prometheus and for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec import Struct

from onlinecal.engine.events import Rejected
from onlinecal.engine.keys.key import Key
from onlinecal.engine.keys.totals import Line, Total, Totals
from onlinecal.engine.watch.key_watch import Raised, Scores
from onlinecal.engine.watch.logs import tell_alarms, tell_refusals
from onlinecal.engine.watch.reliability import Reliability, Side


class Overview(Struct, frozen=True):
    """All keys together, and the keys to look at first.

    Attributes
    ----------
    total
        The sums.
    oldest
        Number of the oldest query that waits; None if none does.
    alarms, hint_alarms
        How many there were, of forecasts and of hints.
    scores
        Of all watched keys: of those with hints, if there are any; None if nothing was settled.
    since
        Number of the event from which on `forecasts` and `hints` are counted.
    forecasts, hints
        Their reliability.
    largest
        Keys with the largest certificate per settled round.
    alarmed
        Keys whose last alarm is the latest, the latest first.
    hot_keys
        How many keys are in memory.
    batches, seconds
        Transactions since the start of this engine, and how long they took in all.
    refused
        Events since then that were rejected, by reason.
    """

    total: Total
    oldest: int | None
    alarms: int
    hint_alarms: int
    scores: Scores | None
    since: int
    forecasts: Side
    hints: Side
    largest: list[Line]
    alarmed: list[Line]
    hot_keys: int
    batches: int
    seconds: float
    refused: dict[str, int]


@dataclass
class Served:
    """What an engine has done since its start."""

    batches: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)

    def note(self, refused: list[Rejected], seconds: float, raised: list[tuple[str, Raised]]) -> None:
        """A batch is committed; what was refused of it is logged, and what was `raised`, which is emptied."""
        self.batches += 1
        self.seconds += seconds
        if refused:
            self.refused.update(one.reason for one in refused)
            tell_refusals(refused)
        if raised:
            tell_alarms(raised)
            raised.clear()


def sides(reliability: Reliability, certificate: float, rounds: int) -> tuple[Side, Side]:
    """Reliability of forecasts and hints; the certificate is another bound if it is of the same rounds."""
    forecasts, hints = reliability.side(0), reliability.side(1)
    if forecasts.distance is not None and forecasts.rounds == rounds:
        low, high = forecasts.distance
        forecasts = Side(forecasts.rounds, forecasts.bins, (low, max(low, min(high, certificate))))
    return forecasts, hints


def overview_of(
    total: Total,
    totals: Totals,
    in_memory: Collection[Key],
    reliability: Reliability,
    served: Served,
    limit: int,
) -> Overview:
    """All that is known now, with up to `limit` keys of each kind."""
    return Overview(
        total,
        totals.oldest(in_memory),
        *totals.alarms(),
        totals.scores(),
        reliability.since,
        *sides(reliability, total.certificate, total.rounds),
        totals.largest(limit),
        totals.alarmed(limit),
        len(in_memory),
        served.batches,
        served.seconds,
        dict(served.refused),
    )
