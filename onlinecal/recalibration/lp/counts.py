"""Counts of a stream's level sets in bounded memory: the heavy ones are always among those kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.recalibration.lp.statistics import Pools, Statistics, noisy_pools, single_pool

Key = tuple[tuple[int, int], ...]
"""A level set: the classes with a level above 0, and these levels."""

LARGEST_WEIGHT = 1e100


class Entry:
    """One kept level set: its credit, and per pool its weight and its labels' weights."""

    __slots__ = ("credit", "labels", "sums", "weights")

    def __init__(self, credit: float, n_pools: int) -> None:
        self.credit = credit
        self.weights = [0.0] * n_pools
        self.labels: list[dict[int, float]] = [{} for _ in range(n_pools)]
        self.sums: dict[int, float] = {}


class LevelSetCounts:
    """Misra and Gries' heavy hitters over level sets, with what recalibration wants to know of each.

    At most `capacity` level sets are kept. When another one turns up, every kept one pays the same amount
    of credit, and those with none left go. A level set with more than 1/(capacity + 1) of the whole weight
    is always kept, and its count misses at most that part of it.

    Parameters
    ----------
    capacity
        Level sets kept.
    n_pools
        Pools that the rounds are dealt to; 1: all rounds count for everything.
    fading
        None, or the factor in (0, 1) by which what was counted loses weight with each round.
    """

    def __init__(self, capacity: int, n_pools: int = 1, fading: float | None = None) -> None:
        self.capacity = capacity
        self.fading = fading
        self.entries: dict[Key, Entry] = {}
        self.totals = [0.0] * n_pools
        self.paid = 0.0
        self.weight = 1.0

    def add(self, key: Key, forecast: dict[int, float], label: int, pool: int = 0) -> None:
        """Count one round: its level set, its probabilities by class number, its label's number, its pool."""
        weight = self.weight
        self.totals[pool] += weight
        entry = self.entries.get(key)
        if entry is None:
            entry = self._admit(key, weight)
        else:
            entry.credit += weight
        if entry is not None:
            entry.weights[pool] += weight
            entry.labels[pool][label] = entry.labels[pool].get(label, 0.0) + weight
            for j, u in forecast.items():
                entry.sums[j] = entry.sums.get(j, 0.0) + weight * u
        if self.fading is not None:
            self.weight /= self.fading
            if self.weight > LARGEST_WEIGHT:
                self._scale(1.0 / self.weight)

    def _admit(self, key: Key, weight: float) -> Entry | None:
        if len(self.entries) >= self.capacity:
            paid = min(weight, min(entry.credit for entry in self.entries.values()) - self.paid)
            self.paid += paid
            weight -= paid
            if len(gone := [k for k, entry in self.entries.items() if entry.credit <= self.paid]):
                for k in gone:
                    del self.entries[k]
            if weight <= 0.0 and len(self.entries) >= self.capacity:
                return None
        entry = Entry(self.paid + weight, len(self.totals))
        self.entries[key] = entry
        return entry

    def _scale(self, factor: float) -> None:
        """Measure all weights in another unit."""
        self.weight *= factor
        self.paid *= factor
        self.totals = [total * factor for total in self.totals]
        for entry in self.entries.values():
            entry.credit *= factor
            entry.weights = [weight * factor for weight in entry.weights]
            entry.labels = [{j: w * factor for j, w in labels.items()} for labels in entry.labels]
            entry.sums = {j: total * factor for j, total in entry.sums.items()}

    @property
    def rounds(self) -> float:
        """The weight of all rounds in units of the next one's."""
        return sum(self.totals) / self.weight


def statistics_of(
    windows: list[LevelSetCounts], n_classes: int, beta: float, with_means: bool, seed: int, delta: float
) -> Statistics:
    """The bins of several counts together, as Algorithm 2 wants them.

    With several pools the first one finds the bins; pools 1 + 2i and 2 + 2i estimate masses and label
    frequencies of groups of 2^i bins. Bins are those with at least beta/6 of the weight.
    """
    units = [1.0 / window.weight for window in windows]
    keys: dict[Key, float] = {}
    for window, unit in zip(windows, units, strict=True):
        for key, entry in window.entries.items():
            keys[key] = keys.get(key, 0.0) + unit * entry.weights[0]
    n_pools = len(windows[0].totals)
    totals = [
        sum(unit * window.totals[i] for window, unit in zip(windows, units, strict=True))
        for i in range(n_pools)
    ]
    bins = [key for key, weight in keys.items() if weight > 0 and weight >= beta / 6.0 * totals[0]]
    shape = (n_pools, len(bins), n_classes)
    masses, labels, means = np.zeros(shape[:2]), np.zeros(shape), np.zeros(shape[1:])
    for b, key in enumerate(bins):
        for window, unit in zip(windows, units, strict=True):
            if key not in window.entries:
                continue
            kept = window.entries[key]
            for i in range(n_pools):
                masses[i, b] += unit * kept.weights[i]
                for j, weight in kept.labels[i].items():
                    labels[i, b, j] += unit * weight
            for j, total in kept.sums.items():
                means[b, j] += unit * total
    if with_means:
        means /= means.sum(axis=1, keepdims=True)
    return Statistics(
        _levels(bins, n_classes),
        means if with_means else None,
        _pools(masses, labels, totals, delta, seed),
    )


def _levels(bins: list[Key], n_classes: int) -> Ints:
    levels = np.zeros((len(bins), n_classes), dtype=np.int64)
    for b, key in enumerate(bins):
        for j, level in key:
            levels[b, j] = level
    return levels


def _pools(masses: Floats, labels: Floats, totals: Any, delta: float, seed: int) -> Pools:
    if len(masses) == 1:
        return single_pool(masses[0], labels[0], totals[0])
    sizes = max(1, masses.shape[1]).bit_length()
    rows = np.maximum(np.array(totals[1:]), 1e-300)
    used = slice(0, sizes)
    rng = np.random.default_rng(seed)
    return noisy_pools(masses[1::2][used], labels[2::2][used], rows[0::2][used], rows[1::2][used], delta, rng)
