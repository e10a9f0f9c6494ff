"""How many rows the guarantee of l_p recalibration needs, and the counts that Algorithm 2 starts from.

`SampleComplexity` says the former, `Statistics` holds the latter. Neither changes once it is made.

Which rows go to which pool is part of the results: another order of draws gives another model for the same
seed. The constants in the formulas are those of the lemmas, and may change only with the proofs. Tables and
labels were checked by who calls; the public functions check their own arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.lp.level_sets import count_level_sets, levels_of, number_level_sets
from onlinecal.validation import check_choice, check_count, check_open_unit, check_order

Estimation = Literal["plug-in", "pools"]
ESTIMATIONS: tuple[Estimation, ...] = get_args(Estimation)
SMALLEST_BETA = 1e-9


@dataclass(frozen=True)
class PoolSizes:
    """The rows needed to estimate all groups of `group_size` level sets.

    Attributes
    ----------
    group_size
        A power of two.
    masses, labels
        The rows for the probabilities of such groups, and for the label frequencies in them.
    """

    group_size: int
    masses: int
    labels: int


@dataclass(frozen=True)
class SampleComplexity:
    """How many rows guarantee an l_p calibration error; `lp_sample_complexity` makes it.

    Attributes
    ----------
    beta
        The error that no level set and class exceeds at the end: share of rows times difference of
        probabilities.
    n_levels
        Levels per class: a level set is all rows that round down to the same multiples of 1/n_levels.
    n_level_sets
        How many level sets there can be.
    most_bins
        How many of them can have an estimated share of the rows of beta/6 or more: at most 6/beta.
    accuracy
        The error that estimates of one group of level sets may have: beta/(36 (floor(log2 most_bins) + 1)).
    masses
        With "pools": the rows of the pool that finds the level sets with a large share of the rows.
    pools
        With "pools": a tuple with the sizes of two pools for each group size 1, 2, 4, ..., named
        `group_size`, `masses` and `labels`.
    plug_in
        The rows that are enough if every estimate is made from all of them.
    """

    beta: float
    n_levels: int
    n_level_sets: int
    most_bins: int
    accuracy: float
    masses: int
    pools: tuple[PoolSizes, ...]
    plug_in: int

    @property
    def total(self) -> int:
        """How many rows the guarantee needs with estimation="pools": those of all pools together."""
        return self.masses + sum(pool.masses + pool.labels for pool in self.pools)

    def needed(self, estimation: Estimation) -> int:
        """How many rows the guarantee needs: `total` for the estimation "pools", `plug_in` for "plug-in".

        Raises ValueError for another estimation.
        """
        check_choice(estimation, ESTIMATIONS, "estimation")
        return self.total if estimation == "pools" else self.plug_in


def lp_sample_complexity(p: float, epsilon: float, delta: float, n_classes: int) -> SampleComplexity:
    """How many rows guarantee an l_p calibration error of at most epsilon, with probability 1 - delta.

    The guarantee is that of `LpRecalibrator.as_in_paper`, and the error, as `lp_calibration_error` has it,
    that for the distribution that the rows are drawn from.

    Parameters
    ----------
    p
        Order of the error, above 1, or inf.
    epsilon
        The error to reach, between 0 and 1.
    delta
        How often the guarantee may fail, between 0 and 1.
    n_classes
        The number of classes, k, at least 2.

    Returns
    -------
    SampleComplexity
        With the rows that are needed: `plug_in` if all rows are counted for every estimate, `total` if there
        are separate pools of rows (estimation="pools").

    Raises
    ------
    ValueError
        If a value is out of range, or p is so close to 1 that beta is below 1e-9.

    Notes
    -----
    beta = epsilon^(p/(p-1)) 2^(-1/(p-1)) is the error that each level set and class may keep, and n_levels =
    ceil(1/beta); docs/theory-tables.md has the proofs. The pool that finds the level sets with many rows
    needs max(ln(4/(a d)) / (2 a^2), 8 ln(2V/d) / (3 a)) rows, with V level sets, a = beta/12 and d = delta/3
    (the paper writes 4/3 where its own inequality gives 8/3). A pool for groups of 2^i level sets needs 32
    ln(4 n m/d) / a^2 rows, with n = floor(most_bins / 2^i), a = accuracy, d = delta / (3 (number of sizes)),
    and m = k, but m = 1 for the pool of shares.

    Plug-in estimates are good for every union of level sets at once: at most 12/beta level sets have a share
    of beta/12 of the rows, they have 2^(12/beta) unions, and Hoeffding's inequality for these and k + 1
    frequencies each, to accuracy beta/8, needs (12/beta ln 2 + ln(4 (k + 1)/delta)) / (2 (beta/8)^2) rows.
    That is of order 1/beta^3 where the pools have log^3(1/beta)/beta^2, but for every beta above 1e-7 it is
    fewer.

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025), Lemmas 8 and 9.

    Examples
    --------
    >>> needs = lp_sample_complexity(p=float("inf"), epsilon=0.1, delta=0.05, n_classes=10)
    >>> needs.n_levels, needs.most_bins, len(needs.pools)
    (10, 60, 6)
    >>> needs.plug_in
    287865
    """
    beta = coupled_beta(p, epsilon)
    return sample_sizes(beta, math.ceil(1.0 / beta), delta, check_count(n_classes, "n_classes", least=2))


def coupled_beta(p: float, epsilon: float) -> float:
    """The paper's beta = epsilon^(p/(p-1)) 2^(-1/(p-1)); for p = inf it is epsilon."""
    order = check_order(p, above_one=True)
    error = check_open_unit(epsilon, "epsilon")
    if math.isinf(order):
        return error
    # epsilon^(p/(p-1)) = epsilon epsilon^(1/(p-1))
    beta = error * (error / 2.0) ** (1.0 / (order - 1.0))
    if beta < SMALLEST_BETA:
        raise ValueError(
            f"p = {p!r} and epsilon = {epsilon!r} make beta = {beta:.3g}, below 1e-9: "
            "give a larger p or epsilon"
        )
    return beta


def sample_sizes(beta: float, n_levels: int, delta: float, n_classes: int) -> SampleComplexity:
    """The numbers of `lp_sample_complexity` for any beta and n_levels, coupled or not."""
    check_open_unit(delta, "delta")
    n_classes = check_count(n_classes, "n_classes")
    n_level_sets = count_level_sets(n_levels, n_classes)
    most_bins = max(1, math.floor(6.0 / beta))
    sizes = most_bins.bit_length()
    accuracy = beta / (36 * sizes)
    per_pool = delta / (3 * sizes)
    pools = tuple(
        PoolSizes(2**i, *(pool_size(most_bins >> i, k, accuracy, per_pool) for k in (1, n_classes)))
        for i in range(sizes)
    )
    unions = math.floor(12.0 / beta) * math.log(2.0) + math.log(4.0 * (n_classes + 1) / delta)
    for_unions = math.ceil(unions / (2.0 * (beta / 8.0) ** 2))
    plug_in = max(mass_pool_size(beta, n_level_sets, delta / 2), for_unions)
    masses = mass_pool_size(beta, n_level_sets, delta / 3)
    return SampleComplexity(beta, n_levels, n_level_sets, most_bins, accuracy, masses, pools, plug_in)


def mass_pool_size(beta: float, n_level_sets: int, delta: float) -> int:
    """The rows with which every level set's mass is known to beta/12 (Lemma 8)."""
    a = beta / 12.0
    large = math.log(4.0 / (a * delta)) / (2.0 * a * a)
    # math.log takes whole numbers of any size, also those beyond all floats
    small = 8.0 / (3.0 * a) * (math.log(n_level_sets) + math.log(2.0 / delta))
    return math.ceil(max(large, small))


def pool_size(n_events: int, n_classes: int, accuracy: float, delta: float) -> int:
    """The rows with which n_events disjoint events, chosen in turn, are known to `accuracy` (Lemma 9)."""
    return math.ceil(32.0 * math.log(4.0 * n_events * n_classes / delta) / accuracy**2)


def laplace_scale(rows: int, n_events: int, n_classes: int, delta: float) -> float:
    """The scale 8/(m a) of the noise of Lemma 9, for the accuracy a that m = `rows` allow."""
    accuracy = math.sqrt(32.0 * math.log(4.0 * n_events * n_classes / delta) / rows)
    return 8.0 / (rows * accuracy)


def epsilon_for(
    n: int,
    p: float,
    *,
    delta: float = 0.05,
    n_classes: int = 2,
    estimation: Estimation = "plug-in",
    n_levels: int | None = None,
) -> float:
    """The smallest l_p calibration error that n rows guarantee; inf if they guarantee none below 1.

    The guarantee is that of `LpRecalibrator.as_in_paper` for the distribution that the rows are drawn from.

    Parameters
    ----------
    n
        The number of rows, at least 1.
    p
        Order of the error, above 1, or inf.
    delta
        How often the guarantee may fail, between 0 and 1.
    n_classes
        The number of classes, at least 1.
    estimation
        On which rows shares and frequencies are counted. "plug-in": all. "pools": separate pools, as in the
        paper.
    n_levels
        Levels per class: rows that round down to the same multiples of 1/n_levels are corrected as one. None:
        1/beta, rounded up, with beta = epsilon^(p/(p-1)) 2^(-1/(p-1)) for the epsilon that is returned.

    Returns
    -------
    float
        An average over rows, as `lp_calibration_error` is; or inf.

    Raises
    ------
    ValueError
        If a value is out of range, or p is so close to 1 that beta is below 1e-9 even with epsilon 1.

    Examples
    --------
    >>> round(epsilon_for(10**6, p=float("inf"), n_classes=10), 3)
    0.065
    >>> epsilon_for(10**3, p=2, n_classes=10)
    inf
    """
    check_choice(estimation, ESTIMATIONS, "estimation")
    n = check_count(n, "n")
    order = check_order(p, above_one=True)
    if n_levels is not None:
        n_levels = check_count(n_levels, "n_levels")
    try:
        largest = coupled_beta(order, 1.0 - 1e-12)
    except ValueError:
        raise ValueError(f"p must be larger, got {p!r}: even for epsilon 1 beta is then below 1e-9") from None

    def is_guaranteed(beta: float) -> bool:
        levels = math.ceil(1.0 / beta) if n_levels is None else n_levels
        return sample_sizes(beta, levels, delta, n_classes).needed(estimation) <= n

    if not is_guaranteed(largest):
        return math.inf
    low, high = math.log(SMALLEST_BETA), math.log(largest)
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_guaranteed(math.exp(middle)) else (middle, high)
    # slightly more, so that rounding on the way back to beta does not need more rows
    return error_bound(math.exp(high), order) * (1.0 + 1e-9)


def error_bound(beta: float, p: float) -> float:
    """The bound on Err_p if every level set and class has an error of at most beta: (2 beta^(p-1))^(1/p)."""
    return beta if math.isinf(p) else 2.0 ** (1.0 / p) * beta ** ((p - 1.0) / p)


class PoolCounts(NamedTuple):
    """Counts per bin in every pool of rows; pool i is for groups of 2^i bins, and a single pool is for all.

    `masses`, (s, B), and `labels`, (s, B, k), are counts; `mass_rows` and `label_rows`, (s,), say of how many
    rows they are. The noise of node m is `mass_noise[m]` and `label_noise[m]`, in units of the pool's scale;
    without noise these arrays have length 0.
    """

    masses: Floats
    labels: Floats
    mass_rows: Floats
    label_rows: Floats
    mass_noise: Floats
    label_noise: Floats
    mass_scales: Floats
    label_scales: Floats


class Statistics(NamedTuple):
    """Levels (B, k) and counts of the bins, which are level sets with an estimated mass of beta/6 or more.

    The means (B, k) of their forecasts are None if they are not needed.
    """

    levels: Ints
    means: Floats | None
    pools: PoolCounts


def rho(levels: Ints, n_levels: int) -> Floats:
    """The distribution of each level set nearest to its lower corner v: v + (1 - sum of v)/k, shape (B, k).

    A level set whose levels have a sum above 1 is divided by this sum. That happens only because level sets
    allow for rounded rows.
    """
    spare = n_levels - levels.sum(axis=1, keepdims=True)
    return np.where(
        spare >= 0,
        levels / n_levels + spare / (n_levels * levels.shape[1]),
        levels / np.maximum(levels.sum(axis=1, keepdims=True), 1),
    )


def plug_in_statistics(
    table: Floats, labels: Ints, n_levels: int, beta: float, with_means: bool, weights: Floats | None = None
) -> Statistics:
    """Statistics with every count from all rows; weights of None count each row once."""
    weights = np.ones(len(table)) if weights is None else weights
    numbers, first_rows = number_level_sets(table, n_levels)
    bins, of_bin = _heavy(numbers, len(first_rows), beta, weights)
    inside = of_bin[numbers] >= 0
    bin_of_row, weights_inside = of_bin[numbers[inside]], weights[inside]
    counts = np.bincount(bin_of_row, weights_inside, minlength=len(bins)).astype(np.float64)
    means = None
    if with_means:
        columns = [np.bincount(bin_of_row, column[inside] * weights_inside, len(bins)) for column in table.T]
        means = np.stack(columns, axis=1) / counts[:, None]
    ones = _label_counts(bin_of_row, labels[inside], len(bins), table.shape[1], weights_inside)
    levels = levels_of(table[first_rows[bins]], n_levels)
    return Statistics(levels, means, single_pool(counts, ones, weights.sum()))


def single_pool(masses: Floats, labels: Floats, rows: float) -> PoolCounts:
    """A single pool for all estimates, without noise: counts (B,) and (B, k) out of `rows`."""
    all_rows, no_scale = np.array([float(rows)]), np.zeros(1)
    no_noise = np.empty(0), np.empty((0, labels.shape[1]))
    return PoolCounts(masses[None], labels[None], all_rows, all_rows, *no_noise, no_scale, no_scale)


def pool_statistics(
    table: Floats, labels: Ints, needs: SampleComplexity, delta: float, seed: int
) -> Statistics:
    """Statistics from separate pools; rows are dealt at random, in proportion to what the lemmas ask for.

    Raises ValueError if there are fewer rows than pools.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    numbers, first_rows = number_level_sets(table, needs.n_levels)
    first = max(1, int(len(table) * (needs.masses / needs.total)))
    bins, of_bin = _heavy(numbers[order[:first]], len(first_rows), needs.beta, np.ones(first))
    levels = levels_of(table[first_rows[bins]], needs.n_levels)
    sizes = max(1, len(bins)).bit_length()
    wanted = [rows for pool in needs.pools[:sizes] for rows in (pool.masses, pool.labels)]
    rest = order[first:]
    if len(rest) < len(wanted):
        raise ValueError(
            f"X must have at least {len(wanted) + 1} rows with estimation='pools' here, got {len(table)}: "
            "give more rows, or estimation='plug-in'"
        )
    ends = np.round(np.cumsum(wanted) / sum(wanted) * (len(rest) - len(wanted))).astype(np.int64)
    parts = np.split(rest, (ends + np.arange(1, len(wanted) + 1))[:-1])
    k = table.shape[1]
    bin_of_row = of_bin[numbers]
    masses = np.zeros((sizes, len(bins)))
    ones = np.zeros((sizes, len(bins), k))
    for i in range(sizes):
        for_masses, for_labels = (rows[bin_of_row[rows] >= 0] for rows in parts[2 * i : 2 * i + 2])
        masses[i] = np.bincount(bin_of_row[for_masses], minlength=len(bins))
        ones[i] = _label_counts(bin_of_row[for_labels], labels[for_labels], len(bins), k)
    rows = np.array([len(part) for part in parts], dtype=np.float64)
    return Statistics(levels, None, noisy_pools(masses, ones, rows[::2], rows[1::2], delta, rng))


def noisy_pools(
    masses: Floats, labels: Floats, mass_rows: Floats, label_rows: Floats, delta: float, rng: Any
) -> PoolCounts:
    """Counts (s, B) and (s, B, k) of separate pools, with the Laplace noise of Lemma 9 drawn for every group.

    At most 2B groups ever occur in M. The noise has scale 8/(m a), where a is the accuracy that the pool's m
    rows allow. With as many rows as the lemmas ask for, it is the accuracy that they ask for.
    """
    sizes, n_bins, k = labels.shape
    per_pool = delta / (3 * sizes)
    events = [max(1, n_bins >> i) for i in range(sizes)]
    mass_scales = [laplace_scale(m, e, 1, per_pool) for m, e in zip(mass_rows, events, strict=True)]
    label_scales = [laplace_scale(m, e, k, per_pool) for m, e in zip(label_rows, events, strict=True)]
    return PoolCounts(
        masses,
        labels,
        mass_rows,
        label_rows,
        rng.laplace(size=2 * n_bins),
        rng.laplace(size=(2 * n_bins, k)),
        np.array(mass_scales),
        np.array(label_scales),
    )


def _heavy(numbers: Ints, n_sets: int, beta: float, weights: Floats) -> tuple[Ints, Ints]:
    """The level sets with at least beta/6 of these rows, and the number of each level set's bin, or -1."""
    counts = np.bincount(numbers, weights, minlength=n_sets)
    bins = np.flatnonzero((counts >= beta / 6.0 * weights.sum()) & (counts > 0))
    of_bin = np.full(n_sets, -1, dtype=np.int64)
    of_bin[bins] = np.arange(len(bins))
    return bins, of_bin


def _label_counts(
    bin_of_row: Ints, labels: Ints, n_bins: int, k: int, weights: Floats | None = None
) -> Floats:
    """How often each label comes in each bin, shape (B, k)."""
    counts = np.bincount(bin_of_row * k + labels, weights, minlength=n_bins * k)
    return counts.reshape(n_bins, k).astype(np.float64)
