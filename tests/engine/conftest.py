from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One local Spark session for all tests of a process: it takes seconds to start."""
    pytest.importorskip("pyspark", reason="Spark tests need onlinecal[spark]")
    if shutil.which("java") is None:
        pytest.skip("Spark tests need Java")
    from onlinecal.engine.spark_session import local_session

    session = local_session(2)
    yield session
    session.stop()
