"""Dask and Ray: a cluster that is given by its address, or processes of this machine, connected to."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from operator import call
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from simulations.sweeps.pool import SpareTheWorkers

PATIENCE = 10.0
"""Seconds to wait for a scheduler, and then for its first worker."""

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a Ray of our own: games are small, Ray's default is a third of all memory."""

HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How a client of HTTP/2 begins: a fixed line and a frame of settings, of type 4, that the server returns."""

PLAYED_IN = "simulations.sweeps.clusters"
"""What a worker must be able to import."""
LACKING = "install there what is installed here, onlinecal of this version among it"


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


class Connection(NamedTuple):
    """A cluster that answers."""

    submit: Callable[[Callable[[], Any]], Any]
    """Gives a task to a worker that is free; a future, with `add_done_callback` and `result`."""
    slots: Callable[[], int]
    """How many tasks can be done at a time."""
    lost: tuple[type[BaseException], ...]
    """What futures raise when workers are lost, not when tasks fail."""


@contextmanager
def dask_connection(cluster: Cluster) -> Iterator[Connection]:
    """Dask's scheduler; errors as from `work_on`."""
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
def ray_connection(cluster: Cluster) -> Iterator[Connection]:
    """Ray's client; errors as from `work_on`."""
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
