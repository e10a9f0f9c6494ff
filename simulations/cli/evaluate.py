"""The verb `evaluate`: a classifier and its recalibrations, side by side on one stream.

The verb has no state. Streams are read and checked whole before the first game, and all files are written
when the games are over. The keys of its JSON are those of `evaluation.Score`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from onlinecal.cli.output import answer, progress
from onlinecal.cli.verbs import (
    EXIT_CHECK_FAILED,
    FILES,
    AsJson,
    DropInvalid,
    ForecastScale,
    Out,
    Positive,
    SettledAt,
    Sort,
    Together,
    check_different,
    check_folder,
    gathered_warnings,
    warn,
)
from onlinecal.tables.rounds import Reading

if TYPE_CHECKING:
    from onlinecal.simulations.evaluation import FileColumns, Source

DEFAULT_MODEL = "logistic"
RECORDED_MODEL = "forecasts"
WRITTEN_TABLES = "results.csv", "distance.csv", "reliability-*.csv"
"""The files that `write_evaluations` writes and that could also be the input, which `check_folder`
refuses."""


def evaluate(
    stream: Annotated[
        list[str],
        Argument(
            help=f"A file of recorded forecasts: {FILES} Or a name: a dataset that comes with river, such as "
            "Phishing, or flip, fold, drift or threshold, which are made up to break recalibrators. Several "
            "may be given.",
        ),
    ],
    model: Annotated[
        list[str] | None,
        Option(
            help="The classifier for a dataset of river: logistic (on standardised features), bayes or tree. "
            "May be repeated. Default: logistic."
        ),
    ] = None,
    forecast: Annotated[str | None, Option(help="The file's column of forecasts.")] = None,
    outcome: Annotated[str | None, Option(help="The file's column of outcomes, 0/1.")] = None,
    sort: Sort = None,
    settled_at: SettledAt = None,
    together: Together = None,
    positive: Positive = None,
    scale: ForecastScale = "probability",
    drop_invalid: DropInvalid = False,
    rounds: Annotated[
        int | None,
        Option(min=1, help="How many rounds to play. Default: all there are, or 20000 of what is made up."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of what is made up.")] = 0,
    late: Annotated[
        int,
        Option(min=0, help="How many rounds later each label comes; 0: before the next forecast."),
    ] = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare a classifier with its recalibrations: Platt scaling, bin means, and the calibrated one.

    Every round is forecast before its label is learnt. All errors are averages over rounds; "± base" is the
    difference from the model alone. With more than two labels what is forecast is whether the most probable
    label is right. Exit code 1 if a proven bound was broken.

    Columns of a file that are not named are found by usual names (forecast, p, ...; outcome, won, ...).

    To judge a file's forecasts as they are, use [bold]onlinecal measure[/bold]; to fit a map on some of its
    rows and test it on others, [bold]onlinecal recalibrate[/bold].

    Examples:

    [bold]onlinecal evaluate nba --together date[/bold]

    [bold]onlinecal evaluate Phishing --model bayes --model logistic --out results/phishing[/bold]

    [bold]onlinecal evaluate matches.csv --forecast p --outcome won --sort day --together match[/bold]

    [bold]onlinecal evaluate flip fold --rounds 50000[/bold]
    """
    import msgspec

    from onlinecal.remarks import LabelWarning
    from onlinecal.simulations import evaluation

    check_different(stream, "STREAM")
    check_folder(out, WRITTEN_TABLES, *map(Path, stream))
    columns = evaluation.FileColumns(forecast, outcome, sort, settled_at, together)
    if late and (settled_at is not None or together is not None):
        raise ValueError(
            "--late excludes --settled-at and --together, which also say when labels come: leave --late out"
        )
    reading = Reading(positive, scale, drop_invalid)
    sources = [evaluation.source_of(name, rounds, seed, columns, reading) for name in stream]
    names = _model_names(model, sources)
    remarks = [text for source in sources for text in source.remarks]
    warn(remarks)
    plan = evaluation.planned(sources, names)
    evaluations = []
    # that labels are late was asked for
    with gathered_warnings(LabelWarning) as warned, progress() as bar:
        task = bar.add_task("rounds", total=sum(len(source.features) for source, *_ in plan))
        for source, name, method, classifier in plan:
            bar.update(task, description=f"{source.name}: {method} {name}")
            advance = partial(bar.advance, task)
            evaluations.append(
                evaluation.evaluate(source, classifier, name, method, late=late, progress=advance)
            )
    scores = [played.score for played in evaluations]
    worse = evaluation.comparisons(scores)
    warn([*warned, *worse])
    files: list[str] = []
    if out is not None:
        from onlinecal.simulations.plots.evaluations import write_evaluations

        files = [str(path) for path in write_evaluations(evaluations, out)]
    broken = [
        f"BROKEN: {text} ({score.method} {score.model}, {score.stream})"
        for score in scores
        for text in score.broken_bounds()
    ]
    record = {
        "scores": [msgspec.structs.asdict(score) for score in scores],
        "broken": broken,
        "warnings": [*remarks, *warned, *worse],
        "pictures": files,
    }
    answer(as_json, record, [evaluation.score_table(scores, _lateness(late, columns)), *broken, *files])
    if broken:
        raise Exit(EXIT_CHECK_FAILED)


def _lateness(late: int, columns: FileColumns) -> str:
    """The words of a title that say when labels came."""
    if columns.settled_at is not None:
        return f", labels at {columns.settled_at}"
    if columns.together is not None:
        return f", labels after the last row of each {columns.together}"
    return f", labels {late} rounds late" if late else ""


def _model_names(chosen: list[str] | None, sources: list[Source]) -> list[str]:
    from onlinecal.simulations.evaluation import create

    if all(source.recorded for source in sources):
        if chosen:
            raise ValueError(
                "--model needs features, as a dataset of river has, and all streams named here are of "
                "forecasts: leave --model out"
            )
        return [RECORDED_MODEL]
    names = chosen or [DEFAULT_MODEL]
    check_different(names, "--model")
    for name in names:
        create(name)
    return names
