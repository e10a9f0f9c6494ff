"""Sweeps: a whole grid of games over several processes or a cluster, each finished one kept at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import product
from pathlib import Path

from onlinecal.compiling import Compiled
from simulations.games import players
from simulations.sweeps.config import Config
from simulations.sweeps.playing import identity, play_game
from simulations.sweeps.pool import HERE, Workers, work
from simulations.sweeps.results import PlannedGame, Store


def planned_games(config: Config) -> list[PlannedGame]:
    """Every game of the grid, in the order of the tables: by forecaster, adversary, rounds, seed."""
    grid = product(config.forecasters, config.adversaries, config.rounds, config.seeds)
    return [PlannedGame(*one, config.budget, config.checkpoints) for one in grid]


def run_sweep(
    config: Config,
    out: Path,
    workers: Workers = HERE,
    progress: Callable[[int, int], None] | None = None,
    compiled: Compiled | None = None,
) -> int:
    """Play every game that has not been finished before.

    Parameters
    ----------
    config
        The grid.
    out
        The folder of results; what is there already is kept and counts.
    workers
        Who plays; errors as from `work` and `play_game`.
    progress
        Called with (finished, all) at the start and whenever a game is finished.
    compiled
        Told of the loops that had to be compiled.

    Returns
    -------
    How many games were played. An interrupt loses the games that were being played or on their way back, no
    others: this process keeps them as they come in, and workers need share no disk with it.
    """
    store = Store(out)
    store.write_config(config)
    games = planned_games(config)
    waiting = [game for game in in_playing_order(games) if not store.is_finished(game)]
    done = len(games) - len(waiting)
    if progress is not None:
        progress(done, len(games))
    if not waiting:
        return 0
    tasks = ((game, identity(game), config.load) for game in waiting)
    with closing(work(play_game, tasks, workers)) as answers:
        for game, finished, loops in answers:
            store.save(game, finished)
            done += 1
            if compiled is not None:
                compiled.add(loops)
            if progress is not None:
                progress(done, len(games))
    return len(waiting)


def in_playing_order(games: list[PlannedGame]) -> list[PlannedGame]:
    """Short games first, and neighbours that need different compiled loops.

    A loop belongs to a forecaster's rules and an adversary; processes that start side by side then compile
    different ones, and whoever comes later finds them on disk.
    """
    specs = dict.fromkeys(game.forecaster for game in games)
    rules = {spec: players.create(spec).build(1).rules for spec in specs}
    kinds = list(dict.fromkeys(rules.values()))
    wave = {
        spec: sum(rules[other] == rules[spec] for other in list(rules)[:place])
        for place, spec in enumerate(rules)
    }
    order = {id(game): place for place, game in enumerate(games)}
    names = {game.adversary: place for place, game in reversed(list(enumerate(games)))}
    return sorted(
        games,
        key=lambda c: (
            c.rounds, wave[c.forecaster], names[c.adversary], kinds.index(rules[c.forecaster]), order[id(c)]
        ),
    )  # fmt: skip
