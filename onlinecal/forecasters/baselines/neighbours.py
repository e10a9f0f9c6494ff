"""Forecasters that choose between two neighbouring grid points, one that leans up and one that leans down.

Walk the grid from 0 to 1: the first point cannot lean down, the last cannot lean up. So there is a point
that leans neither way, which may be forecast as it is, or two neighbours that lean towards each other.
Foster draws one of the two; so do Foster and Hart, but for them every error counts, however small, and
leans are average errors; Gupta and Ramdas, who answer after the outcome, pick the one that it suits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onlinecal.forecasters.baselines.grid import GridBaseline, hedge, lean, mean_error
from onlinecal.forecasters.baselines.mixing import SETTINGS, Memory, mixing_rules, new_memory, play_one
from onlinecal.forecasters.binary.cells import inlined

HERE = SETTINGS
"""Where the last mixture was: the search starts from there."""


def between_neighbours(leaning: Callable[[Memory, int], float]) -> Callable[[Memory], None]:
    """The mixture of the nearest point that does not lean, or of two that lean towards each other."""

    @inlined
    def mix(memory: Memory) -> None:
        here = int(memory[HERE])
        mine = leaning(memory, here)
        while mine > 0.0:
            above = leaning(memory, here + 1)
            if above < 0.0:
                break
            here, mine = here + 1, above
        while mine < 0.0:
            here, mine = here - 1, leaning(memory, here - 1)
        memory[HERE] = here
        if mine == 0.0:
            play_one(memory, here)
        else:
            hedge(memory, here, mine, leaning(memory, here + 1))

    return mix


class FosterForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average outcomes are more than half a cell off.

    While the draws are hidden, E[ECE] <= T/(2m) + sqrt((m + 1) T), about 1.5 T^(2/3) at m = T^(1/3): the
    sum over points of the squared lean grows by at most 1 a round in expectation.

    References
    ----------
    Foster (1999). A proof of calibration via Blackwell's approachability theorem. Games and Economic
    Behavior 29, 73-78.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (HERE,)


class FosterHartForecaster(GridBaseline):
    """Draws between neighbouring grid points whose average errors differ in sign: hedging the forecast.

    Like Foster's, but without a tolerance: every error is worked off. While the draws are hidden,
    E[ECE] <= T/(2m) + sqrt((m + 1) T (1 + log(T/(m + 1)))): the sum over points of (average error)^2 times
    rounds grows in expectation by at most 1/(4m^2) a round, and by 1/n the nth time a point is drawn.

    References
    ----------
    Foster and Hart (2021). Forecast hedging and calibration. Journal of Political Economy 129, 3447-3490.
    """

    machine = mixing_rules(between_neighbours(mean_error))
    places = (HERE,)

    def expected_ece(self, rounds: int) -> float:
        """T/(2m) + sqrt((m + 1) T (1 + log(T/(m + 1)))), the logarithm being 0 if T is less than m + 1."""
        m = self.n_points - 1
        logarithm = math.log(max(1.0, rounds / (m + 1)))
        return rounds / (2 * m) + math.sqrt((m + 1) * rounds * (1.0 + logarithm))


class PowerOfTwoChoices(GridBaseline):
    """A reference that names two neighbouring points, looks at the outcome, and answers with one of them.

    No forecaster, since it peeks: without any draw its ECE is at most T/(2m) + m + 1, about sqrt(2T) with
    m = sqrt(T/2). `replay` gives its answers; `predict_proba_one`, which must speak before the outcome, the
    mean of the two points.

    References
    ----------
    Gupta and Ramdas (2022). Faster online calibration without randomization: interval forecasts and the
    power of two choices. COLT.
    """

    machine = mixing_rules(between_neighbours(lean))
    places = (HERE,)
    randomised = False

    def __init__(self, horizon: int = 10_000, n_cells: int | None = None) -> None:
        super().__init__(horizon, n_cells)

    def _suitable_cells(self, horizon: int) -> int:
        return max(1, round(math.sqrt(horizon / 2)))

    def _memory(self, m: int) -> Any:
        return new_memory(np.arange(m + 1) / m, peeks=True)

    def expected_ece(self, rounds: int) -> float:
        """Nothing is drawn: as `promise`."""
        return self.promise(rounds)

    def promise(self, rounds: int) -> float:
        """T/(2m) + m + 1: the ECE of the answers cannot exceed it, a sum."""
        m = self.n_points - 1
        return rounds / (2 * m) + m + 1
