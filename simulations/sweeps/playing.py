"""Plays the games of a sweep by several processes or a cluster, and keeps each finished game at once.

`work` runs any function over tasks by any backend. Only the process that calls `play_games` writes results.

A sweep is played in this order (`play_games`): the plan is written beside the results; every game that the
store lacks becomes a task, with the identity of its code; workers play tasks in any order (`play_game`), and
refuse one whose identity is another with them; each answer is kept as soon as it is back. All that a game
depends on is in its task and its identity, also the files that a worker has loaded. So a game that was lost
is played again, by anybody, with the same numbers but for `seconds`.

RTOL and the order of arguments of `play_and_measure` are part of results; the other numbers here are about
waiting. What `play_game` takes and returns is pickled between processes of the same version.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import onlinecal.adversaries as adversaries
from onlinecal.compiling import Compiled, counting
from onlinecal.measures.distance.shares_of_compiling import SHARES
from onlinecal.simulations.games import players
from onlinecal.simulations.games.measuring import play_and_measure
from onlinecal.simulations.sweeps.plan import Plan, PlannedGame
from onlinecal.simulations.sweeps.results import Finished, Store, versions
from onlinecal.threads import one_thread

Answered = TypeVar("Answered")

IDLE_SECONDS = 20
"""A worker process ends after this many seconds without work, also if this process was killed."""

SECONDS_TO_CONNECT = 10.0
"""How many seconds to wait for a scheduler, and then for its first worker."""

START_AGAIN = "see that its workers run, and start again; games that are in the folder of results are kept"

SECONDS_UNTIL_LOST = 3600.0
"""Dask's workers count as lost after this many seconds without an answer: joblib is not told that they
died."""

OBJECT_STORE_BYTES = 100 * 2**20
"""Bytes of shared memory for a Ray that is started here: Ray would take a third of all memory."""


@dataclass(frozen=True)
class Workers:
    """The workers: processes of this machine, or those of a cluster.

    `address` is HOST:PORT of a cluster's scheduler, with or without a scheme in front. None starts `jobs`
    processes on this machine, and ends them when the work is done. With one job loky works in this process.
    """

    backend: Literal["loky", "dask", "ray"] = "loky"
    address: str | None = None
    jobs: int = 1

    def __str__(self) -> str:
        started = f"{self.jobs} process{'es' * (self.jobs > 1)}"
        if self.backend == "loky":
            return started
        return f"{self.backend.capitalize()} {f'at {self.address}' if self.address else f'on {started}'}"


def work(
    function: Callable[..., Answered],
    tasks: Iterable[tuple[Any, ...]],
    workers: Workers,
    ordered: bool = False,
) -> Generator[Answered, None, None]:
    """Yields function(*task) for every task as answers come in, or in the order of the tasks (loky and Dask).

    Closing the iterator gives up tasks that are not finished, and ends workers that were started for it.

    Raises
    ------
    ValueError
        If the backend's package is not installed, if nothing answers at the address, or there are no workers.
    ConnectionError
        If the cluster is lost during the work.
    """
    from joblib import Parallel, delayed

    connected = {"loky": _loky, "dask": _dask, "ray": _ray}[workers.backend]
    with connected(workers) as settings, warnings.catch_warnings():
        # if the iterator is closed early, joblib would warn of the tasks that are left
        warnings.filterwarnings("ignore", module="joblib")
        return_as = "generator" if ordered else "generator_unordered"
        pool = Parallel(**settings, return_as=return_as, batch_size=1)
        with spare_the_workers():
            answers = pool(delayed(function)(*task) for task in tasks)
        yield from answers


@contextmanager
def _loky(workers: Workers) -> Iterator[dict[str, Any]]:
    try:
        yield {"backend": "loky", "n_jobs": workers.jobs, "idle_worker_timeout": IDLE_SECONDS}
    except KeyboardInterrupt:
        from joblib.externals.loky import get_reusable_executor

        if workers.jobs > 1:
            # an interrupt stops running tasks at once
            get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


@contextmanager
def _dask(workers: Workers) -> Iterator[dict[str, Any]]:
    _need("distributed", workers)
    import multiprocessing

    import dask
    from distributed import Client, LocalCluster
    from distributed.core import rpc
    from joblib import parallel_config

    for name in ("distributed", "distributed.client"):
        # these loggers report every lost and every ended worker, also those that are ended on purpose
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # a compiled loop holds the interpreter for as long as a game takes, so a worker cannot send signs of life
    with dask.config.set({"distributed.scheduler.worker-ttl": None}), ExitStack() as stack:
        if workers.address is None:
            with spare_the_workers():
                cluster = LocalCluster(
                    n_workers=workers.jobs,
                    threads_per_worker=1,
                    memory_limit=0,
                    host="127.0.0.1",
                    # the dashboard's server is needed even without a dashboard; it takes any free port
                    dashboard_address="127.0.0.1:0",
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=logging.CRITICAL,
                )
            stack.enter_context(cluster)
            client = stack.enter_context(Client(cluster, set_as_default=False))
        else:
            with _no_answer(workers):
                # if another program listens there, a client would wait for ever, whatever its timeout
                asyncio.run(asyncio.wait_for(rpc(workers.address).identity(), SECONDS_TO_CONNECT))
                client = Client(workers.address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
                stack.enter_context(client)
                client.wait_for_workers(1, timeout=SECONDS_TO_CONNECT)
            # joblib would wait for ever for a worker that cannot import the tasks
            for worker, spec in client.run(find_spec, __package__).items():
                if spec is None:
                    raise ValueError(f"the worker {worker} lacks onlinecal: install the same version there")
        with parallel_config("dask", client=client):
            try:
                yield {"n_jobs": -1, "timeout": SECONDS_UNTIL_LOST}
            except multiprocessing.TimeoutError as error:
                raise ConnectionError(
                    f"{workers}: no answer within {SECONDS_UNTIL_LOST:.0f} s: {START_AGAIN}"
                ) from error


@contextmanager
def _ray(workers: Workers) -> Iterator[dict[str, Any]]:
    # Ray reads this when it is imported or started
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    _need("ray", workers)
    import ray
    from ray.exceptions import RayError
    from ray.util.joblib.ray_backend import RayBackend

    class Unordered(RayBackend):
        # Ray's answers come one by one, but it inherits from a backend of joblib that says they do not
        supports_return_generator = True

    quiet = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    # Ray prints messages about its workers, but stdout is for results
    with redirect_stdout(sys.stderr):
        try:
            if workers.address is None:
                own = {"num_cpus": workers.jobs, "object_store_memory": OBJECT_STORE_BYTES}
                ray.init(address="local", include_dashboard=False, **own, **quiet)
            else:
                with _no_answer(workers):
                    ray.init(address=workers.address, **quiet)
            yield {"backend": Unordered(), "n_jobs": -1}
        except RayError as error:
            lines = str(error).splitlines() or [type(error).__name__]
            raise ConnectionError(f"{workers}: {lines[0].rstrip('.')}: {START_AGAIN}") from error
        finally:
            ray.shutdown()


def _need(package: str, workers: Workers) -> None:
    try:
        import_module(package)
    except ImportError as error:
        needed = f"--backend {workers.backend} needs {package}"
        raise ValueError(f"{needed}: in a checkout of onlinecal, pip install '.[cluster]'") from error


@contextmanager
def _no_answer(workers: Workers) -> Iterator[None]:
    """Any error inside the block, while connecting, becomes a ValueError that names the address.

    ValueError, too, for what is no address.
    """
    address = str(workers.address)
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise ValueError(f"scheduler must be HOST:PORT or SCHEME://HOST:PORT, got {address!r}")
    try:
        # a plain connection fails sooner than a cluster's client
        socket.create_connection((host, port), SECONDS_TO_CONNECT).close()
        yield
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ValueError(
            f"scheduler must answer, got none from {workers} ({reason}): check the address, and that the "
            "scheduler runs and has a worker"
        ) from error


@contextmanager
def spare_the_workers() -> Iterator[None]:
    """Processes that are started inside the block ignore interrupts, which are left to their parent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


RTOL = 0.02
"""A bracket as tight as this, relative to its upper end, is good enough for a sweep's tables and curves."""

MANY_GAMES = 50
"""So many games need all kernels of measures; with fewer, some may not be needed at all."""

_one_game = threading.Lock()


def identity(game: PlannedGame) -> str:
    """A text with everything that the numbers of a game depend on: code, one's own files, and libraries."""
    # the last part of Python's version is left out: it changes no number
    python = versions()["python"].rpartition(".")[0]
    return f"rules {game.digest} with {', '.join(map(' '.join, {**versions(), 'python': python}.items()))}"


def play_game(
    game: PlannedGame, asked: str, load: Sequence[str] = ()
) -> tuple[PlannedGame, Finished, Compiled]:
    """Play one game, with these files loaded, for a process in which its identity is `asked`.

    A process plays one game at a time, with one thread.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file that the game needs is not here or cannot be loaded, or if the identity differs here.
    """
    here = f"the worker on {platform.node()}"
    try:
        players.load_all(load)
        if (own_identity := identity(game)) != asked:
            raise ValueError(f"it has {own_identity} in place of {asked}")
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{here} lacks a file that must have the same path there: {error}") from None
    except ValueError as error:
        # one reason is that a process has loaded an earlier state of a file, which it cannot forget
        raise ValueError(f"{here} cannot play: {error}; install the same there, or restart it") from error
    with _one_game, one_thread(None), counting() as compiled:
        played = play_and_measure(
            players.create(game.forecaster),
            adversaries.create(game.adversary, game.rounds, seed=game.seed),
            game.rounds,
            seed=game.seed,
            budget=game.budget,
            rtol=RTOL,
            n_checkpoints=game.checkpoints,
        )
    duel = played.duel
    assert duel is not None
    guarantees = [players.none_for_nan(bound) for bound in duel.guarantees.tolist()]
    course = duel.checkpoints.tolist(), duel.certificates.tolist(), guarantees
    return game, Finished(played.measured, *course), compiled


def play_games(
    store: Store,
    workers: Workers = Workers(),
    progress: Callable[[int, int], None] | None = None,
    compiled: Compiled | None = None,
) -> int:
    """Play every game of a plan that is not in its store yet, and keep it there.

    `progress` is called with (finished, all) at the start and whenever a game is finished; `compiled` is told
    of the loops that had to be compiled. Errors are those of `work` and `play_game`. An interrupt loses the
    games that were being played or on their way back, no others: this process keeps them as they come in, and
    workers need share no disk with it.

    Returns
    -------
    How many games were played.
    """
    store.write_plan()
    plan = store.plan
    waiting = [game for game in in_playing_order(plan) if game not in store.finished]
    if progress is not None:
        progress(len(store.finished), len(plan.games))
    if not waiting:
        return 0
    if len(waiting) >= MANY_GAMES and workers.jobs > 1 and workers.backend == "loky":
        with closing(work(compile_share, [(0,), (1,)], workers)) as shares:
            for loops in shares:
                if compiled is not None:
                    compiled.add(loops)
    tasks = ((game, identity(game), plan.load) for game in waiting)
    with closing(work(play_game, tasks, workers)) as answers:
        for game, finished, loops in answers:
            store.keep(game, finished)
            if compiled is not None:
                compiled.add(loops)
            if progress is not None:
                progress(len(store.finished), len(plan.games))
    return len(waiting)


def compile_share(number: int) -> Compiled:
    """Have a share of the measures' kernels compiled, so that no two processes compile the same ones."""
    with _one_game, counting() as compiled:
        SHARES[number]()
    return compiled


def in_playing_order(plan: Plan) -> list[PlannedGame]:
    """The games in the order of playing: short ones first, neighbours with different players on both sides.

    So processes that start at the same time compile different loops, and later games find them on disk.
    """

    def turn(game: PlannedGame) -> tuple[int, int, int]:
        apart = plan.adversaries.index(game.adversary) - plan.forecasters.index(game.forecaster)
        return game.rounds, apart % len(plan.adversaries), plan.seeds.index(game.seed)

    return sorted(plan.games, key=turn)
