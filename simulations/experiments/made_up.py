"""A table of predictions to try things on where there is none: the truth is drawn, the network spoils it."""

from __future__ import annotations

import numpy as np

from onlinecal.cli.recalibrating.tables import Table

N_ROWS, N_CLASSES = 4000, 6
SURENESS = 2.0
"""The made-up network's logits are so many times too large."""


def made_up_table(n_rows: int = N_ROWS, n_classes: int = N_CLASSES, seed: int = 0) -> Table:
    """Probabilities that are too sure and favour some classes, and labels drawn from the true ones."""
    rng = np.random.default_rng([seed, 20])
    truth = rng.dirichlet(np.full(n_classes, 0.4), n_rows)
    labels = (truth.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    favour = np.linspace(0.0, 1.5, n_classes)
    logits = SURENESS * np.log(truth + 1e-6) + favour + 0.5 * rng.standard_normal(truth.shape)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    table = raised / raised.sum(axis=1, keepdims=True)
    return Table("made-up table", table, labels, tuple(map(str, range(n_classes))))
