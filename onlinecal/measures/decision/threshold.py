"""The promised and the realised costs of decisions by a jittered threshold, as in Theorem 4c.

A pure function: sums are correctly rounded, so their order does not matter. That acting has a chance between
0 and 1, which changes by 1/width a unit of p, is what the theorem needs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.tables.columns import check_share_history
from onlinecal.validation import check_number


class ThresholdCosts(NamedTuple):
    """What acting on forecasts above a threshold costs, averages over rounds; `threshold_costs` computes it.

    Acting in vain costs the threshold, and not acting when it would have helped 1 less the threshold.

    Attributes
    ----------
    promised
        The expected cost if each outcome is 1 with the probability that was forecast.
    realised
        The cost with the outcomes that came.
    """

    promised: float
    realised: float


def threshold_costs(
    forecasts: ArrayLike, outcomes: ArrayLike, threshold: float, width: float
) -> ThresholdCosts:
    """What it costs on average to act whenever a forecast is above a threshold that is slightly random.

    One acts on a forecast p if p >= threshold + U, with U uniform on [-width/2, width/2] and drawn anew for
    each round; costs are expected values over U, so nothing is drawn here.

    Acting costs `threshold` if the outcome is 0, and not acting 1 - `threshold` if it is 1; all else costs 0.
    So both have the same expected cost where p is the threshold.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or numbers in [0, 1], shape (T,).
    threshold
        A number from 0 to 1.
    width
        Of the range of U: a number above 0 and at most 1.

    Returns
    -------
    ThresholdCosts
        `promised`, if each outcome were 1 with probability p, and `realised`, with the outcomes; averages
        over rounds.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, threshold or width; the message names the argument, the value and its row.

    Examples
    --------
    >>> costs = threshold_costs([0.9, 0.9, 0.9, 0.1], [1, 1, 0, 0], threshold=0.5, width=0.05)
    >>> [round(cost, 3) for cost in costs]
    [0.05, 0.125]
    """
    check_number(threshold, "threshold", 0.0, 1.0, "[]", "a number from 0 to 1")
    check_number(width, "width", 0.0, 1.0, "(]", "a width above 0 and at most 1")
    p, y = check_share_history(forecasts, outcomes)
    acts = np.clip((p - threshold) / width + 0.5, 0.0, 1.0)

    in_vain, missed = threshold * acts, (1.0 - threshold) * (1.0 - acts)
    promised, realised = (
        math.fsum(in_vain * (1.0 - chance) + missed * chance) / len(p) for chance in (p, y.astype(np.float64))
    )
    return ThresholdCosts(promised, realised)
