"""A map of class probabilities that looks level sets up in a hash table, compiled."""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.lp.level_sets import allowance, fill_levels, hash_of_levels, same_levels
from onlinecal.recalibration.simplex_projection import project


class LevelSetMap:
    """What becomes of probabilities, by level set.

    Parameters
    ----------
    levels
        Levels of the known level sets, shape (B, k).
    values
        One row per known level set, shape (B, k).
    n_levels
        Levels in [0, 1).
    shift
        False: a row in a known level set becomes that level set's value, any other becomes rho of its
        level set. True: the value is added and the sum projected on the simplex; any other row is kept.
    least
        What a probability of 0 becomes in a row that is shifted; see `onlinecal.recalibration.flooring`.
    """

    # maps pickled before there was a floor
    least = 0.0

    def __init__(self, levels: Ints, values: Floats, n_levels: int, shift: bool, least: float = 0.0) -> None:
        self.least = least
        self.levels = levels
        self.values = values
        self.n_levels = n_levels
        self.shift = shift
        self.slots = _table_of(levels)

    def __call__(self, table: Floats) -> Floats:
        """The mapped rows, shape (n, k)."""
        out = np.empty_like(table)
        slack = allowance(self.n_levels, table.shape[1])
        _apply(table, self.levels, self.values, self.slots, self.n_levels, slack, self.shift, self.least, out)
        return out


@compiled
def _table_of(levels: Ints) -> Ints:
    """Open addressing: the number of a level set at its slot, -1 elsewhere."""
    size = 2
    while size < 2 * levels.shape[0]:
        size *= 2
    slots = np.empty(size, dtype=np.int64)
    for i in range(size):
        slots[i] = -1
    mask = np.uint64(size - 1)
    for b in range(levels.shape[0]):
        slot = hash_of_levels(levels[b]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = b
    return slots


@compiled
def _apply(
    table: Floats,
    levels: Ints,
    values: Floats,
    slots: Ints,
    n_levels: int,
    slack: float,
    shift: bool,
    least: float,
    out: Floats,
) -> None:
    n, k = table.shape
    mine = np.empty(k, dtype=np.int64)
    moved = np.empty(k)
    mask = np.uint64(slots.shape[0] - 1)
    for i in range(n):
        slot = fill_levels(table[i], n_levels, slack, mine) & mask
        found = slots[slot]
        while found >= 0 and not same_levels(levels[found], mine):
            slot = (slot + np.uint64(1)) & mask
            found = slots[slot]
        if shift:
            if found >= 0:
                for j in range(k):
                    moved[j] = table[i, j] + values[found, j]
                project(moved, out[i])
                for j in range(k):
                    out[i, j] = (1.0 - k * least) * out[i, j] + least
            else:
                for j in range(k):
                    out[i, j] = table[i, j]
        elif found >= 0:
            for j in range(k):
                out[i, j] = values[found, j]
        else:
            total = 0
            for j in range(k):
                total += mine[j]
            # as `rho`
            spare = (n_levels - total) / (n_levels * k) if total <= n_levels else 0.0
            whole = max(n_levels, total)
            for j in range(k):
                out[i, j] = mine[j] / whole + spare
