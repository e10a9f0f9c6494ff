"""The sparse table of a dyadic grid, and the search for valid cells in it.

The table is a sorted run of pairs (position, sum), sentinels 0 and 1 included; a point that was never
charged has bias 0, so its sum is tilt * position. All positions and steps are integers in units of
1/scale, steps are powers of two and cells start at multiples of their step.
"""

from __future__ import annotations

from numba.extending import register_jitable

from onlinecal.forecasters.cells import COMMON, HIGH, LOW, SCALE, TABLE, TILT, Memory

END = COMMON
"""Where the header keeps the index behind the last pair in use."""


@register_jitable
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


@register_jitable
def insert(memory: Memory, index: int, position: int) -> None:
    """Open a pair for a point that was never charged; the memory must have room for it."""
    for i in range(memory[END] - 1, index - 1, -1):
        memory[i + 2] = memory[i]
    memory[index] = position
    memory[index + 1] = memory[TILT] * position
    memory[END] += 2


@register_jitable
def sum_at(memory: Memory, position: int) -> int:
    """The sum of a point, charged before or not."""
    index = find(memory, position)
    return memory[index + 1] if memory[index] == position else memory[TILT] * position


@register_jitable
def search_cell(memory: Memory, lower: int, upper: int, step: int) -> int:
    """The lower end of a valid cell of width `step`, searched outwards from [lower, upper].

    Doubling strides find an interval whose ends accept 0 and 1, bisection narrows it to one cell:
    O(log) look-ups.
    """
    low, high = memory[LOW], memory[HIGH]
    stride = step
    if sum_at(memory, lower) > high:
        while sum_at(memory, lower) > high:
            upper = lower
            lower = max(0, lower - stride)
            stride *= 2
    else:
        while sum_at(memory, upper) < low:
            lower = upper
            upper = min(memory[SCALE], upper + stride)
            stride *= 2
    while upper - lower > step:
        middle = lower + (((upper - lower) >> 1) & -step)
        if sum_at(memory, middle) <= high:
            lower = middle
        else:
            upper = middle
    return lower


@register_jitable
def nearest_cell(memory: Memory, target: float, step: int) -> int:
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    Cells whose ends were never charged are alike: valid exactly where LOW - step <= lower end <= HIGH.
    So only the nearest of those, and the neighbours of charged points, need a look.
    """
    last = memory[SCALE] - step
    home = min(int(target), last) & -step
    index = find(memory, home)
    if valid(memory, index, home, step):
        return home
    left, below = next_below(memory, index, home, step)
    right, above = next_above(memory, index, home, step)
    while True:
        if right > last or (left >= 0 and target - (left + step) <= right - target):
            if valid(memory, below, left, step):
                return left
            left, below = next_below(memory, below, left, step)
        else:
            if valid(memory, above, right, step):
                return right
            right, above = next_above(memory, above, right, step)


@register_jitable
def valid(memory: Memory, index: int, lower: int, step: int) -> bool:
    """Whether the lower end accepts outcome 0 and the upper end accepts outcome 1.

    `index` is that of the first pair not below the lower end.
    """
    total = memory[index + 1] if memory[index] == lower else memory[TILT] * lower
    if total > memory[HIGH]:
        return False
    upper = lower + step
    while memory[index] < upper:
        index += 2
    total = memory[index + 1] if memory[index] == upper else memory[TILT] * upper
    return total >= memory[LOW]


@register_jitable
def next_below(memory: Memory, index: int, lower: int, step: int) -> tuple[int, int]:
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
    if memory[TILT]:
        untouched = min(untouched, memory[HIGH] & -step)
    if memory[TILT] == 0 or untouched + step >= memory[LOW]:
        best = max(best, untouched)
    while index > TABLE and memory[index - 2] >= best:
        index -= 2
    return best, index


@register_jitable
def next_above(memory: Memory, index: int, lower: int, step: int) -> tuple[int, int]:
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
    if memory[TILT]:
        untouched = max(untouched, (memory[LOW] - 1) & -step)
    if memory[TILT] == 0 or untouched <= memory[HIGH]:
        best = min(best, untouched)
    while memory[index] < best:
        index += 2
    return best, index
