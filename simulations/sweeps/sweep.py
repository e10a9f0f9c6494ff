"""Sweeps: a whole grid of games over several processes or a cluster, each finished one kept at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

from onlinecal.compiling import Compiled
from simulations.games import players
from simulations.sweeps.clusters import Cluster, work_on
from simulations.sweeps.config import Config
from simulations.sweeps.playing import play_cell, play_for
from simulations.sweeps.pool import work
from simulations.sweeps.results import Cell, Store


def cells_of(config: Config) -> list[Cell]:
    """Every game of the grid, in the order of the tables: by forecaster, adversary, rounds, seed."""
    grid = product(config.forecasters, config.adversaries, config.rounds, config.seeds)
    return [Cell(*game, config.budget, config.checkpoints) for game in grid]


def run_sweep(
    config: Config,
    out: Path,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    compiled: Compiled | None = None,
    cluster: Cluster | None = None,
) -> int:
    """Play every game that has not been finished before.

    Parameters
    ----------
    config
        The grid.
    out
        The folder of results; what is there already is kept and counts.
    jobs
        Processes of this machine to use; 1 plays in this one.
    progress
        Called with (finished, all) at the start and whenever a game is finished.
    compiled
        Told of the loops that had to be compiled.
    cluster
        Who plays instead of processes of this one; errors as from `work_on`.

    Returns
    -------
    How many games were played. An interrupt loses the games that were being played, no others; with a
    cluster also those on their way back.
    """
    store = Store(out)
    store.write_config(config)
    cells = cells_of(config)
    waiting = [cell for cell in in_playing_order(cells) if not store.is_finished(cell)]
    done = len(cells) - len(waiting)
    if progress is not None:
        progress(done, len(cells))
    if cluster is None:
        tasks = ((cell, store, config.load) for cell in waiting)
        news = work(play_cell, tasks, min(jobs, max(len(waiting), 1)))
    else:
        news = _played_by(cluster, waiting, store, config.load)
    with closing(news):
        for one in news:
            done += 1
            if compiled is not None:
                compiled.add(one)
            if progress is not None:
                progress(done, len(cells))
    return len(waiting)


def in_playing_order(cells: list[Cell]) -> list[Cell]:
    """Short games first, and neighbours that need different compiled loops.

    A loop belongs to a forecaster's rules and an adversary; processes that start side by side then compile
    different ones, and whoever comes later finds them on disk.
    """
    specs = dict.fromkeys(cell.forecaster for cell in cells)
    rules = {spec: players.create(spec).build(1).rules for spec in specs}
    kinds = list(dict.fromkeys(rules.values()))
    turn = {
        spec: sum(rules[other] == rules[spec] for other in list(rules)[:place])
        for place, spec in enumerate(rules)
    }
    order = {id(cell): place for place, cell in enumerate(cells)}
    names = {cell.adversary: place for place, cell in reversed(list(enumerate(cells)))}
    return sorted(
        cells,
        key=lambda c: (
            c.rounds, turn[c.forecaster], names[c.adversary], kinds.index(rules[c.forecaster]), order[id(c)]
        ),
    )  # fmt: skip


def _played_by(
    cluster: Cluster, cells: Sequence[Cell], store: Store, load: Sequence[str]
) -> Generator[Compiled, None, None]:
    """The games that a cluster plays, kept as they come in: it may share no disk with this process."""
    if not cells:
        return
    with closing(work_on(cluster, play_for, ((cell, cell.digest, load) for cell in cells))) as answers:
        for cell, finished, compiled in answers:
            store.save(cell, finished)
            yield compiled
