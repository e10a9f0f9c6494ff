"""What tests of games and of their verbs share."""

import pytest


@pytest.fixture(autouse=True)
def quick(wide_brackets, quick_pictures):
    """Distances and pictures are what most verbs spend their time on."""
