"""What the grids share whose points are all in the table from the start: uniform, graded and nested ones.

The table holds a pair (position, sum) for each point, in order. `cells` says what a sum is, and what HIGH,
LOW and TILT are: a point accepts 0 iff its sum is at most HIGH, and 1 iff it is at least LOW. It also says
who keeps a memory, and so what must not move in it. A round takes O(1), for two reasons. The cell that is
valid now is known, so that nothing has to be searched. And a charge changes the label of one point alone, so
that the cell which is valid next is the same one or its neighbour.

Invariant, between two rounds: the current cell, from LOWER to LOWER + STEP, is valid: its lower end accepts 0
and its upper end accepts 1. BELOW is the index of the pair of its lower end. (A replay with a guide puts that
off to its end, see `guided_uniform`.)

A charge is `change_bias`, `count_round`, `first_to_try` and `make_valid`, in this order; the grid adds its
own account. Only these write: the first the table and SPREAD, the second ROUNDS, MOVED and LAST_MIDDLE, the
last the current cell, of which graded grids add STEP (`enter_valid`). SHARED and the points are written when
a memory is made or `refined`, and points on nested grids when cells are halved.

Without hints labels are sorted, too: all points left of the current cell accept 0, and all right of it accept
1. Only hints and late labels disturb that order, since then a round may be charged in another cell than the
current one. The loops of `make_valid` turn more than once only after that. They end because the outermost
points are never biased: 0 always accepts 0, and 1 always accepts 1.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import inlined
from onlinecal.forecasters.binary import cells
from onlinecal.forecasters.binary.cells import (
    BELOW,
    BRIM,
    END,
    HIGH,
    LAST_MIDDLE,
    LOW,
    LOWER,
    MOVED,
    OWN,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    TABLE,
    TILT,
    Memory,
)
from onlinecal.layout import Layout
from onlinecal.restoring import require

HEADER = Layout(OWN)
SHARED = HEADER.field(
    "whether outcomes were shares; on nested grids the stage when they first were", "choice"
)
FIRST_OF_GRID = HEADER.end
"""Where the part of the header begins that a single kind of grid has."""


def new_table(form: int, points: Ints, rule: str, slack: float, report: str, hints: bool) -> Ints:
    """Header and table, in units of 1/points[-1], without biases; the middle cell is the current one.

    Without biases any cell is valid by the rule of the paper, and the middle one by the balanced rule.
    """
    scale = int(points[-1])
    middle = int(np.searchsorted(2 * points, scale)) - 1
    memory = cells.header(form, scale, max(1, 2**31 // scale), rule, slack, report, hints)
    memory[LOWER], memory[STEP] = int(points[middle]), int(points[middle + 1] - points[middle])
    memory[END] = TABLE + 2 * len(points)
    memory[BELOW] = TABLE + 2 * middle
    return np.concatenate([memory, np.column_stack([points, memory[TILT] * points]).ravel()])


@inlined
def cells_of(memory: Memory) -> int:
    """How many cells the grid has."""
    return ((memory[END] - TABLE) >> 1) - 1


@inlined
def takes_shares(memory: Memory) -> bool:
    """Whether it is `refined`."""
    return bool(memory[SHARED] != 0)


@inlined
def note_late(memory: Memory, others: int) -> None:
    """Late labels change nothing: the grid was made for its slack, which stays."""


@inlined
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    return bool(memory[MOVED] < BRIM and memory[SPREAD] < BRIM and memory[ROUNDS] < BRIM)


@inlined
def change_bias(memory: Memory, index: int, change: int) -> int:
    """Change the bias of the point whose pair has this index, and give back its new bias."""
    total = memory[index + 1] + change
    memory[index + 1] = total
    bias = total - memory[TILT] * memory[index]
    memory[SPREAD] += abs(bias) - abs(bias - change)
    return bias


@inlined
def first_to_try(memory: Memory, index: int, above: int) -> int:
    """The pair of the lower end of the cell to try first, once the point of this pair was charged.

    The charged point is the lower (0) or the upper (1) end of its cell. The cell is tried again, unless that
    end now refuses what it was charged with: then it is the neighbour on the other side of that end, which
    the end accepts. The two products select without a branch, which a processor could not foresee: about
    every other round on coins would guess wrong.
    """
    total = memory[index + 1]
    refuses_zeros = (1 - above) & (total > memory[HIGH])
    refuses_ones = above & (total < memory[LOW])
    own_cell = index - 2 * above
    return own_cell + 2 * (refuses_ones - refuses_zeros)


@inlined
def make_valid(memory: Memory, below: int) -> None:
    """Make the valid cell current that is nearest to the cell whose lower end has this pair.

    Go down until a point accepts 0, then up until the next point accepts 1.
    """
    while memory[below + 1] > memory[HIGH]:
        below -= 2
    while memory[below + 3] < memory[LOW]:
        below += 2
    memory[BELOW], memory[LOWER] = below, memory[below]


@inlined
def count_round(memory: Memory, lower: int, step: int, point: int, reported: float) -> None:
    """Count a round, and the distance from its report to the point that it is charged to."""
    memory[ROUNDS] += 1
    memory[LAST_MIDDLE] = 2 * lower + step
    memory[MOVED] += cells.travelled(memory, lower, step, point, reported)


def rounding_of(memory: Memory) -> float:
    """What a round may cost beyond the width of its cell, since numbers are rounded."""
    scale = int(memory[SCALE])
    m = int(cells_of(memory))
    # lower/m * m is exact for powers of two, and for hints on the border of a cell only for them
    exact = memory[cells.REPORT] != cells.AT_HINT or m & (m - 1) == 0
    rounding = 0.0 if exact else 1.0 / (2 * scale * int(memory[cells.FINE]))
    return rounding + 1.0 / scale if memory[SHARED] else rounding


def check_current_cell(memory: Ints) -> None:
    """ValueError unless the current cell is one of the table."""
    below, lower, step = int(memory[BELOW]), int(memory[LOWER]), int(memory[STEP])
    require(memory[below : below + 3 : 2].tolist() == [lower, lower + step], "its cell")
