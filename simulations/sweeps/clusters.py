"""Dask and Ray at work through joblib: a cluster that is given by its address, or processes of this machine.

Workers need not share a disk with this process: tasks and answers travel, nothing else. A worker that would
compute other numbers, because its rules or its libraries are of another version, refuses to work.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from operator import call
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from simulations.sweeps.pool import SpareTheWorkers
from simulations.sweeps.results import VERSIONED, code_digest, package_version

Answer = TypeVar("Answer")

PATIENCE = 10.0
"""Seconds to wait for a scheduler, and then for its first worker."""

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a Ray of our own: games are small, Ray's default is a third of all memory."""

HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins: a fixed line and a frame of settings, of type 4, that the server returns."""

PLAYED_IN = "simulations.sweeps.clusters"
"""What a worker must be able to import."""
LACKING = "install there what is installed here, onlinecal of this version among it"

_one_game = threading.Lock()


@dataclass(frozen=True)
class Cluster:
    """Workers that are not this process's own.

    Attributes
    ----------
    backend
        Whose they are.
    address
        HOST:PORT of the scheduler, with or without a scheme in front; None starts workers on this machine
        and ends them when the work is done.
    jobs
        How many to start; a cluster that is given has the number it has.
    """

    backend: Literal["dask", "ray"]
    address: str | None = None
    jobs: int = 1

    def __str__(self) -> str:
        where = f"at {self.address}" if self.address else f"on {self.jobs} process{'es' * (self.jobs > 1)}"
        return f"{self.backend.capitalize()} {where}"


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
    connected = {"dask": _dask, "ray": _ray}[cluster.backend]
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


class Connection(NamedTuple):
    """A cluster that answers."""

    submit: Callable[[Callable[[], Any]], Any]
    """Gives a task to a worker that is free; a future, with `add_done_callback` and `result`."""
    slots: Callable[[], int]
    """How many tasks can be done at a time."""
    lost: tuple[type[BaseException], ...]
    """What futures raise when workers are lost, not when tasks fail."""


@contextmanager
def _dask(cluster: Cluster) -> Iterator[Connection]:
    _need("distributed", cluster)
    import dask
    from distributed import Client, LocalCluster
    from distributed.client import FutureCancelledError
    from distributed.core import rpc
    from distributed.scheduler import KilledWorker

    for name in ("distributed", "distributed.client"):
        # they remark on every loss and every end, also those that we want
        logging.getLogger(name).setLevel(logging.CRITICAL)
    started: Any = None
    client: Any = None
    # a compiled loop holds the interpreter, and with it the signs of life, for as long as a game takes
    with dask.config.set({"distributed.scheduler.worker-ttl": None}):
        try:
            if cluster.address is None:
                with SpareTheWorkers():
                    started = LocalCluster(
                        n_workers=cluster.jobs,
                        threads_per_worker=1,
                        memory_limit=0,
                        host="127.0.0.1",
                        # its server there may not be left out, and any port will do
                        dashboard_address="127.0.0.1:0",
                        scheduler_kwargs={"dashboard": False},
                        silence_logs=logging.CRITICAL,
                    )
                client = Client(started, set_as_default=False)
            else:
                with _no_answer(cluster):
                    _listening(cluster).close()
                    # somebody else who listens there would keep a client waiting, whatever its timeout
                    asyncio.run(asyncio.wait_for(rpc(cluster.address).identity(), PATIENCE))
                    client = Client(cluster.address, timeout=PATIENCE, set_as_default=False)
                    client.wait_for_workers(1, timeout=PATIENCE)
                # a worker that cannot import what it is sent would die of it
                for worker, spec in client.run(find_spec, PLAYED_IN, on_error="return").items():
                    if not isinstance(spec, ModuleSpec):
                        raise ValueError(f"the worker {worker} lacks {PLAYED_IN}: {LACKING}")
            yield Connection(
                lambda task: client.submit(call, task, pure=False),
                lambda: sum(client.nthreads().values()),
                (KilledWorker, FutureCancelledError),
            )
        finally:
            for each in (client, started):
                if each is not None:
                    each.close()


@contextmanager
def _ray(cluster: Cluster) -> Iterator[Connection]:
    # read when Ray is imported, or starts
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    _need("ray", cluster)
    import ray
    from ray.exceptions import RayError, RayTaskError

    class Future:
        """Ray's, but what a task raised is raised as it was."""

        def __init__(self, task: Any) -> None:
            self.future = remote.remote(task).future()

        def add_done_callback(self, callback: Callable[[Any], None]) -> None:
            self.future.add_done_callback(lambda _: callback(self))

        def result(self) -> Any:
            try:
                return self.future.result()
            except RayTaskError as error:
                raise error.cause from None

    quiet = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    # Ray prints what became of its workers, and stdout is for results
    with redirect_stdout(sys.stderr):
        try:
            if cluster.address is None:
                own = {"num_cpus": cluster.jobs, "object_store_memory": OBJECT_STORE}
                ray.init(address="local", include_dashboard=False, **own, **quiet)
            else:
                with _no_answer(cluster):
                    _must_speak_http2(cluster)
                    ray.init(address=cluster.address, **quiet)
            # a function of Python's own would not do, one of ours must not be imported by workers without it
            remote = ray.remote(num_cpus=1)(lambda task: task())
            yield Connection(Future, lambda: int(ray.cluster_resources().get("CPU", 1)), (RayError,))
        finally:
            ray.shutdown()


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


def _need(package: str, cluster: Cluster) -> None:
    try:
        import_module(package)
    except ImportError as error:
        message = f"--backend {cluster.backend} needs {package}: pip install 'onlinecal[cluster]'"
        raise ValueError(message) from error


def _listening(cluster: Cluster) -> socket.socket:
    """A connection to the address: whether there is one is known sooner than a cluster's client says it."""
    address = str(cluster.address)
    parts = urlsplit(address if "//" in address else f"//{address}")
    if not parts.hostname or not parts.port:
        raise ValueError("--scheduler must be HOST:PORT or SCHEME://HOST:PORT")
    return socket.create_connection((parts.hostname, parts.port), PATIENCE)


def _must_speak_http2(cluster: Cluster) -> None:
    """A ValueError if whoever listens is not of Ray's kind, which Ray's client takes minutes to notice."""
    with _listening(cluster) as connection:
        connection.sendall(HTTP2_GREETING)
        answer = connection.recv(9)
    if answer[3:4] != b"\x04":
        raise ValueError("it is not Ray that listens there")


@contextmanager
def _no_answer(cluster: Cluster) -> Iterator[None]:
    """Whatever goes wrong while connecting becomes a ValueError that names the address."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"no answer from {cluster}: {str(error) or type(error).__name__}") from error
