"""The cheapest cut of the line of forecasts into intervals whose rounds share a level set.

Nothing is kept between calls. `best_cuts` writes `cost` and `came_from`, which `pooling` makes and reads. Of
equally cheap cuts the first is taken. MAX_CUTS and the order of the sums decide which pools are found, and so
upper ends that are not exact, but any pools attain one.
"""

from __future__ import annotations

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.counts import PrefixSums
from onlinecal.measures.distance.levels import Levels, count_up_to, make_levels

MAX_CUTS = 700
"""At most so many places to cut: more forecasts are first joined to groups of about equal size."""


def pooled_levels(sums: PrefixSums, max_cuts: int = MAX_CUTS) -> Levels:
    """Level sets of the cheapest cut of the forecasts into intervals; its time grows like max_cuts^2.

    All rounds with a forecast in one interval go to one level set, whatever their outcome. This is binning
    with the best bins. It is a good start if forecasts are all biased in one direction, or if many are
    distinct.
    """
    kept = pooling(sums, max_cuts)
    return make_levels(np.diff(sums.zeros[kept]), np.diff(sums.ones[kept]))


def pooling(sums: PrefixSums, max_cuts: int = MAX_CUTS) -> Ints:
    """Numbers of forecasts to the left of the cheapest cuts, increasing, from 0 to K."""
    cuts = np.arange(len(sums.zeros))
    if len(cuts) > max_cuts:
        wanted = np.linspace(0, sums.zeros[-1] + sums.ones[-1], max_cuts)
        cuts = np.unique(np.append(np.searchsorted(sums.zeros + sums.ones, wanted[:-1]), len(cuts) - 1))
    # the kernel is compiled for floats alone, which hold all these numbers exactly
    floats = sums._replace(zeros=sums.zeros.astype(np.float64), ones=sums.ones.astype(np.float64))
    costs, came_from = np.full(len(cuts), np.inf), np.zeros(len(cuts), np.int64)
    best_cuts(floats, cuts, costs, came_from)
    kept = [len(cuts) - 1]
    while kept[-1] > 0:
        kept.append(int(came_from[kept[-1]]))
    return cuts[kept[::-1]]


@compiled
def best_cuts(sums: PrefixSums, cuts: Ints, cost: Floats, came_from: Ints) -> None:
    """Fill in what the cheapest level sets cost up to each cut, and from which cut the last of them comes.

    The sums are all float64; cuts (C,): increasing numbers of forecasts to the left, from 0 to K; cost (C,)
    is inf.
    """
    (values, zeros, ones, sums0, sums1), n = sums, len(cuts)
    cost[0] = 0.0
    for i in range(1, n):
        end = cuts[i]
        for h in range(i):
            start = cuts[h]
            s = ones[end] - ones[start]
            v = s / (zeros[end] - zeros[start] + s)
            g = count_up_to(values, v)
            if g < start:
                g = start
            elif g > end:
                g = end
            moved_up = v * (zeros[g] - zeros[start] + ones[g] - ones[start])
            moved_up -= sums0[g] - sums0[start] + sums1[g] - sums1[start]
            moved_down = sums0[end] - sums0[g] + sums1[end] - sums1[g]
            moved_down -= v * (zeros[end] - zeros[g] + ones[end] - ones[g])
            total = cost[h] + moved_up + moved_down
            if total < cost[i]:
                cost[i] = total
                came_from[i] = h
