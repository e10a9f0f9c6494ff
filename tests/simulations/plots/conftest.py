"""What tests of the pictures of games share."""

import pytest


@pytest.fixture(autouse=True)
def quick(wide_brackets):
    """Pictures as they are, of distances that may be found with little work."""
