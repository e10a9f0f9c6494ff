"""The verbs `simulate`, `forecasters` and `adversaries`: who there is to play, and games of theirs.

The verbs have no state. The names in their JSON are what users read: fields of `Family`, of `registry.Row`,
and of `Measured`. `games/command.py` checks the request and plays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from onlinecal.cli.output import answer, table
from onlinecal.cli.verbs import EXIT_CHECK_FAILED, AsJson, Out
from onlinecal.simulations.cli import Load


def forecasters(
    load: Annotated[
        list[Path] | None,
        Option(help="A Python file that registers forecasters of your own. May be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the forecasters: what they do, the settings behind their names, what is known of them, and whence.

    Examples:

    [bold]onlinecal forecasters[/bold]

    [bold]onlinecal simulate --forecaster foster:draw=seen --adversary threshold[/bold]
    """
    from onlinecal.simulations.games import players

    players.load_all(load or ())
    rows = [
        {
            "name": family.name,
            "kind": family.kind,
            "settings": family._settings_text,
            "summary": family.summary,
            "known": family.rate,
            "source": family.source,
        }
        for family in players.catalogue().values()
    ]
    columns = ["name", "kind", "settings", "known", "source"]
    lines = [[row[name] for name in columns] for row in rows]
    words = (
        "Randomised ones keep what is known of them with draw=hidden: adversaries see the mean forecast.\n"
        "A spec is a name, or name:key=value,key=value."
    )
    answer(as_json, rows, [table(None, ["forecaster", *columns[1:]], lines, left=5), words])


def adversaries(
    several: Annotated[
        bool,
        Option("--classes", help="List those of several classes, as `onlinecal simulate --classes 3` has."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the adversaries: what they play, what they see, and the settings behind their names.

    Examples:

    [bold]onlinecal adversaries[/bold]

    [bold]onlinecal simulate --adversary threshold:at=0.3[/bold]
    """
    from onlinecal.adversaries import describe, describe_multiclass

    rows = describe_multiclass() if several else describe()
    lines = [
        (
            row["name"] + ("*" if row["needs_horizon"] else ""),
            SEES[row["power"]],
            row["parameters"],
            row["summary"],
        )
        for row in rows
    ]
    words = "* has to know the number of rounds beforehand. A spec is a name, or name:key=value,key=value."
    answer(as_json, rows, [table(None, ["adversary", "sees", "settings", "plays"], lines, left=4), words])


SEES = {
    "oblivious": "nothing",
    "adaptive": "the forecasts",
    "internal": "the certificate too",
    "mixed": "as its players",
}


DEFAULT_ROUNDS = 10_000
"""As in `games/command.py`, which decides; here it is for the words of the help, which imports no games."""


def simulate(
    forecaster: Annotated[
        list[str] | None,
        Option(
            help="Who forecasts: a name that `onlinecal forecasters` lists, or one of your own (--load), "
            "perhaps with settings, as balanced:slack=1,report=hint. May be repeated. Default: balanced; "
            "where forecasts are recorded, one that follows them."
        ),
    ] = None,
    adversary: Annotated[
        str | None,
        Option(
            help="Who chooses the outcomes: a name that `onlinecal adversaries` lists, perhaps with "
            "settings, as threshold:at=0.3. Recorded outcomes are file:path=FILE,outcome=COL,forecast=COL or "
            "river:name=Phishing. Default: coin, with --classes uniform."
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        Option(min=1, help=f"How many rounds to play. Default: {DEFAULT_ROUNDS}, or all that are recorded."),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the adversary's draws and of the forecasters'.")] = 0,
    out: Out = None,
    classes: Annotated[
        list[int] | None,
        Option(
            help="Play games of so many classes, 2 to 100, for which the forecasters are simplex (default), "
            "nested, uniform and frequencies. May be repeated. With file:path=TABLE.npz leave it out: the "
            "table says how many. Default: outcomes are 0 and 1."
        ),
    ] = None,
    load: Load = None,
    as_json: AsJson = False,
) -> None:
    """Play forecasters against an adversary or a real stream, and measure how calibrated they were.

    All errors are sums over rounds. Exit code 1 if a proven bound was broken.

    Examples:

    [bold]onlinecal simulate --forecaster paper --forecaster nested --adversary threshold --rounds 9999[/bold]

    [bold]onlinecal simulate --adversary file:path=nba,outcome=home_won,forecast=forecast --out games[/bold]

    [bold]onlinecal simulate --classes 3 --adversary least-likely --rounds 100000 --out games[/bold]

    [bold]onlinecal measure[/bold] says what forecasts in a file are worth, [bold]onlinecal evaluate[/bold]
    and [bold]onlinecal recalibrate[/bold] what recalibrating them live, or in a table, would gain.
    """
    from onlinecal.simulations.games import players
    from onlinecal.simulations.games.command import GamesAsked, simulate_games

    request = GamesAsked(classes or (), forecaster or (), adversary, rounds, seed)
    players.load_all(load or ())
    if not simulate_games(request, out, as_json):
        raise Exit(EXIT_CHECK_FAILED)
