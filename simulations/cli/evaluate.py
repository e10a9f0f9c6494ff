"""The verb `evaluate`: a classifier and its recalibrations, side by side on one stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinecal.cli.verbs import CHECK_FAILED, FILES, DropInvalid, Positive, Scale, Together, warn
from onlinecal.rounds import Reading

if TYPE_CHECKING:
    from onlinecal.wrappers.strategies.projection import Buckets
    from simulations.evaluation import Columns, Evaluation, Source

DEFAULT_MODEL = "logistic"
RECORDED = "forecasts"


Streams = Annotated[
    list[str],
    typer.Argument(
        help=f"Recorded forecasts: {FILES} Or by name: a dataset of river, like Phishing; or what is made to "
        "break recalibrators, flip, fold, drift and threshold. May be several.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="logistic (on standardised features), bayes or tree; may be repeated. Default: logistic.",
    ),
]
ForecastColumn = Annotated[str | None, typer.Option("--forecast", help="A file's column of forecasts.")]
OutcomeColumn = Annotated[str | None, typer.Option("--outcome", help="Its column of outcomes, 0/1.")]
Sort = Annotated[str | None, typer.Option("--sort", help="Its column to order the rounds by.")]
SettledAt = Annotated[
    str | None,
    typer.Option(
        "--settled-at",
        help="Its column of when outcomes became known: times as in --sort, or else row numbers from 0.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", min=1, help="Rounds to play. Default: all there are; 20000 of what is made up."),
]
Late = Annotated[
    int, typer.Option("--late", min=0, help="Each label comes so many rounds after its forecast.")
]
BucketNumber = Annotated[
    str,
    typer.Option(
        "--buckets",
        help="Of the calibrated classifier, with biases of their own: a number, or auto: halved with time.",
    ),
]


def evaluate(
    stream: Streams,
    model: Models = None,
    forecast: ForecastColumn = None,
    outcome: OutcomeColumn = None,
    sort: Sort = None,
    settled_at: SettledAt = None,
    together: Together = None,
    positive: Positive = None,
    scale: Scale = "probability",
    drop_invalid: DropInvalid = False,
    rounds: Rounds = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of what is made up.")] = 0,
    late: Late = 0,
    slack: Annotated[
        float | None,
        typer.Option(
            "--slack",
            help="Of the calibrated classifier: more follows the model more closely, for a weaker guarantee. "
            "Default: its own.",
        ),
    ] = None,
    buckets: BucketNumber = "1",
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write table and pictures into.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Compare a classifier with its recalibrations: Platt scaling, bin means, and the calibrated one.

    Every round is forecast before its label is learnt. All errors are averages over rounds; "± base" is the
    difference from the model alone. With more than two labels the event is that the top label is right. Exit
    code 1 if a proven bound was broken.

    Columns of a file with usual names (forecast, p, ...; outcome, won, ...) are found.

    To judge a file's forecasts as they are, use [bold]onlinecal measure[/bold]; to fit a map on some of its
    rows and test it on others, [bold]onlinecal recalibrate[/bold].

    Examples:

    [bold]onlinecal evaluate nba --together date[/bold]

    [bold]onlinecal evaluate Phishing --model bayes --model logistic --out results/phishing[/bold]

    [bold]onlinecal evaluate matches.csv --forecast p --outcome won --sort day --together match[/bold]

    [bold]onlinecal evaluate flip fold --rounds 50000[/bold]
    """
    import msgspec

    from onlinecal.cli.output import print_json, results
    from simulations.evaluation import Columns, comparisons, score_table, source_of, write_evaluations

    if len(set(stream)) < len(stream):
        raise ValueError(f"a stream is listed twice: {', '.join(stream)}")
    columns = Columns(forecast, outcome, sort, settled_at, together)
    if late and (settled_at is not None or together is not None):
        raise ValueError("--late excludes --settled-at and --together, which say when labels come")
    reading = Reading(positive, scale, drop_invalid)
    sources = [source_of(name, rounds, seed, columns, reading) for name in stream]
    names = _model_names(model, sources)
    remarks = [text for source in sources for text in source.remarks]
    warn(remarks)
    evaluations = _play(sources, names, late, slack, _buckets(buckets))
    scores = [one.score for one in evaluations]
    worse = comparisons(scores)
    warn(worse)
    files = [] if out is None else write_evaluations(evaluations, out)
    broken = [
        f"BROKEN: {text} ({one.method} {one.model}, {one.stream})"
        for one in scores
        for text in one.broken_bounds()
    ]
    if as_json:
        print_json(
            {
                "scores": [msgspec.structs.asdict(score) for score in scores],
                "broken": broken,
                "warnings": [*remarks, *worse],
                "pictures": [str(path) for path in files],
            }
        )
    else:
        console = results()
        console.print(score_table(scores, _lateness(late, columns)))
        for line in [*broken, *map(str, files)]:
            console.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _lateness(late: int, columns: Columns) -> str:
    """When labels came, for the title."""
    if columns.settled_at is not None:
        return f", labels at {columns.settled_at}"
    if columns.together is not None:
        return f", labels after the last row of each {columns.together}"
    return f", labels {late} rounds late" if late else ""


def _model_names(chosen: list[str] | None, sources: list[Source]) -> list[str]:
    from simulations import evaluation as models

    if all(source.recorded for source in sources):
        if chosen:
            raise ValueError(
                "--model needs features, as a dataset of river has; recorded forecasts are a model's already"
            )
        return [RECORDED]
    names = chosen or [DEFAULT_MODEL]
    if len(set(names)) < len(names):
        raise ValueError(f"a model is listed twice: {', '.join(names)}")
    for name in names:
        models.create(name)
    return names


def _buckets(text: str) -> Buckets:
    """A number, or the word that was given; ValueError if that is none of ours."""
    from onlinecal.wrappers.strategies.projection import AUTO, check_buckets

    value = int(text) if text.lstrip("+-").isdecimal() else text
    check_buckets(value, "n_buckets")
    return AUTO if isinstance(value, str) else value


def _play(
    sources: list[Source], names: list[str], late: int, slack: float | None, buckets: Buckets
) -> list[Evaluation]:
    """Every method on every model on every stream."""
    from onlinecal.cli.output import progress
    from simulations import evaluation as models
    from simulations.evaluation import evaluate as evaluate_one

    evaluations = []
    with progress() as bar:
        total = sum(map(len, sources)) * len(names) * len(models.methods(slack, buckets))
        task = bar.add_task("rounds", total=total)
        for source in sources:
            for name in names:
                for method, wrap in models.methods(slack, buckets, source.is_multiclass).items():
                    bar.update(task, description=f"{source.name}: {method} {name}")
                    model = (
                        models.Recorded() if source.recorded else models.create(name, source.is_multiclass)
                    )
                    evaluations.append(
                        evaluate_one(
                            source,
                            wrap(model),
                            name,
                            method,
                            late=late,
                            progress=lambda played: bar.advance(task, played),
                        )
                    )
    return evaluations
