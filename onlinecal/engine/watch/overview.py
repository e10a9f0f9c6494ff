"""What the engine's operator sees: all keys at a glance, for the page, Prometheus and reports; and the logs.

Sums over all keys are kept up as keys change: to read them, not every key has to be looked at.

The logger is `onlinecal.engine`: alarms are warnings, refusals are information. A message of the same kind is
written a few times a minute at most; the next one says how many were left out.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush, nlargest
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from onlinecal.engine.events import Rejected
from onlinecal.engine.keys.key import EMPTY_SUMMARY, Key, Summary
from onlinecal.engine.watch.key_watch import HINT, Alarm, Scores
from onlinecal.engine.watch.reliability import Side

QUIET = 60.0
"""In so many seconds, ALARMS messages with the same words are written at most."""
ALARMS = 16
LONGEST = 300
"""Characters of a refusal's details."""

logger = logging.getLogger("onlinecal.engine")
logger.addHandler(logging.NullHandler())


class RateLimit(logging.Filter):
    """Lets `most` messages with the same words through in QUIET seconds, and says how many it kept back."""

    def __init__(self, most: int = 1) -> None:
        super().__init__()
        self._most = most
        self._written: dict[str, tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be written."""
        words, now = str(record.msg), time.monotonic()
        until, said, kept_back = self._written.get(words, (now, 0, 0))
        if now >= until:
            until, said = now + QUIET, 0
        elif said >= self._most:
            self._written[words] = until, said, kept_back + 1
            return False
        if kept_back:
            record.msg = f"{words.rstrip()} ({kept_back} more since this was said last)"
        self._written[words] = until, said + 1, 0
        return True


logger.addFilter(RateLimit(most=ALARMS))


class JsonLines(logging.Formatter):
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
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def log_to_stderr(as_json: bool) -> None:
    """Log to standard error: everything, also of the server, as JSON lines; or warnings as plain text."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainText())
    for name in ("onlinecal", "uvicorn", "asyncio") if as_json else ("onlinecal",):
        one = logging.getLogger(name)
        one.handlers = [handler]
        one.propagate = False
    logging.getLogger("onlinecal").setLevel(logging.INFO if as_json else logging.WARNING)


UNIT = 2.0**60
"""Sums are integers in units of 1/UNIT: then an old value can be subtracted exactly."""

REMEMBERED = 1_000
"""How many keys not in memory are candidates for the largest certificates; as many for the latest alarms."""

NamedSummary = tuple[str, Summary]


class Total(Struct, frozen=True):
    """All keys together.

    Attributes
    ----------
    events, keys
        How many events were accepted, and how many keys they belong to.
    rounds, open, expired, certificate, guarantee
        As in a key's `Summary`, summed: a union of calibrated sequences is calibrated.
    """

    events: int
    keys: int
    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float


class Overview(Struct, frozen=True):
    """All keys together, and the keys to look at first.

    Attributes
    ----------
    total
        The sums.
    oldest
        Number of the oldest query that waits; None if none does.
    alarms, hint_alarms
        How many alarms there were, of forecasts and of hints.
    scores
        The scores of all watched keys with hints, or of all keys if none has hints; None if nothing was
        settled.
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
    early
        Outcomes that were accepted with a time before that of their query, since the ledger was made.
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


class Totals:
    """The sums over all keys. They have to be told of every key that is loaded, has events, or is dropped.

    A key that had events is looked at when the sums are read, once however many events it had.

    Parameters
    ----------
    in_memory
        The keys in memory.
    cold
        Names and summaries of all other keys.
    """

    def __init__(self, in_memory: Iterable[Key], cold: Iterable[NamedSummary]) -> None:
        self._sums = [0] * len(summands(EMPTY_SUMMARY))
        self._stale = dict.fromkeys(in_memory)
        self._counted: dict[str, Summary] = {}
        self._cold: dict[str, None] = {}
        self._most_cold = 2 * REMEMBERED
        # the oldest open query of each cold key, and of some that were loaded since, which are in `_reloaded`
        self._waiting: list[int] = []
        self._reloaded: Counter[int] = Counter()
        for name, summary in cold:
            self._count(name, summary)
            self._remember(name, summary.oldest)

    def loaded(self, state: Key) -> None:
        """A key was loaded into memory."""
        if state.oldest is not None:
            self._reloaded[state.oldest] += 1
        if state.name in self._cold:
            del self._cold[state.name]
        else:
            self._counted[state.name] = state.summary()

    def touched(self, states: Iterable[Key]) -> None:
        """Something happened to these keys."""
        self._stale.update(dict.fromkeys(states))

    def dropped(self, state: Key) -> None:
        """A key leaves the memory."""
        if state in self._stale:
            del self._stale[state]
            self._count(state.name, state.summary())
        self._remember(state.name, state.oldest)

    def read(self, events: int, keys: int) -> Total:
        """The sums as of now."""
        self._catch_up()
        rounds, waiting, expired, certificate, guarantee = self._sums[:5]
        return Total(events, keys, rounds, waiting, expired, certificate / UNIT, guarantee / UNIT)

    def largest(self, limit: int) -> list[NamedSummary]:
        """The keys with the largest certificate per settled round, the largest first.

        Of keys that left the memory long ago, those are considered that were among the largest then.
        """
        self._catch_up()
        return nlargest(limit, self._counted.items(), key=per_round)

    def oldest(self, in_memory: Iterable[Key]) -> int | None:
        """The number of the oldest open query, of the keys in memory and of all others."""
        while self._waiting and self._reloaded[self._waiting[0]]:
            self._reloaded[heappop(self._waiting)] -= 1
        self._reloaded = +self._reloaded
        hot = (one for one in (state.oldest for state in in_memory) if one is not None)
        return min((*self._waiting[:1], *hot), default=None)

    def alarms(self) -> tuple[int, int]:
        """How many alarms there were, of forecasts and of hints."""
        self._catch_up()
        return self._sums[5], self._sums[6]

    def alarmed(self, limit: int) -> list[NamedSummary]:
        """The keys with the latest alarms, the latest first; they are chosen as in `largest`."""
        self._catch_up()
        return nlargest(limit, filter(last_alarm, self._counted.items()), key=last_alarm)

    def scores(self) -> Scores | None:
        """The scores of the settled forecasts of all keys with hints, or of all keys if none has hints."""
        self._catch_up()
        hinted, unhinted = self._sums[7:14], self._sums[14:]
        rounds, *losses = hinted if hinted[0] else unhinted
        if not rounds:
            return None
        means = [one / UNIT / rounds for one in losses]
        return Scores(rounds, *means) if hinted[0] else Scores(rounds, None, None, *means)

    def _catch_up(self) -> None:
        for state in self._stale:
            self._count(state.name, state.summary())
        self._stale.clear()

    def _count(self, name: str, now: Summary) -> None:
        before, after = summands(self._counted.get(name, EMPTY_SUMMARY)), summands(now)
        self._sums = [total - old + new for total, old, new in zip(self._sums, before, after, strict=True)]
        self._counted[name] = now

    def _remember(self, name: str, oldest: int | None) -> None:
        """Keep a cold key as a candidate, and forget the smallest when there are too many."""
        self._cold[name] = None
        if oldest is not None:
            heappush(self._waiting, oldest)
        if len(self._cold) >= self._most_cold:
            cold = [(name, self._counted[name]) for name in self._cold]
            kept = nlargest(REMEMBERED, cold, key=per_round)
            kept += nlargest(REMEMBERED, filter(last_alarm, cold), key=last_alarm)
            for name in self._cold.keys() - {name for name, _ in kept}:
                del self._cold[name], self._counted[name]
            # forget again when there are so many more
            self._most_cold = len(self._cold) + REMEMBERED


def per_round(one: NamedSummary) -> float:
    """The certificate of a key per settled round."""
    summary = one[1]
    return summary.certificate / summary.rounds if summary.rounds else -1.0


def last_alarm(one: NamedSummary) -> int:
    """The event of the last alarm of a key, 0 if there was none."""
    watched = one[1].watched
    alarms = () if watched is None else (watched.last, watched.last_hint)
    return max((alarm.event for alarm in alarms if alarm), default=0)


def summands(summary: Summary) -> tuple[int, ...]:
    """The integers of a summary that are summed: five fields, alarms, scores with and without hints."""
    s, watched = summary, summary.watched
    sums = s.rounds, s.open, s.expired, int(s.certificate * UNIT), int(s.guarantee * UNIT)
    if watched is None:
        return *sums, *(0,) * 14
    scores: tuple[int, ...] = (0,) * 12
    if watched.scores is not None:
        rounds, *means = astuple(watched.scores)
        losses = [int(mean * rounds * UNIT) for mean in means if mean is not None]
        # without hints there are two means less
        scores = (rounds, *losses, *(0,) * 5) if len(losses) == 6 else (*(0,) * 7, rounds, *losses)
    return *sums, watched.alarms, watched.hint_alarms, *scores


@dataclass
class Activity:
    """What an engine has done since its start."""

    batches: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)

    def note(self, refused: list[Rejected], seconds: float, raised: list[tuple[str, int, Alarm]]) -> None:
        """Count a batch that was committed, and log its refusals and alarms; `raised` is emptied."""
        self.batches += 1
        self.seconds += seconds
        self.refused.update(one.reason for one in refused)
        for one in refused if logger.isEnabledFor(logging.INFO) else ():
            detail = one.detail[:LONGEST]
            about = {"kind": "refusal", "reason": one.reason, "id": one.id, "detail": detail}
            logger.info(f"an event was rejected, {one.reason}: %s", detail, extra={"about": about})
        for key, side, alarm in raised:
            of = "hints" if side == HINT else "forecasts"
            about = {"kind": "alarm", "key": key, "of": of, **msgspec.to_builtins(alarm)}
            words = f"alarm: {of} of key %s are %s, by event %d"
            logger.warning(words, key, alarm, alarm.event, extra={"about": about})
        raised.clear()
