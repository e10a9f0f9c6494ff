"""The averaged two-bin error: a measure that honest forecasts make small, and no others make smaller."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.measures.counts import Counts, count_shares


def two_bin_error(
    forecasts: ArrayLike, outcomes: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """How far from calibrated forecasts are in two bins, below and above an edge drawn evenly from [0, 1].

    For an edge q the squares of both bins' biases, sums of (forecast - outcome) divided by T, are added up;
    the error is the mean of that over q. It is truthful: of independent outcomes, whatever their chances are,
    no forecasts have a smaller mean than the chances themselves. Other calibration errors can be made smaller
    by forecasts that are wrong on purpose.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Returns
    -------
    float
        In [0, 1], in squared units: the square of an average over rounds. Calibrated forecasts have about
        the sum of p (1 - p), divided by T squared; `chance_level` says so of given ones.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    References
    ----------
    Hartline, Hu & Wu, "A perfectly truthful calibration measure" (2025). docs/measures.md has the proof.

    Examples
    --------
    >>> two_bin_error([0.5, 0.5], [1, 1])
    0.25
    >>> two_bin_error([0.5, 0.5], [0, 1])
    0.0

    """
    counts, _, _ = count_shares(forecasts, outcomes, sample_weight)
    return two_bin_error_of_counts(counts) / counts.total


def two_bin_error_of_counts(counts: Counts) -> float:
    """The averaged two-bin error of a counted history, times its rounds."""
    below = np.concatenate([[0.0], np.cumsum(counts.biases)])
    lengths = np.diff(np.concatenate([[0.0], counts.values, [1.0]]))
    return float((lengths * (below**2 + (below[-1] - below) ** 2)).sum() / counts.total)
