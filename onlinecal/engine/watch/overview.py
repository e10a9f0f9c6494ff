"""What the engine's operator sees: all keys at a glance, for the page, Prometheus and reports; and the logs.

The logger is `onlinecal.engine`: alarms and dropped outcomes are warnings, refusals are information. A
message with the same words is written MOST_ALIKE times in COUNTED_SECONDS at most; the next one says how many
were left out.

Two objects have a state. `Activity` counts what an engine has done since its start; the engine alone writes
it, once a batch is committed. `RateLimit` remembers what was written lately. `log_to_stderr` changes the
loggers of the whole process, and is for commands only. All else are answers, which never change. Prometheus
and the page read the fields of `Overview` by name, and programs those of the JSON lines (`about`).
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from onlinecal.engine.events import Rejected
from onlinecal.engine.parking import ParkingCounts
from onlinecal.engine.watch.key_watch import HINT, Alarm, Scores, Summary
from onlinecal.engine.watch.reliability import Side

COUNTED_SECONDS = 60.0
"""In so many seconds, MOST_ALIKE messages with the same words are written at most."""
MOST_ALIKE = 16
LONGEST_DETAIL = 300
"""Characters of a refusal's details."""

logger = logging.getLogger("onlinecal.engine")
logger.addHandler(logging.NullHandler())


class RateLimit(logging.Filter):
    """Lets `most` messages with the same words through in COUNTED_SECONDS, and says how many it kept back."""

    def __init__(self, most: int = 1) -> None:
        super().__init__()
        self._most = most
        self._written: dict[str, tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be written."""
        words, now = str(record.msg), time.monotonic()
        until, said, kept_back = self._written.get(words, (now, 0, 0))
        if now >= until:
            until, said = now + COUNTED_SECONDS, 0
        elif said >= self._most:
            self._written[words] = until, said, kept_back + 1
            return False
        if kept_back:
            record.msg = f"{words.rstrip()} ({kept_back} more since this was said last)"
        self._written[words] = until, said + 1, 0
        return True


logger.addFilter(RateLimit(most=MOST_ALIKE))


class JsonLogLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and what the record is about."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class PlainText(logging.Formatter):
    """The message alone, with control characters spelt out: names come from whoever sends events."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        text = f"onlinecal: {record.getMessage()}"
        signs = (sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
        return "".join(signs)


def log_to_stderr(as_json: bool) -> None:
    """Log to standard error: everything, also of the server, as JSON lines; or warnings as plain text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogLines() if as_json else PlainText())
    for name in ("onlinecal", "uvicorn", "asyncio") if as_json else ("onlinecal",):
        of_package = logging.getLogger(name)
        of_package.handlers = [handler]
        of_package.propagate = False
    logging.getLogger("onlinecal").setLevel(logging.INFO if as_json else logging.WARNING)


NamedSummary = tuple[str, Summary]


class Total(Struct, frozen=True):
    """Sums over all keys.

    Attributes
    ----------
    events, keys
        How many events were accepted, and how many keys they belong to.
    rounds, open, expired
        How many forecasts were settled, are open, and expired, which with `expire_as` are among the settled.
    certificate, guarantee
        A proven upper bound on the distance to calibration of the settled rounds of all keys together, a sum
        over rounds, and what that bound could not exceed, whatever outcomes came: each is the sum over the
        keys. If there are keys of kind "lp", whose certificates are errors and no bounds, neither are these.
    """

    events: int
    keys: int
    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float


class TopicPosition(Struct, frozen=True):
    """How far a partition of a topic is answered.

    Attributes
    ----------
    topic, partition
        The partition.
    position
        The offset of the next message.
    lag
        How many offsets lie between it and the end of the partition; None if nobody has told where that is.
    """

    topic: str
    partition: int
    position: int
    lag: int | None


class Overview(Struct, frozen=True):
    """All keys together, and the keys to look at first.

    Attributes
    ----------
    total
        A `Total`: the sums over all keys.
    oldest
        The number of the oldest open query, None if none is open. Accepted events are numbered from 1.
    alarms, hint_alarms
        How many alarms there were, of all keys' forecasts and of their hints, since the ledger was made.
    scores
        Brier scores and log losses of all keys with hints, or of all keys if none has hints: averages over
        their settled rounds. None if nothing was settled.
    since
        The number of the last event before those that `forecasts` and `hints` count; 0: they count from the
        first event on.
    forecasts, hints
        The reliability of all keys' forecasts, and of their hints: how many settled rounds (`rounds`); `bins`
        with the mean forecast and the mean outcome; and `distance`, lower and upper bound on the distance to
        calibration, sums over rounds, None if keys of several classes are among them. Without such a round
        `rounds` is 0, the bins are empty and the bounds 0.
    largest
        Pairs (name, `Summary`) of the keys with the largest certificate per settled round, the largest first,
        keys without a settled round last: at most the `limit` of `Engine.overview`.
    alarmed
        Pairs (name, `Summary`) of the keys that had an alarm, the one with the latest alarm first: at most
        the `limit` of `Engine.overview`.
    hot_keys
        How many keys are in memory.
    batches, seconds
        How many batches this engine has committed since its start, and how many seconds they took in all.
    refused
        How many events were rejected since the start of this engine, a dict by reason.
    early
        How many outcomes were accepted with a time before that of their query, since the ledger was made.
    outcomes
        How many outcomes were accepted since the start of this engine; forecasts that expired are not
        counted.
    parking
        `ParkingCounts`: what became of the outcomes that came before their queries, since the ledger was
        made.
    topics
        One entry for each partition of a topic that a `TopicFeed` feeds to the ledger: `topic`, `partition`,
        `position` (the offset of the next message) and `lag` (how many offsets are left, None if nobody has
        said where the partition ends).
    unsent
        How many batches have answers in the ledger that are not known to have been delivered.
    """

    total: Total
    oldest: int | None
    alarms: int
    hint_alarms: int
    scores: Scores | None
    since: int
    forecasts: Side
    hints: Side
    largest: list[NamedSummary]
    alarmed: list[NamedSummary]
    hot_keys: int
    batches: int
    seconds: float
    refused: dict[str, int]
    early: int
    outcomes: int
    parking: ParkingCounts
    topics: list[TopicPosition]
    unsent: int


@dataclass
class Activity:
    """What an engine has done since its start."""

    batches: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    outcomes: int = 0

    def note(
        self,
        refused: list[Rejected],
        seconds: float,
        raised: list[tuple[str, int, Alarm]],
        dropped: list[Rejected],
    ) -> None:
        """Count a batch that was committed, and log its refusals, its alarms and dropped outcomes.

        `raised` and `dropped` are emptied.
        """
        self.batches += 1
        self.seconds += seconds
        self.refused.update(refusal.reason for refusal in refused)
        for refusal in refused if logger.isEnabledFor(logging.INFO) else ():
            detail = refusal.detail[:LONGEST_DETAIL]
            about = {"kind": "refusal", "reason": refusal.reason, "id": refusal.id, "detail": detail}
            logger.info(f"an event was rejected, {refusal.reason}: %s", detail, extra={"about": about})
        for refusal in dropped:
            about = {
                "kind": "dropped",
                "reason": refusal.reason,
                "id": refusal.id,
                "detail": refusal.detail[:LONGEST_DETAIL],
            }
            words = f"a parked outcome was dropped, {refusal.reason}: %s"
            logger.warning(words, refusal.detail[:LONGEST_DETAIL], extra={"about": about})
        dropped.clear()
        for key, side, alarm in raised:
            of = "hints" if side == HINT else "forecasts"
            about = {"kind": "alarm", "key": key, "of": of, **msgspec.to_builtins(alarm)}
            words = f"alarm: {of} of key %s are %s, by event %d"
            logger.warning(words, key, alarm, alarm.event, extra={"about": about})
        raised.clear()
