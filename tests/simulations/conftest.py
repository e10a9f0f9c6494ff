"""What tests of games share."""

import pytest


@pytest.fixture(autouse=True)
def quick(wide_brackets):
    """A distance is what most verbs spend their time on."""
