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
    LabelColumn,
    OutcomeColumn,
    ProbabilityColumns,
    Seed,
    check_folder,
    warn,
)

WRITTEN_TABLES = "recalibrated.parquet", "report.csv", *(f"{name}.csv" for name in PICTURES)
"""The files that may be written and could also be the input."""


def recalibrate(
    file: Annotated[Path, Argument(help=f"The probabilities and what came: {FILES}")],
    method: Annotated[
        str,
        Option(help="The one method to fit, lp, decision, groups or boost; choose: compare all that apply."),
    ] = CHOOSE,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="With --method: an argument of its class (LpRecalibrator, DecisionRecalibrator, "
            "GroupRecalibrator or BoostedRecalibrator), such as p=1.5, n_actions=3 or alpha=0.01. May be "
            "repeated.",
        ),
    ] = None,
    choose: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Without --method: which method of the table recalibrates the rows that are written. "
            "Default: the recommended one.",
        ),
    ] = None,
    probabilities: ProbabilityColumns = None,
    label: LabelColumn = None,
    losses: Annotated[
        Path | None,
        Option(
            help="With --method decision: a CSV file of losses, a line for each action and a column for each "
            "class."
        ),
    ] = None,
    forecast: Annotated[
        str | None,
        Option(help="The column of forecasts of one event; --method boost can do without."),
    ] = None,
    outcome: OutcomeColumn = None,
    group: GroupColumnNames = None,
    features: Annotated[
        str | None,
        Option(
            help="The columns of features for boost, a,b,c. Default: all columns of numbers but forecast and "
            "outcome."
        ),
    ] = None,
    split: Annotated[
        str | None,
        Option(
            metavar="SHARE|time|COL",
            help="Which rows are tested: a random share of them, 0.5 by default; time, the last half of the "
            "file, or time:0.3, the last 0.3 of it; or those for which the column COL holds test; it holds "
            "fit (or train) for the others.",
        ),
    ] = None,
    together: Annotated[
        str | None,
        Option(
            help="A column, such as the match, the day or the patient: rows with the same value in it are "
            "all fitted or all tested, and intervals draw them as one."
        ),
    ] = None,
    seed: Seed = 0,
    apply: Annotated[
        Path | None,
        Option(
            help="A second file, to be recalibrated by a fit to all rows of FILE; its labels may be missing."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            help="Folder to write tables and pictures into, made if need be. Default: results/recalibrate "
            "with --apply, else none are written."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recalibrate a table of probabilities; say what it gained on rows that were not fitted.

    FILE has class probabilities and labels, or forecasts of one event and outcomes. Columns that are not
    named are found by usual names (p_*, label; forecast, outcome), but the outcome has to be named with
    --method groups and boost, and the forecast with groups. All methods that apply are compared, and the
    table says which to take: half of the rows are fitted and the others tested, and then the other way round.
    Intervals hold 95 %, by drawing the tested rows anew. Of methods that cannot be told apart the simplest is
    recommended. All errors are averages over rows.

    --method fits one method alone. lp corrects class probabilities, each set of rows with similar ones
    together, until the L_p error is small. decision corrects them until decision makers who trust them see
    the losses that they expect. groups corrects forecasts of one event until they are right in each of
    overlapping groups. boost corrects them by features, until no tree finds a group in which they are wrong.

    This command fits a map once, on some rows, and tests it on others. Forecasts of a stream that are to be
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
        known = (*METHOD_NAMES, CHOOSE)
        raise ValueError(f"--method: there is no method {method!r}{did_you_mean(method, known)}")
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
