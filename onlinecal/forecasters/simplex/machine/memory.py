"""How a memory of the simplex machine is made, grows and changes its grid, and how many rounds it bears.

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
from onlinecal.forecasters.simplex.guarantees import FOREVER
from onlinecal.forecasters.simplex.machine.table import (
    BALANCE,
    BASE,
    CLASSES,
    FINE,
    FORMAT,
    HEADER,
    HERE,
    KEYS,
    LABEL,
    LIMIT,
    MASK,
    MOVED,
    OTHER,
    POINT,
    RECORDS,
    REPORT,
    ROUNDS,
    SCALE,
    SLAB,
    SLACK,
    SLOTS,
    SPREAD,
    STEP,
    SUMS,
    SUPPORT,
    USED,
    WIDTH,
    capacity,
    frame_size,
    frames_of,
    part_of,
    record_size,
    remembered,
    units,
    vertex_at,
)

FORMAT_SIMPLEX = 3
FEWEST_RECORDS = 8
FINENESS = 1 << 30


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


def divided(
    memory: NDArray[np.int64], parts: int, slack: float | None, growing: bool, report: int
) -> NDArray[np.int64]:
    """The same run, in the same cell, in units so many times finer, a power of two: `rehash` must follow."""
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
    """The same memory with room for twice as many points and empty slots: `rehash` must follow."""
    slots, records, used = int(memory[SLOTS]), capacity(memory) * 2, int(memory[USED])
    size = remembered(int(memory[CLASSES]), records, int(memory[REPORT]))
    new = np.zeros(slots + 2 * records + records * int(memory[WIDTH]) + size, np.int64)
    new[:slots] = memory[:slots]
    new[MASK], new[RECORDS] = 2 * records - 1, slots + 2 * records
    records_of(new, used)[:] = records_of(memory)
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
