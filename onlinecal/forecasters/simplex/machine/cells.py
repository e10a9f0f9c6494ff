"""The announced cell of a round: the point that is reported, and how the cell is kept until the outcome.

*A cell is kept* as 3 k + 1 integers of 32 bits instead of k vertices:

    scale | step | first vertex (k) | the class that loses a step, from vertex to vertex (k - 1) | labels (k)

Each vertex differs from the one before by a step that moves weight from a class to the one after it, in
cyclic order. So a first vertex and the order of the steps determine the cell. The labels say which class each
vertex is charged with. The scale is that of the memory when the round was announced; later scales are
multiples of it.

*The report* that follows a hint is the point of the cell that is best if the hint is right. That is the hint
itself, if it is in the cell; else the point with the least expected log loss under the hint. The search for
it starts where the line from the barycentre to the hint leaves the cell.

Let q be a mixture of the cell's vertices w_i and h the hint. The *gain* of a vertex is the sum of h_c w_ic /
q_c over the classes c. The mixture is best if no gain is above 1, and no point of the cell is better by more
than the largest gain less 1. In each step weight goes from the used vertex with the least gain to the vertex
with the largest: as much as cannot change the sign of the slope on this line, whatever the curvature.

One of the k steps does not occur, that of the *last* class. In the sums of a point's coordinates from the
class after that one on, each step lowers one sum by a unit. So barycentric coordinates are differences of
such sums.

`place_cell` writes the other frame and the room for a single point; no function here writes a record. Tokens,
pickles and the engine's ledger hold kept cells, so their layout is part of STATE_FORMAT. How the search ends
(NEAR_ENOUGH, MOST_MOVES) decides what is announced, and so does the order of its sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part, uncounted
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import Memory
from onlinecal.restoring import require

CELL_SCALE, CELL_STEP, FIRST_VERTEX = range(3)
NEAR_ENOUGH = 5e-3
"""The search ends when the expected log loss is at most so far above the least, in nats."""
MOST_MOVES = 100
"""The search ends after so many moves of weight; any mixture is in the cell."""
LEAST_CHANCE = 1e-12
"""Where logarithms are compared, smaller probabilities count as this."""
NEWCOMER = 2
"""The l1 distance from a forecast to the corner of a class that it did not know."""
FAR_ROUNDS = 1 << 28
"""After fewer rounds than this, however far each was, the integers have room for very many more."""


@uncounted
def cell_size(k: int) -> int:
    """How many integers a cell of k classes has."""
    return 3 * k + 1


@uncounted
def write_cell(memory: Memory, frame: int, cell: Any) -> None:
    """Write the cell of a frame."""
    k, x = memory[layout.CLASSES], layout.vertex_at(memory, frame, 0)
    labels, steps = layout.part_of(memory, frame, layout.LABELS), layout.part_of(memory, frame, layout.STEPS)
    cell[CELL_SCALE], cell[CELL_STEP] = memory[layout.SCALE], memory[layout.STEP]
    for c in range(k):
        cell[FIRST_VERTEX + c] = memory[x + c]
        cell[FIRST_VERTEX + 2 * k - 1 + c] = memory[labels + c]
    for i in range(k - 1):
        cell[FIRST_VERTEX + k + i] = memory[steps + i]


@uncounted
def place_cell(memory: Memory, cell: Any, known: int, outcome: int) -> int:
    """Put a cell that was announced when so many classes were known into the other frame; returns the frame.

    Only the vertex labelled with the outcome is written, or all if the outcome is negative. A class that was
    not known has its corner as its vertex. The sums are those of the vertices of known classes.
    """
    k, frame, x = memory[layout.CLASSES], memory[layout.OTHER_FRAME], layout.point_of(memory)
    unit, sums = memory[layout.SCALE] // cell[CELL_SCALE] if known > 0 else 0, frame + layout.SUMS
    labels = layout.part_of(memory, frame, layout.LABELS)
    for c in range(k):
        memory[x + c] = unit * cell[FIRST_VERTEX + c] if c < known else 0
        memory[sums + c] = known * memory[x + c]
    for i in range(k):
        if i >= known:
            for c in range(k):
                memory[x + c] = memory[layout.SCALE] if c == i else 0
        elif i > 0:
            loser, step = cell[FIRST_VERTEX + known + i - 1], unit * cell[CELL_STEP]
            gainer = loser + 1 if loser + 1 < known else 0
            memory[x + loser] -= step
            memory[x + gainer] += step
            # all later vertices have this step, too
            memory[sums + loser] -= (known - i) * step
            memory[sums + gainer] += (known - i) * step
        memory[labels + i] = cell[FIRST_VERTEX + 2 * known - 1 + i] if i < known else i
        if outcome < 0 or memory[labels + i] == outcome:
            vertex = layout.vertex_at(memory, frame, i)
            for c in range(k):
                memory[vertex + c] = memory[x + c]
            memory[layout.part_of(memory, frame, layout.KEYS) + i] = layout.key_of(memory, x)
    return frame


@uncounted
def bears_surely(memory: Memory) -> bool:
    """Whether one more round certainly fits, also if the grid changes; `rounds_left` has the exact number."""
    far = FAR_ROUNDS * layout.units(memory)
    return bool(
        memory[layout.MOVED] < far and memory[layout.BALANCE] < far and memory[layout.SPREAD] < BRIM >> 1
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """The cell that was announced, exactly.

    Attributes
    ----------
    data
        The bytes of its integers.
    """

    data: bytes

    @property
    def numbers(self) -> NDArray[np.int32]:
        """The integers of the cell."""
        return np.frombuffer(self.data, np.int32)

    @property
    def scale(self) -> int:
        """Its vertices are in units of one over this."""
        return int(self.numbers[CELL_SCALE])

    @property
    def vertices(self) -> NDArray[np.int64]:
        """The vertices by class, shape (k, k): a round with outcome j will be charged to vertices[j]."""
        numbers = self.numbers
        k = len(numbers) // 3
        steps, losers = np.zeros((k, k), np.int64), numbers[FIRST_VERTEX + k : FIRST_VERTEX + 2 * k - 1]
        steps[0] = numbers[FIRST_VERTEX : FIRST_VERTEX + k]
        after = np.arange(1, k)
        steps[after, losers] -= numbers[CELL_STEP]
        steps[after, (losers + 1) % k] += numbers[CELL_STEP]
        by_class: NDArray[np.int64] = steps.cumsum(axis=0)[np.argsort(numbers[FIRST_VERTEX + 2 * k - 1 :])]
        return by_class


def check_cell(data: Any, forecasts: list[Any], memory: NDArray[np.int64]) -> None:
    """ValueError unless a round that was announced in the cell of these bytes can be settled."""
    known, what = len(forecasts), "the cell of a forecast"
    require(1 <= known <= int(memory[layout.CLASSES]) and isinstance(data, bytes), what)
    require(len(data) == 4 * cell_size(known), what)
    cell = Cell(data)
    scale, step = cell.numbers[[CELL_SCALE, CELL_STEP]].tolist()
    losers, labels = np.split(cell.numbers[FIRST_VERTEX + known :], [known - 1])
    require(scale > 0 and int(memory[layout.SCALE]) % scale == 0 and 0 < step <= scale, what)
    require(bool((np.sort(labels) == np.arange(known)).all()), what)
    require(bool(((losers >= 0) & (losers < known)).all()), what)
    vertices = cell.vertices
    require(bool((vertices >= 0).all() and (vertices.sum(axis=1) == scale).all()), what)
    require(bool((vertices.diagonal() > 0).all()), what)
    require(all(type(p) is float and 0.0 <= p <= 1.0 for p in forecasts), "a forecast")


@uncounted
def weight_of(memory: Memory, frame: int, last: int, i: int, hint: Any) -> float:
    """How many units of step i lead from w_0 to the hint."""
    k, moved = memory[layout.CLASSES], memory[layout.part_of(memory, frame, layout.STEPS) + i]
    x, c, total = layout.vertex_at(memory, frame, 0), last, 0.0
    while c != moved:
        c = c + 1 if c + 1 < k else 0
        total += memory[x + c] - hint[c] * memory[layout.SCALE]
    return total / memory[layout.STEP]


@kernel_part
def move_inside(memory: Memory, frame: int, hint: Any, vector: Any) -> None:
    """Write the point of the frame's cell that follows the hint, k probabilities, into `vector`."""
    k = memory[layout.CLASSES]
    weights = np.empty(2 * k)
    share = share_inside(memory, frame, hint, weights)
    for c in range(k):
        centre = memory[frame + layout.SUMS + c] / (k * memory[layout.SCALE])
        vector[c] = min(max(centre + share * (hint[c] - centre), 0.0), 1.0)
    if share < 1.0:
        for i in range(k):
            weights[i] = max(1.0 / k + share * (weights[i] - 1.0 / k), 0.0)
        improve(memory, frame, hint, weights, vector)
        write_mixture(memory, frame, weights, vector)


@uncounted
def share_inside(memory: Memory, frame: int, hint: Any, weights: Any) -> float:
    """The share of the way from barycentre to hint that is in the cell; fills in the hint's weights."""
    k = memory[layout.CLASSES]
    last = memory[layout.part_of(memory, frame, layout.STEPS) + k - 1]
    share, before = 1.0, 1.0
    for i in range(k):
        after = weight_of(memory, frame, last, i, hint) if i < k - 1 else 0.0
        if before - after < 0.0:
            share = min(share, 1.0 / (1.0 - k * (before - after)))
        weights[i] = before - after
        before = after
    return share


@uncounted
def improve(memory: Memory, frame: int, hint: Any, weights: Any, vector: Any) -> None:
    """Move weight from vertex to vertex until the mixture's expected log loss is nearly the least.

    Behind the k weights there must be room for as many numbers.
    """
    k, first = memory[layout.CLASSES], layout.vertex_at(memory, frame, 0)
    unit = 1.0 / memory[layout.SCALE]
    for _ in range(MOST_MOVES):
        for c in range(k):
            weights[k + c] = unit / max(vector[c], LEAST_CHANCE)
        most, least, up, down = -1.0, np.inf, 0, 0
        for i in range(k):
            gain, x = 0.0, first + i * k
            for c in range(k):
                gain += hint[c] * weights[k + c] * memory[x + c]
            if gain > most:
                most, up = gain, i
            if weights[i] > 0.0 and gain < least:
                least, down = gain, i
        if most <= 1.0 + NEAR_ENOUGH or up == down:
            break
        # the slope is the difference of gains; it falls with the curvature, and faster near a zero
        curvature, nearest = 0.0, 0.0
        for c in range(k):
            rate = weights[k + c] * (memory[first + up * k + c] - memory[first + down * k + c])
            curvature += hint[c] * rate * rate
            nearest = max(nearest, -rate)
        slope = most - least
        moved = min(slope / (curvature + slope * nearest), weights[down])
        weights[up] += moved
        weights[down] -= moved
        for c in range(k):
            vector[c] += moved * unit * (memory[first + up * k + c] - memory[first + down * k + c])


@uncounted
def write_mixture(memory: Memory, frame: int, weights: Any, vector: Any) -> None:
    """Write the mixture of the frame's vertices with these weights, which need not sum to 1."""
    k, first = memory[layout.CLASSES], layout.vertex_at(memory, frame, 0)
    total = 0.0
    for i in range(k):
        total += weights[i]
    for c in range(k):
        part = 0.0
        for i in range(k):
            part += weights[i] * memory[first + i * k + c]
        vector[c] = min(part / (total * memory[layout.SCALE]), 1.0)
