"""What the bounds on the distance to calibration are made of, as sums over rounds; docs/theory.md has proofs.

The bounds themselves stand in the modules of the grids. d/m bounds the distance from a report to the charged
point: d = 1/2 for the midpoint, 1 for the other reports.

All of it is computed from settings, and nothing here has a state. Forecasts depend on a part of it. Grids are
chosen by `cells_for` and `window_cells`, for wrappers, too, and by `choice`, which reads `Biases` (`under`,
`worst`, `length`) and `reach_of`; whoever changes these changes answers. `MOST_PROMISED` is also the most
rounds that `dyadic` plays and that `soundness` accepts in a memory. A bound may only change with its proof.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

MOST_PROMISED = 1 << 43
"""Promises are made for at most so many rounds."""


class Biases(NamedTuple):
    """A rule's bound on the bias of a point v: slack + corners max(v, 1 - v), while no label is late.

    The balanced rule has its slack and no corners, the sign rule one corner and no slack. Each forecast that
    may be open besides the newest adds a corner.
    """

    slack: float
    corners: int

    @classmethod
    def under(cls, rule: str, slack: float) -> Biases:
        """What a rule promises of the bias of every point."""
        return cls(0.0, 1) if rule == "sign" else cls(slack, 0)

    @property
    def worst(self) -> float:
        """c: what no point's bias exceeds."""
        return self.slack + self.corners

    @property
    def length(self) -> float:
        """The length of an interval that no bias leaves: a corner of point v is v above 0 and 1 - v below."""
        return 2.0 * self.slack + self.corners

    def total(self, n_cells: int, late: int = 0) -> float:
        """The sum of all inner points' bounds; that of max(v, 1 - v) is 3m/4 - 1, + 1/(4m) for odd m."""
        corner = 0.75 * n_cells - 1.0 + (n_cells % 2) / (4.0 * n_cells)
        return self.slack * (n_cells - 1) + (self.corners + late) * corner


class Terms(NamedTuple):
    """What a promise rests on besides the grid.

    `biases` is what the rule promises of the bias of every point. `reach` is d: how far, in cells, a report
    may be from the charged point.
    """

    biases: Biases
    reach: float


def reach_of(report: str) -> float:
    """d: how far in cells a report may be from the charged point."""
    return 0.5 if report == "midpoint" else 1.0


def cells_for(rounds: int, bound: float | Fraction, reach: float) -> int:
    """m = ceil(sqrt(d T / c)), exactly; with it the bound on a uniform grid is at most 2 sqrt(c d T)."""
    return 1 + math.isqrt(math.ceil(Fraction(reach) * rounds / Fraction(bound)) - 1)


def window_cells(window: int, biases: Biases, reach: float, share: int = 1) -> int:
    """m = ceil(sqrt(d W / l)), where so many grids `share` the window m = ceil(sqrt(d W / (B l)))."""
    return cells_for(window, Fraction(biases.length) * share, reach)


def last_bearable(is_too_many: Callable[[int], bool]) -> int:
    """The last number of rounds below the first that are too many.

    `is_too_many` must stay true from that number on, since it is found by bisection.
    """
    return bisect_left(range(1, MOST_PROMISED + 1), True, key=is_too_many)
