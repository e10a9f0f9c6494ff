"""The verb `experiment`: the figures of the decision paper, on any table of predictions.

The verb has no state. Names of figures and of columns are those of files, which users read. Figures are
played and written one after the other, so finished ones stay if a later one fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from onlinecal.cli.output import answer, notices, table, watched
from onlinecal.cli.verbs import EXIT_INTERRUPTED, AsJson, LabelColumn, ProbabilityColumns, check_folder
from onlinecal.simulations.cli import Jobs
from onlinecal.tables.writing import write_table

if TYPE_CHECKING:
    import polars as pl

    from onlinecal.simulations.experiments import Experiment

FIGURE_NAMES = ("steps", "actions", "classes", "drift")
"""The keys of `experiments.EXPERIMENTS` and `plots.experiments.EXPERIMENT_FIGURES`, which take long to
import."""
MADE_UP = "demo"


def experiment(
    file: Annotated[
        str,
        Argument(
            help="A file of class probabilities and labels: CSV, JSON Lines, Parquet or NPZ; or demo, a "
            "made-up table."
        ),
    ],
    figure: Annotated[
        list[str] | None,
        Option(help="A picture to draw: steps, actions, classes or drift. May be repeated. Default: all."),
    ] = None,
    probabilities: ProbabilityColumns = None,
    label: LabelColumn = None,
    actions: Annotated[
        int, Option(min=1, help="How many actions decision makers have, in steps, classes and drift.")
    ] = 3,
    rounds: Annotated[int, Option(min=1, help="How many rounds decision recalibration takes in steps.")] = 32,
    splits: Annotated[
        int,
        Option(min=1, help="How many random splits, each of half of the rows to fit and half to test."),
    ] = 5,
    losses: Annotated[int, Option(min=1, help="How many random tables of losses gaps are taken over.")] = 500,
    seed: Annotated[int, Option(min=0, help="Seed of the first split; each further one has the next.")] = 0,
    jobs: Jobs = None,
    out: Annotated[Path, Option(help="Folder for the pictures and their numbers, made if need be.")] = Path(
        "results/experiment"
    ),
    as_json: AsJson = False,
) -> None:
    """Draw what recalibrations are worth to random decision makers, as in the paper on decision calibration.

    A gap is how far the loss that a decision maker expects is from the loss that comes: an average over rows,
    divided by the largest Euclidean length of an action's losses. There are four pictures. steps: gaps and
    loss against the rounds of decision recalibration, on fitted and on tested rows. actions: gaps for 1
    action up to as many as there are classes. classes: gaps for 2 of the classes up to all. Both have
    temperature, vector and Dirichlet scaling and isotonic regression beside it. drift: all of these fitted on
    clean rows and tested on corrupted ones.

    Each picture is a PNG and an SVG beside a CSV of the numbers in it, and a CSV of every split's numbers.
    Finished pictures stay if the command is interrupted.

    Examples:

    [bold]onlinecal experiment demo --figure steps --out results/demo-steps[/bold]

    [bold]onlinecal experiment cifar.npz --figure drift --figure classes --splits 10[/bold]
    """
    from joblib import cpu_count

    from onlinecal.catalogue import did_you_mean
    from onlinecal.cli.recalibrating.splitting import split_rows
    from onlinecal.simulations.experiments import TEST_SHARE, Experiment, made_up_table
    from onlinecal.tables.classes import read_table

    wanted = list(dict.fromkeys(figure or FIGURE_NAMES))
    for name in wanted:
        if name not in FIGURE_NAMES:
            raise ValueError(f"--figure must be one of {', '.join(FIGURE_NAMES)}, got {name!r}")
    written_tables = (f"{name}{ending}.csv" for name in wanted for ending in ("", "-splits"))
    check_folder(out, written_tables, Path(file))
    if file != MADE_UP and not Path(file).exists():
        raise FileNotFoundError(
            f"no such file: {file}{did_you_mean(file, [MADE_UP], 'Names that need no file')}"
        )
    data = made_up_table() if file == MADE_UP else read_table(Path(file), probabilities, label)
    if data.labels is None:
        raise ValueError(f"{file} has no labels to fit to: name their column with --label")
    split_rows(len(data), TEST_SHARE, seed)
    task = Experiment(data, actions, rounds, splits, seed, losses)
    written: list[Path] = []
    tables: dict[str, pl.DataFrame] = {}
    try:
        for name in wanted:
            tables[name] = _draw(name, task, out, jobs or cpu_count(), written)
    except KeyboardInterrupt:
        notices().print(f"interrupted: {len(tables)} of {len(wanted)} pictures are finished")
        raise Exit(EXIT_INTERRUPTED) from None
    files = [str(path) for path in written]
    record = {"figures": {name: drawn.to_dicts() for name, drawn in tables.items()}, "files": files}
    shown = [table(*_shown(name, drawn)) for name, drawn in tables.items()]
    answer(as_json, record, [*shown, *files])


def _draw(name: str, task: Experiment, out: Path, jobs: int, written: list[Path]) -> pl.DataFrame:
    """Play all splits of one figure and write it; returns the table that was drawn."""
    import polars as pl

    from onlinecal.plots.style import write_figure
    from onlinecal.simulations.experiments import play
    from onlinecal.simulations.plots.experiments import EXPERIMENT_FIGURES

    words = f"{name}: splits finished"
    rows: list[dict[str, Any]] = []
    with watched(words, task.n_splits, words + ": {} of {}") as tell:
        tell(0, task.n_splits)
        for done, rows_of_split in enumerate(play(name, task, jobs), 1):
            rows += rows_of_split
            tell(done, task.n_splits)
    scores = pl.DataFrame(rows, infer_schema_length=None)
    written.append(write_table(scores, out / f"{name}-splits.csv"))
    drawn = EXPERIMENT_FIGURES[name].prepare(scores)
    written.append(write_figure(EXPERIMENT_FIGURES[name].draw(drawn), drawn, out / name))
    return drawn


def _shown(name: str, drawn: pl.DataFrame) -> tuple[str, list[str], list[list[str]], int]:
    """Title, columns, rows and number of name columns for a table of mean gaps, with a column per method."""
    if "part" in drawn.columns:
        drawn = drawn.filter(part="test")
    keys = [key for key in ("drift", "severity", "step", "count") if key in drawn.columns]
    wide = drawn.filter(measure="mean_gap").pivot("method", index=keys, values="mean")
    rows = [
        [
            *("–" if row[key] is None else str(row[key]) for key in keys),
            *("–" if row[method] is None else f"{row[method]:.4f}" for method in wide.columns[len(keys) :]),
        ]
        for row in wide.to_dicts()
    ]
    named = [name if key == "count" else key for key in keys]
    return f"{name}: mean gap on tested rows", [*named, *wide.columns[len(keys) :]], rows, len(keys)
