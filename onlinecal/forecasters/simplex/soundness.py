"""Whether the simplex machine can play on a memory that came from outside (see `binary.soundness`).

The walks of `walk` end because every label belongs to a class of weight above zero and a vertex has
the label that its record says; a label is found because the biases of a point add up to zero. This is looked
at here, besides all places that the header names. The slots are filled anew.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.simplex.account import Cell
from onlinecal.forecasters.simplex.guarantees import FOREVER, MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_CLASSES
from onlinecal.forecasters.simplex.machine.cells import CELL_SCALE, CELL_STEP, FIRST, cell_size
from onlinecal.forecasters.simplex.machine.compiled import MACHINE
from onlinecal.forecasters.simplex.machine.memory import (
    FEWEST_RECORDS,
    FORMAT_SIMPLEX,
    new_memory,
    records_of,
)
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
    STEP,
    STEPS,
    SUMS,
    SUPPORT,
    USED,
    WIDTH,
    frame_size,
    frames_of,
    part_of,
    record_size,
    remembered,
    vertex_at,
)
from onlinecal.forecasters.simplex.soft_labels import MOST_PARTS

CONSTANT = (FORMAT, CLASSES, SCALE, STEP, FINE, SLACK, WIDTH, SLOTS, REPORT)
MOST = 1 << 62


def length_of(header: list[int], classes: int) -> int:
    """How long a memory for so many classes is by its header; ValueError if it cannot have such a header."""
    require((header[FORMAT], header[CLASSES]) == (FORMAT_SIMPLEX, classes), "its classes")
    require(1 <= classes <= MOST_CLASSES, "its classes")
    slots, places = frames_of(classes) + 3 * frame_size(classes), header[MASK] + 1
    require(2 * FEWEST_RECORDS <= places <= 1 << 40 and places & header[MASK] == 0, "the size of its table")
    require(header[RECORDS] == slots + places, "the size of its table")
    records = places // 2
    return slots + places + records * record_size(classes) + remembered(classes, records, header[REPORT])


def check_simplex_memory(
    memory: Any,
    classes: int,
    n_cells: int | None,
    horizon: int | None,
    slack: float | None,
    fixed: bool,
    report: int,
    parts: int = 1,
) -> None:
    """ValueError unless a `SimplexRun` of these parameters can play on the memory."""
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
    MACHINE.reindex(memory)
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


def check_account(
    past: Fraction, since: int, newcomers: int, grids: list[tuple[int, int]], rounds: int
) -> None:
    """ValueError unless a run can have this account (see `SimplexRun.promise`)."""
    require(past >= 0 and 0 <= since <= rounds + 1 and 0 <= newcomers <= MOST_CLASSES, "its account")
    # one for each class, and one for the first late label
    require(len(grids) <= newcomers + 1, "its account")
    for k, m in grids:
        require(1 <= k <= MOST_CLASSES and 1 <= m <= MOST_CELLS, "its account")


def check_simplex_cell(data: Any, forecasts: list[Any], memory: NDArray[np.int64]) -> None:
    """ValueError unless a round that was announced in the cell of these bytes can be settled."""
    known, what = len(forecasts), "the cell of a forecast"
    require(1 <= known <= int(memory[CLASSES]) and isinstance(data, bytes), what)
    require(len(data) == 4 * cell_size(known), what)
    cell = Cell(data)
    scale, step = cell.numbers[[CELL_SCALE, CELL_STEP]].tolist()
    losers, labels = np.split(cell.numbers[FIRST + known :], [known - 1])
    require(scale > 0 and int(memory[SCALE]) % scale == 0 and 0 < step <= scale, what)
    require(bool((np.sort(labels) == np.arange(known)).all()), what)
    require(bool(((losers >= 0) & (losers < known)).all()), what)
    vertices = cell.vertices
    require(bool((vertices >= 0).all() and (vertices.sum(axis=1) == scale).all()), what)
    require(bool((vertices.diagonal() > 0).all()), what)
    require(all(type(p) is float and 0.0 <= p <= 1.0 for p in forecasts), "a forecast")
