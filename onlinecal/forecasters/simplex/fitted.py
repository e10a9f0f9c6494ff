"""The memory of a simplex run, made to fit: classes, the grid of the coming round, a window, soft labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.simplex.account import Account
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine import windows
from onlinecal.forecasters.simplex.machine.compiled import MACHINE
from onlinecal.forecasters.simplex.machine.rules import has_room
from onlinecal.forecasters.simplex.machine.table import BASE, CLASSES, LIMIT, ROUNDS, SCALE, STEP, units
from onlinecal.forecasters.simplex.tuning import next_review, parts_for, rebased, wish


class Fitted(Account):
    """A run's memory, and how it becomes another one; the rounds are played by `SimplexRun`."""

    memory: NDArray[np.int64]
    table = windows.NO_WINDOW
    """The window's, if it keeps one: the last rounds, as `machine.windows` has them."""

    @property
    def rounds(self) -> int:
        """Rounds settled so far."""
        return int(self.memory[ROUNDS]) if len(self.memory) else 0

    def _fit(self, k: int) -> None:
        """Make the memory one for k classes on the grid of the coming round."""
        base, limit = self.grid_at(self.rounds + 1)
        m = base
        if self.tuned and len(self.memory) and not self.late:
            m, limit = (
                wish(self.memory, k, base, self.slack_in_time, self.grows, self.parts),
                min(limit, next_review(self.rounds)),
            )
        scale = max(m * self.parts, int(self.memory[SCALE])) if len(self.memory) else m * self.parts
        if memories.most_late(k, scale, self.slack_in_time, self.grows) < 0:
            raise ValueError(
                f"slack must be less for {k} classes on a grid of {scale} cells a side, got {self.slack!r}"
            )
        growing, before = not self.fixed or self.follows, self.memory
        if len(self.memory):
            self.memory = memories.rebuilt(
                self.memory, k, scale, scale // m, self.slack, growing, self.report
            )
        else:
            self.memory = memories.new_memory(
                k, scale, self.parts, self.slack, memories.FEWEST_RECORDS, growing, self.report
            )
        if self.tuned:
            rebased(self.memory, int(self.memory[SCALE] // (self.memory[BASE] or FOREVER)), base)
        self.memory[LIMIT] = limit
        MACHINE.begin(self.memory)
        self._refit_window(before)

    def _base_cells(self) -> int:
        """The cells a side of the base grid, or of the only one; 0 while no class is known."""
        return int(self.memory[SCALE] // (self.memory[BASE] or self.memory[STEP])) if self.numbers else 0

    def grow(self) -> None:
        """Go on to the next grid if that is due, and let the table grow if it is full.

        Raises ValueError, and changes nothing, if the integers cannot bear another round.
        """
        memories.check_bears(self.memory, self.changing, 1)
        if self.memory[ROUNDS] >= self.memory[LIMIT]:
            self._fit(len(self.numbers))
        if not has_room(self.memory):
            self.enlarge()
        self._refit_window(self.memory)

    def enlarge(self) -> None:
        """Let the table of points grow."""
        before = self.memory
        self.memory = memories.enlarged(before)
        MACHINE.reindex(self.memory)
        self._refit_window(before)

    def _refit_window(self, before: NDArray[np.int64]) -> None:
        """Make the window, if there is one, fit a memory that was another before."""
        if self.window is not None:
            self.table = windows.refitted(self.table, self.memory, before, self.window, self.parts)

    @property
    def notes_parts(self) -> bool:
        """Whether it keeps a window of rounds that may be divided."""
        return self.parts > 1 and self.window is not None

    def check_bears_classes(self, k: int) -> None:
        """ValueError unless the integers bear so many classes on the grid of the coming rounds."""
        if not len(self.memory):
            return
        scale = int(self.memory[SCALE])
        # the grid may be due to become twice as fine
        finest = scale if self.on_one_grid else 2 * scale
        if memories.most_late(k, finest, self.slack_in_time, self.grows) < self.late:
            grid = f"a grid of {scale // self.parts} cells a side"
            slack = "" if self.slack is None else f" with a slack of {self.slack!r}"
            raise ValueError(f"{k} classes are more than its integers bear on {grid}{slack}")

    def parts_for(self, k: int) -> int:
        """Into how many parts rounds with soft labels over k classes are divided; ValueError if too many."""
        if self.parts > 1:
            return self.parts
        scale = int(self.memory[SCALE]) if len(self.memory) else 1
        return parts_for(k, scale, self.slack_in_time, self.grows, self.changing, self.late)

    def divide(self, k: int) -> None:
        """Be ready for rounds with soft labels over k classes from now on; the cell stays as it is.

        ValueError, and nothing is changed, if the grid is too fine for that.
        """
        if self.parts > 1:
            return
        memory, parts = self.memory, self.parts_for(k)
        if len(memory):
            if memory[ROUNDS] >= memory[LIMIT]:
                self.grow()
            growing = not self.fixed or self.follows
            before = self.memory
            self.memory = memories.divided(before, parts, self.slack, growing, self.report)
            MACHINE.reindex(self.memory)
            if self.window is not None:
                finer = int(units(self.memory)) // int(units(before))
                rounds = windows.as_divided(before, windows.held(before, self.table, 1), finer, parts)
                self.table = windows.table_of(self.window, self.memory, rounds, parts)
        self.parts = parts

    def note_late(self, others: int) -> None:
        """So many other forecasts are open: before one is issued. The guarantee and slack take note of it."""
        if others > self.late:
            memories.check_bears(self.memory, self.changing, 1)
            self.late = others
            k, plan = len(self.numbers), self.planned_late
            if k:
                memories.set_slack(self.memory, self.slack)
            if plan is not None and self.planned != plan:
                if k:
                    self.leave_grids(self.rounds, others, self._base_cells())
                self.planned = plan
                if k:
                    self._fit(k)
            elif self.tuned and k and self.memory[STEP] < self.memory[BASE]:
                self._fit(k)

    def units(self) -> tuple[int, int]:
        """(k, SCALE) of the present memory."""
        return int(self.memory[CLASSES]), int(self.memory[SCALE])
