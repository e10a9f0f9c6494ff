"""The valid cells of a dyadic grid, marked, so that the one nearest to a hint is found without a walk.

A number is marked for each pair of the table: whether a valid cell begins at its position or between it and
the next pair's. Marks are kept for two steps, the base grid's and a finer one, for each strictly and with
unbiased points free. They follow from the table and stand at the very end of the memory, behind the room to
spare, from the first hint on that finds room; a memory without them is searched pair by pair.

    memory[-1]         minus the place where the marks begin; not negative: there are none
    memory[-2], [-3]   the steps that they are for, 0: none yet, or a pair was inserted since
    memory[-4]         how many charged pairs wait for their marks; their places are from memory[-TAIL] on
    memory[-5]         the first pair not below the cell that the last hint led to: a guess for `find_end`
"""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import HIGH, LOW, SCALE, TABLE, TILT, Memory, inlined
from onlinecal.forecasters.binary.dyadic_search import END, accepts, find
from onlinecal.forecasters.binary.marks import first_marked, last_marked, mark, n_words, raise_marks

MOST_WAITING = 32
TAIL = 5 + MOST_WAITING


@inlined
def room(memory: Memory) -> int:
    """The end of what the table may take up."""
    return -memory[-1] if memory[-1] < 0 else len(memory)


@inlined
def note(memory: Memory, index: int, change: int, fresh: bool) -> None:
    """Take down that a pair was charged, or inserted (`fresh`), if there are marks and it matters to them."""
    if memory[-1] >= 0:
        return
    new = memory[index + 1]
    old, unbiased = new - change, memory[TILT] * memory[index]
    same = (new <= memory[HIGH]) == (old <= memory[HIGH]) and (new >= memory[LOW]) == (old >= memory[LOW])
    if same and new != unbiased and old != unbiased and not fresh:
        return
    waiting = memory[-4]
    if fresh or waiting == MOST_WAITING:
        memory[-2] = memory[-3] = memory[-4] = 0
    else:
        memory[-TAIL + waiting] = index
        memory[-4] = waiting + 1


@inlined
def valid(memory: Memory, index: int, lower: int, step: int, free: bool) -> bool:
    """Whether the lower end accepts outcome 0 and the upper end accepts outcome 1.

    `index` is that of the first pair not below the lower end.
    """
    if not accepts(memory, index, lower, 0, free):
        return False
    upper = lower + step
    if memory[index] < upper:
        index += 2
        if memory[index] < upper:
            index = find(memory, upper)
    return accepts(memory, index, upper, 1, free)


@inlined
def extreme_cell(
    memory: Memory, index: int, first: int, last: int, step: int, free: bool, lowest: int, some: bool
) -> int:
    """The lowest (1) or highest (0) valid cell that begins at a pair or before the next one; -1 if none does.
    `some`: one does, it is known.

    Only cells whose lower ends are from `first` to `last` count. Those whose ends were never charged are
    alike: valid if unbiased points are free, else exactly where LOW - step <= lower end <= HIGH. So of all
    others only the first and the last need a look.
    """
    position = memory[index]
    first, last = max(first, (position + step - 1) & -step), min(last, (memory[index + 2] - 1) & -step)
    if first >= last and (some or first > last):
        return first if some else -1
    strict = memory[TILT] != 0 and not free
    for attempt in range(1 if first == last else 3):
        if attempt == 1:
            if lowest:
                lower = max(first + step, (memory[LOW] - 1) & -step) if strict else first + step
            else:
                lower = min(last - step, memory[HIGH] & -step) if strict else last - step
        else:
            lower = first if (attempt == 0) == (lowest == 1) else last
        if first <= lower <= last and valid(memory, index + 2 * (lower != position), lower, step, free):
            return lower
    return -1


@inlined
def cell_bits(memory: Memory, index: int, step: int) -> int:
    """Whether a valid cell begins at a pair or before the next: 3, 2 if only with unbiased points free, 0."""
    position, tilt = memory[index], memory[TILT]
    if position & (step - 1) == 0:
        above = index + 2 + 2 * (memory[index + 2] - position < step)
        if memory[above] - position == step:
            # the most frequent case, without branches: half of them would be foreseen wrongly
            total, beyond = memory[index + 1], memory[above + 1]
            zero = 3 * (total <= memory[HIGH]) | 2 * (total == tilt * position)
            one = 3 * (beyond >= memory[LOW]) | 2 * (beyond == tilt * memory[above])
            return int(zero & one)
    elif (memory[index + 2] - 1) & -step < position:
        return 0
    for free in range(2):
        if extreme_cell(memory, index, 0, memory[SCALE], step, free == 1, 0, False) >= 0:
            return 3 - free
    return 0


@inlined
def up_to_date(memory: Memory, step: int, finer: int) -> int:
    """Where the marks for the base grid's step (0) or a finer one (1) begin, or 0 without room for any."""
    size = (len(memory) - TABLE) >> 1
    words = n_words(size)
    start = len(memory) - TAIL - 4 * words
    if memory[-1] >= 0:
        if start < memory[END]:
            return 0
        memory[-1] = -start
        memory[-2] = memory[-3] = memory[-4] = 0
        memory[-5] = TABLE
    for kind in range(2):
        known, begin = memory[-2 - kind], start + 2 * kind * words
        anew = kind == finer and known != step
        todo = 2 * memory[-4] * (known != 0)
        if anew:
            todo = (memory[END] - TABLE - 2) >> 1
            memory[-2 - kind] = known = step
            for place in range(begin, begin + 2 * words):
                memory[place] = 0
        for k in range(todo):
            index = TABLE + 2 * k
            if not anew:
                index = memory[-TAIL + (k >> 1)]
                point = memory[index]
                if point & (known - 1) or point == (0 if k & 1 else memory[SCALE]):
                    continue
                if k & 1:
                    index -= 2
                    if memory[index] > point - known:
                        index = find(memory, point - known)
                        index -= 2 * (memory[index] > point - known)
            bits, number = cell_bits(memory, index, known), (index - TABLE) >> 1
            if anew:
                memory[begin + (number >> 5)] |= (bits & 1) << (number & 31)
                memory[begin + words + (number >> 5)] |= (bits >> 1) << (number & 31)
            else:
                mark(memory, begin, size, number, bits & 1 == 1)
                mark(memory, begin + words, size, number, bits > 1)
        if anew:
            raise_marks(memory, begin, size)
            raise_marks(memory, begin + words, size)
    memory[-4] = 0
    return start + 2 * finer * words


@inlined
def nearest_beyond(
    memory: Memory, number: int, home: int, step: int, free: bool, above: int, marks: int
) -> tuple[int, int]:
    """The nearest valid cell below (0) or above (1) `home` and the number of its pair; if there is none, -1.

    `number` is that of home's pair, `marks` where the marks begin, or 0.
    """
    size = (len(memory) - TABLE) >> 1
    first, last = (home + step, memory[SCALE] - step) if above else (0, home - step)
    some = False
    while number >= 0 and TABLE + 2 * number < memory[END] - 2:
        cell = extreme_cell(memory, TABLE + 2 * number, first, last, step, free, above, some)
        if cell >= 0:
            return cell, number
        number += 2 * above - 1
        if marks:
            some = True
            if above:
                number = first_marked(memory, marks, size, number)
            else:
                number = last_marked(memory, marks, size, number)
    return -1, 0


@inlined
def nearest_cell(memory: Memory, target: float, step: int, finer: int, free: bool) -> int:
    """The lower end of the valid cell of width `step` nearest to `target` (of two, the lower one).

    `finer`: 0 if the step is that of the base grid, else 1.
    """
    home = min(int(target), memory[SCALE] - step) & -step
    index = find(memory, home)
    lower, number = home, (index - 2 * (memory[index] != home) - TABLE) >> 1
    if not valid(memory, index, home, step, free):
        marks = up_to_date(memory, step, finer)
        if marks and free:
            marks += n_words((len(memory) - TABLE) >> 1)
        middle = number
        for above in range(2):
            if above and lower >= 0 and target - (lower + step) <= home + step - target:
                break
            cell, place = nearest_beyond(memory, middle, home, step, free, above, marks)
            if not above or lower < 0 or (cell >= 0 and cell - target < target - (lower + step)):
                lower, number = cell, place
    if memory[-1] < 0:
        index = TABLE + 2 * number
        memory[-5] = index + 2 * (memory[index] < lower)
    return lower
