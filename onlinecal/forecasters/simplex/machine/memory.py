"""How a memory of the simplex machine is made, grows, changes its grid and is checked; how long it bears.

Units: coordinates and biases 1/SCALE, so SPREAD too; MOVED, the l1 distance from the forecasts to the
charged points, 1/(k SCALE FINE). FINE is 1 and MOVED exact if the classes are known in advance; otherwise
k SCALE FINE is about 2^30, and MOVED is rounded up by less than a unit where a round began with fewer
classes. A round adds at most two to the distance, that is 2^31 units, as SCALE <= 2^20 and k <= 2^10, and
at most 2^21 to SPREAD. So memories bear about 2^32 rounds; with FINE = 1 and k SCALE fixed 2^62/(k SCALE).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.forecasters.binary.cells import BRIM
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.guarantees import FOREVER, MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_CLASSES, MOST_PARTS
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CLASSES,
    FINE,
    FORMAT,
    HEADER,
    HERE,
    KEY,
    KEYS,
    LABEL,
    LABELS,
    LIMIT,
    MASK,
    MOVED,
    OTHER,
    PLACE,
    POINT,
    RECORDS,
    REPORT,
    ROUNDS,
    SCALE,
    SINCE,
    SLAB,
    SLACK,
    SLOTS,
    SPREAD,
    STEP,
    STEPS,
    SUMS,
    SUPPORT,
    USED,
    WIDTH,
    capacity,
    frame_size,
    frames_of,
    part_of,
    record_size,
    rehash,
    remembered,
    units,
    vertex_at,
)

FORMAT_SIMPLEX = 3
FEWEST_RECORDS = 8
FINENESS = 1 << 30
CONSTANT = (FORMAT, CLASSES, SCALE, STEP, FINE, SLACK, WIDTH, SLOTS, REPORT)
MOST = 1 << 62


def new_memory(
    classes: int,
    scale: int,
    step: int,
    slack: float | None,
    records: int,
    growing: bool = False,
    report: int = 0,
) -> NDArray[np.int64]:
    """A memory with room for `records` points, a power of two; its cell will be near the barycentre.

    `growing` says that classes may be added later, by `rebuilt`; `report` is REPORT.
    """
    slots = frames_of(classes) + 3 * frame_size(classes)
    size = records * record_size(classes) + remembered(classes, records, report)
    memory = np.zeros(slots + 2 * records + size, np.int64)
    front = front_of(classes, scale, step, slack, growing, report)
    memory[: len(front)] = front
    memory[MASK], memory[RECORDS] = 2 * records - 1, slots + 2 * records
    return memory


@lru_cache(maxsize=256)
def front_of(
    classes: int, scale: int, step: int, slack: float | None, growing: bool, report: int
) -> NDArray[np.int64]:
    """With what such memories begin, up to the sums of their cell."""
    frames, size = frames_of(classes), frame_size(classes)
    memory = np.zeros(frames + SUMS + classes, np.int64)
    memory[[FORMAT, CLASSES, SCALE, STEP, LIMIT]] = FORMAT_SIMPLEX, classes, scale, step, FOREVER
    memory[REPORT] = report
    memory[FINE] = 1 << (max(1, FINENESS // (classes * scale)).bit_length() - 1) if growing else 1
    memory[[WIDTH, SLOTS]] = record_size(classes), frames + 3 * size
    set_slack(memory, slack)
    largest = (1 << 60) // (scale * (classes + 1))
    for c in range(classes):
        memory[HEADER + c] = pow(0x9E3779B1, c + 1, (1 << 61) - 1) % largest
    memory[[HERE, OTHER, SLAB]] = frames, frames + size, frames + 2 * size
    memory[frames + SUMS :] = scale
    memory.setflags(write=False)
    return memory


def set_slack(memory: NDArray[np.int64], slack: float | None) -> None:
    """Let labels lean so far from now on; those of the present cell stay what they are."""
    if slack is not None:
        numerator, denominator = float(slack).as_integer_ratio()
        memory[SLACK] = numerator * int(memory[SCALE]) // denominator


def rebuilt(
    memory: NDArray[np.int64],
    classes: int,
    scale: int,
    step: int,
    slack: float | None,
    growing: bool,
    report: int,
) -> NDArray[np.int64]:
    """The same run on another grid, with room for at least one point more.

    The scale may only be multiplied. Classes may only be added; the points charged so far have no weight
    on them. The distance moved is rounded up to the new unit. The cell will be near the old forecast.
    """
    records = max(FEWEST_RECORDS, 1 << int(memory[USED]).bit_length())
    new = new_memory(classes, scale, step, slack, records, growing, report)
    factor = scale // int(memory[SCALE])
    _take_totals(memory, new, factor)
    take_points(memory, new, factor)
    return new


@compiled
def take_points(memory: NDArray[np.int64], new: NDArray[np.int64], factor: int) -> None:
    """Give a memory for as many classes or more, whose units are so many times finer, points and forecast."""
    old_k, k, old_width, width = memory[CLASSES], new[CLASSES], memory[WIDTH], new[WIDTH]
    for i in range(memory[USED]):
        old, record = memory[RECORDS] + i * old_width, new[RECORDS] + i * width
        new[record + LABEL], new[record + SUPPORT] = memory[old + LABEL], memory[old + SUPPORT]
        for c in range(old_k):
            new[record + POINT + c] = memory[old + POINT + c] * factor
            new[record + POINT + k + c] = memory[old + POINT + old_k + c] * factor
    sums, target = memory[HERE] + SUMS, new[HERE] + SUMS
    for c in range(k):
        new[target + c] = memory[sums + c] * k * factor // old_k if c < old_k else 0


@compiled
def reindex(memory: NDArray[np.int64]) -> None:
    """Fill the slots of a memory whose records were put into it."""
    rehash(memory)


def divided(
    memory: NDArray[np.int64], parts: int, slack: float | None, growing: bool, report: int
) -> NDArray[np.int64]:
    """The same run, in the same cell, in units so many times finer, a power of two."""
    k, used = int(memory[CLASSES]), int(memory[USED])
    scale, step = int(memory[SCALE]) * parts, int(memory[STEP]) * parts
    new = new_memory(k, scale, step, slack, int(capacity(memory)), growing, report)
    new[LIMIT] = memory[LIMIT]
    _take_totals(memory, new, parts)
    into, multipliers = records_of(new, used), new[HEADER : HEADER + k]
    into[:] = records_of(memory)
    into[:, POINT:] *= parts
    old_frame, frame = int(memory[HERE]), int(new[HERE])
    size = frame_size(k)
    new[frame : frame + size] = memory[old_frame : old_frame + size]
    new[frame + SUMS : frame + SUMS + k] *= parts
    first, keys = int(vertex_at(new, frame, 0)), int(part_of(new, frame, KEYS))
    vertices = new[first : first + k * k].reshape(k, k)
    vertices *= parts
    new[keys : keys + k] = vertices @ multipliers
    new[frame] = new[keys : keys + k].sum()
    reindex(new)
    return new


def _take_totals(memory: NDArray[np.int64], new: NDArray[np.int64], factor: int) -> None:
    """Give a memory in units of coordinates so many times finer what another one has summed up."""
    totals, old, now = memory[ROUNDS:HEADER].tolist(), int(units(memory)), int(units(new))
    totals[REPORT - ROUNDS] = new[REPORT]
    totals[SPREAD - ROUNDS] *= factor
    totals[BASE - ROUNDS] *= factor
    if old != now:
        totals[BALANCE - ROUNDS] = totals[BALANCE - ROUNDS] * now // old
        totals[MOVED - ROUNDS] = -(-totals[MOVED - ROUNDS] * now // old)
    new[ROUNDS:HEADER] = totals


def enlarged(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same memory with room for twice as many points."""
    slots, records, used = int(memory[SLOTS]), capacity(memory) * 2, int(memory[USED])
    size = remembered(int(memory[CLASSES]), records, int(memory[REPORT]))
    new = np.zeros(slots + 2 * records + records * int(memory[WIDTH]) + size, np.int64)
    new[:slots] = memory[:slots]
    new[MASK], new[RECORDS] = 2 * records - 1, slots + 2 * records
    records_of(new, used)[:] = records_of(memory)
    reindex(new)
    return new


def records_of(memory: NDArray[np.int64], number: int | None = None) -> NDArray[np.int64]:
    """A view of the first records, of those in use, one a row: key, label, k coordinates, k biases."""
    first, width = int(memory[RECORDS]), int(memory[WIDTH])
    used = int(memory[USED]) if number is None else number
    return memory[first : first + used * width].reshape(used, width)


def certificate(memory: Any) -> float:
    """l1 distance from the forecasts to the charged points plus those points' biases, a sum."""
    # a list, since numbers that stand alone are slow to take out of an array
    head = memory[:HEADER].tolist() if isinstance(memory, np.ndarray) else memory
    return certified(head, head[MOVED], head[SPREAD])


def certified(memory: Any, moved: int, spread: int) -> float:
    """What a distance and biases in the units of the memory add up to."""
    return (moved + int(memory[CLASSES]) * int(memory[FINE]) * spread) / int(units(memory))


def most_rounds(memory: NDArray[np.int64], changing: bool) -> int:
    """How many rounds fit in all, whatever they are (see `rounds_left`)."""
    return BRIM // (2 * (FINENESS if changing else int(units(memory))) + 1)


def rounds_left(memory: NDArray[np.int64], changing: bool) -> int:
    """How many more rounds fit whatever they are; with `changing` also if the grid or the classes change."""
    head = memory[:HEADER].tolist()
    now = head[CLASSES] * head[SCALE] * head[FINE]
    finest = max(FINENESS, now) if changing else now
    moved = -(-max(head[MOVED], head[BALANCE]) * finest // now)
    by_bias = (BRIM - head[SPREAD]) >> max(22, head[SCALE].bit_length() + 1)
    return max(0, min((BRIM - moved) // (2 * finest + 1), by_bias, FOREVER - head[ROUNDS]))


def check_bears(memory: NDArray[np.int64], changing: bool, rounds: int) -> None:
    """ValueError if the integers might not bear so many more rounds; an empty memory bears them."""
    if len(memory) and rounds_left(memory, changing) < rounds:
        raise ValueError(
            f"this forecaster's integers cannot bear {rounds} more rounds after {memory[ROUNDS]}: "
            "begin a new one"
        )


def slack_at(late: int, slack: float | None, grows: bool) -> float | None:
    """The slack once so many other forecasts were open: `slack` in time, times sqrt(1 + late) if it grows."""
    return slack * math.sqrt(1.0 + late) if grows and slack is not None else slack


@lru_cache(maxsize=1024)
def most_late(k: int, scale: int, slack: float | None, grows: bool) -> int:
    """How many late labels leave the labels' products 2 k M^2 (1 + |alpha_j|) within 64 bits; -1: not even 0.

    With D labels late no alpha_j is below -c - D, and they add up to zero, so none is above (k - 1)(c + D).
    Without slack and late labels all are within (-1, 1). A slack that grows is counted as if all were late
    that there is room for.
    """
    most = (1 << 62) // (2 * k * scale * scale) - 1
    if slack is None and most < 2 * k:
        return 0
    room = max(0, most // max(1, k - 1))
    if room < (slack or 1.0):
        return -1
    return max(0, room - math.ceil(slack_at(room, slack, grows) or 1.0))


def length_of(header: list[int], classes: int) -> int:
    """How long a memory for so many classes is by its header; ValueError if it cannot have such a header."""
    require((header[FORMAT], header[CLASSES]) == (FORMAT_SIMPLEX, classes), "its classes")
    require(1 <= classes <= MOST_CLASSES, "its classes")
    slots, places = frames_of(classes) + 3 * frame_size(classes), header[MASK] + 1
    require(2 * FEWEST_RECORDS <= places <= 1 << 40 and places & header[MASK] == 0, "the size of its table")
    require(header[RECORDS] == slots + places, "the size of its table")
    records = places // 2
    return slots + places + records * record_size(classes) + remembered(classes, records, header[REPORT])


def check_memory(
    memory: Any,
    classes: int,
    n_cells: int | None,
    horizon: int | None,
    slack: float | None,
    fixed: bool,
    report: int,
    parts: int = 1,
) -> None:
    """ValueError unless a `SimplexRun` of these parameters can play on a memory that came from outside.

    The walks of `walk` end because every label belongs to a class of weight above zero and a vertex has the
    label that its record says; a label is found because the biases of a point add up to zero. This is looked
    at here, besides all places that the header names. The slots are filled anew. See `binary.soundness`.
    """
    require(isinstance(memory, np.ndarray) and memory.dtype == np.int64 and memory.ndim == 1, "its type")
    require(len(memory) > HEADER, "its length")
    head: list[int] = memory[:HEADER].tolist()
    require(len(memory) == length_of(head, classes), "its length")
    require(type(parts) is int and 1 <= parts <= MOST_PARTS and parts & (parts - 1) == 0, "its parts")
    require(head[SCALE] % parts == head[STEP] % parts == 0 and head[SCALE] > 0, "its parts")
    _check_grid(head[SCALE] // parts, head[STEP] // parts, head[LIMIT], n_cells, horizon, fixed)
    like = new_memory(classes, head[SCALE], head[STEP], slack, 1, not fixed or report > 0, report)
    require(all(head[place] == like[place] for place in CONSTANT), "what its configuration says")
    keys = slice(HEADER, HEADER + classes)
    require(bool((memory[keys] == like[keys]).all()), "its keys")
    frames, size = frames_of(classes), frame_size(classes)
    require({head[HERE], head[OTHER]} == {frames, frames + size}, "its frames")
    require(head[SLAB] == frames + 2 * size, "its frames")
    require(0 <= head[ROUNDS] <= head[LIMIT] <= FOREVER and 0 <= head[MOVED] < MOST, "its rounds")
    require(0 <= head[USED] <= (head[MASK] + 1) // 2, "the size of its table")
    _check_records(memory, head, parts)
    memory[head[SLOTS] : head[RECORDS]] = 0
    reindex(memory)
    _check_frame(memory, head)
    _check_regions(memory, head)


def _check_grid(
    scale: int, step: int, limit: int, n_cells: int | None, horizon: int | None, fixed: bool
) -> None:
    """Whether the machine can go on from this grid to the next ones."""
    require(1 <= step <= scale <= MOST_CELLS and scale % step == 0, "its grid")
    if n_cells is not None:
        require((scale, step) == (n_cells, 1), "its grid")
    elif horizon is not None and fixed:
        require(step == 1, "its grid")
    else:
        require(scale & (scale - 1) == 0 and step & (step - 1) == 0, "its grid")
    if n_cells is not None or horizon is not None:
        require(limit == FOREVER, "its grid")


def check_tuning(memory: NDArray[np.int64], tuned: bool) -> None:
    """ValueError unless the account of a grid that tunes itself, or of one that does not, can be this."""
    scale, step, base, balance = memory[[SCALE, STEP, BASE, BALANCE]].tolist()
    if not tuned:
        require((base, balance) == (0, 0), "its account")
    else:
        require(step <= base <= scale and scale % base == 0 and base & (base - 1) == 0, "its account")
        require(-MOST < balance < MOST, "its account")


def _check_records(memory: NDArray[np.int64], head: list[int], parts: int) -> None:
    k, scale, used = head[CLASSES], head[SCALE], head[USED]
    table = records_of(memory, (head[MASK] + 1) // 2)
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


def _check_frame(memory: NDArray[np.int64], head: list[int]) -> None:
    """Whether the current cell is one, with all labels, each that of its vertex."""
    k, unit, frame = head[CLASSES], head[STEP], head[HERE]
    places = (part_of(memory, frame, part) for part in (STEPS, LABELS, KEYS))
    steps, labels, keys = (memory[place : place + k] for place in places)
    first = vertex_at(memory, frame, 0)
    points = memory[first : first + k * k].reshape(k, k)
    everything = np.arange(k)
    require(bool((np.sort(steps) == everything).all() and (np.sort(labels) == everything).all()), "its cell")
    require(bool(((points >= 0) & (points <= head[SCALE]) & (points % unit == 0)).all()), "its cell")
    require(bool((points.sum(axis=1) == head[SCALE]).all()), "its cell")
    moves = np.zeros((k, k), np.int64)
    moves[everything, steps] -= unit
    moves[everything, (steps + 1) % k] += unit
    require(bool((np.roll(points, -1, axis=0) - points == moves).all()), "its cell")
    require(bool((memory[frame + SUMS : frame + SUMS + k] == points.sum(axis=0)).all()), "its cell")
    require(bool((keys == points @ memory[HEADER : HEADER + k]).all()), "its cell")
    require(int(memory[frame]) == int(keys.sum()), "its cell")
    rows = records_of(memory)
    for point, key, label in zip(points, keys, labels.tolist(), strict=True):
        found = rows[rows[:, KEY] == key]
        found = found[(found[:, POINT : POINT + k] == point).all(axis=1)]
        # of classes that weigh the same, the last
        heaviest = k - 1 - int(np.argmax(point[::-1]))
        require(label == (int(found[0, LABEL]) if len(found) else heaviest), "its labels")


def _check_regions(memory: NDArray[np.int64], head: list[int]) -> None:
    """Whether what is remembered of regions are places in the simplex."""
    k, records = head[CLASSES], (head[MASK] + 1) // 2
    rows = memory[head[RECORDS] + records * head[WIDTH] :].reshape(-1, PLACE + 2 * k)
    sums = rows[:, PLACE:].reshape(-1, k)
    require(bool((rows[:, SINCE:PLACE] >= 0).all() and (sums >= 0).all()), "its regions")
    require(bool((sums <= k * head[SCALE]).all()), "its regions")
    # nothing has begun yet where a region was walked to in the last round
    totals = sums.sum(axis=1)
    require(bool(((totals == 0) | (totals == k * head[SCALE])).all()), "its regions")
