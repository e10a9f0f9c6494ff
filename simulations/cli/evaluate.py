"""The verb `evaluate`: a classifier and its recalibrations, side by side on one stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from onlinecal.cli.verbs import CHECK_FAILED, FILES, DropInvalid, Logits, Percent, Positive, warn
from onlinecal.rounds import Reading

if TYPE_CHECKING:
    from onlinecal.wrappers.strategies.projection import Buckets
    from simulations.evaluation import Evaluation, Source

DEFAULT_MODEL = "logistic"
DEFAULT_ROUNDS = 20_000
RECORDED = "forecasts"


Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="logistic (on standardised features), bayes or tree; may be repeated. Default: logistic.",
    ),
]
River = Annotated[
    str | None, typer.Option("--river", help="A dataset that comes with river: Phishing, Bananas, ...")
]
File = Annotated[
    Path | None,
    typer.Option("--file", help=f"Recorded forecasts instead of a model: {FILES}"),
]
ForecastColumn = Annotated[str | None, typer.Option("--forecast", help="Its column of forecasts.")]
OutcomeColumn = Annotated[str | None, typer.Option("--outcome", help="Its column of outcomes, 0/1.")]
Sort = Annotated[str | None, typer.Option("--sort", help="Its column to order the rounds by.")]
SettledAt = Annotated[
    str | None,
    typer.Option(
        "--settled-at",
        help="Its column of when outcomes became known: times as in --sort, or else row numbers from 0.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group", help="Its column of what shares an outcome, as a match; known after its last row."
    ),
]
Streams = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        help="A stream made to break recalibrators: flip, fold, drift or threshold; may be repeated.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", min=1, help=f"Rounds to play. Default: all there are; {DEFAULT_ROUNDS} of a --stream."
    ),
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
Budget = Annotated[
    float, typer.Option("--budget", help="Effort for each distance; 1 is about a second at most.")
]


def evaluate(
    model: Models = None,
    river: River = None,
    file: File = None,
    forecast: ForecastColumn = None,
    outcome: OutcomeColumn = None,
    sort: Sort = None,
    settled_at: SettledAt = None,
    group: Group = None,
    positive: Positive = None,
    percent: Percent = False,
    logits: Logits = False,
    drop_invalid: DropInvalid = False,
    stream: Streams = None,
    rounds: Rounds = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of a --stream.")] = 0,
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
    budget: Budget = 1.0,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for table and pictures.")] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Table and pictures, in results/evaluate if there is no --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Compare a classifier with its recalibrations: Platt scaling, bin means, and the calibrated one.

    Every round is forecast before its label is learnt. All errors are averages over rounds; "± base" is the
    difference from the model alone. With more than two labels the event is that the top label is right. Exit
    code 1 if a proven bound was broken.

    Examples:

    [bold]onlinecal evaluate --river Phishing --model bayes --model logistic --plot[/bold]

    [bold]onlinecal evaluate --file games.csv --forecast probability --outcome won --sort date[/bold]

    [bold]onlinecal evaluate --file matches.csv --forecast p --outcome won --group match[/bold]

    [bold]onlinecal evaluate --stream flip --stream fold --rounds 50000[/bold]
    """
    from onlinecal.cli.output import print_json, results
    from simulations.evaluation import comparisons, machine_readable, score_table, write_evaluations

    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget!r}")
    columns = Columns(forecast, outcome, sort, settled_at, group)
    reading = Reading(positive, percent, logits, drop_invalid)
    sources = _sources(river, file, columns, reading, stream, rounds, seed, late)
    names = _model_names(model, sources)
    remarks = [text for source in sources for text in source.remarks]
    warn(remarks)
    evaluations = _play(sources, names, late, slack, _buckets(buckets), budget)
    scores = [one.score for one in evaluations]
    worse = comparisons(scores)
    warn(worse)
    files = []
    if plot or out is not None:
        files = write_evaluations(evaluations, out or Path("results/evaluate"))
    broken = [
        f"BROKEN: {text} ({one.method} {one.model}, {one.stream})"
        for one in scores
        for text in one.broken_bounds()
    ]
    if as_json:
        print_json(machine_readable(scores, broken, files, [*remarks, *worse]))
    else:
        console = results()
        console.print(score_table(scores, _lateness(late, columns)))
        for line in [*broken, *map(str, files)]:
            console.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)


class Columns(NamedTuple):
    """The columns of a file, and what names them."""

    forecast: str | None
    outcome: str | None
    sort: str | None
    settled_at: str | None
    group: str | None

    def options(self) -> list[str]:
        """The options that were given."""
        return [f"--{name.replace('_', '-')}" for name, value in self._asdict().items() if value is not None]


def _lateness(late: int, columns: Columns) -> str:
    """When labels came, for the title."""
    if columns.settled_at is not None:
        return f", labels at {columns.settled_at}"
    if columns.group is not None:
        return f", labels after the last row of each {columns.group}"
    return f", labels {late} rounds late" if late else ""


def _sources(
    river: str | None,
    file: Path | None,
    columns: Columns,
    reading: Reading,
    stream: list[str] | None,
    rounds: int | None,
    seed: int,
    late: int,
) -> list[Source]:
    """Whatever is named; ValueError if that is none or more than one kind, or options do not go together."""
    from simulations import evaluation as sources

    given = {"--river": river, "--file": file, "--stream": stream or None}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other")
    if not named:
        raise ValueError("what to evaluate on? One of --river, --file or --stream is needed")
    if file is not None:
        forecast, outcome, sort, settled_at, group = columns
        if forecast is None or outcome is None:
            raise ValueError("--file needs --forecast and --outcome, the columns of forecasts and outcomes")
        if late and (settled_at is not None or group is not None):
            raise ValueError("--late excludes --settled-at and --group, which say when labels come")
        return [
            sources.from_file(
                file, outcome, forecast, sort, rounds, settled_at=settled_at, group=group, reading=reading
            )
        ]
    for option in columns.options():
        raise ValueError(f"{option} names a column of a file: it needs --file")
    if reading != Reading():
        raise ValueError("--positive, --percent, --logits and --drop-invalid say how to read a --file")
    if river is not None:
        return [sources.from_river(river, rounds)]
    chosen = stream or []
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"a stream is listed twice: {', '.join(chosen)}")
    return [sources.hard(name, rounds or DEFAULT_ROUNDS, seed) for name in chosen]


def _model_names(chosen: list[str] | None, sources: list[Source]) -> list[str]:
    from simulations import evaluation as models

    if all(source.recorded for source in sources):
        if chosen:
            raise ValueError(
                "--model needs features, as --river has; recorded forecasts are a model's already"
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
    sources: list[Source], names: list[str], late: int, slack: float | None, buckets: Buckets, budget: float
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
                            budget=budget,
                            progress=lambda played: bar.advance(task, played),
                        )
                    )
    return evaluations
