"""Which rows are held out to say when to stop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import check_number


def held_out_rows(n_rows: int, fraction: Any, seed: int) -> NDArray[np.bool_]:
    """True for a random share of the rows, shape (n_rows,); the others are at least one.

    Raises ValueError for a fraction outside [0, 1), or one that leaves no row to fit.
    """
    check_number(fraction, "validation_fraction", 0.0, 1.0, "[)", "a number in [0, 1)")
    number = round(fraction * n_rows)
    if number == n_rows:
        raise ValueError(f"validation_fraction={fraction} leaves none of {n_rows} rows")
    held = np.zeros(n_rows, bool)
    held[np.random.default_rng(seed).permutation(n_rows)[:number]] = True
    return held
