"""Where a test of `onlinecal stream` has its ledger and its events."""

import pytest


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "events.jsonl"
