"""Random forecasts with what packages disagree on: ties, forecasts at the ends of bins, exact 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

Input = dict[str, Any]
"""A number of bins, forecasts and outcomes of one event, a table of probabilities and its labels."""


def random_input(seed: int) -> Input:
    """One input; tables have 2 to 10 classes, each of which comes."""
    rng = np.random.default_rng([seed, 2026])
    n, k, bins = int(rng.integers(30, 200)), 2 + seed % 9, int(rng.integers(2, 31))
    p = rng.random(n) ** rng.choice([0.5, 1.0, 3.0])
    # multiples of 1/10, 1/100, 1/B ...; or as they are
    parts = (10, 100, 1000, bins, 0)[seed % 5]
    p = np.round(p * parts) / parts if parts else p
    p[rng.random(n) < 0.1] = 0.0
    p[rng.random(n) < 0.1] = 1.0
    y = (rng.random(n) < 0.15 + 0.7 * p).astype(int)
    y[:2] = 0, 1
    table = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 3.0])), n)
    if parts:
        table = np.diff(np.round(np.cumsum(table, axis=1) * parts), prepend=0.0, axis=1) / parts
    table[rng.random(n) < 0.05] = np.eye(k)[rng.integers(k)]
    labels = np.where(rng.random(n) < 0.6, table.argmax(axis=1), rng.integers(0, k, n))
    labels[:k] = np.arange(k)
    return {
        "bins": bins,
        "forecasts": p.tolist(),
        "outcomes": y.tolist(),
        "probabilities": table.tolist(),
        "labels": labels.tolist(),
    }
