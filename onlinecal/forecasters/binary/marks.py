"""Marks of valid cells, a bit for each cell, from which the valid cell nearest to a hint is found at once.

A replay with hints has a guide beside the memory. It is made for that replay and thrown away: everything in
it follows from the memory. The game is the same as without a guide, to the bit.

A cell is strictly valid if its ends accept their outcomes, and freely valid if unbiased points count as
accepting both. A guide has the marks of all cells for each kind, `start` being where those of the strictly
valid ones begin. The valid cell nearest to a hint is usually found in two words of 64 cells.

`mark_both_sides` keeps the marks beside one point right, whatever they were; whoever charges a point calls it
if `changes_cells` says so. So between two rounds every mark says what the memory says
(`tests/forecasters/binary/test_guided.py`). How marks are laid out may change freely.
"""

from __future__ import annotations

import numpy as np

from onlinecal.compiling import inlined
from onlinecal.compiling.instructions import highest_bit, lowest_bit
from onlinecal.forecasters.binary import cells
from onlinecal.forecasters.binary.cells import HIGH, LOW, TILT, Memory

ALL_BITS, LOWEST_BIT = np.int64(-1), np.int64(1)
"""A word with all bits and one with the lowest. The interpreter, too, shifts them within 64 bits."""


@inlined
def marks_length(n_cells: int) -> int:
    """How many words the marks of so many cells take up, of one kind."""
    return (n_cells + 63) >> 6


@inlined
def mark(guide: Memory, start: int, cell: int, on: int) -> None:
    """Set the mark of a cell, or clear it."""
    place, bit = start + (cell >> 6), cell & 63
    guide[place] = (guide[place] & ~(LOWEST_BIT << bit)) | (on * LOWEST_BIT << bit)


@inlined
def mark_run(guide: Memory, start: int, n_cells: int, first: int, last: int) -> None:
    """Mark the cells from `first` to `last` that exist, and no others."""
    last = min(last, n_cells - 1)
    for number in range(marks_length(n_cells)):
        low, high = max(first - 64 * number, 0), min(last - 64 * number, 63)
        guide[start + number] = (ALL_BITS << low) & ~((ALL_BITS << 1) << high) if low <= high else 0


@inlined
def nearest_marked(guide: Memory, start: int, n_cells: int, target: float, in_odds: bool) -> int:
    """The marked cell nearest to `target`, a number in cells; of two cells that are equally near the lower.

    Distances are those of probabilities, or of odds if `in_odds`. At least one cell must be marked.
    """
    home = min(int(target), n_cells - 1)
    number, bit, last = home >> 6, home & 63, marks_length(n_cells) - 1
    word = guide[start + number]
    left, right = word & ~((ALL_BITS << 1) << bit), word & (ALL_BITS << bit)
    below = above = number
    while left == 0 and below > 0:
        below -= 1
        left = guide[start + below]
    while right == 0 and above < last:
        above += 1
        right = guide[start + above]
    if left == 0:
        return 64 * above + lowest_bit(right)
    below = 64 * below + highest_bit(left)
    if right == 0:
        return below
    above = 64 * above + lowest_bit(right)
    if in_odds:
        nearer = below == home or cells.lower_is_nearer(target, below + 1, above, n_cells)
        return below if nearer else above
    # target - (below + 1) <= above - target, in whole numbers
    part_of_home = target - home
    twice = int(part_of_home > 0.0) + int(part_of_home > 0.5)
    rather = int((below != home) & (twice > above + below + 1 - 2 * home))
    return below + ((above - below) & -rather)


@inlined
def mark_both_sides(
    memory: Memory, guide: Memory, start: int, point: int, sums: tuple[int, int, int], step: int, cell: int
) -> None:
    """Mark the cells on both sides of a point, `cell` being the upper one's number, if they are valid.

    `sums` are those of the point's lower neighbour, of itself and of its upper neighbour.
    """
    below, total, above = sums
    low, high, tilt, scale = memory[LOW], memory[HIGH], memory[TILT], memory[cells.SCALE]
    freely = start + marks_length(scale // step)
    accepts_zero, accepts_one, unbiased = total <= high, total >= low, total == tilt * point
    if point > 0:
        strict = below <= high
        free = strict | (below == tilt * (point - step))
        mark(guide, start, cell - 1, int(strict & accepts_one))
        mark(guide, freely, cell - 1, int(free & (accepts_one | unbiased)))
    if point < scale:
        strict = above >= low
        free = strict | (above == tilt * (point + step))
        mark(guide, start, cell, int(accepts_zero & strict))
        mark(guide, freely, cell, int((accepts_zero | unbiased) & free))


@inlined
def changes_cells(memory: Memory, point: int, total: int, change: int) -> bool:
    """Whether a point that came to this sum by a change accepts something else than before."""
    old, unbiased = total - change, memory[TILT] * point
    zero_changes = (total <= memory[HIGH]) != (old <= memory[HIGH])
    one_changes = (total >= memory[LOW]) != (old >= memory[LOW])
    return bool(zero_changes | one_changes | (total == unbiased) | (old == unbiased))
