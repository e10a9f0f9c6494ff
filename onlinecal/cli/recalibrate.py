"""The verb `recalibrate`: a table of probabilities in, better ones out, and what that was worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinecal.cli.errors import warn

if TYPE_CHECKING:
    from onlinecal.cli.recalibrating.report import Report

METHODS = ("lp", "decision", "groups", "boost")

BELONGS: dict[str, tuple[str, ...]] = {
    "--probabilities": ("lp", "decision"),
    "--label": ("lp", "decision"),
    "--p": ("lp",),
    "--epsilon": ("lp", "decision"),
    "--levels": ("lp", "groups", "boost"),
    "--tolerance": ("lp",),
    "--estimation": ("lp",),
    "--within": ("lp",),
    "--actions": ("decision",),
    "--partition": ("decision",),
    "--losses": ("decision",),
    "--forecast": ("groups", "boost"),
    "--outcome": ("groups", "boost"),
    "--group": ("groups",),
    "--patch": ("groups",),
    "--alpha": ("groups", "boost"),
    "--features": ("boost",),
    "--bound": ("boost",),
}
"""The methods that each option belongs to."""


def recalibrate(
    file: Annotated[Path, typer.Argument(help="CSV, JSON Lines or Parquet; for lp and decision also NPZ.")],
    method: Annotated[str, typer.Option("--method", help="lp, decision, groups or boost.")],
    probabilities: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Class probabilities: lp and decision",
            help="lp, decision: columns a,b,c or a pattern p_*; of NPZ the array. Default: p_*.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Class probabilities: lp and decision",
            help="lp, decision: the column (array) of labels.",
        ),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option("--p", rich_help_panel="Only lp", help="lp: order of the error, up to inf. Default: 2."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Class probabilities: lp and decision",
            help="lp, decision: the error to reach. Default: 0.05; decision 0.01.",
        ),
    ] = None,
    levels: Annotated[
        int | None,
        typer.Option(min=0, help="lp: levels per class, 0 as in the paper. Default: 5; groups 10, boost 20."),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="Only lp",
            help="lp: error of a group and class that may stay. Default: by epsilon.",
        ),
    ] = None,
    estimation: Annotated[
        str | None, typer.Option(rich_help_panel="Only lp", help="lp: plug-in (default) or pools.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(rich_help_panel="Only lp", help="lp: shift (default) or constant.")
    ] = None,
    actions: Annotated[
        int | None,
        typer.Option(
            rich_help_panel="Only decision",
            min=1,
            help="decision: for all decision makers with so many. Default: 2.",
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(rich_help_panel="Only decision", help="decision: soft (default) or hard.")
    ] = None,
    losses: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel="Only decision",
            help="decision: a CSV loss table, a line per action, a column per class.",
        ),
    ] = None,
    forecast: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="One event: groups and boost",
            help="groups, boost: the column of forecasts; boost can do without.",
        ),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="One event: groups and boost", help="groups, boost: the column of outcomes, 0/1."
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel="Only groups",
            help="groups: a column whose values are groups, also with those of another; repeatable.",
        ),
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Only groups", help="groups: shift (default), value or unrounded; see the docs."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            rich_help_panel="One event: groups and boost",
            help="groups, boost: violation that may stay. Default: 0.001; boost 0.01.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            rich_help_panel="Only boost", help="boost: columns a,b,c. Default: all other columns of numbers."
        ),
    ] = None,
    bound: Annotated[
        float | None,
        typer.Option(rich_help_panel="Only boost", help="boost: on squared test functions. Default: 1."),
    ] = None,
    test_share: Annotated[
        float | None, typer.Option(help="Share of the rows to test on. Default: 0.5.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, and of the method's chance.")] = 0,
    apply: Annotated[
        Path | None, typer.Option(help="Fit on all of FILE, and recalibrate this one; labels may be missing.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for probabilities, report and pictures.")] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Write them to results/recalibrate if there is no --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Recalibrate a table of probabilities; say what it gained on rows that were not fitted.

    A random half of the rows is fitted, the other tested. All errors are averages over rows.

    Examples:

    [bold]onlinecal recalibrate cifar.npz --method lp --out results/lp[/bold]

    [bold]onlinecal recalibrate scans.csv --method decision --label finding --losses clinic.csv --plot[/bold]

    [bold]onlinecal recalibrate loans.csv --method groups --forecast risk --outcome defaulted --group sex
    --group region[/bold]

    [bold]onlinecal recalibrate loans.csv --method boost --outcome defaulted --features age,income[/bold]

    [bold]onlinecal recalibrate old.csv --method lp --label y --apply new.csv --out results/new[/bold]
    """
    given = {
        "--probabilities": probabilities, "--label": label, "--p": p, "--epsilon": epsilon,
        "--levels": levels, "--tolerance": tolerance, "--estimation": estimation, "--within": within,
        "--actions": actions, "--partition": partition, "--losses": losses, "--forecast": forecast,
        "--outcome": outcome, "--group": group or None, "--patch": patch, "--alpha": alpha,
        "--features": features, "--bound": bound,
    }  # fmt: skip
    check_options(method, given)
    if apply is not None and test_share is not None:
        raise ValueError("--apply and --test-share exclude each other: with --apply all of FILE is fitted")
    folder = out or (Path("results/recalibrate") if plot or apply is not None else None)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, not a folder to write into")
    chosen = {name.removeprefix("--"): value for name, value in given.items() if value is not None}
    share = 0.5 if test_share is None else test_share
    report = _run(method, file, apply, share, seed, chosen)
    warn(report.warnings)
    _show(report, folder, as_json)


def check_options(method: str, given: dict[str, Any]) -> None:
    """ValueError for an unknown method, or an option of another one."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; known: {', '.join(METHODS)}")
    for option, value in given.items():
        if value is not None and method not in BELONGS[option]:
            owners = " and ".join(BELONGS[option])
            raise ValueError(f"{option} belongs to --method {owners}, not to --method {method}")


def _run(
    method: str, file: Path, apply: Path | None, share: float, seed: int, chosen: dict[str, Any]
) -> Report:
    if method in ("lp", "decision"):
        from onlinecal.cli.recalibrating.multiclass import read_job

        columns = chosen.pop("probabilities", None), chosen.pop("label", None)
        job = read_job(file, *columns, apply, share, seed)
        if method == "lp":
            from onlinecal.cli.recalibrating.lp import LpSettings, recalibrate_lp

            return recalibrate_lp(job, LpSettings(**chosen), seed)
        from onlinecal.cli.recalibrating.decision import DecisionSettings, recalibrate_decision

        return recalibrate_decision(job, DecisionSettings(**chosen), seed)
    if method == "groups":
        from onlinecal.cli.recalibrating.groups import GroupSettings, recalibrate_groups

        return recalibrate_groups(file, apply, share, seed, GroupSettings(**chosen))
    from onlinecal.cli.recalibrating.boost import BoostSettings, recalibrate_boost

    return recalibrate_boost(file, apply, share, seed, BoostSettings(**chosen))


def _show(report: Report, folder: Path | None, as_json: bool) -> None:
    """Write what is wanted, then print the report."""
    from onlinecal.cli.output import print_json, results
    from onlinecal.cli.recalibrating.report import report_tables, write_report

    files = [] if folder is None else write_report(report, folder)
    if as_json:
        print_json({**report.record(), "files": [str(path) for path in files]})
        return
    console = results()
    for table in report_tables(report):
        console.print(table)
    for path in files:
        console.print(str(path), soft_wrap=True)
