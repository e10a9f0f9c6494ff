"""A Spark session on this machine, and a check that a session's workers can run what the driver sends.

The *driver* is the process that asks, the *workers* are Python processes that Spark starts, here or on other
machines. The session is Spark's, one a process; nothing is kept here. `local_session` sets two variables of
the process's environment while Spark starts, and puts them back, so no other thread may rely on them then.
Streams need the store of states that LOCAL names.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from onlinecal.texts import shown
from onlinecal.validation import check_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The class of the state store that transformWithState needs; by default Spark takes another one."""

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

CHECKS_PER_CORE = 2
"""How many tasks look at a worker, for each core, so that every core is likely to get one."""


def local_session(cores: int = 2, master: str | None = None, **conf: str) -> SparkSession:
    """A Spark session of this machine: `cores` threads, no network beyond the loopback, no web page.

    The workers run this very interpreter. State of streams is kept by RocksDB, and a shuffle has as many
    parts as there are cores.

    Parameters
    ----------
    cores
        How many threads run tasks, a whole number of at least 1.
    master
        Spark's address of what runs the tasks; None: one process on this machine, `local[cores]`.
        "local-cluster[2,1,1024]" starts two processes with a core and 1024 MiB each, as a cluster would.
    conf
        More of Spark's settings, by name: `local_session(2, **{"spark.driver.memory": "4g"})`.

    Returns
    -------
    SparkSession
        A new one; or the one that this process already has, with those of the settings that can still be
        changed. It lives until its method `stop` is called.

    Raises
    ------
    ValueError
        pyspark, pandas, pyarrow or Java is missing, or cores is not a whole number from 1 on.
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


def check_workers(spark: SparkSession) -> None:
    """Refuse a session, `spark`, whose workers cannot run this package as the driver does. Returns None.

    The driver is the Python process that calls this, the workers are those that Spark starts, perhaps on
    other machines. A small job, a few tasks on every core that the session has now, asks them whether they
    can run the driver's Python and pyarrow, and which version of this package they have. Executors that join
    later are not looked at.

    Raises
    ------
    ValueError
        A worker cannot run the driver's Python, lacks the package or has another version of it; the message
        says what differs, and what to set. Or pyspark, pandas or pyarrow is missing here.
    """
    need_pyspark()
    check_session(spark)
    import platform

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from onlinecal import __version__

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        # Spark sends this function to the workers, so it imports there what it needs
        import sys as workers_sys
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow

        for _ in batches:
            pass
        try:
            package = version("onlinecal")
        except PackageNotFoundError:
            package = "missing"
        columns = [pyarrow.array([workers_sys.executable]), pyarrow.array([package])]
        yield pyarrow.RecordBatch.from_arrays(columns, ["path", "package"])

    tasks = CHECKS_PER_CORE * _cores(spark)
    looks = spark.range(tasks, numPartitions=tasks).mapInArrow(look, "path string, package string")
    try:
        workers = {tuple(row) for row in looks.collect()}
    except (PySparkException, Py4JError) as error:
        # Spark itself refuses workers with another Python
        raise ValueError(
            f"the workers of this Spark session cannot run the driver's Python {platform.python_version()}: "
            f"{_reason(error)}. Set the environment variable PYSPARK_PYTHON to an interpreter with "
            f"onlinecal[spark] on every worker, before the session starts; here it would be {sys.executable}"
        ) from error
    for path, package in sorted(workers):
        if package != __version__:
            raise ValueError(
                f"onlinecal is {package} for the worker's Python ({path}), {__version__} for the driver: "
                f"install {__version__} there, or point PYSPARK_PYTHON to where it is"
            )


def check_session(spark: Any) -> None:
    """Refuse what is no Spark session; one of Spark Connect is of a class of its own."""
    if not callable(getattr(spark, "createDataFrame", None)):
        raise ValueError(f"spark must be a SparkSession, as local_session(), got {shown(spark)}")


def check_frame(table: Any, name: str) -> None:
    """Refuse what is no Spark data frame."""
    from pyspark.sql import DataFrame

    if not isinstance(table, DataFrame):
        kind = f"{type(table).__module__}.{type(table).__qualname__}"
        raise ValueError(
            f"{name} must be a Spark data frame, got a {kind}: make one by spark.createDataFrame"
        )


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


def _cores(spark: SparkSession) -> int:
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:  # a session of Spark Connect does not say
        return 4


def _reason(error: Exception) -> str:
    """The line of Spark's report that says what is wrong with the workers."""
    lines = [line.strip(" .") for line in str(error).splitlines() if line.strip()]
    for sign in ("[PYTHON_VERSION_MISMATCH]", "ModuleNotFoundError", "Cannot run program"):
        for line in lines:
            if sign in line:
                return line[line.index(sign) :]
    return lines[0] if lines else type(error).__name__


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
