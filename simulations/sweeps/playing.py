"""One game of a sweep, played and measured by whichever process it is given to."""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from functools import cache

from threadpoolctl import threadpool_limits

import adversaries
from onlinecal.compiling import Compiled, counting
from simulations.games import extensions, players
from simulations.games.measuring import play_and_measure
from simulations.sweeps.results import VERSIONED, Finished, PlannedGame, package_version

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
