"""Fixtures of the engine's tests: a Spark session, a folder on a quick disk, a ledger to be damaged."""

from __future__ import annotations

import asyncio
import inspect
import os
import random
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from onlinecal.engine import Engine
from tests.engine.fault_tools import LINES
from tests.engine.scripts import CONFIG, batches, quick_folder

# Spark runs for seconds here: its code translated once, simply, takes half the time of the best translation
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for all tests of a process: it takes seconds to start."""
    pytest.importorskip("pyspark", reason="Spark tests need onlinecal[spark]")
    if shutil.which("java") is None:
        pytest.skip("Spark tests need Java")
    from onlinecal.cli.everything import warm_engine
    from onlinecal.engine.spark import local_session

    # Spark's workers would both compile it
    warm_engine()
    session = local_session(2)
    yield session
    session.stop()


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def sound():
    """A ledger that took all of LINES, and was closed; with its answers beside it."""
    with quick_folder() as folder:
        path = folder / "sound.db"
        with Engine(path, CONFIG, hot_keys=5, states_behind=100) as engine:
            rng = random.Random(0)
            path.with_suffix(".jsonl").write_bytes(
                b"".join(engine.handle_lines(data) for data in batches(rng, LINES, 60))
            )
        yield path


@pytest.fixture
def answers(sound):
    return sound.with_suffix(".jsonl").read_bytes()


@pytest.fixture
def ledger(sound, folder):
    """A copy of the sound ledger, to be damaged."""
    return shutil.copyfile(sound, folder / "ledger.db")
