"""The verb `plot`: the pictures of a sweep, and whether its games kept every bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinecal.cli.errors import CHECK_FAILED


def plot(
    folder: Annotated[Path, typer.Argument(help="Folder of results that a sweep has written.")],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure", help="distance, ece, regret or trajectories; may be repeated. Default: all."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The closing summary as JSON.")] = False,
) -> None:
    """Draw a sweep's results: each picture as PNG and SVG beside a CSV of the numbers in it.

    Closes with a summary of how near the games came to their bounds; exit code 1 if any bound was broken.

    Example: [bold]onlinecal plot results/demo --figure distance[/bold]
    """
    from onlinecal.cli.output import number, print_json, progress, results, table
    from simulations.plots import SWEEP_FIGURES, draw_sweep, figure_module
    from simulations.results import Store
    from simulations.summary import broken_bounds, summarise

    names = list(dict.fromkeys(figure or SWEEP_FIGURES))
    for name in names:
        figure_module(name)
    games = Store(folder).read_table("results")
    with progress() as bar:
        pictures = [draw_sweep(folder, name) for name in bar.track(names, description="drawing")]
    summary, broken = summarise(games), broken_bounds(games)
    if as_json:
        print_json(
            {"figures": [str(path) for path in pictures], "summary": summary.to_dicts(), "broken": broken}
        )
    else:
        out = results()
        for path in pictures:
            out.print(str(path), soft_wrap=True)
        out.print()
        out.print(
            table(
                "Distance to calibration at its worst",
                ["forecaster", "games", "distance/√T", "against", "distance/guarantee", "against"],
                [
                    (
                        row["forecaster"],
                        str(row["games"]),
                        number(row["worst_over_root"]),
                        row["worst_over_root_against"],
                        number(row["worst_over_guarantee"]),
                        row["worst_over_guarantee_against"],
                    )
                    for row in summary.to_dicts()
                ],
            )
        )
        for line in broken or ["Every bound held."]:
            out.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)
