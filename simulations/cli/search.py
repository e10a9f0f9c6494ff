"""The verb `search`: breed outcome sequences that are hard for a forecaster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinecal.cli.errors import CHECK_FAILED, INTERRUPTED
from simulations.cli.sweep import available_cores

if TYPE_CHECKING:
    from simulations.searching.records import Found


def search(
    forecaster: Annotated[
        str,
        typer.Option("--forecaster", help="Any of `onlinecal forecasters`, with settings: balanced:slack=1."),
    ] = "balanced",
    rounds: Annotated[
        int,
        typer.Option(
            "--rounds", min=1, help="Rounds of a game, T; a few hundred are measured in milliseconds."
        ),
    ] = 300,
    generations: Annotated[
        int, typer.Option("--generations", min=1, help="How many, with those before --resume.")
    ] = 100,
    population: Annotated[
        int, typer.Option("--population", min=1, help="Genomes that each generation keeps.")
    ] = 40,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search and of draws.")] = 0,
    draws: Annotated[
        int, typer.Option("--draws", min=1, help="A randomised forecaster is averaged over so many games.")
    ] = 1,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes; default: all cores.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the champion.")] = Path("results/search"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from what is in --out, if anything is.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Search for a sequence that is hard for a forecaster, by an evolution of genomes.

    A genome is a few words, each repeated for its share of the game: 3x1 2x01 is 111..., then 0101...;
    what counts is the exact distance to calibration over √T. The best one is kept in champion.json whenever
    there is a better one; equal options give equal champions, whatever the number of jobs. Exit code 1 if a
    proven bound was broken.

    Examples:

    [bold]onlinecal search --forecaster sign --rounds 300 --generations 100 --out results/search[/bold]

    [bold]onlinecal simulate --forecaster sign --rounds 3000 --adversary "genome:blocks=3x1 2x01"[/bold]
    """
    from onlinecal.cli.output import milestones, notices, print_json, progress, results
    from simulations.plots.champion import draw_champion
    from simulations.searching.fitness import Task
    from simulations.searching.records import read_found
    from simulations.searching.search import search as breed

    task = Task(forecaster, rounds, seed, population, draws)
    tell = milestones("generations")
    interrupted = False

    def advance(done: int, every: int, best: Found) -> None:
        bar.update(
            task_id, completed=done, description=f"generations (best {best.distance_over_root:.4f} √T)"
        )
        tell(done, every)

    with progress() as bar:
        task_id = bar.add_task("generations", total=generations)
        try:
            breed(task, generations, out, resume=resume, jobs=jobs or available_cores(), progress=advance)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted and not (out / "champion.json").is_file():
        notices().print("interrupted before anything was found")
        raise typer.Exit(INTERRUPTED)
    found = read_found(out)
    files = [out / "champion.json", draw_champion(out)]
    broken = found.broken_bounds()
    if as_json:
        print_json({"champion": found, "broken": broken, "files": [str(path) for path in files]})
    else:
        console = results()
        bound = "" if found.bound is None else f", {100 * found.distance / found.bound:.0f}% of the bound"
        console.print(
            f"{found.forecaster}, {found.rounds} rounds: distance {found.distance:.4f} = "
            f"{found.distance_over_root:.4f} √T{bound}, found in generation {found.generation}"
        )
        if found.draws > 1:
            console.print(f"The distance is a mean over {found.draws} sequences of draws.")
        console.print(f"genome: {found.genome}", soft_wrap=True)
        for line in [*broken, *map(str, files)]:
            console.print(line, soft_wrap=True)
    if interrupted:
        notices().print("interrupted: the best is kept; the same command with --resume goes on from there")
        raise typer.Exit(INTERRUPTED)
    if broken:
        raise typer.Exit(CHECK_FAILED)
