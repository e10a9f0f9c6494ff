"""The valid cells of a grid, marked in bits, and the one nearest to a hint: some three words of 64 cells.

For each kind of validity, strict and with unbiased points free, a guide holds a bit for each cell, and before
them a bit for each of their words that is not zero.
"""

from __future__ import annotations

from onlinecal.compiling.bits import highest_bit, lowest_bit
from onlinecal.forecasters.binary.cells import Memory, inlined, lower_is_nearer

ALL = -1
"""A word with all bits."""


@inlined
def head_length(n_cells: int) -> int:
    """The words that tell which words of cells are not zero."""
    return (n_cells + 4095) >> 12


@inlined
def marks_length(n_cells: int) -> int:
    """How much the marks of so many cells take up, of one kind."""
    return head_length(n_cells) + ((n_cells + 63) >> 6)


@inlined
def mark(guide: Memory, start: int, n_cells: int, cell: int, on: int) -> None:
    """Set the mark of a cell, or clear it."""
    number = cell >> 6
    place, head = start + head_length(n_cells) + number, start + (number >> 6)
    word = (guide[place] & ~(1 << (cell & 63))) | (on << (cell & 63))
    guide[place] = word
    guide[head] = (guide[head] & ~(1 << (number & 63))) | (int(word != 0) << (number & 63))


@inlined
def mark_run(guide: Memory, start: int, n_cells: int, first: int, last: int) -> None:
    """Mark the cells from `first` to `last`, as far as there are such, and no others."""
    words = start + head_length(n_cells)
    first, last = max(first, 0), min(last, n_cells - 1)
    for number in range((n_cells + 63) >> 6):
        low, high = max(first - 64 * number, 0), min(last - 64 * number, 63)
        word = (ALL << low) & ~((ALL << 1) << high) if low <= high else 0
        guide[words + number] = word
        if number & 63 == 0:
            guide[start + (number >> 6)] = 0
        guide[start + (number >> 6)] |= int(word != 0) << (number & 63)


@inlined
def nearest_marked(guide: Memory, start: int, n_cells: int, home: int, target: float, in_odds: bool) -> int:
    """The marked cell nearest to `target`, in cells, which is in `home`: home itself, or of two the lower.

    Nearest is counted in probabilities or `in_odds`. Some cell is marked.
    """
    words = start + head_length(n_cells)
    number, bit = home >> 6, home & 63
    word = guide[words + number]
    left, right = word & ~((ALL << 1) << bit), word & (ALL << bit)
    below = above = number
    if left == 0:
        at = number >> 6
        those = guide[start + at] & ~(ALL << (number & 63))
        while those == 0 and at > 0:
            at -= 1
            those = guide[start + at]
        if those == 0:
            return 64 * above + lowest_bit(right) if right else next_marked(guide, start, n_cells, number)
        below = 64 * at + highest_bit(those)
        left = guide[words + below]
    below = 64 * below + highest_bit(left)
    if right == 0:
        above = next_marked(guide, start, n_cells, number)
        if above >= n_cells:
            return below
    else:
        above = 64 * above + lowest_bit(right)
    if in_odds:
        return above if below != home and not lower_is_nearer(target, below + 1, above, n_cells) else below
    # target - (below + 1) <= above - target, in whole numbers
    part_of_home = target - home
    twice = int(part_of_home > 0.0) + int(part_of_home > 0.5)
    rather = int((below != home) & (twice > above + below + 1 - 2 * home))
    return below + ((above - below) & -rather)


@inlined
def next_marked(guide: Memory, start: int, n_cells: int, number: int) -> int:
    """The first marked cell in the words beyond this one, or `n_cells`."""
    at, last = number >> 6, head_length(n_cells) - 1
    those = guide[start + at] & ((ALL << 1) << (number & 63))
    while those == 0 and at < last:
        at += 1
        those = guide[start + at]
    if those == 0:
        return n_cells
    place = 64 * at + lowest_bit(those)
    return 64 * place + lowest_bit(guide[start + last + 1 + place])
