"""The run of a simplex forecaster: its memory, the classes met so far, and the grids it was played on.

A run is made ready for soft labels by the first one that comes: the units of its memory become finer, by a
factor `parts`, and nothing else changes. From then on the guarantee is that by the formula, and counts what
rounding may cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.forecasters.rules import NO_ROOM
from onlinecal.forecasters.simplex import guarantees
from onlinecal.forecasters.simplex.guarantees import FOREVER, MOST_CELLS, reach
from onlinecal.forecasters.simplex.input import (
    MIXED,
    MOST_CLASSES,
    MOST_PARTS,
    Outcomes,
    Soft,
    over_known,
    weights_of,
)
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine import windows
from onlinecal.forecasters.simplex.machine.cells import NEWCOMER, Cell, cell_size
from onlinecal.restoring import Restored, require

HEEDING = 4.0
"""The slack of a run that has hints, unless another is asked for: hints of a good model are hardly moved.

With D other forecasts open at most it is that times sqrt(1 + D): what they may do to biases before it shows.
"""
PLANNED = 0.25
"""The slack that its grids are chosen for: biases are seldom as large as they may be, so finer ones pay."""

ROUNDING = Fraction(1, 1 << 28)
"""More than the distance of a round can be rounded up, when classes are added or a hint is followed."""


MANY = 1000
"""So many labels may be late on every grid, whatever is gained by finer ones."""
EAGERNESS = 2, 4
"""By REPORT: a grid is so fine that the distance on it is at most this part of what the charged points may be
biased, a half or a quarter: hints are worth more on finer cells, and bias is seldom as large as it may be."""
HEADROOM = 6
"""Where the grid may change it can become so many times twice as fine, with as many late labels."""
FEWEST_PARTS = 1 << 8
NO_CELL, NO_WEIGHTS = np.empty(0, np.int32), np.empty(0, np.int64)
# as the numbers of a cell are: loops are compiled for each kind
NO_CELL.setflags(write=False)


def allowance(k: int) -> int:
    """With what the balance begins: what a grid that tunes itself is guaranteed more than a nested one."""
    return memories.RESERVE + 2 * k


class SimplexRun(Restored):
    """Plays the machine, lets its memory grow, changes the grid when it is due, and takes in new classes.

    The river class, the engine's lanes and the duels are faces of it.
    """

    rules = machine.RULES
    table = windows.NO_WINDOW
    """The window's, if it keeps one: the last rounds, as `machine.windows` has them."""
    parts = 1
    """Into how many parts rounds are divided, once one had a soft label."""

    def __init__(self, classes: tuple[Any, ...], settings: Any) -> None:
        # settings are those of a `SimplexAlmostOneStepAhead`
        self.tuned, self.window = settings.grid == "adaptive", settings.window
        self.n_cells, self.horizon, self.slack_in_time = settings.n_cells, settings.horizon, settings.slack
        self.numbers: dict[Any, int] = {label: number for number, label in enumerate(classes)}
        self.fixed, report = len(classes) > 0, settings.report
        heeds = settings.hints and report is None
        self.follows = heeds or report == "hint"
        # which point of its cell is announced, as the memory has it
        self.report = int(self.follows)
        # whether distances may have to be rounded up
        self.growing = not self.fixed or self.follows
        self.on_one_grid = not (self.n_cells is self.horizon is self.window is None)
        # whether the grid or the classes may change
        self.changing = not (self.fixed and self.on_one_grid)
        self.grows = heeds and self.slack_in_time is None
        if self.grows:
            self.slack_in_time = HEEDING
        self.late = 0
        # The account of the past: distance guaranteed before the present classes were known, the rounds until
        # then, the number of newcomers, and the grids (k, m) left behind.
        self.past, self.since, self.newcomers = Fraction(0), 0, 0
        self.grids: list[tuple[int, int]] = []
        self.memory: Ints = np.zeros(0, np.int64)
        if classes:
            self._fit(len(classes))

    @property
    def slack(self) -> float | None:
        """How far biases may go to follow a hint; where nobody sets it, it grows with late labels."""
        return guarantees.slack_at(self.late, self.slack_in_time, self.grows)

    @property
    def plan(self) -> tuple[float | None, bool]:
        """What grids are chosen for: a slack, and whether reports follow hints."""
        # a grid that tunes itself does so until labels are late; without finer grids the guarantee's own
        # slack would cost hints too much
        planned = self.grows and (self.late > 0 or not self.tuned)
        return PLANNED if planned else self.slack_in_time, self.follows

    def grid_at(self, rounds: int, classes: int | None = None) -> tuple[int, int]:
        """The number of cells a side in that round, and the last round for which it is kept.

        Of the known classes, or of so many.
        """
        k = len(self.numbers) if classes is None else classes
        if self.n_cells is not None:
            return self.n_cells, FOREVER
        if self.horizon is not None:
            slack, follows = self.plan
            return guarantees.cells_for(self.horizon, k, slack, not self.fixed, follows), FOREVER
        if self.window is not None:
            return guarantees.window_cells(self.window, k, *self.plan), FOREVER
        level, end = guarantees.level_at(rounds, k, *self.plan)
        return 1 << level, FOREVER if end is None else min(end, FOREVER)

    def _distance(self, first: int, last: int) -> Fraction:
        """What the rounds first..last may add to the distance with the present classes."""
        k = len(self.numbers)
        if not self.on_one_grid:
            return guarantees.nested_distance(first, last, k, *self.plan)
        m = self.grid_at(first)[0]
        return max(0, last - first + 1) * reach(k, m, self.follows) / m

    def promise(self, rounds: int) -> Fraction:
        """The most that the certificate can be after that many rounds if no further class appears."""
        late, k = self.late, len(self.numbers)
        total = self.past + (NEWCOMER + (late + 2) * ROUNDING) * self.newcomers
        total += allowance(k) if self.tuned else 0
        if late and self.changing:
            total += NEWCOMER * late * (2 * self.newcomers + 1)
        if not k:
            return total
        total += self._distance(self.since + 1, rounds) + self._rounded(rounds)
        finest = self.grid_at(max(rounds, 1))[0]
        most = guarantees.bias_bound if self.parts == 1 else guarantees.bias_formula
        total += most(k, finest, self.slack, late)
        for left_k, left_m in reversed(self.grids):
            # what points have when they leave the base grid is no debt, not even when they come back
            if finest % left_m or (self.tuned and not self.fixed):
                total += most(left_k, left_m, self.slack, late)
                finest = left_m
        return total

    def window_promise(self, rounds: int) -> Fraction:
        """The most that the distance of any so many consecutive rounds can be, and its certificate."""
        k, m = len(self.numbers), self.grid_at(1)[0]
        settings = self.slack, self.follows, self.late, self.parts > 1
        promised = guarantees.window_guarantee(rounds, k, m, *settings)
        return promised + self._rounded(rounds)

    def _rounded(self, rounds: int) -> Fraction:
        """What so many rounds may cost more in distance because reports or soft labels are rounded."""
        parts = Fraction(len(self.numbers), self.parts) + ROUNDING if self.parts > 1 else Fraction(0)
        return rounds * (parts + self.follows * ROUNDING)

    @property
    def rounds(self) -> int:
        """Rounds settled so far."""
        return int(self.memory[memories.ROUNDS]) if len(self.memory) else 0

    def _fit(self, k: int) -> None:
        """Make the memory one for k classes on the grid of the coming round."""
        before, rounds = self.memory, self.rounds
        base, limit = self.grid_at(rounds + 1)
        m = base
        if self.tuned and len(before) and not self.late:
            m, limit = self._wish(k, base), min(limit, rounds + max(2, rounds >> 3))
        scale = max(m * self.parts, int(before[memories.SCALE]) if len(before) else 0)
        if self._most_late(k, scale) < 0:
            raise ValueError(
                f"slack must be less for {k} classes on a grid of {scale} cells a side, got {self.slack!r}"
            )
        settings = self.slack, self.growing, self.report
        if len(before):
            self.memory = memories.rebuilt(before, k, scale, scale // m, *settings)
        else:
            self.memory = memories.new_memory(k, scale, self.parts, *settings)
        if self.tuned:
            self._rebase(base)
        self.memory[memories.LIMIT] = limit
        machine.make_ready(self.memory)
        self._refit_window(before)

    def _wish(self, k: int, base: int) -> int:
        """The cells a side to play on next: from `base` up, as fine as the account bears, a power of two."""
        memory, support = self.memory, min(k, base + 1)
        if memory[memories.BALANCE] < (memories.RESERVE + 1) * int(memories.units(memory)):
            return base
        # the coming round will use a point even where none has been used yet
        in_use = max(1, int(memory[memories.USED]))
        biases = in_use * guarantees.point_bound(support, self.slack_in_time)
        distances = EAGERNESS[self.report] * (self.rounds + 1) * reach(k, k, self.follows)
        cells = base
        while 2 * cells <= MOST_CELLS and cells * biases < distances:
            if self._most_late(k, 2 * cells * self.parts) < MANY:
                break
            cells *= 2
        return cells

    def _rebase(self, m: int) -> None:
        """Take the grid of m for the base: its points are no orphans.

        What points have that leave it with a class more, or were played before, is in the guarantee already.
        """
        memory, k, scale = self.memory, int(self.memory[memories.CLASSES]), int(self.memory[memories.SCALE])
        old = scale // int(memory[memories.BASE] or FOREVER)
        memory[memories.BASE] = scale // m
        if not old:
            memory[memories.BALANCE] = allowance(k) * int(memories.units(memory))
        elif old != m:
            table = memories.records_of(memory)
            on_new, on_old = (
                (table[:, memories.POINT : memories.POINT + k] % (scale // cells) == 0).all(axis=1)
                for cells in (m, old)
            )
            owed = int(np.abs(table[on_new & ~on_old, memories.POINT + k :]).sum())
            memory[memories.BALANCE] += owed * k * int(memory[memories.FINE])

    def _most_late(self, k: int, scale: int) -> int:
        """How many labels of k classes may be late in such units; -1: not even none."""
        return guarantees.most_late(k, scale, self.slack_in_time, self.grows)

    def _base_cells(self) -> int:
        """The cells a side of the base grid, or of the only one; 0 while no class is known."""
        if not self.numbers:
            return 0
        memory = self.memory
        return int(memory[memories.SCALE] // (memory[memories.BASE] or memory[memories.STEP]))

    @property
    def charges(self) -> int:
        """To how many points a round may be charged: one, or one for each class once labels were soft."""
        return len(self.numbers) if self.parts > 1 else 1

    def grow(self) -> None:
        """Go on to the next grid if that is due, and let the table grow until another round fits.

        Raises ValueError, and changes nothing, if the integers cannot bear another round.
        """
        charges = self.charges
        memories.check_bears(self.memory, self.changing, 1)
        if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
            self._fit(len(self.numbers))
        while self.memory[memories.USED] + charges > memories.capacity(self.memory):
            before = self.memory
            self.memory = memories.enlarged(before)
            self._refit_window(before)
        self._refit_window(self.memory, charges)

    def _refit_window(self, before: Ints, charges: int = 1) -> None:
        """Make the window, if there is one, fit a memory that was another before."""
        if self.window is not None:
            self.table = windows.refitted(self.table, self.memory, before, self.window, charges)

    def _cells_until(self, k: int) -> int:
        """The cells a side of the finest grid that it has been on once it knows so many classes.

        New classes are met one after the other, and each may have another grid.
        """
        now = int(self.memory[memories.SCALE]) // self.parts if len(self.memory) else 1
        coming = range(max(1, len(self.numbers)), k + 1)
        return max([now, *(self.grid_at(self.rounds + 1, classes)[0] for classes in coming)])

    def check_bears_classes(self, k: int) -> None:
        """ValueError unless the integers bear so many classes on the grid of the coming rounds."""
        cells = self._cells_until(k)
        # the grid may be due to become twice as fine
        finest = (cells if self.on_one_grid else 2 * cells) * self.parts
        if self._most_late(k, finest) < self.late:
            grid = f"a grid of {cells} cells a side"
            slack = "" if self.slack is None else f" with a slack of {self.slack!r}"
            raise ValueError(f"{k} classes are more than its integers bear on {grid}{slack}")

    def parts_for(self, k: int) -> int:
        """Into how many parts rounds with soft labels over k classes are divided, a power of two.

        ValueError if the grid is too fine for that.
        """
        if self.parts > 1:
            return self.parts
        scale, parts = self._cells_until(k), MOST_PARTS
        finest = scale << (HEADROOM if self.changing else 0)
        while parts > FEWEST_PARTS and (
            self._most_late(k, finest * parts) < MANY or k * finest * parts > memories.FINENESS
        ):
            parts >>= 1
        if self._most_late(k, scale * parts) < self.late or k * scale * parts > memories.FINENESS:
            raise ValueError(
                f"a grid of {scale} cells a side is too fine for soft labels over {k} classes: "
                "name fewer n_cells"
            )
        return parts

    def divide(self, k: int) -> None:
        """Be ready for rounds with soft labels over k classes from now on; the cell stays as it is.

        ValueError, and nothing is changed, if the grid is too fine for that.
        """
        if self.parts > 1:
            return
        parts = self.parts_for(k)
        if len(self.memory):
            if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
                self.grow()
            before = self.memory
            self.memory = memories.divided(before, parts, self.slack, self.growing, self.report)
            self._refit_window(before)
        self.parts = parts

    def note_late(self, others: int) -> None:
        """So many other forecasts are open: before one is issued. The guarantee and slack take note of it.

        Forecasts that are open may be charged on a finer grid than they were announced on.
        """
        if others <= self.late:
            return
        memories.check_bears(self.memory, self.changing, 1)
        k, rounds, replanned = len(self.numbers), self.rounds, self.grows and self.tuned and not self.late
        if k and replanned:
            self.past += self._distance(self.since + 1, rounds) + NEWCOMER * others
            self.since = rounds
            self.grids.append((k, self._base_cells()))
        self.late = others
        if k:
            memories.set_slack(self.memory, self.slack)
        if k and (replanned or (self.tuned and self.memory[memories.STEP] < self.memory[memories.BASE])):
            self._fit(k)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.check()

    def check(self) -> None:
        """ValueError unless compiled code can play on what this run was given from outside."""
        if len(self.numbers) or len(self.memory):
            memories.check_memory(self.memory, self)
        if self.window is not None:
            windows.check_window(self.table, self.memory, self.window)
        what, newcomers = "its account", self.newcomers
        require(self.past >= 0 and 0 <= self.since <= self.rounds + 1, what)
        # one grid for each class, and one for the first late label
        require(0 <= newcomers <= MOST_CLASSES and len(self.grids) <= newcomers + 1, what)
        require(all(1 <= k <= MOST_CLASSES and 1 <= m <= MOST_CELLS for k, m in self.grids), what)

    @property
    def certificate(self) -> float:
        """l1 distance from the forecasts to the charged points plus those points' biases, a sum."""
        return memories.certificate(self.memory) if len(self.memory) else 0.0

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed by now, or by the horizon if that is still to come."""
        return float(self.promise(max(self.horizon or 0, self.rounds)))

    @property
    def window_certificate(self) -> float | None:
        """The certificate of the rounds in the window alone."""
        return None if self.window is None else windows.window_certificate(self.memory, self.table)

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
        k, scale = self.memory[[memories.CLASSES, memories.SCALE]].tolist() if len(self.memory) else (1, 1)
        return self._most_late(k, scale) + 1

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
            if known:
                self.past += self._distance(self.since + 1, self.rounds)
                self.grids.append((known, self._base_cells()))
            self.since = self.rounds + 1
            self.newcomers += 1
            self.numbers[label] = known
            self._fit(known + 1)
            if self.tuned and known:
                more = allowance(known + 1) - allowance(known)
                self.memory[memories.BALANCE] += more * memories.units(self.memory)

    def settle(self, cell: Cell | None, forecast: Sequence[float], outcome: int | Floats) -> None:
        """Charge a round to the cell that it was announced in, which may be older than the present grid.

        The outcome is the number of a known class, or a distribution over the known classes; of no class that
        the forecast knew if that had no cell.
        """
        weights, rounded = NO_WEIGHTS, np.zeros(())
        if isinstance(outcome, np.ndarray):
            weights, rounded = weights_of(outcome, self.parts)
            outcome = MIXED
        numbers = NO_CELL if cell is None else cell.numbers
        round = numbers, np.array(forecast), outcome, weights, self.parts, float(rounded)
        if machine.settle_waiting(self.memory, self.table, *round, False) == NO_ROOM:
            self.grow()
            machine.settle_waiting(self.memory, self.table, *round, True)

    def advance(self, number: int) -> None:
        """Charge a round to the current cell."""
        while machine.advance(self.memory, self.table, number, self.charges) == NO_ROOM:
            self.grow()

    def current(self) -> list[float]:
        """The forecast of the coming round, as `rules.announce` has it; empty while no class is known."""
        if not len(self.memory):
            return []
        if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
            self.grow()
        sums, k = int(self.memory[memories.HERE]) + memories.SUMS, len(self.numbers)
        parts = k * int(self.memory[memories.SCALE])
        return [s / parts for s in self.memory[sums : sums + k].tolist()]

    def announce(self, guide: Floats) -> tuple[Cell | None, list[float]]:
        """A cell near the guide, a distribution over the known classes or empty, and its forecast."""
        k = len(self.numbers)
        if not k:
            return None, []
        forecast, cell = np.empty(k), np.empty(cell_size(k), np.int32)
        while machine.issue(self.memory, guide, forecast, cell, self.charges) == NO_ROOM:
            self.grow()
        return Cell(cell.tobytes()), forecast.tolist()

    def observe(self, cell: Cell | None, forecast: Sequence[float], outcome: Any) -> None:
        """Settle what `announce` answered with the label that came, perhaps a new one, or a `Soft` one."""
        if isinstance(outcome, Soft):
            k = len(outcome.vector)
            if outcome.newcomers:
                self.check_bears_classes(k)
            self.divide(k)
            self.meet(outcome.newcomers)
            self.settle(cell, forecast, outcome.vector)
            return
        if outcome not in self.numbers:
            self.meet([outcome])
        self.settle(cell, forecast, self.numbers[outcome])


def replayed(run: SimplexRun, outcomes: Outcomes, hints: Floats, charged: bool) -> tuple[Floats, Floats]:
    """Play outcomes (T,) with hints (T, k) or none, k being the classes that are known at the end.

    The forecasts (T, k), and the charged points if wanted (else empty); none of its rounds may be MIXED then.
    """
    rounds, k = len(outcomes.numbers), outcomes.vectors.shape[1]
    memories.check_bears(run.memory, run.changing, rounds)
    forecasts, points = np.zeros((rounds, k)), np.zeros((rounds if charged else 0, k))
    mixed = np.flatnonzero(outcomes.numbers == MIXED)
    # the units change with the first round that needs it, and classes with the rounds that have new ones
    alone = {*outcomes.newcomers, *(mixed[:1].tolist() if run.parts == 1 else [])}
    done = 0
    for row in sorted(alone):
        replay_until(run, row, done, outcomes, hints, forecasts, points)
        known = len(run.numbers)
        guide = over_known(hints[row], known) if len(hints) and known else np.empty(0)
        cell, vector = run.announce(guide)
        forecasts[row, :known] = vector
        run.observe(cell, vector, outcomes.row(row, run.numbers))
        points[row : row + 1, outcomes.numbers[row]] = 1.0
        done = row + 1
    replay_until(run, rounds, done, outcomes, hints, forecasts, points)
    return forecasts, points


def replayed_with_certificates(run: SimplexRun, numbers: Ints, hints: Floats) -> tuple[Floats, Floats]:
    """Play known classes (T,) with hints (T, k): the forecasts, and the certificate after each round."""
    memories.check_bears(run.memory, run.changing, len(numbers))
    forecasts, certificates, no_points = np.zeros(hints.shape), np.empty(len(numbers)), np.zeros((0, 0))
    outcomes = Outcomes.of_numbers(numbers, hints.shape[1])
    for row in range(len(numbers)):
        replay_until(run, row + 1, row, outcomes, hints, forecasts, no_points)
        certificates[row] = run.certificate
    return forecasts, certificates


def replay_until(
    run: SimplexRun,
    stop: int,
    start: int,
    outcomes: Outcomes,
    hints: Floats,
    forecasts: Floats,
    points: Floats,
) -> None:
    """Play the rounds start..stop-1, all of known classes; weight of hints on others is shared out."""
    k, part = len(run.numbers), slice(start, stop)
    numbers, guide = outcomes.numbers[part], hints[part]
    if len(guide) and k:
        guide = over_known(guide, k)
    weights, rounded = np.empty((0, k), np.int64), np.empty(0)
    if MIXED in numbers:
        weights, rounded = weights_of(outcomes.vectors[part, :k], run.parts)
    tapes, done = (guide, forecasts[part], points[part]), 0
    while done < len(numbers):
        done = machine.replay(run.memory, run.table, numbers, weights, run.parts, rounded, *tapes, done)
        if done < len(numbers):
            run.grow()
