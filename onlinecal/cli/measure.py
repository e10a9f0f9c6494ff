"""The verb `measure`: how far from calibrated the forecasts in a file are, by every measure there is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from onlinecal.cli.output import answer, progress, table
from onlinecal.cli.verbs import (
    CHECK_FAILED,
    FILES,
    AsJson,
    DropInvalid,
    Positive,
    Scale,
    Together,
    check_folder,
    warn,
)
from onlinecal.rounds import Reading, group_numbers, read_rounds
from onlinecal.tables import called, number, read_columns, write_table

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.measures.summary import ChanceLevel, Errors, MeasureName
    from onlinecal.rounds import Rounds

CHANCE_HEADING = ("if calibrated", "p-value")


@dataclass(frozen=True, eq=False)
class Column:
    """A column of forecasts: its errors and what chance would score, sums over rounds, and a witness.

    `chance` is by the names of the measures, and empty where it is left out.
    """

    errors: Errors
    chance: dict[str, ChanceLevel]
    witness: Any

    def record(self, average: bool) -> dict[str, Any]:
        """The errors as one flat record, what chance would score in "chance"; averages if wanted."""
        per = self.errors.rounds if average else 1
        chance = {
            name: {
                "mean": one.mean / per,
                "is_exact": one.is_exact,
                "quantiles": {f"{level:g}": score / per for level, score in one.quantiles.items()},
                "p_value": one.p_value,
                "n_draws": one.n_draws,
            }
            for name, one in self.chance.items()
        }
        return {**asdict(self.errors.averages if average else self.errors), "chance": chance}

    def line(self) -> dict[str, Any]:
        """Sums as a line of results.csv."""
        chance = {
            f"{name}_{what}": value
            for name, one in self.chance.items()
            for what, value in (("by_chance", one.mean), ("p_value", one.p_value))
        }
        return asdict(self.errors) | chance


def error_table(columns: Sequence[Column], name: str, bins: int, average: bool) -> Table:
    """A line per measure: the average over rounds, then in brackets the sum.

    A column per forecast, and two more where it is known what chance would score: that and the p-value.
    """

    def both(total: float, one: Errors) -> str:
        per_round = f"{total / one.rounds:.4f}"
        return per_round if average else f"{per_round} ({number(total)})"

    def between(low: float, high: float, one: Errors) -> str:
        if average:
            return bracket(low / one.rounds, high / one.rounds) or both(high, one)
        ends = bracket(low, high)
        return f"{high / one.rounds:.4f} ({ends})" if ends else both(high, one)

    def distance(one: Errors) -> str:
        if one.distance_low == one.distance_high:
            return f"= {both(one.distance_high, one)}"
        return between(one.distance_low, one.distance_high, one)

    def sandwich(one: Errors) -> str:
        ends = (one.smooth / 2, one.lower_distance_high, 2 * one.smooth)
        return " ≤ ".join(f"{end / one.rounds:.4f}" for end in ends)

    def by_chance(measure: str, column: Column) -> list[str]:
        one = column.chance.get(measure)
        if one is None:
            return [""] * 2 if column.chance else []
        return [both(one.mean, column.errors), "" if one.p_value is None else f"{one.p_value:.2g}"]

    are_whole = all(isinstance(one.errors.ones, int) for one in columns)
    lines: list[tuple[str, str, Callable[[Errors], str]]] = [
        ("rounds", "", lambda one: number(one.rounds)),
        (
            "outcomes that were 1" if are_whole else "sum of the outcomes",
            "",
            lambda one: f"{number(one.ones)} ({one.ones / one.rounds:.4f})",
        ),
        ("ECE by exact value", "ece", lambda one: both(one.ece, one)),
        (f"ECE in {bins} bin{'s' * (bins > 1)}", "ece_bins", lambda one: both(one.ece_bins, one)),
        ("cumulative calibration error (ECCE-R)", "cumulative", lambda one: both(one.cumulative, one)),
        ("averaged two-bin error (ATB)", "two_bin", lambda one: both(one.two_bin, one)),
        ("smooth calibration error (smCE)", "smooth", lambda one: both(one.smooth, one)),
        (
            "lower distance to calibration",
            "lower_distance",
            lambda one: between(one.lower_distance_low, one.lower_distance_high, one),
        ),
        ("distance to calibration", "distance", distance),
        ("log loss", "log_loss", lambda one: both(one.log_loss, one)),
        ("log loss of the best constant", "", lambda one: both(one.log_loss_constant, one)),
        ("Brier score", "brier", lambda one: both(one.brier, one)),
        ("= miscalibration", "miscalibration", lambda one: both(one.miscalibration, one)),
        ("− discrimination", "", lambda one: both(one.discrimination, one)),
        ("+ Brier score of the best constant", "", lambda one: both(one.brier_constant, one)),
        ("½ smCE ≤ lower distance ≤ 2 smCE", "", sandwich),
    ]
    unit = f"averages over rounds{'' if average else ' (sums)'}"
    heading = [[one.errors.forecast, *(CHANCE_HEADING if one.chance else ())] for one in columns]
    rows = [
        [label, *chain.from_iterable([show(one.errors), *by_chance(measure, one)] for one in columns)]
        for label, measure, show in lines
    ]
    return table(f"{name}: {unit}", ["", *chain.from_iterable(heading)], rows)


def bracket(low: float, high: float) -> str:
    """Both ends with as many digits as it takes to tell them apart; "" if six are not enough."""
    whole = len(f"{high:.0f}") if high >= 1 else 0
    for digits in (4, 5, 6):
        first, second = (f"{end:,.{max(0, digits - whole)}f}" for end in (low, high))
        if first != second:
            return f"{first} … {second}"
    return ""


def write(rounds: Rounds, columns: Sequence[Column], folder: Path) -> list[Path]:
    """Write results.csv (sums), reliability and transport, each picture beside a CSV of its numbers."""
    import polars as pl

    from onlinecal.plots import reliability_data, transport_data
    from onlinecal.plots.reliability_diagram import named, reliability_panels, transport_panels
    from onlinecal.plots.style import write_figure

    written = [write_table(pl.DataFrame([one.line() for one in columns]), folder / "results.csv")]
    shown, moved = [], []
    for (name, p), one in zip(rounds.forecasts.items(), columns, strict=True):
        y = rounds.outcomes
        shown.append(named(reliability_data(p, y), name, rounds.name))
        moved.append(named(transport_data(p, y, witness=one.witness), name, rounds.name))
    for name, draw, parts in (
        ("reliability", reliability_panels, shown),
        ("transport", transport_panels, moved),
    ):
        numbers = pl.concat(parts)
        written.append(write_figure(draw(numbers), numbers, folder / name))
    return written


BINS = 15
BY_CHANCE: tuple[MeasureName, ...] = (
    "brier",
    "log_loss",
    "miscalibration",
    "ece",
    "ece_bins",
    "cumulative",
    "two_bin",
    "smooth",
)
SLOW: tuple[MeasureName, ...] = ("lower_distance", "distance")
MOST_DRAWS, LEAST_DRAWS = 199, 19
DRAWN_ROUNDS = 2_000_000
"""So many rounds are drawn in all, unless that is too few or too many draws: seconds."""
MOST_EFFORT = 1.0
"""For each distance in a p-value, the file's own too, however much is made for the one that is shown."""
ADVICE = " (then name it with --together, or the p-values are wrong), or is the file sorted by it?"


def measure(
    file: Annotated[Path, Argument(help=f"The forecasts: {FILES}")],
    forecast: Annotated[
        list[str] | None, Option(help="A column of forecasts; may be repeated, to see them side by side.")
    ] = None,
    outcome: Annotated[str | None, Option(help="The column of outcomes: 0/1, or shares in [0, 1].")] = None,
    average: Annotated[
        bool, Option("--average", help="Averages over rounds only, also with --json.")
    ] = False,
    budget: Annotated[
        str,
        Option(
            metavar="NUMBER|exact",
            help="Effort for the distance, 1 is about a second; exact: however long it takes, seconds or "
            "hours.",
        ),
    ] = "1",
    bins: Annotated[int, Option(min=1, max=1_000_000, help="Bins of the ECE in bins.")] = BINS,
    group: Annotated[
        list[str] | None,
        Option(help="A column whose values are groups, also with those of another; may be repeated."),
    ] = None,
    together: Together = None,
    draws: Annotated[
        int | None,
        Option(
            min=0,
            help="Draws for what chance would score, also of the distances (slow); 0: leave it out. Default: "
            "up to 199, fewer for long files, and not of the distances.",
        ),
    ] = None,
    positive: Positive = None,
    scale: Scale = "probability",
    drop_invalid: DropInvalid = False,
    out: Annotated[Path | None, Option(help="Folder to write table and pictures into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how far from calibrated recorded forecasts are.

    Errors are averages over rounds, then in brackets sums; "a … b" is a proven bracket, "=" exact. "if
    calibrated": what perfectly calibrated forecasts like these would score, and how often as much (p-value).

    Columns with usual names (forecast, p, ...; outcome, won, ...) are found. docs/measures.md says how to
    read each number. Exit code 1 if the measures contradict each other.

    What it would gain to recalibrate the forecasts, [bold]onlinecal evaluate[/bold] says of a stream and
    [bold]onlinecal recalibrate[/bold] of a table.

    Examples:

    [bold]onlinecal measure nba --out results/nba[/bold]

    [bold]onlinecal measure games.csv --forecast elo --forecast market --outcome won --average[/bold]

    [bold]onlinecal measure loans.csv --forecast risk --outcome defaulted --group sex --group region[/bold]

    [bold]zcat matches.tsv.gz | onlinecal measure - --forecast p --outcome result --positive home[/bold]
    """
    if not forecast or outcome is None:
        from onlinecal.cli.recalibrating.reading import event_columns

        found, outcome = event_columns(file, forecast[0] if forecast else None, outcome)
        forecast = forecast or ([] if found is None else [found])
    if not forecast or outcome is None:
        raise missing_option(file, bool(forecast))
    effort = _effort(budget)
    check_folder(out)
    if len(set(forecast)) < len(forecast):
        raise ValueError(f"a forecast is listed twice: {', '.join(forecast)}")
    named = [*(group or []), *([] if together is None else [together])]
    reading = Reading(positive, scale, drop_invalid)
    rounds = read_rounds(file, outcome, forecast, more=named, shares=True, reading=reading)
    remarks = _remarks(rounds, outcome, together)
    if not (are_whole := rounds.outcomes.dtype.kind != "f"):
        remarks.append(_left_out(rounds, outcome, math.isinf(effort), bool(group)))
    warn(remarks)
    reports: dict[str, Any] = {}
    tables: list[Table] = []
    if group and are_whole:
        from onlinecal.cli.recalibrating.groups import group_reports, group_table

        reports = group_reports(rounds, group, bins)
        tables = [group_table(name, report, bins) for name, report in reports.items()]
    if not are_whole:
        effort, draws = min(effort, 1.0) if math.isinf(effort) else effort, 0
    columns = _measure(rounds, effort, bins, draws, together)
    worse = _comparisons(columns)
    warn(worse)
    remarks += worse
    pictures = [] if out is None else list(map(str, write(rounds, columns, out)))
    broken = [text for one in columns for text in one.errors.broken_bounds()]
    record = {
        "file": str(file),
        "per_round": average,
        "bins": bins,
        "columns": [one.record(average) for one in columns],
        "broken": broken,
        "warnings": remarks,
        **({"groups": {name: one.rows() for name, one in reports.items()}} if group else {}),
        "pictures": pictures,
    }
    errors = error_table(columns, rounds.name, bins, average)
    answer(as_json, record, [errors, *tables, *broken, *pictures])
    if broken:
        raise Exit(CHECK_FAILED)


def _effort(budget: str) -> float:
    """The effort for the distance; infinite where it is to be exact."""
    if budget == "exact":
        return math.inf
    try:
        effort = float(budget)
    except ValueError:
        effort = math.nan
    if not 0 < effort < math.inf:
        raise ValueError(f"--budget must be a positive number or exact, got {budget!r}")
    return effort


def missing_option(file: Path, has_forecast: bool) -> ValueError:
    """Which column is to be named, and which there are."""
    missing = "--outcome', the column of outcomes" if has_forecast else "--forecast', a column of forecasts"
    known = ", ".join(read_columns(file))
    return ValueError(f"Missing option '{missing}. {called(file)} has the columns {known}")


def _remarks(rounds: Rounds, outcome: str, together: str | None) -> list[str]:
    """What looks wrong in the columns, each text once."""
    from onlinecal.remarks import outcome_remarks, run_remarks

    found = []
    for column, forecasts in rounds.forecasts.items():
        found += outcome_remarks(rounds.outcomes, forecasts, outcome, column)
    if together is None:
        found += run_remarks(rounds.outcomes, next(iter(rounds.forecasts.values())), outcome, ADVICE)
    return list(dict.fromkeys([*rounds.remarks, *found]))


def _comparisons(columns: Sequence[Column]) -> list[str]:
    """Which columns are worse than the best constant, and which than the one that is named first."""
    from onlinecal.remarks import constant_remarks, input_remarks

    found = []
    first = columns[0].errors.averages
    for one in (column.errors.averages for column in columns):
        found += constant_remarks(one.forecast, one.rounds, one.losses, one.constants)
        found += input_remarks(one.forecast, first.forecast, one.losses, first.losses)
    return found


def _left_out(rounds: Rounds, outcome: str, exact: bool, groups: bool) -> str:
    """What is not said of outcomes that are shares, and why."""
    split = int(((rounds.outcomes > 0) & (rounds.outcomes < 1)).sum())
    text = (
        f"{outcome} lies between 0 and 1 in {split:,} of {len(rounds.outcomes):,} rounds, so forecasts are "
        "measured as those of its mean. The exact distance is left out, which is NP-hard to find then: there "
        "is a bracket"
    )
    if exact:
        text += ", also with --budget exact"
    text += "; the lower distance is that of y rounds with outcome 1 and 1 - y with outcome 0"
    text += "; what chance would score is left out, which depends on more than the mean"
    return text + ("; --group is left out, its errors are those of events" if groups else "")


def _measure(
    rounds: Rounds, budget: float, bins: int, draws: int | None, together: str | None
) -> list[Column]:
    """The measures of every column; an infinite budget makes the distance exact."""
    from onlinecal.measures.summary import all_errors, chance_levels

    measures = BY_CHANCE if draws is None else (*BY_CHANCE, *SLOW)
    if draws is None:
        draws = min(MOST_DRAWS, max(LEAST_DRAWS, DRAWN_ROUNDS // len(rounds.outcomes)))
    numbers = None if together is None else group_numbers(rounds, together)
    columns = []
    with progress() as bar:
        task = bar.add_task("columns", total=len(rounds.forecasts) * (1 + draws))
        for column, p in rounds.forecasts.items():
            bar.update(task, description=f"measuring {column}")
            errors, witness = all_errors(column, p, rounds.outcomes, budget=budget, bins=bins)
            bar.update(task, advance=1, description=f"what chance would score, {column}")
            found = []
            if draws:
                found = chance_levels(
                    p,
                    measures,
                    rounds.outcomes,
                    draws,
                    groups=numbers,
                    bins=bins,
                    normalize=False,
                    budget=min(budget, MOST_EFFORT),
                    progress=lambda *_: bar.advance(task),
                )
            columns.append(Column(errors, dict(zip(measures, found, strict=False)), witness))
    return columns
