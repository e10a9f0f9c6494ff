"""The a-priori bounds on the distance to calibration, as sums over rounds; docs/theory.md has the proofs.

d/m bounds the distance from a report to the charged point: d = 1/2 for the midpoint, 1 for the other reports.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from onlinecal.forecasters.binary import cells, dyadic, fixed
from onlinecal.forecasters.binary.cells import Memory
from onlinecal.forecasters.binary.graded import nested


class Biases(NamedTuple):
    """A rule's bound on the bias of a point v: slack + corners max(v, 1 - v), while no label is late.

    The balanced rule has its slack and no corners, the sign rule one corner and no slack. Each forecast that
    may be open besides the newest makes it one corner more.
    """

    slack: float
    corners: int

    @classmethod
    def under(cls, rule: str, slack: float) -> Biases:
        """What a rule promises of every point's."""
        return cls(0.0, 1) if rule == "sign" else cls(slack, 0)

    @property
    def worst(self) -> float:
        """c: what no point's bias exceeds."""
        return self.slack + self.corners

    @property
    def length(self) -> float:
        """That of an interval which no bias leaves: a corner of point v is v above 0 and 1 - v below."""
        return 2.0 * self.slack + self.corners

    def total(self, n_cells: int, late: int = 0) -> float:
        """The bounds of all inner points together: max(v, 1 - v) adds up to 3m/4 - 1, + 1/(4m) for odd m."""
        corner = 0.75 * n_cells - 1.0 + (n_cells % 2) / (4.0 * n_cells)
        return self.slack * (n_cells - 1) + (self.corners + late) * corner


def cells_for(rounds: int, bound: float | Fraction, reach: float) -> int:
    """m = ceil(sqrt(d T / c)), exactly; with it the bound on a uniform grid is at most 2 sqrt(c d T)."""
    return 1 + math.isqrt(math.ceil(Fraction(reach) * rounds / Fraction(bound)) - 1)


def window_cells(window: int, biases: Biases, reach: float, share: int = 1) -> int:
    """m = ceil(sqrt(d W / l)), where so many grids `share` the window m = ceil(sqrt(d W / (B l)))."""
    return cells_for(window, Fraction(biases.length) * share, reach)


def unit_of(memory: Memory) -> float:
    """What a round may cost beyond the width of its cell, since numbers are rounded."""
    scale = int(memory[cells.SCALE])
    if memory[cells.FORMAT] == dyadic.FORMAT_DYADIC:
        return 1.0 / scale if memory[dyadic.TUNED] & dyadic.SHARED else 0.0
    m = int(fixed.cells_of(memory))
    # lower/m * m is exact for powers of two, and for hints on the border of a cell only for them
    exact = memory[cells.REPORT] != cells.AT_HINT or m & (m - 1) == 0
    unit = 0.0 if exact else 1.0 / (2 * scale * int(memory[cells.FINE]))
    return unit + 1.0 / scale if memory[fixed.SHARED] else unit


def graded_guarantee(memory: Memory, rounds: int, slack: float, late: int) -> float:
    """lambda T and for each point (1 + |kappa|) times the bound c + D max(v, 1 - v) of its bias.

    Once outcomes are shares lambda is half of the widest cell, if that is more, and the D + 1 forecasts
    that were open then may cost the width of a cell each.
    """
    scale = int(memory[cells.SCALE])
    biases = slack * int(memory[fixed.WEIGHT]) + late * int(memory[fixed.CORNERS])
    total = (rounds * int(memory[fixed.RATE]) / scale + biases) / scale
    return total + (rounds * unit_of(memory) + 0.5 * (late + 1) if memory[fixed.SHARED] else 0.0)


def nested_guarantee(memory: Memory, rounds: int, slack: float, late: int) -> float:
    """The sum over s <= t of lambda_s, the biases' bounds, and what a change of kappa costs at each doubling.

    Late labels add lambda of the first grid and what `Nested` says. Once outcomes are shares a round may cost
    half of the widest cell, which is halved at each doubling (Theorem 26a); on the grid of the first share,
    whose cells may have been whole for most of its rounds, lambda if that is more.
    """
    scale, split_at, stage, start = int(memory[cells.SCALE]), int(memory[fixed.SHARED]), 1, 0
    weight = corners = moved = 0
    while True:
        now, rate = nested(stage), nested(stage).rate
        if split_at and stage >= split_at:
            half = (nested(split_at).half_split >> (stage - split_at)) + scale
            rate = max(rate, half) if stage == split_at else half
        end = min(rounds, int(fixed.last_round(int(memory[cells.HIGH]), stage)))
        moved += rate * (end - start + (late if stage == 1 else 0))
        if end == rounds:
            break
        if not split_at or stage < split_at:
            weight, corners = weight + now.turn, corners + now.late_turn
        stage, start = stage + 1, end
    if split_at:
        # each point counts 1 at most, and all |kappa| that there were as much as one
        most = scale * fixed.cells_of(memory) << max(0, stage - int(memory[fixed.STAGE]))
        now = now._replace(weight=most, corners=most)
    total = (moved / scale + slack * (weight + now.weight) + late * (corners + now.corners)) / scale
    return total + (rounds * unit_of(memory) + 0.5 * (late + 1) if split_at else 0.0)


def graded_rounds(memory: Memory, slack: float, late: int) -> int:
    """How many rounds the accumulators of a graded grid bear: its guarantee bounds their distance."""
    if memory[fixed.STAGE]:
        # SPREAD is in units of 2^-28, MOVED in units of 2^-32
        return _first(lambda rounds: nested_guarantee(memory, rounds, slack, late) >= 1 << 29)
    scale, fine, brim = int(memory[cells.SCALE]), int(memory[cells.FINE]), cells.BRIM
    apart = graded_guarantee(memory, 0, slack, late) * scale
    each = 2 * fine * (int(memory[fixed.RATE]) // scale + 1) + (fine + 1 if memory[fixed.SHARED] else 0)
    return int(min((brim - 4.0 * fine * apart) // each, brim // scale if apart >= brim else brim))


def dyadic_guarantee(
    rounds: int, pace: int, biases: Biases, reach: float, tuned: bool, late: int = 0, least_cells: int = 1
) -> float:
    """sum over s <= t of d/m_s, plus the biases' bounds, plus (5/3) c when the grid tunes itself.

    m_s is the base grid of round s. With c = d (the two rules as published) this is at most
    2 sqrt(3 c d t) for every t; see docs/theory.md for what late labels add. The base grid now has
    `least_cells` at least: it is finer than the pace asks for if slack has grown since.
    """
    level, start, moved = 0, 0, 0.0
    while rounds > (end := dyadic.last_round(pace, level)):
        moved += reach * (end - start) / (1 << level)
        level, start = level + 1, end
    total = moved + reach * (rounds - start) / (1 << level) + biases.total(max(1 << level, least_cells), late)
    if tuned:
        return total + float(dyadic.ALLOWANCE) * biases.worst + (late_share(late, reach) if late else 0.0)
    return total + late * reach


def late_share(late: int, reach: float) -> float:
    """(D + 1)(1 + d): by how much orphans' bias may exceed what savings cover if so many labels are late."""
    return (late + 1) * (1.0 + reach)


def dyadic_rounds(pace: int, biases: Biases, reach: float, tuned: bool, late: int) -> int:
    """How many rounds the accumulators of a dyadic grid bear.

    MOVED and SAVED, in units of 2^-37, fit while the distance is below 2^26; SPREAD and the orphans' bias, in
    units of 2^-28, below 2^35, which they cannot reach in 2^34 rounds. Half of it is kept for what the
    guarantee leaves out.
    """

    def is_too_many(rounds: int) -> bool:
        moved = dyadic_guarantee(rounds, pace, biases, reach, tuned) + late_share(late, reach)
        biased = dyadic_guarantee(rounds, pace, biases, reach, tuned, late)
        return moved >= 1 << 25 or (rounds > 1 << 34 and biased >= 1 << 34)

    return _first(is_too_many)


def _first(is_too_many: Callable[[int], bool]) -> int:
    """The last number of rounds below the first that are too many."""
    return bisect_left(range(1, dyadic.MOST_ROUNDS + 1), True, key=is_too_many)


class Terms(NamedTuple):
    """`biases`: what the rule promises of every point's; `reach`: d, the farthest of a report, in cells."""

    biases: Biases
    reach: float

    def _on_uniform(self, memory: Memory) -> tuple[int, Biases]:
        """The cells and the bounds of biases, where points without bias may accept both outcomes or not."""
        m, slack = int(fixed.cells_of(memory)), self.biases.slack
        if memory[fixed.FREED]:
            slack = max(slack, (m + 1) // 2 / m)
        return m, self.biases._replace(slack=slack)

    def promise(self, memory: Memory, rounds: int, late: int) -> float:
        """The a-priori bound on distance plus bias after so many rounds with so many forecasts late."""
        if memory[cells.FORMAT] == dyadic.FORMAT_DYADIC:
            biases, least_cells = self.biases, 1
            if memory[cells.GROWS]:
                biases = biases._replace(slack=int(memory[cells.HIGH]) / dyadic.UNIT)
                late = max(late, int(memory[cells.LATE]))
                least_cells = dyadic.UNIT // int(memory[dyadic.BASE])
            pace, tuned = int(memory[dyadic.PACE]), bool(memory[dyadic.TUNED] & dyadic.ADAPTIVE)
            total = dyadic_guarantee(rounds, pace, biases, self.reach, tuned, late, least_cells)
            return rounds * unit_of(memory) + total
        if memory[fixed.SHIFT] == fixed.UNEVEN:
            bound = nested_guarantee if memory[fixed.STAGE] else graded_guarantee
            return bound(memory, rounds, self.biases.slack, late)
        m, biases = self._on_uniform(memory)
        total = self.reach * rounds / m + rounds * unit_of(memory) + biases.total(m, late)
        # points without bias may pass c by 1 - 1/m - c: one, with late labels as many as are open
        beyond = 1.0 - 1.0 / m - biases.slack
        if memory[fixed.FREED] and beyond > 0.0:
            total += late + 1.0 if late else beyond
        return total

    def window_promise(self, memory: Memory, rounds: int, late: int) -> float | None:
        """The bound on any so many consecutive rounds; None on a grid that has none.

        It adds up the lengths of the intervals that biases stay in. Each forecast that may be open besides
        the newest makes them 1 longer. A point without bias that accepts both outcomes may come to a bias of
        v, or v - 1, if that is beyond c.
        """
        if memory[cells.FORMAT] == dyadic.FORMAT_DYADIC or memory[fixed.STAGE]:
            return None
        if memory[fixed.SHIFT] == fixed.UNEVEN:
            lengths = graded_guarantee(memory, rounds, self.biases.length + late, 0)
            return lengths + (late * 0.5 if memory[fixed.SHARED] else 0.0)
        m, biases = self._on_uniform(memory)
        lengths = (m - 1) * biases.length
        if memory[fixed.FREED]:
            within = min(m - 1, math.floor(Fraction(biases.slack) * m))
            beyond = Fraction((m - 1 - within) * (m + within), 2 * m)
            lengths = 2.0 * (biases.slack * within + float(beyond))
        return rounds * (self.reach / m + unit_of(memory)) + (lengths + late * (m - 1))

    def most_rounds(self, memory: Memory, late: int) -> int:
        """How many rounds the memory's accumulators bear in all, whatever comes."""
        if memory[cells.FORMAT] == dyadic.FORMAT_DYADIC:
            tuned = bool(memory[dyadic.TUNED] & dyadic.ADAPTIVE)
            return dyadic_rounds(int(memory[dyadic.PACE]), self.biases, self.reach, tuned, late)
        if memory[fixed.SHIFT] == fixed.UNEVEN:
            return graded_rounds(memory, self.biases.slack, late)
        report, fine, m = int(memory[cells.REPORT]), int(memory[cells.FINE]), int(memory[cells.SCALE])
        # what a round adds to MOVED at most
        dearest = (1 if report == cells.MIDPOINT else 2) * int(memory[cells.STEP]) * fine
        dearest += int(report == cells.AT_HINT) + (fine + 1 if memory[fixed.SHARED] else 0)
        most = -(-cells.BRIM // dearest)
        # SPREAD, in units of 1/m, is at most (c + late) m (m - 1), and rises by at most m in a round
        if (Fraction(self._on_uniform(memory)[1].worst) + late) * m * (m - 1) >= cells.BRIM:
            most = min(most, cells.BRIM // m)
        return most
