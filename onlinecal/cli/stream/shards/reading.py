"""Folders of shards for the verbs that only read, and words for those that take one ledger."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from onlinecal.cli.stream.shards.folder import shards_of

if TYPE_CHECKING:
    from onlinecal.engine.keys.stored_key import Summary
    from onlinecal.engine.ledger.check import Tell
    from onlinecal.engine.ledger.report import KeyReport, Report
    from onlinecal.engine.watch.reliability import Reliability
    from onlinecal.engine.watch.watched import Alarm


def refuse_shards(ledger: Path, advice: str) -> None:
    """ValueError, with what to do instead, for a folder of shards."""
    found = shards_of(ledger)
    if found is not None:
        raise ValueError(f"--ledger {ledger} is a folder of {len(found)} shards: {advice}")


def read_reports(ledger: Path, scores: bool) -> Report:
    """The report of a ledger, or of all shards of a folder together.

    Of a folder, numbers of events count those of all shards as if the event's own shard came last: the
    distance to the last event is that within the shard.
    """
    from onlinecal.engine.ledger.report import read_report

    shards = shards_of(ledger)
    if shards is None:
        return read_report(ledger, scores)
    return together(ledger, [read_report(shard, scores) for shard in shards], shards)


def together(folder: Path, parts: list[Report], shards: list[Path]) -> Report:
    """One report of several."""
    from msgspec.structs import replace

    from onlinecal.engine.ledger.report import Report, total_of
    from onlinecal.engine.watch.overview import sides
    from onlinecal.engine.watch.reliability import all_together
    from onlinecal.engine.watch.scores import scores_of_all

    events = sum(part.events for part in parts)
    keys = [behind(key, events - part.events) for part in parts for key in part.keys]
    oldest = [
        replace(part.oldest, number=part.oldest.number + events - part.events)
        for part in parts
        if part.oldest is not None
    ]
    total = total_of(key.summary for key in keys)
    counted = [one for one in map(reliability_of, shards) if one is not None]
    reliability = all_together(counted) if counted else None
    seen = (None, None) if reliability is None else sides(reliability, total.certificate, total.rounds)
    return Report(
        str(folder),
        parts[0].config,
        events,
        sum(part.queries for part in parts),
        sum(part.closings for part in parts),
        keys,
        total,
        min(oldest, key=lambda one: one.number, default=None),
        scores_of_all(key.scores for key in keys if key.scores is not None),
        sum(part.alarms for part in parts),
        sum(part.hint_alarms for part in parts),
        None if reliability is None else reliability.since,
        *seen,
    )


def behind(key: KeyReport, events: int) -> KeyReport:
    """A key whose events come behind so many others."""
    from msgspec.structs import replace

    def later(alarm: Alarm | None) -> Alarm | None:
        return None if alarm is None else replace(alarm, event=alarm.event + events)

    summary: Summary = key.summary
    watched = summary.watched
    if watched is not None:
        watched = replace(watched, last=later(watched.last), last_hint=later(watched.last_hint))
    oldest = None if summary.oldest is None else summary.oldest + events
    return replace(key, summary=replace(summary, oldest=oldest, watched=watched))


def reliability_of(path: Path) -> Reliability | None:
    """What a ledger has of the reliability of all its keys."""
    from onlinecal.engine.ledger.ledger import Ledger
    from onlinecal.engine.watch.reliability import Reliability

    with closing(Ledger(path, read_only=True)) as ledger, ledger.content_errors():
        bins = ledger.reliability()
        return None if bins is None else Reliability.load(bins)


def export_shards(shards: list[Path], into: Path, tell: Tell) -> int:
    """Write the tables of all shards, one after the other, to one Parquet file; how many rows it has."""
    import tempfile

    import polars as pl

    from onlinecal.engine.ledger.export import export_ledger

    with tempfile.TemporaryDirectory(dir=into.parent, prefix=f".{into.name}.") as folder:
        parts = [Path(folder) / f"{number}.parquet" for number in range(len(shards))]
        rows = sum(export_ledger(shard, part, tell=tell) for shard, part in zip(shards, parts, strict=True))
        whole = Path(folder) / "whole.parquet"
        pl.scan_parquet(parts).sink_parquet(whole)
        whole.replace(into)
    return rows
