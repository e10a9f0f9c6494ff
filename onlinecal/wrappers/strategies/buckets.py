"""Buckets of hints that split as rounds go by, so that their number need not be chosen."""

from __future__ import annotations

from typing import Any, Literal, get_args

from onlinecal.validation import check_count

Auto = Literal["auto"]
Buckets = int | Auto
"""So many equal-width buckets, or buckets that split."""
(AUTO,) = get_args(Auto)

PATIENCE = 96
"""Rounds after which the first bucket is halved, at slack 1: 8 G^2, where n rounds of a bucket are within
G sqrt(n) of calibrated, G = 2 sqrt(3 slack). The bound on the Brier score hardly depends on it."""


def check_buckets(value: Any, name: str) -> None:
    """Refuse what is neither a number of buckets nor "auto"."""
    if isinstance(value, str):
        if value != AUTO:
            raise ValueError(f"{name} must be a whole number of at least 1 or {AUTO!r}, got {value!r}")
    else:
        check_count(value, name)


class SplittingBuckets:
    """A binary tree of dyadic buckets: one of level j is halved once it has had a 4^j rounds.

    What its width costs in these rounds then is in proportion to what bias costs, which grows with the square
    root of the rounds.

    Parameters
    ----------
    patience
        a, the rounds of the first bucket, which is [0, 1].

    Attributes
    ----------
    limits
        By place, the order in which buckets came to be: how many rounds a bucket may have.
    halves
        By place: where its lower half is, with the upper one next to it; 0 for a bucket that is in use.
    """

    def __init__(self, patience: int) -> None:
        self.limits = [patience]
        self.halves = [0]

    def find(self, hint: float) -> int:
        """The place of the bucket in use that a hint in [0, 1] is in; of two, the upper one."""
        place, rest = 0, hint
        while self.halves[place]:
            rest *= 2.0
            upper = rest >= 1.0
            rest -= upper
            place = self.halves[place] + upper
        return place

    def is_due(self, place: int, rounds: int) -> bool:
        """Whether a bucket that has had so many rounds is to be halved."""
        return not self.halves[place] and rounds >= self.limits[place]

    def halve(self, place: int) -> None:
        """Let two new buckets, at the end of all places, take over from one."""
        self.halves[place] = len(self.halves)
        self.halves += [0, 0]
        self.limits += [4 * self.limits[place]] * 2
