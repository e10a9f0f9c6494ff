"""The verbs `simulate`, `forecasters` and `adversaries`: who there is to play, and games of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinecal.cli.verbs import CHECK_FAILED, warn

if TYPE_CHECKING:
    from simulations.games.measuring import Game
    from simulations.games.opponents import Opponent
    from simulations.games.players import Player


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


FORECASTERS = (
    "sign", "balanced", "nested", "adaptive", "constant", "running-mean", "drift-corrected", "foster",
    "foster-hart", "foster-vohra", "linear-optimisation", "minimax", "two-choices", "one-step-ahead",
)  # fmt: skip
"""The forecasters' names for the help, which must not wait for the forecasters themselves to be imported."""

DEFAULT_ROUNDS = 10_000
DEFAULT_FORECASTER = "balanced"
DEFAULT_FOLLOWER = "adaptive:slack=1,report=hint"


def simulate(
    forecaster: Annotated[
        list[str] | None,
        typer.Option(
            "--forecaster",
            help=f"{', '.join(FORECASTERS)}, or one of your own (--load); with options: "
            "balanced:slack=1,report=hint. May be repeated. Default: balanced; with --forecast, one that "
            "follows the hints.",
        ),
    ] = None,
    adversary: Annotated[
        str | None,
        typer.Option(
            "--adversary",
            help="Who chooses the outcomes: any of `onlinecal adversaries`, with settings: threshold:at=0.3. "
            "Default: coin.",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds", min=1, help=f"Rounds to play. Default: {DEFAULT_ROUNDS}, or the whole stream."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the adversary's draws and of the forecasters'.")
    ] = 0,
    file: Annotated[
        Path | None, typer.Option("--file", help="A real stream instead: CSV, JSON Lines or Parquet.")
    ] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="Its column of outcomes, 0/1.")] = None,
    forecast: Annotated[
        str | None, typer.Option("--forecast", help="Its column of forecasts, used as hints and compared.")
    ] = None,
    sort: Annotated[str | None, typer.Option("--sort", help="Its column to order the rounds by.")] = None,
    river: Annotated[
        str | None, typer.Option("--river", help="A dataset that comes with river instead: Phishing, ...")
    ] = None,
    budget: Annotated[
        float, typer.Option("--budget", help="Effort for the distance; 1 is about a second at most.")
    ] = 1.0,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for table and pictures.")] = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Table and pictures, in results/simulate if there is no --out.")
    ] = False,
    classes: Annotated[
        list[int] | None,
        typer.Option(
            "--classes",
            help="Games of so many classes; may be repeated. Forecasters: simplex, nested, uniform, "
            "frequencies. A --file TABLE.npz of class probabilities says it itself.",
        ),
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option("--load", help="A Python file that registers forecasters or adversaries; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Play forecasters against an adversary or a real stream, and measure how calibrated they were.

    All errors are sums over rounds. Exit code 1 if a proven bound was broken.

    Examples:

    [bold]onlinecal simulate --forecaster sign --forecaster nested --adversary threshold --rounds 9999[/bold]

    [bold]onlinecal simulate --file games.csv --outcome won --forecast probability --sort date --plot[/bold]

    [bold]onlinecal simulate --classes 3 --adversary least-likely --rounds 100000 --plot[/bold]
    """
    if classes or (file is not None and file.suffix.lower() == ".npz"):
        from simulations.games.multiclass.command import Request, simulate_multiclass

        binary = {
            "--outcome": outcome,
            "--forecast": forecast,
            "--sort": sort,
            "--load": load,
        }
        for option, value in binary.items():
            if value:
                raise ValueError(f"{option} belongs to games of two outcomes, not to --classes or .npz files")
        request = Request(classes or (), forecaster or (), adversary, rounds, seed, file, river, budget)
        folder = out or (Path("results/simulate") if plot else None)
        if not simulate_multiclass(request, folder, as_json):
            raise typer.Exit(CHECK_FAILED)
        return
    from onlinecal.cli.output import notices, print_json, results
    from onlinecal.compiling import counting
    from simulations.games import extensions, players
    from simulations.sweeps.results import comparison, machine_readable

    extensions.load_all(load or ())
    usual = DEFAULT_FORECASTER if forecast is None else DEFAULT_FOLLOWER
    chosen = [players.create(spec) for spec in forecaster or [usual]]
    if len({player.spec for player in chosen}) < len(chosen):
        raise ValueError(f"a forecaster is listed twice: {', '.join(player.spec for player in chosen)}")
    opponent = _opponent(adversary, rounds, seed, file, outcome, forecast, sort, river)
    warn(opponent.remarks)
    with counting() as compiled:
        games = _play(opponent, chosen, seed, budget)
    if compiled.notice:
        notices().print(compiled.notice)
    pictures = []
    if plot or out is not None:
        from simulations.plots.games import write_games

        pictures = write_games(games, out or Path("results/simulate"))
    measured = [game.measured for game in games]
    broken = [f"BROKEN: {text} ({one.forecaster})" for one in measured for text in one.broken_bounds()]
    if as_json:
        print_json(machine_readable(measured, broken, pictures, opponent.remarks))
    else:
        console = results()
        console.print(comparison(measured, opponent.title))
        for line in [*broken, *map(str, pictures)]:
            console.print(line, soft_wrap=True)
    if broken:
        raise typer.Exit(CHECK_FAILED)


def _opponent(
    adversary: str | None,
    rounds: int | None,
    seed: int,
    file: Path | None,
    outcome: str | None,
    forecast: str | None,
    sort: str | None,
    river: str | None,
) -> Opponent:
    """Whoever is named; ValueError if that is more than one, or an option belongs to another."""
    from simulations.games import opponents

    given = {"--adversary": adversary, "--file": file, "--river": river}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other: there is one opponent")
    if file is not None:
        if outcome is None:
            raise ValueError("--file needs --outcome, the column of outcomes")
        return opponents.from_file(file, outcome, forecast, sort, rounds)
    for option, value in (("--outcome", outcome), ("--forecast", forecast), ("--sort", sort)):
        if value is not None:
            raise ValueError(f"{option} names a column of a file: it needs --file")
    if river is not None:
        return opponents.from_river(river, rounds)
    return opponents.from_spec(adversary or "coin", rounds or DEFAULT_ROUNDS, seed)


def _play(opponent: Opponent, chosen: list[Player], seed: int, budget: float) -> list[Game]:
    """Every forecaster's game, after the measure of the recorded forecasts if the stream has them."""
    from onlinecal.cli.output import progress
    from simulations.games.measuring import measure_recorded, play_and_measure

    games = []
    with progress() as bar:
        task = bar.add_task("rounds", total=opponent.rounds * len(chosen))
        if opponent.hints is not None:
            games.append(
                measure_recorded(
                    opponent.hints, opponent.outcomes(), opponent.hints_name, opponent.name, budget=budget
                )
            )
        for player in chosen:
            bar.update(task, description=f"rounds ({player.spec})")
            games.append(
                play_and_measure(
                    player,
                    opponent.adversary,
                    opponent.rounds,
                    seed=seed,
                    hints=opponent.hints,
                    budget=budget,
                    progress=lambda played: bar.advance(task, played),
                )
            )
    return games
