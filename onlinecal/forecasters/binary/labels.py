"""What the points of a grid accept, as bits: the valid cell nearest to a hint without a walk.

A word tells of 32 points in a row: in its lower half which of them accept 0, in its upper half which accept 1. A
second word beside it says the same with unbiased points free to accept either. Two such places in a row always
show a cell with the 14 cells to its left and right, where the nearest valid one almost always is.
"""

from __future__ import annotations

from onlinecal.compiling.bits import highest_bit, lowest_bit
from onlinecal.forecasters.binary.cells import Memory, inlined, part

NEAR = 14
SEEN = (1 << (NEAR + 1)) - 1
HALF = (1 << 32) - 1


@inlined
def labels_length(n_cells: int) -> int:
    """How much the labels of the points 0 .. n_cells take up; a spare place is at either end."""
    return 2 * ((n_cells >> 5) + 3)


@inlined
def place_of(start: int, number: int) -> int:
    """Where the words of a point stand."""
    return start + 2 * ((number >> 5) + 1)


@inlined
def set_label(labels: Memory, start: int, point: int, zero: int, one: int, unbiased: int) -> None:
    """Note whether a point accepts 0, accepts 1 and is unbiased, each 0 or 1."""
    place, bit = place_of(start, point), point & 31
    others, free = ~(1 << bit | 1 << (bit + 32)), unbiased << bit | unbiased << (bit + 32)
    label = zero << bit | one << (bit + 32)
    labels[place] = (labels[place] & others) | label
    labels[place + 1] = (labels[place + 1] & others) | label | free


@inlined
def run(first: int, last: int) -> int:
    """Half a word with the bits from `first` to `last` set, as far as it has them."""
    first, last = max(first, 0), min(last, 31)
    return ((2 << (last - first)) - 1) << first if first <= last else 0


@part
def fill_labels(labels: Memory, start: int, n_cells: int, last_zero: int, first_one: int) -> None:
    """Label points as if none was ever charged: those up to `last_zero` accept 0, from `first_one` on 1."""
    for number in range(-1, (n_cells >> 5) + 2):
        place, first = start + 2 * (number + 1), 32 * number
        zero = run(-first, min(last_zero, n_cells) - first)
        one = run(max(first_one, 0) - first, n_cells - first)
        all_points = run(-first, n_cells - first)
        labels[place], labels[place + 1] = zero | one << 32, all_points | all_points << 32


@inlined
def nearest_labelled(
    labels: Memory, start: int, n_cells: int, home: int, target: float, free: int
) -> int:
    """The valid cell nearest to `target`, in cells, which lies in `home`; of two, the lower. One is valid.

    `free`: 1 if unbiased points accept both outcomes, else 0.
    """
    first = home - NEAR
    place, bit = place_of(start, first), first & 31
    # loaded either way: what is free is known later than where to look
    low, high = labels[place], labels[place + 2]
    low ^= (low ^ labels[place + 1]) & -free
    high ^= (high ^ labels[place + 3]) & -free
    zero = (low & HALF) | (high & HALF) << 32
    one = ((low >> 32) & HALF) | (high >> 32) << 32
    valid = (zero >> bit) & (one >> (bit + 1))
    # a bit beyond what is seen, so that there always is one
    right = lowest_bit(((valid >> NEAR) & SEEN) | (SEEN + 1))
    left = NEAR + 1 - highest_bit((valid & SEEN) << 1 | 1)
    if (left >= NEAR) & (right >= NEAR):
        return far_labelled(labels, start + free, n_cells, home, target)
    # target - (home - left + 1) <= home + right - target, without a conversion on the way
    part_of_home = target - home
    twice = int(part_of_home > 0.0) + int(part_of_home > 0.5)
    beyond = int((left != 0) & (twice > right - left + 1))
    return home - left + ((left + right) & -beyond)


@part
def far_labelled(labels: Memory, start: int, n_cells: int, home: int, target: float) -> int:
    """The same by words, outwards from home, which is not valid."""
    below = above = -1
    last = (n_cells - 1) >> 5
    for side in range(2):
        number = home >> 5
        mask = (HALF << (home & 31)) & HALF if side else (2 << (home & 31)) - 1
        while 0 <= number <= last:
            place = start + 2 * (number + 1)
            zero, one = labels[place] & HALF, (labels[place] >> 32) & HALF
            valid = zero & (one >> 1 | (labels[place + 2] >> 32 & 1) << 31) & mask
            if valid:
                if side:
                    above = 32 * number + lowest_bit(valid)
                else:
                    below = 32 * number + highest_bit(valid)
                break
            mask = HALF
            number += 2 * side - 1
    if above < 0 or (below >= 0 and target - (below + 1) <= above - target):
        return below
    return above
