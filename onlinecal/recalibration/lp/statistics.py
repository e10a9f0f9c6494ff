"""What l_p recalibration counts: level sets, pools, masses and label frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
from onlinecal.recalibration.lp.sizes import SampleComplexity, laplace_scale
from onlinecal.recalibration.weights import Weights, counts_of, part, total_weight


class Pools(NamedTuple):
    """Counts per bin in every pool of rows; pool i serves groups of 2^i bins, a single pool serves all.

    `masses` (s, B) and `labels` (s, B, k) are counts, `mass_rows` and `label_rows` (s,) the rows they come
    from. The noise of node m is `mass_noise[m]` and `label_noise[m]`, in units of the pool's scale; noise
    arrays of length 0 mean none.
    """

    masses: Floats
    labels: Floats
    mass_rows: Floats
    label_rows: Floats
    mass_noise: Floats
    label_noise: Floats
    mass_scales: Floats
    label_scales: Floats


class State(NamedTuple):
    """Everything that a round reads and writes.

    Groups of G, row g: `predictions` and `levels` (B, k) and the hash `keys`; the sums `masses` and `labels`
    of their parts' estimates; `parts[g, i]` is the node of 2^i bins in g, or -1; `squares[g]` estimates
    E|prediction - y|^2 on g.
    Nodes of M: `node_masses` (2B,), `node_labels` (2B, k); their bins are the chain from `heads` to `tails`
    along `next_bin`; `children` (2B, 2), -1 for a bin.
    `buckets` and `next_group`: the hash table from level sets to groups.
    `worst` and `norms`: binary trees over groups, of the largest error and of the l_p norm of the errors;
    `worst_class[g]` is the class with the largest error.
    `counts`: nodes made, rounds, merges, groups given up because their estimates contradict each other.
    `total`: the sum of `squares`.
    """

    predictions: Floats
    levels: Ints
    keys: NDArray[np.uint64]
    masses: Floats
    labels: Floats
    parts: Ints
    squares: Floats
    node_masses: Floats
    node_labels: Floats
    heads: Ints
    tails: Ints
    next_bin: Ints
    children: Ints
    buckets: Ints
    next_group: Ints
    worst: Floats
    norms: Floats
    worst_class: Ints
    counts: Ints
    total: Floats


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts of the bins, the level sets with an estimated mass of beta/6 or more.

    Attributes
    ----------
    levels
        The bins' levels, shape (B, k), whole numbers.
    means
        The bins' mean forecasts, shape (B, k), or None when they are not needed.
    pools
        Counts of rows and labels.
    """

    levels: Ints
    means: Floats | None
    pools: Pools


def rho(levels: Ints, n_levels: int) -> Floats:
    """The distribution of each level set nearest to its lower corner v: v + (1 - sum of v)/k, shape (B, k).

    Rows that round to more than 1 in all, which only the allowances can bring about, are divided by their
    sum.
    """
    spare = n_levels - levels.sum(axis=1, keepdims=True)
    return np.where(
        spare >= 0,
        levels / n_levels + spare / (n_levels * levels.shape[1]),
        levels / np.maximum(levels.sum(axis=1, keepdims=True), 1),
    )


def plug_in_statistics(
    table: Floats, labels: Ints, n_levels: int, beta: float, with_means: bool, weights: Weights = None
) -> Statistics:
    """Every count from all rows, each of its weight."""
    numbers, first_rows = number_level_sets(table, n_levels)
    bins, of_bin = _heavy(numbers, len(first_rows), beta, weights)
    bin_of_row = of_bin[numbers]
    inside = bin_of_row >= 0
    k = table.shape[1]
    mine = part(weights, inside)
    counts = np.bincount(bin_of_row[inside], mine, minlength=len(bins)).astype(np.float64)
    means = None
    if with_means:
        means = np.zeros((len(bins), k))
        _add_rows(table, bin_of_row, counts_of(table, weights), means)
        means /= counts[:, None]
    ones = _label_counts(bin_of_row, labels, len(bins), k, weights)
    levels = levels_of(table[first_rows[bins]], n_levels)
    return Statistics(levels, means, single_pool(counts, ones, total_weight(table, weights)))


@compiled
def _add_rows(table: Floats, bin_of_row: Ints, weights: Floats, sums: Floats) -> None:
    """Add each row times its weight to its bin's sum (B, k); those of no bin, -1, to none."""
    for i in range(table.shape[0]):
        b = bin_of_row[i]
        if b >= 0:
            for j in range(table.shape[1]):
                sums[b, j] += weights[i] * table[i, j]


def single_pool(masses: Floats, labels: Floats, rows: float) -> Pools:
    """One pool for every estimate, without noise: counts (B,) and (B, k) out of `rows`."""
    whole, nothing = np.array([float(rows)]), np.zeros(1)
    k = labels.shape[1]
    return Pools(masses[None], labels[None], whole, whole, np.empty(0), np.empty((0, k)), nothing, nothing)


def pool_statistics(
    table: Floats, labels: Ints, needs: SampleComplexity, delta: float, seed: int
) -> Statistics:
    """Counts from separate pools, rows dealt out at random in proportion to what the lemmas ask for.

    Raises
    ------
    ValueError
        Fewer rows than pools.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    numbers, first_rows = number_level_sets(table, needs.n_levels)
    first = max(1, int(len(table) * (needs.masses / needs.total)))
    bins, of_bin = _heavy(numbers[order[:first]], len(first_rows), needs.beta)
    levels = levels_of(table[first_rows[bins]], needs.n_levels)
    sizes = max(1, len(bins)).bit_length()
    wanted = [rows for pool in needs.pools[:sizes] for rows in (pool.masses, pool.labels)]
    rest = order[first:]
    if len(rest) < len(wanted):
        raise ValueError(f"estimation='pools' needs at least {len(wanted) + 1} rows here, got {len(table)}")
    ends = np.round(np.cumsum(wanted) / sum(wanted) * (len(rest) - len(wanted))).astype(np.int64)
    parts = np.split(rest, (ends + np.arange(1, len(wanted) + 1))[:-1])
    k = table.shape[1]
    bin_of_row = of_bin[numbers]
    masses = np.zeros((sizes, len(bins)))
    ones = np.zeros((sizes, len(bins), k))
    for i in range(sizes):
        met = bin_of_row[parts[2 * i]]
        masses[i] = np.bincount(met[met >= 0], minlength=len(bins))
        ones[i] = _label_counts(bin_of_row[parts[2 * i + 1]], labels[parts[2 * i + 1]], len(bins), k)
    rows = np.array([len(part) for part in parts], dtype=np.float64)
    return Statistics(levels, None, noisy_pools(masses, ones, rows[::2], rows[1::2], delta, rng))


def noisy_pools(
    masses: Floats,
    labels: Floats,
    mass_rows: Floats,
    label_rows: Floats,
    delta: float,
    rng: np.random.Generator,
) -> Pools:
    """Counts (s, B) and (s, B, k) of separate pools, with the Laplace noise of Lemma 9 drawn for every group.

    At most 2B groups ever occur in M. The noise has scale 8/(m a), where a is the accuracy that the pool's m
    rows buy: at the sizes the lemmas ask for it is the accuracy they ask for.
    """
    sizes, n_bins, k = labels.shape
    per_pool = delta / (3 * sizes)
    events = [max(1, n_bins >> i) for i in range(sizes)]
    mass_scales = [laplace_scale(m, e, 1, per_pool) for m, e in zip(mass_rows, events, strict=True)]
    label_scales = [laplace_scale(m, e, k, per_pool) for m, e in zip(label_rows, events, strict=True)]
    return Pools(
        masses,
        labels,
        np.asarray(mass_rows, dtype=np.float64),
        np.asarray(label_rows, dtype=np.float64),
        rng.laplace(size=2 * n_bins),
        rng.laplace(size=(2 * n_bins, k)),
        np.array(mass_scales),
        np.array(label_scales),
    )


def _heavy(numbers: Ints, n_sets: int, beta: float, weights: Weights = None) -> tuple[Ints, Ints]:
    """The level sets with at least beta/6 of these rows, and for every level set its bin or -1."""
    counts = np.bincount(numbers, weights, minlength=n_sets)
    bins = np.flatnonzero((counts >= beta / 6.0 * total_weight(numbers, weights)) & (counts > 0))
    of_bin = np.full(n_sets, -1, dtype=np.int64)
    of_bin[bins] = np.arange(len(bins))
    return bins, of_bin


def _label_counts(bin_of_row: Ints, labels: Ints, n_bins: int, k: int, weights: Weights = None) -> Floats:
    """Labels per bin, shape (B, k); rows of no bin do not count."""
    inside = bin_of_row >= 0
    places = bin_of_row[inside] * k + labels[inside]
    counts = np.bincount(places, part(weights, inside), minlength=n_bins * k)
    return counts.reshape(n_bins, k).astype(np.float64)
