"""Dask and Ray at work through joblib: a cluster that is given by its address, or processes of this machine.

Workers need not share a disk with this process: tasks and answers travel, nothing else. A worker that would
compute other numbers, because its rules or its libraries are of another version, refuses to work.
"""

from __future__ import annotations

import platform
import threading
import warnings
from collections.abc import Callable, Generator, Iterable
from functools import cache
from typing import Any, TypeVar

from simulations.sweeps.connections import LACKING, Cluster, Connection, dask_connection, ray_connection
from simulations.sweeps.results import VERSIONED, code_digest, package_version

Answer = TypeVar("Answer")

_one_game = threading.Lock()


def work_on(
    cluster: Cluster, function: Callable[..., Answer], tasks: Iterable[tuple[Any, ...]]
) -> Generator[Answer, None, None]:
    """function(*task) for every task, on the cluster's workers, as the answers come in.

    Closing the iterator gives up what is not finished, and ends workers that were started for it.

    Raises
    ------
    ValueError
        If the cluster's package is not installed, if nobody answers at the address or there are no workers,
        and if a worker has other rules or libraries than this process.
    ConnectionError
        If the cluster is lost meanwhile, or workers keep dying over a task.
    """
    from joblib import Parallel, delayed

    mine = identity()
    connected = {"dask": dask_connection, "ray": ray_connection}[cluster.backend]
    with connected(cluster) as connection, warnings.catch_warnings():
        # whoever closes this iterator early need not be told that there were tasks left
        warnings.filterwarnings("ignore", module="joblib")
        pool = Parallel(-1, backend=_backend(connection), return_as="generator_unordered", batch_size=1)
        try:
            yield from pool(delayed(answer_as)(mine, function, *task) for task in tasks)
        except ModuleNotFoundError as error:
            raise ValueError(f"a worker of {cluster} lacks {error.name}: {LACKING}") from error
        except connection.lost as error:
            told = str(error).splitlines() or [type(error).__name__]
            raise ConnectionError(f"{cluster}: {told[0]}") from error


def answer_as(asked: dict[str, str], function: Callable[..., Answer], *task: Any) -> Answer:
    """What a worker does: function(*task), if this process is what it is asked to be; ValueError if not.

    It answers one question at a time, with one thread, however many the worker has.
    """
    mine = identity()
    if others := [f"{name} {mine[name]} for {asked[name]}" for name in asked if mine[name] != asked[name]]:
        raise ValueError(
            f"the worker on {platform.node()} has {', '.join(others)}: its numbers would be others; "
            "install the same versions there and restart it"
        )
    from threadpoolctl import threadpool_limits

    with _one_game, threadpool_limits(1):
        return function(*task)


@cache
def identity() -> dict[str, str]:
    """All of a process that numbers depend on, apart from the task: the rules of play, and versions."""
    versions = {name: package_version(name) for name in VERSIONED}
    python = ".".join(platform.python_version_tuple()[:2])
    return {"rules": f"{code_digest()[:8]} {_measured_by()[:8]}", "python": python, **versions}


def _measured_by() -> str:
    from onlinecal.compiling import source_digest
    from simulations.games import duel, families, measuring, players
    from simulations.sweeps import playing

    return source_digest(duel, families, measuring, players, playing)


def _backend(connection: Connection) -> Any:
    """The cluster as a backend of joblib.

    Not those that joblib knows as "dask" and "ray". The first waits for ever for a task whose worker died;
    the second gives no answer before the last is there, and deals tasks out in turn, whoever is free. Both
    leave it to this process to play if there is but one worker.
    """
    from joblib.parallel import ParallelBackendBase

    class Submitting(ParallelBackendBase):
        supports_retrieve_callback = True

        def effective_n_jobs(self, n_jobs: int) -> int:
            # with one, joblib would not ask for a backend
            return max(connection.slots(), 2)

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = connection.submit(func)
            future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            return out.result()

    return Submitting()
