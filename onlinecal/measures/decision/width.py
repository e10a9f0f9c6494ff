"""How far a decision calibration error that was measured can be from the source's."""

from __future__ import annotations

import math

from onlinecal.validation import check_count, check_open_unit


def confidence_width(
    n_rows: int,
    n_actions: int,
    n_classes: int,
    delta: float = 0.05,
    n_losses: int | None = None,
) -> float:
    """How far an error measured on n rows can be from the source's, with probability 1 - delta.

    For all losses with K actions, Theorem 2.1 with its constants: each of the K regions is an intersection of
    K half-spaces, of dimension at most d = 2 K (C + 1) log2(3K), so its bias is off by at most
    sqrt(C) (2 sqrt(2 (ln 2 + d ln(e n / d)) / n) + sqrt(2 ln(C / delta) / n)) in l2. For a list of losses,
    Hoeffding's inequality: sqrt(4 ln(2 n_losses / delta) / n). At most sqrt(2), the largest error there is.

    Parameters
    ----------
    n_rows, n_actions, n_classes
        n, K and C.
    delta
        How often the width may fail, between 0 and 1.
    n_losses
        None: all losses with K actions. Else the length of a list of losses, for their own gaps.

    Raises
    ------
    ValueError
        A number out of range.
    """
    n = check_count(n_rows, "n_rows")
    check_count(n_actions, "n_actions")
    check_count(n_classes, "n_classes")
    check_open_unit(delta, "delta")
    if n_losses is not None:
        count = check_count(n_losses, "n_losses")
        return min(math.sqrt(2.0), math.sqrt(4.0 * math.log(2.0 * count / delta) / n))
    dimension = 2.0 * n_actions * (n_classes + 1) * math.log2(3.0 * n_actions)
    patterns = dimension * math.log(math.e * n / dimension) if n > dimension else n * math.log(2.0)
    complexity = math.sqrt(2.0 * (math.log(2.0) + patterns) / n)
    chance = math.sqrt(2.0 * math.log(n_classes / delta) / n)
    return min(math.sqrt(2.0), n_actions * math.sqrt(n_classes) * (2.0 * complexity + chance))
