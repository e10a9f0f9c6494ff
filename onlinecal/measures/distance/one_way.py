"""Level sets that no round moves up to, or none down: of a forecaster that is too high all over, or too low.

If no round moves up, the moves add up to the sum of (forecast - outcome), and no calibrated sequence costs
less. So where this succeeds the distance is known, without a linear program or a search. It is no search of
its own: a history can have such level sets although none are found here.

There is no state. How sets are found may be changed freely: those that miss the bound are not given.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from onlinecal.measures.counts import Counts, PrefixSums, prefix_sums
from onlinecal.measures.distance.fractional.relaxation import deduction, one_way_bound
from onlinecal.measures.distance.levels import Levels, distance_to, make_levels


def one_way_levels(counts: Counts) -> tuple[Levels, float] | None:
    """Level sets that all rounds move down to, or all up if forecasts are too low, and their distance.

    None if none are found. The sets have about sqrt(T) rounds each: larger ones would reach beyond the
    forecasts that they may have, and smaller ones would lose more by their whole numbers. It takes time
    O(sqrt(T) log K), but for sums over all forecasts.
    """
    down = counts.biases.sum() >= 0.0
    # with the outcomes exchanged, what moves up moves down
    turned = Counts(1.0 - counts.values[::-1], counts.ones[::-1], counts.zeros[::-1])
    steps = _steps_down(prefix_sums(counts if down else turned), math.sqrt(counts.n_rounds))
    if steps is None:
        return None
    zeros, ones = np.array(steps).T
    levels = make_levels(zeros, ones) if down else make_levels(ones, zeros)
    distance = distance_to(counts, levels)
    # what is found can miss the bound by rounding alone
    return (levels, distance) if distance - one_way_bound(counts) <= deduction(counts.n_rounds) else None


def _steps_down(sums: PrefixSums, size: float) -> list[tuple[int, int]] | None:
    """Zeros and ones of level sets that take the rounds of each outcome by increasing forecast.

    Each set is as high as its lowest forecasts allow. As soon as all rounds that are left may form one set,
    they do.
    """
    values, zeros, ones = sums.values.tolist(), sums.zeros.tolist(), sums.ones.tolist()
    values.append(math.inf)
    zeros_left, ones_left, steps = zeros[-1], ones[-1], list[tuple[int, int]]()
    while zeros_left or ones_left:
        of_zero = values[bisect_right(zeros, zeros[-1] - zeros_left) - 1]
        of_one = values[bisect_right(ones, ones[-1] - ones_left) - 1]
        highest = min(of_zero, of_one)
        if ones_left <= highest * (zeros_left + ones_left):
            return [*steps, (zeros_left, ones_left)]
        s = int(highest * size)
        if s == 0 and of_zero <= of_one:
            # these zeros are too low to share a set with a round of outcome 1
            r = min(zeros_left, math.ceil(size))
        else:
            s = max(1, s)
            if s > highest * (zeros_left + ones_left):
                return None
            r = math.ceil(s / highest) - s
        if r > zeros_left or s > ones_left:
            return None
        steps.append((r, s))
        zeros_left, ones_left = zeros_left - r, ones_left - s
    return steps
