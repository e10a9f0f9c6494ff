"""The verb `measure`: how far from calibrated the forecasts in a file are, by all measures.

The verb has no state. A line of the table is a `MeasuredColumn`, which never changes; its names in JSON and
in files are what users read. How many draws there are, and with how much effort, decides how precise the
scores of chance are; equal requests draw alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Exit, Option

from onlinecal.cli.output import answer, progress, table
from onlinecal.cli.verbs import (
    EXIT_CHECK_FAILED,
    AsJson,
    DropInvalid,
    ForecastFile,
    Forecasts,
    ForecastScale,
    GroupColumnNames,
    Out,
    Positive,
    check_different,
    check_folder,
    warn,
)
from onlinecal.tables.names import event_columns
from onlinecal.tables.rounds import Reading, group_numbers, read_rounds
from onlinecal.tables.writing import write_table
from onlinecal.texts import counted, number

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.measures.summary import ChanceLevel, Errors, MeasureName, PackageFigures
    from onlinecal.tables.rounds import Rounds

CHANCE_HEADING = ("if calibrated", "p-value")


@dataclass(frozen=True, eq=False)
class MeasuredColumn:
    """A column of forecasts with its errors, the scores that chance alone would give, and a witness.

    Errors and scores are sums over rounds. `chance` is by the names of the measures, and empty if it is left
    out. `packages` are averages.
    """

    errors: Errors
    chance: dict[str, ChanceLevel]
    witness: Any
    packages: Sequence[PackageFigures] = ()

    def record(self) -> dict[str, Any]:
        """The errors as one flat record, with chance's scores in "chance", other packages' figures in "as".

        A measure that a package lacks is left out there; an infinite one is null in JSON.
        """
        chance = {
            name: {
                "mean": level.mean,
                "is_exact": level.is_exact,
                "quantiles": {f"{share:g}": score for share, score in level.quantiles.items()},
                "p_value": level.p_value,
                "n_draws": level.n_draws,
            }
            for name, level in self.chance.items()
        }
        packages = [
            {name: value for name, value in asdict(figures).items() if value is not None}
            for figures in self.packages
        ]
        return {**asdict(self.errors), "chance": chance, **({"as": packages} if packages else {})}

    def line(self) -> dict[str, Any]:
        """A line of results.csv."""
        line = asdict(self.errors)
        for name, level in self.chance.items():
            line |= {f"{name}_by_chance": level.mean, f"{name}_p_value": level.p_value}
        return line


ERROR_NAMES = {
    "ece": "ECE by exact value",
    "ece_bins": "ECE in {}",
    "cumulative": "cumulative calibration error (ECCE-R)",
    "two_bin": "averaged two-bin error (ATB)",
    "smooth": "smooth calibration error (smCE)",
    "lower_distance": "lower distance to calibration",
    "distance": "distance to calibration",
    "log_loss": "log loss",
    "log_loss_constant": "log loss of the best constant",
    "brier": "Brier score",
    "miscalibration": "= miscalibration",
    "discrimination": "− discrimination",
    "brier_constant": "+ Brier score of the best constant",
}
"""The names of the errors in the table; distances are brackets."""


def error_table(columns: Sequence[MeasuredColumn], name: str, n_bins: int) -> Table:
    """The table with a line per measure: the average over rounds, then in brackets the sum.

    It has a column per forecast, and two more if chance's scores are known: the score and the p-value.
    """

    def shown(measure: str, errors: Errors) -> str:
        if measure not in ("distance", "lower_distance"):
            return both(getattr(errors, measure), errors.rounds)
        low, high = (getattr(errors, f"{measure}_{end}") for end in ("low", "high"))
        if measure == "distance" and low == high:
            return f"= {both(high, errors.rounds)}"
        ends = bracket(low, high)
        return f"{high / errors.rounds:.4f} ({ends})" if ends else both(high, errors.rounds)

    def line(label: str, show: Callable[[Errors], str], measure: str = "") -> list[str]:
        cells = [label]
        for column in columns:
            cells.append(show(column.errors))
            if chance := column.chance.get(measure):
                p_value = "" if chance.p_value is None else f"{chance.p_value:.2g}"
                cells += [both(chance.mean, column.errors.rounds), p_value]
            elif column.chance:
                cells += ["", ""]
        return cells

    def sandwich(errors: Errors) -> str:
        ends = (errors.smooth / 2, errors.lower_distance_high, 2 * errors.smooth)
        return " ≤ ".join(f"{end / errors.rounds:.4f}" for end in ends)

    are_whole = all(isinstance(column.errors.ones, int) for column in columns)
    ones = "outcomes that were 1" if are_whole else "sum of the outcomes"
    labels = {name: label.format(counted(n_bins, "bin")) for name, label in ERROR_NAMES.items()}
    rows = [
        line("rounds", lambda errors: number(errors.rounds)),
        line(ones, lambda errors: f"{number(errors.ones)} ({errors.ones / errors.rounds:.4f})"),
        *(line(label, partial(shown, measure), measure) for measure, label in labels.items()),
        line("½ smCE ≤ lower distance ≤ 2 smCE", sandwich),
    ]
    heading = ([column.errors.forecast, *(CHANCE_HEADING if column.chance else ())] for column in columns)
    return table(f"{name}: averages over rounds (sums)", ["", *chain.from_iterable(heading)], rows)


def package_table(columns: Sequence[MeasuredColumn], name: str) -> Table:
    """The table of other packages' figures for the same forecasts, a line for each package and measure."""
    rows = []
    for at, first in enumerate(columns[0].packages):
        figures = [column.packages[at] for column in columns]
        whose = f"{first.package} {first.version}"
        if first.ece_bins is not None:
            rows.append([f"{whose}: ECE, bins={first.n_bins}", *(f"{each.ece_bins:.6f}" for each in figures)])
        if first.log_loss is not None:
            rows.append([f"{whose}: log loss", *(f"{each.log_loss:.6f}" for each in figures)])
    heading = [column.errors.forecast for column in columns]
    return table(f"{name}: averages as other packages compute them", ["", *heading], rows)


def both(total: float, rounds: int) -> str:
    """An average over rounds, then in brackets the sum."""
    return f"{total / rounds:.4f} ({number(total)})"


def bracket(low: float, high: float) -> str:
    """Both ends with as many digits as make them differ; "" if six are not enough."""
    whole = len(f"{high:.0f}") if high >= 1 else 0
    for digits in (4, 5, 6):
        first, second = (f"{end:,.{max(0, digits - whole)}f}" for end in (low, high))
        if first != second:
            return f"{first} … {second}"
    return ""


def write(rounds: Rounds, columns: Sequence[MeasuredColumn], folder: Path) -> list[Path]:
    """Write results.csv (sums), reliability and transport, each picture beside a CSV of its numbers."""
    import polars as pl

    from onlinecal.plots.reliability_diagram import (
        named,
        reliability_panels,
        reliability_table,
        transport_panels,
        transport_table,
    )
    from onlinecal.plots.style import write_figure

    y, pairs = rounds.outcomes, list(zip(rounds.forecasts.items(), columns, strict=True))
    shown = pl.concat([named(reliability_table(p, y), name, rounds.name) for (name, p), _ in pairs])
    moved = pl.concat(
        [
            named(transport_table(p, y, witness=column.witness), name, rounds.name)
            for (name, p), column in pairs
        ]
    )
    return [
        write_table(pl.DataFrame([column.line() for column in columns]), folder / WRITTEN_TABLES[0]),
        write_figure(reliability_panels(shown), shown, folder / "reliability"),
        write_figure(transport_panels(moved), moved, folder / "transport"),
    ]


WRITTEN_TABLES = "results.csv", "reliability.csv", "transport.csv"
"""The files that are written and could also be the input."""
USUAL_BINS = 15
QUICK_MEASURES: tuple[MeasureName, ...]
QUICK_MEASURES = "brier", "log_loss", "miscalibration", "ece", "ece_bins", "cumulative", "two_bin", "smooth"
SLOW_MEASURES: tuple[MeasureName, ...] = ("lower_distance", "distance")
MOST_DRAWS, LEAST_DRAWS = 199, 19
DRAWN_ROUNDS = 2_000_000
"""So many rounds are drawn in all, which takes seconds, unless that is too few or too many draws."""
MOST_EFFORT = 1.0
"""The most effort for each distance in a p-value, whatever the effort for the distance that is shown."""
RUNS_ADVICE = " (then name it with --together, or the p-values are wrong), or is the file sorted by it?"


def measure(
    file: ForecastFile,
    forecast: Forecasts = None,
    outcome: Annotated[str | None, Option(help="The column of outcomes: 0/1, or shares in [0, 1].")] = None,
    budget: Annotated[
        str,
        Option(
            metavar="NUMBER|exact",
            help="Effort for the distance to calibration: 1 takes up to three seconds, more narrows the "
            "bracket; exact takes as long as it needs, seconds or hours.",
        ),
    ] = "1",
    n_bins: Annotated[
        int | None,
        Option(
            "--bins",
            min=1,
            max=1_000_000,
            help="How many equal bins the ECE in bins has, and how finely --group tells forecasts apart. "
            f"Default: {USUAL_BINS}; for the figures of --as each package's own number.",
        ),
    ] = None,
    packages: Annotated[
        list[str] | None,
        Option(
            "--as",
            metavar="PACKAGE",
            help="Show the figures that this package would give as well, such as torchmetrics or "
            "scikit-learn; docs/in-their-numbers.md has them all. May be repeated.",
        ),
    ] = None,
    group: GroupColumnNames = None,
    together: Annotated[
        str | None,
        Option(
            help="A column, such as the match or the patient: rows with the same value in it share an "
            'outcome or depend on each other, so for "if calibrated" one draw decides all their outcomes.'
        ),
    ] = None,
    draws: Annotated[
        int | None,
        Option(
            min=0,
            help='How often outcomes are drawn for "if calibrated", also for the distances, which is '
            "slow; 0: leave it out. Default: up to 199 times, less for long files, not for the distances.",
        ),
    ] = None,
    positive: Positive = None,
    scale: ForecastScale = "probability",
    drop_invalid: DropInvalid = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Measure how far from calibrated recorded forecasts are.

    Errors are averages over rounds, then in brackets sums; "a … b" is a proven bracket, "=" exact. "if
    calibrated" is what these forecasts would score on average if they were perfectly calibrated, and
    "p-value" how often they would then score at least as much as here.

    Columns that are not named are found by usual names (forecast, p, ...; outcome, won, ...).
    docs/measures.md says how to read each number. Exit code 1 if the measures contradict each other.

    This command judges forecasts as they stand. To make them better, [bold]onlinecal recalibrate[/bold] fits
    a map on some rows of a table, and [bold]onlinecal evaluate[/bold] goes through a stream, each label
    learnt after its forecast; [bold]onlinecal combine[/bold] makes one column of several models'.

    Examples:

    [bold]onlinecal measure nba --out results/nba[/bold]

    [bold]onlinecal measure games.csv --forecast elo --forecast market --outcome won[/bold]

    [bold]onlinecal measure loans.csv --forecast risk --outcome defaulted --group sex --group region[/bold]

    [bold]onlinecal measure games.csv --as torchmetrics --as scikit-learn[/bold]

    [bold]zcat matches.tsv.gz | onlinecal measure - --forecast p --outcome result --positive home[/bold]
    """
    first, outcome = event_columns(file, forecast[0] if forecast else None, outcome)
    forecast = forecast or [first]
    effort, asked_bins = _effort(budget), n_bins
    n_bins = USUAL_BINS if n_bins is None else n_bins
    if packages:
        from onlinecal.measures.conventions import convention_of

        for package in packages:
            convention_of(package, "--as")
    check_folder(out, WRITTEN_TABLES, file)
    check_different(forecast, "--forecast")
    named = [*(group or []), *([] if together is None else [together])]
    reading = Reading(positive, scale, drop_invalid)
    rounds = read_rounds(file, outcome, forecast, more=named, shares=True, reading=reading)
    reports: dict[str, Any] = {}
    if rounds.outcomes.dtype.kind == "f":
        effort, draws = 1.0 if math.isinf(effort) else effort, 0
    elif group:
        from onlinecal.cli.recalibrating.grouping import group_reports

        reports = group_reports(rounds, group, n_bins)
    columns = _measure(rounds, effort, n_bins, draws, together)
    if packages:
        columns = _with_packages(rounds, columns, packages, asked_bins, outcome)
    remarks = _remarks(rounds, columns, outcome, together)
    warn(remarks)
    pictures = [] if out is None else list(map(str, write(rounds, columns, out)))
    broken = [text for column in columns for text in column.errors.broken_bounds()]
    record = {
        "file": str(file),
        "n_bins": n_bins,
        "columns": [column.record() for column in columns],
        "broken": broken,
        "warnings": remarks,
        **({"groups": {name: report.rows() for name, report in reports.items()}} if group else {}),
        "pictures": pictures,
    }
    groups = [f"{name} in each group, averages over rounds:\n{report}\n" for name, report in reports.items()]
    tables = [error_table(columns, rounds.name, n_bins)]
    if packages:
        tables.append(package_table(columns, rounds.name))
    answer(as_json, record, [*tables, *groups, *broken, *pictures])
    if broken:
        raise Exit(EXIT_CHECK_FAILED)


def _with_packages(
    rounds: Rounds,
    columns: Sequence[MeasuredColumn],
    packages: Sequence[str],
    n_bins: int | None,
    outcome: str,
) -> list[MeasuredColumn]:
    """The same columns with what these packages say of them, in as many bins, None: in their own number."""
    from onlinecal.measures.summary import package_figures

    if rounds.outcomes.dtype.kind == "f":
        between = rounds.outcomes[(rounds.outcomes > 0.0) & (rounds.outcomes < 1.0)][0]
        raise ValueError(
            f"--as needs outcomes that are 0 or 1, but column {outcome!r} has {float(between)!r}: other "
            "packages refuse values between, so leave --as out"
        )
    return [
        replace(column, packages=[package_figures(name, p, rounds.outcomes, n_bins) for name in packages])
        for column, p in zip(columns, rounds.forecasts.values(), strict=True)
    ]


def _effort(budget: str) -> float:
    """The effort for the distance; infinite where it is to be exact."""
    try:
        effort = math.inf if budget == "exact" else float(budget)
    except ValueError:
        effort = math.nan
    if not effort > 0 or (budget != "exact" and math.isinf(effort)):
        raise ValueError(f"--budget must be a positive number, or the word exact, got {budget!r}")
    return effort


def _remarks(
    rounds: Rounds, columns: Sequence[MeasuredColumn], outcome: str, together: str | None
) -> list[str]:
    """What looks wrong in the columns, and which score worse than a constant or than the first; each once."""
    from onlinecal.remarks import (
        certain_remarks,
        constant_remarks,
        input_remarks,
        outcome_remarks,
        run_remarks,
    )

    remarks, first = [*rounds.remarks], columns[0].errors.averages
    for column, forecasts in rounds.forecasts.items():
        remarks += outcome_remarks(rounds.outcomes, forecasts, outcome, column)
        remarks += certain_remarks(rounds.outcomes, forecasts, column)
    if together is None:
        remarks += run_remarks(rounds.outcomes, next(iter(rounds.forecasts.values())), outcome, RUNS_ADVICE)
    if rounds.outcomes.dtype.kind == "f":
        remarks.append(_left_out(rounds, outcome))
    for errors in (column.errors.averages for column in columns):
        remarks += constant_remarks(errors.forecast, errors.rounds, errors.losses, errors.constants)
        remarks += input_remarks(errors.forecast, first.forecast, errors.losses, first.losses)
    return list(dict.fromkeys(remarks))


def _left_out(rounds: Rounds, outcome: str) -> str:
    """What is not said of outcomes that are shares, and why."""
    split = int(((rounds.outcomes > 0) & (rounds.outcomes < 1)).sum())
    return (
        f"{outcome} lies between 0 and 1 in {split:,} of {len(rounds.outcomes):,} rounds, so forecasts are "
        "measured as those of its mean. The exact distance, which is NP-hard to find then, what chance would "
        "score, and --group are left out"
    )


def _measure(
    rounds: Rounds, budget: float, n_bins: int, draws: int | None, together: str | None
) -> list[MeasuredColumn]:
    """The measures of every column; an infinite budget makes the distance exact."""
    from onlinecal.measures.summary import all_errors, chance_levels

    measures = QUICK_MEASURES if draws is None else (*QUICK_MEASURES, *SLOW_MEASURES)
    if draws is None:
        draws = min(MOST_DRAWS, max(LEAST_DRAWS, DRAWN_ROUNDS // len(rounds.outcomes)))
    numbers = None if together is None else group_numbers(rounds, together)
    columns = []
    with progress() as bar:
        task = bar.add_task("columns", total=len(rounds.forecasts) * (1 + draws))
        for column, p in rounds.forecasts.items():
            bar.update(task, description=f"measuring {column}")
            errors, witness = all_errors(column, p, rounds.outcomes, budget=budget, n_bins=n_bins)
            bar.update(task, advance=1, description=f"what chance would score, {column}")
            chance: dict[str, ChanceLevel] = {}
            if draws:
                levels = chance_levels(
                    p,
                    measures,
                    rounds.outcomes,
                    draws,
                    groups=numbers,
                    n_bins=n_bins,
                    normalize=False,
                    budget=min(budget, MOST_EFFORT),
                    progress=lambda *_: bar.advance(task),
                )
                chance.update(zip(measures, levels, strict=True))
            columns.append(MeasuredColumn(errors, chance, witness))
    return columns
