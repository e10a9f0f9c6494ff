"""The sparse table of a dyadic grid, and the search for valid cells in it.

The table is a sorted run of pairs (position, sum), sentinels 0 and 1 included; a point that was never
charged has bias 0, so its sum is tilt * position. All positions and steps are integers in units of
1/scale, steps are powers of two and cells start at multiples of their step.
"""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import (
    COMMON,
    HIGH,
    LOW,
    LOWER,
    SCALE,
    STEP,
    TABLE,
    TILT,
    Memory,
    inlined,
)

# The table's part of the header. END: the index behind the last pair in use. BELOW, ABOVE: the index of the
# first pair not below the lower, respectively upper, end of the current cell: a round there needs no search.
END, BELOW, ABOVE = range(COMMON, COMMON + 3)
OWN = COMMON + 3
"""Where the machine's own part of the header begins."""


@inlined
def find(memory: Memory, position: int) -> int:
    """The index of the first pair whose position is not below `position`."""
    first, last = 0, (memory[END] - TABLE) >> 1
    while first < last:
        middle = (first + last) >> 1
        if memory[TABLE + 2 * middle] < position:
            first = middle + 1
        else:
            last = middle
    return TABLE + 2 * first


@inlined
def find_end(memory: Memory, lower: int, step: int, above: int) -> int:
    """`find` for an end of a cell, the lower one with 0, the upper one with 1."""
    point = lower + step * above
    if point == memory[LOWER] + memory[STEP] * above:
        return memory[BELOW + above]
    return find(memory, point)


@inlined
def insert(memory: Memory, index: int, position: int) -> None:
    """Open a pair for a point that was never charged; the memory must have room for it."""
    for i in range(memory[END] - 1, index - 1, -1):
        memory[i + 2] = memory[i]
    memory[index] = position
    memory[index + 1] = memory[TILT] * position
    memory[END] += 2
    memory[BELOW] += 2 * (position < memory[LOWER])
    memory[ABOVE] += 2 * (position < memory[LOWER] + memory[STEP])


@inlined
def sum_from(memory: Memory, index: int, position: int) -> int:
    """The sum of a point, charged before or not; if it was, `index` is that of its pair."""
    return memory[index + 1] if memory[index] == position else memory[TILT] * position


@inlined
def accepts(memory: Memory, index: int, position: int, above: int, free: bool) -> bool:
    """Whether a point accepts outcomes below it (0) or above it (1); `free`: both without bias.

    `index` is that of the first pair not below the point.
    """
    total = sum_from(memory, index, position)
    within = total >= memory[LOW] if above else total <= memory[HIGH]
    return bool(within or (free and total == memory[TILT] * position))


@inlined
def accepts_at(memory: Memory, position: int, above: int, free: bool) -> bool:
    """The same, wherever the point's pair is."""
    return accepts(memory, find(memory, position), position, above, free)


@inlined
def search_cell(memory: Memory, lower: int, upper: int, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from [lower, upper]."""
    if not accepts_at(memory, lower, 0, free):
        return search_below(memory, lower, step, free)
    if not accepts_at(memory, upper, 1, free):
        return search_above(memory, upper, step, free)
    return bisected(memory, lower, upper, step, free)


@inlined
def search_below(memory: Memory, upper: int, step: int, free: bool) -> int:
    """A valid cell below a point that refuses 0, by strides that double and bisection."""
    lower, stride = max(0, upper - step), step
    while not accepts_at(memory, lower, 0, free):
        upper = lower
        stride *= 2
        lower = max(0, lower - stride)
    return bisected(memory, lower, upper, step, free)


@inlined
def search_above(memory: Memory, lower: int, step: int, free: bool) -> int:
    """A valid cell above a point that refuses 1, by strides that double and bisection."""
    upper, stride = min(memory[SCALE], lower + step), step
    while not accepts_at(memory, upper, 1, free):
        lower = upper
        stride *= 2
        upper = min(memory[SCALE], upper + stride)
    return bisected(memory, lower, upper, step, free)


@inlined
def bisected(memory: Memory, lower: int, upper: int, step: int, free: bool) -> int:
    """A valid cell in [lower, upper], whose ends accept 0 and 1 (Lemma 14)."""
    while upper - lower > step:
        middle = lower + (((upper - lower) >> 1) & -step)
        if accepts_at(memory, middle, 0, free):
            lower = middle
        else:
            upper = middle
    return lower


@inlined
def enter_cell(memory: Memory, lower: int, step: int) -> None:
    """Make a cell the current one."""
    memory[LOWER], memory[STEP] = lower, step
    memory[BELOW], memory[ABOVE] = find(memory, lower), find(memory, lower + step)


@inlined
def enter_neighbour(memory: Memory, beyond: int, free: bool) -> bool:
    """Make the cell beyond the end that was just charged current; False, and no change, if it is not valid.

    The charged end is the lower one (0) or the upper one (1), and accepts outcomes beyond it now. The next
    pair or one of the next few is the neighbour's far end, so this takes no search.
    """
    if beyond:
        lower, below = memory[LOWER] + memory[STEP], memory[ABOVE]
        upper, above = lower + memory[STEP], below + 2
        while memory[above] < upper:
            above += 2
        fits = accepts(memory, above, upper, 1, free)
    else:
        upper, above = memory[LOWER], memory[BELOW]
        lower, below = upper - memory[STEP], above - 2
        while memory[below] > lower:
            below -= 2
        fits = accepts(memory, below, lower, 0, free)
        if memory[below] < lower:
            below += 2
    if fits:
        memory[LOWER], memory[BELOW], memory[ABOVE] = lower, below, above
    return fits


@inlined
def nearest_cell(memory: Memory, target: float, step: int, free: bool) -> int:
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    Cells whose ends were never charged are alike: valid if unbiased points are free, else exactly where
    LOW - step <= lower end <= HIGH. So only the nearest of those, and the neighbours of charged points, need
    a look.
    """
    last = memory[SCALE] - step
    home = min(int(target), last) & -step
    index = find(memory, home)
    if valid(memory, index, home, step, free):
        return home
    left, below = next_below(memory, index, home, step, free)
    right, above = next_above(memory, index, home, step, free)
    while True:
        if right > last or (left >= 0 and target - (left + step) <= right - target):
            if valid(memory, below, left, step, free):
                return left
            left, below = next_below(memory, below, left, step, free)
        else:
            if valid(memory, above, right, step, free):
                return right
            right, above = next_above(memory, above, right, step, free)


@inlined
def valid(memory: Memory, index: int, lower: int, step: int, free: bool) -> bool:
    """Whether the lower end accepts outcome 0 and the upper end accepts outcome 1.

    `index` is that of the first pair not below the lower end.
    """
    if not accepts(memory, index, lower, 0, free):
        return False
    upper = lower + step
    while memory[index] < upper:
        index += 2
    return accepts(memory, index, upper, 1, free)


@inlined
def next_below(memory: Memory, index: int, lower: int, step: int, free: bool) -> tuple[int, int]:
    """The next cell below that might be valid and its index, or a negative number.

    `index` is that of the first pair not below `lower`.
    """
    if memory[index] == lower:
        best = lower - step
    else:
        back = index - 2
        while memory[back] & (step - 1):
            back -= 2
        best = memory[back]
    untouched = lower - step
    if memory[TILT] and not free:
        untouched = min(untouched, memory[HIGH] & -step)
    if free or memory[TILT] == 0 or untouched + step >= memory[LOW]:
        best = max(best, untouched)
    while index > TABLE and memory[index - 2] >= best:
        index -= 2
    return best, index


@inlined
def next_above(memory: Memory, index: int, lower: int, step: int, free: bool) -> tuple[int, int]:
    """The next cell above that might be valid and its index, or one beyond the last (see `next_below`)."""
    upper = lower + step
    if upper >= memory[SCALE]:
        return upper, index
    while memory[index] < upper:
        index += 2
    if memory[index] == upper:
        best = upper
    else:
        ahead = index
        while memory[ahead] & (step - 1):
            ahead += 2
        best = memory[ahead] - step
    untouched = upper
    if memory[TILT] and not free:
        untouched = max(untouched, (memory[LOW] - 1) & -step)
    if free or memory[TILT] == 0 or untouched <= memory[HIGH]:
        best = min(best, untouched)
    while memory[index] < best:
        index += 2
    return best, index
