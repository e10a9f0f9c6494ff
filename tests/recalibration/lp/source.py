"""Rows to recalibrate."""

import numpy as np


def source(n, k, seed=0, concentration=0.5, favour=0.4):
    """Forecasts that give the first class too much, and labels drawn from the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, concentration), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    promised = (1 - favour) * truth
    promised[:, 0] += favour
    return promised, labels
