"""The verb `forecasters`: who there is to forecast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simulations.games.options import Option


def forecasters(
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file that registers forecasters of your own; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """List the forecasters: what they do, the settings of their specs, what is known of them, and from where.

    Example: [bold]onlinecal forecasters[/bold], then
    [bold]onlinecal simulate --forecaster foster:draw=seen --adversary threshold[/bold]
    """
    from onlinecal.cli.output import print_json, results, table
    from simulations.games import extensions, players

    extensions.load_all(load or ())
    rows = [
        {
            "name": family.name,
            "kind": family.kind,
            "settings": ", ".join(map(_setting, family.options)),
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


def _setting(option: Option) -> str:
    """A setting with its default; of words all that are allowed, the default first."""
    if option.choices:
        others = [word for word in option.choices if word != option.default]
        return f"{option.name}={'|'.join([str(option.default), *others])}"
    return f"{option.name}={'(not set)' if option.default is None else f'{option.default:g}'}"
