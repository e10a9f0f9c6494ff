"""Almost-One-Step-Ahead for k classes: forecasts on the simplex, charged to the vertices of a full cell.

The machine keeps a current cell whose k vertices are labelled with all k classes (see `walk`),
announces its barycentre and charges a round with outcome j to the vertex labelled j. By the labelling
rule (`labels`) no bias leaves (-1, 1), and only the charged point can change its label.

    has_room(memory) -> bool                   whether one more round may be played on this memory
    propose(memory) -> frame                   the cell to announce, led by the target in `point_of`
    charge(memory, frame, outcome)             settle a round that was announced as that frame's cell
    settle(memory, outcome, moved)             settle one charged to the point in `point_of`
    rise(memory, frame, outcome) -> float      by how much the certificate would rise

A memory serves a fixed number of classes on a fixed grid. `new_memory` and `rebuilt` make one; `begin`
must be run on it before the first round.

Units: coordinates and biases 1/SCALE, so SPREAD too; MOVED, the l1 distance from the forecasts to the
charged points, 1/(k SCALE FINE). FINE is 1 and MOVED exact if the classes are known in advance; otherwise
k SCALE FINE is about 2^30, and MOVED is rounded up by less than a unit where a round began with fewer
classes. A round adds at most two to the distance, that is 2^31 units, as SCALE <= 2^20 and k <= 2^10, and
at most 2^21 to SPREAD. So memories bear about 2^32 rounds; with FINE = 1 and k SCALE fixed 2^62/(k SCALE).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.labels import earned_label
from onlinecal.forecasters.simplex.table import (
    CHANGES,
    CLASSES,
    FINE,
    FORMAT,
    HEADER,
    HERE,
    LABEL,
    LIMIT,
    MASK,
    MOVED,
    OTHER,
    POINT,
    RECORDS,
    ROUNDS,
    SCALE,
    SLAB,
    SLACK,
    SLOTS,
    SPREAD,
    STEP,
    SUPPORT,
    USED,
    WIDTH,
    Memory,
    capacity,
    frame_size,
    insert,
    key_of,
    point_of,
    record_of,
    rehash,
)
from onlinecal.forecasters.simplex.walk import change_places, doors, restart, set_anchor, twin_of

FORMAT_SIMPLEX = 3
FEWEST_RECORDS = 8
FINENESS = 1 << 30


def new_memory(
    classes: int, scale: int, step: int, slack: float | None, records: int, growing: bool = False
) -> NDArray[np.int64]:
    """A memory with room for `records` points, a power of two; its cell will be near the barycentre.

    `growing` says that classes may be added later, by `rebuilt`.
    """
    width, frames, size = POINT + 2 * classes, HEADER + 3 * classes, frame_size(classes)
    slots = frames + 3 * size
    memory = np.zeros(slots + 2 * records + records * width, np.int64)
    memory[[FORMAT, CLASSES, SCALE, STEP, LIMIT]] = FORMAT_SIMPLEX, classes, scale, step, FOREVER
    memory[FINE] = 1 << ((FINENESS // (classes * scale)).bit_length() - 1) if growing else 1
    memory[[WIDTH, SLOTS, MASK, RECORDS]] = width, slots, 2 * records - 1, slots + 2 * records
    if slack is not None:
        numerator, denominator = float(slack).as_integer_ratio()
        memory[SLACK] = numerator * scale // denominator
    largest = (1 << 60) // (scale * (classes + 1))
    for c in range(classes):
        memory[HEADER + c] = pow(0x9E3779B1, c + 1, (1 << 61) - 1) % largest
    memory[[HERE, OTHER, SLAB]] = frames, frames + size, frames + 2 * size
    memory[frames + 1 : frames + 1 + classes] = scale
    return memory


def rebuilt(
    memory: NDArray[np.int64], classes: int, scale: int, step: int, slack: float | None
) -> NDArray[np.int64]:
    """The same run on another grid, with room for at least one point more.

    The scale may only be multiplied. Classes may only be added; the points charged so far have no weight
    on them. The distance moved is rounded up to the new unit. The cell will be near the old forecast.
    """
    old_classes, used = int(memory[CLASSES]), int(memory[USED])
    records = max(FEWEST_RECORDS, 1 << int(used).bit_length())
    new = new_memory(classes, scale, step, slack, records, growing=memory[FINE] > 1)
    factor = scale // int(memory[SCALE])
    new[ROUNDS:HEADER] = memory[ROUNDS:HEADER]
    new[SPREAD] *= factor
    new[MOVED] = -(-int(memory[MOVED]) * units(new) // units(memory))
    table = records_of(memory)
    into = new[new[RECORDS] :].reshape(records, -1)[:used]
    into[:, LABEL : SUPPORT + 1] = table[:, LABEL : SUPPORT + 1]
    into[:, POINT : POINT + old_classes] = table[:, POINT : POINT + old_classes] * factor
    into[:, POINT + classes : POINT + classes + old_classes] = table[:, POINT + old_classes :] * factor
    sums, target = int(memory[HERE]) + 1, int(new[HERE]) + 1
    new[target : target + classes] = 0
    for c in range(old_classes):
        new[target + c] = int(memory[sums + c]) * classes * factor // old_classes
    return new


def units(memory: NDArray[np.int64]) -> int:
    """MOVED is in units of one over this."""
    return int(memory[CLASSES]) * int(memory[SCALE]) * int(memory[FINE])


def enlarged(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same memory with room for twice as many points and empty slots: `rehash` must follow."""
    slots, records, used = int(memory[SLOTS]), capacity(memory) * 2, int(memory[USED])
    new = np.zeros(slots + 2 * records + records * int(memory[WIDTH]), np.int64)
    new[:slots] = memory[:slots]
    new[MASK], new[RECORDS] = 2 * records - 1, slots + 2 * records
    new[new[RECORDS] :].reshape(records, -1)[:used] = records_of(memory)
    return new


def records_of(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """A view of the records in use, one a row: key, label, k coordinates, k biases."""
    first, width, used = int(memory[RECORDS]), int(memory[WIDTH]), int(memory[USED])
    return memory[first : first + used * width].reshape(used, width)


@kernel_part
def begin(memory: Memory) -> None:
    """Index the records and find the first cell, near the barycentre that the current frame holds."""
    rehash(memory)
    start_afresh(memory)


@kernel_part
def start_afresh(memory: Memory) -> None:
    """Make a full cell current, found from the barycentre that the current frame holds."""
    set_anchor(memory, memory[HERE] + 1)
    restart(memory, False)
    change_places(memory)


@kernel_part
def bears(memory: Memory) -> bool:
    """Whether no accumulator can wrap in one more round."""
    return bool(memory[MOVED] < BRIM and memory[SPREAD] < BRIM)


@kernel_part
def has_room(memory: Memory) -> bool:
    """Whether a point that was never charged still fits, and grid and integers serve one more round."""
    return bool(memory[USED] < capacity(memory) and memory[ROUNDS] < memory[LIMIT] and bears(memory))


@kernel_part
def aim(memory: Memory, hint: Any) -> None:
    """Make a hint, one probability a class, the target of `propose`."""
    target, units = point_of(memory), memory[CLASSES] * memory[SCALE]
    for c in range(memory[CLASSES]):
        memory[target + c] = int(hint[c] * units + 0.5)


@kernel_part
def propose(memory: Memory) -> int:
    """The frame of a full cell near the target in `point_of`, given in units of 1/(k SCALE).

    With a slack the labels lean towards the target as far as it allows.
    """
    set_anchor(memory, point_of(memory))
    return restart(memory, memory[SLACK] > 0)


@kernel_part
def vertex_of(memory: Memory, frame: int, outcome: int) -> int:
    """The vertex of the frame's cell that is labelled with the outcome."""
    labels = frame + 2 + 2 * memory[CLASSES]
    i = 0
    while memory[labels + i] != outcome:
        i += 1
    return i


@kernel_part
def travelled(memory: Memory, frame: int, i: int) -> int:
    """l1 distance from the barycentre of the frame's cell to its vertex i, in units of 1/(k SCALE)."""
    k = memory[CLASSES]
    x, distance = frame + 5 + 5 * k + i * k, 0
    for c in range(k):
        distance += abs(k * memory[x + c] - memory[frame + 1 + c])
    return distance


@kernel_part
def charge(memory: Memory, frame: int, outcome: int) -> None:
    """Charge a round, announced as the barycentre, to its vertex of the frame's cell, while `has_room`."""
    i = vertex_of(memory, frame, outcome)
    charge_vertex(memory, frame, i, outcome, travelled(memory, frame, i) * memory[FINE])


@kernel_part
def charge_vertex(memory: Memory, frame: int, i: int, outcome: int, moved: int) -> None:
    """Charge a round to vertex i of the frame's cell, `moved` away from what was announced."""
    k = memory[CLASSES]
    x, key = frame + 5 + 5 * k + i * k, memory[frame + 3 + 3 * k + i]
    memory[MOVED] += moved
    label = book(memory, x, key, outcome)
    if frame != memory[HERE]:
        follow(memory, x, key, label)
    elif label != outcome:
        relabel(memory, i, label)


@kernel_part
def settle(memory: Memory, outcome: int, moved: int) -> None:
    """Charge a round to the point in `point_of`. Call it only while `has_room`."""
    x = point_of(memory)
    key = key_of(memory, x)
    memory[MOVED] += moved
    follow(memory, x, key, book(memory, x, key, outcome))


@kernel_part
def book(memory: Memory, x: int, key: int, outcome: int) -> int:
    """Enter a round with that outcome into the record of the point at x: its new label."""
    record = record_of(memory, x, key)
    if record < 0:
        record = insert(memory, x, key)
    k = memory[CLASSES]
    biases, rise = record + POINT + k, 0
    for c in range(k):
        old = memory[biases + c]
        new = old + memory[x + c]
        if c == outcome:
            new -= memory[SCALE]
        memory[biases + c] = new
        rise += abs(new) - abs(old)
    memory[SPREAD] += rise
    memory[ROUNDS] += 1
    label = earned_label(memory, record, outcome)
    memory[record + LABEL] = label
    return label


@kernel_part
def follow(memory: Memory, x: int, key: int, label: int) -> None:
    """Tell the current cell the label of the point at x, if that is one of its vertices."""
    k, here = memory[CLASSES], memory[HERE]
    for i in range(k):
        if memory[here + 3 + 3 * k + i] != key or memory[here + 2 + 2 * k + i] == label:
            continue
        c = 0
        while c < k and memory[here + 5 + 5 * k + i * k + c] == memory[x + c]:
            c += 1
        if c == k:
            relabel(memory, i, label)
            return


@kernel_part
def relabel(memory: Memory, i: int, label: int) -> None:
    """Give vertex i of the current cell another label and walk to a cell that is full again."""
    here = memory[HERE]
    memory[here + 2 + 2 * memory[CLASSES] + i] = label
    memory[CHANGES] += 1
    if not doors(memory, i, twin_of(memory, here, memory[CLASSES], i)):
        start_afresh(memory)


@kernel_part
def rise(memory: Memory, frame: int, outcome: int) -> float:
    """By how much the certificate would rise if the frame's cell were charged with the outcome."""
    k, scale = memory[CLASSES], memory[SCALE]
    i = vertex_of(memory, frame, outcome)
    x = frame + 5 + 5 * k + i * k
    record = record_of(memory, x, memory[frame + 3 + 3 * k + i])
    spread = 0
    for c in range(k):
        old = memory[record + POINT + k + c] if record >= 0 else 0
        spread += abs(old + memory[x + c] - (scale if c == outcome else 0)) - abs(old)
    return travelled(memory, frame, i) / (k * scale) + spread / scale


def certificate(memory: Any) -> float:
    """l1 distance from the forecasts to the charged points plus those points' biases, a sum."""
    factor = int(memory[CLASSES]) * int(memory[FINE])
    return (int(memory[MOVED]) + factor * int(memory[SPREAD])) / units(memory)
