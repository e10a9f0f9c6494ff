"""The run of a simplex forecaster: its memory, the classes met so far, and the grids it was played on.

What the memory of a simplex run says: the charged points, their biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.forecasters.simplex.account import NEWCOMER, Cell
from onlinecal.forecasters.simplex.fitted import Fitted
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.input import MOST_CLASSES, check_label, class_of
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine import windows
from onlinecal.forecasters.simplex.machine.cells import cell_size
from onlinecal.forecasters.simplex.machine.compiled import MACHINE
from onlinecal.forecasters.simplex.machine.rules import RULES
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    CLASSES,
    HERE,
    LIMIT,
    POINT,
    ROUNDS,
    SCALE,
    SUMS,
    units,
)
from onlinecal.forecasters.simplex.soft import play_soft, settle_soft
from onlinecal.forecasters.simplex.soundness import check_account, check_simplex_memory, check_tuning
from onlinecal.forecasters.simplex.tuning import allowance, spare

Memory = NDArray[np.int64]


def charged_points(memory: Memory) -> tuple[Floats, Floats]:
    """The points charged so far and their biases, both of shape (V, k)."""
    if not len(memory):
        return np.empty((0, 0)), np.empty((0, 0))
    k, scale, table = int(memory[CLASSES]), int(memory[SCALE]), memories.records_of(memory)
    return table[:, POINT : POINT + k] / scale, table[:, POINT + k :] / scale


def lp_norm(values: Floats, p: float) -> float:
    """The l_p norm of all entries, without overflow or underflow of the powers."""
    largest = float(values.max())
    if largest == 0.0 or np.isinf(p):
        return largest
    return largest * float(((values / largest) ** p).sum()) ** (1.0 / p)


class SimplexLookAhead(NamedTuple):
    """The charged sequence, point by point: `points` and `biases` alpha(point), both of shape (V, k)."""

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


class SimplexRun(Fitted):
    """Plays the machine, lets its memory grow, changes the grid when it is due, and takes in new classes.

    The river class, the engine's lanes and the duels are faces of it.
    """

    rules = RULES

    def __init__(
        self,
        classes: tuple[Any, ...],
        n_cells: int | None,
        horizon: int | None,
        slack: float | None,
        report: str | None = None,
        hints: bool = False,
        tuned: bool = False,
        window: int | None = None,
    ) -> None:
        super().__init__(classes, n_cells, horizon, slack, report, hints, tuned, window)
        self.memory: NDArray[np.int64] = np.zeros(0, np.int64)
        if classes:
            self._fit(len(classes))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.check()

    def check(self) -> None:
        """ValueError unless compiled code can play on what this run was given from outside."""
        if len(self.numbers) or len(self.memory):
            parameters = self.n_cells, self.horizon or self.window, self.slack, self.fixed, self.report
            check_simplex_memory(self.memory, len(self.numbers), *parameters, self.parts)
            check_tuning(self.memory, self.tuned)
        if self.window is not None:
            windows.check_window(self.table, self.memory, self.window, self.parts)
        check_account(self._past, self._since, self._newcomers, self._grids, self.rounds)

    @property
    def certificate(self) -> float:
        """l1 distance from the forecasts to the charged points plus those points' biases, a sum."""
        return memories.certificate(self.memory) if len(self.memory) else 0.0

    def lp_certificate(self, p: float) -> float:
        """The same an average round, with the l_p norm of the biases; there must have been a round."""
        biases = np.abs(self.look_ahead().biases)
        return (self.certificate - float(biases.sum()) + lp_norm(biases, p)) / self.rounds

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed by now, or by the horizon if that is still to come."""
        return float(self.promise(max(self.horizon or 0, self.rounds)))

    def promise(self, rounds: int) -> Fraction:
        """The same after so many rounds."""
        return super().promise(rounds) + (allowance(len(self.numbers)) if self.tuned else 0)

    @property
    def window_certificate(self) -> float | None:
        """The certificate of the rounds in the window alone."""
        return None if self.window is None else windows.window_certificate(self.memory, self.table)

    def certificate_of_last(self, rounds: int) -> float:
        """The same of the last so many rounds of the window."""
        return windows.certificate_of_last(self.memory, self.table, rounds, self.parts)

    @property
    def window_guarantee(self) -> float | None:
        """What that of any window cannot exceed."""
        return None if self.window is None else float(self.window_promise(self.window))

    def without_window(self) -> SimplexRun:
        """A copy on the same grid that keeps no window: for loops that play on the memory alone."""
        run = deepcopy(self)
        run.n_cells, run.window, run.table = self.grid_at(1)[0], None, windows.NO_WINDOW
        return run

    @property
    def rounds_left(self) -> int:
        """So many more rounds fit its integers, whatever they are."""
        return memories.rounds_left(self.memory, self.changing) if len(self.memory) else FOREVER

    @property
    def most_open(self) -> int:
        """How many forecasts may be open, so that late labels cannot push a bias out of the integers."""
        k, scale = self.units() if len(self.memory) else (1, 1)
        return memories.most_late(k, scale, self.slack_in_time, self.grows) + 1

    def play_labels(
        self, numbers: NDArray[np.int64], hints: NDArray[np.float64], forecasts: NDArray[np.float64]
    ) -> None:
        """Play classes (T,) as soft labels, with hints (T, k) or none; fills in the forecasts."""
        play_soft(self, np.eye(len(self.numbers))[numbers], hints, forecasts)

    def number_of(self, label: Any, name: str) -> int | None:
        """The number of a class, or None if it is one never met before."""
        if self.fixed:
            return class_of(label, self.numbers, name)
        return self.numbers.get(check_label(label, name))

    def meet(self, labels: Sequence[Any]) -> None:
        """Know classes never met before from now on; the coming round may settle them."""
        # for one round more than there is, since the distance is rounded up to a new unit
        memories.check_bears(self.memory, self.changing, 1 + len(labels))
        if len(self.numbers) + len(labels) > MOST_CLASSES:
            raise ValueError(
                f"{labels[-1]!r} is one class more than the {MOST_CLASSES} that can be told apart"
            )
        if labels:
            self.check_bears_classes(len(self.numbers) + len(labels))
        for label in labels:
            known = len(self.numbers)
            self.enter(label, self.rounds, self._base_cells())
            self._fit(known + 1)
            if self.tuned and known:
                self.memory[BALANCE] += (allowance(known + 1) - allowance(known)) * units(self.memory)

    def welcome(self, label: Any) -> None:
        """Settle a round whose outcome is a class never met before, and know it from now on."""
        self.meet([label])
        self.settle_newcomer(label)

    def settle_newcomer(self, label: Any) -> None:
        """Charge a round to the corner of a class that its forecast did not know."""
        self.grow()
        k, scale = self.units()
        corner = np.zeros(k, np.int64)
        corner[self.numbers[label]] = scale
        away = NEWCOMER * units(self.memory)
        if self.tuned:
            spare(self.memory, away)
        MACHINE.settle(self.memory, self.table, corner, self.numbers[label], away)

    def settle(self, cell: Cell, number: int, vector: Sequence[float]) -> None:
        """Charge a round to the cell it was announced in, which may be older than the present grid."""
        if self.notes_parts:
            settle_soft(self, cell, vector, np.eye(len(self.numbers))[number])
            return
        numbers, told = cell.numbers, np.array(vector)
        if not MACHINE.settle_cell(self.memory, self.table, numbers, told, number, False):
            self.grow()
            MACHINE.settle_cell(self.memory, self.table, numbers, told, number, True)

    def advance(self, number: int) -> None:
        """Charge a round to the current cell."""
        if self.notes_parts:
            self.play_labels(np.array([number]), np.empty((0, 0)), np.empty((1, len(self.numbers))))
            return
        while not MACHINE.advance(self.memory, self.table, number):
            self.grow()

    def current(self) -> list[float]:
        """The forecast of the coming round, as `rules.announce` has it; empty while no class is known."""
        if not len(self.memory):
            return []
        if self.memory[ROUNDS] >= self.memory[LIMIT]:
            self.grow()
        sums, k = int(self.memory[HERE]) + SUMS, len(self.numbers)
        parts = k * int(self.memory[SCALE])
        return [s / parts for s in self.memory[sums : sums + k].tolist()]

    def announce(self, guide: NDArray[np.float64]) -> tuple[Cell | None, list[float]]:
        """A cell near the guide, a distribution over the known classes or empty, and its forecast."""
        k = len(self.numbers)
        if not k:
            return None, []
        forecast, cell = np.empty(k), np.empty(cell_size(k), np.int32)
        if MACHINE.issue(self.memory, guide, forecast, cell) < 0:
            self.grow()
            MACHINE.issue(self.memory, guide, forecast, cell)
        return Cell(cell.tobytes()), forecast.tolist()

    def observe(self, cell: Cell | None, vector: Sequence[float], label: Any) -> None:
        """Settle what `announce` answered with the class that came, which may be a new one."""
        number = self.numbers.get(label)
        if number is None:
            self.welcome(label)
        elif cell is None or number >= len(vector):
            self.settle_newcomer(label)
        else:
            self.settle(cell, number, vector)

    def look_ahead(self) -> SimplexLookAhead:
        """The points charged so far and their biases."""
        return SimplexLookAhead(*charged_points(self.memory))
