"""Compiled entry points of the simplex machine for soft labels: one round, or a whole stream, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.compiling.borrowed import borrowed
from onlinecal.forecasters.simplex.machine import rules, soft


class SoftMachine(NamedTuple):
    """The entry points, as those of `SimplexMachine`; outcomes are weights that add up to `parts`.

    settle(memory, table, points, distances, weights, parts, way, rounded) -> bool: `soft.settle_parts`;
    False, and nothing changed, if there is no room.
    replay(memory, table, weights, rounded, parts, hints, forecasts, start) -> rounds done: weights of shape
    (T, k), and how far each true outcome is from them, (T,).
    """

    settle: Callable[..., bool]
    replay: Callable[..., int]


def compile_soft() -> SoftMachine:
    """The entry points; each is compiled, or loaded from the cache, at its first call."""
    has_room, lay_out, settle_parts = soft.has_room_for_parts, soft.lay_out, soft.settle_parts
    announce = rules.announce

    @compiled
    def settle(
        memory: Ints,
        table: Ints,
        points: Ints,
        distances: Ints,
        weights: Ints,
        parts: int,
        way: int,
        rounded: float,
    ) -> bool:
        if not has_room(memory, table):
            return False
        numbers = np.empty(len(weights), np.int64)
        settle_parts(memory, table, points, distances, weights, parts, way, rounded, numbers)
        return True

    @compiled
    def replay(
        memory: Ints,
        table: Ints,
        weights: Ints,
        rounded: Floats,
        parts: int,
        hints: Floats,
        forecasts: Floats,
        start: int,
    ) -> int:
        memory, forecasts = borrowed(memory), borrowed(forecasts)
        weights, hints = borrowed(weights), borrowed(hints)
        k, hinted = weights.shape[1], len(hints) > 0
        points, distances, none = np.empty(k * k + k, np.int64), np.empty(k + 1, np.int64), np.empty(0)
        numbers, table = np.empty(k, np.int64), borrowed(table)
        for t in range(start, len(weights)):
            if not has_room(memory, table):
                return t
            frame = announce(memory, hints[t] if hinted else none, forecasts[t])
            way = lay_out(memory, frame, forecasts[t], weights[t], parts, points, distances)
            row = weights[t]
            settle_parts(memory, table, points, distances, row, parts, way, rounded[t], numbers)
        return len(weights)

    return SoftMachine(settle, replay)


SOFT_MACHINE = compile_soft()
"""Of memories whose scale is a multiple of the parts; the array of forecasts may have more columns."""
