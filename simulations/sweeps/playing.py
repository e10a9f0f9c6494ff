"""One game of a sweep, played and measured by whichever process it is given to.

Sweeps: a whole grid of games over several processes or a cluster, each finished one kept at once.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from itertools import product
from pathlib import Path

from threadpoolctl import threadpool_limits

import adversaries
from onlinecal.compiling import Compiled, counting
from simulations.games import extensions, players
from simulations.games.measuring import play_and_measure
from simulations.sweeps.config import Config
from simulations.sweeps.pool import HERE, Workers, work
from simulations.sweeps.results import VERSIONED, Finished, PlannedGame, Store, package_version

RTOL = 0.02
"""A bracket as tight as this, relative to its upper end, is good enough for a sweep's tables and curves."""

_one_game = threading.Lock()


def identity(game: PlannedGame) -> str:
    """All that the numbers of a game depend on here: the rules, files of one's own, and libraries."""
    return f"rules {game.digest} with {_libraries()}"


@cache
def _libraries() -> str:
    python = ".".join(platform.python_version_tuple()[:2])
    return ", ".join([f"python {python}", *(f"{name} {package_version(name)}" for name in VERSIONED)])


def play_game(
    game: PlannedGame, asked: str, load: Sequence[str] = ()
) -> tuple[PlannedGame, Finished, Compiled]:
    """Play one game, with these files loaded, for a process where its identity is `asked`.

    A process plays one game at a time, with one thread, however many it has.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file that the game needs is not here, or cannot be loaded; if the identity is another one here.
    """
    here = f"the worker on {platform.node()}"
    try:
        extensions.load_all(load)
        if (mine := identity(game)) != asked:
            raise ValueError(f"it has {mine} for {asked}")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{here} misses what must be at the same place there: {error}") from None
    except ValueError as error:
        # among others: a process that has loaded another state of a file cannot forget it
        raise ValueError(f"{here} cannot play: {error}; install the same there, or restart it") from error
    with _one_game, threadpool_limits(1):
        return game, *_play(game)


def _play(game: PlannedGame) -> tuple[Finished, Compiled]:
    adversary = adversaries.create(game.adversary, game.rounds, game.seed)
    with counting() as compiled:
        played = play_and_measure(
            players.create(game.forecaster),
            adversary,
            game.rounds,
            seed=game.seed,
            budget=game.budget,
            rtol=RTOL,
            n_checkpoints=game.checkpoints,
        )
    assert played.duel is not None
    finished = Finished(
        played.measured,
        played.duel.checkpoints.tolist(),
        played.duel.certificates.tolist(),
        [players.finite(bound) for bound in played.duel.guarantees.tolist()],
    )
    return finished, compiled


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
