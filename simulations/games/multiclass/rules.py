"""What a forecaster of several classes must have to be played in a compiled loop; the simplex machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.simplex import machine as simplex
from onlinecal.forecasters.simplex import report as simplex_report
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.forecasters.simplex.table import CLASSES, HERE, REPORT, SCALE, STEP

Floats = NDArray[np.float64]


class MulticlassRules(NamedTuple):
    """The functions of a forecaster, all to be compiled; `memory` is one flat array.

    has_room(memory) -> bool: whether one more round may be played on this memory.
    announce(memory, hint, forecast) -> frame: write the forecast, shape (k,); an empty hint is none. The
    frame is a number that the other two take.
    rises(memory, frame, forecast, rises): write how much the certificate would rise for each outcome.
    settle(memory, frame, forecast, outcome, charged): settle the round; write the point it is charged to.
    """

    has_room: Callable[..., bool]
    announce: Callable[..., int]
    rises: Callable[..., None]
    settle: Callable[..., None]


class MulticlassForecaster(Protocol):
    """A forecaster of k classes as the duel sees it."""

    rules: MulticlassRules

    @property
    def memory(self) -> NDArray[Any]:
        """Its state, changed in place by the rules."""

    @property
    def certificate(self) -> float:
        """What it can prove of its distance to calibration so far, a sum; NaN if nothing."""

    def grow(self) -> None:
        """Make room for at least one more round."""

    def promise(self, rounds: int) -> float:
        """What the certificate cannot exceed after so many rounds; NaN if nothing is promised."""


class SimplexPlayer:
    """SimplexAlmostOneStepAhead with the classes 0, ..., k - 1 known in advance.

    Parameters
    ----------
    n_classes, n_cells, horizon, slack, report
        As for `SimplexAlmostOneStepAhead`.

    Attributes
    ----------
    run
        The forecaster's run.
    """

    def __init__(
        self,
        n_classes: int,
        n_cells: int | None = None,
        horizon: int | None = None,
        slack: float | None = None,
        report: str = "barycentre",
    ) -> None:
        self.run = SimplexRun(tuple(range(n_classes)), n_cells, horizon, slack, report == "hint")
        self.rules = SIMPLEX

    @property
    def memory(self) -> NDArray[np.int64]:
        """The machine's state."""
        return self.run.memory

    @property
    def n_cells(self) -> int:
        """m of the present grid."""
        return int(self.memory[SCALE] // self.memory[STEP])

    @property
    def certificate(self) -> float:
        """The forecaster's certificate."""
        return simplex.certificate(self.memory)

    def grow(self) -> None:
        """Go on to the next grid if that is due, and enlarge the table if it is full."""
        self.run.make_room()

    def promise(self, rounds: int) -> float:
        """The guarantee after so many rounds."""
        return float(self.run.promise(rounds))


@kernel_part
def announce(memory: NDArray[np.int64], hint: Floats, forecast: Floats) -> int:
    """The barycentre of the current cell, or of one near the hint, or the hint moved into that."""
    frame = memory[HERE]
    if len(hint) > 0:
        simplex.aim(memory, hint)
        frame = simplex.propose(memory)
        if memory[REPORT] == 1:
            simplex_report.move_inside(memory, frame, hint, forecast)
            return frame
    units = memory[CLASSES] * memory[SCALE]
    for c in range(len(forecast)):
        forecast[c] = memory[frame + 1 + c] / units
    return frame


@kernel_part
def rises(memory: NDArray[np.int64], frame: int, forecast: Floats, rising: Floats) -> None:
    """How much each outcome would raise the certificate."""
    for c in range(len(rising)):
        rising[c] = simplex.rise(memory, frame, c)


@kernel_part
def settle(memory: NDArray[np.int64], frame: int, forecast: Floats, outcome: int, charged: Floats) -> None:
    """Charge the round to the vertex that is labelled with the outcome."""
    k, i = memory[CLASSES], simplex.vertex_of(memory, frame, outcome)
    x = simplex_report.vertices_of(memory, frame) + i * k
    for c in range(k):
        charged[c] = memory[x + c] / memory[SCALE]
    if memory[REPORT] == 1 and frame != memory[HERE]:
        moved = simplex_report.way_to(memory, frame, i, forecast)
        simplex.charge_vertex(memory, frame, i, outcome, moved)
    else:
        simplex.charge(memory, frame, outcome)


SIMPLEX = MulticlassRules(simplex.has_room, announce, rises, settle)
"""The rules of the simplex machine."""
