"""The memory of the simplex machine: its layout, the table of the grid points charged so far, and its making.

A memory is one flat sequence of int64, and so its own snapshot:

    header | multipliers (k) | anchor (k) | point (k) | frames | slots | records | regions

A grid point of the simplex with k classes is a tuple x of k integers >= 0 with sum SCALE; the present
grid consists of the points whose coordinates are multiples of STEP. Biases are in the same units of
1/SCALE, so SPREAD too; MOVED, the l1 distance from the forecasts to the charged points, in 1/(k SCALE FINE).
A *record* holds what is known about a charged point: key, label, x, bias of each class. The slots are an
open-addressing hash table of record numbers; a point without a record was never charged.

If the classes are known in advance, FINE is 1 and MOVED is exact. Otherwise k SCALE FINE is about 2^30, and
MOVED is rounded up by less than a unit for a round that began with fewer classes. A round adds at most two to
the distance, that is 2^31 units, as SCALE <= 2^20 and k <= 2^10, and at most 2^21 to SPREAD. So memories bear
about 2^32 rounds; with FINE = 1 and k SCALE fixed they bear 2^62/(k SCALE).

Keys are linear, key = sum of x_c * multiplier_c, so that the key of a neighbour takes two look-ups. Different
points may have the same key, so a look-up compares the coordinates, too.

A *frame* holds a cell, or one on the way to it: up to k + 1 vertices in cyclic order (see `walk`):

    sum of the keys | sums of each coordinate (k) | steps | labels | keys | levels (k + 1 each) | vertices

*Labels* follow Tijdeman's chairman rule, in integers. Let v = x/M be a point with s classes of weight above
zero, alpha its biases (v minus the outcome, summed over its rounds) and h = 1/(2s - 2). If it were charged
with class j next, alpha_j would become alpha_j + v_j - 1. A class is *eligible* if that is at least h - 1,
and its *deadline*, the number of rounds after which alpha_j would exceed 1 - h if j did not come, is (1 - h -
alpha_j)/v_j. The label is the eligible class with the earliest deadline; of several, the class charged last
if it is one of them, else the largest. With two classes this is the balanced rule of `AlmostOneStepAhead`
with slack 1/2. The products compared below stay under 2 s M^2 (1 + |alpha|).

*The account* of a grid that tunes itself is what finer cells saved, less the bias they left. Without a
horizon the *base* grid of a round is that of the nested schedule; BASE is its step. In every round the
BALANCE, in units of MOVED, rises by the distance of the farthest vertex on the base grid less the round's own
distance. It falls by what the charge adds to the bias of an *orphan*, a point off the base grid. A round on a
finer grid is played only while the balance covers whatever may come of it. The balance begins with an
allowance (docs/theory-simplex.md, section 7).

*Who writes.* `new_memory`, `rebuilt`, `enlarged` and `divided` make memories, and never change the one that
they get. `SimplexRun` alone keeps what they made. It runs `make_ready` on a new or rebuilt one, which has no
cell yet (the two others keep the cell, and fill the slots by `reindex`), and sets LIMIT, BASE and the slack,
and BALANCE when these change. In a round only a charge (`rules`, by way of `book`) writes records, SPREAD,
MOVED, BALANCE and ROUNDS, and STEP where it returns to the base grid; a search for a cell (`walk`, with
`announce_near` and `follow`, which begin it) writes frames, anchor, point, regions and the three counts of
its own work.

*What always holds between two rounds*, once a memory is ready: the cell in the current frame is full,
which means that its k vertices have all k labels. SPREAD is the sum of the sizes of all biases in the
records. Each record has its slot. What is in the other two frames, in anchor and point, is not read again.

Wrappers' pickles and the engine's ledger keep memories as they are, so whoever changes the order of the
header's fields or of the parts raises STATE_FORMAT.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.compiling import compiled, uncounted
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.guarantees import FOREVER, MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_CLASSES, MOST_PARTS
from onlinecal.layout import Layout
from onlinecal.restoring import require

Memory = Any
"""An int64 array, or a list of int when the interpreter runs the machine."""

HEADER = Layout()
"""The header. A place is an index of the memory."""
FORMAT = HEADER.field("FORMAT_SIMPLEX", "format")
CLASSES = HEADER.field("k", "count")
SCALE = HEADER.field("the units are 1/SCALE", "units")
STEP = HEADER.field("width of the present grid's cells", "units")
FINE = HEADER.field("how much finer distances are counted", "factor")
SLACK = HEADER.field("the slack", "units")
LIMIT = HEADER.field("the last round before another grid is due", "round")
WIDTH = HEADER.field("length of a record", "count")
SLOTS = HEADER.field("where the slots begin", "place")
MASK = HEADER.field("the number of slots less one", "count")
RECORDS = HEADER.field("where the records begin", "place")
CURRENT_FRAME = HEADER.field("the frame of the current cell", "place")
OTHER_FRAME = HEADER.field("another frame; the two may change places", "place")
SLAB_FRAME = HEADER.field("the frame on the way through the slab", "place")
ROUNDS = HEADER.field("rounds settled", "count")
SPREAD = HEADER.field("sum of the sizes of all biases", "units")
MOVED = HEADER.field("distance from forecasts to charged points, in l1", "1/(k SCALE FINE)")
RECORDS_USED = HEADER.field("records in use", "count")
CELL_CHANGES = HEADER.field("how often the cell changed", "count")
PIVOTS = HEADER.field("how many vertices were exchanged for that", "count")
RESTARTS = HEADER.field("how often the cell changed by a restart", "count")
REPORT = HEADER.field("0 if forecasts are barycentres; FOLLOWS if they follow hints in near cells", "choice")
BASE = HEADER.field("step of the base grid; 0 unless the grid tunes itself", "units")
BALANCE = HEADER.field("the account; 0 unless the grid tunes itself", "1/(k SCALE FINE)")
HEADER_LENGTH = HEADER.end
FOLLOWS = 1
"""A REPORT: a hint is announced as it is if it is in the cell, see `cells.move_inside`."""

RECORD = Layout()
"""A record; the coordinates of the point and its k biases follow."""
KEY = RECORD.field("the key of the point", "key")
LABEL = RECORD.field("its label", "class")
SUPPORT = RECORD.field("classes of weight above zero", "count")
POINT = RECORD.end

REGION = Layout()
"""What is remembered of a region (see `walk`). Twice k sums of a frame follow: those where the walk begins,
and those where it ended."""
REGION_KEY = REGION.field("the key of the region", "key")
WALKED_AT = REGION.field("the round of the walk", "round")
LAST_BEGUN = REGION.field("the last round whose walk began from here, plus one", "round")
RECALLS_LEFT = REGION.field("how many more rounds may begin from here", "count")
REGION_SUMS = REGION.end

SUMS = 1
"""Where a frame has the sums of its vertices' coordinates, k SCALE times the barycentre."""
STEPS, LABELS, KEYS, LEVELS, VERTICES = range(1, 6)
"""The parts of a frame that have an entry for each vertex (see `part_of`)."""


@uncounted
def units(memory: Memory) -> int:
    """MOVED is in units of one over this."""
    return memory[CLASSES] * memory[SCALE] * memory[FINE]


@uncounted
def anchor_of(memory: Memory) -> int:
    """Where the anchor is kept: the point b whose upward cell b + e_0, ..., b + e_(k-1) starts a restart."""
    return HEADER_LENGTH + memory[CLASSES]


@uncounted
def point_of(memory: Memory) -> int:
    """Where a single point is kept: the one to be charged, or a target for the anchor."""
    return HEADER_LENGTH + 2 * memory[CLASSES]


@uncounted
def frames_of(k: int) -> int:
    """Where the three frames begin in a memory for k classes, one behind the other."""
    return HEADER_LENGTH + 3 * k


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
    """The room for regions behind so many records: an entry for every fourth record, or nothing."""
    return (records >> 2) * (REGION_SUMS + 2 * k) if report == FOLLOWS else 0


@uncounted
def capacity(memory: Memory) -> int:
    """How many records fit; half of the slots stay empty."""
    return (memory[MASK] + 1) >> 1


@uncounted
def key_of(memory: Memory, x: int) -> int:
    """The key of the point at x."""
    key = 0
    for c in range(memory[CLASSES]):
        key += memory[HEADER_LENGTH + c] * memory[x + c]
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
    memory[slot_of(memory, x, key)] = memory[RECORDS_USED] + 1
    record = memory[RECORDS] + memory[RECORDS_USED] * memory[WIDTH]
    memory[RECORDS_USED] += 1
    memory[record] = key
    for c in range(memory[CLASSES]):
        memory[record + POINT + c] = memory[x + c]
        if memory[x + c] > 0:
            memory[record + SUPPORT] += 1
    return record


@uncounted
def rehash(memory: Memory) -> None:
    """Fill the empty slots from the records, whose keys are brought up to date."""
    for number in range(memory[RECORDS_USED]):
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
    """The label of a charged point by the chairman rule; `last` is the class of its last charge."""
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
        sooner = best_left * weight - left * best_weight
        if best < 0 or sooner > 0 or (sooner == 0 and best != last):
            best, best_left, best_weight = c, left, weight
    return best


@uncounted
def anchored_label(memory: Memory, x: int) -> int:
    """The artificial label of the point at x: the first class up to which it outweighs the anchor.

    The coordinates of the point have one step more than those of the anchor, so there is such a class, and
    its weight is above zero. The cell b + e_0, ..., b + e_(k-1) of the anchor b is the only one with all
    labels.
    """
    anchor = anchor_of(memory)
    c, excess = 0, memory[x] - memory[anchor]
    while excess <= 0:
        c += 1
        excess += memory[x + c] - memory[anchor + c]
    return c


@uncounted
def label_of(memory: Memory, x: int, key: int, leaning: bool) -> int:
    """The label of the point whose coordinates are at x and whose hash key is `key`.

    With `leaning` it leans towards the anchor as far as the slack allows: the artificial label is taken if
    its class may be charged without pushing its bias below -slack.
    """
    record = record_of(memory, x, key)
    if leaning:
        wished = anchored_label(memory, x)
        bias = memory[record + POINT + memory[CLASSES] + wished] if record >= 0 else 0
        if bias + memory[x + wished] >= memory[SCALE] - memory[SLACK]:
            return wished
    return memory[record + LABEL] if record >= 0 else fresh_label(memory, x)


RESERVED_BIAS = 4
"""The most that two charges can add to biases, in l1: one in its turn and one that has become late."""


@uncounted
def book(memory: Memory, x: int, key: int, outcome: int, weight: int, points: Any, y: int) -> int:
    """Enter a charge into the record of the point at x, or into a new one, and give back the point's label.

    The charge has a weight, in units of 1/SCALE, and that outcome; with y >= 0 its outcome is the point at y
    of `points`.
    """
    record = record_of(memory, x, key)
    if record < 0:
        record = insert(memory, x, key)
    k, scale = memory[CLASSES], memory[SCALE]
    biases, rise, bits = record + POINT + k, 0, 0
    for c in range(k):
        bits |= memory[x + c]
        old = memory[biases + c]
        new = old + (memory[x + c] if weight == scale else memory[x + c] * weight // scale)
        if y >= 0:
            new -= points[y + c]
        elif c == outcome:
            new -= weight
        memory[biases + c] = new
        rise += abs(new) - abs(old)
    memory[SPREAD] += rise
    if memory[BASE] > 0 and bits & (memory[BASE] - 1) != 0:
        memory[BALANCE] -= rise * k * memory[FINE]
    label = earned_label(memory, record, outcome)
    memory[record + LABEL] = label
    return label


@uncounted
def count(memory: Memory, away: int, spared: bool) -> None:
    """Count a round, and how far away it was from what it was charged to.

    The account of a grid that tunes itself is `spared` the distance to a new class, which the guarantee
    counts.
    """
    memory[MOVED] += away
    memory[ROUNDS] += 1
    if memory[BASE] > 0 and not spared:
        memory[BALANCE] += price(memory) - away


@uncounted
def price(memory: Memory) -> int:
    """The largest distance of a round on the base grid from what it is charged to, in units of MOVED."""
    k, base = memory[CLASSES], memory[BASE]
    high = min(memory[SCALE] // base, k >> 1)
    farthest = k if memory[REPORT] > 0 else k - high
    return 2 * high * farthest * base * memory[FINE]


FORMAT_SIMPLEX = 3
FEWEST_RECORDS = 8
FINEST_UNITS = 1 << 30
CONSTANT_FIELDS = (FORMAT, CLASSES, SCALE, STEP, FINE, SLACK, WIDTH, SLOTS, SLAB_FRAME, REPORT)
LARGEST_ACCOUNT = 1 << 62


def new_memory(
    k: int, scale: int, step: int, slack: float | None, growing: bool = False, report: int = 0, room: int = 0
) -> Ints:
    """A memory with room for so many points, a power of two, or for few; its cell will be near the centre.

    `growing` says that classes may be added later, by `rebuilt`; `report` is REPORT.
    """
    slots, records = frames_of(k) + 3 * frame_size(k), room or FEWEST_RECORDS
    size = records * record_size(k) + remembered(k, records, report)
    memory = np.zeros(slots + 2 * records + size, np.int64)
    front = front_of(k, scale, step, slack, growing, report)
    memory[: len(front)] = front
    memory[MASK], memory[RECORDS] = 2 * records - 1, slots + 2 * records
    return memory


@lru_cache(maxsize=256)
def front_of(classes: int, scale: int, step: int, slack: float | None, growing: bool, report: int) -> Ints:
    """The front part of such memories, up to the sums of their cell."""
    frames, size = frames_of(classes), frame_size(classes)
    memory = np.zeros(frames + SUMS + classes, np.int64)
    memory[[FORMAT, CLASSES, SCALE, STEP, LIMIT]] = FORMAT_SIMPLEX, classes, scale, step, FOREVER
    memory[REPORT] = report
    memory[FINE] = 1 << (max(1, FINEST_UNITS // (classes * scale)).bit_length() - 1) if growing else 1
    memory[[WIDTH, SLOTS]] = record_size(classes), frames + 3 * size
    set_slack(memory, slack)
    largest = (1 << 60) // (scale * (classes + 1))
    for c in range(classes):
        memory[HEADER_LENGTH + c] = pow(0x9E3779B1, c + 1, (1 << 61) - 1) % largest
    memory[[CURRENT_FRAME, OTHER_FRAME, SLAB_FRAME]] = frames, frames + size, frames + 2 * size
    memory[frames + SUMS :] = scale
    memory.setflags(write=False)
    return memory


def set_slack(memory: Ints, slack: float | None) -> None:
    """Set how far labels may lean from now on; those of the present cell stay what they are."""
    if slack is not None:
        numerator, denominator = float(slack).as_integer_ratio()
        memory[SLACK] = numerator * int(memory[SCALE]) // denominator


def rebuilt(
    memory: Ints,
    k: int,
    scale: int,
    step: int,
    slack: float | None,
    growing: bool,
    report: int,
    room: int = 0,
) -> Ints:
    """The same run on another grid, with room for so many points, or (0) for at least one point more.

    The scale may only be multiplied. Classes may only be added; the points charged so far have no weight
    on them. The distance moved is rounded up to the new unit. The cell will be near the old forecast.
    """
    records = room or max(FEWEST_RECORDS, 1 << int(memory[RECORDS_USED]).bit_length())
    new, factor = new_memory(k, scale, step, slack, growing, report, records), scale // int(memory[SCALE])
    totals, old, now = memory[ROUNDS:HEADER_LENGTH].tolist(), int(units(memory)), int(units(new))
    totals[REPORT - ROUNDS] = report
    totals[SPREAD - ROUNDS] *= factor
    totals[BASE - ROUNDS] *= factor
    if old != now:
        totals[BALANCE - ROUNDS] = totals[BALANCE - ROUNDS] * now // old
        totals[MOVED - ROUNDS] = -(-totals[MOVED - ROUNDS] * now // old)
    new[ROUNDS:HEADER_LENGTH] = totals
    take_points(memory, new, factor)
    return new


@compiled
def take_points(memory: Ints, new: Ints, factor: int) -> None:
    """Copy points and forecast into a memory for as many classes or more, with units `factor` times finer."""
    old_k, k, old_width, width = memory[CLASSES], new[CLASSES], memory[WIDTH], new[WIDTH]
    for i in range(memory[RECORDS_USED]):
        old, record = memory[RECORDS] + i * old_width, new[RECORDS] + i * width
        new[record + LABEL], new[record + SUPPORT] = memory[old + LABEL], memory[old + SUPPORT]
        for c in range(old_k):
            new[record + POINT + c] = memory[old + POINT + c] * factor
            new[record + POINT + k + c] = memory[old + POINT + old_k + c] * factor
    sums, target = memory[CURRENT_FRAME] + SUMS, new[CURRENT_FRAME] + SUMS
    for c in range(k):
        new[target + c] = memory[sums + c] * k * factor // old_k if c < old_k else 0


reindex = compiled(rehash)
"""The same, compiled."""


def divided(memory: Ints, parts: int, slack: float | None, growing: bool, report: int) -> Ints:
    """The same run, in the same cell, in units `parts` times finer, which is a power of two."""
    k, scale, step = memory[[CLASSES, SCALE, STEP]].tolist()
    new = rebuilt(memory, k, scale * parts, step * parts, slack, growing, report, int(capacity(memory)))
    new[LIMIT] = memory[LIMIT]
    old, frame = int(memory[CURRENT_FRAME]), int(new[CURRENT_FRAME])
    new[frame + SUMS + k : frame + frame_size(k)] = memory[old + SUMS + k : old + frame_size(k)]
    first, keys = int(vertex_at(new, frame, 0)), int(part_of(new, frame, KEYS))
    vertices = new[first : first + k * k].reshape(k, k)
    vertices *= parts
    new[keys : keys + k] = vertices @ new[HEADER_LENGTH : HEADER_LENGTH + k]
    new[frame] = new[keys : keys + k].sum()
    reindex(new)
    return new


def enlarged(memory: Ints) -> Ints:
    """The same memory with room for twice as many points."""
    slots, records, used = int(memory[SLOTS]), capacity(memory) * 2, int(memory[RECORDS_USED])
    size = remembered(int(memory[CLASSES]), records, int(memory[REPORT]))
    new = np.zeros(slots + 2 * records + records * int(memory[WIDTH]) + size, np.int64)
    new[:slots] = memory[:slots]
    new[MASK], new[RECORDS] = 2 * records - 1, slots + 2 * records
    records_of(new, used)[:] = records_of(memory)
    reindex(new)
    return new


def records_of(memory: Ints, number: int | None = None) -> Ints:
    """A view of the first records, of those in use, one a row: key, label, k coordinates, k biases."""
    first, width = int(memory[RECORDS]), int(memory[WIDTH])
    used = int(memory[RECORDS_USED]) if number is None else number
    return memory[first : first + used * width].reshape(used, width)


def certificate(memory: Any) -> float:
    """l1 distance from the forecasts to the charged points plus those points' biases, a sum."""
    # a list, since taking single numbers out of an array is slow
    head = memory[:HEADER_LENGTH].tolist() if isinstance(memory, np.ndarray) else memory
    return certified(head, head[MOVED], head[SPREAD])


def certified(memory: Any, moved: int, spread: int) -> float:
    """The sum of a distance and biases that are in the units of the memory."""
    return (moved + int(memory[CLASSES]) * int(memory[FINE]) * spread) / int(units(memory))


def most_rounds(memory: Ints, changing: bool) -> int:
    """How many rounds fit in all, whatever they are (see `rounds_left`)."""
    return BRIM // (2 * (FINEST_UNITS if changing else int(units(memory))) + 1)


def rounds_left(memory: Ints, changing: bool) -> int:
    """How many more rounds fit, whatever they are; `changing` says that grid or classes may change."""
    head = memory[:HEADER_LENGTH].tolist()
    now = head[CLASSES] * head[SCALE] * head[FINE]
    finest = max(FINEST_UNITS, now) if changing else now
    moved = -(-max(head[MOVED], head[BALANCE]) * finest // now)
    by_bias = (BRIM - head[SPREAD]) >> max(22, head[SCALE].bit_length() + 1)
    return max(0, min((BRIM - moved) // (2 * finest + 1), by_bias, FOREVER - head[ROUNDS]))


def check_bears(memory: Ints, changing: bool, rounds: int) -> None:
    """ValueError if the integers might not bear so many more rounds; an empty memory bears them."""
    if len(memory) and rounds_left(memory, changing) < rounds:
        raise ValueError(
            f"the integers of this forecaster would overflow in {rounds} more rounds after {memory[ROUNDS]}: "
            "begin a new forecaster"
        )


def length_of(header: list[int], classes: int) -> int:
    """The length of a memory for so many classes by its header; ValueError for an impossible header."""
    require((header[FORMAT], header[CLASSES]) == (FORMAT_SIMPLEX, classes), "its classes")
    require(1 <= classes <= MOST_CLASSES, "its classes")
    slots, places = frames_of(classes) + 3 * frame_size(classes), header[MASK] + 1
    require(2 * FEWEST_RECORDS <= places <= 1 << 40 and places & header[MASK] == 0, "the size of its table")
    require(header[RECORDS] == slots + places, "the size of its table")
    records = places // 2
    return slots + places + records * record_size(classes) + remembered(classes, records, header[REPORT])


def check_memory(memory: Any, run: Any) -> None:
    """ValueError unless a `SimplexRun` can play on a memory that came from outside.

    The walks of `walk` end because every label belongs to a class of weight above zero and a vertex has the
    label that its record says. A label is found because the biases of a point have the sum zero. This is
    checked here, and so are all places that the header names. The slots are filled anew. See
    `binary.soundness`.
    """
    classes, parts = len(run.numbers), run.parts
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > HEADER_LENGTH, "its length")
    head: list[int] = memory[:HEADER_LENGTH].tolist()
    require(len(memory) == length_of(head, classes), "its length")
    scale, step, rounds, limit = head[SCALE], head[STEP], head[ROUNDS], head[LIMIT]
    require(type(parts) is int and 1 <= parts <= MOST_PARTS and parts & (parts - 1) == 0, "its parts")
    require(parts <= step <= scale <= parts * MOST_CELLS and scale % step == step % parts == 0, "its grid")
    m, unit, powers = scale // parts, step // parts, scale & (scale - 1) == 0 == step & (step - 1)
    require(run.n_cells in (None, m) and (powers or (unit == 1 and run.on_one_grid)), "its grid")
    like = new_memory(classes, scale, step, run.slack, run.growing, run.report)
    same = [*CONSTANT_FIELDS, *range(HEADER_LENGTH, HEADER_LENGTH + classes)]
    require(bool((memory[same] == like[same]).all()), "what its configuration says")
    frames = like[[CURRENT_FRAME, OTHER_FRAME]].tolist()
    require([head[CURRENT_FRAME], head[OTHER_FRAME]] in (frames, frames[::-1]), "its frames")
    require(0 <= rounds <= limit <= FOREVER and (limit == FOREVER or not run.on_one_grid), "its rounds")
    require(
        0 <= head[MOVED] < LARGEST_ACCOUNT and 0 <= head[RECORDS_USED] <= capacity(memory),
        "the size of its table",
    )
    base, balance = head[BASE], head[BALANCE]
    if run.tuned:
        require(step <= base <= scale and scale % base == 0 and base & (base - 1) == 0, "its account")
        require(-LARGEST_ACCOUNT < balance < LARGEST_ACCOUNT, "its account")
    else:
        require((base, balance) == (0, 0), "its account")
    _check_records(memory, head, parts)
    memory[head[SLOTS] : head[RECORDS]] = 0
    reindex(memory)
    _check_frame(memory, head)
    # the regions that are remembered: one where nothing has begun yet has no sums
    regions = memory[head[RECORDS] + capacity(memory) * head[WIDTH] :].reshape(-1, REGION_SUMS + 2 * classes)
    sums = regions[:, REGION_SUMS:].reshape(-1, classes)
    require(bool((regions[:, WALKED_AT:REGION_SUMS] >= 0).all() and (sums >= 0).all()), "its regions")
    require(bool((sums <= classes * scale).all()), "its regions")
    require(bool(np.isin(sums.sum(axis=1), [0, classes * scale]).all()), "its regions")


def _check_records(memory: Ints, head: list[int], parts: int) -> None:
    k, scale, used = head[CLASSES], head[SCALE], head[RECORDS_USED]
    table = records_of(memory, int(capacity(memory)))
    require(not table[used:].any(), "the unused part of its table")
    rows = table[:used]
    points, biases, labels = rows[:, POINT : POINT + k], rows[:, POINT + k :], rows[:, LABEL]
    require(bool(((points >= 0) & (points <= scale) & (points % parts == 0)).all()), "its points")
    require(bool((points.sum(axis=1) == scale).all()), "its points")
    require(bool((rows[:, SUPPORT] == (points > 0).sum(axis=1)).all()), "its points")
    require(bool(((labels >= 0) & (labels < k)).all()), "its labels")
    require(bool((points[np.arange(used), labels] > 0).all()), "its labels")
    most = (1 << 60) // (2 * k * scale)
    require(bool(((biases >= -most) & (biases <= most)).all()), "its biases")
    require(not biases[points == 0].any() and not biases.sum(axis=1).any(), "its biases")


def _check_frame(memory: Ints, head: list[int]) -> None:
    """Whether the current cell is one, with all labels, each that of its vertex."""
    k, unit, frame, everything = head[CLASSES], head[STEP], head[CURRENT_FRAME], np.arange(head[CLASSES])
    places = [int(part_of(memory, frame, part)) for part in (STEPS, LABELS, KEYS, VERTICES)]
    steps, labels, keys = (memory[place : place + k] for place in places[:3])
    points = memory[places[3] : places[3] + k * k].reshape(k, k)
    require(bool((np.sort(steps) == everything).all() and (np.sort(labels) == everything).all()), "its cell")
    require(bool(((points >= 0) & (points <= head[SCALE]) & (points % unit == 0)).all()), "its cell")
    require(bool((points.sum(axis=1) == head[SCALE]).all()), "its cell")
    moves = unit * (np.eye(k, dtype=np.int64)[(steps + 1) % k] - np.eye(k, dtype=np.int64)[steps])
    require(bool((np.roll(points, -1, axis=0) - points == moves).all()), "its cell")
    require(bool((memory[frame + SUMS : frame + SUMS + k] == points.sum(axis=0)).all()), "its cell")
    require(bool((keys == points @ memory[HEADER_LENGTH : HEADER_LENGTH + k]).all()), "its cell")
    require(int(memory[frame]) == int(keys.sum()), "its cell")
    earned = [label_of(memory, places[3] + i * k, keys[i], False) for i in range(k)]
    require(earned == labels.tolist(), "its labels")
