"""Which rows are fitted and which are tested, and what is warned of meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from onlinecal.arrays import Ints
from onlinecal.cli.recalibrating.options import Rows
from onlinecal.remarks import LabelWarning
from onlinecal.rounds import is_missing
from onlinecal.tables import is_pipe, read_frame
from onlinecal.validation import check_open_unit

LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""
RANDOM, TIME = "random", "time"
FIT_WORDS = ("fit", "train", "training", "cal", "calib", "calibration", "val", "valid", "validation", "dev")
TEST_WORDS = ("test", "testing", "held", "held-out", "heldout", "holdout", "eval", "evaluation")
"""What the column of --split may say of a row, in any case."""


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers to fit and to test, once or in turn, and which rows belong together.

    Attributes
    ----------
    folds
        Pairs of row numbers, fitted and tested; no row is tested twice.
    together
        Of each row of the file the number of its value in the column of --split-by; None: every row for
        itself.
    told
        The split in words.
    """

    folds: list[tuple[Ints, Ints]]
    together: Ints | None
    told: str


def fitted_rows(n_rows: int, rows: Rows, file: Path) -> tuple[Ints, Ints]:
    """Row numbers to fit, and those to test: none where a new file is recalibrated."""
    if rows.apply is None:
        return read_split(n_rows, rows, file).folds[0]
    for option, value in (
        ("--test-share", rows.test_share),
        ("--split", rows.split),
        ("--split-by", rows.split_by),
    ):
        if value is not None:
            raise ValueError(f"--apply and {option} exclude each other: with --apply all of FILE is fitted")
    if n_rows < LEAST_ROWS:
        raise ValueError(f"{n_rows} rows are too few to fit: {LEAST_ROWS} are needed")
    return np.arange(n_rows), np.arange(0)


def read_split(n_rows: int, rows: Rows, file: Path, in_turn: bool = False) -> Split:
    """The split of a file that the options ask for.

    `in_turn`: a random split without a share of its own is also made the other way round, so that every row
    is tested once. Raises ValueError for a bad column, and for too few rows in either part.
    """
    together = None if rows.split_by is None else numbered(read_column(file, rows.split_by, n_rows))
    kind = rows.split or RANDOM
    if kind not in (RANDOM, TIME):
        if rows.test_share is not None:
            raise ValueError(f"--test-share and --split {kind} exclude each other: the column says it")
        fit, test, told = told_rows(read_column(file, kind, n_rows))
        check_apart(fit, test, together, rows)
    else:
        fit, test = dealt_rows(n_rows, rows, kind == RANDOM, together)
        told = f"the first {len(fit):,} rows fitted, the others tested"
    check_sizes(len(fit), len(test))
    if kind == RANDOM:
        both = in_turn and rows.test_share is None
        folds = [(fit, test), (test, fit)] if both else [(fit, test)]
        told = "each half fitted and the other tested" if both else f"{len(fit):,} random rows fitted"
    else:
        folds = [(fit, test)]
    if together is not None:
        told += f", rows of one {rows.split_by} together"
    return Split(folds, together, told)


def dealt_rows(n_rows: int, rows: Rows, by_chance: bool, together: Ints | None) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by chance or in the file's order; what belongs together stays so.

    The part that is fitted ends where its size is nearest to what was asked for. In the file's order, rows
    that belong together stand where the first of them does.
    """
    if together is None and by_chance:
        return split_rows(n_rows, rows.share, rows.seed)
    n_fit, _ = part_sizes(n_rows, check_open_unit(rows.share, "--test-share"))
    if together is None:
        return np.arange(n_fit), np.arange(n_fit, n_rows)
    sizes = np.bincount(together)
    if len(sizes) < 2:
        raise ValueError(f"--split-by {rows.split_by}: all {n_rows} rows have the same value")
    order = np.random.default_rng(rows.seed).permutation(len(sizes)) if by_chance else np.arange(len(sizes))
    ends = np.cumsum(sizes[order])[:-1]
    fitted = np.zeros(len(sizes), bool)
    fitted[order[: int(np.abs(ends - n_fit).argmin()) + 1]] = True
    return np.flatnonzero(fitted[together]), np.flatnonzero(~fitted[together])


def told_rows(column: pl.Series) -> tuple[Ints, Ints, str]:
    """Row numbers that a column says are to fit, and those to test, and that in words.

    ValueError names a value that says neither.
    """
    words = [str(value).strip().lower() for value in column.to_list()]
    fit = np.array([word in FIT_WORDS for word in words])
    test = np.array([word in TEST_WORDS for word in words])
    if not (fit | test).all():
        row = int((fit | test).argmin())
        raise ValueError(
            f"--split {column.name}: the column must say fit or test (or train, calibration, validation; "
            f"holdout, eval), got {column[row]!r} at row {row}; --split-by keeps rows of one value together"
        )
    if not fit.any() or not test.any():
        raise ValueError(f"--split {column.name}: all rows are to {'test' if test.any() else 'fit'}")
    named = [" and ".join(repr(one) for one in column.filter(pl.Series(which)).unique(maintain_order=True))
             for which in (fit, test)]  # fmt: skip
    told = f"rows whose {column.name} is {named[0]} fitted, {named[1]} tested"
    return np.flatnonzero(fit), np.flatnonzero(test), told


def check_apart(fit: Ints, test: Ints, together: Ints | None, rows: Rows) -> None:
    """Refuse a column of --split that parts what --split-by keeps together."""
    if together is None:
        return
    both = test[np.isin(together[test], together[fit])]
    if len(both):
        raise ValueError(
            f"--split {rows.split} and --split-by {rows.split_by} disagree: row {both[0]} is tested, and has "
            f"the {rows.split_by} of a fitted row"
        )


def read_column(file: Path, name: str, n_rows: int) -> pl.Series:
    """A column of a file, a value in every row."""
    if is_pipe(file):
        raise ValueError(f"a column {name!r} to split by must be in a file, not in a pipe: it is read again")
    column = read_frame(file, [name])[name]
    if len(column) != n_rows:
        raise ValueError(f"{file}: {name!r} has {len(column):,} values for {n_rows:,} rows")
    missing = next((row for row, value in enumerate(column.to_list()) if is_missing(value)), None)
    if missing is not None:
        raise ValueError(f"{file}: column {name!r} has no value at row {missing}")
    return column


def numbered(column: pl.Series) -> Ints:
    """Values as numbers 0, 1, ..., in the order of their first rows."""
    _, first, numbers = np.unique(column.cast(pl.String).to_list(), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers].astype(np.int64)


def split_rows(n_rows: int, test_share: float, seed: int) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by a random permutation; the tested ones are the last of it.

    (scikit-learn's train_test_split would deal other rows for the same seed, and so change every report.)
    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    check_open_unit(test_share, "--test-share")
    n_fit, n_test = part_sizes(n_rows, test_share)
    check_sizes(n_fit, n_test)
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_fit], order[n_fit:]


def check_sizes(n_fit: int, n_test: int) -> None:
    """Refuse parts that are too small."""
    if min(n_fit, n_test) < LEAST_ROWS:
        raise ValueError(
            f"{n_fit + n_test} rows are too few: {n_fit} to fit and {n_test} to test, "
            f"and each part needs {LEAST_ROWS}"
        )


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
