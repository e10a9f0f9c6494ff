"""What the points of a grid accept, as bits: the valid cell nearest to a hint is a look at one word.

A word tells of 62 points in a row, 32 of its own and 15 of either neighbour's, so that a cell of its own is
always seen with the 14 cells to its left and right. Four words stand together: which points accept 0, which
accept 1, and both again with unbiased points free to accept either.
"""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import Memory, inlined, part

MARGIN = 15
WORDS = 4
"""Of one place: accepts 0, accepts 1, accepts 0 or is unbiased, accepts 1 or is unbiased."""
NEAR = 14
SEEN = (1 << (NEAR + 1)) - 1
OWN = (1 << 32) - 1


@inlined
def labels_length(n_cells: int) -> int:
    """How much the labels of the points 0 .. n_cells take up; before the first and behind the last is a spare
    word."""
    return WORDS * ((n_cells >> 5) + 3)


@inlined
def word_of(start: int, number: int) -> int:
    """Where the words of a point or cell begin."""
    return start + WORDS * ((number >> 5) + 1)


@inlined
def set_label(labels: Memory, start: int, point: int, zero: int, one: int, unbiased: int) -> None:
    """Note whether a point accepts 0, accepts 1 and is unbiased, each 0 or 1."""
    place, within = word_of(start, point), point & 31
    # the neighbour that sees the point too; the middle two are seen by none, and written twice
    side = int(within > 31 - MARGIN) - int(within < MARGIN)
    for word, bit in ((place, within + MARGIN), (place + WORDS * side, within + MARGIN - 32 * side)):
        others = ~(1 << bit)
        labels[word] = (labels[word] & others) | (zero << bit)
        labels[word + 1] = (labels[word + 1] & others) | (one << bit)
        labels[word + 2] = (labels[word + 2] & others) | ((zero | unbiased) << bit)
        labels[word + 3] = (labels[word + 3] & others) | ((one | unbiased) << bit)


@inlined
def run(first: int, last: int) -> int:
    """A word with the bits from `first` to `last` set, as far as they are bits of a word."""
    first, last = max(first, 0), min(last, 2 * MARGIN + 31)
    return ((2 << (last - first)) - 1) << first if first <= last else 0


@part
def fill_labels(labels: Memory, start: int, n_cells: int, last_zero: int, first_one: int) -> None:
    """Label points as if none was ever charged: those up to `last_zero` accept 0, from `first_one` on 1."""
    for number in range(-1, (n_cells >> 5) + 2):
        place, first = start + WORDS * (number + 1), 32 * number - MARGIN
        labels[place] = run(-first, min(last_zero, n_cells) - first)
        labels[place + 1] = run(max(first_one, 0) - first, n_cells - first)
        labels[place + 2] = labels[place + 3] = run(-first, n_cells - first)


@inlined
def lowest_bit(word: int) -> int:
    """The place of the lowest bit of a word of 16 bits, without branches."""
    bit = word & -word
    place = (int(bit & 0xFF00 != 0) << 3) | (int(bit & 0xF0F0 != 0) << 2)
    return place | (int(bit & 0xCCCC != 0) << 1) | int(bit & 0xAAAA != 0)


@inlined
def highest_bit(word: int) -> int:
    """The place of the highest bit of a word of 16 bits that is not zero, without branches."""
    eight = int(word > 0xFF) << 3
    word >>= eight
    four = int(word > 0xF) << 2
    word >>= four
    two = int(word > 3) << 1
    return eight | four | two | (word >> two > 1)


@inlined
def nearest_labelled(
    labels: Memory, start: int, n_cells: int, home: int, target: float, free: int
) -> int:
    """The valid cell nearest to `target`, in cells, which lies in `home`; of two, the lower. One is valid.

    `free`: 1 if unbiased points accept both outcomes, else 0.
    """
    place, bit = word_of(start, home) + 2 * free, (home & 31) + MARGIN
    valid = labels[place] & (labels[place + 1] >> 1)
    # a bit beyond what is seen, so that there always is one
    right = lowest_bit(((valid >> bit) & SEEN) | (SEEN + 1))
    left = NEAR + 1 - highest_bit((((valid >> (bit - NEAR)) & SEEN) << 1) | 1)
    if (left >= NEAR) & (right >= NEAR):
        return far_labelled(labels, start + 2 * free, n_cells, home, target)
    below, above = home - left, home + right
    return below + (above - below) * int((left != 0) & (target - (below + 1) > above - target))


@part
def far_labelled(labels: Memory, start: int, n_cells: int, home: int, target: float) -> int:
    """The same by words, outwards from home, which is not valid."""
    below, above = home, home
    for side in range(2):
        number, last = home >> 5, (n_cells - 1) >> 5
        mask = (OWN << (home & 31)) & OWN if side else (2 << (home & 31)) - 1
        while 0 <= number <= last:
            place = start + WORDS * (number + 1)
            valid = ((labels[place] & (labels[place + 1] >> 1)) >> MARGIN) & mask
            if valid:
                break
            mask = OWN
            number += 2 * side - 1
        if not 0 <= number <= last:
            cell = -1
        elif side:
            low = valid & 0xFFFF
            cell = 32 * number + (lowest_bit(low) if low else 16 + lowest_bit(valid >> 16))
        else:
            high = valid >> 16
            cell = 32 * number + (16 + highest_bit(high) if high else highest_bit(valid))
        if side:
            above = cell
        else:
            below = cell
    if above < 0 or (below >= 0 and target - (below + 1) <= above - target):
        return below
    return above
