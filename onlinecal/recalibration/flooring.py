"""No probability is 0: what was fitted is mixed with the uniform distribution, at the weight of one row.

n rows cannot tell a probability of 0 from one of 1/n, and an outcome that was given 0 has an infinite log
loss. (n p + u)/(n + 1) with u = 1/C for each of C classes is what an average over n rows becomes when one row
with every class in equal parts joins them. It keeps the order of the classes and moves a row by at most
sqrt(1 - 1/C)/(n + 1) in l2.
"""

from __future__ import annotations

from onlinecal.measures.fixed_order import Floats
from onlinecal.recalibration.simplex_projection import project_rows


def least_probability(n_rows: float, n_classes: int) -> float:
    """1/(C (n + 1)): what a probability of 0 becomes."""
    return 1.0 / (n_classes * (n_rows + 1.0))


def floored(table: Floats, least: float) -> Floats:
    """Probabilities (n, C) mixed with the uniform distribution so that 0 becomes `least`; 0 changes none."""
    if least == 0.0:
        return table
    return (1.0 - table.shape[1] * least) * table + least


def kept_part(corrected: Floats, start: Floats, part: float) -> Floats:
    """Rows (n, C) of which no class has less than this part of what the start gives it, the nearest such.

    A row that has less somewhere is projected, not on the simplex, but on what is above `part` times the
    start: start + (1 - part) (simplex - start), so the nearest point is found by projecting on the simplex.
    Any other row stays as it is. It is at most as far from (1 - part) y + part start as it was, y any corner.
    """
    low = (corrected < part * start).any(axis=1)
    if not low.any():
        return corrected
    out = corrected.copy()
    base = start[low]
    inner = project_rows(base + (corrected[low] - base) / (1.0 - part))
    out[low] = part * base + (1.0 - part) * inner
    return out
