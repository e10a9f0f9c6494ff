"""Buckets of the hint that split, each with a bias table of its own.

`Projection` has one `SplittingBuckets` and calls it: `find` for a hint, and `note` for each round that was
settled. If `note` says so it calls `halve`, and then appends two tables to its own. `note` and `halve` write;
a column that is played at once (`Projection.replay`) also writes `noted[0]`, if the first bucket is in use.

Between two rounds the three lists and the projection's `tables` have the same length. A bucket with halves is
not in use, and stays; its halves are two neighbouring places behind it.
"""

from __future__ import annotations

import math

FIRST_HALVED = 96
"""Rounds that the first bucket has at least before it is halved, at slack 1: 8 G^2, where n rounds of a
bucket are within G sqrt(n) of calibrated, G = 2 sqrt(3 slack). The bound on the Brier score hardly depends on
it, but combined forecasts do."""


class SplittingBuckets:
    """A binary tree of dyadic buckets: one is halved once as much was noted of it as its limit says.

    A wrapper notes the squared error by which forecasts are behind the hints: 2^j tau of it halves a bucket
    of level j, and where hints do not mislead nothing is ever halved (docs/theory.md, Theorem 17g). Theorem
    17b, which its proof goes back to, notes rounds, of which a 4^j halve a bucket.

    Lists are by place, the order in which buckets came to be: the first is [0, 1].
    """

    def __init__(self, limit: float, growth: int) -> None:
        self.limits = [limit]
        """What may be noted of a bucket: a or tau, multiplied by `growth` from one level to the next."""
        self.noted = [0.0]
        self.halves = [0]
        """Where the lower half of a bucket is, with the upper one next to it; 0 for one that is in use."""
        self._growth = growth

    def find(self, hint: float) -> int:
        """The place of the bucket in use that a hint in [0, 1] is in; of two, the upper one."""
        place, rest = 0, hint
        while self.halves[place]:
            rest *= 2.0
            upper = rest >= 1.0
            rest -= upper
            place = self.halves[place] + upper
        return place

    def note(self, place: int, amount: float) -> bool:
        """Note so much of a bucket; whether it is to be halved."""
        self.noted[place] += amount
        return not self.halves[place] and self.noted[place] >= self.limits[place]

    def halve(self, place: int) -> None:
        """Let two new buckets, at the end of all places, take over from one; the caller adds their tables."""
        self.halves[place] = len(self.halves)
        self.halves += [0, 0]
        self.noted += [0.0, 0.0]
        self.limits += [self._growth * self.limits[place]] * 2


def new_splitting(slack: float) -> SplittingBuckets:
    """One bucket that splits where hints mislead the forecasts."""
    rounds = FIRST_HALVED * slack
    # by how much forecasts can be behind in the rounds after which the bucket would be halved
    return SplittingBuckets(rounds / 2.0 + 4.0 * math.sqrt(3.0 * slack * rounds), 2)
