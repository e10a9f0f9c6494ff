"""The verb `recalibrate`: maps a table of probabilities to better ones, and says how much better they are.

The verb has no state: the request is checked, methods are fitted and compared, and only then is anything
written. Names in its JSON, of its files and of their columns are what users read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import answer
from onlinecal.cli.recalibrating.asked import CHOOSE, METHOD_NAMES, PICTURES, Request, check_owners, values_of
from onlinecal.cli.verbs import (
    EXIT_INTERRUPTED,
    FILES,
    AsJson,
    GroupColumnNames,
    Out,
    OutcomeColumn,
    Seed,
    Together,
    check_folder,
    warn,
)

WRITTEN_TABLES = "recalibrated.parquet", "report.csv", *(f"{name}.csv" for name in PICTURES)
"""The files that may be written and could also be the input."""


def recalibrate(
    file: Annotated[Path, Argument(help=f"The probabilities and what came: {FILES}")],
    method: Annotated[
        str, Option(help="lp, decision, groups or boost alone; choose compares all that apply.")
    ] = CHOOSE,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting of the method, as LpRecalibrator, DecisionRecalibrator, GroupRecalibrator and "
            "BoostedRecalibrator take them: p=1.5, n_actions=3, alpha=0.01; repeatable.",
        ),
    ] = None,
    choose: Annotated[
        str | None,
        Option(metavar="NAME", help="The method to take from the comparison. Default: the recommended one."),
    ] = None,
    probabilities: Annotated[
        str | None, Option(help="Columns a,b,c or a pattern p_*; an array of NPZ. Default: p_*.")
    ] = None,
    label: Annotated[str | None, Option(help="The column (array) of labels.")] = None,
    losses: Annotated[
        Path | None,
        Option(help="Of decision: a CSV loss table, a line per action, a column per class."),
    ] = None,
    forecast: Annotated[
        str | None, Option(help="The column of forecasts of one event; boost can do without.")
    ] = None,
    outcome: OutcomeColumn = None,
    group: GroupColumnNames = None,
    features: Annotated[
        str | None, Option(help="Of boost: columns a,b,c. Default: all other columns of numbers.")
    ] = None,
    split: Annotated[
        str | None,
        Option(
            metavar="SHARE|time|COL",
            help="Which rows are tested: a random share, 0.5 by default; time or time:0.3, the last rows; or "
            "a column COL that holds test for these rows, and fit (or train) for the others.",
        ),
    ] = None,
    together: Together = None,
    seed: Seed = 0,
    apply: Annotated[
        Path | None, Option(help="Fit on all of FILE, and recalibrate this one; labels may be missing.")
    ] = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Recalibrate a table of probabilities; say what it gained on rows that were not fitted.

    FILE has class probabilities and labels, or forecasts of one event and outcomes. Columns with usual names
    (p_*, label; forecast, outcome) are found. All methods that apply are compared, and the table says which
    to take: each half of the rows is fitted and the other tested, in turn. Intervals are of 95 %, by drawing
    the tested rows anew, those that belong together as one. Of methods that cannot be told apart the simplest
    is taken. All errors are averages over rows.

    One method alone is named with --method. lp: class probabilities, level set by level set, until the L_p
    error is small. decision: until decision makers who trust them see the losses that they expect. groups:
    forecasts of one event, until they are right in every one of overlapping groups. boost: from features,
    until no tree finds a group in which they are wrong. A method's defaults are those of its class.

    It fits a map once, on some rows, and tests it on others. Forecasts of a stream that are to be
    recalibrated live are for [bold]onlinecal evaluate[/bold]; [bold]onlinecal measure[/bold] judges forecasts
    as they stand.

    Examples:

    [bold]onlinecal recalibrate nba --split time --together date[/bold]

    [bold]onlinecal recalibrate cifar.npz --method lp --set p=1.5 --out results/lp[/bold]

    [bold]onlinecal recalibrate scans.csv --method decision --label finding --losses clinic.csv[/bold]

    [bold]onlinecal recalibrate loans.csv --method groups --forecast p --outcome defaulted --group sex[/bold]

    [bold]onlinecal recalibrate old.csv --label y --apply new.csv --out results/new[/bold]
    """
    from onlinecal.threads import one_thread

    if method not in (*METHOD_NAMES, CHOOSE):
        raise ValueError(f"unknown method {method!r}{did_you_mean(method, METHOD_NAMES)}")
    asked = Request(
        file,
        apply,
        probabilities=probabilities,
        label=label,
        forecast=forecast,
        outcome=outcome,
        group=group or (),
        features=None if features is None else [name.strip() for name in features.split(",")],
        losses=losses,
        choose=choose,
        values=values_of(set_ or ()),
        split=split,
        together=together,
        seed=seed,
    )
    check_owners(method, asked)
    folder = out or (Path("results/recalibrate") if apply is not None else None)
    check_folder(folder, WRITTEN_TABLES, *filter(None, (file, apply, losses)))
    # on one core, since BLAS sums in another order on several
    with one_thread():
        from onlinecal.cli.recalibrating.comparing import alone, compare

        report = compare(asked) if method == CHOOSE else alone(asked, method)
        warn(report.record["warnings"])
        # a comparison that was interrupted writes nothing
        files = [] if folder is None or report.interrupted else report.write(folder)
    names = [str(path) for path in files]
    answer(as_json, {**report.record, "files": names}, [*report.shown, *names])
    if report.interrupted:
        raise Exit(EXIT_INTERRUPTED)
