"""The console command `onlinecal`, with the library's verbs and those of the simulations.

The group of verbs is made while modules are imported, and does not change. A verb imports what it needs when
it is called, so that the command starts at once. Names of verbs and options, exit codes and the keys of JSON
are what scripts of users rely on; panels and texts may change. Which games `usual_games` plays changes only
what `warmup` finds compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import typer

from onlinecal.cli.column import column
from onlinecal.cli.combine import combine
from onlinecal.cli.measure import measure
from onlinecal.cli.recalibrate import recalibrate
from onlinecal.cli.stream.verb import app as stream
from onlinecal.cli.verbs import Verb, Verbs
from onlinecal.cli.warmup import Step, warmup_with
from onlinecal.simulations.cli.evaluate import evaluate
from onlinecal.simulations.cli.experiment import experiment
from onlinecal.simulations.cli.simulate import adversaries, forecasters, simulate
from onlinecal.simulations.cli.sweep import plot, sweep
from onlinecal.simulations.cli.worst import worst


def usual_games() -> Iterator[Step]:
    """The short games that `warmup` compiles beside the library.

    They play every loop of the demonstration's forecasters and every step in the catalogue of adversaries.
    There are also games on recorded streams, games of several classes, and the worst of all games.
    """
    import numpy as np

    from onlinecal.adversaries import catalogue, create, create_multiclass, replay_sequence
    from onlinecal.simulations.games import players
    from onlinecal.simulations.games.measuring import play_and_measure
    from onlinecal.simulations.sweeps.plan import find_plan, read_plan
    from onlinecal.simulations.worst.enumeration import enumerate_games

    plan = read_plan(find_plan("demo"))
    recorded = replay_sequence(np.arange(50) % 2).adversary()
    known = catalogue().items()
    first, *others = (
        name for name, kind in known if not any(parameter.required for parameter in kind.parameters)
    )
    pairs = [*((name, first) for name in plan.forecasters), *(("balanced", spec) for spec in others)]
    games: list[tuple[str, Any, Any]] = [(name, create(spec, 50, seed=0), None) for name, spec in pairs]
    games.append(("balanced:window=20", recorded, None))
    games.append(("adaptive:slack=1,report=hint", recorded, np.full(50, 0.5)))
    for name, adversary, hints in games:
        played = partial(play_and_measure, players.create(name), adversary, 50, hints=hints, budget=0.1)
        yield f"{name} against {adversary.name}", played
    for name in ("simplex", "nested"):
        uniform = create_multiclass("uniform", 3, 50)
        player = players.create_player(name)
        yield f"{name} of 3 classes", partial(play_and_measure, player, uniform, 50, budget=0.1)
    yield "the worst game of balanced", partial(enumerate_games, "balanced", 3)


app = typer.Typer(
    name="onlinecal",
    cls=Verbs,
    epilog="Exit codes: 0 done, 1 a check failed, 2 the request was wrong. "
    "Results go to stdout, progress to stderr.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

YOUR_PANEL, GAMES_PANEL, MACHINE_PANEL = "Your own forecasts", "Games against adversaries", "This machine"
VERBS: dict[str, tuple[Callable[..., None], ...]] = {
    YOUR_PANEL: (measure, column, combine, evaluate, recalibrate, experiment),
    GAMES_PANEL: (simulate, sweep, plot, worst, forecasters, adversaries),
    MACHINE_PANEL: (warmup_with(usual_games),),
}
for panel, verbs in VERBS.items():
    for verb in verbs:
        app.command(verb.__name__, cls=Verb, rich_help_panel=panel)(verb)
app.add_typer(stream, name="stream", rich_help_panel=YOUR_PANEL)


def _show_version(wanted: bool) -> None:
    if wanted:
        from onlinecal import __version__

        print(f"onlinecal {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Calibrated forecasting on live streams, with a proof that runs along."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the console command."""
    app(prog_name="onlinecal")
