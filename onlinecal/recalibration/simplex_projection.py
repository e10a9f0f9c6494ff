"""The point of the simplex nearest to a row, and to every row of a table."""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part


@kernel_part
def project(z: Floats, out: Floats) -> None:
    """pi: the point of the simplex nearest to z in l2, into `out` (Michelot's shrinking support)."""
    k = z.shape[0]
    count = k
    sum_of_all = 0.0
    for j in range(k):
        sum_of_all += z[j]
    shift = (sum_of_all - 1.0) / k
    while True:
        kept = 0
        total = 0.0
        for j in range(k):
            if z[j] > shift:
                kept += 1
                total += z[j]
        # rounding may let a point back in: the support only ever shrinks
        if kept >= count or kept == 0:
            break
        count = kept
        shift = (total - 1.0) / kept
    for j in range(k):
        out[j] = max(z[j] - shift, 0.0)


def project_rows(table: Floats) -> Floats:
    """Each row's nearest point of the simplex in l2, shape (n, k)."""
    out = np.empty(table.shape)
    _project_rows(np.ascontiguousarray(table), out)
    return out


@compiled
def _project_rows(table: Floats, out: Floats) -> None:
    for row in range(table.shape[0]):
        project(table[row], out[row])
