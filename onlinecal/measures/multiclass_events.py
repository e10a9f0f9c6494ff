"""Errors of class probabilities that look at one event a time: each class, the top class, or being right.

They are weaker than calibration of whole rows (`lp_calibration_error`): a forecaster can be at 0 in all three
and still be wrong about what comes second.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.expected import expected_calibration_error
from onlinecal.validation import check_labelled_rows, check_outcome_rows


def classwise_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int | None = None, normalize: bool = False
) -> float:
    """The sum over classes of the expected calibration error of "this class comes true".

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1; or soft labels, rows of shares with sum
        1, shape (n, k).
    bins
        None: a level set of a class is all rows that give it exactly the same probability. A number B:
        equal-width bins, as for `expected_calibration_error`.
    normalize
        False: a sum over rows and classes. True: divided by n, a sum over classes of averages over rows.

    Returns
    -------
    float
        Divide by k, too, for the average over classes of Kull et al. For two classes and bins=None it is
        twice the expected calibration error of either.

    Raises
    ------
    ValueError
        Bad probabilities, labels or bins; the message names the argument, the value and its row.

    References
    ----------
    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with
    Dirichlet calibration" (2019); Nixon et al., "Measuring calibration in deep learning" (2019).

    Examples
    --------
    >>> classwise_calibration_error([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [0, 1])
    1.0

    """
    table, came = check_outcome_rows(probabilities, labels)
    errors = []
    for j, column in enumerate(table.T):
        shares = np.minimum(came[:, j], 1.0) if came.ndim == 2 else came == j
        errors.append(expected_calibration_error(np.minimum(column, 1.0), shares, bins, normalize))
    return math.fsum(errors)


def confidence_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int | None = None, normalize: bool = False
) -> float:
    """The expected calibration error of the largest probability, as a forecast of "the top class is right".

    It is what is printed as "ECE" of classifiers, usually with 15 bins and normalize=True.

    Parameters
    ----------
    probabilities, labels, bins
        As for `classwise_calibration_error`, without soft labels. The top class is the one of largest
        probability, of several the first.
    normalize
        False: a sum over rows. True: their average.

    Raises
    ------
    ValueError
        As for `classwise_calibration_error`.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).

    Examples
    --------
    >>> confidence_calibration_error([[0.75, 0.25], [0.25, 0.75]], [0, 0])
    0.5

    """
    table, classes = check_labelled_rows(probabilities, labels)
    _, confidence, right = _top(table, classes)
    return expected_calibration_error(confidence, right, bins, normalize)


def top_label_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int | None = None, normalize: bool = False
) -> float:
    """`confidence_calibration_error` within the rows of each top class, added up over the classes.

    It asks that "cat, 0.8" be right four times in five, and "dog, 0.8" as well; confidence only asks it of
    both together. So it is never the smaller of the two.

    Parameters
    ----------
    probabilities, labels, bins, normalize
        As for `confidence_calibration_error`.

    Raises
    ------
    ValueError
        As for `classwise_calibration_error`.

    References
    ----------
    Gupta & Ramdas, "Top-label calibration and multiclass-to-binary reductions" (2022).

    Examples
    --------
    >>> top_label_calibration_error([[0.75, 0.25], [0.25, 0.75]], [0, 0])
    1.0

    """
    table, classes = check_labelled_rows(probabilities, labels)
    top, confidence, right = _top(table, classes)
    errors = [expected_calibration_error(confidence[top == j], right[top == j], bins) for j in np.unique(top)]
    return math.fsum(errors) / (len(classes) if normalize else 1)


def _top(table: Floats, classes: Ints) -> tuple[Ints, Floats, Ints]:
    """Per row: the top class, its probability, and whether it came true."""
    top = table.argmax(axis=1)
    # rows may miss the sum 1 by a little, and so exceed it
    confidence = np.minimum(table[np.arange(len(table)), top], 1.0)
    return top, confidence, (top == classes).astype(np.int64)
