"""What `measure` found, as a table for people and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinecal.tables import number

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.measures.chance import ChanceLevel
    from onlinecal.measures.summary import Errors
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
    """A line per measure: the sum over rounds, then in brackets the average.

    A column per forecast, and two more where it is known what chance would score: that and the p-value.
    """
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
    unit = "averages over rounds" if average else "sums over rounds (averages)"
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
    from onlinecal.plots.files import write_figure
    from onlinecal.plots.panels import named, reliability_panels, transport_panels
    from onlinecal.tables import write_table

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
