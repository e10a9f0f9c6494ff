"""What an adversary of several classes is made of: a step function, a state array, and a kind.

The step function is a plain module-level function

    step(state, t, forecast, rises, u) -> the number of a class, 0 to k - 1

decorated with ``numba.extending.register_jitable``. Its arguments:

    state      float64 array [parameters..., memory...], changed in place
    t          the round, counted from 0 within the phase that is being played
    forecast   the class probabilities just announced, float64, shape (k,); not to be changed
    rises      how much the forecaster's certificate would rise for each outcome, float64, shape (k,); zeros
               unless the phase is internal
    u          this round's uniform draw in [0, 1), the only randomness there is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.protocol import AnyKind, Build, Phase, State

Floats = NDArray[np.float64]
Step = Callable[[State, int, Floats, Floats, float], int]

MOST_CLASSES = 1000
"""Adversaries of more classes are not made."""

MOST_ROUNDS = 1e9
"""Largest whole number a parameter may be."""


@dataclass(frozen=True)
class MulticlassKind(AnyKind):
    """One kind of adversary of several classes, as the catalogue has it, with the fields of `AnyKind`."""

    step: Step | None = None
    initial: Callable[[Mapping[str, Any], int, int | None], State] | None = None
    compose: Callable[[Mapping[str, Any], int, int | None, Build], tuple[Phase, ...]] | None = None
