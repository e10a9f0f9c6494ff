"""How many folds there can be."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from onlinecal.recalibration.cross_validated.pairs import Labels


def enough_folds(cv: Any, y: Labels) -> Any:
    """A number of folds, no more than there are rows of the rarest class; anything else as it is."""
    if cv is not None and not isinstance(cv, (int, np.integer)):
        return cv
    folds = 5 if cv is None else int(cv)
    known, counts = np.unique(y, return_counts=True)
    fewest, rarest = int(counts.min()), known.tolist()[counts.argmin()]
    if folds <= max(fewest, 1):
        return folds
    if fewest < 2:
        raise ValueError(
            f"cv={folds} needs at least 2 rows of every class, got 1 of class {rarest!r}: take a splitter"
        )
    warnings.warn(
        f"cv={folds} becomes {fewest}: there are {fewest} rows of class {rarest!r}", UserWarning, stacklevel=4
    )
    return fewest
