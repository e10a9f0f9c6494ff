"""Rows as counts, and how they are dealt to folds: the one place where it is decided what is held out.

A row of weight w counts as w equal rows. So rows that are equal in all that a map is fitted to become one row
with the sum of their weights, and weights, repeated rows and rows of weight 0 that are left out make the same
map. A fractional weight is so many whole rows, and a last one that counts for the rest.

A held-out row tells how well a map does only if the map has not seen it. Rows that are equal in what a map
predicts from (probabilities, features, groups; never the label) may be one observation that was copied, by
oversampling or by a join. They are dealt whole: all of them to the same fold, and in standard errors they
are one observation.

Forecasts of few values are the exception: ten thousand rows of ten forecasts are no copies. Dealt whole, a
fold would be asked about values that it has never seen, and what is wrong with them would never be learnt.
So the rows of a set are dealt one by one where it has ROWS_A_SET rows or more and more than one label comes
twice or more, which copies of one observation never have. Where every row of a label, in many sets, comes the
same number of times, that many are counted as one. Of fewer than two sets a fold nothing can be learnt if
they are dealt whole: their labels are not looked at, and a remark says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Bools, Floats, Ints, pieces

DIGITS = 6
"""To so many digits rows are equal when they are dealt: the last ones of a classifier's answers depend on the
rows beside."""
ROWS_A_SET, ROWS_A_LABEL = 10.0, 2.0
"""From so many rows on, and so many of the label that comes second, equal rows are dealt one by one."""
SETS_A_LABEL = 20
"""Counts of a label in fewer sets may have a common divisor by chance."""
MOST_SHUFFLED = 1_000_000
"""Of more rows that are dealt one by one, how many go to a fold is drawn; of fewer it is a share of them."""
MOST_UNITS = 2.0**53
"""A weight beyond it is divided among folds in equal parts."""


class SampleSizeWarning(UserWarning):
    """There are fewer rows than a guarantee needs, or fewer different ones than folds need."""


class Dealt(NamedTuple):
    """Rows with a fold each; a row that is dealt one by one comes once for each fold that has a part of it.

    Attributes
    ----------
    rows
        Which of the given rows, shape (m,).
    weights
        For how many rows each counts in its fold, shape (m,).
    fold
        Its fold, shape (m,): 0, 1, ..., each of which has rows.
    blocks
        How many rows each counts for at a time, shape (m,): all of them if they were dealt whole.
    n_sets
        How many different rows there are.
    n_dealt
        How many things were dealt: sets, and rows one by one.
    """

    rows: Ints
    weights: Floats
    fold: Ints
    blocks: Floats
    n_sets: int
    n_dealt: float

    @property
    def n_folds(self) -> int:
        """How many folds have rows."""
        return int(self.fold.max()) + 1


Numbering = Callable[[Ints, Ints], Ints]
"""From the set of each row (n,) and the first row of each set (S,): a fold for each set, shape (S,)."""


def same_rows(*parts: Any, digits: int | None = None) -> Ints:
    """The number of each row among the different ones, by their first appearance, shape (n,).

    Parameters
    ----------
    parts
        What makes a row, side by side: arrays of shape (n,) or (n, d), data frames, sparse matrices.
    digits
        To which floats are compared; None: all.
    """
    keys = sum(_keys(part, np.uint64(2 * place + 1), digits) for place, part in enumerate(parts))
    assert isinstance(keys, np.ndarray)
    # mostly all differ, and numbers are sorted much faster than their places
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(keys))
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number.reshape(-1)]


def first_rows(sets: Ints) -> Ints:
    """The first row of each set, shape (S,), of sets numbered by first appearance."""
    return np.unique(sets, return_index=True)[1]


def merged_rows(table: Floats, labels: Ints, weights: Floats) -> tuple[Floats, Ints, Floats]:
    """Rows that are equal, label and all, as one row with the sum of their weights, where they first come."""
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
    """Deal rows to folds: sets of equal ones whole, forecasts of few values one by one.

    Parameters
    ----------
    sets, labels, weights
        Of each row the set of those that are equal in what the map predicts from, as of `same_rows`, what
        came, and the weight, shape (n,).
    n_folds
        How many folds.
    numbering
        Says the fold of each set.
    seed
        Of the random numbers that deal rows one by one.
    """
    dealt = _dealt(sets, labels, weights, np.full(n_folds, 1.0 / n_folds), numbering, seed)
    # where few rows are dealt, some folds may have none
    return dealt._replace(fold=np.unique(dealt.fold, return_inverse=True)[1].reshape(-1))


def set_aside(
    sets: Ints, labels: NDArray[Any], weights: Floats, share: float, numbering: Numbering, seed: Any
) -> Dealt:
    """The same for two folds: fold 1 is held out, and has about this share of the rows."""
    return _dealt(sets, labels, weights, np.array([1.0 - share, share]), numbering, seed)


def _dealt(
    sets: Ints, labels: NDArray[Any], weights: Floats, shares: Floats, numbering: Numbering, seed: Any
) -> Dealt:
    n_sets, single = int(sets.max()) + 1, single_rows(sets, labels, weights, len(shares))
    # what counts for one row at most needs no dividing
    parted, rows = single & (weights > 1.0), np.arange(len(sets))
    if single.any():
        sets = same_rows(np.where(single, n_sets + rows, sets))
    fold = np.zeros(len(sets), np.int64)
    if not parted.all():
        fold = numbering(sets, first_rows(sets))[sets]
    if not parted.any():
        blocks = np.where(single, np.minimum(weights, 1.0), weights)
        return Dealt(rows, weights, fold, blocks, n_sets, int(sets.max()) + 1)
    parts = divided(weights[parted], shares, np.random.default_rng(seed))
    again, into = np.nonzero(parts)
    mine, whole = parts[again, into], rows[~parted]
    blocks = np.where(single, np.minimum(weights, 1.0), weights)[whole]
    return Dealt(
        np.concatenate([whole, rows[parted][again]]),
        np.concatenate([weights[whole], mine]),
        np.concatenate([fold[whole], into]),
        np.concatenate([blocks, np.minimum(mine, 1.0)]),
        n_sets,
        len(np.unique(sets[whole])) + float(weights[parted].sum()),
    )


def divided(weights: Floats, shares: Floats, rng: np.random.Generator) -> Floats:
    """Parts of each weight, shape (n, k), as if its rows were dealt one by one, in these shares of all."""
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
    """Which rows are dealt one by one, shape (n,): those of sets that are no copies, see above."""
    n_sets = int(sets.max(initial=-1)) + 1
    if n_sets == len(sets):
        return np.zeros(len(sets), bool)
    known, codes = np.unique(labels, return_inverse=True)
    pairs, number = np.unique(sets * len(known) + codes.reshape(-1), return_inverse=True)
    counts, (of_set, label) = sums(number.reshape(-1), weights), np.divmod(pairs, len(known))
    if (counts == np.rint(counts)).all() and counts.max() < MOST_UNITS:
        for one in np.flatnonzero(np.bincount(label) >= SETS_A_LABEL):
            counts[label == one] /= np.gcd.reduce(counts[label == one].astype(np.int64))
    several = np.bincount(of_set, counts >= ROWS_A_LABEL, n_sets) >= 2.0
    several |= n_sets < 2 * n_folds
    if not np.issubdtype(known.dtype, np.integer) and len(known) > 2:
        # outcomes between 0 and 1 may all differ
        several |= np.bincount(of_set, minlength=n_sets) >= ROWS_A_SET
    return np.asarray((several & (np.bincount(of_set, counts, n_sets) >= ROWS_A_SET))[sets])


def standard_error(away: Floats, weights: Floats, blocks: Floats) -> Any:
    """Of a weighted mean: from distances to it, (n,) or (M, n), weights and blocks (n,)."""
    return np.sqrt((away**2 * (weights * blocks)).sum(axis=-1)) / weights.sum()


def few_remarks(dealt: Dealt, n_folds: int, otherwise: str) -> list[str]:
    """A remark on fewer than two different rows a fold; `otherwise` says what happens to rows dealt whole."""
    if dealt.n_sets >= 2 * n_folds:
        return []
    said = f"{dealt.n_sets:,} different rows are fewer than two for each of {n_folds} folds: "
    if dealt.n_dealt >= 2 * n_folds:
        return [f"{said}equal rows are dealt to folds one by one, as if each were an observation of its own"]
    return [f"{said}{otherwise}"]


def tell_enough(dealt: Dealt, n_folds: int) -> bool:
    """Whether two things were dealt to each fold."""
    return dealt.n_dealt >= 2 * n_folds


def _keys(part: Any, salt: np.uint64, digits: int | None) -> NDArray[np.uint64]:
    """A number for each row of an array, frame or sparse matrix; the same for equal rows, else another."""
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
        # without features nothing says that rows are equal
        return np.arange(len(table), dtype=np.uint64)
    salts, keys = _salts(table.shape[1], salt), np.empty(len(table), np.uint64)
    for rows in pieces(table):
        keys[rows] = (_scattered(_bits(table[rows], digits), salts)).sum(axis=1, dtype=np.uint64)
    return _mixed(keys)


def _sparse_keys(matrix: Any, salt: np.uint64, digits: int | None) -> NDArray[np.uint64]:
    """As of a dense table with the same entries: a 0 adds nothing, whether it is stored or not."""
    matrix = matrix.copy()
    matrix.sum_duplicates()
    terms = _scattered(_bits(matrix.data, digits), _salts(matrix.shape[1], salt)[matrix.indices])
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mixed(sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]])


def _codes(table: NDArray[Any]) -> Ints:
    """Entries that are no numbers, (n, d), as numbers of the different ones in each column."""
    codes = np.empty(table.shape, np.int64)
    for column, out in zip(table.T, codes.T, strict=True):
        places: dict[Any, int] = {}
        for row, value in enumerate(column.tolist()):
            missing = isinstance(value, float) and math.isnan(value)
            try:
                out[row] = places.setdefault(None if missing else value, len(places))
            except TypeError:
                # what has no hash is equal to nothing
                out[row] = -1 - row
    return codes


def _bits(table: NDArray[Any], digits: int | None) -> NDArray[np.uint64]:
    """The bits of numbers: -0.0 as 0.0, and every NaN alike."""
    if table.dtype.kind != "f":
        return table.astype(np.int64).view(np.uint64)
    numbers = table.astype(np.float64)
    if digits is not None:
        np.rint(np.multiply(numbers, 10.0**digits, out=numbers), out=numbers)
    # a sum with 0.0 has no sign where it is 0
    numbers += 0.0
    if math.isnan(numbers.sum()):
        numbers[np.isnan(numbers)] = np.nan
    return np.ascontiguousarray(numbers).view(np.uint64)


def _salts(number: int, salt: np.uint64) -> NDArray[np.uint64]:
    """Odd numbers, one a column."""
    drawn = np.random.default_rng(int(salt)).integers(2**63, size=number, dtype=np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


def _scattered(bits: NDArray[np.uint64], salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits of entries, scattered over 64 of them, in another way for each salt; 0 stays 0."""
    bits = (bits ^ (bits >> np.uint64(32))) * salts
    bits ^= bits >> np.uint64(29)
    return bits * np.uint64(0xBF58476D1CE4E5B9)


def _mixed(keys: Any) -> NDArray[np.uint64]:
    keys = keys ^ (keys >> np.uint64(31))
    keys = keys * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> np.uint64(30)))
