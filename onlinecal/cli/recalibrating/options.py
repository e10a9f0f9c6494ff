"""The options of the verb `recalibrate`, each declared once: a method's are the fields of its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

from typer import Option

RESULTS = "Rows and results"


@dataclass(frozen=True)
class Rows:
    """Which rows are fitted, and which others are tested or recalibrated."""

    test_share: Annotated[
        float | None, Option(rich_help_panel=RESULTS, help="Share of the rows to test on. Default: 0.5.")
    ] = None
    seed: Annotated[
        int, Option(min=0, rich_help_panel=RESULTS, help="Seed of the split and of the method's draws.")
    ] = 0
    apply: Annotated[
        Path | None,
        Option(
            rich_help_panel=RESULTS,
            help="Fit on all of FILE, and recalibrate this one; labels may be missing.",
        ),
    ] = None
    split: Annotated[
        str | None,
        Option(
            metavar="random|time|COL",
            rich_help_panel=RESULTS,
            help="Which rows are fitted: random ones; time: the first of FILE; or those of which a column "
            "COL says fit (or train), not test. Default: random.",
        ),
    ] = None
    split_by: Annotated[
        str | None,
        Option(
            metavar="COL",
            rich_help_panel=RESULTS,
            help="Rows with the same value of this column (one patient, one match) stay together.",
        ),
    ] = None

    @property
    def share(self) -> float:
        """The share to test on."""
        return 0.5 if self.test_share is None else self.test_share


@dataclass(frozen=True)
class Results:
    """Where the report goes, and what is written beside it."""

    out: Annotated[
        Path | None, Option(rich_help_panel=RESULTS, help="Folder for probabilities, report and pictures.")
    ] = None
    plot: Annotated[
        bool,
        Option(
            "--plot", rich_help_panel=RESULTS, help="Write them to results/recalibrate if there is no --out."
        ),
    ] = False
    as_json: Annotated[bool, Option("--json", rich_help_panel=RESULTS, help="Machine-readable output.")] = (
        False
    )


@dataclass(frozen=True)
class ClassColumns:
    """Where the probabilities of the classes and the labels stand."""

    probabilities: Annotated[
        str | None, Option(help="Columns a,b,c or a pattern p_*; of NPZ the array. Default: p_*.")
    ] = None
    label: Annotated[str | None, Option(help="The column (array) of labels.")] = None


@dataclass(frozen=True)
class Started(ClassColumns):
    """What methods with a start share."""

    start: Annotated[
        str,
        Option(
            help="The map that comes first: auto, temperature, vector, dirichlet, isotonic, beta or none."
        ),
    ] = "auto"
    share: Annotated[
        float | None, Option(help="Part of the correction in the answers, 0 to 1. Default: by held-out rows.")
    ] = None


@dataclass(frozen=True)
class EventColumns:
    """Where the forecasts and the outcomes of one event stand."""

    forecast: Annotated[str | None, Option(help="The column of forecasts; boost can do without.")] = None
    outcome: Annotated[str | None, Option(help="The column of outcomes, 0/1.")] = None


@dataclass(frozen=True)
class LpSettings(Started):
    """Class probabilities, level set by level set, until the L_p error is small.

    The defaults are those of LpRecalibrator: what suits real networks, not what the paper couples.

    Example:

    [bold]onlinecal recalibrate lp cifar.npz --out results/lp[/bold]
    """

    p: Annotated[float, Option("--p", help="Order of the error, above 1, or inf.")] = 2.0
    epsilon: Annotated[float, Option(help="The error to reach, 0 to 1.")] = 0.05
    levels: Annotated[int, Option(min=0, help="Levels per class, 0 as in the paper.")] = 3
    tolerance: Annotated[
        float | None, Option(help="Error of a group and class that may stay. Default: by epsilon and rows.")
    ] = None
    estimation: Annotated[
        str, Option(help="plug-in: every estimate from all rows; pools: from fresh rows, as in the paper.")
    ] = "plug-in"
    within: Annotated[
        str | None,
        Option(help="Of a level set: shift its rows, or one constant. Default: shift; with pools constant."),
    ] = None


@dataclass(frozen=True)
class DecisionSettings(Started):
    """Class probabilities, until decision makers who trust them see the losses that they expect.

    Example:

    [bold]onlinecal recalibrate decision scans.csv --label finding --losses clinic.csv --plot[/bold]
    """

    actions: Annotated[
        int | None, Option(min=1, help="For all decision makers with so many actions. Default: 2.")
    ] = None
    epsilon: Annotated[float, Option(help="The error to reach, 0 to 1.")] = 0.01
    partition: Annotated[
        str | None, Option(help="Regions that are corrected: soft or hard. Default: soft.")
    ] = None
    losses: Annotated[
        Path | None, Option(help="A CSV loss table, a line per action, a column per class.")
    ] = None

    def __post_init__(self) -> None:
        for option, value in (("--actions", self.actions), ("--partition", self.partition)):
            if value is not None and self.losses is not None:
                raise ValueError(f"{option} and --losses exclude each other: the losses say it")


@dataclass(frozen=True)
class GroupSettings(EventColumns):
    """Forecasts of one event, until they are right in every one of overlapping groups.

    Example:

    [bold]onlinecal recalibrate groups loans.csv --forecast risk --outcome defaulted --group sex
    --group region[/bold]
    """

    group: Annotated[
        list[str] | None,
        Option(help="A column whose values are groups, also with those of another; repeatable."),
    ] = None
    patch: Annotated[
        str,
        Option(
            help="What a patch moves: log-odds, forecasts (shift), or all to one value, rounded or unrounded."
        ),
    ] = "log-odds"
    alpha: Annotated[
        float | None, Option(help="Violation at which patches end. Default: where held-out rows say.")
    ] = None
    levels: Annotated[
        int | None, Option(min=0, help="Levels of the forecasts. Default: 10; for value, by alpha.")
    ] = None
    start: Annotated[
        str, Option(help="auto, none, temperature, platt, beta or isotonic: the map before patches.")
    ] = "auto"


@dataclass(frozen=True)
class BoostSettings(EventColumns):
    """Forecasts of one event, from features, until no tree finds a group in which they are wrong.

    Example:

    [bold]onlinecal recalibrate boost loans.csv --outcome defaulted --features age,income[/bold]
    """

    features: Annotated[str | None, Option(help="Columns a,b,c. Default: all other columns of numbers.")] = (
        None
    )
    alpha: Annotated[
        float | None,
        Option(
            help="Violation that may stay, as the paper has it: level set by level set, as with the next two."
        ),
    ] = None
    bound: Annotated[float | None, Option(help="Of squared test functions, as the paper has it.")] = None
    levels: Annotated[int | None, Option(min=0, help="Levels of the forecasts, 0: by alpha and bound.")] = (
        None
    )


@dataclass(frozen=True)
class ChooseSettings(EventColumns, ClassColumns):
    """All methods that apply to FILE, side by side on rows that they did not see; which to take.

    FILE has class probabilities and labels, or forecasts of one event and outcomes.
    Columns with usual names (p_*, label; forecast, outcome) are found.

    Each half of the rows is fitted and the other tested, in turn;
    --test-share, --split time and --split COL fit one part only.

    Intervals: 95 %, by drawing the tested rows anew; with --split-by COL
    all rows with one value are drawn together.

    Of methods that cannot be told apart the simplest is taken.

    Example:

    [bold]onlinecal recalibrate cifar.npz --out results/cifar[/bold]
    """

    group: Annotated[
        list[str] | None,
        Option(help="A column whose values are groups: how wrong is the worst? Repeatable."),
    ] = None
    features: Annotated[
        str | None, Option(help="Columns a,b,c: boost is tried with them (a column of forecasts).")
    ] = None
    choose: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Take this method, by its name in the table. Default: what is recommended."
        ),
    ] = None


Settings = LpSettings | DecisionSettings | GroupSettings | BoostSettings

METHODS: dict[str, type[Settings]] = {
    "lp": LpSettings,
    "decision": DecisionSettings,
    "groups": GroupSettings,
    "boost": BoostSettings,
}
"""The methods; the module of `onlinecal.cli.recalibrating` with a method's name carries it out."""
CHOOSE = "choose"
"""The verb that is meant where no method is named; its module has the same name, too."""


CALLED = {"levels": "n_levels", "actions": "n_actions"}
"""Settings that estimators call otherwise."""
Estimator = TypeVar("Estimator")


def estimator(kind: Callable[..., Estimator], settings: Settings, **more: Any) -> Estimator:
    """An unfitted estimator with those of the settings that it has; what is not set is its own default.

    0 levels are those of the paper, None.
    """
    given = {CALLED.get(name, name): value for name, value in vars(settings).items() if value is not None}
    given |= {"n_levels": given.get("n_levels") or None} | more
    return kind(**{name: given[name] for name in signature(kind).parameters if name in given})
