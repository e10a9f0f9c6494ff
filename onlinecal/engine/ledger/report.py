"""A report on a ledger, and a table of all its forecasts; a writer may be at work meanwhile.

All reads of a report are in one transaction, so it is of one moment. An export is of one moment, too, but
only its first reads (`_Moment`) are in one transaction, since it may take long. Then it reads queries up to
the last event of that moment, leaves out what closed them later, and is given up if events were archived
meanwhile. The ledger is never written to, and nothing is kept from one report to the next. Users read the
fields of a `Report` by name, with --json, and the columns of the exported table, which are in
docs/operate.md.
"""

from __future__ import annotations

import json
from array import array
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from onlinecal.alarms import CalibrationAlarm
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.keys.lanes import class_shares
from onlinecal.engine.ledger.file import LedgerError, check_target, new_file
from onlinecal.engine.ledger.ledger import Ledger, Progress, no_progress
from onlinecal.engine.ledger.replay import catch_up, config_of
from onlinecal.engine.ledger.schema import Record
from onlinecal.engine.parking import ParkingCounts
from onlinecal.engine.watch.key_watch import Scores, Summary, likeliest
from onlinecal.engine.watch.reliability import Reliability, Side
from onlinecal.engine.watch.totals import Totals
from onlinecal.html import MOST_ROWS_SHOWN, Shown, Table
from onlinecal.validation import check_flag, check_path

if TYPE_CHECKING:
    import polars as pl


class KeyReport(Struct, frozen=True):
    """One key in a report.

    Attributes
    ----------
    name, config
        Its name; the place of its configuration, -1 for the default.
    summary, scores
        What there is to know of it; its scores are None if no round is settled.
    change_point
        The number of the query since which the forecasts, or hints, of the last alarm seem to be wrong: by
        `CalibrationAlarm.change_point`, of the rounds in the log. None without an alarm, if all its rounds
        are in archives, and for keys with `expire_as`, whose silent outcomes are not in the log.
    """

    name: str
    config: int
    summary: Summary
    scores: Scores | None = None
    change_point: int | None = None


class OpenForecast(Struct, frozen=True):
    """A query that waits for its outcome; `number` is its place among all accepted events."""

    number: int
    id: str
    key: str
    time: float | None


class Report(Shown, Struct, frozen=True):
    """A ledger at one moment, as `read_report` makes it.

    Attributes
    ----------
    path
        The ledger's file.
    config
        The `EngineConfig`: which forecasters the keys get.
    events, queries, closings
        How many events were accepted; how many of them were queries, and how many outcomes or withdrawals.
        Archived ones are counted, too.
    keys
        One entry for each key, in the order of their first queries: its `name`; `config`, which of
        `config.matches` holds for it, from 0, or -1 for the default; its `summary`; its `scores`, None
        without a settled round; and `change_point`, the number of the query since which the forecasts, or
        hints, of its last alarm seem wrong, None without an alarm, for keys with `expire_as`, and if its
        rounds are in archives.
    total
        A `Summary` of all keys together: certificates and guarantees are sums over rounds, and add up; with
        keys of kind "lp" they are no bounds. Bounds on windows do not add up, and are None, as `watched` is.
    oldest
        The open forecast that was asked for first: `number`, `id`, `key` and `time`. None if none is open, or
        its query is not in the log.
    scores
        Brier scores and log losses of all keys with hints, or of all keys if none has hints: averages over
        their settled rounds. None if no round is settled.
    alarms, hint_alarms
        How many alarms there were, of all keys' forecasts and of their hints.
    since
        The number of the last event before those that `forecasts` and `hints` count, 0 if they count all;
        None where these are None.
    forecasts, hints
        The reliability of all keys' forecasts, and of their hints: how many settled rounds (`rounds`); `bins`
        with the mean forecast and the mean outcome; and `distance`, lower and upper bound on the distance to
        calibration, sums over rounds, None if keys of several classes are among them. With `rounds` 0, no
        bins and bounds of 0 if no round with a forecast, or a hint, was settled; None of an archive, and of a
        ledger to which nothing was written.
    parking
        `ParkingCounts`: what became of the outcomes that came before their queries.
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
    parking: ParkingCounts = field(default_factory=ParkingCounts)

    def _shown(self) -> Table:
        named = [
            *((key.name, key.summary) for key in self.keys[: MOST_ROWS_SHOWN - 1]),
            ("all keys", self.total),
        ]
        rows = [
            (name, summary.rounds, summary.open, summary.certificate, summary.guarantee)
            for name, summary in named
        ]
        notes = [
            f"{self.events:,} events, {len(self.keys):,} keys, of which the first are shown",
            "certificates and guarantees are sums over rounds",
        ]
        return Table(self.path, ("key", "rounds", "open", "certificate", "guarantee"), rows, notes)


def read_report(path: str | Path) -> Report:
    """A `Report` of the ledger at `path` as it is at this moment; an engine may use it meanwhile.

    Nothing is written. An archive can be read like a ledger. Raises LedgerError if there is no ledger at
    `path`, it cannot be read, or it is damaged.
    """
    with (
        closing(Ledger(check_path(path, "path"), read_only=True)) as ledger,
        ledger.content_errors(),
        ledger.transaction("DEFERRED"),
    ):
        book, lines = Book(config_of(ledger)), []
        for _ in catch_up(book, ledger):
            pass
        for line in ledger.summaries():
            summary = book.summary(*line, ledger)
            worth = None if summary.watched is None else summary.watched.scores
            lines.append(KeyReport(line[0], line[1], summary, worth))
        since = change_points(
            ledger, {line.name: alarm for line in lines if (alarm := alarm_to_trace(book, line))}
        )
        lines = [replace(line, change_point=since.get(line.name)) for line in lines]
        totals = Totals((), ((line.name, line.summary) for line in lines))
        queries, closings = ledger.counts()
        sums, first = totals.read(queries + closings, len(lines)), totals.oldest(())
        oldest = ledger.records("q.number = ?", (first,))
        seen: tuple[Any, Any, Any] = None, None, None
        bins = ledger.reliability()
        if bins is not None:
            reliability = Reliability.load(bins)
            seen = reliability.since, *reliability.both(sums.certificate, sums.rounds)
        return Report(
            str(path),
            book.config,
            sums.events,
            queries,
            closings,
            lines,
            Summary(sums.rounds, sums.open, sums.expired, sums.certificate, sums.guarantee, first),
            OpenForecast(first, oldest[0].id, oldest[0].key, oldest[0].time) if first and oldest else None,
            totals.scores(),
            *totals.alarms(),
            *seen,
            ledger.parking_counts(),
        )


def alarm_to_trace(book: Book, key: KeyReport) -> tuple[int, bool] | None:
    """The event of a key's last alarm, and whether its hints raised it; None if the log cannot explain it."""
    watched = key.summary.watched
    if watched is None or book.config._at(key.config).expire_as is not None:
        return None
    last = (watched.last, False), (watched.last_hint, True)
    return max(((alarm.event, of_hint) for alarm, of_hint in last if alarm), default=None)


def change_points(ledger: Ledger, alarms: dict[str, tuple[int, bool]]) -> dict[str, int]:
    """For each key, by name, the query since which its forecasts, or hints, seem to be wrong."""
    # of a long log nothing is kept but numbers of rounds; and of a key whose forecasts are all 0 or 1 shares
    # are no mistake, as they would be in a column
    replayed = {name: CalibrationAlarm(NO_ALARM) for name in alarms}
    queries: dict[str, array[int]] = {name: array("q") for name in alarms}
    for record in ledger.each_record(SETTLED_ROUNDS, (json.dumps(list(alarms)),)) if alarms else ():
        event, of_hint = alarms[record.key]
        forecast, outcome = record.hint if of_hint else record.probability, record.value
        if isinstance(forecast, dict):
            # before the first class is known, nothing is forecast
            label, forecast = likeliest(forecast) if forecast else (None, None)
            outcome = class_shares(outcome).get(label or "", 0.0)
        if record.closed is not None and record.closed <= event and forecast is not None:
            replayed[record.key].update(forecast, outcome)
            queries[record.key].append(record.number)
    # all rounds of a key may be in archives
    return {
        name: queries[name][alarm.change_point]
        for name, alarm in replayed.items()
        if alarm.change_point is not None
    }


SETTLED_ROUNDS = "c.value IS NOT NULL AND k.name IN (SELECT value FROM json_each(?)) ORDER BY c.number"
"""The settled rounds of some keys, in the order in which they were settled."""
NO_ALARM = 1e-280
"""A rate at which an alarm is never raised, so that nothing is forgotten."""

EXPORTED_TOGETHER = 100_000

NEXT_FORECASTS = "q.number > ? AND q.number <= ? ORDER BY q.number LIMIT ?"


def export_ledger(
    path: str | Path, into: str | Path, *, force: bool = False, progress: Progress = no_progress
) -> int:
    """Write every forecast of the ledger at `path` to a Parquet file, `into`, in the order of the queries.

    Returns how many forecasts were written. Forecasts that are in archives only are not among them, and
    neither are parked outcomes, which have no forecast.

    Columns: `id`, `key`; `hint` and `probability` of outcome 1, or where there are classes `hint_of_classes`
    and `probability_of_classes`, lists of (label, probability); `status` ("open", "settled", "expired" or
    "withdrawn"); `outcome` from 0 to 1, or `outcome_class`, a label, or `outcome_of_classes`, a list of
    (label, probability); `certificate` of the key when the forecast was made; `asked_at` and `settled_at`,
    times in seconds as in the events; `asked_number` and `settled_number`, places among all accepted events,
    from 1. An expired forecast has an outcome only if its key has `expire_as`. What does not apply is null.

    The table is as of the moment of the call, is made in chunks of bounded memory, and holds up no engine
    that writes meanwhile. The file gets its name when it is complete; with `force` it replaces one that was
    there. `progress` is called with two numbers, that of the last query done and that of the last event.

    Raises LedgerError if the ledger cannot be read, if events are archived meanwhile, or if the file cannot
    be written; ValueError if `into` exists without `force`, is a folder or the ledger itself, or ends in
    -wal, -shm, -journal or -lock, as a ledger's own files do.
    """
    import polars as pl

    source, target = check_path(path, "path"), check_path(into, "into")
    rows, done, parts = 0, 0, list[Path]()
    check_target(target, source, check_flag(force, "force"))
    try:
        with closing(Ledger(source, read_only=True)) as ledger, new_file(target, force) as file:
            state = _Moment(ledger)
            last = state.last
            while chunk := ledger.records(NEXT_FORECASTS, (done, last, EXPORTED_TOGETHER)):
                with ledger.content_errors():
                    frame = _frame(chunk, state)
                parts.append(file.with_name(f"{len(parts)}.part"))
                frame.write_parquet(parts[-1])
                rows, done = rows + frame.height, chunk[-1].number
                progress(done, last)
            if ledger.checkpoint() != state.checkpoint:
                raise LedgerError(f"{path}: events were archived meanwhile; export again")
            (pl.scan_parquet(parts) if parts else _frame([], state).lazy()).sink_parquet(file)
    except pl.exceptions.ComputeError as error:
        why = f"{error}; check its disk, and export again"
        raise LedgerError(f"{target}: could not be written: {why}") from error
    return rows


class _Moment:
    """A ledger at one moment, and what became of the forecasts of which its log says nothing more.

    Attributes
    ----------
    last, checkpoint
        The last event, and the last one that was archived.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._waiting = set[int]()
        with ledger.transaction("DEFERRED"), ledger.content_errors():
            self.last, self.checkpoint = ledger.last_numbers()[0], ledger.checkpoint()
            book = Book(config_of(ledger))
            for _ in catch_up(book, ledger):
                pass
            # the log does not say that a forecast expired: the clock of its key does
            expiring = [
                place for place, settings in book.settings.items() if settings.config.expire_after is not None
            ]
            self._expire_as = {
                name: book.config._at(place).expire_as
                for name, place in ledger.rows(KEYS_LIKE, (json.dumps(expiring),))
            }
            names = iter(self._expire_as)
            while some := list(islice(names, KEYS_LOADED_TOGETHER)):
                book.fetch(some, ledger)
                keys = [book.keys[name] for name in some]
                for key in keys:
                    self._waiting.update(book.query_numbers(key.entries()))
                book.drop(keys)

    def end_of(self, record: Record) -> tuple[str, int | None, Any, float | None]:
        """The status of a forecast; the number of its closing, its outcome and the time of it, or None."""
        if record.closed is not None and record.closed <= self.last:
            status = "withdrawn" if record.value is None else "settled"
            return status, record.closed, record.value, record.closed_time
        if record.key not in self._expire_as or record.number in self._waiting:
            return "open", None, None, None
        return "expired", None, self._expire_as[record.key], None


KEYS_LOADED_TOGETHER = 1_000
"""How many keys are loaded at a time."""
KEYS_LIKE = "SELECT name, config FROM keys WHERE config IN (SELECT value FROM json_each(?)) ORDER BY number"
"""The names and configurations of the keys that have one of some configurations."""


def _frame(records: list[Record], moment: _Moment) -> pl.DataFrame:
    """The forecasts with their outcomes, as of a moment."""
    import polars as pl

    by_class = pl.List(pl.Struct({"label": pl.String, "probability": pl.Float64}))
    types: dict[str, Any] = {
        "id": pl.String, "key": pl.String,
        "hint": pl.Float64, "hint_of_classes": by_class,
        "probability": pl.Float64, "probability_of_classes": by_class,
        "status": pl.String,
        "outcome": pl.Float64, "outcome_class": pl.String, "outcome_of_classes": by_class,
        "certificate": pl.Float64, "asked_at": pl.Float64, "settled_at": pl.Float64,
        "asked_number": pl.Int64, "settled_number": pl.Int64,
    }  # fmt: skip
    lines = [_line(record, *moment.end_of(record)) for record in records]
    return pl.DataFrame(lines, schema=types, orient="row")


def _line(
    record: Record, status: str, closed: int | None, came: Any, closed_time: float | None
) -> tuple[Any, ...]:
    number, of_classes = _number_or_classes(came)
    outcome = (None, came, None) if isinstance(came, str) else (number, None, of_classes)
    hint, probability = _number_or_classes(record.hint), _number_or_classes(record.probability)
    return (
        record.id,
        record.key,
        *hint,
        *probability,
        status,
        *outcome,
        record.certificate,
        record.time,
        closed_time,
        record.number,
        closed,
    )


def _number_or_classes(probability: Any) -> tuple[float | None, list[dict[str, Any]] | None]:
    """A pair: a number and None, or None and the probabilities of classes."""
    if isinstance(probability, dict):
        return None, [{"label": label, "probability": p} for label, p in probability.items()]
    return probability, None
