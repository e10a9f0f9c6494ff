"""No steering: for states that keep a ticket only, since what they are asked about is a hint already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part

TICKET = SIZE = 3
"""Cell and forecast, as in `binary`."""


def new_steering() -> NDArray[np.float64]:
    """The state before the first round."""
    return np.zeros(SIZE)


@kernel_part
def steer(state: Any, p: float) -> float:
    """The hint."""
    return p


@kernel_part
def learn(state: Any, outcome: int) -> None:
    """Nothing."""
