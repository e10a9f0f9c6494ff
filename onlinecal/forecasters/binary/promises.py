"""What a forecaster promises of a memory it plays on: the bounds of `guarantees` for what its header says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary import guarantees
from onlinecal.forecasters.binary.cells import AT_HINT, FINE, FORMAT, MIDPOINT, REPORT, SCALE, STEP
from onlinecal.forecasters.binary.grids import dyadic, uniform


class Terms(NamedTuple):
    """`biases`: what the rule promises of every point's; `reach`: d, the farthest of a report, in cells."""

    biases: guarantees.Biases
    reach: float

    def _on_uniform(self, memory: NDArray[np.int64]) -> tuple[int, guarantees.Biases, bool]:
        """The cells, the bounds of biases now, and whether points without bias may accept both outcomes."""
        m, freed = int(uniform.cells_of(memory)), bool(memory[uniform.HINTED])
        return m, guarantees.with_hints(self.biases, m) if freed else self.biases, freed

    def promise(self, memory: NDArray[np.int64], rounds: int, late: int) -> float:
        """The a-priori bound on distance plus bias after so many rounds with so many forecasts late."""
        if memory[FORMAT] == uniform.FORMAT_UNIFORM:
            m, biases, freed = self._on_uniform(memory)
            unit = guarantees.unit_of(memory)
            return guarantees.uniform_guarantee(rounds, m, biases, self.reach, late, unit, freed)
        rounded = rounds / int(memory[SCALE]) if memory[dyadic.TUNED] & dyadic.SHARED else 0.0
        tuned, pace = bool(memory[dyadic.TUNED] & dyadic.TUNED_BY), int(memory[dyadic.PACE])
        return rounded + guarantees.dyadic_guarantee(rounds, pace, self.biases, self.reach, tuned, late)

    def window_promise(self, memory: NDArray[np.int64], rounds: int, late: int) -> float | None:
        """The bound on any so many consecutive rounds; None on a grid that has none."""
        if memory[FORMAT] != uniform.FORMAT_UNIFORM:
            return None
        m, biases, freed = self._on_uniform(memory)
        lengths = guarantees.window_biases(m, biases, late, freed)
        return rounds * (self.reach / m + guarantees.unit_of(memory)) + lengths

    def most_rounds(self, memory: NDArray[np.int64], late: int) -> int:
        """How many rounds the memory's accumulators bear in all, whatever comes."""
        if memory[FORMAT] == uniform.FORMAT_UNIFORM:
            step, fine = int(memory[STEP]), int(memory[FINE])
            dearest = (1 if memory[REPORT] == MIDPOINT else 2) * step * fine + int(memory[REPORT] == AT_HINT)
            if memory[uniform.SHARED]:
                dearest += fine + 1
            _, biases, _ = self._on_uniform(memory)
            return guarantees.uniform_rounds(int(memory[SCALE]), dearest, biases, late)
        tuned, pace = bool(memory[dyadic.TUNED] & dyadic.TUNED_BY), int(memory[dyadic.PACE])
        return guarantees.dyadic_rounds(pace, self.biases, self.reach, tuned, late)
