"""A sweep from Python: its plan in, its tables out.

Nothing is kept here: what was played is in the folder, or with `out=None` in a temporary one that goes with
the call. `plan.py` checks the plan, and the checks here are those of the other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from onlinecal.simulations.sweeps.plan import find_plan, make_plan, read_plan
from onlinecal.simulations.sweeps.playing import Workers, play_games
from onlinecal.simulations.sweeps.results import Store, SweepTables
from onlinecal.tables.writing import in_the_way
from onlinecal.texts import shown
from onlinecal.validation import check_choice, check_count

BACKENDS = ("loky", "dask", "ray")


def sweep(
    plan: Mapping[str, Any] | str | Path,
    out: str | Path | None = None,
    *,
    n_jobs: int = -1,
    backend: Literal["loky", "dask", "ray"] = "loky",
    scheduler: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepTables:
    """Play every forecaster against every adversary, for every number of rounds and every seed.

    Parameters
    ----------
    plan
        A mapping, or a TOML file of its keys; "demo" and "arena" come with the package. It must have the
        lists forecasters and adversaries (of specs, which are names, perhaps with settings, as
        "coin:bias=0.7") and rounds (of numbers T). It may have seeds (a list; [0]), budget (the effort for
        each distance; 1.0, up to three seconds), checkpoints (how many certificates of a game are recorded;
        200) and load (a list of Python files that register players of your own).
    out
        The folder, made if need be, that keeps every finished game: the same call goes on from there after an
        interrupt, and plays only what is missing if the plan has grown. `onlinecal plot` draws what is in it.
        None: nothing is kept but what comes back.
    n_jobs
        How many processes of this machine play, at least 1; -1: as many as it has cores. 1: this process.
    backend
        Who plays: "loky", processes of this machine, or "dask" or "ray". The results are the same.
    scheduler
        HOST:PORT of a Dask or Ray cluster, which has its own number of workers; None: this machine. Not with
        "loky".
    progress
        A function that is called, at the start and after each game, with the numbers of finished and of all
        games; None: nothing is told.

    Returns
    -------
    SweepTables
        Data frames of polars: results, a row for each game; trajectories, their certificates as they went on;
        rates, how fast errors grow with T.

    Raises
    ------
    ValueError
        For a plan with a key or value that cannot be, by its name; for an unknown backend, or one that is not
        installed or does not answer; for n_jobs that is neither -1 nor a whole number of at least 1; for a
        scheduler beside "loky"; for an `out` that is no path, a file, or a folder
        with a file of another's that would be replaced; for a progress that is no function.
    FileNotFoundError
        If the plan's file is not there, or one that it loads.
    ConnectionError
        If a cluster is lost. What it had finished is kept in `out`.

    Examples
    --------
    >>> from onlinecal import simulations
    >>> plan = {"forecasters": ["paper", "balanced"], "adversaries": ["coin"], "rounds": [100, 400]}
    >>> tables = simulations.sweep(plan, n_jobs=1)
    >>> tables.results.select("forecaster", "rounds").rows()
    [('paper', 100), ('paper', 400), ('balanced', 100), ('balanced', 400)]
    """
    from joblib import cpu_count

    if not isinstance(plan, (Mapping, str, Path)):
        raise ValueError(f"plan must be a mapping of keys, or the path of a TOML file, got {shown(plan)}")
    if out is not None:
        if not isinstance(out, (str, Path)):
            raise ValueError(f"out must be a folder, or None to keep nothing, got {shown(out)}")
        if (taken := in_the_way(Path(out))) is not None:
            below = "" if taken == Path(out) else f"{out}, below "
            raise ValueError(f"out must be a folder, or None to keep nothing, got {below}the file {taken}")
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be a function, or None, got {shown(progress)}")
    check_choice(backend, BACKENDS, "backend")
    jobs = cpu_count() if n_jobs == -1 else check_count(n_jobs, "n_jobs other than -1")
    if scheduler is not None and backend == "loky":
        raise ValueError(
            "scheduler needs backend 'dask' or 'ray', got 'loky', which knows this machine alone: name "
            "another backend, or leave scheduler out"
        )
    made = make_plan(plan) if isinstance(plan, Mapping) else read_plan(find_plan(str(plan)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()) if out is None else out)
        store = Store(made, folder)
        play_games(store, Workers(backend, scheduler, min(jobs, len(made.games))), progress)
        tables = store.tables()
        if out is not None:
            store.write_tables()
        return tables
