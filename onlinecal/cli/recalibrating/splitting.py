"""The split into rows that are fitted and tested: at random, by time or by a column; some rows stay
together.

A `Split` never changes. A row is tested in one fold at most, and never in a fold that it is fitted in; rows
that belong together are in the same part. The seed, and the order in which rows are drawn, decide which rows
are tested, and so every score; words for --split may be added.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import polars as pl

from onlinecal.arrays import Ints
from onlinecal.cli.recalibrating.asked import Request
from onlinecal.recalibration.groups.maker import encode
from onlinecal.tables.classes import column
from onlinecal.tables.numbers import is_gap
from onlinecal.validation import check_open_unit

LEAST_PART_ROWS = 10
"""Each part must have so many rows."""
TEST_SHARE = 0.5
RANDOM, TIME = "random", "time"
FIT_WORDS = ("fit", "train", "training", "cal", "calib", "calibration", "val", "valid", "validation", "dev")
TEST_WORDS = ("test", "testing", "held", "held-out", "heldout", "holdout", "eval", "evaluation")
"""The words that the column of --split may have, in upper or lower case."""


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers to fit and to test, once or in turn, and which rows belong together.

    Attributes
    ----------
    folds
        Pairs of row numbers, fitted and tested; no row is tested twice.
    together
        For each row of the file the number of its value in the column of --together; None: every row is
        alone.
    in_words
        The split in words.
    """

    folds: list[tuple[Ints, Ints]]
    together: Ints | None
    in_words: str


def split_of(text: str | None) -> tuple[str, float | None]:
    """The rule of --split and the share to test: 0.3, time, time:0.3, or a column's name."""
    if text is None:
        return RANDOM, None
    rule, _, share = text.rpartition(":")
    if rule in ("", TIME):
        with suppress(ValueError):
            return rule or RANDOM, float(share)
    return text, None


def read_split(frame: pl.DataFrame, asked: Request, in_turn: bool = False) -> Split:
    """The split of a file's rows that the options ask for.

    With `in_turn` a random split whose share was not given is also made the other way round, so that every
    row is tested once. Raises ValueError for a bad column, and for too few rows in either part.
    """
    n_rows, together, remedy = frame.height, None, "give more rows, or another --split"
    if asked.together is not None:
        together = encode(_full_column(frame, asked.together, "--together").cast(pl.String))[0]
    rule, stated_share = split_of(asked.split)
    share = TEST_SHARE if stated_share is None else stated_share
    if rule not in (RANDOM, TIME):
        fit, test, in_words = marked_rows(_full_column(frame, rule, "--split"))
        both = test[:0] if together is None else test[np.isin(together[test], together[fit])]
        if len(both):
            raise ValueError(
                f"--split {rule} and --together {asked.together} contradict each other: row {both[0]} is to "
                f"be tested, but a row to be fitted has the same {asked.together}; leave one of the two out"
            )
    elif together is None:
        fit, test = split_rows(n_rows, share, asked.seed if rule == RANDOM else None, remedy)
    else:
        units, n_fit = np.bincount(together), part_sizes(n_rows, share)[0]
        if len(units) < 2:
            advice = "name a column that has several, or leave it out"
            raise ValueError(f"--together {asked.together}: all {n_rows} rows have the same value; {advice}")
        order = _order(len(units), asked.seed if rule == RANDOM else None)
        ends = np.cumsum(units[order])[:-1]
        # the fitted part ends where its size is nearest to what was asked for
        last = int(np.abs(ends - n_fit).argmin())
        if np.minimum(ends, n_rows - ends).max() < LEAST_PART_ROWS:
            alone = f"of which a single value has {units.max()} of the {n_rows} rows"
            remedy = f"give more rows, or leave out --together {asked.together}, {alone}"
        is_fitted = np.isin(together, order[: last + 1])
        fit, test = np.flatnonzero(is_fitted), np.flatnonzero(~is_fitted)
    check_sizes(len(fit), len(test), remedy)
    folds = [(fit, test)]
    if rule == RANDOM and in_turn and stated_share is None:
        folds.append((test, fit))
        in_words = "each half fitted and the other tested"
    elif rule == RANDOM:
        in_words = f"{len(fit):,} random rows fitted"
    elif rule == TIME:
        in_words = f"the first {len(fit):,} rows fitted, the others tested"
    if together is not None:
        in_words += f", rows of one {asked.together} together"
    return Split(folds, together, in_words)


def split_rows(
    n_rows: int, test_share: float, seed: int | None, remedy: str = "give more rows"
) -> tuple[Ints, Ints]:
    """Row numbers to fit and to test; the tested rows are the last of a random order.

    Without a seed they are the last of the file. `remedy` is for the error about too few rows.
    Raises ValueError for a share outside (0, 1), and for too few rows in either part.
    """
    n_fit, n_test = part_sizes(n_rows, test_share)
    check_sizes(n_fit, n_test, remedy)
    order = _order(n_rows, seed)
    return order[:n_fit], order[n_fit:]


def _order(count: int, seed: int | None) -> Ints:
    return np.arange(count) if seed is None else np.random.default_rng(seed).permutation(count)


def part_sizes(n_rows: int, test_share: float) -> tuple[int, int]:
    """How many rows are fitted, and how many tested; ValueError for a share outside (0, 1)."""
    n_test = round(check_open_unit(test_share, "--split, the share of rows to test,") * n_rows)
    return n_rows - n_test, n_test


def check_sizes(n_fit: int, n_test: int, remedy: str) -> None:
    """Refuse parts that are too small."""
    if n_fit + n_test < 2 * LEAST_PART_ROWS:
        remedy = f"give at least {2 * LEAST_PART_ROWS} rows"
    if min(n_fit, n_test) < LEAST_PART_ROWS:
        raise ValueError(
            f"each part must have at least {LEAST_PART_ROWS} rows, got {n_fit} to fit and {n_test} to test: "
            f"{remedy}"
        )


def marked_rows(column: pl.Series) -> tuple[Ints, Ints, str]:
    """The row numbers that a column marks for fitting and for testing, and the split in words.

    ValueError names a value that is neither.
    """
    words = [str(value).strip().lower() for value in column.to_list()]
    fit, test = (np.array([word in known for word in words]) for known in (FIT_WORDS, TEST_WORDS))
    if not (fit | test).all():
        row = int((fit | test).argmin())
        raise ValueError(
            f"--split {column.name}: the column must hold fit (or train, calibration, validation) or test "
            f"(or holdout, eval), got {column[row]!r} at row {row}; to keep rows with one value together, "
            "use --together"
        )
    in_words = f"rows fitted and tested as {column.name} says"
    return np.flatnonzero(fit), np.flatnonzero(test), in_words


def _full_column(frame: pl.DataFrame, name: str, option: str) -> pl.Series:
    """A column with a value in every row."""
    values = column(frame, name, f"{option} {name}: the file")
    missing = next((row for row, value in enumerate(values.to_list()) if is_gap(value)), None)
    if missing is not None:
        raise ValueError(
            f"{option} {name}: the column has no value at row {missing}: fill it in, or leave the row out"
        )
    return values
