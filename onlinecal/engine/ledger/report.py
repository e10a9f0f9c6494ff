"""What a ledger holds, read from outside, also while it is written."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.stored_key import Summary
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import catch_up, config_of
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


def read_report(path: str | Path) -> Report:
    """The report of the ledger at `path`, which may be in use; nothing is written.

    Raises LedgerError if there is no ledger, or it is damaged.
    """
    with closing(Ledger(Path(path), read_only=True)) as ledger, ledger.snapshot(), ledger.content_errors():
        keys = KeyCache(config_of(ledger))
        for _ in catch_up(keys, ledger):
            pass
        lines = []
        for line in ledger.summaries():
            state = keys.states.get(line[0])
            summary = state.summary() if state else keys.cold_summary(*line, ledger)
            worth = None if summary.watched is None else summary.watched.scores
            lines.append(KeyReport(line[0], line[1], summary, worth))
        total = total_of(line.summary for line in lines)
        watched = [line.summary.watched for line in lines if line.summary.watched is not None]
        bins, since, seen = ledger.reliability(), None, tuple[Side | None, Side | None]((None, None))
        if bins is not None:
            reliability = Reliability.load(bins)
            since, seen = reliability.since, sides(reliability, total.certificate, total.rounds)
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
            scores_of_all(line.scores for line in lines if line.scores is not None),
            sum(one.alarms for one in watched),
            sum(one.hint_alarms for one in watched),
            since,
            *seen,
        )
