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
    lower_is_nearer,
    part,
)

# The table's part of the header. END: the index behind the last pair in use. BELOW, ABOVE: the index of the
# first pair not below the lower, respectively upper, end of the current cell: a round there needs no search.
END, BELOW, ABOVE = range(COMMON, COMMON + 3)
OWN = COMMON + 3
"""Where the machine's own part of the header begins."""


@part
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


@part
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


@part
def search_cell(memory: Memory, lower: int, upper: int, step: int, free: bool) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from [lower, upper], O(log).

    By strides that double, then bisection of an interval whose ends accept 0 and 1 (Lemma 14). What refuses
    one outcome accepts the other, so only one of the ends ever moves.
    """
    stride = step
    while not accepts_at(memory, lower, 0, free):
        upper, lower = lower, max(0, lower - stride)
        stride *= 2
    while not accepts_at(memory, upper, 1, free):
        lower, upper = upper, min(memory[SCALE], upper + stride)
        stride *= 2
    while upper - lower > step:
        middle = lower + (((upper - lower) >> 1) & -step)
        if accepts_at(memory, middle, 0, free):
            lower = middle
        else:
            upper = middle
    return lower


@part
def enter_cell(memory: Memory, lower: int, step: int) -> None:
    """Make a cell the current one."""
    memory[LOWER], memory[STEP] = lower, step
    memory[BELOW], memory[ABOVE] = find(memory, lower), find(memory, lower + step)


@part
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


@part
def nearest_cell(memory: Memory, target: float, step: int, free: bool, in_odds: bool) -> int:
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    Nearest is counted in probabilities or `in_odds`.

    Cells whose ends were never charged are alike: valid if unbiased points are free, else exactly where
    LOW - step <= lower end <= HIGH. So only the nearest of those, and the neighbours of charged points, need
    a look.
    """
    last = memory[SCALE] - step
    home = min(int(target), last) & -step
    lower = left = right = home
    index = below = above = find(memory, home)
    alike = free or memory[TILT] == 0
    while not valid(memory, index, lower, step, free):
        if lower <= left:
            left, below = next_below(memory, below, left, step, alike)
        if lower >= right:
            right, above = next_above(memory, above, right, step, alike)
        low = left >= 0 and target - (left + step) <= right - target
        if in_odds and left >= 0 and right <= last:
            low = lower_is_nearer(target, left + step, right, memory[SCALE])
        if right > last or low:
            lower, index = left, below
        else:
            lower, index = right, above
    return lower


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


@part
def next_below(memory: Memory, index: int, lower: int, step: int, alike: bool) -> tuple[int, int]:
    """The next cell below that might be valid and its index, or a negative number.

    `index` is that of the first pair not below `lower`. `alike`: all cells that were never charged are valid.
    """
    best = lower - step
    if not alike and memory[index] != lower:
        back = index - 2
        while memory[back] & (step - 1):
            back -= 2
        untouched = min(best, memory[HIGH] & -step)
        best = memory[back]
        if untouched + step >= memory[LOW]:
            best = max(best, untouched)
    while index > TABLE and memory[index - 2] >= best:
        index -= 2
    return best, index


@part
def next_above(memory: Memory, index: int, lower: int, step: int, alike: bool) -> tuple[int, int]:
    """The next cell above that might be valid and its index, or one beyond the last (see `next_below`)."""
    best = lower + step
    if best >= memory[SCALE]:
        return best, index
    while memory[index] < best:
        index += 2
    if not alike and memory[index] != best:
        ahead = index
        while memory[ahead] & (step - 1):
            ahead += 2
        untouched = max(best, (memory[LOW] - 1) & -step)
        best = memory[ahead] - step
        if untouched <= memory[HIGH]:
            best = min(best, untouched)
    while memory[index] < best:
        index += 2
    return best, index
