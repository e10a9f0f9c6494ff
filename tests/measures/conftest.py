"""What tests of measures share."""

import math

import pytest


@pytest.fixture(scope="module")
def errors_only():
    """The cumulative error comes without its p-value, which nobody asks for here and which takes longer."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("onlinecal.measures.scores.p_value_of_range", lambda *_: math.nan)
        yield
