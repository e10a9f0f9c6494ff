"""The state of one key: its lanes, its open forecasts, its clock.

What happens to a key is first noted and then run: `ask` and `close` keep the books and leave steps for the
lanes, `run` lets each lane take all its steps in one call. The answers depend on the order of the key's
events alone, not on how they were cut into batches.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

from onlinecal.engine.lanes import Issued, Lane, Step
from onlinecal.engine.settings import NEVER, Settings

VERSION = 1
SUM = 4
FEW = 64
"""So many forecasts may be open with any lanes."""
RESERVE = 1 << 23
"""Rounds that a lane must still bear for a key to take queries: all that are open or in one batch."""


class Books(Struct, array_like=True):
    """A key's state as it is stored; the format's version comes first."""

    version: int
    clock: float | None
    expired: int
    late: list[int]
    lanes: list[bytes]
    open: list[Issued]


class Summary(Struct, frozen=True):
    """What there is to know of a key at a glance.

    Attributes
    ----------
    rounds, open, expired
        Forecasts settled, waiting for their outcome, and given up because their time was over.
    certificate, guarantee
        Proven bound on the distance to calibration of the settled rounds, and what it cannot exceed; sums.
    oldest
        Number of the oldest query that waits; None if none does.
    """

    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float
    oldest: int | None


class KeyState:
    """One key, hot.

    `number` is the ledger's name for it; `upto` is the number of an event such that the bytes it was loaded
    from hold all before and none after.
    """

    __slots__ = (
        "busy", "clock", "due", "expired", "lanes", "late", "name", "number", "open", "settings", "spent",
        "steps", "upto",
    )  # fmt: skip

    def __init__(
        self, name: str, number: int, settings: Settings, data: bytes | None = None, upto: int = 0
    ) -> None:
        self.name, self.number, self.settings, self.upto = name, number, settings, upto
        self.steps: list[Step] = []
        if data is None:
            data = with_sum(_encoder.encode(Books(VERSION, None, 0, [], [], [])))
        if with_sum(data[SUM:]) != data:
            raise ValueError(f"the state of key {name!r} is damaged: repair the ledger, it is made anew")
        books = _decoder.decode(data[SUM:])
        if books.version != VERSION:
            raise ValueError(f"the state of key {name!r} has version {books.version}, not {VERSION}")
        self.clock, self.expired, self.late = books.clock, books.expired, books.late
        self.lanes: list[Lane] = [settings.kind.load(lane) for lane in books.lanes]
        self.busy = [0] * len(self.lanes)
        self.spent = any(map(is_spent, self.lanes))
        self.open: dict[str, Issued] = {}
        self.due = NEVER
        for issued in books.open:
            self._hold(issued)

    def dump(self) -> bytes:
        """The state in bytes: equal for equal histories, however they were cut into batches."""
        lanes = [lane.dump() for lane in self.lanes]
        books = Books(VERSION, self.clock, self.expired, self.late, lanes, list(self.open.values()))
        return with_sum(_encoder.encode(books))

    def _hold(self, issued: Issued) -> None:
        self.open[issued.id] = issued
        self.busy[issued.lane] += 1
        if issued.time is not None and issued.time + self.settings.patience < self.due:
            self.due = issued.time + self.settings.patience

    def _release(self, issued: Issued) -> None:
        del self.open[issued.id]
        self.busy[issued.lane] -= 1

    def expire(self, time: float | None) -> list[Issued]:
        """Let the clock go on to an event's time, and give up the forecasts whose time is over by then."""
        if time is not None and (self.clock is None or time > self.clock):
            self.clock = time
        if self.clock is None or self.clock <= self.due:
            return []
        over = [issued for issued in self.open.values() if self.is_over(issued)]
        for issued in over:
            self._release(issued)
        self.expired += len(over)
        waiting = (issued.time for issued in self.open.values() if issued.time is not None)
        self.due = min(waiting, default=NEVER) + self.settings.patience
        return over

    def is_over(self, issued: Issued, time: float | None = None) -> bool:
        """Whether a forecast has waited too long, now or at a later time."""
        if issued.time is None or self.clock is None:
            return False
        now = self.clock if time is None else max(self.clock, time)
        return now > issued.time + self.settings.patience

    def is_full_at(self, time: float | None) -> bool:
        """Whether so many forecasts are open by then that the lanes' integers could not bear another.

        Or so many are settled, as of the last `run`.
        """
        if self.spent:
            return True
        if len(self.open) < FEW or len(self.open) < (most := min(lane.most_open for lane in self.lanes)):
            return False
        return sum(not self.is_over(issued, time) for issued in self.open.values()) >= max(FEW, most)

    def ask(self, id: str, number: int, hint: Any, time: float | None) -> Issued:
        """Issue a forecast, after `expire` and unless `is_full_at`; its answer is there after `run`."""
        lane = self._free_lane()
        if self.busy[lane] > self.late[lane]:
            self.late[lane] = self.busy[lane]
        issued = Issued(id, number, self.clock if time is None else time, hint, lane)
        self._hold(issued)
        self.steps.append((issued, None))
        return issued

    def close(self, issued: Issued, outcome: Any, time: float | None) -> list[Issued]:
        """Settle a forecast, or withdraw it if the outcome is None; those that expired by then.

        Raises ValueError, and changes nothing, if the outcome is one class too many.
        """
        if outcome is not None:
            if not self.lanes[issued.lane].admits(outcome):
                raise ValueError(f"value {outcome!r} is one class more than can be told apart")
            self.steps.append((issued, outcome))
        self._release(issued)
        return self.expire(time)

    def _free_lane(self) -> int:
        """The first lane that waits for nothing; else a new one; else the one that waits for least."""
        if self.settings.most_lanes == 1 and self.busy:
            return 0
        least = min(self.busy, default=1)
        if least and len(self.lanes) < self.settings.most_lanes:
            self.lanes.append(self.settings.kind.new())
            self.busy.append(0)
            self.late.append(0)
            return len(self.lanes) - 1
        return self.busy.index(least)

    def run(self) -> None:
        """Let the lanes take their steps."""
        steps, self.steps = self.steps, []
        if len(self.lanes) == 1:
            certificates = self.lanes[0].run(steps)
            self.spent = is_spent(self.lanes[0])
            for (issued, outcome), certificate in zip(steps, certificates, strict=True):
                if outcome is None:
                    issued.certificate = certificate
            return
        now = [lane.certificate for lane in self.lanes]
        of_lane: list[list[Step]] = [[] for _ in self.lanes]
        for step in steps:
            of_lane[step[0].lane].append(step)
        after = [iter(lane.run(own) if own else ()) for lane, own in zip(self.lanes, of_lane, strict=True)]
        self.spent = any(map(is_spent, self.lanes))
        for issued, outcome in steps:
            now[issued.lane] = next(after[issued.lane])
            if outcome is None:
                issued.certificate = sum(now)

    def summary(self) -> Summary:
        """What there is to know of the key."""
        oldest = min((issued.number for issued in self.open.values()), default=None)
        return Summary(
            sum(lane.rounds for lane in self.lanes),
            len(self.open),
            self.expired,
            sum(lane.certificate for lane in self.lanes),
            sum(lane.promise(late) for lane, late in zip(self.lanes, self.late, strict=True)),
            oldest,
        )


def is_spent(lane: Lane) -> bool:
    """Whether a lane bears fewer rounds than the reserve; it cannot before so many were settled."""
    return lane.rounds > RESERVE and lane.rounds_left < RESERVE


def with_sum(data: bytes) -> bytes:
    """The bytes behind their checksum: compiled code must never run on what a disk has made of a state."""
    return crc32(data).to_bytes(SUM, "little") + data


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Books)
