"""The memory of the simplex machine: its layout, and the table of the grid points charged so far.

One flat sequence of int64, its own snapshot:

    header | multipliers (k) | anchor (k) | point (k) | frames | slots | records

A grid point of the simplex with k classes is a tuple x of k integers >= 0 with sum SCALE; the present
grid consists of the points whose coordinates are multiples of STEP. Biases are in the same units of
1/SCALE. A *record* holds what is known about a charged point: key, label, x, bias of each class. The
slots are an open-addressing hash table of record numbers; a point without a record was never charged.

Keys are linear, key = sum of x_c * multiplier_c, so that the key of a neighbour costs two look-ups. They
need not be injective: a look-up compares the coordinates too.

A *frame* holds a cell, or one on the way to it: up to k + 1 vertices in cyclic order (see `walk`):

    sum of the keys | sums of each coordinate (k) | steps | labels | keys | levels (k + 1 each) | vertices

*Labels* follow Tijdeman's chairman rule, in integers. Let v = x/M be a point with s classes of weight above
zero, alpha its biases (v minus the outcome, summed over its rounds) and h = 1/(2s - 2). If it were charged
with class j next, alpha_j would become alpha_j + v_j - 1. A class is *eligible* if that is at least h - 1,
and its *deadline*, the number of rounds after which alpha_j would exceed 1 - h if j did not come, is (1 - h -
alpha_j)/v_j. The label is the eligible class with the earliest deadline; of several, the class charged last
if it is one of them, else the largest. With two classes this is the balanced rule of `AlmostOneStepAhead`
with slack 1/2. Only biases enter, not the number of rounds, so nothing grows with the length of the run. The
products compared below stay under 2 s M^2 (1 + |alpha|).

*The account* of a grid that tunes itself says what finer cells saved, less the bias they left. Without a
horizon the *base* grid of a round is that of the nested schedule; BASE is its step. A grid that tunes itself
may play on a finer one, and return. In every round the BALANCE, in units of MOVED, rises by what the round
was cheaper than the farthest vertex on the base grid, and falls by what the charge added to the bias of an
*orphan*, a point off the base grid. A round on a finer grid is played only while the balance bears whatever
may come of it; it begins with an allowance (docs/theory-simplex.md, section 7).
"""

from __future__ import annotations

from typing import Any

from onlinecal.compiling import uncounted

Memory = Any
"""An int64 array, or a list of int when the interpreter runs the machine."""

# The header. SLOTS, RECORDS, HERE, OTHER and SLAB say where things are; WIDTH is the length of a record,
# MASK the number of slots less one.
FORMAT, CLASSES, SCALE, STEP, FINE, SLACK, LIMIT, WIDTH, SLOTS, MASK, RECORDS = range(11)
HERE, OTHER, SLAB = range(11, 14)
"""Frames: the current cell, another one (the two may change places), and the way through the slab."""
ROUNDS, SPREAD, MOVED, USED = range(14, 18)
CHANGES, PIVOTS, RESTARTS = range(18, 21)
"""How often the cell changed, how many vertices were exchanged for that, and how often by a restart."""
REPORT = 21
"""0 if forecasts are barycentres, FOLLOWS if they follow hints (`report`), in cells near them."""
FOLLOWS = 1
BASE, BALANCE = 22, 23
"""Of a grid that tunes itself else 0."""
HEADER = 24

KEY, LABEL, SUPPORT, POINT = range(4)
"""Parts of a record; SUPPORT counts the classes of weight above zero, the biases follow the k coordinates."""

REGION_KEY, SINCE, LAST, LEFT, PLACE = range(5)
"""Parts of what is remembered of a region (see `walk`): its key; the round of the walk; the last round that
began where that had ended, plus one; how many more may; and where it began and where it ended, k sums of a
frame each."""

SUMS = 1
"""Where a frame has the sums of its vertices' coordinates, k SCALE times the barycentre."""
STEPS, LABELS, KEYS, LEVELS, VERTICES = range(1, 6)
"""Parts of a frame that have an entry for each vertex (see `part_of`)."""


@uncounted
def units(memory: Memory) -> int:
    """MOVED is in units of one over this."""
    return memory[CLASSES] * memory[SCALE] * memory[FINE]


@uncounted
def anchor_of(memory: Memory) -> int:
    """Where the anchor is kept: the point b whose upward cell b + e_0, ..., b + e_(k-1) starts a restart."""
    return HEADER + memory[CLASSES]


@uncounted
def point_of(memory: Memory) -> int:
    """Where a single point is kept: the one to be charged, or a target for the anchor."""
    return HEADER + 2 * memory[CLASSES]


@uncounted
def frames_of(k: int) -> int:
    """Where the three frames begin in a memory for k classes, one behind the other."""
    return HEADER + 3 * k


@uncounted
def frame_size(k: int) -> int:
    """The length of a frame."""
    return (VERTICES + k) * (k + 1)


@uncounted
def part_of(memory: Memory, frame: int, part: int) -> int:
    """Where that part of a frame begins."""
    return frame + part * (memory[CLASSES] + 1)


@uncounted
def vertex_at(memory: Memory, frame: int, i: int) -> int:
    """Where the k coordinates of vertex i of a frame begin."""
    return part_of(memory, frame, VERTICES) + i * memory[CLASSES]


@uncounted
def record_size(k: int) -> int:
    """The length of a record."""
    return POINT + 2 * k


@uncounted
def remembered(k: int, records: int, report: int) -> int:
    """How much there is behind so many records: an entry for a region for each fourth of them, or nothing."""
    return (records >> 2) * (PLACE + 2 * k) if report == FOLLOWS else 0


@uncounted
def capacity(memory: Memory) -> int:
    """How many records fit; half of the slots stay empty."""
    return (memory[MASK] + 1) >> 1


@uncounted
def key_of(memory: Memory, x: int) -> int:
    """The key of the point at x."""
    key = 0
    for c in range(memory[CLASSES]):
        key += memory[HEADER + c] * memory[x + c]
    return key


@uncounted
def first_slot(memory: Memory, key: Any) -> Any:
    """The slot at which the search for a key begins."""
    return (key ^ (key >> 19) ^ (key >> 37)) & memory[MASK]


@uncounted
def slot_of(memory: Memory, x: int, key: int) -> int:
    """The slot of the point at x: the one that names its record, or the empty one where it belongs."""
    k, mask, slots = memory[CLASSES], memory[MASK], memory[SLOTS]
    slot = first_slot(memory, key)
    while memory[slots + slot] != 0:
        record = memory[RECORDS] + (memory[slots + slot] - 1) * memory[WIDTH]
        if memory[record] == key:
            c = 0
            while c < k and memory[record + POINT + c] == memory[x + c]:
                c += 1
            if c == k:
                break
        slot = (slot + 1) & mask
    return slots + slot


@uncounted
def record_of(memory: Memory, x: int, key: int) -> int:
    """Where the record of the point at x begins, or -1 if it was never charged."""
    number = memory[slot_of(memory, x, key)]
    return memory[RECORDS] + (number - 1) * memory[WIDTH] if number else -1


@uncounted
def insert(memory: Memory, x: int, key: int) -> int:
    """A new record for the point at x, unbiased; the memory must have room and no record of it."""
    memory[slot_of(memory, x, key)] = memory[USED] + 1
    record = memory[RECORDS] + memory[USED] * memory[WIDTH]
    memory[USED] += 1
    memory[record] = key
    for c in range(memory[CLASSES]):
        memory[record + POINT + c] = memory[x + c]
        if memory[x + c] > 0:
            memory[record + SUPPORT] += 1
    return record


@uncounted
def rehash(memory: Memory) -> None:
    """Fill the empty slots from the records, whose keys are brought up to date."""
    for number in range(memory[USED]):
        record = memory[RECORDS] + number * memory[WIDTH]
        memory[record] = key_of(memory, record + POINT)
        memory[slot_of(memory, record + POINT, memory[record])] = number + 1


@uncounted
def vertex_of(memory: Memory, frame: int, outcome: int) -> int:
    """The vertex of the frame's cell that is labelled with the outcome."""
    i, labels = 0, part_of(memory, frame, LABELS)
    while memory[labels + i] != outcome:
        i += 1
    return i


@uncounted
def fresh_label(memory: Memory, x: int) -> int:
    """The label of a point that was never charged: its heaviest class, of several the largest."""
    best = 0
    for c in range(1, memory[CLASSES]):
        if memory[x + c] >= memory[x + best]:
            best = c
    return best


@uncounted
def earned_label(memory: Memory, record: int, last: int) -> int:
    """The label of a charged point by the rule above; `last` is the class that it was charged with last."""
    k, scale = memory[CLASSES], memory[SCALE]
    x, biases = record + POINT, record + POINT + k
    double = 2 * memory[record + SUPPORT] - 2
    if double == 0:
        return last
    best, best_left, best_weight = -1, 0, 0
    for c in range(k):
        weight, bias = memory[x + c], memory[biases + c]
        if weight == 0 or double * (bias + weight) < scale:
            continue
        left = (double - 1) * scale - double * bias
        if best < 0:
            best, best_left, best_weight = c, left, weight
            continue
        sooner = best_left * weight - left * best_weight
        if sooner > 0 or (sooner == 0 and best != last):
            best, best_left, best_weight = c, left, weight
    return best


@uncounted
def label_of(memory: Memory, x: int, key: int) -> int:
    """The label of the point at x."""
    record = record_of(memory, x, key)
    return memory[record + LABEL] if record >= 0 else fresh_label(memory, x)


@uncounted
def anchored_label(memory: Memory, x: int) -> int:
    """The artificial label of the point at x: the first class up to which it outweighs the anchor.

    The point has one step more than the anchor in all, so there is such a class, and its weight is
    above zero. The cell b + e_0, ..., b + e_(k-1) of the anchor b is the only one with all labels.
    """
    anchor = anchor_of(memory)
    c, excess = 0, memory[x] - memory[anchor]
    while excess <= 0:
        c += 1
        excess += memory[x + c] - memory[anchor + c]
    return c


@uncounted
def label_near(memory: Memory, x: int, key: int) -> int:
    """The label of the point at x if labels may lean towards the anchor as far as the slack allows.

    The artificial label is taken if its class may be charged without pushing its bias below -slack.
    """
    wished = anchored_label(memory, x)
    record = record_of(memory, x, key)
    bias = memory[record + POINT + memory[CLASSES] + wished] if record >= 0 else 0
    if bias + memory[x + wished] >= memory[SCALE] - memory[SLACK]:
        return wished
    return memory[record + LABEL] if record >= 0 else fresh_label(memory, x)


RESERVE = 4
"""What two charges can add to biases at most, in l1: one in its turn, one that has become late."""


@uncounted
def book(memory: Memory, x: int, key: int, outcome: int, weight: int, points: Any, y: int) -> int:
    """Enter a charge into the record of the point at x, or a new one: its new label.

    The charge has a weight, in units of 1/SCALE, and that outcome; with y >= 0 its outcome is the point at y
    of `points`.
    """
    record = record_of(memory, x, key)
    if record < 0:
        record = insert(memory, x, key)
    k, scale = memory[CLASSES], memory[SCALE]
    biases, rise = record + POINT + k, 0
    for c in range(k):
        old = memory[biases + c]
        new = old + (memory[x + c] if weight == scale else memory[x + c] * weight // scale)
        if y >= 0:
            new -= points[y + c]
        elif c == outcome:
            new -= weight
        memory[biases + c] = new
        rise += abs(new) - abs(old)
    memory[SPREAD] += rise
    if memory[BASE] > 0 and is_orphan(memory, x):
        memory[BALANCE] -= rise * k * memory[FINE]
    label = earned_label(memory, record, outcome)
    memory[record + LABEL] = label
    return label


@uncounted
def count(memory: Memory, away: int, spared: bool) -> None:
    """Count a round, and how far away it was from what it was charged to.

    The account of a grid that tunes itself is `spared` the distance to a new class: the guarantee counts it.
    """
    memory[MOVED] += away
    memory[ROUNDS] += 1
    if memory[BASE] > 0 and not spared:
        memory[BALANCE] += price(memory) - away


@uncounted
def price(memory: Memory) -> int:
    """The farthest that a round on the base grid can be from what it is charged to, in units of MOVED."""
    k, base = memory[CLASSES], memory[BASE]
    high = min(memory[SCALE] // base, k >> 1)
    farthest = k if memory[REPORT] > 0 else k - high
    return 2 * high * farthest * base * memory[FINE]


@uncounted
def is_orphan(memory: Memory, x: int) -> bool:
    """Whether the point at x is off the base grid."""
    off = 0
    for c in range(memory[CLASSES]):
        off |= memory[x + c]
    return bool(off & (memory[BASE] - 1) != 0)


@uncounted
def is_overdrawn(memory: Memory) -> bool:
    """Whether the present grid is finer than the base and the balance bears that no longer."""
    return bool(memory[STEP] < memory[BASE] and memory[BALANCE] < RESERVE * units(memory))
