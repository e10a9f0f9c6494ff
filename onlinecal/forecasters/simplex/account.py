"""The account of a simplex run: which grids it is played on, and what its certificate can reach at most.

A forecast of several classes as a token: issued now, settled when its outcome is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.simplex.biases import bias_bound, bias_formula
from onlinecal.forecasters.simplex.guarantees import (
    FOREVER,
    cells_for,
    level_at,
    nested_distance,
    reach,
    window_cells,
    window_guarantee,
)
from onlinecal.forecasters.simplex.machine.cells import CELL_SCALE, CELL_STEP, FIRST
from onlinecal.forecasters.simplex.machine.memory import slack_at
from onlinecal.forecasters.simplex.machine.table import FOLLOWS
from onlinecal.html import Bar, Shown, Table

NEWCOMER = 2
"""The l1 distance from a forecast to the corner of a class that it gave no chance."""

HEEDING = 4.0
"""The slack of a run that has hints, unless another is asked for: hints of a good model are hardly moved.

With D other forecasts open at most it is that times sqrt(1 + D): what they may do to biases before it shows.
"""
PLANNED = 0.25
"""The slack that its grids are chosen for: biases are seldom as large as they may be, so finer ones pay."""

ROUNDING = Fraction(1, 1 << 28)
"""More than the distance of a round can be rounded up, when classes are added or a hint is followed."""


class Account:
    """The parameters of a run, the classes met so far, and what `promise` has to know of the past."""

    planned: float | None = None
    """The slack that grids are chosen for, if not the one that labels have."""
    planned_late: float | None = None
    """The same once labels are late, if that is another: of a grid that tunes itself until then."""
    parts = 1
    """Into how many parts rounds are divided, once one had a soft label."""

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
        # the grid of one that is tuned has neither n_cells nor horizon nor window
        self.hints, self.tuned, self.window = hints, tuned, window
        self.numbers: dict[Any, int] = {label: number for number, label in enumerate(classes)}
        self.fixed = len(classes) > 0
        self.n_cells, self.horizon, self.slack_in_time = n_cells, horizon, slack
        heeds = hints and report is None
        self.follows = heeds or report == "hint"
        self.grows = heeds and slack is None
        if self.grows:
            self.slack_in_time = HEEDING
            if tuned:
                # without finer grids the guarantee's own would cost hints too much
                self.planned_late = PLANNED
            else:
                self.planned = PLANNED
        self.late = 0
        # Distance guaranteed before the present classes were known, the rounds until then, the number of
        # newcomers, and the grids (k, m) left behind.
        self._past, self._since, self._newcomers = Fraction(0), 0, 0
        self._grids: list[tuple[int, int]] = []

    @property
    def slack(self) -> float | None:
        """How far biases may go to follow a hint; where nobody sets it, it grows with late labels."""
        return slack_at(self.late, self.slack_in_time, self.grows)

    @property
    def changing(self) -> bool:
        """Whether the grid or the classes may change."""
        return not self.fixed or not self.on_one_grid

    @property
    def on_one_grid(self) -> bool:
        """Whether the grid does not depend on the round."""
        return not (self.n_cells is self.horizon is self.window is None)

    @property
    def abandons(self) -> bool:
        """Whether points may leave the base grid of one that tunes itself."""
        return self.tuned and not self.fixed

    @property
    def report(self) -> int:
        """Which point of its cell is announced, as the memory has it."""
        return FOLLOWS if self.follows else 0

    @property
    def plan(self) -> tuple[float | None, bool]:
        """What grids are chosen for: a slack, and whether reports follow hints."""
        return self.slack_in_time if self.planned is None else self.planned, self.follows

    def leave_grids(self, rounds: int, n_open: int, m: int) -> None:
        """Choose grids by another plan from now on; so many rounds were settled, the last on the grid of m.

        Forecasts that are open may be charged on a finer grid than they were announced on.
        """
        self._past += self._distance(self._since + 1, rounds) + NEWCOMER * n_open
        self._since = rounds
        if rounds or n_open:
            self._grids.append((len(self.numbers), m))

    def restore_late(self, late: int) -> None:
        """Be one of which so many forecasts have been late, and whose grids are those of today."""
        self.late = late
        if late and self.planned_late is not None:
            self.planned = self.planned_late

    def grid_at(self, rounds: int) -> tuple[int, int]:
        """The number of cells a side in that round, and the last round for which it is kept."""
        k = len(self.numbers)
        if self.n_cells is not None:
            return self.n_cells, FOREVER
        if self.horizon is not None:
            slack, follows = self.plan
            return cells_for(self.horizon, k, slack, not self.fixed, follows), FOREVER
        if self.window is not None:
            return window_cells(self.window, k, *self.plan), FOREVER
        level, end = level_at(rounds, k, *self.plan)
        return 1 << level, FOREVER if end is None else min(end, FOREVER)

    def enter(self, label: Any, rounds: int, m: int) -> None:
        """A class never met before came after so many rounds, the last of them on the grid of m."""
        if self.numbers:
            self._past += self._distance(self._since + 1, rounds)
            self._grids.append((len(self.numbers), m))
        self._since = rounds + 1
        self._newcomers += 1
        self.numbers[label] = len(self.numbers)

    def account(self) -> tuple[Fraction, int, int, list[tuple[int, int]]]:
        """What `promise` has to know of the past, for `restore_account`."""
        return self._past, self._since, self._newcomers, list(self._grids)

    def restore_account(
        self, past: Fraction, since: int, newcomers: int, grids: list[tuple[int, int]]
    ) -> None:
        """Take up the account of a run whose memory and classes were taken up."""
        self._past, self._since, self._newcomers, self._grids = past, since, newcomers, list(grids)

    def _distance(self, first: int, last: int) -> Fraction:
        """What the rounds first..last may add to the distance with the present classes."""
        k = len(self.numbers)
        if not self.on_one_grid:
            return nested_distance(first, last, k, *self.plan)
        m = self.grid_at(first)[0]
        return max(0, last - first + 1) * reach(k, m, self.follows) / m

    def promise(self, rounds: int) -> Fraction:
        """The most that the certificate can be after that many rounds if no further class appears."""
        late, k = self.late, len(self.numbers)
        total = self._past + (NEWCOMER + (late + 2) * ROUNDING) * self._newcomers
        if late and self.changing:
            total += NEWCOMER * late * (2 * self._newcomers + 1)
        if not k:
            return total
        total += self._distance(self._since + 1, rounds) + self.follows * rounds * ROUNDING
        total += self._divided(rounds)
        finest, most = self.grid_at(max(rounds, 1))[0], bias_bound if self.parts == 1 else bias_formula
        total += most(k, finest, self.slack, late)
        for left_k, left_m in reversed(self._grids):
            # what points have when they leave the base grid is no debt, not even when they come back
            if finest % left_m or self.abandons:
                total += most(left_k, left_m, self.slack, late)
                finest = left_m
        return total

    def _divided(self, rounds: int) -> Fraction:
        """What so many rounds may cost more in distance because soft labels are rounded."""
        if self.parts == 1:
            return Fraction(0)
        return rounds * (Fraction(len(self.numbers), self.parts) + ROUNDING)

    def window_promise(self, rounds: int) -> Fraction:
        """The most that the distance of any so many consecutive rounds can be, and its certificate."""
        k = len(self.numbers)
        m = self.grid_at(1)[0]
        promised = window_guarantee(rounds, k, m, self.slack, self.follows, self.late, self.parts > 1)
        return promised + self._divided(rounds) + self.follows * rounds * ROUNDING


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell that was announced, exactly.

    Attributes
    ----------
    data
        The bytes of what `machine.cells` says.
    """

    data: bytes

    @property
    def numbers(self) -> NDArray[np.int32]:
        """The integers that it is."""
        return np.frombuffer(self.data, np.int32)

    @property
    def scale(self) -> int:
        """Its vertices are in units of one over this."""
        return int(self.numbers[CELL_SCALE])

    @property
    def vertices(self) -> NDArray[np.int64]:
        """By class, shape (k, k): a round whose outcome is class j will be charged to vertices[j]."""
        numbers = self.numbers
        k = len(numbers) // 3
        steps, losers = np.zeros((k, k), np.int64), numbers[FIRST + k : FIRST + 2 * k - 1]
        steps[0] = numbers[FIRST : FIRST + k]
        after = np.arange(1, k)
        steps[after, losers] -= numbers[CELL_STEP]
        steps[after, (losers + 1) % k] += numbers[CELL_STEP]
        found: NDArray[np.int64] = steps.cumsum(axis=0)[np.argsort(numbers[FIRST + 2 * k - 1 :])]
        return found


@dataclass(frozen=True, slots=True)
class SimplexForecast(Shown):
    """What a forecaster announced in one round, and the cell that the round will be charged to.

    Attributes
    ----------
    classes
        The classes known when the forecast was issued.
    vector
        The announced probability of each of them.
    hint
        The hint that the forecast was asked with, in the order of the classes, or None.
    serial
        How many forecasts its forecaster had issued before.
    issuer
        Which forecaster it belongs to; copies of a forecaster share it.
    cell
        The cell's exact form, or None if no class was known.
    """

    classes: tuple[Any, ...]
    vector: tuple[float, ...]
    hint: tuple[float, ...] | None
    serial: int
    issuer: str
    cell: Cell | None

    @property
    def probabilities(self) -> dict[Any, float]:
        """The announced probabilities by class."""
        return dict(zip(self.classes, self.vector, strict=True))

    def __getitem__(self, label: Any) -> float:
        return self.probabilities[label]

    def _shown(self) -> Table:
        hints = self.hint or (None,) * len(self.classes)
        rows = [
            (str(label), p, Bar(0.0, p), hint)
            for label, p, hint in zip(self.classes, self.vector, hints, strict=True)
        ]
        return Table(f"Forecast {self.serial:,}", ("class", "probability", "", "hint"), rows)
