"""The verbs `forecasters` and `adversaries`: who there is to forecast, and to play against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def forecasters(
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file that registers forecasters of your own; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the forecasters: what they do, the settings behind their names, what is known of them, and whence.

    Examples:

    [bold]onlinecal forecasters[/bold]

    [bold]onlinecal simulate --forecaster foster:draw=seen --adversary threshold[/bold]
    """
    from onlinecal.cli.output import print_json, results, table
    from simulations.games import extensions, players

    extensions.load_all(load or ())
    rows = [
        {
            "name": family.name,
            "kind": family.kind,
            "settings": family.settings_text,
            "summary": family.summary,
            "known": family.rate,
            "source": family.source,
        }
        for family in players.catalogue().values()
    ]
    if as_json:
        print_json(rows)
        return
    out = results()
    columns = ["name", "kind", "settings", "known", "source"]
    lines = [[row[name] for name in columns] for row in rows]
    out.print(table(None, ["forecaster", *columns[1:]], lines, left=5))
    out.print(
        "Randomised ones keep what is known of them with draw=hidden: adversaries see the mean forecast.\n"
        "A spec is a name, or name:key=value,key=value."
    )


def adversaries(
    several: Annotated[
        bool, typer.Option("--classes", help="Those of games of several classes, as of simulate --classes 3.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the adversaries: what they play, what they see, and the settings behind their names.

    Examples:

    [bold]onlinecal adversaries[/bold]

    [bold]onlinecal simulate --adversary threshold:at=0.3[/bold]
    """
    from adversaries import describe, describe_multiclass
    from onlinecal.cli.output import print_json, results, table

    rows = describe_multiclass() if several else describe()
    if as_json:
        print_json(rows)
        return
    lines = [
        (
            row["name"] + ("*" if row["needs_horizon"] else ""),
            SEES[row["power"]],
            row["parameters"],
            row["summary"],
        )
        for row in rows
    ]
    out = results()
    out.print(table(None, ["adversary", "sees", "settings", "plays"], lines, left=4))
    out.print("* has to know the number of rounds beforehand. A spec is a name, or name:key=value,key=value.")


SEES = {
    "oblivious": "nothing",
    "adaptive": "the forecasts",
    "internal": "the certificate too",
    "mixed": "as its players",
}
