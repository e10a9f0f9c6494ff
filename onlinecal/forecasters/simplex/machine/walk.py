"""Finding a cell of the simplex whose vertices carry all k labels.

The triangulation is Kuhn's. A cell is a cyclic word w_0 -> w_1 -> ... -> w_(k-1) -> w_0 in which each
step moves one unit from a class to the next one (from the last class to the first), each class once. Its
neighbour without w_i has the two steps around w_i swapped. A label always belongs to a class of weight
above zero, so by Sperner's lemma a cell with all labels exists; two walks find one.

`doors` starts at the old cell after one of its vertices has changed its label. That cell lacks one
class and has another one twice, so it has two *doors*, facets with all labels but the missing one, and
so has every such cell: dropping either of the twins leads on, and no cell comes twice. The walks through
both doors advance in turn until one finds the missing label. They may both leave the simplex, or meet.

`restart` always succeeds. Two copies of the grid, one above the other, bound a slab of prisms. Kuhn's
triangulation cuts these into words with k + 1 vertices and one more step, UP, which the step of the last
class undoes. The lower copy has artificial labels with one full cell only, at the anchor; the upper copy has
the true ones. The walk goes from that cell into the slab and on through facets with all labels. These are
never on the side of the slab, where a class is missing, and only the first is at the bottom. So the walk ends
at the top, in a cell with all labels. docs/theory-simplex.md has the proofs.

A cell near a hint is the hint's own cell, if that can be full, or else a cell that a walk finds.

*The hint's own cell* is the one that contains it, so that the hint can be announced as it is. A vertex
*accepts* a class if it gives the class weight and its bias after a charge with the class would not be below
-slack. If the vertices can be dealt out to the classes such that each accepts its own, the cell is full by
these labels. Of such deals one is chosen that makes biases grow little if the hint is right.

*Long walks.* A walk is long where the points around a hint refuse what comes. Then the place where it ended
is remembered, and the searches for the next hints in the same region of the simplex begin there; for more
hints the longer the walk was. Any anchor will do (docs/theory-simplex.md, section 9). Regions have entries
behind the records, one for every four records, and a region keeps its entry until another region needs it.

Walks write frames, the anchor, regions and the counts of pivots and restarts; they never write a record. What
a walk begins with is the cell in the current frame, of which one vertex has changed its label (`doors`), or
an anchor (`restart`). What it leaves is a full cell, in the current frame or in the frame that it returns;
where `doors` finds none, the caller starts afresh. Regions decide where a walk begins, and so which full cell
is found: they are part of the state, and the constants below are part of the answers.
"""

from __future__ import annotations

from onlinecal.compiling import uncounted
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import Memory

FULL_CELL, OUTSIDE = -1, -2

REGIONS_A_SIDE = 12
"""The simplex has about so many regions a side, of one cell each if there are fewer cells."""
LONG_WALK = 16
"""A walk of so many pivots is long."""
PIVOTS_A_ROUND = 4
"""A long walk is remembered for one round for every so many pivots, over which its cost is spread."""
COARSE_CELLS = 2
"""With more classes than so many times the cells a side, cells may be as wide as the simplex, and a walk
starts at the hint."""
REFUSED_COST = 1 << 56
"""The cost of a label that is not accepted: more than all others."""


@uncounted
def pivot(memory: Memory, frame: int, length: int, i: int) -> bool:
    """Exchange vertex i of the word for the one on the other side; False if that is outside the simplex."""
    k, unit = memory[layout.CLASSES], memory[layout.STEP]
    steps, keys = layout.part_of(memory, frame, layout.STEPS), layout.part_of(memory, frame, layout.KEYS)
    levels = layout.part_of(memory, frame, layout.LEVELS)
    before = i - 1 if i > 0 else length - 1
    step = memory[steps + i]
    x, y = layout.vertex_at(memory, frame, before), layout.vertex_at(memory, frame, i)
    if step < k and memory[x + step] < unit:
        return False
    memory[steps + i] = memory[steps + before]
    memory[steps + before] = step
    for c in range(k):
        memory[y + c] = memory[x + c]
    key, level = memory[keys + before], memory[levels + before]
    if step == k:
        level += 1
    else:
        after = step + 1
        if after == k:
            after = 0
            level -= 1
        memory[y + step] -= unit
        memory[y + after] += unit
        key += unit * (memory[layout.HEADER_LENGTH + after] - memory[layout.HEADER_LENGTH + step])
    memory[frame] += key - memory[keys + i]
    memory[keys + i] = key
    memory[levels + i] = level
    memory[layout.PIVOTS] += 1
    return True


@uncounted
def twin_of(memory: Memory, frame: int, length: int, i: int) -> int:
    """The other vertex with the label of vertex i, or FULL_CELL if there is none."""
    labels = layout.part_of(memory, frame, layout.LABELS)
    label = memory[labels + i]
    for j in range(length):
        if memory[labels + j] == label and j != i:
            return j
    return FULL_CELL


@uncounted
def through(memory: Memory, frame: int, i: int) -> int:
    """Leave a cell through the facet opposite vertex i: the next vertex to drop, FULL_CELL or OUTSIDE."""
    k = memory[layout.CLASSES]
    if not pivot(memory, frame, k, i):
        return OUTSIDE
    x, key = layout.vertex_at(memory, frame, i), memory[layout.part_of(memory, frame, layout.KEYS) + i]
    memory[layout.part_of(memory, frame, layout.LABELS) + i] = layout.label_of(memory, x, key, False)
    return twin_of(memory, frame, k, i)


@uncounted
def doors(memory: Memory, first: int, second: int) -> bool:
    """Walk from the current cell through both of its doors in turn; the new cell becomes current.

    `first` and `second` are the vertices with the same label. False if neither walk finds a cell with all
    labels: then only the sums of the current frame are what they were.
    """
    ahead, behind = memory[layout.OTHER_FRAME], memory[layout.CURRENT_FRAME]
    for i in range(layout.frame_size(memory[layout.CLASSES])):
        memory[ahead + i] = memory[behind + i]
    while first >= 0 or second >= 0:
        if first >= 0:
            first = through(memory, ahead, first)
            if first == FULL_CELL:
                sum_up(memory, ahead)
                if ahead != memory[layout.CURRENT_FRAME]:
                    change_places(memory)
                return True
            if first >= 0 and second >= 0 and memory[ahead] == memory[behind]:
                return False
        # now it is the turn of the other walk
        first, second, ahead, behind = second, first, behind, ahead
    return False


@uncounted
def change_places(memory: Memory) -> None:
    """Make the other frame's cell current."""
    memory[layout.CURRENT_FRAME], memory[layout.OTHER_FRAME] = (
        memory[layout.OTHER_FRAME],
        memory[layout.CURRENT_FRAME],
    )


@uncounted
def set_anchor(memory: Memory, target: int) -> None:
    """Choose the anchor whose upward cell has its barycentre nearest to a target.

    The target's k coordinates are in units of 1/(k layout.SCALE); rounding errors in their sum do no harm.
    """
    k, unit, anchor = memory[layout.CLASSES], memory[layout.STEP], layout.anchor_of(memory)
    missing = memory[layout.SCALE] // unit - 1
    for c in range(k):
        whole = max(0, (memory[target + c] - unit) // (k * unit))
        memory[anchor + c] = whole * unit
        missing -= whole
    while missing != 0:
        up = 1 if missing > 0 else -1
        best, most = -1, 0
        for c in range(k):
            gap = up * (memory[target + c] - k * memory[anchor + c])
            if (best < 0 or gap > most) and (up > 0 or memory[anchor + c] > 0):
                best, most = c, gap
        memory[anchor + best] += up * unit
        missing -= up


@uncounted
def anchored_cell(memory: Memory, leaning: bool) -> bool:
    """Whether the anchor's own cell has its artificial labels; then it is put into the other frame.

    The walk would lift its vertices one by one and end there, which is the usual case with good hints.
    """
    k, unit, anchor = memory[layout.CLASSES], memory[layout.STEP], layout.anchor_of(memory)
    cell, base = memory[layout.OTHER_FRAME], layout.key_of(memory, layout.anchor_of(memory))
    steps, labels = layout.part_of(memory, cell, layout.STEPS), layout.part_of(memory, cell, layout.LABELS)
    keys, levels = layout.part_of(memory, cell, layout.KEYS), layout.part_of(memory, cell, layout.LEVELS)
    memory[cell] = 0
    # the last one first: it is where the walk begins
    for i in range(k - 1, -1, -1):
        x, key = layout.vertex_at(memory, cell, i), base + unit * memory[layout.HEADER_LENGTH + i]
        for c in range(k):
            memory[x + c] = memory[anchor + c]
        memory[x + i] += unit
        if layout.label_of(memory, x, key, leaning) != i:
            return False
        memory[steps + i], memory[labels + i], memory[keys + i], memory[levels + i] = i, i, key, 0
        memory[cell] += key
    sum_up(memory, cell)
    memory[layout.PIVOTS] += k - 1
    return True


@uncounted
def restart(memory: Memory, leaning: bool) -> int:
    """Find a cell with all labels from the anchor through the slab; returns the other frame, where it is put.

    With `leaning`, labels may lean towards the anchor (see `label_of`).
    """
    k, unit, anchor = memory[layout.CLASSES], memory[layout.STEP], layout.anchor_of(memory)
    slab, length = memory[layout.SLAB_FRAME], memory[layout.CLASSES] + 1
    memory[layout.RESTARTS] += 1
    if anchored_cell(memory, leaning):
        return memory[layout.OTHER_FRAME]
    steps, labels = layout.part_of(memory, slab, layout.STEPS), layout.part_of(memory, slab, layout.LABELS)
    keys, levels = layout.part_of(memory, slab, layout.KEYS), layout.part_of(memory, slab, layout.LEVELS)
    memory[slab] = 0
    for i in range(length):
        x, up = layout.vertex_at(memory, slab, i), min(i, k - 1)
        for c in range(k):
            memory[x + c] = memory[anchor + c]
        memory[x + up] += unit
        memory[keys + i] = layout.key_of(memory, x)
        memory[labels + i], memory[levels + i], memory[steps + i] = i, 0, i
    memory[levels + k], memory[steps + k - 1], memory[steps + k] = 1, k, k - 1
    new = k
    while True:
        x, key = layout.vertex_at(memory, slab, new), memory[keys + new]
        if memory[levels + new] == 0:
            memory[labels + new] = layout.anchored_label(memory, x)
        else:
            memory[labels + new] = layout.label_of(memory, x, key, leaning)
        old = twin_of(memory, slab, length, new)
        before = old - 1 if old > 0 else k
        if memory[steps + before] == k - 1 and memory[steps + old] == k:
            break
        pivot(memory, slab, length, old)
        new = old
    return upper_cell(memory, slab, old)


@uncounted
def upper_cell(memory: Memory, slab: int, dropped: int) -> int:
    """Write the cell on top of the slab, which is left when the only lower vertex is dropped, to a frame."""
    k, cell = memory[layout.CLASSES], memory[layout.OTHER_FRAME]
    memory[cell] = 0
    source = dropped
    for i in range(k):
        source = source + 1 if source < k else 0
        for part in range(layout.STEPS, layout.LEVELS):
            entry = memory[layout.part_of(memory, slab, part) + source]
            memory[layout.part_of(memory, cell, part) + i] = entry
        memory[layout.part_of(memory, cell, layout.LEVELS) + i] = 0
        memory[cell] += memory[layout.part_of(memory, cell, layout.KEYS) + i]
        x, y = layout.vertex_at(memory, slab, source), layout.vertex_at(memory, cell, i)
        for c in range(k):
            memory[y + c] = memory[x + c]
    sum_up(memory, cell)
    return cell


@uncounted
def sum_up(memory: Memory, frame: int) -> None:
    """Bring the sums of the vertices' coordinates up to date: k SCALE times the barycentre."""
    k, first = memory[layout.CLASSES], layout.vertex_at(memory, frame, 0)
    for c in range(k):
        total = 0
        for i in range(k):
            total += memory[first + i * k + c]
        memory[frame + layout.SUMS + c] = total


@uncounted
def full_cell_near(memory: Memory, hint: int) -> int:
    """Find a full cell near a hint, k coordinates in units of 1/(k SCALE); returns the cell's frame."""
    leaning = memory[layout.SLACK] > 0
    if memory[layout.CLASSES] * memory[layout.STEP] > COARSE_CELLS * memory[layout.SCALE]:
        set_anchor(memory, hint)
        return restart(memory, leaning)
    if leaning and own_cell(memory, hint, hint):
        return memory[layout.OTHER_FRAME]
    set_anchor(memory, hint)
    key = region(memory)
    place = place_of(memory, key)
    if recalls(memory, place, key):
        if leaning and own_cell(memory, place + layout.REGION_SUMS, hint):
            frame = memory[layout.OTHER_FRAME]
        else:
            set_anchor(memory, place + layout.REGION_SUMS)
            frame = restart(memory, leaning)
    else:
        before = memory[layout.PIVOTS]
        frame = restart(memory, leaning)
        walked = memory[layout.PIVOTS] - before
        if walked < LONG_WALK:
            return frame
        memory[place + layout.REGION_KEY], memory[place + layout.WALKED_AT] = key, memory[layout.ROUNDS]
        memory[place + layout.LAST_BEGUN], memory[place + layout.RECALLS_LEFT] = 0, walked // PIVOTS_A_ROUND
    k = memory[layout.CLASSES]
    for c in range(k):
        memory[place + layout.REGION_SUMS + k + c] = memory[frame + layout.SUMS + c]
    return frame


@uncounted
def recalls(memory: Memory, place: int, key: int) -> bool:
    """Whether the search for a hint in the region begins at the place that is remembered.

    All searches of one round begin at the same place, so that a hint that is asked again gets the same
    answer.
    """
    now, k = memory[layout.ROUNDS], memory[layout.CLASSES]
    if memory[place + layout.REGION_KEY] != key or memory[place + layout.WALKED_AT] == now:
        return False
    if memory[place + layout.LAST_BEGUN] != now + 1:
        if memory[place + layout.RECALLS_LEFT] == 0:
            return False
        memory[place + layout.RECALLS_LEFT] -= 1
        memory[place + layout.LAST_BEGUN] = now + 1
        for c in range(k):
            memory[place + layout.REGION_SUMS + c] = memory[place + layout.REGION_SUMS + k + c]
    return True


@uncounted
def region(memory: Memory) -> int:
    """The key of the region that the anchor is in, above zero."""
    width = max(memory[layout.SCALE] // REGIONS_A_SIDE, memory[layout.STEP])
    anchor, key = layout.anchor_of(memory), 1
    for c in range(memory[layout.CLASSES]):
        key += memory[layout.HEADER_LENGTH + c] * (memory[anchor + c] // width)
    return key


@uncounted
def place_of(memory: Memory, key: int) -> int:
    """The place of the entry for a region with that key, which another region may have taken since."""
    behind = memory[layout.RECORDS] + layout.capacity(memory) * memory[layout.WIDTH]
    entry = layout.first_slot(memory, key) & ((layout.capacity(memory) >> 2) - 1)
    return behind + entry * (layout.REGION_SUMS + 2 * memory[layout.CLASSES])


@uncounted
def own_cell(memory: Memory, target: int, hint: int) -> bool:
    """Whether the cell that contains a target can be full; then it is in the other frame with its labels.

    Each vertex gives weight to the class of the step that leaves it, so dealing begins with these labels.
    """
    k, unit, cell = memory[layout.CLASSES], memory[layout.STEP], memory[layout.OTHER_FRAME]
    keys, labels = layout.part_of(memory, cell, layout.KEYS), layout.part_of(memory, cell, layout.LABELS)
    levels, steps = layout.part_of(memory, cell, layout.LEVELS), layout.part_of(memory, cell, layout.STEPS)
    first_vertex(memory, cell, target)
    x = layout.vertex_at(memory, cell, 0)
    key, sum_of_keys = layout.key_of(memory, x), 0
    for i in range(k):
        step = memory[steps + i]
        memory[keys + i], memory[labels + i], memory[levels + i] = key, step, 0
        sum_of_keys += key
        price_labels(memory, x, key, hint, i)
        after = step + 1 if step + 1 < k else 0
        key += unit * (memory[layout.HEADER_LENGTH + after] - memory[layout.HEADER_LENGTH + step])
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

    The sums of the target's coordinates up to each class lie between multiples of the grid's step. The first
    vertex has the upper multiple of each. The steps lower them one by one, beginning with the sum that is
    least above its lower multiple.
    """
    k, unit, x = memory[layout.CLASSES], memory[layout.STEP], layout.vertex_at(memory, cell, 0)
    steps, above = layout.part_of(memory, cell, layout.STEPS), layout.part_of(memory, cell, layout.LEVELS)
    size, whole, total, before = k * unit, k * memory[layout.SCALE], 0, 0
    for c in range(k - 1):
        total = min(total + memory[target + c], whole)
        upper = min(total // size + 1, whole // size)
        memory[x + c] = (upper - before) * unit
        before = upper
        rest = total - (upper - 1) * size
        # of equal ones the first comes first, so that no coordinate becomes negative
        i = c
        while i > 0 and memory[above + i - 1] > rest:
            memory[above + i], memory[steps + i] = memory[above + i - 1], memory[steps + i - 1]
            i -= 1
        memory[above + i], memory[steps + i] = rest, c
    memory[x + k - 1] = memory[layout.SCALE] - before * unit
    memory[steps + k - 1] = k - 1


@uncounted
def price_labels(memory: Memory, x: int, key: int, hint: int, i: int) -> None:
    """Write the cost of each label of the point at x into row i of the slab's vertices.

    The cost is by how much the label would make biases grow, in l1, times the hint's weight of the class.
    """
    k, scale = memory[layout.CLASSES], memory[layout.SCALE]
    row = layout.vertex_at(memory, memory[layout.SLAB_FRAME], i)
    record = layout.record_of(memory, x, key)
    biases, common = record + layout.POINT + k, 0
    if record >= 0:
        for c in range(k):
            common += abs(memory[biases + c] + memory[x + c]) - abs(memory[biases + c])
    else:
        common = scale
    for j in range(k):
        bias = memory[x + j]
        if record >= 0:
            bias += memory[biases + j]
        if memory[x + j] > 0 and bias - scale >= -memory[layout.SLACK]:
            # a class without weight should cost something, too
            memory[row + j] = (memory[hint + j] + 1) * (common - abs(bias) + abs(bias - scale))
        else:
            memory[row + j] = REFUSED_COST


@uncounted
def deal(memory: Memory, labels: int) -> bool:
    """Exchange labels of two vertices as long as that lowers their cost; returns whether none is refused."""
    k, rows = memory[layout.CLASSES], layout.vertex_at(memory, memory[layout.SLAB_FRAME], 0)
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
        if memory[rows + i * k + memory[labels + i]] == REFUSED_COST:
            refused += 1
    return refused == 0
