"""Outcomes that came before their queries are parked: they wait for them, if the configuration allows it.

A parked outcome is neither accepted nor refused. When its query comes, the forecast is made first, and then
settled, as if the outcome had come right behind the query (engine/judge.py). What a parked outcome belongs
to is not known before, so it has no clock: it waits for a number of accepted events, of whatever keys.

A book has one `Parking`. It is made of what the ledger has at each start of an engine (`Ledger.parking`), and
of a key's bytes at each turn (`turns.py`). Only the judge parks, settles and drops outcomes (`Parking.add`,
`settle`, `drop`, `drop_old`). The engine calls `forget_changes` after each commit, empties `dropped` when it
has logged it, and makes `most` 0 in `trust_events`. Turns do neither, since they make a new one each time.

What always holds between these calls: `waiting` is in the order of the outcomes' numbers, which is that of
their coming; `counts.waiting` is its length; and everything in `added` waits. The fields of a
`ParkedOutcome`, in their order, are the columns of the ledger's table `parked`, and stand in the bytes of
turns. `ParkingCounts` are kept in the table `about` as JSON, by name, with the words in REASONS. Whoever
changes one of these raises STATE_FORMAT.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from onlinecal.engine.events import Rejected

MOST_PARKED_LENGTH = 1 << 26
"""So many characters the values of all parked outcomes may have as JSON: a soft label may have a thousand
classes. It says what is parked from now on, so it may change at any time, as `park` may."""

REASONS = "waited", "invalid", "expired"
"""Why a parked outcome is dropped: it has waited for too many events; its query has come, and the forecast
cannot have that outcome; or it cannot have it so late."""


class ParkedOutcome(NamedTuple):
    """An outcome that waits for its query.

    `number` is its place among all outcomes that were ever parked; `key` is "" if it names none; `value` is
    JSON; `since` is the number of the last event that was accepted before it came.
    """

    number: int
    id: str
    key: str
    value: str
    time: float | None
    since: int

    def outcome(self) -> Any:
        """The value as it came."""
        return msgspec.json.decode(self.value)


class ParkingCounts(Struct):
    """How many outcomes came before their queries and were parked, and what has become of them.

    Attributes
    ----------
    waiting
        How many wait for their queries now.
    settled
        How many have settled a forecast, since its query came.
    dropped
        How many were given up, a dict by reason: "waited" (for more events than `park` allows), "invalid" or
        "expired" (when the query came, its forecast could not have that outcome, or not at that time).
    """

    waiting: int = 0
    settled: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))

    @property
    def parked(self) -> int:
        """How many outcomes were ever parked: those that wait, have settled a forecast, or were dropped."""
        return self.waiting + self.settled + self.n_dropped

    @property
    def n_dropped(self) -> int:
        """How many outcomes were dropped: the sum of `dropped` over its reasons."""
        return sum(self.dropped.values())

    def copy(self) -> ParkingCounts:
        """A new `ParkingCounts` with the counts as they are now; what happens later does not change it."""
        return ParkingCounts(self.waiting, self.settled, dict(self.dropped))


class Parking:
    """The parked outcomes.

    Parameters
    ----------
    most
        How many events a parked outcome may wait for, and how many outcomes may be parked together.
    waiting
        Those that wait already, in the order of their numbers.
    counts
        Those of all that were ever parked; None if none was.

    Attributes
    ----------
    waiting
        The outcomes that wait, by id, in the order of their numbers.
    added, released
        What has changed since `forget_changes`: the outcomes that were parked and still wait, and the numbers
        of those that waited before and wait no more.
    dropped
        The outcomes that were dropped, as refusals that say why, until somebody empties the list.
    """

    def __init__(
        self, most: int, waiting: Iterable[ParkedOutcome] = (), counts: ParkingCounts | None = None
    ) -> None:
        self.most, self.counts = most, counts or ParkingCounts()
        # the oldest is found at once, however many before it are gone
        self.waiting = OrderedDict((outcome.id, outcome) for outcome in waiting)
        self.dropped: list[Rejected] = []
        self._length = sum(len(outcome.value) for outcome in self.waiting.values())
        self.forget_changes()

    def forget_changes(self) -> None:
        """What has changed so far is in the ledger."""
        self.added: dict[int, ParkedOutcome] = {}
        self.released: list[int] = []
        self.has_changed = False

    def lack_of_room(self, value: str) -> str:
        """Why no further outcome with that value, JSON, can be parked; "" if it can."""
        if len(self.waiting) >= self.most:
            return f"{len(self.waiting)} outcomes are parked, as many as park allows"
        if self._length + len(value) > MOST_PARKED_LENGTH:
            most = MOST_PARKED_LENGTH
            return f"the values of parked outcomes have {self._length} characters, and may have {most}"
        return ""

    def add(self, id: str, key: str, value: str, time: float | None, number: int) -> None:
        """Park an outcome for which there is room; `number` is that of the last accepted event."""
        outcome = ParkedOutcome(self.counts.parked + 1, id, key, value, time, number)
        self.waiting[id] = self.added[outcome.number] = outcome
        self.counts.waiting += 1
        self._length += len(value)
        self.has_changed = True

    def settle(self, id: str) -> None:
        """The query of a parked outcome has come, and its forecast is settled."""
        self._release(id)
        self.counts.settled += 1

    def drop(self, refusal: Rejected) -> None:
        """Drop a parked outcome, for one of the REASONS."""
        assert refusal.id is not None
        self._release(refusal.id)
        self.counts.dropped[refusal.reason] += 1
        self.dropped.append(refusal)

    def drop_old(self, number: int) -> None:
        """Drop the outcomes that have waited for too many events, of which the last has this number."""
        while self.waiting:
            outcome = next(iter(self.waiting.values()))
            if number - outcome.since <= self.most:
                break
            why = f"its query had not come when {self.most} more events (park) were accepted"
            detail = f"outcome of {outcome.id!r} was parked, and {why}: send it again after its query"
            self.drop(Rejected(outcome.id, "waited", detail))

    def _release(self, id: str) -> None:
        outcome = self.waiting.pop(id)
        if self.added.pop(outcome.number, None) is None:
            self.released.append(outcome.number)
        self.counts.waiting -= 1
        self._length -= len(outcome.value)
        self.has_changed = True
