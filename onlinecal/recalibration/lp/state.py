"""The arrays of Algorithm 2: counts per bin and pool, groups, their estimates, the queue of errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.lp.level_sets import Floats, Ints


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
