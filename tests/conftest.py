"""What tests of every folder may ask for."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# a slow or busy machine is no fault of what is tested
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long checks and benchmarks take the time that they take."""
    for item in items:
        if item.get_closest_marker("slow") or item.get_closest_marker("speed"):
            item.add_marker(pytest.mark.timeout(0))


def pytest_collection_finish() -> None:
    """A million objects are here to stay once all tests are known: collections of garbage pass them by."""
    gc.collect()
    gc.freeze()


EXTRAS = ("pandas", "pyarrow", "pyspark", "starlette", "uvicorn", "httptools", "dask", "distributed", "ray")
"""What `pip install onlinecal` does not bring, by the names they are imported by."""


class Blind:
    """A finder of modules that does not see the extras."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)


@pytest.fixture
def without_extras(monkeypatch):
    """Only the base dependencies are found, as if the extras were not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] in EXTRAS]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blind(finder) for finder in sys.meta_path])
