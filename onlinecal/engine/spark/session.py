"""A Spark session on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from onlinecal.validation import check_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store that Spark's stateful processors need; Spark's own default is another one."""

LOCAL = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session that only this machine can reach, and that prints nothing but errors."""


def local_session(cores: int = 2, master: str | None = None, **conf: str) -> SparkSession:
    """A Spark session of this machine: `cores` threads, no network beyond the loopback, no web page.

    The workers run this very interpreter. State of streams is kept by RocksDB, and a shuffle has as many
    parts as there are cores.

    Parameters
    ----------
    cores
        Threads that run tasks.
    master
        Where they run; None: in one process, `local[cores]`. "local-cluster[2,1,1024]" starts two processes
        with a core and 1024 MiB each, as a cluster would.
    conf
        More of Spark's settings, by name: `local_session(2, **{"spark.driver.memory": "4g"})`.

    Returns
    -------
    SparkSession
        A new one; or the one that this process already has, with those settings that can still be changed.
        It lives until `.stop()`.

    Raises
    ------
    ValueError
        pyspark or Java is missing, or cores is not a whole number from 1 on.

    """
    need_pyspark()
    count = check_count(cores, "cores")
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        check_java()
    builder = SparkSession.builder.master(master or f"local[{count}]").appName("onlinecal")
    for name, value in {"spark.sql.shuffle.partitions": str(count), **LOCAL, **conf}.items():
        builder = builder.config(name, value)
    # Spark takes both from the environment only, and only while it starts
    with _environment(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP=LOOPBACK):
        return builder.getOrCreate()


def need_pyspark() -> None:
    """Refuse to go on without pyspark and what it needs to call Python functions."""
    for package in ("pyspark", "pandas", "pyarrow"):
        if find_spec(package) is None:
            raise ValueError(f"{package} is missing: in a checkout of onlinecal, pip install '.[spark]'")


def check_java() -> None:
    """Refuse to start Spark where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home!r}, and there is no bin/java" if home else "there is no java on the PATH"
        raise ValueError(f"Spark needs Java 17 or newer, but {where}: install it, or set JAVA_HOME")


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
