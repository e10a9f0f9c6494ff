"""A full cell near a hint: the hint's own if it can be had, else one that is walked to.

*The hint's own cell* is the one that it is in, so that it can be announced as it is. A vertex *accepts* a
class if it gives it weight and its bias after a charge with it would not be below -slack. If the vertices can
be dealt out to the classes, each accepting its own, the cell is full by these labels: of such deals one is
looked for that makes biases grow little, if the hint is right.

*Where the points around a hint refuse what comes* a walk is long. Then it is remembered where it has ended,
and the next hints in the same region of the simplex are looked for from there, the more of them the longer
the walk was. Any anchor will do (docs/theory-simplex.md, section 9). A region has an entry behind the
records, of which there are four times as many, until another one needs it.
"""

from __future__ import annotations

from onlinecal.compiling import uncounted
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    HEADER,
    KEYS,
    LABELS,
    LAST,
    LEFT,
    LEVELS,
    OTHER,
    PIVOTS,
    PLACE,
    POINT,
    RECORDS,
    REGION_KEY,
    ROUNDS,
    SCALE,
    SINCE,
    SLAB,
    SLACK,
    STEP,
    STEPS,
    SUMS,
    WIDTH,
    Memory,
    anchor_of,
    capacity,
    first_slot,
    key_of,
    part_of,
    record_of,
    vertex_at,
)
from onlinecal.forecasters.simplex.machine.walk import restart, set_anchor, sum_up

REGIONS = 12
"""The simplex has about so many regions a side, of one cell each if there are fewer cells."""
LONG_WALK = 16
"""A walk of so many pivots is long."""
PIVOTS_A_ROUND = 4
"""What a long walk has cost is spread over as many rounds as there are times so many pivots in it."""
COARSE = 2
"""With more classes than so many times the cells a side, cells may be as wide as the simplex: walk then."""
REFUSED = 1 << 56
"""What a label costs that is not accepted: more than all others."""


@uncounted
def full_cell_near(memory: Memory, hint: int) -> int:
    """A full cell near a hint (k coordinates in units of 1/(k SCALE)): the other frame, where it is put."""
    leaning = memory[SLACK] > 0
    if memory[CLASSES] * memory[STEP] > COARSE * memory[SCALE]:
        set_anchor(memory, hint)
        return restart(memory, leaning)
    if leaning and own_cell(memory, hint, hint):
        return memory[OTHER]
    set_anchor(memory, hint)
    key = region(memory)
    place = place_of(memory, key)
    if recalls(memory, place, key):
        if leaning and own_cell(memory, place + PLACE, hint):
            frame = memory[OTHER]
        else:
            set_anchor(memory, place + PLACE)
            frame = restart(memory, leaning)
    else:
        before = memory[PIVOTS]
        frame = restart(memory, leaning)
        walked = memory[PIVOTS] - before
        if walked < LONG_WALK:
            return frame
        memory[place + REGION_KEY], memory[place + SINCE] = key, memory[ROUNDS]
        memory[place + LAST], memory[place + LEFT] = 0, walked // PIVOTS_A_ROUND
    k = memory[CLASSES]
    for c in range(k):
        memory[place + PLACE + k + c] = memory[frame + SUMS + c]
    return frame


@uncounted
def recalls(memory: Memory, place: int, key: int) -> bool:
    """Whether a hint in the region is to be looked for from the place that is remembered.

    All hints of one round begin at the same place, so that one that is asked again is answered the same.
    """
    now, k = memory[ROUNDS], memory[CLASSES]
    if memory[place + REGION_KEY] != key or memory[place + SINCE] == now:
        return False
    if memory[place + LAST] != now + 1:
        if memory[place + LEFT] == 0:
            return False
        memory[place + LEFT] -= 1
        memory[place + LAST] = now + 1
        for c in range(k):
            memory[place + PLACE + c] = memory[place + PLACE + k + c]
    return True


@uncounted
def region(memory: Memory) -> int:
    """The key of the region that the anchor is in, above zero."""
    width, anchor, key = max(memory[SCALE] // REGIONS, memory[STEP]), anchor_of(memory), 1
    for c in range(memory[CLASSES]):
        key += memory[HEADER + c] * (memory[anchor + c] // width)
    return key


@uncounted
def place_of(memory: Memory, key: int) -> int:
    """Where a region with that key is remembered, unless that place was taken by another one since."""
    behind = memory[RECORDS] + capacity(memory) * memory[WIDTH]
    entry = first_slot(memory, key) & ((capacity(memory) >> 2) - 1)
    return behind + entry * (PLACE + 2 * memory[CLASSES])


@uncounted
def own_cell(memory: Memory, target: int, hint: int) -> bool:
    """Whether the cell that a target is in can be had; then it is in the other frame, labels dealt out.

    A label that a vertex gives weight is that of the step that leaves it, so these are where dealing begins.
    """
    k, unit, cell = memory[CLASSES], memory[STEP], memory[OTHER]
    keys, labels = part_of(memory, cell, KEYS), part_of(memory, cell, LABELS)
    levels, steps = part_of(memory, cell, LEVELS), part_of(memory, cell, STEPS)
    first_vertex(memory, cell, target)
    x = vertex_at(memory, cell, 0)
    key, sum_of_keys = key_of(memory, x), 0
    for i in range(k):
        step = memory[steps + i]
        memory[keys + i], memory[labels + i], memory[levels + i] = key, step, 0
        sum_of_keys += key
        price_labels(memory, x, key, hint, i)
        after = step + 1 if step + 1 < k else 0
        key += unit * (memory[HEADER + after] - memory[HEADER + step])
        if i + 1 < k:
            for c in range(k):
                memory[x + k + c] = memory[x + c]
            x += k
            memory[x + step] -= unit
            memory[x + after] += unit
    memory[cell] = sum_of_keys
    if not deal(memory, labels):
        return False
    sum_up(memory, cell)
    return True


@uncounted
def first_vertex(memory: Memory, cell: int, target: int) -> None:
    """Write the first vertex and the steps of the cell that the target is in.

    Where the sums of coordinates up to each class lie between multiples of the grid's step: the first vertex
    has all of them above; they are lowered one by one, those first that are least above the lower end.
    """
    k, unit = memory[CLASSES], memory[STEP]
    x, steps, above = vertex_at(memory, cell, 0), part_of(memory, cell, STEPS), part_of(memory, cell, LEVELS)
    size, whole, total, before = k * unit, k * memory[SCALE], 0, 0
    for c in range(k - 1):
        total = min(total + memory[target + c], whole)
        upper = min(total // size + 1, whole // size)
        memory[x + c] = (upper - before) * unit
        before = upper
        rest = total - (upper - 1) * size
        # of several that are as much above, the first: so no coordinate becomes negative
        i = c
        while i > 0 and memory[above + i - 1] > rest:
            memory[above + i], memory[steps + i] = memory[above + i - 1], memory[steps + i - 1]
            i -= 1
        memory[above + i], memory[steps + i] = rest, c
    memory[x + k - 1] = memory[SCALE] - before * unit
    memory[steps + k - 1] = k - 1


@uncounted
def price_labels(memory: Memory, x: int, key: int, hint: int, i: int) -> None:
    """Write into row i of the slab's vertices what each label of the point at x costs.

    That is by how much it would make biases grow, in l1, times the hint's weight of the class.
    """
    k, scale = memory[CLASSES], memory[SCALE]
    row = vertex_at(memory, memory[SLAB], i)
    record = record_of(memory, x, key)
    biases, common = record + POINT + k, 0
    if record >= 0:
        for c in range(k):
            common += abs(memory[biases + c] + memory[x + c]) - abs(memory[biases + c])
    else:
        common = scale
    for j in range(k):
        bias = memory[x + j]
        if record >= 0:
            bias += memory[biases + j]
        if memory[x + j] > 0 and bias - scale >= -memory[SLACK]:
            # a class without weight should cost something, too
            memory[row + j] = (memory[hint + j] + 1) * (common - abs(bias) + abs(bias - scale))
        else:
            memory[row + j] = REFUSED


@uncounted
def deal(memory: Memory, labels: int) -> bool:
    """Exchange the labels of two vertices as long as that lowers what they cost; whether none is refused."""
    k, rows = memory[CLASSES], vertex_at(memory, memory[SLAB], 0)
    better, sweeps = True, 0
    while better and sweeps < k:
        better = False
        sweeps += 1
        for i in range(k):
            for j in range(i):
                a, b = memory[labels + i], memory[labels + j]
                x, y = rows + i * k, rows + j * k
                if memory[x + b] + memory[y + a] < memory[x + a] + memory[y + b]:
                    memory[labels + i], memory[labels + j] = b, a
                    better = True
    refused = 0
    for i in range(k):
        if memory[rows + i * k + memory[labels + i]] == REFUSED:
            refused += 1
    return refused == 0
