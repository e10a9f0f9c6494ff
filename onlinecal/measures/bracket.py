"""A certified bracket of the distance to calibration for histories of any length."""

from __future__ import annotations

import numpy as np

from onlinecal.measures.counts import Counts, Floats
from onlinecal.measures.levels import Levels, distance_to
from onlinecal.measures.relaxation import relax
from onlinecal.measures.rounding import round_to_levels

NODES = 1200
"""Nodes of the relaxation at budget 1."""

PATH_WORK = 10_000_000
"""Level sets tried while rounding, at budget 1."""


def bracket(counts: Counts, starts: list[Levels], budget: float) -> tuple[float, float, Levels]:
    """Lower end, upper end and the level sets that attain it.

    starts: calibrated sequences known beforehand. The lower end is the relaxation's, proven by its
    potentials; the upper end is the best of the starts and the rounded relaxation.
    """
    relaxation = relax(counts, _nodes(counts, max(32, int(NODES * budget))))
    n_levels = int((relaxation.masses > 0).sum())
    width = (PATH_WORK * budget / n_levels) ** 0.25
    radius = min(8, max(1, int((width - 1) / 2)))
    candidates = [*starts, round_to_levels(counts, relaxation.nodes, relaxation.masses, radius)]
    distances = [distance_to(counts, levels) for levels in candidates]
    best = int(np.argmin(distances))
    upper = distances[best]
    return min(relaxation.lower, upper), upper, candidates[best]


def _nodes(counts: Counts, limit: int) -> Floats:
    """About `limit` nodes: the forecasts and cuts of their gaps, or quantiles if there are too many."""
    values = counts.values
    if len(values) > limit:
        ranks = np.cumsum(counts.zeros + counts.ones)
        wanted = np.linspace(0, ranks[-1], limit // 2)
        values = np.unique(values[np.minimum(np.searchsorted(ranks, wanted), len(values) - 1)])
        values = np.union1d(values, np.linspace(0.0, 1.0, limit // 2))
    nodes = np.union1d(values, [0.0, 1.0])
    cuts = min(4, max(1, limit // len(nodes)))
    parts = [nodes[:-1] + np.diff(nodes) * (k / cuts) for k in range(cuts)]
    return np.unique(np.concatenate([*parts, nodes]))
