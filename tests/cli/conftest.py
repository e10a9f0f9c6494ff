"""What tests of verbs share."""

import pytest


@pytest.fixture(autouse=True)
def quick(wide_brackets, quick_pictures):
    """Distances and pictures are what most verbs spend their time on."""
