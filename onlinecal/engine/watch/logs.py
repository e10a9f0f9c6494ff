"""What the engine tells its operator's logs: alarms and refusals, by the names and ways of `logging`.

The logger is `onlinecal.engine`: alarms are warnings, refusals are information. A message of the same kind is
written a few times a minute at most, with how often it came besides.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from onlinecal.engine.events import Rejected
from onlinecal.engine.watch.key_watch import HINT, Raised

QUIET = 60.0
"""Seconds in which the same words are written so many times at most."""
ALARMS = 16
LONGEST = 300
"""Characters of a refusal's details."""

logger = logging.getLogger("onlinecal.engine")
logger.addHandler(logging.NullHandler())


class Seldom(logging.Filter):
    """Lets the same words through `most` times in a while; how often they came besides is said next time."""

    def __init__(
        self, seconds: float = QUIET, clock: Callable[[], float] = time.monotonic, most: int = 1
    ) -> None:
        super().__init__()
        self._seconds, self._clock, self._most = seconds, clock, most
        self._said: dict[str, tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be written."""
        words = str(record.msg)
        until, said, kept_back = self._said.get(words, (-math.inf, 0, 0))
        if self._clock() >= until:
            until, said = self._clock() + self._seconds, 0
        elif said >= self._most:
            self._said[words] = until, said, kept_back + 1
            return False
        if kept_back:
            record.msg = f"{words.rstrip()} ({kept_back} more since this was said last)"
        self._said[words] = until, said + 1, 0
        return True


logger.addFilter(Seldom(most=ALARMS))


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


class Plain(logging.Formatter):
    """The message alone, with control characters spelt out: names come from whoever sends events."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        text = f"onlinecal: {record.getMessage()}"
        return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def log_to_stderr(as_json: bool) -> None:
    """Write to standard error: all as JSON lines, with what the server has to say; or warnings for people."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Plain())
    for name in ("onlinecal", "uvicorn", "asyncio") if as_json else ("onlinecal",):
        one = logging.getLogger(name)
        one.handlers = [handler]
        one.propagate = False
    logging.getLogger("onlinecal").setLevel(logging.INFO if as_json else logging.WARNING)


def tell_alarms(raised: Iterable[tuple[str, Raised]]) -> None:
    """Log alarms, with the names of their keys."""
    for key, (whose, alarm) in raised:
        of = "hints" if whose == HINT else "forecasts"
        about = {"kind": "alarm", "key": key, "of": of, **msgspec.to_builtins(alarm)}
        words = f"alarm: {of} of key %s are %s, by event %d"
        logger.warning(words, key, alarm, alarm.event, extra={"about": about})


def tell_refusals(refused: Iterable[Rejected]) -> None:
    """Log refusals, the first of each reason in a while."""
    if not logger.isEnabledFor(logging.INFO):
        return
    for one in refused:
        detail = one.detail[:LONGEST]
        about = {"kind": "refusal", "reason": one.reason, "id": one.id, "detail": detail}
        logger.info(f"an event was rejected, {one.reason}: %s", detail, extra={"about": about})
