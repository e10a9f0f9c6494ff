"""What a ledger holds, read from outside: a report of a live one, and a check of all of it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.state import Summary
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.records import Logged
from onlinecal.engine.ledger.replay import CHUNK, check_same, take
from onlinecal.engine.ledger.scores import Scores, read_scores, scores_of_all
from onlinecal.html import MOST, Shown, Table


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


class Report(Shown, Struct, frozen=True):
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


def read_report(path: str | Path, scores: bool = False) -> Report:
    """The report of the ledger at `path`, which may be in use; nothing is written.

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


class Check(Struct, frozen=True):
    """What came of replaying a whole log: how much there was, and what was not as the ledger has it."""

    events: int
    keys: int
    problems: list[str]


def check_ledger(path: str | Path) -> Check:
    """Replay every event of a ledger, and compare every forecast and every state with what is written there.

    Reads the file at `path` only, key by key, so memory is that of one key's events. Raises LedgerError if it
    cannot be read.
    """
    ledger = Ledger(Path(path), read_only=True)
    try:
        with ledger.snapshot():
            problems = ledger.damage()
            keys = KeyCache(config_of(ledger))
            events = known = 0
            for number, log in groupby(ledger.log_by_key(), key=lambda event: event.key):
                of_key = list(log)
                events, known = events + len(of_key), known + 1
                try:
                    with ledger.content_errors():
                        _replay(keys, ledger, number, of_key)
                except LedgerError as error:
                    problems.append(str(error))
                    keys = KeyCache(keys.config)
            for number in ledger.double_numbers():
                problems.append(f"number {number} stands for two events: two processes wrote at once")
            if events < sum(ledger.counts()):
                problems.append(f"{sum(ledger.counts()) - events} closings belong to no query of the log")
            return Check(events, known, problems)
    finally:
        ledger.close()


def _replay(keys: KeyCache, ledger: Ledger, number: int, log: Iterable[Logged]) -> None:
    """Take a key's events from the first on; LedgerError where the ledger has another answer or state."""
    found = ledger.keys_numbered([number])
    if not found:
        raise LedgerError(f"{ledger.path}: the name of key {number} is lost")
    snapshot = found[0]
    keys.load([snapshot._replace(state=None, upto=0)])
    state, asked, compared = keys.states[snapshot.name], [], snapshot.state is None

    def compare() -> None:
        keys.run()
        if state.dump() != snapshot.state:
            raise LedgerError(
                f"{ledger.path}: the state of key {snapshot.name!r} is not what its events up to number "
                f"{snapshot.upto} come to"
            )

    for event in log:
        if not compared and event.number > snapshot.upto:
            compare()
            compared = True
        issued = keys.apply(state, event)
        if not event.closes:
            asked.append((event, issued))
    keys.run()
    if not compared:
        compare()
    for event, issued in asked:
        check_same(ledger, event, issued)
    keys.drop(state)
