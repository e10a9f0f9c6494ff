"""A key's state as it is stored, and what there is to know of it at a glance."""

from __future__ import annotations

from msgspec import Struct

from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.watch.key_watch import Watched
from onlinecal.forecasters.binary.soundness import require
from onlinecal.html import Shown


class StoredKey(Struct, array_like=True):
    """A key's state as it is stored; the number of its format, `STATE_FORMAT`, comes first.

    `steering` is that of `ClassSteering`, None before the first hint to steer; `watch` that of `KeyWatch`.
    """

    format: int
    clock: float | None
    expired: int
    late: list[int]
    lanes: list[bytes]
    open: list[Issued]
    steering: bytes | None
    watch: bytes

    def by_lane(self, lanes: int, most: int) -> list[list[Issued]]:
        """The open forecasts of each of so many lanes, of `most`; ValueError if these books cannot be."""
        require(lanes <= most and len(self.late) == lanes, "its lanes")
        require(len({one.id for one in self.open}) == len(self.open), "its open forecasts")
        require(all(0 <= one.lane < lanes for one in self.open), "its lanes")
        of_lane: list[list[Issued]] = [[] for _ in range(lanes)]
        for one in self.open:
            of_lane[one.lane].append(one)
        return of_lane


class Summary(Shown, Struct, frozen=True, omit_defaults=True):
    """What there is to know of a key at a glance.

    Attributes
    ----------
    rounds, open, expired
        Forecasts settled, waiting for their outcome, and given up because their time was over.
    certificate, guarantee
        Proven bound on the distance to calibration of the settled rounds, and what it cannot exceed; sums.
    oldest
        Number of the oldest query that waits; None if none does.
    window_certificate, window_guarantee
        The same bounds for the last `window` settled rounds, and for any so many consecutive ones; None if
        the key keeps no window (or its grid promises nothing of any). Those of several keys do not add up.
    watched
        Losses and alarms; None where they were not asked for.
    """

    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float
    oldest: int | None
    window_certificate: float | None = None
    window_guarantee: float | None = None
    watched: Watched | None = None
