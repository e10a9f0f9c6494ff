"""Whole tables projected on the simplex, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled
from onlinecal.recalibration.lp.kernels import project

Floats = NDArray[np.float64]


def project_rows(table: Floats) -> Floats:
    """Each row's nearest point of the simplex in l2, shape (n, k)."""
    out = np.empty(table.shape)
    _project_rows(np.ascontiguousarray(table), out)
    return out


@compiled
def _project_rows(table: Floats, out: Floats) -> None:
    for row in range(table.shape[0]):
        project(table[row], out[row])
