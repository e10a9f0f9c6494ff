"""Rounds of a run whose outcomes are soft labels, and what a run must be to take them.

A run is made ready by its first soft label: the units of its memory become finer, by a factor `parts`, and
nothing else changes. From then on the guarantee is that by the formula, and counts what rounding may cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.forecasters.simplex.account import NEWCOMER, Cell
from onlinecal.forecasters.simplex.input import over_known
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine.compiled import SOFT_MACHINE
from onlinecal.forecasters.simplex.machine.rules import from_barycentre, from_report
from onlinecal.forecasters.simplex.machine.soft import IN_PARTS, has_room_for_parts, way_of
from onlinecal.forecasters.simplex.machine.table import SCALE, units
from onlinecal.forecasters.simplex.replaying import replay_until
from onlinecal.forecasters.simplex.soft_labels import (
    Soft,
    SoftTable,
    certain,
    weights_of,
)
from onlinecal.forecasters.simplex.tuning import spare

if TYPE_CHECKING:
    from onlinecal.forecasters.simplex.run import SimplexRun


def learn_soft(run: SimplexRun, outcome: Soft) -> None:
    """Settle the round that `current` answers."""
    number = certain(outcome.vector)
    if outcome.newcomers or not run.numbers:
        observe_soft(run, *run.announce(np.empty(0)), outcome)
    elif number is not None:
        run.advance(number)
    else:
        play_soft(run, outcome.vector[None], np.empty((0, 0)), np.empty((1, len(outcome.vector))))


def observe_soft(run: SimplexRun, cell: Cell | None, vector: Sequence[float], outcome: Soft) -> None:
    """Settle what `announce` answered with a soft label, which may have classes never met before."""
    number = certain(outcome.vector)
    if number is not None:
        run.observe(cell, tuple(vector), [*run.numbers, *outcome.newcomers][number])
        return
    if outcome.newcomers:
        run.check_bears_classes(len(outcome.vector))
    run.divide(len(outcome.vector))
    run.meet(outcome.newcomers)
    settle_soft(run, cell, vector, outcome.vector)


def settle_soft(run: SimplexRun, cell: Cell | None, vector: Sequence[float], outcome: Floats) -> None:
    """Charge a round that was announced in that cell with a distribution over the known classes."""
    weights, rounded = weights_of(outcome, run.parts)
    _grow(run)
    memory, known, k = run.memory, 0 if cell is None else len(vector), len(run.numbers)
    scale = int(memory[SCALE])
    # classes that the forecast did not know have their corners
    points, distances = np.zeros((k + 1, k), np.int64), np.full(k + 1, NEWCOMER * units(memory))
    np.fill_diagonal(points, scale)
    points[k] = weights * (scale // run.parts)
    way = IN_PARTS
    if cell is not None:
        points[:known, :known] = cell.vertices * (scale // cell.scale)
        sums = points[:known, :known].sum(axis=0).tolist()
        rows = points[:, :known].tolist()
        if known == k:
            firsts = points[:k, 0]
            way = way_of(sums, 0, k, int(firsts.max() - firsts.min()), points.ravel().tolist())
        for j in [*range(known), k]:
            distances[j] = _away(run, rows[j], sums, tuple(vector))
    if run.tuned and weights[known:].any():
        away = -(-int(weights @ distances[:k]) // run.parts) + ceil(rounded * units(memory))
        spare(memory, away)
    SOFT_MACHINE.settle(memory, run.table, points.ravel(), distances, weights, run.parts, way, float(rounded))


def _away(run: SimplexRun, point: list[int], sums: list[int], vector: tuple[float, ...]) -> int:
    """How far a point is from a forecast, in units of MOVED, rounded up; both over the classes then known."""
    memory, known = run.memory, len(vector)
    if run.follows:
        return from_report(memory, point, 0, memory[SCALE], vector, known)
    distance = from_barycentre(point, 0, sums, 0, known)
    return -(-distance * int(units(memory)) // (known * int(memory[SCALE])))


def replayed_soft(run: SimplexRun, outcomes: SoftTable, hints: Floats) -> Floats:
    """Play soft labels with hints (T, k) or none, k being the classes that are known at the end."""
    vectors = outcomes.vectors
    memories.check_bears(run.memory, run.changing, len(vectors))
    forecasts = np.zeros(vectors.shape)
    begin = max(outcomes.newcomers, default=-1) + 1
    for t in range(begin):
        known = len(run.numbers)
        guide = over_known(hints[t, :known]) if len(hints) and known else np.empty(0)
        cell, vector = run.announce(guide)
        forecasts[t, :known] = vector
        observe_soft(run, cell, vector, outcomes.row(t, known))
    play_soft(run, vectors[begin:], hints[begin:], forecasts[begin:])
    return forecasts


def play_soft(run: SimplexRun, vectors: Floats, hints: Floats, forecasts: Floats) -> None:
    """Play soft labels (T, k) over the known classes with hints (T, k) or none; fills in the forecasts."""
    mixed = np.flatnonzero(vectors.max(axis=1) < 1.0)
    # the units change with the first round that needs it, as they do round by round
    begin = 0 if run.notes_parts else int(mixed[0]) if len(mixed) else len(vectors)
    no_points = np.zeros((0, 0))
    replay_until(run, begin, 0, vectors.argmax(axis=1), hints, forecasts, no_points)
    if begin < len(vectors):
        if run.parts == 1:
            # announced before the units change, as round by round
            cell, vector = run.announce(hints[begin] if len(hints) else np.empty(0))
            forecasts[begin] = vector
            run.divide(len(run.numbers))
            settle_soft(run, cell, vector, vectors[begin])
            begin += 1
        weights, rounded = weights_of(vectors, run.parts)
        done = begin
        while done < len(vectors):
            _grow(run)
            done = SOFT_MACHINE.replay(
                run.memory, run.table, weights, rounded, run.parts, hints, forecasts, done
            )


def _grow(run: SimplexRun) -> None:
    """Go on to the next grid if that is due, and let the table grow until a point for each class fits."""
    run.grow()
    while not has_room_for_parts(run.memory, run.table, run.parts):
        run.enlarge()
