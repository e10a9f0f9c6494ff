"""Every outcome sequence of a short game, walked as a tree: what is common to sequences is played once.

The node of a sequence is the binary number that it spells behind a leading 1, so the two continuations of
node i are 2i and 2i + 1, and the games of t rounds are the nodes from 2^t up to 2^(t+1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules
from onlinecal.measures.distance.exact.lattice import primitive_steps, shortest_paths


class Steps(NamedTuple):
    """The primitive steps of every small lattice, one table after the other.

    The lattice of n0 zeros and n1 ones has rows[begins[n0, n1] : ends[n0, n1]].
    """

    rows: Ints
    begins: Ints
    ends: Ints


@cache
def steps_up_to(rounds: int) -> Steps:
    """The steps of all lattices of at most so many rounds."""
    rows, begins, ends = [], np.zeros((2, rounds + 1, rounds + 1), np.int64), 0
    for zeros in range(rounds + 1):
        for ones in range(rounds + 1 - zeros):
            table = primitive_steps(zeros, ones)
            begins[:, zeros, ones] = ends, ends + len(table)
            ends += len(table)
            rows.append(table)
    return Steps(np.concatenate(rows), begins[0], begins[1])


@kernel_part
def small_distance(forecasts: Floats, outcomes: NDArray[np.uint8], steps: Steps) -> float:
    """The exact distance to calibration of a short game, a sum; forecasts and outcomes of shape (T,)."""
    sorted_rounds = np.sort(forecasts[outcomes == 0]), np.sort(forecasts[outcomes == 1])
    n0, n1 = len(sorted_rounds[0]), len(sorted_rounds[1])
    rows = steps.rows[steps.begins[n0, n1] : steps.ends[n0, n1]]
    last_step = np.full((n0 + 1, n1 + 1), -1, np.int32)
    return float(shortest_paths(sorted_rounds[0], sorted_rounds[1], rows, last_step)[n0, n1])


@kernel_part
def small_ece(forecasts: Floats, outcomes: NDArray[np.uint8]) -> float:
    """The expected calibration error of a short game by exact forecast, a sum."""
    order = np.argsort(forecasts, kind="mergesort")
    total, bias, value = 0.0, 0.0, -1.0
    for place in order:
        if forecasts[place] != value:
            total, bias, value = total + abs(bias), 0.0, forecasts[place]
        bias += value - outcomes[place]
    return total + abs(bias)


@cache
def tree_walk(rules: Rules) -> Callable[..., bool]:
    """walk(memory, peeks, prefix, rounds, draws, by_ece, steps, sums) -> whether the memory had room.

    Adds to sums[i] the error of node i, counted from the prefix as node 1, for all continuations up to so
    many rounds in all: sums (2^(rounds - len(prefix) + 1),). The nodes 0 and 1 are left alone. Draws are one
    a round, or none. Of a forecaster that peeks, what it is charged for is measured.
    """
    has_room, announce, settle, point = rules.has_room, rules.announce, rules.settle, rules.point

    @compiled
    def walk(
        memory: NDArray[Any],
        peeks: bool,
        prefix: NDArray[np.uint8],
        rounds: int,
        draws: NDArray[np.float64],
        by_ece: bool,
        steps: Steps,
        sums: NDArray[np.float64],
    ) -> bool:
        drawn, start = len(draws) > 0, len(prefix)
        memories = np.empty((rounds + 1, len(memory)), memory.dtype)
        memories[0] = memory
        first, second = np.zeros(rounds, np.int64), np.zeros(rounds, np.int64)
        announced, measured = np.empty(rounds), np.empty(rounds)
        outcomes = np.empty(rounds, np.uint8)
        below = rounds - start
        level = 0
        for leaf in range(1 << below):
            # what this leaf shares with the one before it is played already
            if leaf > 0:
                level = rounds - 1
                shifted = leaf
                while shifted & 1 == 0:
                    shifted >>= 1
                    level -= 1
            for t in range(level, rounds):
                outcome = np.int64(prefix[t]) if t < start else (leaf >> (rounds - 1 - t)) & 1
                if t < start or outcome == 0:
                    if not has_room(memories[t]):
                        return False
                    u = draws[t] if drawn else 0.0
                    first[t], second[t], announced[t], _ = announce(memories[t], NO_HINT, u)
                memories[t + 1] = memories[t]
                here = memories[t + 1]
                measured[t] = announced[t]
                if peeks:
                    measured[t] = point(here, first[t], second[t], outcome, announced[t])
                settle(here, first[t], second[t], outcome, announced[t])
                outcomes[t] = outcome
                if t >= start:
                    node = (1 << (t + 1 - start)) | (leaf >> (rounds - 1 - t))
                    if by_ece:
                        sums[node] += small_ece(measured[: t + 1], outcomes[: t + 1])
                    else:
                        sums[node] += small_distance(measured[: t + 1], outcomes[: t + 1], steps)
        return True

    return walk
