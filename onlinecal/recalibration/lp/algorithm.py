"""Algorithm 2 of l_p recalibration on counts: from statistics of the bins to one prediction per group.

The paper's words: a bin is a level set of large mass. The groups of G are rows of `MovingGroups`; when two
are merged, the row of the one that moved stays. The groups of M are nodes, which are estimated once and never
change. They are numbered in the order in which they are made, and the first ones are the bins. There are some
hundreds of rounds at most in practice, so they are played in plain Python.

A `MovingGroups` is made for one run, and written by `play`, `merge` and what they call; `run` sets `worst` of
a group that it gives up to 0. What always holds between two rounds: a group that was not merged into another
has the sums of the estimates of its parts, its key is the level set that its prediction is in, and `places`
has it under that key. `LpHistory` and `FinalGroups` never change. Which group moves first (of equal ones the
first), and the order of the nodes, which each have noise of their own, are part of the result; `tests/corpus`
keeps scores of it, up to a tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.lp.level_sets import levels_of
from onlinecal.recalibration.flooring import nearest
from onlinecal.recalibration.lp.statistics import Statistics, rho


class MovingGroups:
    """The groups of G and M while rounds are played.

    Each group of G has a prediction, (B, k), and the sums of the estimates of its parts: masses (B,) and
    labels (B, k). `errors` are |mass prediction - labels|, (B, k), and 0 where the estimated mass is 0, which
    says nothing. `worst`, (B,), is the largest error of a group, or 0 if the group was given up or merged.
    `squares`, (B,), are estimates of E|prediction - y|^2 on each group.

    `parts[g]` maps i to the node of 2^i bins that group g has; no two groups have a bin in common. `bins` has
    the bins of each node, and `children` the two nodes that were joined to it, or -1 for a single bin.
    """

    def __init__(self, statistics: Statistics, n_levels: int) -> None:
        levels, self.pools, self.n_levels = statistics.levels, statistics.pools, n_levels
        n_bins, k = levels.shape
        self.predictions = rho(levels, n_levels) if statistics.means is None else statistics.means.copy()
        self.masses, self.labels = np.zeros(n_bins), np.zeros((n_bins, k))
        self.errors, self.worst, self.squares = np.zeros((n_bins, k)), np.zeros(n_bins), np.zeros(n_bins)
        self.bins: list[list[int]] = []
        self.children: list[tuple[int, int]] = []
        self.estimates: list[tuple[float, Floats]] = []
        self.parts = [{0: self._new_node([b], (-1, -1))} for b in range(n_bins)]
        self.keys = [row.tobytes() for row in levels]
        self.places = {key: g for g, key in enumerate(self.keys)}
        for g, (mass, labels) in enumerate(self.estimates):
            self.masses[g], self.labels[g] = mass, labels
        self.refresh(slice(None))

    def _new_node(self, bins: list[int], children: tuple[int, int]) -> int:
        """Make a node and return its number: it is estimated once, with its own noise, and within [0, 1]."""
        pools, node = self.pools, len(self.bins)
        pool = min(len(bins).bit_length() - 1, len(pools.masses) - 1)
        mass = pools.masses[pool, bins].sum() / pools.mass_rows[pool]
        labels = pools.labels[pool, bins].sum(axis=0) / pools.label_rows[pool]
        if len(pools.mass_noise):
            mass += pools.mass_scales[pool] * pools.mass_noise[node]
            labels = np.clip(labels + pools.label_scales[pool] * pools.label_noise[node], 0.0, 1.0)
        self.bins.append(bins)
        self.children.append(children)
        self.estimates.append((min(max(float(mass), 0.0), 1.0), labels))
        return node

    def add_up(self, g: int) -> None:
        """Set the estimates of a group to the sums over its parts in M."""
        estimates = [self.estimates[node] for _, node in sorted(self.parts[g].items())]
        self.masses[g] = sum(mass for mass, _ in estimates)
        self.labels[g] = sum(labels for _, labels in estimates)

    def square(self, g: Any, prediction: Floats) -> Any:
        """E|prediction - y|^2 on a group, or on each of some groups, from their estimates."""
        square = (prediction * prediction).sum(axis=-1)
        return self.masses[g] * (1.0 + square) - 2.0 * (self.labels[g] * prediction).sum(axis=-1)

    def refresh(self, g: Any) -> None:
        """Compute the errors and the squares of a group, or of some groups, anew."""
        mass = self.masses[g, None]
        self.errors[g] = np.where(mass > 0.0, np.abs(mass * self.predictions[g] - self.labels[g]), 0.0)
        self.worst[g] = self.errors[g].max(axis=-1)
        self.squares[g] = self.square(g, self.predictions[g])

    def merge(self, g: int, other: int) -> None:
        """Give g the parts of `other`; as in binary addition, parts of equal size are joined into one."""
        for size, node in sorted(self.parts[other].items()):
            while size in self.parts[g]:
                twin = self.parts[g].pop(size)
                node, size = self._new_node(self.bins[twin] + self.bins[node], (twin, node)), size + 1
            self.parts[g][size] = node
        self.parts[other] = {}
        self.errors[other], self.worst[other], self.squares[other] = 0.0, 0.0, 0.0
        self.add_up(g)

    def play(self, g: int) -> tuple[int, int, float, float]:
        """Play a round: move a group to its worst class's frequency, and merge it with one in that level set.

        Returns the class, the group that was merged into this one (-1: none), and by how much the correction
        and the merge changed the squared error.
        """
        j = int(self.errors[g].argmax())
        z, new = self.predictions[g].copy(), np.empty_like(self.predictions[g])
        z[j] = min(self.labels[g, j] / self.masses[g], 1.0)
        nearest(z, z, 0.0, math.inf, new)
        square = float(self.square(g, new))
        corrected, merged = square - self.squares[g], 0.0
        self.predictions[g] = new
        del self.places[self.keys[g]]
        self.keys[g] = levels_of(new, self.n_levels).tobytes()
        other = self.places.pop(self.keys[g], -1)
        if other >= 0:
            if self.masses[g] <= self.masses[other]:
                self.predictions[g] = self.predictions[other]
                merged = float(self.square(g, self.predictions[g])) - square
            else:
                merged = float(self.square(other, new)) - float(self.squares[other])
            # both predictions are in the same level set, so the key stays
            self.merge(g, other)
        self.places[self.keys[g]] = g
        self.refresh(g)
        return j, other, corrected, merged

    def error(self, p: float) -> float:
        """The l_p norm of all errors, without overflow or underflow of the powers."""
        high = self.errors.max(initial=0.0)
        if high == 0.0 or math.isinf(p):
            return float(high)
        ratios = self.errors[self.errors > 0.0] / high
        return float(high * (ratios**p).sum() ** (1.0 / p))


def contradicts(mass: float, labels: Floats, slack: float) -> bool:
    """Whether no distribution u has |mass u_j - labels_j| <= slack for all classes.

    Exact estimates never contradict each other, and noisy ones do not if they are as good as the lemmas ask.
    If estimates do not contradict each other with a slack of a quarter of the tolerance, each correction
    brings the prediction nearer to such a u, by at least tolerance^2/(2 mass^2) in squared distance. So
    corrections come to an end.
    """
    if (labels - slack > mass).any():
        return True
    low, high = np.maximum(0.0, labels - slack).sum(), np.minimum(mass, labels + slack).sum()
    return bool(low > mass or high < mass)


@dataclass(frozen=True, eq=False)
class LpHistory:
    """What each of T rounds did, by the estimates.

    Attributes
    ----------
    error
        The l_p norm of the estimated errors of all groups and classes, at the start and after each round,
        shape (T + 1,). Level sets that are not bins are left out.
    squared_error
        The estimate of E|h(x) - y|^2 on the bins, a sum over classes and an average over all rows,
        shape (T + 1,).
    group, class_number
        Which group moved towards which class's frequency, shape (T,). A group is named by one of its bins.
    merged_with
        The group that was in the same level set after the move, or -1, shape (T,).
    stage_one, stage_two
        The changes of the squared error by the correction, and by the merge, shape (T,).
    """

    error: Floats
    squared_error: Floats
    group: Ints
    class_number: Ints
    merged_with: Ints
    stage_one: Floats
    stage_two: Floats


@dataclass(frozen=True, eq=False)
class FinalGroups:
    """The result of Algorithm 2: predictions (G, k) and estimated masses (G,) of the groups.

    `group_of_bin`, (B,), has the number of each bin's group, and `group_names`, (G,), the bin that names each
    group in the history. `node_children`, (N, 2), has for each node that ever was in M the two nodes that
    were joined to it, or -1 for a single bin. If it is not `finished`, noisy estimates contradicted each
    other, so that errors above the tolerance may be left.
    """

    predictions: Floats
    masses: Floats
    group_of_bin: Ints
    group_names: Ints
    node_children: Ints
    history: LpHistory
    finished: bool


def round_bound(beta: float, n_levels: int) -> float:
    """The most rounds by Lemma 14: (9 + 36/n_levels log2(36/beta)) / beta^2."""
    return (9.0 + 36.0 / n_levels * math.log2(36.0 / beta)) / beta**2


def run(statistics: Statistics, n_levels: int, tolerance: float, p: float) -> FinalGroups:
    """Correct and merge until no estimated error of a group and class exceeds the tolerance.

    Groups start from the bins' means if the statistics have them, else from rho. The limit on rounds is twice
    the lemma's: its proof assumes a squared error of at most 1, but over several classes it can be 2.
    """
    groups, limit = MovingGroups(statistics, n_levels), 2.0 * round_bound(2.0 * tolerance, n_levels)
    moves: list[tuple[int, int, int]] = []
    changes: list[tuple[float, float]] = []
    course = [(groups.error(p), float(groups.squares.sum()))]
    given_up = False
    while (is_wrong := bool((groups.worst > tolerance).any())) and len(moves) < limit:
        g = int(groups.worst.argmax())
        if contradicts(groups.masses[g], groups.labels[g], 0.25 * tolerance + 1e-12):
            # the group is given up, unless another one merges with it
            groups.worst[g], given_up = 0.0, True
            continue
        j, other, corrected, merged = groups.play(g)
        moves.append((g, j, other))
        changes.append((corrected, merged))
        course.append((groups.error(p), float(groups.squares.sum())))
    group_of_bin = np.zeros(len(groups.masses), dtype=np.int64)
    names = [g for g, parts in enumerate(groups.parts) if parts]
    for number, g in enumerate(names):
        for node in groups.parts[g].values():
            group_of_bin[groups.bins[node]] = number
    moved = np.array(moves, dtype=np.int64).reshape(-1, 3)
    change = np.array(changes, dtype=np.float64).reshape(-1, 2)
    return FinalGroups(
        predictions=groups.predictions[names],
        masses=groups.masses[names],
        group_of_bin=group_of_bin,
        group_names=np.array(names, dtype=np.int64),
        node_children=np.array(groups.children, dtype=np.int64).reshape(-1, 2),
        history=LpHistory(*np.array(course).T, *moved.T, *change.T),
        finished=not (is_wrong or given_up),
    )
