"""What is kept of a key: its state in bytes, and its summary."""

from __future__ import annotations

from msgspec import Struct

from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.watch.watched import Watched
from onlinecal.html import Shown


class StoredKey(Struct, array_like=True):
    """A key's state as it is stored; the format's version comes first."""

    version: int
    clock: float | None
    expired: int
    late: list[int]
    lanes: list[bytes]
    open: list[Issued]


class StoredSteeredKey(StoredKey, array_like=True):
    """The same, and `KeySteering`, if there was a hint to steer."""

    steering: bytes | None = None


class StoredWatchedKey(StoredSteeredKey, array_like=True):
    """The same, and `KeyWatch`: of keys of edition 5 or later."""

    watch: bytes | None = None


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
        Losses and alarms; None of keys of an older edition.
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
