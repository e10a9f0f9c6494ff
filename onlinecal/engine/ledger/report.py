"""What a ledger holds, read from outside, also while it is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.state import Summary
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import CHUNK, take
from onlinecal.engine.ledger.scores import read_scores
from onlinecal.engine.watch.scores import Scores, scores_of_all


class KeyReport(Struct, frozen=True):
    """A key's name, the place of its configuration (-1: the default), its summary and its scores.

    `scores` is None if they were not asked for, or no round is settled.
    """

    name: str
    config: int
    summary: Summary
    scores: Scores | None = None


class OpenForecast(Struct, frozen=True):
    """A query that waits for its outcome; `number` counts all accepted events."""

    number: int
    id: str
    key: str
    time: float | None


class Report(Struct, frozen=True):
    """A ledger at one moment.

    Attributes
    ----------
    events, queries, closings
        How many events were accepted, queries and outcomes or withdrawals among them.
    keys
        Every key, in the order of their first queries.
    total
        All keys together: a union of calibrated sequences is calibrated, so certificates add up.
    oldest
        The open forecast that was asked for first.
    scores
        What the settled forecasts of all keys are worth; None as in `KeyReport`.
    """

    path: str
    config: EngineConfig
    events: int
    queries: int
    closings: int
    keys: list[KeyReport]
    total: Summary
    oldest: OpenForecast | None
    scores: Scores | None = None


def total_of(summaries: Iterable[Summary]) -> Summary:
    """The summary of all keys together."""
    listed = list(summaries)
    return Summary(
        sum(one.rounds for one in listed),
        sum(one.open for one in listed),
        sum(one.expired for one in listed),
        sum(one.certificate for one in listed),
        sum(one.guarantee for one in listed),
        min((one.oldest for one in listed if one.oldest is not None), default=None),
    )


def config_of(ledger: Ledger) -> EngineConfig:
    """The configuration that a ledger was made with."""
    written = ledger.about("config") or "{}"
    with ledger.content_errors():
        return msgspec.json.decode(written, type=EngineConfig)


def read_report(path: str | Path, scores: bool = False) -> Report:
    """The report of a ledger, which may be in use; nothing is written.

    With `scores` it says what the forecasts are worth, for which every settled round is read.
    Raises LedgerError if there is no ledger, or it is damaged.
    """
    ledger = Ledger(Path(path), read_only=True)
    try:
        with ledger.snapshot(), ledger.content_errors():
            keys = KeyCache(config_of(ledger))
            after = ledger.about("tail") or 0
            while events := ledger.log(after, CHUNK):
                after = events[-1].number
                take(keys, ledger, events)
            worth = read_scores(ledger) if scores else {}
            lines = []
            for line in ledger.summaries():
                state = keys.states.get(line[0])
                summary = state.summary() if state else keys.cold_summary(*line, ledger)
                lines.append(KeyReport(line[0], line[1], summary, worth.get(line[0])))
            total = total_of(line.summary for line in lines)
            oldest = None
            if total.oldest is not None:
                id, time = ledger.query_numbered(total.oldest)
                key = next(line.name for line in lines if line.summary.oldest == total.oldest)
                oldest = OpenForecast(total.oldest, id, key, time)
            queries, closings = ledger.counts()
            return Report(
                str(path),
                keys.config,
                queries + closings,
                queries,
                closings,
                lines,
                total,
                oldest,
                scores_of_all(worth.values()),
            )
    finally:
        ledger.close()
