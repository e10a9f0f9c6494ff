"""Algorithm 2 of l_p recalibration on counts: from statistics of the bins to one prediction per group."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.lp.level_sets import allowance
from onlinecal.recalibration.lp.kernels import advance, start
from onlinecal.recalibration.lp.statistics import State, Statistics, rho

SLICE = 20_000
"""Rounds between two looks at the keyboard."""


@dataclass(frozen=True, eq=False)
class History:
    """What every round did, as far as the estimates know; T rounds.

    Attributes
    ----------
    error
        l_p norm of the estimated errors of all groups and classes: at the start and after each round,
        shape (T + 1,). Level sets that are no bins are left out.
    squared_error
        Estimate of E|h(x) - y|^2 on the bins, a sum over classes and an average over all rows,
        shape (T + 1,).
    group, class_number
        Which group moved towards which class's frequency, shape (T,). A group is named by one of its bins.
    merged_with
        The group that then was in the same level set, or -1, shape (T,).
    stage_one, stage_two
        Change of the squared error by the correction, and by the merge, shape (T,).
    """

    error: Floats
    squared_error: Floats
    group: Ints
    class_number: Ints
    merged_with: Ints
    stage_one: Floats
    stage_two: Floats


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of Algorithm 2.

    Attributes
    ----------
    predictions
        One per group, shape (G, k), rows on the simplex.
    masses
        Estimated masses of the groups, shape (G,).
    group_of_bin
        Shape (B,), numbers 0..G-1.
    group_names
        The bin that names each group in the history, shape (G,).
    node_children
        The groups that ever were in M, shape (N, 2): the two that were joined, -1 for single bins.
    history
        Round by round.
    finished
        False when noisy estimates contradicted each other so that errors above the tolerance may be left.
    """

    predictions: Floats
    masses: Floats
    group_of_bin: Ints
    group_names: Ints
    node_children: Ints
    history: History
    finished: bool


def round_bound(beta: float, n_levels: int) -> float:
    """Rounds that Lemma 14 allows: (9 + 36/n_levels log2(36/beta)) / beta^2."""
    return (9.0 + 36.0 / n_levels * math.log2(36.0 / beta)) / beta**2


def run(statistics: Statistics, n_levels: int, tolerance: float, p: float) -> Outcome:
    """Correct and merge until no estimated error of a group and class exceeds the tolerance.

    Groups start from the bins' means if the statistics have them, else from rho. The limit on rounds is
    twice the lemma's: its proof takes the squared error to be at most 1, but over several classes it can
    be 2.
    """
    state = _new_state(statistics, n_levels)
    n_bins = len(statistics.levels)
    slack = allowance(n_levels, statistics.levels.shape[1])
    limit = 2.0 * round_bound(2.0 * tolerance, n_levels)
    begin = np.zeros((1, 4))
    moves: list[Ints] = []
    amounts: list[Floats] = [begin]
    finished = n_bins == 0
    if n_bins:
        start(state, statistics.pools, p)
        begin[0, 2:] = state.norms[1], state.total[0]
    while not finished and state.counts[1] < limit:
        size = int(min(SLICE, limit - state.counts[1] + 1))
        moved, amount = np.empty((size, 3), dtype=np.int64), np.empty((size, 4))
        played = advance(state, statistics.pools, n_levels, slack, tolerance, p, moved, amount)
        moves.append(moved[:played])
        amounts.append(amount[:played])
        finished = played < size
    moved = np.concatenate(moves) if moves else np.empty((0, 3), dtype=np.int64)
    amount = np.concatenate(amounts)
    history = History(amount[:, 2], amount[:, 3], *moved.T, *amount[1:, :2].T)
    names, group_of_bin = np.unique(_groups_of_bins(state), return_inverse=True)
    return Outcome(
        predictions=state.predictions[names],
        masses=state.masses[names],
        group_of_bin=group_of_bin.astype(np.int64),
        group_names=names,
        node_children=state.children[: state.counts[0]].copy(),
        history=history,
        finished=finished and state.counts[3] == 0,
    )


def _new_state(statistics: Statistics, n_levels: int) -> State:
    levels = statistics.levels
    n_bins, k = levels.shape
    leaves = 1 << max(n_bins - 1, 0).bit_length()
    predictions = rho(levels, n_levels) if statistics.means is None else statistics.means.copy()
    return State(
        predictions=predictions,
        levels=levels.copy(),
        keys=np.zeros(n_bins, dtype=np.uint64),
        masses=np.zeros(n_bins),
        labels=np.zeros((n_bins, k)),
        parts=np.full((n_bins, max(n_bins, 1).bit_length()), -1, dtype=np.int64),
        squares=np.zeros(n_bins),
        node_masses=np.zeros(2 * n_bins),
        node_labels=np.zeros((2 * n_bins, k)),
        heads=np.zeros(2 * n_bins, dtype=np.int64),
        tails=np.zeros(2 * n_bins, dtype=np.int64),
        next_bin=np.full(n_bins, -1, dtype=np.int64),
        children=np.full((2 * n_bins, 2), -1, dtype=np.int64),
        buckets=np.full(2 * leaves, -1, dtype=np.int64),
        next_group=np.full(n_bins, -1, dtype=np.int64),
        worst=np.zeros(2 * leaves),
        norms=np.zeros(2 * leaves),
        worst_class=np.zeros(n_bins, dtype=np.int64),
        counts=np.zeros(4, dtype=np.int64),
        total=np.zeros(1),
    )


@compiled
def _groups_of_bins(state: State) -> Ints:
    """For each bin the row of its group."""
    groups = np.empty(state.levels.shape[0], dtype=np.int64)
    for g in range(state.levels.shape[0]):
        for size in range(state.parts.shape[1]):
            node = state.parts[g, size]
            if node >= 0:
                b = state.heads[node]
                while b >= 0:
                    groups[b] = g
                    b = state.next_bin[b]
    return groups
