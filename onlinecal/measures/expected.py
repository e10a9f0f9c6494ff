"""Expected calibration error: how far forecasts are from the frequencies that followed them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.measures.counts import Counts, count_shares
from onlinecal.validation import check_count


def expected_calibration_error(
    forecasts: ArrayLike, outcomes: ArrayLike, bins: int | None = None, normalize: bool = False
) -> float:
    """Sum over level sets of the absolute bias, |sum of (forecast - outcome)|.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    bins
        None: a level set is all rounds with exactly the same forecast. A number B: the level sets are the
        equal-width bins [i/B, (i+1)/B), the last one closed; within a bin the biases add up.
    normalize
        False: the sum over rounds. True: divided by T, the average usually printed.

    Returns
    -------
    float
        0 when, within every level set, forecasts and outcomes have the same mean.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or bins; the message names the argument, the value and its row.

    References
    ----------
    Foster & Vohra, "Asymptotic calibration" (1998), for level sets; Naeini, Cooper & Hauskrecht, "Obtaining
    well calibrated probabilities using Bayesian binning" (2015), for bins.

    Examples
    --------
    >>> expected_calibration_error([0.5, 0.5, 1.0], [0, 1, 0])
    1.0

    """
    n_bins = None if bins is None else check_count(bins, "bins")
    counts, _, _ = count_shares(forecasts, outcomes)
    error = expected_error_of_counts(counts, n_bins)
    return error / counts.n_rounds if normalize else error


def expected_error_of_counts(counts: Counts, bins: int | None = None) -> float:
    """The expected calibration error of a counted history, a sum."""
    biases = counts.biases
    if bins is not None:
        # against the correctly rounded edges i/B, the forecast 0.29 is in the bin that starts at 29/100
        edges = np.arange(bins) / bins
        index = np.searchsorted(edges, counts.values, side="right") - 1
        biases = np.asarray(np.bincount(index, weights=biases), dtype=np.float64)
    return math.fsum(np.abs(biases))
