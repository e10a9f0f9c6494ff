"""The largest conditional error of class probabilities: how wrong the worst level set is, however small."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.measures.lp.errors import checked
from onlinecal.measures.lp.level_sets import number_level_sets
from onlinecal.validation import check_count


def linf_conditional_error(
    probabilities: ArrayLike, labels: ArrayLike, n_levels: int = 10, min_rows: int = 1
) -> float:
    """The largest |average of (f_j - y_j) over v| of any level set v and class j: the l_inf error given v.

    `lp_calibration_error` with p = inf weighs the same averages with the share of rows in v. This one does
    not: a promise that is wrong for a few is as bad as one that is wrong for many. For one event, as two
    classes, it is the maximum calibration error in bins.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    n_levels
        Level sets are those of `lp_calibration_error`.
    min_rows
        Only level sets of at least so many rows count. With 1, a level set of a single row counts: it alone
        makes the error near 1 whenever its label came as a surprise, which is why this error cannot be tested
        with fewer rows than the smallest level set needs. Chance adds about sqrt(v_j (1 - v_j) / rows) to
        each average.

    Returns
    -------
    float
        In units of probability, neither a sum nor an average over rows, from 0 to 1. Between err and
        err * n / min_rows, where err is `lp_calibration_error` with p = inf, if every level set counts.
        0 if none does.

    Raises
    ------
    ValueError
        Bad probabilities, labels, n_levels or min_rows; the message names the argument, the value and its
        row.

    References
    ----------
    Gruber & Buettner, "Better uncertainty calibration via proper scores for classification and beyond"
    (2022), for the conditional error; Naeini, Cooper & Hauskrecht (2015), for one event; Bairaktari & Nguyen,
    "Sample-efficient Multiclass Calibration under l_p Error" (2025), for why they weigh.

    Examples
    --------
    >>> linf_conditional_error([[0.75, 0.25]] * 3 + [[0.25, 0.75]], [0, 0, 1, 0], n_levels=4)
    0.75
    >>> round(linf_conditional_error([[0.75, 0.25]] * 3 + [[0.25, 0.75]], [0, 0, 1, 0], 4, min_rows=2), 9)
    0.083333333

    """
    check_count(min_rows, "min_rows")
    table, classes, _, n_levels = checked(probabilities, labels, np.inf, n_levels)
    numbers, first_rows = number_level_sets(table, n_levels)
    biases = table.copy()
    biases[np.arange(len(classes)), classes] -= 1.0
    sums = np.zeros((len(first_rows), table.shape[1]))
    np.add.at(sums, numbers, biases)
    rows = np.bincount(numbers)
    enough = rows >= min_rows
    return float(np.max(np.abs(sums[enough]) / rows[enough, None], initial=0.0))
