"""One game of a sweep, played and measured: by a process of this machine, or by a worker elsewhere."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import adversaries
from onlinecal.compiling import Compiled, counting
from simulations.games import extensions, players
from simulations.games.measuring import play_and_measure
from simulations.sweeps.results import Finished, PlannedGame, Store

RTOL = 0.02
"""A bracket as tight as this, relative to its upper end, is good enough for a sweep's tables and curves."""


def play_game(game: PlannedGame, store: Store, load: Sequence[str] = ()) -> Compiled:
    """Play one game, with these files loaded, and keep its result; what had to be compiled.

    A process of this machine keeps its games itself: they are safe even if the one that started it is killed.
    """
    extensions.load_all(load)
    finished, compiled = _play(game)
    store.save(game, finished)
    return compiled


def play_for(
    game: PlannedGame, digest: str, load: Sequence[str] = ()
) -> tuple[PlannedGame, Finished, Compiled]:
    """Play one game for a process elsewhere, which keeps the result under this digest.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file that the game needs is not here, or cannot be loaded; if it is not the same as over there.
    """
    here = f"the worker on {platform.node()}"
    try:
        extensions.load_all(load)
        if game.digest == digest:
            return game, *_play(game)
        raise ValueError(f"{game.forecaster} or {game.adversary} comes from other files than over there")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{here} misses what must be at the same place there: {error}") from None
    except ValueError as error:
        # among others: a process that has loaded an older state of a file cannot forget it
        raise ValueError(f"{here} cannot play: {error}; does it need a restart?") from error


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
