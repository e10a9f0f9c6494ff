"""The verb `measure`: how far from calibrated the forecasts in a file are, by every measure there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinecal.cli.errors import CHECK_FAILED, warn
from onlinecal.cli.reading import FILES, DropInvalid, Logits, Percent, Positive
from onlinecal.columns import Reading
from onlinecal.rounds import read_rounds
from onlinecal.tables import number

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.measures.summary import Errors
    from onlinecal.rounds import Rounds

BINS = 15


def measure(
    file: Annotated[Path, typer.Argument(help=f"The forecasts: {FILES}")],
    forecast: Annotated[
        list[str],
        typer.Option("--forecast", help="A column of forecasts; may be repeated, to see them side by side."),
    ],
    outcome: Annotated[
        str, typer.Option("--outcome", help="The column of outcomes: 0/1, or shares in [0, 1].")
    ],
    sort: Annotated[
        str | None,
        typer.Option("--sort", help="A column to order the rounds by. No measure depends on the order."),
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", "--normalize", help="Averages over rounds only, also with --json.")
    ] = False,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="The distance itself, however long it takes: seconds, or hours."),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option("--budget", help="Effort for the distance; 1, the default, is about a second."),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", min=1, max=1_000_000, help="Bins of the ECE in bins.")
    ] = BINS,
    groups: Annotated[
        list[str] | None,
        typer.Option(
            "--groups", help="A column whose values are groups, also with those of another; may be repeated."
        ),
    ] = None,
    positive: Positive = None,
    percent: Percent = False,
    logits: Logits = False,
    drop_invalid: DropInvalid = False,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for table and pictures.")] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Table and pictures, in results/measure if there is no --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Measure how far from calibrated recorded forecasts are.

    Errors are sums over rounds, then in brackets averages; "a … b" is a proven bracket, "=" exact.

    docs/measures.md says how to read each number. Exit code 1 if the measures contradict each other.

    Examples:

    [bold]onlinecal measure games.csv --forecast probability --outcome won --plot[/bold]

    [bold]onlinecal measure games.csv --forecast elo --forecast market --outcome won --average[/bold]

    [bold]onlinecal measure loans.csv --forecast risk --outcome defaulted --groups sex --groups region[/bold]

    [bold]zcat matches.tsv.gz | onlinecal measure - --forecast p --outcome result --positive home[/bold]
    """
    from onlinecal.cli.output import print_json, results

    if exact and budget is not None:
        raise ValueError("--exact and --budget exclude each other: exact takes what it needs")
    if budget is not None and not budget > 0:
        raise ValueError(f"budget must be positive, got {budget!r}")
    folder = out or (Path("results/measure") if plot else None)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder to write into")
    if len(set(forecast)) < len(forecast):
        raise ValueError(f"a forecast is listed twice: {', '.join(forecast)}")
    reading = Reading(positive, percent, logits, drop_invalid)
    rounds = read_rounds(file, outcome, forecast, sort=sort, more=groups or [], shares=True, reading=reading)
    are_whole = rounds.outcomes.dtype.kind != "f"
    remarks = _remarks(rounds, outcome)
    if not are_whole:
        remarks.append(_left_out(rounds, outcome, exact, bool(groups)))
    warn(remarks)
    reports = {}
    if groups and are_whole:
        from onlinecal.cli.recalibrating.group_tables import group_reports, group_table

        reports = group_reports(rounds, groups, bins)
    errors, witnesses = _measure(rounds, math.inf if exact and are_whole else budget or 1.0, bins)
    files = [] if folder is None else _write(rounds, errors, witnesses, folder)
    broken = [text for one in errors for text in one.broken_bounds()]
    if as_json:
        shown = [one.averages for one in errors] if average else errors
        print_json(
            {
                "file": str(file),
                "per_round": average,
                "bins": bins,
                "columns": [asdict(one) for one in shown],
                "broken": broken,
                "warnings": remarks,
                **({"groups": {name: one.rows() for name, one in reports.items()}} if groups else {}),
                "pictures": [str(path) for path in files],
            }
        )
    else:
        console = results()
        console.print(error_table(errors, file.name, bins, average))
        for name, report in reports.items():
            console.print(group_table(name, report, bins))
        for line in [*broken, *map(str, files)]:
            console.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def error_table(errors: Sequence[Errors], name: str, bins: int, average: bool) -> Table:
    """A column per forecast, a line per measure: the sum over rounds, then in brackets the average."""
    from onlinecal.cli.output import table

    def both(total: float, one: Errors) -> str:
        per_round = f"{total / one.rounds:.4f}"
        return per_round if average else f"{number(total)} ({per_round})"

    def between(low: float, high: float, one: Errors) -> str:
        if average:
            return bracket(low / one.rounds, high / one.rounds) or both(high, one)
        ends = bracket(low, high)
        return f"{ends} ({high / one.rounds:.4f})" if ends else both(high, one)

    def distance(one: Errors) -> str:
        if one.distance_low == one.distance_high:
            return f"= {both(one.distance_high, one)}"
        return between(one.distance_low, one.distance_high, one)

    def sandwich(one: Errors) -> str:
        ends = (one.smooth / 2, one.lower_distance_high, 2 * one.smooth)
        return " ≤ ".join(f"{end / one.rounds:.4f}" if average else number(end) for end in ends)

    are_whole = all(isinstance(one.ones, int) for one in errors)
    lines: list[tuple[str, Callable[[Errors], str]]] = [
        ("rounds", lambda one: number(one.rounds)),
        (
            "outcomes that were 1" if are_whole else "sum of the outcomes",
            lambda one: f"{number(one.ones)} ({one.ones / one.rounds:.4f})",
        ),
        ("ECE by exact value", lambda one: both(one.ece, one)),
        (f"ECE in {bins} bin{'s' * (bins > 1)}", lambda one: both(one.ece_bins, one)),
        ("smooth calibration error (smCE)", lambda one: both(one.smooth, one)),
        (
            "lower distance to calibration",
            lambda one: between(one.lower_distance_low, one.lower_distance_high, one),
        ),
        ("distance to calibration", distance),
        ("Brier score", lambda one: both(one.brier, one)),
        ("Brier score of the best constant", lambda one: both(one.brier_constant, one)),
        ("½ smCE ≤ lower distance ≤ 2 smCE", sandwich),
    ]
    unit = "averages over rounds" if average else "sums over rounds (averages)"
    return table(
        f"{name}: {unit}",
        ["", *(one.forecast for one in errors)],
        [(label, *(show(one) for one in errors)) for label, show in lines],
    )


def bracket(low: float, high: float) -> str:
    """Both ends with as many digits as it takes to tell them apart; "" if six are not enough."""
    whole = len(f"{high:.0f}") if high >= 1 else 0
    for digits in (4, 5, 6):
        first, second = (f"{end:,.{max(0, digits - whole)}f}" for end in (low, high))
        if first != second:
            return f"{first} … {second}"
    return ""


def _remarks(rounds: Rounds, outcome: str) -> list[str]:
    """What looks wrong in the columns, each text once."""
    from onlinecal.remarks import outcome_remarks

    found = [
        text
        for column, forecasts in rounds.forecasts.items()
        for text in outcome_remarks(rounds.outcomes, forecasts, outcome, column)
    ]
    return list(dict.fromkeys([*rounds.remarks, *found]))


def _left_out(rounds: Rounds, outcome: str, exact: bool, groups: bool) -> str:
    """What is not said of outcomes that are shares, and why."""
    split = int(((rounds.outcomes > 0) & (rounds.outcomes < 1)).sum())
    text = (
        f"{outcome} lies between 0 and 1 in {split:,} of {len(rounds.outcomes):,} rounds, so forecasts are "
        "measured as those of its mean. The exact distance is left out, which is NP-hard to find then: there "
        "is a bracket"
    )
    if exact:
        text += ", also with --exact"
    text += "; the lower distance is that of y rounds with outcome 1 and 1 - y with outcome 0"
    return text + ("; --groups is left out, its errors are those of events" if groups else "")


def _measure(rounds: Rounds, budget: float, bins: int) -> tuple[list[Errors], list[Any]]:
    """The measures of every column and their witnesses; an infinite budget makes the distance exact."""
    from onlinecal.cli.output import progress
    from onlinecal.measures.summary import all_errors

    errors, witnesses = [], []
    with progress() as bar:
        task = bar.add_task("columns", total=len(rounds.forecasts))
        for column, forecasts in rounds.forecasts.items():
            bar.update(task, description=f"measuring {column}")
            one, witness = all_errors(column, forecasts, rounds.outcomes, budget=budget, bins=bins)
            errors.append(one)
            witnesses.append(witness)
            bar.advance(task)
    return errors, witnesses


def _write(rounds: Rounds, errors: list[Errors], witnesses: list[Any], folder: Path) -> list[Path]:
    """Write results.csv (sums), reliability and transport, each picture beside a CSV of its numbers."""
    import polars as pl

    from onlinecal.plots import reliability_data, transport_data
    from onlinecal.plots.files import write_figure
    from onlinecal.plots.panels import named, reliability_panels, transport_panels
    from onlinecal.tables import write_table

    written = [write_table(pl.DataFrame([asdict(one) for one in errors]), folder / "results.csv")]
    shown, moved = [], []
    for p, one, witness in zip(rounds.forecasts.values(), errors, witnesses, strict=True):
        y = rounds.outcomes
        shown.append(named(reliability_data(p, y), one.forecast, rounds.name))
        moved.append(named(transport_data(p, y, witness=witness), one.forecast, rounds.name))
    for name, draw, parts in (
        ("reliability", reliability_panels, shown),
        ("transport", transport_panels, moved),
    ):
        numbers = pl.concat(parts)
        written.append(write_figure(draw(numbers), numbers, folder / name))
    return written
