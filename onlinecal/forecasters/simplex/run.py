"""The run of a simplex forecaster: its memory, the classes met so far, and the grids it was played on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.simplex import machine as simplex
from onlinecal.forecasters.simplex.capacity import check_bears, most_late
from onlinecal.forecasters.simplex.compiled import MACHINE
from onlinecal.forecasters.simplex.guarantees import (
    EDITION,
    FOREVER,
    bias_bound,
    cells_for,
    level_at,
    nested_distance,
    reach,
)
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.forecasters.simplex.soundness import check_account, check_simplex_memory
from onlinecal.forecasters.simplex.table import CLASSES, HERE, LIMIT, POINT, REPORT, ROUNDS, SCALE, STEP
from onlinecal.forecasters.simplex.tokens import Cell

NEWCOMER = 2
"""The l1 distance from a forecast to the corner of a class that it gave no chance."""

ROUNDING = Fraction(1, 1 << 28)
"""More than the distance of a round can be rounded up, when classes are added or a hint is followed."""


class SimplexLookAhead(NamedTuple):
    """The charged sequence, point by point: `points` and `biases` alpha(point), both of shape (V, k)."""

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


class SimplexRun:
    """Plays the machine, lets its memory grow, changes the grid when it is due, and takes in new classes.

    It also keeps account of what the certificate can have reached at most, see `promise`.
    """

    edition = 1
    """How a horizon chooses the grid (see `cells_for`), also of pickles that do not say it."""

    def __init__(
        self,
        classes: tuple[Any, ...],
        n_cells: int | None,
        horizon: int | None,
        slack: float | None,
        follows: bool = False,
        edition: int = EDITION,
    ) -> None:
        self.edition = edition
        self.numbers: dict[Any, int] = {}
        self.fixed = len(classes) > 0
        self.n_cells, self.horizon, self.slack, self.follows = n_cells, horizon, slack, follows
        self.memory: NDArray[np.int64] = np.zeros(0, np.int64)
        self.late = 0
        # The account: distance guaranteed before the present classes were known, the rounds until then,
        # the number of newcomers, and the grids (k, m) left behind.
        self._past, self._since, self._newcomers = Fraction(0), 0, 0
        self._grids: list[tuple[int, int]] = []
        if classes:
            self.numbers = {label: number for number, label in enumerate(classes)}
            self._fit(len(classes))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.check()

    def check(self) -> None:
        """ValueError unless compiled code can play on what this run was given from outside."""
        if len(self.numbers) or len(self.memory):
            parameters = self.n_cells, self.horizon, self.slack, self.fixed, self.follows
            check_simplex_memory(self.memory, len(self.numbers), *parameters)
        check_account(self._past, self._since, self._newcomers, self._grids, self.rounds)

    @property
    def rounds(self) -> int:
        """Rounds settled so far."""
        return int(self.memory[ROUNDS]) if len(self.memory) else 0

    @property
    def most_open(self) -> int:
        """How many forecasts may be open, so that late labels cannot push a bias out of the integers."""
        k, scale = self.units() if len(self.memory) else (1, 1)
        return most_late(k, scale, self.slack) + 1

    def grid_at(self, rounds: int) -> tuple[int, int]:
        """The number of cells a side in that round, and the last round for which it is kept."""
        k = len(self.numbers)
        if self.n_cells is not None:
            return self.n_cells, FOREVER
        if self.horizon is not None:
            chosen = cells_for(self.horizon, k, self.slack, not self.fixed, self.follows, self.edition)
            return chosen, FOREVER
        level, end = level_at(rounds, k, self.slack, self.follows)
        return 1 << level, FOREVER if end is None else min(end, FOREVER)

    def _fit(self, k: int) -> None:
        """Make the memory one for k classes on the grid of the coming round."""
        m, limit = self.grid_at(self.rounds + 1)
        scale = max(m, int(self.memory[SCALE])) if len(self.memory) else m
        if most_late(k, scale, self.slack) < 0:
            raise ValueError(
                f"slack must be less for {k} classes on a grid of {scale} cells a side, got {self.slack!r}"
            )
        if len(self.memory):
            self.memory = simplex.rebuilt(self.memory, k, scale, scale // m, self.slack)
        else:
            few = simplex.FEWEST_RECORDS
            self.memory = simplex.new_memory(k, m, 1, self.slack, few, growing=not self.fixed or self.follows)
            self.memory[REPORT] = self.follows
        self.memory[LIMIT] = limit
        MACHINE.begin(self.memory)

    def make_room(self) -> None:
        """Go on to the next grid if that is due, and let the table grow if it is full.

        Raises ValueError, and changes nothing, if the integers cannot bear another round.
        """
        check_bears(self.memory, self.changing, 1)
        if self.memory[ROUNDS] >= self.memory[LIMIT]:
            self._fit(len(self.numbers))
        if not simplex.has_room(self.memory):
            self.memory = simplex.enlarged(self.memory)
            MACHINE.reindex(self.memory)

    @property
    def changing(self) -> bool:
        """Whether the grid or the classes may change."""
        return not self.fixed or (self.n_cells is None and self.horizon is None)

    def welcome(self, label: Any) -> None:
        """Settle a round whose outcome is a class never met before, and know it from now on."""
        # for one round more than there is, since the distance is rounded up to a new unit
        check_bears(self.memory, self.changing, 2)
        if len(self.numbers) == MOST_CLASSES:
            raise ValueError(f"{label!r} is one class more than the {MOST_CLASSES} that can be told apart")
        if self.numbers:
            k, m = len(self.numbers), int(self.memory[SCALE] // self.memory[STEP])
            self._past += self._distance(self._since + 1, self.rounds)
            self._grids.append((k, m))
        self._since = self.rounds + 1
        self._newcomers += 1
        self.numbers[label] = len(self.numbers)
        self._fit(len(self.numbers))
        self.settle_newcomer(label)

    def settle_newcomer(self, label: Any) -> None:
        """Charge a round to the corner of a class that its forecast did not know."""
        self.make_room()
        k, scale = self.units()
        corner = np.zeros(k, np.int64)
        corner[self.numbers[label]] = scale
        MACHINE.settle(self.memory, corner, self.numbers[label], NEWCOMER * simplex.units(self.memory))

    def settle(self, cell: Cell, number: int, vector: tuple[float, ...]) -> None:
        """Charge a round to the cell it was announced in, which may be older than the present grid."""
        self.make_room()
        k, scale = self.units()
        vertex, known = cell.vertices[number], len(cell.sums)
        units = simplex.units(self.memory)
        if self.follows:
            away = sum(abs(p * cell.scale - x) for p, x in zip(vector, vertex, strict=True))
            moved = math.ceil(away * units / cell.scale)
        else:
            distance = sum(abs(known * x - s) for x, s in zip(vertex, cell.sums, strict=True))
            moved = -(-distance * units // (known * cell.scale))
        point = np.zeros(k, np.int64)
        point[:known] = np.array(vertex) * (scale // cell.scale)
        MACHINE.settle(self.memory, point, number, moved)

    def advance(self, number: int) -> None:
        """Charge a round to the current cell."""
        while not MACHINE.advance(self.memory, number):
            self.make_room()

    def vector(self, frame: int, hint: NDArray[np.float64] | None = None) -> list[float]:
        """The forecast of a frame's cell: its barycentre, or its point towards a hint."""
        if hint is not None and len(hint) and self.follows:
            followed = np.empty(len(self.numbers))
            MACHINE.follow(self.memory, frame, hint, followed)
            return followed.tolist()
        k, units = len(self.numbers), len(self.numbers) * int(self.memory[SCALE])
        sums = self.memory[frame + 1 : frame + 1 + k].tolist()
        return [s / units for s in sums]

    def current(self) -> list[float]:
        """The forecast of the coming round; empty while no class is known."""
        if not len(self.memory):
            return []
        if self.memory[ROUNDS] >= self.memory[LIMIT]:
            self.make_room()
        return self.vector(int(self.memory[HERE]))

    def announce(self, guide: NDArray[np.float64]) -> tuple[Cell | None, list[float]]:
        """A cell near the guide, a distribution over the known classes or empty, and its forecast."""
        vector = self.current()
        if not vector:
            return None, vector
        frame = int(MACHINE.issue(self.memory, guide))
        return self.cell(frame), self.vector(frame, guide)

    def observe(self, cell: Cell | None, vector: tuple[float, ...], label: Any) -> None:
        """Settle what `announce` answered with the class that came, which may be a new one."""
        number = self.numbers.get(label)
        if number is None:
            self.welcome(label)
        elif cell is None or number >= len(vector):
            self.settle_newcomer(label)
        else:
            self.settle(cell, number, vector)

    def cell(self, frame: int) -> Cell:
        """The exact cell of a frame."""
        k, scale = self.units()
        labels, points = frame + 2 + 2 * k, frame + 5 + 5 * k
        rows = self.memory[points : points + k * k].reshape(k, k)
        order = np.argsort(self.memory[labels : labels + k])
        sums = tuple(self.memory[frame + 1 : frame + 1 + k].tolist())
        return Cell(scale, sums, tuple(tuple(row) for row in rows[order].tolist()))

    def look_ahead(self) -> SimplexLookAhead:
        """The points charged so far and their biases."""
        if not len(self.memory):
            return SimplexLookAhead(np.empty((0, 0)), np.empty((0, 0)))
        (k, scale), table = self.units(), simplex.records_of(self.memory)
        return SimplexLookAhead(table[:, POINT : POINT + k] / scale, table[:, POINT + k :] / scale)

    def replay(
        self,
        numbers: NDArray[np.int64],
        newcomers: dict[Any, int],
        hints: NDArray[np.float64],
        charged: bool,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Play a whole sequence of class numbers; `newcomers` has those that are met on the way."""
        check_bears(self.memory, self.changing, len(numbers))
        rounds, k = len(numbers), len(self.numbers) + len(newcomers)
        forecasts, points = np.zeros((rounds, k)), np.zeros((rounds if charged else 0, k))
        done = 0
        for label, number in newcomers.items():
            first = int(np.argmax(numbers == number))
            self._replay_until(first, done, numbers, hints, forecasts, points)
            now = self.current()
            forecasts[first, : len(now)] = now
            points[first : first + 1, number] = 1.0
            self.welcome(label)
            done = first + 1
        self._replay_until(rounds, done, numbers, hints, forecasts, points)
        return forecasts, points

    def _replay_until(
        self,
        stop: int,
        done: int,
        numbers: NDArray[np.int64],
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        points: NDArray[np.float64],
    ) -> None:
        """Play the rounds done..stop-1, all of known classes; weight of hints on others is shared out."""
        k = len(self.numbers)
        guide = hints[:stop]
        if len(guide) and k and k < guide.shape[1]:
            known = guide[:, :k]
            weight = known.sum(axis=1, keepdims=True)
            guide = np.where(weight > 0.0, known / np.where(weight > 0.0, weight, 1.0), 1.0 / k)
        while done < stop:
            done = MACHINE.replay(self.memory, numbers[:stop], guide, forecasts, points, done)
            if done < stop:
                self.make_room()

    # The account.

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
        if self.n_cells is None and self.horizon is None:
            return nested_distance(first, last, k, self.slack, self.follows)
        m = self.grid_at(first)[0]
        return max(0, last - first + 1) * reach(k, m, self.follows) / m

    def promise(self, rounds: int) -> Fraction:
        """The most that the certificate can be after that many rounds if no further class appears."""
        late, k = self.late, len(self.numbers)
        total = self._past + (NEWCOMER + (late + 2) * ROUNDING) * self._newcomers
        if late and not (self.fixed and (self.n_cells or self.horizon)):
            total += NEWCOMER * late * (2 * self._newcomers + 1)
        if not k:
            return total
        total += self._distance(self._since + 1, rounds) + self.follows * rounds * ROUNDING
        finest = self.grid_at(max(rounds, 1))[0]
        total += bias_bound(k, finest, self.slack, late)
        for left_k, left_m in reversed(self._grids):
            if finest % left_m:
                total += bias_bound(left_k, left_m, self.slack, late)
                finest = left_m
        return total

    def units(self) -> tuple[int, int]:
        """(k, SCALE) of the present memory."""
        return int(self.memory[CLASSES]), int(self.memory[SCALE])
