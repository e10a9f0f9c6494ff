"""Finding a cell of the simplex whose vertices carry all k labels.

The triangulation is Kuhn's. A cell is a cyclic word w_0 -> w_1 -> ... -> w_(k-1) -> w_0 in which each
step moves one unit from a class to the next one (from the last class to the first), each class once. Its
neighbour without w_i has the two steps around w_i swapped. A label always belongs to a class of weight
above zero, so by Sperner's lemma a cell with all labels exists; two walks find one.

`doors` starts at the old cell after one of its vertices has changed its label. That cell lacks one
class and has another one twice, so it has two *doors*, facets with all labels but the missing one, and
so has every such cell: dropping either of the twins leads on, and no cell comes twice. The walks through
both doors advance in turn until one finds the missing label. They may both leave the simplex, or meet.

`restart` always succeeds. Two copies of the grid, one above the other, bound a slab of prisms that
Kuhn's triangulation cuts into words with k + 1 vertices and one step more, UP, undone by the step of the
last class. The lower copy has artificial labels with one full cell only, at the anchor; the upper copy has
the true ones. The walk goes from that cell into the slab and on through facets with all labels. These
are never on the side of the slab, where a class is missing, and none but the first is at the bottom: so
the walk ends at the top, in a cell with all labels. docs/theory-simplex.md has the proofs.
"""

from __future__ import annotations

from onlinecal.compiling import uncounted
from onlinecal.forecasters.simplex.machine.labels import anchored_label, label_near, label_of
from onlinecal.forecasters.simplex.machine.table import (
    CLASSES,
    HEADER,
    HERE,
    KEYS,
    LABELS,
    LEVELS,
    OTHER,
    PIVOTS,
    RESTARTS,
    SCALE,
    SLAB,
    STEP,
    STEPS,
    SUMS,
    Memory,
    anchor_of,
    frame_size,
    key_of,
    part_of,
    vertex_at,
)

FULL_CELL, OUTSIDE = -1, -2


@uncounted
def pivot(memory: Memory, frame: int, length: int, i: int) -> bool:
    """Exchange vertex i of the word for the one on the other side; False if that is outside the simplex."""
    k, unit = memory[CLASSES], memory[STEP]
    steps, keys = part_of(memory, frame, STEPS), part_of(memory, frame, KEYS)
    levels = part_of(memory, frame, LEVELS)
    before = i - 1 if i > 0 else length - 1
    step = memory[steps + i]
    x, y = vertex_at(memory, frame, before), vertex_at(memory, frame, i)
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
        key += unit * (memory[HEADER + after] - memory[HEADER + step])
    memory[frame] += key - memory[keys + i]
    memory[keys + i] = key
    memory[levels + i] = level
    memory[PIVOTS] += 1
    return True


@uncounted
def twin_of(memory: Memory, frame: int, length: int, i: int) -> int:
    """The other vertex with the label of vertex i, or FULL_CELL if there is none."""
    labels = part_of(memory, frame, LABELS)
    label = memory[labels + i]
    for j in range(length):
        if memory[labels + j] == label and j != i:
            return j
    return FULL_CELL


@uncounted
def through(memory: Memory, frame: int, i: int) -> int:
    """Leave a cell through the facet opposite vertex i: which vertex to drop next, FULL_CELL or OUTSIDE."""
    k = memory[CLASSES]
    if not pivot(memory, frame, k, i):
        return OUTSIDE
    x, key = vertex_at(memory, frame, i), memory[part_of(memory, frame, KEYS) + i]
    memory[part_of(memory, frame, LABELS) + i] = label_of(memory, x, key)
    return twin_of(memory, frame, k, i)


@uncounted
def doors(memory: Memory, first: int, second: int) -> bool:
    """Walk from the current cell through both of its doors in turn; the new cell becomes current.

    `first` and `second` are the vertices with the same label. False if neither walk finds a cell with all
    labels: then only the sums of the current frame are what they were.
    """
    ahead, behind = memory[OTHER], memory[HERE]
    for i in range(frame_size(memory[CLASSES])):
        memory[ahead + i] = memory[behind + i]
    while first >= 0 or second >= 0:
        if first >= 0:
            first = through(memory, ahead, first)
            if first == FULL_CELL:
                sum_up(memory, ahead)
                change_places(memory)
                return True
            if first >= 0 and second >= 0 and memory[ahead] == memory[behind]:
                return False
        if second >= 0:
            second = through(memory, behind, second)
            if second == FULL_CELL:
                sum_up(memory, behind)
                return True
            if first >= 0 and second >= 0 and memory[ahead] == memory[behind]:
                return False
    return False


@uncounted
def change_places(memory: Memory) -> None:
    """Make the other frame's cell current."""
    memory[HERE], memory[OTHER] = memory[OTHER], memory[HERE]


@uncounted
def set_anchor(memory: Memory, target: int) -> None:
    """Choose the anchor whose upward cell has its barycentre nearest to a target.

    The target's k coordinates are in units of 1/(k SCALE); rounding errors in their sum do no harm.
    """
    k, unit, anchor = memory[CLASSES], memory[STEP], anchor_of(memory)
    missing = memory[SCALE] // unit - 1
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
def is_lifted(memory: Memory, leaning: bool) -> bool:
    """Whether the anchor's own cell has its artificial labels; the slab is then as if walked through.

    The walk would lift its vertices one by one and end there: with good hints that is what it mostly does.
    """
    k, unit, anchor, slab = memory[CLASSES], memory[STEP], anchor_of(memory), memory[SLAB]
    steps, labels = part_of(memory, slab, STEPS), part_of(memory, slab, LABELS)
    keys, levels = part_of(memory, slab, KEYS), part_of(memory, slab, LEVELS)
    base = key_of(memory, anchor)
    # the last one first: it is where the walk begins; only a copy of vertex 1 stays below
    for i in range(k, -1, -1):
        x, up = vertex_at(memory, slab, i), max(0, i - 1)
        for c in range(k):
            memory[x + c] = memory[anchor + c]
        memory[x + up] += unit
        key = base + unit * memory[HEADER + up]
        if i > 0 and (label_near(memory, x, key) if leaning else label_of(memory, x, key)) != up:
            return False
        memory[keys + i], memory[labels + i] = key, up
        memory[levels + i], memory[steps + i] = min(i, 1), (i if i > 0 else k + 1) - 1
    memory[slab] = memory[keys] - memory[keys + k]
    memory[PIVOTS] += k - 1
    return True


@uncounted
def restart(memory: Memory, leaning: bool) -> int:
    """A cell with all labels, found from the anchor through the slab: the other frame, where it is put.

    With `leaning`, labels may lean towards the anchor (see `label_near`).
    """
    k, unit, anchor = memory[CLASSES], memory[STEP], anchor_of(memory)
    slab, length = memory[SLAB], memory[CLASSES] + 1
    memory[RESTARTS] += 1
    if is_lifted(memory, leaning):
        return upper_cell(memory, slab, 0)
    steps, labels = part_of(memory, slab, STEPS), part_of(memory, slab, LABELS)
    keys, levels = part_of(memory, slab, KEYS), part_of(memory, slab, LEVELS)
    memory[slab] = 0
    for i in range(length):
        x, up = vertex_at(memory, slab, i), min(i, k - 1)
        for c in range(k):
            memory[x + c] = memory[anchor + c]
        memory[x + up] += unit
        memory[keys + i] = key_of(memory, x)
        memory[labels + i], memory[levels + i], memory[steps + i] = i, 0, i
    memory[levels + k], memory[steps + k - 1], memory[steps + k] = 1, k, k - 1
    new = k
    while True:
        x, key = vertex_at(memory, slab, new), memory[keys + new]
        if memory[levels + new] == 0:
            memory[labels + new] = anchored_label(memory, x)
        elif leaning:
            memory[labels + new] = label_near(memory, x, key)
        else:
            memory[labels + new] = label_of(memory, x, key)
        old = twin_of(memory, slab, length, new)
        before = old - 1 if old > 0 else k
        if memory[steps + before] == k - 1 and memory[steps + old] == k:
            break
        pivot(memory, slab, length, old)
        new = old
    return upper_cell(memory, slab, old)


@uncounted
def upper_cell(memory: Memory, slab: int, dropped: int) -> int:
    """The cell on top of the slab that is left when the only lower vertex is dropped: its frame."""
    k, cell = memory[CLASSES], memory[OTHER]
    memory[cell] = 0
    source = dropped
    for i in range(k):
        source = source + 1 if source < k else 0
        for part in range(STEPS, LEVELS):
            memory[part_of(memory, cell, part) + i] = memory[part_of(memory, slab, part) + source]
        memory[part_of(memory, cell, LEVELS) + i] = 0
        memory[cell] += memory[part_of(memory, cell, KEYS) + i]
        x, y = vertex_at(memory, slab, source), vertex_at(memory, cell, i)
        for c in range(k):
            memory[y + c] = memory[x + c]
    sum_up(memory, cell)
    return cell


@uncounted
def sum_up(memory: Memory, frame: int) -> None:
    """Bring the sums of the vertices' coordinates up to date: k SCALE times the barycentre."""
    k, first = memory[CLASSES], vertex_at(memory, frame, 0)
    for c in range(k):
        total = 0
        for i in range(k):
            total += memory[first + i * k + c]
        memory[frame + SUMS + c] = total
