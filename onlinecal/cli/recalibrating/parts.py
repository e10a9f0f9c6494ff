"""Which rows are fitted and which are tested."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.validation import check_open_unit

Ints = NDArray[np.int64]

LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""


def split_rows(n_rows: int, test_share: float, seed: int) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by a random permutation; the tested ones are the last of it.

    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    check_open_unit(test_share, "--test-share")
    n_fit, n_test = part_sizes(n_rows, test_share)
    if min(n_fit, n_test) < LEAST_ROWS:
        raise ValueError(
            f"{n_rows} rows are too few: {n_fit} to fit and {n_test} to test, "
            f"and each part needs {LEAST_ROWS}"
        )
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_fit], order[n_fit:]


def part_sizes(n_rows: int, test_share: float) -> tuple[int, int]:
    """How many rows are fitted, and how many tested."""
    n_test = round(test_share * n_rows)
    return n_rows - n_test, n_test
