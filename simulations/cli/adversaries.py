"""The verb `adversaries`: who there is to play against."""

from __future__ import annotations

from typing import Annotated

import typer


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
