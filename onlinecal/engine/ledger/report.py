"""What a ledger holds, read from outside, also while it is written.

From the log to the states: catching up at a start, and checking a whole ledger against its own log.

The configuration of a ledger, agreed with the one that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.keys.key import Key
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.schema import Logged
from onlinecal.engine.settings import all_settings
from onlinecal.engine.watch.key_watch import Scores, scores_of_all
from onlinecal.engine.watch.overview import sides
from onlinecal.engine.watch.reliability import Reliability, Side
from onlinecal.html import MOST, Shown, Table


class KeyReport(Struct, frozen=True):
    """A key's name, the place of its configuration (-1: the default), its summary and its scores.

    `scores` is None if no round is settled.
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


class Report(Shown, Struct, frozen=True):
    """A ledger at one moment.

    Attributes
    ----------
    path
        The ledger's file.
    config
        Which forecasters the keys get.
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
    alarms, hint_alarms
        How many there were, of forecasts and of hints of all keys.
    since
        Number of the event from which on `forecasts` and `hints` are counted.
    forecasts, hints
        Their reliability, all keys together; None if nothing was counted yet.
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
    alarms: int = 0
    hint_alarms: int = 0
    since: int | None = None
    forecasts: Side | None = None
    hints: Side | None = None

    def _shown(self) -> Table:
        named = [*((key.name, key.summary) for key in self.keys[: MOST - 1]), ("all keys", self.total)]
        rows = [(name, one.rounds, one.open, one.certificate, one.guarantee) for name, one in named]
        notes = [f"{self.events:,} events, {len(self.keys):,} keys, of which the first are shown"]
        return Table(self.path, ("key", "rounds", "open", "certificate", "guarantee"), rows, notes)


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


def read_report(path: str | Path) -> Report:
    """The report of the ledger at `path`, which may be in use; nothing is written.

    Raises LedgerError if there is no ledger, or it is damaged.
    """
    ledger = Ledger(Path(path), read_only=True)
    try:
        with ledger.snapshot(), ledger.content_errors():
            book = Book(config_of(ledger))
            after = ledger.about("tail") or 0
            while events := ledger.log(after, CHUNK):
                after = events[-1].number
                take(book, ledger, events)
            lines = []
            for line in ledger.summaries():
                key = book.keys.get(line[0])
                summary = key.summary() if key else book.cold_summary(*line, ledger)
                worth = None if summary.watched is None else summary.watched.scores
                lines.append(KeyReport(line[0], line[1], summary, worth))
            total = total_of(line.summary for line in lines)
            watched = [line.summary.watched for line in lines if line.summary.watched is not None]
            bins = ledger.reliability()
            reliability = None if bins is None else Reliability.load(bins)
            seen = (
                (None, None) if reliability is None else sides(reliability, total.certificate, total.rounds)
            )
            oldest = None
            if total.oldest is not None:
                id, time = ledger.query_numbered(total.oldest)
                key = next(line.name for line in lines if line.summary.oldest == total.oldest)
                oldest = OpenForecast(total.oldest, id, key, time)
            queries, closings = ledger.counts()
            return Report(
                str(path),
                book.config,
                queries + closings,
                queries,
                closings,
                lines,
                total,
                oldest,
                scores_of_all(line.scores for line in lines if line.scores is not None),
                sum(one.alarms for one in watched),
                sum(one.hint_alarms for one in watched),
                None if reliability is None else reliability.since,
                *seen,
            )
    finally:
        ledger.close()


CHUNK = 10_000


def catch_up(book: Book, ledger: Ledger) -> Iterator[int]:
    """Bring the keys up to the end of the log, chunk by chunk; yields the number reached each time.

    Raises LedgerError if a forecast comes out other than it was answered.
    """
    after = ledger.about("tail") or 0
    while events := ledger.log(after, CHUNK):
        after = events[-1].number
        take(book, ledger, events)
        yield after


def take(book: Book, ledger: Ledger, events: list[Logged]) -> None:
    """Let the keys take logged events that they do not hold yet."""
    by_number = {key.number: key for key in book.keys.values()}
    cold = ledger.keys_numbered({event.key: None for event in events if event.key not in by_number})
    with ledger.content_errors():
        book.load(cold)
        by_number.update((one.number, book.keys[one.name]) for one in cold)
        pairs = ((by_number[event.key], event) for event in events)
        replay(book, ledger, [(key, event) for key, event in pairs if event.number > key.upto])


def replay(book: Book, ledger: Ledger, events: Iterable[tuple[Key, Logged]]) -> None:
    """Let keys take events once more; LedgerError if a forecast is not the one that was answered."""
    asked, entries = [], []
    for key, event in events:
        entry = book.replay(key, event)
        if not event.closes:
            asked.append(event)
            entries.append(entry)
    book.play()
    for event, *answer in zip(asked, *book.answers(np.array(entries, np.int64)), strict=True):
        if answer != [event.probability, event.certificate]:
            raise LedgerError(
                f"{ledger.path}: forecast {event.id!r} was answered with {event.probability!r}, by the log "
                f"it is {answer[0]!r}: the ledger was changed, or written by an onlinecal with other rules"
            )
    book.release()


def agreed_config(ledger: Ledger, wanted: EngineConfig | None) -> EngineConfig:
    """The ledger's configuration; a new ledger takes the one wanted, unless a parameter is out of range.

    An old one takes its bounds.
    """
    written = ledger.about("config")
    if written is None:
        config = wanted or EngineConfig()
        all_settings(config)
        ledger.tell("config", msgspec.json.encode(config).decode())
        return config
    with ledger.content_errors():
        config = msgspec.json.decode(written, type=EngineConfig)
    agreed = wanted or config
    if agreed.without_bounds() != config.without_bounds():
        raise ValueError(f"{ledger.path}: the ledger was made with another configuration: {written}")
    if agreed != config:
        ledger.tell("config", msgspec.json.encode(agreed).decode())
    return agreed
