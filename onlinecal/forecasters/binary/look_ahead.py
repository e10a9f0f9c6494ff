"""The bias table of a grid machine, read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.cells import FORMAT, SCALE, TABLE, TILT
from onlinecal.forecasters.binary.grids import uniform
from onlinecal.forecasters.binary.grids.dyadic_search import END


class LookAhead(NamedTuple):
    """The charged sequence, point by point: `points` in [0, 1] ascending, `biases` alpha(point)."""

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


def look_ahead_of(memory: NDArray[np.int64]) -> LookAhead:
    """What One-Step-Ahead would have reported so far, and its bias at each point."""
    scale = int(memory[SCALE])
    if memory[FORMAT] == uniform.FORMAT_UNIFORM:
        sums = uniform.in_use(memory)[TABLE:]
        points = np.arange(len(sums)) << memory[uniform.SHIFT]
    else:
        points, sums = memory[TABLE : memory[END] : 2], memory[TABLE + 1 : memory[END] : 2]
    return LookAhead(points / scale, (sums - memory[TILT] * points) / scale)
