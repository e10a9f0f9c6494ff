"""Deals rows to folds: here is decided which rows go to a fold as one, or one by one.

A row of weight w counts as w equal rows. So rows that are equal, label and all, are merged into one with the
sum of their weights. Weights and repeated rows make the same map, and so do rows of weight 0 and rows that
are left out. A fractional weight is that many whole rows, and one more row that counts for the rest.

A held-out row shows how good a map is only if the map has not seen it. Rows that are equal in what a map
predicts from (probabilities, features, groups; never the label) form a set. They may be one observation that
was copied, by oversampling or by a join. So a set is dealt whole: all its rows go to the same fold, and count
as one observation in standard errors.

Forecasts of few values are the exception: ten thousand rows of ten forecasts are no copies. If they were
dealt whole, each fold would hold out values that were never fitted. So the rows of a set are dealt one by one
if there are ROWS_A_SET of them or more, and at least two labels come ROWS_A_LABEL times or more: copies of
one observation all have its label. If every row of a label comes the same number of times, in many sets, that
number of rows is counted as one. If there are fewer than two sets for each fold, labels are not looked at: a
set with enough rows is dealt one by one, and a remark says so.

Which fold a set goes to is up to who calls: `Numbering` is a function of theirs. A splitter that a user gives
to `RecalibratedClassifierCV`, and the split of `onlinecal recalibrate`, deal rows without this module.

Nothing here has a state: which rows share a fold follows from the rows, their order and the seed. A change
here changes every score of held-out rows, and so what is fitted. Equal rows are found by keys of 64 bits,
whose salts are fixed, so that two processes deal alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bools, Floats, Ints, pieces

DIGITS = 6
"""Rows are compared to this many digits when they are dealt: the last digits of a classifier's answers depend
on the other rows that it is asked about."""
ROWS_A_SET, ROWS_A_LABEL = 10.0, 2.0
"""How many rows a set needs, and how many of its second most frequent label, to be dealt one by one."""
SETS_A_LABEL = 20
"""Counts of a label in fewer sets than this may have a common divisor by chance."""
MOST_SHUFFLED = 1_000_000
"""Up to this many rows are shuffled one by one; of more rows only the number that goes to a fold is drawn."""
MOST_UNITS = 2.0**53
"""A larger weight is divided among folds in their shares, not row by row."""


class SampleSizeWarning(UserWarning):
    """There are too few rows: for a guarantee, for the folds, or by the sum of the weights.

    Recalibrators give it in `fit`, and go on. It comes if there are fewer rows than a guarantee needs, fewer
    different rows than two for each fold, or if several weights have a sum below 2, since a weight says for
    how many rows a row counts.
    """


class Dealt(NamedTuple):
    """Rows with their folds; a row dealt one by one comes once for each fold that has a part of its weight.

    Attributes
    ----------
    rows
        The numbers of the rows, shape (m,).
    weights
        For how many rows each counts in its fold, shape (m,).
    fold
        The fold of each, shape (m,): 0, 1, ..., each of which has rows.
    blocks
        How many rows each adds to one observation, shape (m,): its weight if it was dealt whole, else at
        most 1. Standard errors use it.
    n_sets
        How many different rows there are.
    n_dealt
        How many things were dealt: sets, and rows that were dealt one by one.
    """

    rows: Ints
    weights: Floats
    fold: Ints
    blocks: Floats
    n_sets: int
    n_dealt: float

    @property
    def n_folds(self) -> int:
        """The number of folds that have rows."""
        return int(self.fold.max()) + 1


Numbering = Callable[[Ints, Ints], Ints]
"""Chooses a fold for each set, (S,), given the set of each row, (n,), and the first row of each set, (S,)."""


def same_rows(*parts: Any, digits: int | None = None) -> Ints:
    """The set of each row, shape (n,): equal rows have the same number, in order of their first appearance.

    Parameters
    ----------
    parts
        What a row consists of, side by side: arrays of shape (n,) or (n, d), data frames, sparse matrices.
    digits
        To how many digits floats are compared; None: exactly.
    """
    keys = sum(_keys(part, np.uint64(2 * place + 1), digits) for place, part in enumerate(parts))
    assert isinstance(keys, np.ndarray)
    # mostly all rows differ, and sorting keys is much faster than sorting their places
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(keys))
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number.reshape(-1)]


def first_rows(sets: Ints) -> Ints:
    """The first row of each set, shape (S,), for sets numbered by first appearance."""
    return np.unique(sets, return_index=True)[1]


def merged_rows(table: Floats, labels: Ints, weights: Floats) -> tuple[Floats, Ints, Floats]:
    """Rows without repetitions: those equal in all, the label too, become one row with their total weight."""
    same = same_rows(table, labels)
    first = first_rows(same)
    if len(first) == len(labels):
        return table, labels, weights
    return table[first], labels[first], sums(same, weights)


def sums(sets: Ints, weights: Floats) -> Floats:
    """The sum of the weights of each set, shape (S,)."""
    return np.bincount(sets, weights).astype(np.float64)


def deal(
    sets: Ints, labels: NDArray[Any], weights: Floats, n_folds: int, numbering: Numbering, seed: Any
) -> Dealt:
    """Deal rows to folds: sets of equal rows whole, forecasts of few values one by one.

    Parameters
    ----------
    sets, labels, weights
        For each row its set, its label and its weight, each of shape (n,). Rows of a set are equal in what
        the map predicts from; `same_rows` finds sets.
    n_folds
        How many folds.
    numbering
        Chooses the fold of each set.
    seed
        The seed of the random numbers that deal rows one by one.
    """
    dealt = _dealt(sets, labels, weights, np.full(n_folds, 1.0 / n_folds), numbering, seed)
    # if few rows are dealt some folds may have none: the others are numbered again
    return dealt._replace(fold=np.unique(dealt.fold, return_inverse=True)[1].reshape(-1))


def set_aside(
    sets: Ints, labels: NDArray[Any], weights: Floats, share: float, numbering: Numbering, seed: Any
) -> Dealt:
    """Deal rows to two folds, as `deal` does; fold 1 is held out, and has about this share of the rows."""
    return _dealt(sets, labels, weights, np.array([1.0 - share, share]), numbering, seed)


def _dealt(
    sets: Ints, labels: NDArray[Any], weights: Floats, shares: Floats, numbering: Numbering, seed: Any
) -> Dealt:
    n_sets, single = int(sets.max()) + 1, single_rows(sets, labels, weights, len(shares))
    # a weight of at most 1 is not divided
    parted, rows = single & (weights > 1.0), np.arange(len(sets))
    if single.any():
        sets = same_rows(np.where(single, n_sets + rows, sets))
    fold = np.zeros(len(sets), np.int64)
    if not parted.all():
        fold = numbering(sets, first_rows(sets))[sets]
    if not parted.any():
        return Dealt(rows, weights, fold, weights, n_sets, int(sets.max()) + 1)
    parts = divided(weights[parted], shares, np.random.default_rng(seed))
    again, into = np.nonzero(parts)
    part_weights, whole = parts[again, into], rows[~parted]
    return Dealt(
        np.concatenate([whole, rows[parted][again]]),
        np.concatenate([weights[whole], part_weights]),
        np.concatenate([fold[whole], into]),
        np.concatenate([weights[whole], np.minimum(part_weights, 1.0)]),
        n_sets,
        len(np.unique(sets[whole])) + float(weights[parted].sum()),
    )


def divided(weights: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
    """Parts of each weight, shape (n, k), as if its rows were dealt one by one; parts have these shares."""
    whole = np.floor(np.minimum(weights, MOST_UNITS))
    number = whole.astype(np.int64)
    if whole.sum() <= MOST_SHUFFLED:
        owners = rng.permutation(np.repeat(np.arange(len(weights)), number))
        ends = np.rint(np.cumsum(shares)[:-1] * len(owners)).astype(np.int64)
        dealt = [np.bincount(part, minlength=len(weights)) for part in np.split(owners, ends)]
        parts = np.stack(dealt, axis=1).astype(np.float64)
    else:
        parts = rng.multinomial(number, shares).astype(np.float64)
    parts[np.arange(len(weights)), rng.choice(len(shares), len(weights), p=shares)] += (
        np.minimum(weights, MOST_UNITS) - whole
    )
    beyond = weights > MOST_UNITS
    parts[beyond] = weights[beyond, None] * shares
    return parts


def single_rows(sets: Ints, labels: NDArray[Any], weights: Floats, n_folds: int) -> Bools:
    """Which rows are dealt one by one, shape (n,): those of sets that are not copies, as said above."""
    n_sets = int(sets.max(initial=-1)) + 1
    if n_sets == len(sets):
        return np.zeros(len(sets), bool)
    known, codes = np.unique(labels, return_inverse=True)
    pairs, number = np.unique(sets * len(known) + codes.reshape(-1), return_inverse=True)
    counts, (of_set, label) = sums(number.reshape(-1), weights), np.divmod(pairs, len(known))
    if (counts == np.rint(counts)).all() and counts.max() < MOST_UNITS:
        for code in np.flatnonzero(np.bincount(label) >= SETS_A_LABEL):
            counts[label == code] /= np.gcd.reduce(counts[label == code].astype(np.int64))
    several = np.bincount(of_set, counts >= ROWS_A_LABEL, n_sets) >= 2.0
    several |= n_sets < 2 * n_folds
    if not np.issubdtype(known.dtype, np.integer) and len(known) > 2:
        # outcomes between 0 and 1 may all differ, so many different ones show that rows are not copies
        several |= np.bincount(of_set, minlength=n_sets) >= ROWS_A_SET
    return np.asarray((several & (np.bincount(of_set, counts, n_sets) >= ROWS_A_SET))[sets])


def standard_error(away: Floats, weights: Floats, blocks: Floats) -> Any:
    """The standard error of a weighted mean, of distances to it (n,) or (M, n), weights and blocks (n,)."""
    return np.sqrt((away**2 * (weights * blocks)).sum(axis=-1)) / weights.sum()


def few_remarks(dealt: Dealt, n_folds: int, otherwise: str) -> list[str]:
    """A remark if there are fewer than two different rows a fold.

    `otherwise` says what is done if the rows are dealt whole.
    """
    if dealt.n_sets >= 2 * n_folds:
        return []
    remark = f"{dealt.n_sets:,} different rows are fewer than two for each of {n_folds} folds: "
    if dealt.n_dealt >= 2 * n_folds:
        return [f"{remark}equal rows are dealt to folds one by one, as if each were its own observation"]
    return [f"{remark}{otherwise}"]


def tell_enough(dealt: Dealt, n_folds: int) -> bool:
    """Whether at least two sets or single rows were dealt for each fold."""
    return dealt.n_dealt >= 2 * n_folds


def _keys(part: Any, salt: np.uint64, digits: int | None) -> NDArray[np.uint64]:
    """A key for each row of an array, frame or sparse matrix: equal rows have equal keys, others do not."""
    if hasattr(part, "tocsr"):
        return _sparse_keys(part.tocsr(), salt, digits)
    if hasattr(part, "columns"):
        columns = [
            part.iloc[:, j]
            if hasattr(part, "iloc")
            else part[:, j]
            if hasattr(part, "lazy")
            else part.column(j)
            for j in range(part.shape[1])
        ]
        return _mixed(sum(_keys(column, _salts(j + 1, salt)[-1], digits) for j, column in enumerate(columns)))
    try:
        array = np.asarray(part)
    except ValueError:
        # rows of different lengths
        array = np.empty(len(part), object)
        array[:] = list(part)
    if array.dtype.kind not in "fiub":
        array = _codes(array.reshape(len(array), -1))
    table = array.reshape(len(array), -1 if array.size else 0)
    if not table.size:
        # rows without features are all different
        return np.arange(len(table), dtype=np.uint64)
    salts, keys = _salts(table.shape[1], salt), np.empty(len(table), np.uint64)
    for rows in pieces(table):
        keys[rows] = (_scattered(_bits(table[rows], digits), salts)).sum(axis=1, dtype=np.uint64)
    return _mixed(keys)


def _sparse_keys(matrix: Any, salt: np.uint64, digits: int | None) -> NDArray[np.uint64]:
    """The keys of a dense table with the same entries: a 0 adds nothing, whether it is stored or not."""
    matrix = matrix.copy()
    matrix.sum_duplicates()
    terms = _scattered(_bits(matrix.data, digits), _salts(matrix.shape[1], salt)[matrix.indices])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mixed(sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]])


def _codes(table: NDArray[Any]) -> Ints:
    """A table of other things than numbers, (n, d), with a code for each different entry of a column."""
    codes = np.empty(table.shape, np.int64)
    for column, out in zip(table.T, codes.T, strict=True):
        places: dict[Any, int] = {}
        for row, value in enumerate(column.tolist()):
            missing = isinstance(value, float) and math.isnan(value)
            try:
                out[row] = places.setdefault(None if missing else value, len(places))
            except TypeError:
                # an entry that has no hash is taken for different from all others
                out[row] = -1 - row
    return codes


def _bits(table: NDArray[Any], digits: int | None) -> NDArray[np.uint64]:
    """The bits of numbers, with -0.0 as 0.0 and the same bits for every NaN."""
    if table.dtype.kind != "f":
        return table.astype(np.int64).view(np.uint64)
    numbers = table.astype(np.float64)
    if digits is not None:
        np.rint(np.multiply(numbers, 10.0**digits, out=numbers), out=numbers)
    # adding 0.0 turns -0.0 into 0.0
    numbers += 0.0
    if math.isnan(numbers.sum()):
        numbers[np.isnan(numbers)] = np.nan
    return np.ascontiguousarray(numbers).view(np.uint64)


def _salts(number: int, salt: np.uint64) -> NDArray[np.uint64]:
    """A random odd number for each column."""
    drawn = np.random.default_rng(int(salt)).integers(2**63, size=number, dtype=np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


def _scattered(bits: NDArray[np.uint64], salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits of entries scattered over 64 bits, in a different way for each salt; 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(32))) * salts
    bits ^= bits >> np.uint64(29)
    return bits * np.uint64(0xBF58476D1CE4E5B9)


def _mixed(keys: Any) -> NDArray[np.uint64]:
    """Keys whose bits are mixed once more, so that sums of keys seldom agree."""
    keys = keys ^ (keys >> np.uint64(31))
    keys = keys * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> np.uint64(30)))
