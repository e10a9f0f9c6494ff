"""The console command `onlinecal`: the library's verbs and those of the simulations under one roof."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from onlinecal.cli.combine import combine
from onlinecal.cli.measure import measure
from onlinecal.cli.recalibrate import app as recalibrate
from onlinecal.cli.stream.verb import app as stream
from onlinecal.cli.verbs import Verb, Verbs
from onlinecal.cli.warmup import Step, warmup_with
from simulations.cli.evaluate import evaluate
from simulations.cli.experiment import experiment
from simulations.cli.simulate import adversaries, forecasters, simulate
from simulations.cli.sweep import plot, sweep
from simulations.cli.worst import worst


def demonstration_games() -> Iterator[Step]:
    """What `warmup` compiles beside the library: a short game for each loop of the demonstration."""
    from itertools import product

    from adversaries import create
    from simulations.games import players
    from simulations.games.measuring import play_and_measure
    from simulations.sweeps.results import find_config, read_config

    config = read_config(find_config("demo"))
    known = set()
    for forecaster, spec in product(config.forecasters, config.adversaries):
        player = players.create(forecaster)
        adversary = create(spec, 50, 0)
        kind = player.build(50).rules, *((phase.step, phase.depth) for phase in adversary.phases)
        if kind not in known:
            known.add(kind)
            yield f"{forecaster} against {spec}", partial(play_and_measure, player, adversary, 50)


app = typer.Typer(
    name="onlinecal",
    cls=Verbs,
    epilog="Exit codes: 0 done, 1 a check failed, 2 the request was wrong. "
    "Results go to stdout, progress to stderr.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

YOURS, GAMES, HERE = "Your own forecasts", "Games against adversaries", "This machine"
for panel, verbs in {
    YOURS: (measure, combine, evaluate, experiment),
    GAMES: (simulate, sweep, plot, worst, forecasters, adversaries),
    HERE: (warmup_with(demonstration_games),),
}.items():
    for verb in verbs:
        app.command(verb.__name__, cls=Verb, rich_help_panel=panel)(verb)
app.add_typer(recalibrate, name="recalibrate", rich_help_panel=YOURS)
app.add_typer(stream, name="stream", rich_help_panel=YOURS)


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
