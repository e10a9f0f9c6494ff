"""Folders of shards for tests."""

from __future__ import annotations

import pytest

from onlinecal.cli.everything import warm_engine
from tests.cli.stream.events import late, stream
from tests.engine.scripts import quick_folder


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """What workers would all compile at once is there before they start."""
    warm_engine()


@pytest.fixture
def folder():
    with quick_folder() as place:
        yield place


@pytest.fixture(scope="module")
def fed():
    """A folder of three shards, and one ledger, that took the same events."""
    with quick_folder() as place:
        (place / "events.jsonl").write_bytes(late(300, keys=12))
        both = ["--workers", 3, "--ledger", place / "shards"], ["--ledger", place / "one.db"]
        for options in both:
            assert stream(*options, "--input", place / "events.jsonl").exit_code == 0
        yield place
