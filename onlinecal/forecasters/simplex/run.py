"""The run of a simplex forecaster: its memory, the classes met so far, and the grids it was played on.

The first soft label makes a run ready for such labels: the units of its memory become finer, by the factor
`parts`, and nothing else changes. From then on the guarantee is that of the formula, and includes the cost of
rounding.

Invariants: `numbers` has the classes that the memory is for, in its order; the window's table, if there is
one, is that of the memory; and the grid is that of the coming round, or `_grow` makes it so before the round.

A round is `note_late` with the number of other open forecasts, `announce`, and when the label is known
`observe`, which calls `divide` for the first soft label, `meet` for new classes, and `settle`. `meet`,
`divide`, `_grow` and `note_late` may put another memory in place of the old one; so nobody keeps it from call
to call. A label that is refused raises before a round is charged. `replayed` may raise in a late row, when
earlier ones are settled: who must not lose the run gives it one that is `copied`.

The account of the past (`past`, `since`, `newcomers`, `grids`) is written by `meet` and `note_late`, and once
by whoever restores a run. It is in the order in which things happened. Guarantees follow from it, so it is
saved with the memory, by pickles and by the engine (`engine/keys/simplex_lanes.py`). Whoever restores a run
calls `check`, as `__setstate__` does. The constants decide which grid and slack is played, so they are part
of the answers, and ROUND_ROUNDING of the guarantee.
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
    ClassOutcomes,
    Soft,
    over_known,
    weights_of,
)
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine import windows
from onlinecal.forecasters.simplex.machine.cells import NEWCOMER, Cell, cell_size
from onlinecal.restoring import Restored, require

SLACK_FOR_HINTS = 4.0
"""The slack of a run that has hints, unless another is asked for: it hardly moves the hints of a good model.

With at most D other forecasts open the slack is this times sqrt(1 + D), since these may change biases unseen.
"""
PLANNED_SLACK = 0.25
"""The slack that the grids of such a run are chosen for: biases seldom use all their slack, so finer grids
pay."""

ROUND_ROUNDING = Fraction(1, 1 << 28)
"""A bound on how much the distance of a round is rounded up when classes are added or a hint is followed."""


ENOUGH_LATE = 1000
"""On every grid so many labels may be late, whatever a finer grid would gain."""
BIAS_PARTS = 2, 4
"""Which part of the bound on biases the distance on a grid may be, by REPORT: a half or a quarter. Hints gain
from finer cells, and biases are seldom as large as they may be."""
DOUBLINGS_AHEAD = 6
"""A grid that may change can become twice as fine so many times, with as many late labels."""
FEWEST_PARTS = 1 << 8
NO_CELL, NO_WEIGHTS = np.empty(0, np.int32), np.empty(0, np.int64)
# kernels are compiled for arrays that cannot be written to, as the numbers of cells are
NO_CELL.setflags(write=False)


def allowance(k: int) -> int:
    """The balance at the start, by which the guarantee of a grid that tunes itself exceeds a nested one's."""
    return memories.RESERVED_BIAS + 2 * k


class SimplexRun(Restored):
    """Plays the machine, lets its memory grow, changes the grid when it is due, and takes in new classes.

    The river class, the engine's lanes and the duels all play by way of it.
    """

    _rules = machine.RULES
    table = windows.NO_WINDOW
    """The table of the window, if it keeps one (`machine.windows`)."""
    parts = 1
    """How many parts rounds are divided into, once one had a soft label."""

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
        grid_is_given = self.n_cells is not None or self.horizon is not None or self.window is not None
        self.on_one_grid = grid_is_given
        # whether the grid or the classes may change
        self.changing = not (self.fixed and self.on_one_grid)
        self.grows = heeds and self.slack_in_time is None
        if self.grows:
            self.slack_in_time = SLACK_FOR_HINTS
        self.late = 0
        # the account of the past: the distance that was guaranteed before the present classes were known, the
        # rounds until then, the number of newcomers, and the grids (k, m) left behind
        self.past, self.since, self.newcomers = Fraction(0), 0, 0
        self.grids: list[tuple[int, int]] = []
        self.memory: Ints = np.zeros(0, np.int64)
        if classes:
            self._fit(len(classes))

    @property
    def slack(self) -> float | None:
        """How far biases may go to follow a hint; a slack that nobody set grows with late labels."""
        return guarantees.slack_at(self.late, self.slack_in_time, self.grows)

    @property
    def plan(self) -> tuple[float | None, bool]:
        """The slack that grids are chosen for, and whether reports follow hints."""
        # a grid tunes itself until labels are late; grids for the guarantee's own slack would be too coarse
        # for hints
        planned = self.grows and (self.late > 0 or not self.tuned)
        return PLANNED_SLACK if planned else self.slack_in_time, self.follows

    def grid_at(self, rounds: int, classes: int | None = None) -> tuple[int, int]:
        """The number of cells a side in that round, and the last round that this grid serves.

        They are for the known classes, or for so many.
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

    def _promise(self, rounds: int) -> Fraction:
        """The most that the certificate can be after that many rounds if no further class appears."""
        late, k = self.late, len(self.numbers)
        total = self.past + (NEWCOMER + (late + 2) * ROUND_ROUNDING) * self.newcomers
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
            # biases of points that leave the base grid are no debt, not even if the points come back
            if finest % left_m or (self.tuned and not self.fixed):
                total += most(left_k, left_m, self.slack, late)
                finest = left_m
        return total

    def window_promise(self, rounds: int) -> Fraction:
        """The most that the distance of any so many consecutive rounds, and its certificate, can be."""
        k, m = len(self.numbers), self.grid_at(1)[0]
        settings = self.slack, self.follows, self.late, self.parts > 1
        promised = guarantees.window_guarantee(rounds, k, m, *settings)
        return promised + self._rounded(rounds)

    def _rounded(self, rounds: int) -> Fraction:
        """The distance that rounding of reports and soft labels may add in so many rounds."""
        parts = Fraction(len(self.numbers), self.parts) + ROUND_ROUNDING if self.parts > 1 else Fraction(0)
        return rounds * (parts + self.follows * ROUND_ROUNDING)

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
            raise self._overflow(k, scale // self.parts)
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
        """The cells a side to play on next: a power of two from `base` up, as fine as the account allows."""
        memory, support = self.memory, min(k, base + 1)
        if memory[memories.BALANCE] < (memories.RESERVED_BIAS + 1) * int(memories.units(memory)):
            return base
        # the coming round will use a point, even if none has been used yet
        in_use = max(1, int(memory[memories.RECORDS_USED]))
        biases = in_use * guarantees.point_bound(support, self.slack_in_time)
        distances = BIAS_PARTS[self.report] * (self.rounds + 1) * reach(k, k, self.follows)
        cells = base
        while 2 * cells <= MOST_CELLS and cells * biases < distances:
            if self._most_late(k, 2 * cells * self.parts) < ENOUGH_LATE:
                break
            cells *= 2
        return cells

    def _rebase(self, m: int) -> None:
        """Make the grid of m the base, so that its points are no orphans.

        The guarantee includes the biases of points that were on an earlier base, or had fewer classes.
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
        """How many labels of k classes may be late in such units; -1 if the units bear none."""
        return guarantees.most_late(k, scale, self.slack_in_time, self.grows)

    def _base_cells(self) -> int:
        """The cells a side of the base grid, or of the only one; 0 while no class is known."""
        if not self.numbers:
            return 0
        memory = self.memory
        return int(memory[memories.SCALE] // (memory[memories.BASE] or memory[memories.STEP]))

    @property
    def charges(self) -> int:
        """How many points a round may be charged to: one, or one for each class once labels were soft."""
        return len(self.numbers) if self.parts > 1 else 1

    def _grow(self) -> None:
        """Go on to the next grid if it is due, and let the table grow until another round fits.

        Raises ValueError, and changes nothing, if the integers cannot bear another round.
        """
        charges = self.charges
        memories.check_bears(self.memory, self.changing, 1)
        if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
            self._fit(len(self.numbers))
        while self.memory[memories.RECORDS_USED] + charges > memories.capacity(self.memory):
            before = self.memory
            self.memory = memories.enlarged(before)
            self._refit_window(before)
        self._refit_window(self.memory, charges)

    def _refit_window(self, before: Ints, charges: int = 1) -> None:
        """Adapt the window, if there is one, to the memory, which was `before` another one."""
        if self.window is not None:
            self.table = windows.refitted(self.table, self.memory, before, self.window, charges)

    def _cells_until(self, k: int) -> int:
        """The cells a side of the finest grid it will have been on when it knows so many classes.

        New classes are met one after the other, and each may bring another grid.
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
            raise self._overflow(k, cells)

    def _overflow(self, k: int, cells: int) -> ValueError:
        """The error for so many classes on a grid of so many cells a side, which the integers do not bear."""
        slack, remedy = "", "a smaller n_cells"
        if self.slack is not None:
            slack, remedy = f" with slack={self.slack!r}", "a smaller slack or n_cells"
        return ValueError(
            f"{k} classes would overflow the forecaster's integers on a grid of {cells} cells a side{slack}: "
            f"give {remedy}, or join classes"
        )

    def parts_for(self, k: int) -> int:
        """The number of parts that rounds with soft labels over k classes are divided into, a power of two.

        ValueError if the grid is too fine for that.
        """
        if self.parts > 1:
            return self.parts
        scale, parts = self._cells_until(k), MOST_PARTS
        finest = scale << (DOUBLINGS_AHEAD if self.changing else 0)
        while parts > FEWEST_PARTS and (
            self._most_late(k, finest * parts) < ENOUGH_LATE or k * finest * parts > memories.FINEST_UNITS
        ):
            parts >>= 1
        if self._most_late(k, scale * parts) < self.late or k * scale * parts > memories.FINEST_UNITS:
            raise ValueError(
                f"a grid of {scale} cells a side is too fine for soft labels over {k} classes: "
                "give a smaller n_cells"
            )
        return parts

    def divide(self, k: int) -> None:
        """Make the run ready for rounds with soft labels over k classes; the cell stays as it is.

        ValueError, and nothing is changed, if the grid is too fine for that.
        """
        if self.parts > 1:
            return
        parts = self.parts_for(k)
        if len(self.memory):
            if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
                self._grow()
            before = self.memory
            self.memory = memories.divided(before, parts, self.slack, self.growing, self.report)
            self._refit_window(before)
        self.parts = parts

    def note_late(self, others: int) -> None:
        """Take note that so many other forecasts are open, before one is issued, in guarantee and slack.

        Open forecasts may be charged on a finer grid than they were announced on.
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
        """ValueError unless compiled code can play on the state of this run, which came from outside."""
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
        """What the certificate cannot exceed now, or at the horizon if that is still to come."""
        return float(self._promise(max(self.horizon or 0, self.rounds)))

    @property
    def window_certificate(self) -> float | None:
        """The certificate of the rounds in the window alone."""
        return None if self.window is None else windows.window_certificate(self.memory, self.table)

    @property
    def window_guarantee(self) -> float | None:
        """What the certificate of any window cannot exceed."""
        return None if self.window is None else float(self.window_promise(self.window))

    def copied(self) -> SimplexRun:
        """Another run in the same state, which goes on by itself."""
        # without `__setstate__`, whose check takes as long as a long replay
        run = object.__new__(type(self))
        run.__dict__.update(self.__dict__)
        run.numbers, run.grids = dict(self.numbers), list(self.grids)
        run.memory, run.table = self.memory.copy(), self.table.copy()
        return run

    def without_window(self) -> SimplexRun:
        """A copy on the same grid that keeps no window: for loops that play on the memory alone."""
        run = deepcopy(self)
        run.n_cells, run.window, run.table = self.grid_at(1)[0], None, windows.NO_WINDOW
        return run

    @property
    def rounds_left(self) -> int:
        """How many more rounds its integers bear, whatever comes."""
        return memories.rounds_left(self.memory, self.changing) if len(self.memory) else FOREVER

    @property
    def most_open(self) -> int:
        """How many forecasts may be open while late labels cannot push a bias beyond the integers."""
        k, scale = self.memory[[memories.CLASSES, memories.SCALE]].tolist() if len(self.memory) else (1, 1)
        return self._most_late(k, scale) + 1

    def meet(self, labels: Sequence[Any]) -> None:
        """Add classes that were never met before; the coming round may settle them."""
        # one more round for each class, since the distance is rounded up to a new unit
        memories.check_bears(self.memory, self.changing, 1 + len(labels))
        if len(self.numbers) + len(labels) > MOST_CLASSES:
            raise ValueError(
                f"at most {MOST_CLASSES} classes can be known, and {labels[-1]!r} is one more: join rare ones"
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

        The outcome is the number of a known class, or a distribution over the known classes. A forecast
        without a cell knew none of them.
        """
        weights, rounded = NO_WEIGHTS, np.zeros(())
        if isinstance(outcome, np.ndarray):
            weights, rounded = weights_of(outcome, self.parts)
            outcome = MIXED
        numbers = NO_CELL if cell is None else cell.numbers
        round = numbers, np.array(forecast), outcome, weights, self.parts, float(rounded)
        if machine.settle_waiting(self.memory, self.table, *round, False) == NO_ROOM:
            self._grow()
            machine.settle_waiting(self.memory, self.table, *round, True)

    def advance(self, number: int) -> None:
        """Charge a round to the current cell."""
        while machine.advance(self.memory, self.table, number, self.charges) == NO_ROOM:
            self._grow()

    def current(self) -> list[float]:
        """The forecast of the coming round, as `rules.announce` has it; empty while no class is known."""
        if not len(self.memory):
            return []
        if self.memory[memories.ROUNDS] >= self.memory[memories.LIMIT]:
            self._grow()
        sums, k = int(self.memory[memories.CURRENT_FRAME]) + memories.SUMS, len(self.numbers)
        parts = k * int(self.memory[memories.SCALE])
        return [s / parts for s in self.memory[sums : sums + k].tolist()]

    def announce(self, guide: Floats) -> tuple[Cell | None, list[float]]:
        """A cell near the guide, a distribution over the known classes or empty, and its forecast."""
        k = len(self.numbers)
        if not k:
            return None, []
        forecast, cell = np.empty(k), np.empty(cell_size(k), np.int32)
        while machine.issue(self.memory, guide, forecast, cell, self.charges) == NO_ROOM:
            self._grow()
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


def replayed(run: SimplexRun, outcomes: ClassOutcomes, hints: Floats, charged: bool) -> tuple[Floats, Floats]:
    """Play outcomes (T,) with hints (T, k) or none, where k counts the classes that are known at the end.

    Returns the forecasts (T, k), and the points if `charged` (else empty), for which no round may be MIXED.
    """
    rounds, k = len(outcomes.numbers), outcomes.vectors.shape[1]
    memories.check_bears(run.memory, run.changing, rounds)
    forecasts, points = np.zeros((rounds, k)), np.zeros((rounds if charged else 0, k))
    mixed = np.flatnonzero(outcomes.numbers == MIXED)
    # these rounds are played one by one: the first soft label changes the units, and new classes the memory
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
    outcomes = ClassOutcomes.of_numbers(numbers, hints.shape[1])
    for row in range(len(numbers)):
        replay_until(run, row + 1, row, outcomes, hints, forecasts, no_points)
        certificates[row] = run.certificate
    return forecasts, certificates


def replay_until(
    run: SimplexRun,
    stop: int,
    start: int,
    outcomes: ClassOutcomes,
    hints: Floats,
    forecasts: Floats,
    points: Floats,
) -> None:
    """Play the rounds start..stop-1, all of known classes, which get the weight of hints on others."""
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
            run._grow()
