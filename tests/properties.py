"""How much of a property is tried by default; `-m slow` and `--hypothesis-profile=thorough` try the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

FEWEST, ALL = 15, 100
"""Examples that are tried in any case, if the property does not ask for fewer; of so many, by profile."""


def load_profiles() -> None:
    """A slow or busy machine is no fault of what is tested."""
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    for name, share in (("any machine", ALL // 5), ("thorough", ALL)):
        settings.register_profile(name, patient, max_examples=share)
    settings.load_profile("any machine")


def examples(most: int) -> int:
    """How many of so many examples the profile tries."""
    return max(min(most, FEWEST), most * settings().max_examples // ALL)


def one_in(n: int, *columns: Sequence[Any]) -> list[Any]:
    """The parameters of all choices of a value from each column; by default one in n of them, in turn.

    A value comes by default if another column, or two together, have n values or more.
    """
    tried = []
    for chosen in product(*map(enumerate, columns)):
        places, values = zip(*chosen, strict=True)
        tried.append(pytest.param(*values, marks=pytest.mark.slow if sum(places) % n else ()))
    return tried


def inside(forecasts: Any) -> NDArray[np.float64]:
    """Forecasts a little within [0, 1]: beside shares those that are all 0 or 1 are refused as swapped."""
    return np.clip(forecasts, 1e-15, 1.0 - 1e-15)
