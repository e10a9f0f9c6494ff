"""The verb `stream report`: what a ledger holds, key by key, also while it is written.

The verb has no state, and the ledger is only read. Users rely on the options, on the names of the files that
are written and on the keys of the JSON. The docstring of `report` is the text of its --help.
"""

from __future__ import annotations

from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from onlinecal.cli.output import answer, table
from onlinecal.cli.verbs import AsJson, LedgerFile, Out, check_folder, warn
from onlinecal.texts import counted, number

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.engine.ledger.report import KeyReport, Report
    from onlinecal.engine.watch.key_watch import Alarm, Scores, Summary

SCORE_NAMES = ["Brier score", "log loss"]
Order = Literal["certificate", "open", "rounds", "alarms", "name"]
"""What the keys are sorted by, the largest or latest first; names in the order of the alphabet."""


def report(
    ledger: LedgerFile,
    keys: Annotated[int, Option(min=0, help="How many keys to list at most.")] = 10,
    sort: Annotated[
        Order,
        Option(
            "--sort",
            help="Which keys come first: those with the largest certificate (a sum), the most open forecasts "
            "or rounds, or the latest alarm; for name they are in the order of their names.",
        ),
    ] = "certificate",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Show what a ledger holds at this moment: rounds, open forecasts, certificates, alarms, key by key.

    The ledger is only read, also while `onlinecal stream` is writing to it. Certificates and guarantees are
    sums over rounds, then in brackets averages; Brier scores and log losses are averages over rounds, of the
    hints that came in, then of the forecasts that went out.

    Examples:

    [bold]onlinecal stream report --ledger rain.db --keys 20 --sort open[/bold]

    [bold]onlinecal stream report --ledger rain.db --out results/rain[/bold]
    """
    import msgspec

    from onlinecal.engine.ledger.report import read_report

    check_folder(out)
    contents = read_report(ledger)
    remarks = comparisons(contents) + silences(contents)
    warn(remarks)
    listed = first_keys(contents.keys, sort, keys)
    pictures = [] if out is None else list(map(str, draw_report(contents, out)))
    known = msgspec.to_builtins(msgspec.structs.replace(contents, keys=listed))
    record = {**known, "n_keys": len(contents.keys), "pictures": pictures, "warnings": remarks}
    tables = [totals(contents), *([key_table(contents, listed, sort)] if listed else [])]
    answer(as_json, record, [*tables, *pictures])


def first_keys(keys: list[KeyReport], order: Order, most: int) -> list[KeyReport]:
    """The keys that come first; among equal ones, the older."""

    def place(key: KeyReport) -> Any:
        if order == "name":
            return key.name
        if order == "alarms":
            return -max((alarm.event for _, alarm in alarms_of(key)), default=0)
        return -getattr(key.summary, order)

    return nsmallest(most, keys, key=place)


def totals(report: Report) -> Table:
    """A line for everything there is to know of all keys together."""
    total, oldest = report.total, report.oldest
    lines = [
        ("events", number(report.events)),
        ("forecasts asked for", number(report.queries)),
        ("closed (settled or withdrawn)", number(report.closings)),
        ("expired", number(total.expired)),
        ("open", number(total.open)),
    ]
    if oldest is not None:
        which = f"{oldest.id} of {oldest.key}"
        lines.append(("oldest open forecast", f"{which}, {ago(report, oldest.number)}"))
    if report.parking.parked:
        dropped = [f"{number(count)} {why}" for why, count in report.parking.dropped.items() if count]
        lines.append(("parked outcomes that wait", number(report.parking.waiting)))
        lines.append(("parked outcomes that settled", number(report.parking.settled)))
        lines.append(("parked outcomes dropped", ", ".join(dropped) or "0"))
    lines += [
        ("keys", number(len(report.keys))),
        ("certificate, all keys: sum (per round)", both(total.certificate, total)),
        ("guarantee, all keys: sum (per round)", both(total.guarantee, total)),
    ]
    if (scores := report.scores) is not None:
        of = "forecasts" if scores.hints is None else "hints → forecasts"
        for name in SCORE_NAMES:
            lines.append((f"{name}, {of}", inwards(scores, name)))
            lines.append((f"{name} of the best constant of each key", f"{scores.constants[name]:.4f}"))
    for of, side in (("hints", report.hints), ("forecasts", report.forecasts)):
        if side is not None and side.rounds and side.distance is not None:
            low, high = (bound / side.rounds for bound in side.distance)
            lines.append((f"distance to calibration per round, {of}", f"{low:.4f} to {high:.4f}"))
    if report.forecasts is not None:
        lines.append(("alarms, hints", number(report.hint_alarms)))
        lines.append(("alarms, forecasts", number(report.alarms)))
    return table(report.path, ["", ""], lines)


def alarms_of(key: KeyReport) -> list[tuple[str, Alarm]]:
    """The last alarms of a key: of its hints and of its forecasts, those that there were."""
    watched = key.summary.watched
    if watched is None:
        return []
    both = ("hints", watched.last_hint), ("forecasts", watched.last)
    return [(of, alarm) for of, alarm in both if alarm is not None]


def key_table(report: Report, listed: list[KeyReport], order: Order) -> Table:
    """A line a key."""
    rows = []
    for key in listed:
        summary, alarm = key.summary, "–"
        if alarms := alarms_of(key):
            of, last = max(alarms, key=lambda pair: pair[1].event)
            since = "" if key.change_point is None else f", since event {key.change_point:,}"
            alarm = f"{of} {last}, {ago(report, last.event)}{since}"
        rows.append(
            (
                key.name,
                *map(number, (summary.rounds, summary.open, summary.expired)),
                both(summary.certificate, summary),
                both(summary.guarantee, summary),
                "–" if summary.oldest is None else ago(report, summary.oldest),
                *("–" if key.scores is None else inwards(key.scores, name) for name in SCORE_NAMES),
                alarm,
            )
        )
    how = "by name" if order == "name" else f"{order} first"
    some = (
        "all" if len(listed) == len(report.keys) else f"{number(len(listed))} of {number(len(report.keys))}"
    )
    sums = ("certificate: sum (per round)", "guarantee: sum (per round)")
    columns = ["key", "rounds", "open", "expired", *sums, "oldest open forecast"]
    return table(f"{some} keys, {how}", [*columns, *SCORE_NAMES, "last alarm"], rows)


def inwards(scores: Scores, name: str) -> str:
    """A score of the hints, if there are some, and of the forecasts."""
    out = f"{scores.losses[name]:.4f}"
    return out if scores.hints is None else f"{scores.hints[name]:.4f} → {out}"


def comparisons(report: Report) -> list[str]:
    """Whether all forecasts together are worse than their hints, or than the best constant of each key."""
    from onlinecal.remarks import constant_remarks, input_remarks

    if (scores := report.scores) is None:
        return []
    # each key learns its own constant
    per_key = scores.rounds / sum(key.scores is not None for key in report.keys)
    texts = constant_remarks("the forecasts", per_key, scores.losses, scores.constants)
    if scores.hints is not None:
        texts += input_remarks("the forecasts", "the hints", scores.losses, scores.hints)
    return texts


def silences(report: Report) -> list[str]:
    """Whether keys have outcomes of one kind only, and forecasts without any."""
    from onlinecal.remarks import silence_remarks

    texts: list[str] = []
    for key in report.keys:
        without = key.summary.open + key.summary.expired
        config = report.config._at(key.config)
        # the best constant makes no error where all outcomes are the same
        same = key.scores is not None and key.scores.brier_constant == 0.0
        if same and config.kind == "binary" and config.expire_as is None:
            advice = f"key {key.name!r} needs expire_after and expire_as in the configuration"
            texts += silence_remarks(key.summary.rounds, without, advice)
    return texts[:1]


def ago(report: Report, number_then: int) -> str:
    """How long ago the event of that number was, counted in events."""
    return f"{counted(report.events - number_then, 'event')} ago"


def both(value: float, summary: Summary) -> str:
    """A sum over rounds, and its average."""
    return f"{number(value)} ({value / summary.rounds:.4f})" if summary.rounds else number(value)


def draw_report(report: Report, folder: Path) -> list[Path]:
    """The pictures for which there are numbers, each beside a CSV of them."""
    from onlinecal.plots import ledger
    from onlinecal.plots.style import write_figure

    keys = ledger.key_numbers(report)
    pictures = {
        "stream_certificates": (keys.filter(keys["rounds"] > 0), ledger.draw_certificates),
        "stream_reliability": (ledger.frequency_numbers(report), ledger.draw_frequencies),
    }
    return [
        write_figure(draw(numbers), numbers, folder / name)
        for name, (numbers, draw) in pictures.items()
        if numbers.height
    ]
