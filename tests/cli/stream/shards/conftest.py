"""Folders of shards for tests."""

from __future__ import annotations

import pytest

from onlinecal.cli.everything import warm_engine
from tests.engine.scripts import quick_folder


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """What workers would all compile at once is there before they start."""
    warm_engine()


@pytest.fixture
def folder():
    with quick_folder() as place:
        yield place
