"""No probability is 0: what was fitted is mixed with the uniform distribution, at the weight of one row.

n rows cannot tell a probability of 0 from one of 1/n, and an outcome that was given 0 has an infinite log
loss. (n p + u)/(n + 1) with u = 1/C for each of C classes is what an average over n rows becomes when one row
with every class in equal parts joins them. It keeps the order of the classes and moves a row by at most
sqrt(1 - 1/C)/(n + 1) in l2.
"""

from __future__ import annotations

from onlinecal.measures.fixed_order import Floats


def least_probability(n_rows: float, n_classes: int) -> float:
    """1/(C (n + 1)): what a probability of 0 becomes."""
    return 1.0 / (n_classes * (n_rows + 1.0))


def floored(table: Floats, least: float) -> Floats:
    """Probabilities (n, C) mixed with the uniform distribution so that 0 becomes `least`; 0 changes none."""
    if least == 0.0:
        return table
    return (1.0 - table.shape[1] * least) * table + least
