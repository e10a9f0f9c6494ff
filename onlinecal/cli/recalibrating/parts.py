"""Which rows are fitted and which are tested, and what is warned of meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from onlinecal.cli.recalibrating.options import Rows
from onlinecal.remarks import LabelWarning
from onlinecal.validation import check_open_unit

Ints = NDArray[np.int64]

LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""


def fitted_rows(n_rows: int, rows: Rows) -> tuple[Ints, Ints]:
    """Row numbers to fit, and those to test: none where a new file is recalibrated."""
    if rows.apply is None:
        return split_rows(n_rows, rows.share, rows.seed)
    if n_rows < LEAST_ROWS:
        raise ValueError(f"{n_rows} rows are too few to fit: {LEAST_ROWS} are needed")
    return np.arange(n_rows), np.arange(0)


def split_rows(n_rows: int, test_share: float, seed: int) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by a random permutation; the tested ones are the last of it.

    (scikit-learn's train_test_split would deal other rows for the same seed, and so change every report.)
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


@contextmanager
def gathered_warnings() -> Iterator[list[str]]:
    """What is warned of inside, each text once, but for labels: the command names their column itself."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", LabelWarning)
        yield texts
    texts.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
