"""The verb `plot`: the pictures of a sweep, and whether its games kept every bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onlinecal.cli.verbs import CHECK_FAILED


def plot(
    folder: Annotated[Path, typer.Argument(help="Folder of results that a sweep has written.")],
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="distance, ece, regret, trajectories, landscape or matrix; may be repeated. Default: all, "
            "the last two where T varies.",
        ),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(
            "--measure", help="Of landscape and matrix: distance (default), ece, certificate, regret."
        ),
    ] = None,
    adversary: Annotated[
        str | None,
        typer.Option(
            "--adversary", help="Of landscape: this one alone, large, each forecaster named. Default: all."
        ),
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file of your own, if the sweep was moved away from it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The closing summary as JSON.")] = False,
) -> None:
    """Draw the results of a sweep: each picture as PNG and SVG beside a CSV of the numbers in it.

    Closes with a summary of how near the games came to their bounds; exit code 1 if any bound was broken.

    Examples:

    [bold]onlinecal plot results/demo --figure distance[/bold]

    [bold]onlinecal plot results/arena --figure landscape --adversary coin --measure ece[/bold]
    """
    from onlinecal.cli.output import print_json, progress, results, table
    from onlinecal.tables import number
    from simulations.games import extensions
    from simulations.plots import GROWTH_FIGURES, draw_sweep, figure_module, sweep_figures
    from simulations.sweeps.results import Store, broken_bounds, summarise

    for name in figure or []:
        figure_module(name)
    games = Store(folder).read_table("results")
    extensions.load_all([*Store(folder).loaded(), *(load or [])])
    names = list(dict.fromkeys(figure or sweep_figures(folder)))
    if measure is not None and not set(names) & set(GROWTH_FIGURES):
        raise ValueError("--measure is for the figures landscape and matrix")
    if adversary is not None and "landscape" not in names:
        raise ValueError("--adversary is for the figure landscape")
    with progress() as bar:
        pictures = [
            draw_sweep(folder, name, measure, adversary) for name in bar.track(names, description="drawing")
        ]
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
                        *(
                            ("–", "nothing is proven")
                            if row["worst_over_guarantee"] is None
                            else (number(row["worst_over_guarantee"]), row["worst_over_guarantee_against"])
                        ),
                    )
                    for row in summary.to_dicts()
                ],
            )
        )
        for line in broken or ["Every bound held."]:
            out.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)
