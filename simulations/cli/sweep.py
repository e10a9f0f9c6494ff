"""The verbs `sweep` and `plot`: a grid of games, resumable at any moment, and its pictures.

The verbs have no state: what a sweep has done so far is in its folder alone, so the same command goes on
after any interrupt. `sweep` writes there by `sweeps/results.py`, and `plot` reads that and adds pictures,
under names that no file of the sweep has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from onlinecal.cli.output import answer, notices, progress, results, table, watched
from onlinecal.cli.verbs import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, check_folder
from onlinecal.simulations.cli import Jobs, Load
from onlinecal.texts import number


def sweep(
    file: Annotated[str, Argument(help="A TOML file that says which games to play; or demo or arena.")],
    out: Annotated[Path, Option(help="Folder for the results, made if need be.")] = Path("results/sweep"),
    jobs: Jobs = None,
    form: Annotated[
        Literal["parquet", "csv"], Option("--format", help="In which format tables are written.")
    ] = "parquet",
    load: Load = None,
    backend: Annotated[
        Literal["loky", "dask", "ray"],
        Option(help="Who plays: loky, processes of this machine, or workers of dask or ray."),
    ] = "loky",
    scheduler: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="The address of the Dask or Ray cluster to use. Default: --jobs processes of this machine "
            "are started.",
        ),
    ] = None,
) -> None:
    """Play every forecaster against every adversary, for every number of rounds and every seed.

    The file must have three keys. [bold]forecasters[/bold] and [bold]adversaries[/bold] are lists of names,
    or of names with settings as "balanced:slack=1"; `onlinecal forecasters` and `onlinecal adversaries` list
    them. [bold]rounds[/bold] is a list of numbers of rounds, T.

    It may have four more. [bold]seeds[/bold] is a list of whole numbers, [0] by default.
    [bold]budget[/bold] is the effort for each distance to calibration: 1.0, the default, takes up to three
    seconds. [bold]checkpoints[/bold] is how many certificates of each game are recorded, 200 by default.
    [bold]load[/bold] is a list of Python files that register forecasters or adversaries of your own,
    relative to the file.

    Each finished game is kept at once: started again after an interrupt or with more entries in the TOML
    file, a sweep only plays what is missing.

    Results do not depend on the backend; it may even be changed between two calls for one folder. A cluster's
    workers need the same versions of onlinecal and its libraries as here, but no disk in common: this process
    keeps the results.

    Beside the results it writes rates.parquet: how fast each error grows with T, as a fitted exponent with
    its standard error. In polars:
    [bold]pl.read_parquet("rates.parquet").filter(measure="distance").pivot("adversary", index="forecaster",
    values="exponent")[/bold]

    Examples, the second on a cluster:

    [bold]onlinecal sweep demo --out results/demo && onlinecal plot results/demo[/bold]

    [bold]onlinecal sweep arena --backend dask --scheduler 10.0.0.1:8786[/bold]
    """
    from joblib import cpu_count

    from onlinecal.compiling import Compiled
    from onlinecal.simulations.sweeps.plan import find_plan, read_plan
    from onlinecal.simulations.sweeps.playing import Workers, play_games
    from onlinecal.simulations.sweeps.results import Store

    check_folder(out)
    plan = read_plan(find_plan(file), load or ())
    if scheduler is not None and backend == "loky":
        raise ValueError("--scheduler needs --backend dask or ray, since loky plays on this machine alone")
    if scheduler is not None and jobs is not None:
        raise ValueError(
            "--jobs and --scheduler exclude each other, since a cluster has its own workers: leave --jobs out"
        )
    store = Store(plan, out)
    workers = Workers(backend, scheduler, min(jobs or cpu_count(), len(plan.games)))
    compiled = Compiled()
    try:
        with watched(f"games ({workers})", len(plan.games), "games finished: {} of {}") as tell:
            played = play_games(store, workers, tell, compiled)
    except KeyboardInterrupt:
        kept = f"{len(Store(plan, out).finished)} of {len(plan.games)} games are kept"
        notices().print(f"interrupted: {kept}; the same command goes on from there")
        raise Exit(EXIT_INTERRUPTED) from None
    if compiled.notice is not None:
        notices().print(compiled.notice)
    written = store.write_tables(form)
    results().print(
        f"{len(plan.games)} games: {played} played, {len(plan.games) - played} were there already. "
        f"Tables: {', '.join(map(str, written))}",
        soft_wrap=True,
    )


def plot(
    folder: Annotated[Path, Argument(help="Folder of results that a sweep has written.")],
    figure: Annotated[
        list[str] | None,
        Option(
            help="A picture to draw: overview, distance, ece, regret, trajectories, landscape or matrix. May "
            "be repeated. Default: all, landscape and matrix only if the games have several T."
        ),
    ] = None,
    measure: Annotated[
        str | None,
        Option(
            help="What landscape and matrix show: distance, ece, certificate or regret. Default: distance."
        ),
    ] = None,
    adversary: Annotated[
        str | None,
        Option(
            help="With --figure landscape: draw this adversary alone, large, with every forecaster's name. "
            "Default: all."
        ),
    ] = None,
    load: Annotated[
        list[Path] | None, Option(help="A Python file that the sweep names, if it is at another place now.")
    ] = None,
    jobs: Jobs = None,
    as_json: Annotated[
        bool, Option("--json", help="Write names of files and the closing summary to stdout as JSON.")
    ] = False,
) -> None:
    """Draw the results of a sweep: each picture as PNG and SVG beside a CSV of the numbers in it.

    The pictures go to the folder of the results. In the end there is a summary of how near the games came to
    their bounds; exit code 1 if any bound was broken.

    Examples:

    [bold]onlinecal plot results/demo --figure distance[/bold]

    [bold]onlinecal plot results/arena --figure landscape --adversary coin --measure ece[/bold]
    """
    from joblib import cpu_count

    from onlinecal.simulations.plots.sweeps import SweepPictures
    from onlinecal.simulations.sweeps.playing import Workers, work
    from onlinecal.simulations.sweeps.results import broken_bounds, summarise

    pictures = SweepPictures.read(folder, figure or (), measure, adversary, load or ())
    names = pictures.names
    workers = Workers(jobs=min(jobs or cpu_count(), len(names)))
    drawn = work(pictures.render, [(name,) for name in names], workers, ordered=True)
    with progress() as bar:
        files = [
            picture.write(pictures.stem(name))
            for name, picture in zip(names, bar.track(drawn, len(names), description="drawing"), strict=True)
        ]
    summary, broken = summarise(pictures.results).to_dicts(), broken_bounds(pictures.results)
    record = {"figures": [str(path) for path in files], "summary": summary, "broken": broken}
    lines = [
        [
            row["forecaster"],
            str(row["games"]),
            number(row["worst_over_root"]),
            row["worst_over_root_against"],
            "–" if row["worst_over_guarantee"] is None else number(row["worst_over_guarantee"]),
            row["worst_over_guarantee_against"] or "nothing is proven",
        ]
        for row in summary
    ]
    columns = ["forecaster", "games", "distance/√T", "against", "distance/guarantee", "against"]
    worst = table("Distance to calibration at its worst", columns, lines)
    answer(as_json, record, [*map(str, files), "", worst, *(broken or ["Every bound held."])])
    if broken:
        raise Exit(EXIT_CHECK_FAILED)
