"""The memory of the simplex machine: its layout, and the table of the grid points charged so far.

One flat sequence of int64, its own snapshot, as in `cells`:

    header | multipliers (k) | anchor (k) | point (k) | frames | slots | records

A grid point of the simplex with k classes is a tuple x of k integers >= 0 with sum SCALE; the present
grid consists of the points whose coordinates are multiples of STEP. Biases are in the same units of
1/SCALE. A *record* holds what is known about a charged point: key, label, x, bias of each class. The
slots are an open-addressing hash table of record numbers; a point without a record was never charged.

Keys are linear, key = sum of x_c * multiplier_c, so that the key of a neighbour costs two look-ups. They
need not be injective: a look-up compares the coordinates too.

A *frame* holds a cell, or one on the way to it: up to k + 1 vertices in cyclic order (see `walk`):

    sum of the keys | sums of each coordinate (k) | steps | labels | keys | levels (k + 1 each) | vertices
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
"""0 if forecasts are barycentres, FOLLOWS if they follow hints (`report`), in cells that `near` finds."""
FOLLOWS = 1
BASE, BALANCE = 22, 23
"""Of a grid that tunes itself (see `accounts`), else 0."""
HEADER = 24

KEY, LABEL, SUPPORT, POINT = range(4)
"""Parts of a record; SUPPORT counts the classes of weight above zero, the biases follow the k coordinates."""

REGION_KEY, SINCE, LAST, LEFT, PLACE = range(5)
"""Parts of what is remembered of a region (see `near`): its key; the round of the walk; the last round that
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
