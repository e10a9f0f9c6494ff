"""Algorithm 2 of l_p recalibration on counts: from statistics of the bins to one prediction per group.

Algorithm 2 of l_p recalibration, compiled: groups, their estimates, the queue of errors, one round.

Names: a bin is a level set of large mass; G's groups are rows of `State`, a merged group keeps the row of
the one that moved; M's groups are nodes, numbered in order of creation, the first ones being the bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled, kernel_part
from onlinecal.measures.lp.level_sets import (
    allowance,
    fill_levels,
    hash_of_levels,
    norm,
    norm_of_pair,
    same_levels,
)
from onlinecal.recalibration.flooring import project
from onlinecal.recalibration.lp.statistics import Pools, State, Statistics, rho


@kernel_part
def climb(tree: Floats, g: int, value: float, p: float) -> None:
    """Put a group's value into a tree of l_p norms; p = inf makes it a tree of maxima."""
    place = tree.shape[0] // 2 + g
    tree[place] = value
    while place > 1:
        place //= 2
        tree[place] = norm_of_pair(tree[2 * place], tree[2 * place + 1], p)


@kernel_part
def largest(tree: Floats) -> int:
    """The group with the largest value, the first of equals."""
    place = 1
    half = tree.shape[0] // 2
    while place < half:
        place = 2 * place if tree[2 * place] >= tree[2 * place + 1] else 2 * place + 1
    return place - half


@kernel_part
def estimate(state: State, pools: Pools, node: int, size: int) -> None:
    """Estimate a node of 2^size bins from its pools, once, with noise of its own, kept within [0, 1]."""
    pool = min(size, pools.masses.shape[0] - 1)
    labels = state.node_labels[node]
    k = labels.shape[0]
    for j in range(k):
        labels[j] = 0.0
    mass = 0.0
    b = state.heads[node]
    while b >= 0:
        mass += pools.masses[pool, b]
        for j in range(k):
            labels[j] += pools.labels[pool, b, j]
        b = state.next_bin[b]
    mass /= pools.mass_rows[pool]
    for j in range(k):
        labels[j] /= pools.label_rows[pool]
    if pools.mass_noise.shape[0] > 0:
        mass += pools.mass_scales[pool] * pools.mass_noise[node]
        for j in range(k):
            noisy = labels[j] + pools.label_scales[pool] * pools.label_noise[node, j]
            labels[j] = min(max(noisy, 0.0), 1.0)
    state.node_masses[node] = min(max(mass, 0.0), 1.0)


@kernel_part
def add_up(state: State, g: int) -> None:
    """A group's estimates: the sums over its parts in M."""
    labels = state.labels[g]
    for j in range(labels.shape[0]):
        labels[j] = 0.0
    mass = 0.0
    for size in range(state.parts.shape[1]):
        node = state.parts[g, size]
        if node >= 0:
            mass += state.node_masses[node]
            for j in range(labels.shape[0]):
                labels[j] += state.node_labels[node, j]
    state.masses[g] = mass


@kernel_part
def square_of(mass: float, labels: Floats, prediction: Floats) -> float:
    """E|prediction - y|^2 on a group, from its estimates."""
    square = 0.0
    product = 0.0
    # not np.dot: BLAS adds up in an order that depends on the processor
    for j in range(prediction.shape[0]):
        square += prediction[j] * prediction[j]
        product += labels[j] * prediction[j]
    return mass * (1.0 + square) - 2.0 * product


@kernel_part
def refresh(state: State, g: int, p: float, errors: Floats) -> None:
    """Bring a group's errors, its places in the trees and its square up to date."""
    mass = state.masses[g]
    for j in range(errors.shape[0]):
        # an estimated mass of 0 says nothing about frequencies
        errors[j] = abs(mass * state.predictions[g, j] - state.labels[g, j]) if mass > 0.0 else 0.0
    worst = 0
    for j in range(1, errors.shape[0]):
        if errors[j] > errors[worst]:
            worst = j
    state.worst_class[g] = worst
    climb(state.worst, g, errors[worst], np.inf)
    climb(state.norms, g, norm(errors, p), p)
    square = square_of(mass, state.labels[g], state.predictions[g])
    state.total[0] += square - state.squares[g]
    state.squares[g] = square


@kernel_part
def enter(state: State, g: int) -> None:
    """Put a group into the hash table under its level set."""
    bucket = np.int64(state.keys[g] & np.uint64(state.buckets.shape[0] - 1))
    state.next_group[g] = state.buckets[bucket]
    state.buckets[bucket] = g


@kernel_part
def leave(state: State, g: int) -> None:
    """Take a group out of the hash table."""
    bucket = np.int64(state.keys[g] & np.uint64(state.buckets.shape[0] - 1))
    other = state.buckets[bucket]
    if other == g:
        state.buckets[bucket] = state.next_group[g]
        return
    while state.next_group[other] != g:
        other = state.next_group[other]
    state.next_group[other] = state.next_group[g]


@kernel_part
def find(state: State, g: int) -> int:
    """The entered group with the level set of g, or -1; there is at most one."""
    other = state.buckets[np.int64(state.keys[g] & np.uint64(state.buckets.shape[0] - 1))]
    while other >= 0:
        if state.keys[other] == state.keys[g] and same_levels(state.levels[other], state.levels[g]):
            return other
        other = state.next_group[other]
    return -1


@kernel_part
def join(state: State, pools: Pools, first: int, second: int, size: int) -> int:
    """A new node of 2^(size + 1) bins from two nodes of 2^size, estimated anew."""
    node = state.counts[0]
    state.counts[0] += 1
    state.children[node, 0] = first
    state.children[node, 1] = second
    state.heads[node] = state.heads[first]
    state.next_bin[state.tails[first]] = state.heads[second]
    state.tails[node] = state.tails[second]
    estimate(state, pools, node, size + 1)
    return node


@kernel_part
def merge_parts(state: State, pools: Pools, g: int, other: int) -> None:
    """Give g the parts of `other`; parts of equal size are joined until all sizes differ: binary addition."""
    carry = -1
    for size in range(state.parts.shape[1]):
        mine = state.parts[g, size]
        theirs = state.parts[other, size]
        state.parts[other, size] = -1
        kept = -1
        following = -1
        if mine >= 0 and theirs >= 0:
            following = join(state, pools, mine, theirs, size)
            kept = carry
        elif carry >= 0 and (mine >= 0 or theirs >= 0):
            following = join(state, pools, max(mine, theirs), carry, size)
        else:
            kept = max(mine, theirs, carry)
        state.parts[g, size] = kept
        carry = following


@compiled
def start(state: State, pools: Pools, p: float) -> None:
    """One group and one node per bin; `predictions` and `levels` are already filled."""
    errors = np.empty(state.levels.shape[1])
    for b in range(state.levels.shape[0]):
        state.heads[b] = b
        state.tails[b] = b
        state.parts[b, 0] = b
        state.keys[b] = hash_of_levels(state.levels[b])
        estimate(state, pools, b, 0)
        add_up(state, b)
        enter(state, b)
        refresh(state, b, p, errors)
    state.counts[0] = state.levels.shape[0]


@kernel_part
def contradicts(mass: float, labels: Floats, slack: float) -> bool:
    """Whether no distribution u has |mass u_j - labels_j| <= slack for all classes.

    Exact estimates never contradict each other, and noisy ones do not while they are as good as the lemmas
    ask. Where they do not at a quarter of the tolerance, each correction brings the prediction nearer to such
    a u, by at least tolerance^2/(2 mass^2) in squared distance, so corrections come to an end.
    """
    low = 0.0
    high = 0.0
    for label in labels:
        if label - slack > mass:
            return True
        low += max(0.0, label - slack)
        high += min(mass, label + slack)
    return low > mass or high < mass


@compiled
def advance(
    state: State,
    pools: Pools,
    n_levels: int,
    slack: float,
    tolerance: float,
    p: float,
    moves: Ints,
    amounts: Floats,
) -> int:
    """Rounds until no error exceeds the tolerance or `moves` is full; how many were played.

    Row t of `moves`: the group that moved, the class, the group merged into it (-1: none). Row t of
    `amounts`: the change of the squared error by stage 1 and by stage 2, then the l_p norm of all errors and
    the squared error, after the round.
    """
    k = state.levels.shape[1]
    z = np.empty(k)
    new = np.empty(k)
    t = 0
    while t < moves.shape[0]:
        if not state.worst[1] > tolerance:
            return t
        g = largest(state.worst)
        if contradicts(state.masses[g], state.labels[g], 0.25 * tolerance + 1e-12):
            # left as it is, unless another group merges with it
            climb(state.worst, g, 0.0, np.inf)
            state.counts[3] += 1
            continue
        j = state.worst_class[g]
        for c in range(k):
            z[c] = state.predictions[g, c]
        z[j] = min(state.labels[g, j] / state.masses[g], 1.0)
        project(z, new)
        square = square_of(state.masses[g], state.labels[g], new)
        amounts[t, 0] = square - state.squares[g]
        amounts[t, 1] = 0.0
        leave(state, g)
        for c in range(k):
            state.predictions[g, c] = new[c]
        state.keys[g] = fill_levels(new, n_levels, slack, state.levels[g])
        other = find(state, g)
        if other >= 0:
            leave(state, other)
            if state.masses[g] <= state.masses[other]:
                # the level set stays the same, and with it the key
                for c in range(k):
                    state.predictions[g, c] = state.predictions[other, c]
                moved = square_of(state.masses[g], state.labels[g], state.predictions[g])
                amounts[t, 1] = moved - square
            else:
                moved = square_of(state.masses[other], state.labels[other], new)
                amounts[t, 1] = moved - state.squares[other]
            merge_parts(state, pools, g, other)
            add_up(state, g)
            climb(state.worst, other, 0.0, np.inf)
            climb(state.norms, other, 0.0, p)
            state.total[0] -= state.squares[other]
            state.squares[other] = 0.0
            state.counts[2] += 1
        enter(state, g)
        refresh(state, g, p, z)
        moves[t, 0] = g
        moves[t, 1] = j
        moves[t, 2] = other
        amounts[t, 2] = state.norms[1]
        amounts[t, 3] = state.total[0]
        state.counts[1] += 1
        t += 1
    return t


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
