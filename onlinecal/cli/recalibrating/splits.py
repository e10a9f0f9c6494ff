"""Which rows are fitted and which tested: by chance, by time or by a column, and what belongs together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from onlinecal.arrays import Ints
from onlinecal.cli.recalibrating.asked import Asked, is_number
from onlinecal.recalibration.groups.maker import encode
from onlinecal.rounds import is_missing
from onlinecal.tables import is_pipe, read_frame
from onlinecal.validation import check_open_unit

LEAST_ROWS = 10
"""Fewer rows than this in either part say nothing."""
TEST_SHARE = 0.5
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
        Of each row of the file the number of its value in the column of --together; None: every row for
        itself.
    told
        The split in words.
    """

    folds: list[tuple[Ints, Ints]]
    together: Ints | None
    told: str


def split_of(text: str | None) -> tuple[str, float | None]:
    """The rule and the share to test on that --split says: 0.3, time, time:0.3, or a column's name."""
    if text is None:
        return RANDOM, None
    rule, colon, share = text.rpartition(":")
    if not colon and is_number(text):
        return RANDOM, float(text)
    if rule in (RANDOM, TIME) and is_number(share):
        return rule, float(share)
    return text, None


def read_split(n_rows: int, asked: Asked, in_turn: bool = False) -> Split:
    """The split of a file that the options ask for.

    `in_turn`: a random split without a share of its own is also made the other way round, so that every row
    is tested once. Raises ValueError for a bad column, and for too few rows in either part.
    """
    together = None
    if asked.together is not None:
        together = encode(read_column(asked.file, asked.together, n_rows).cast(pl.String))[0]
    rule, share = split_of(asked.split)
    if rule not in (RANDOM, TIME):
        fit, test, told = told_rows(read_column(asked.file, rule, n_rows))
        _check_apart(fit, test, together, asked)
    elif rule == RANDOM and together is None:
        fit, test = split_rows(n_rows, TEST_SHARE if share is None else share, asked.seed)
    else:
        n_fit, _ = part_sizes(n_rows, TEST_SHARE if share is None else share)
        fit, test = _dealt(n_fit, n_rows, asked, asked.seed if rule == RANDOM else None, together)
    check_sizes(len(fit), len(test))
    folds = [(fit, test)]
    if rule == RANDOM and in_turn and share is None:
        folds.append((test, fit))
        told = "each half fitted and the other tested"
    elif rule == RANDOM:
        told = f"{len(fit):,} random rows fitted"
    elif rule == TIME:
        told = f"the first {len(fit):,} rows fitted, the others tested"
    if together is not None:
        told += f", rows of one {asked.together} together"
    return Split(folds, together, told)


def split_rows(n_rows: int, test_share: float, seed: int) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, by a random permutation; the tested ones are the last of it.

    (scikit-learn's train_test_split would deal other rows for the same seed, and so change every report.)
    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    n_fit, n_test = part_sizes(n_rows, test_share)
    check_sizes(n_fit, n_test)
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[:n_fit], order[n_fit:]


def part_sizes(n_rows: int, test_share: float) -> tuple[int, int]:
    """How many rows are fitted, and how many tested; ValueError for a share outside (0, 1)."""
    n_test = round(check_open_unit(test_share, "the share of rows to test") * n_rows)
    return n_rows - n_test, n_test


def check_sizes(n_fit: int, n_test: int) -> None:
    """Refuse parts that are too small."""
    if min(n_fit, n_test) < LEAST_ROWS:
        raise ValueError(
            f"{n_fit + n_test} rows are too few: {n_fit} to fit and {n_test} to test, "
            f"and each part needs {LEAST_ROWS}"
        )


def _dealt(
    n_fit: int, n_rows: int, asked: Asked, seed: int | None, together: Ints | None
) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test, what belongs together by chance, or without a seed in the file's order.

    The part that is fitted ends where its size is nearest to what was asked for. In the file's order, rows
    that belong together stand where the first of them does.
    """
    if together is None:
        return np.arange(n_fit), np.arange(n_fit, n_rows)
    sizes = np.bincount(together)
    if len(sizes) < 2:
        raise ValueError(f"--together {asked.together}: all {n_rows} rows have the same value")
    order = np.arange(len(sizes)) if seed is None else np.random.default_rng(seed).permutation(len(sizes))
    ends = np.cumsum(sizes[order])[:-1]
    is_fitted = np.zeros(len(sizes), bool)
    is_fitted[order[: int(np.abs(ends - n_fit).argmin()) + 1]] = True
    return np.flatnonzero(is_fitted[together]), np.flatnonzero(~is_fitted[together])


def told_rows(column: pl.Series) -> tuple[Ints, Ints, str]:
    """Row numbers that a column says are to fit, and those to test, and that in words.

    ValueError names a value that says neither.
    """
    words = [str(value).strip().lower() for value in column.to_list()]
    fit, test = (np.array([word in known for word in words]) for known in (FIT_WORDS, TEST_WORDS))
    if not (fit | test).all():
        row = int((fit | test).argmin())
        raise ValueError(
            f"--split {column.name}: the column must say fit or test (or train, calibration, validation; "
            f"holdout, eval), got {column[row]!r} at row {row}; --together keeps rows of one value together"
        )
    if not fit.any() or not test.any():
        raise ValueError(f"--split {column.name}: all rows are to {'test' if test.any() else 'fit'}")
    named = [" and ".join(repr(one) for one in column.filter(pl.Series(which)).unique(maintain_order=True))
             for which in (fit, test)]  # fmt: skip
    told = f"rows whose {column.name} is {named[0]} fitted, {named[1]} tested"
    return np.flatnonzero(fit), np.flatnonzero(test), told


def _check_apart(fit: Ints, test: Ints, together: Ints | None, asked: Asked) -> None:
    """Refuse a column of --split that parts what --together keeps together."""
    if together is None:
        return
    both = test[np.isin(together[test], together[fit])]
    if len(both):
        raise ValueError(
            f"--split {asked.split} and --together {asked.together} disagree: row {both[0]} is tested, and "
            f"has the {asked.together} of a fitted row"
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
