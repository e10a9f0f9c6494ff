"""The a-priori bounds on the distance to calibration, as sums over rounds; docs/theory.md has the proofs.

d/m bounds the distance from a report to the charged point: d = 1/2 for the midpoint, 1 for the other reports.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from typing import NamedTuple

from onlinecal.forecasters.binary.cells import (
    AT_HINT,
    BRIM,
    FINE,
    FORMAT,
    GROWS,
    HIGH,
    LATE,
    MIDPOINT,
    REPORT,
    SCALE,
    STEP,
    Memory,
)
from onlinecal.forecasters.binary.dyadic import (
    ADAPTIVE,
    ALLOWANCE,
    BASE,
    MOST_ROUNDS,
    PACE,
    TUNED,
    last_round,
)
from onlinecal.forecasters.binary.dyadic import SHARED as DYADIC_SHARED
from onlinecal.forecasters.binary.fixed import (
    CORNERS,
    FORMAT_FIXED,
    FREED,
    RATE,
    SHARED,
    SHIFT,
    STAGE,
    UNEVEN,
    WEIGHT,
    cells_of,
)
from onlinecal.forecasters.binary.fixed import last_round as last_nested_round
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


def cells_for(horizon: int, bound: float | Fraction, reach: float) -> int:
    """m = ceil(sqrt(d T / c)), exactly; with it the bound on a uniform grid is at most 2 sqrt(c d T)."""
    square = Fraction(reach) * horizon / Fraction(bound)
    m = math.isqrt(square.numerator // square.denominator)
    while m * m < square:
        m += 1
    return max(m, 1)


def with_hints(biases: Biases, n_cells: int) -> Biases:
    """The bounds with hints, where points without bias accept both outcomes (`uniform`)."""
    return biases._replace(slack=max(biases.slack, (n_cells + 1) // 2 / n_cells))


def uniform_guarantee(
    rounds: int,
    n_cells: int,
    biases: Biases,
    reach: float,
    late: int = 0,
    unit: float = 0.0,
    freed: bool = False,
) -> float:
    """d T/m plus the biases' bounds.

    A round costs one `unit` more where the distance of a hint can be rounded up beyond its cell, or an
    outcome is rounded. `freed`: points without bias accept both outcomes, so that one may pass c by
    1 - 1/m - c; with late labels so may as many as are open.
    """
    total = reach * rounds / n_cells + rounds * unit + biases.total(n_cells, late)
    beyond = 1.0 - 1.0 / n_cells - biases.slack
    if freed and beyond > 0.0:
        total += late + 1.0 if late else beyond
    return total


def unit_of(memory: Memory) -> float:
    """What a round on a uniform grid may cost beyond the width of its cell, since numbers are rounded."""
    m, scale = int(cells_of(memory)), int(memory[SCALE])
    # lower/m * m is exact for powers of two, and for hints on the border of a cell only for them
    exact = memory[REPORT] != AT_HINT or m & (m - 1) == 0
    unit = 0.0 if exact else 1.0 / (2 * scale * int(memory[FINE]))
    return unit + 1.0 / scale if memory[SHARED] else unit


def window_cells(window: int, biases: Biases, reach: float, share: int = 1) -> int:
    """m = ceil(sqrt(d W / l)), where so many grids `share` the window m = ceil(sqrt(d W / (B l)))."""
    return cells_for(window, Fraction(biases.length) * share, reach)


def window_biases(n_cells: int, biases: Biases, late: int, freed: bool) -> float:
    """The lengths of the intervals that biases stay in, over the inner points: what a window can add.

    Each forecast that may be open besides the newest makes them 1 longer. `freed`: points without bias accept
    both outcomes, so that a bias may reach v, or v - 1, if that is beyond c.
    """
    inner = n_cells - 1
    lengths = inner * biases.length
    if freed:
        within = min(inner, math.floor(Fraction(biases.slack) * n_cells))
        beyond = Fraction((inner - within) * (inner + within + 1), 2 * n_cells)
        lengths = 2.0 * (biases.slack * within + float(beyond))
    return lengths + late * inner


def dyadic_guarantee(
    rounds: int, pace: int, biases: Biases, reach: float, tuned: bool, late: int = 0, least_cells: int = 1
) -> float:
    """sum over s <= t of d/m_s, plus the biases' bounds, plus (5/3) c when the grid tunes itself.

    m_s is the base grid of round s. With c = d (the two rules as published) this is at most
    2 sqrt(3 c d t) for every t; see docs/theory.md for what late labels add. The base grid now has
    `least_cells` at least: it is finer than the pace asks for if slack has grown since.
    """
    level, start, moved = 0, 0, 0.0
    while rounds > (end := last_round(pace, level)):
        moved += reach * (end - start) / (1 << level)
        level, start = level + 1, end
    total = moved + reach * (rounds - start) / (1 << level) + biases.total(max(1 << level, least_cells), late)
    if tuned:
        return total + float(ALLOWANCE) * biases.worst + (late_share(late, reach) if late else 0.0)
    return total + late * reach


def late_share(late: int, reach: float) -> float:
    """(D + 1)(1 + d): by how much orphans' bias may exceed what savings cover if so many labels are late."""
    return (late + 1) * (1.0 + reach)


def graded_guarantee(memory: Memory, rounds: int, slack: float, late: int) -> float:
    """lambda T and for each point (1 + |kappa|) times the bound c + D max(v, 1 - v) of its bias.

    Once outcomes are shares lambda is half of the widest cell, if that is more, and the D + 1 forecasts
    that were open then may cost the width of a cell each.
    """
    scale = int(memory[SCALE])
    total = (
        rounds * int(memory[RATE]) / scale + slack * int(memory[WEIGHT]) + late * int(memory[CORNERS])
    ) / scale
    return total + (rounds * unit_of(memory) + 0.5 * (late + 1) if memory[SHARED] else 0.0)


def nested_guarantee(memory: Memory, rounds: int, slack: float, late: int) -> float:
    """The sum over s <= t of lambda_s, the biases' bounds, and what a change of kappa costs at each doubling.

    Late labels add lambda of the first grid and what `Nested` says. Once outcomes are shares a round may cost
    half of the widest cell, which is halved at each doubling (Theorem 26a); on the grid of the first share,
    whose cells may have been whole for most of its rounds, lambda if that is more.
    """
    scale, split_at, stage, start = int(memory[SCALE]), int(memory[SHARED]), 1, 0
    weight = corners = moved = 0
    while True:
        now, rate = nested(stage), nested(stage).rate
        if split_at and stage >= split_at:
            half = (nested(split_at).half_split >> (stage - split_at)) + scale
            rate = max(rate, half) if stage == split_at else half
        moved += late * rate if stage == 1 else 0
        end = min(rounds, int(last_nested_round(int(memory[HIGH]), stage)))
        moved += rate * (end - start)
        if end == rounds:
            break
        if not split_at or stage < split_at:
            weight, corners = weight + now.turn, corners + now.late_turn
        stage, start = stage + 1, end
    if split_at:
        # each point counts 1 at most, and all |kappa| that there were as much as one
        most = scale * cells_of(memory) << max(0, stage - int(memory[STAGE]))
        now = now._replace(weight=most, corners=most)
    total = (moved / scale + slack * (weight + now.weight) + late * (corners + now.corners)) / scale
    return total + (rounds * unit_of(memory) + 0.5 * (late + 1) if split_at else 0.0)


def graded_rounds(memory: Memory, slack: float, late: int) -> int:
    """How many rounds the accumulators of a graded grid bear: its guarantee bounds their distance."""
    if memory[STAGE]:
        # SPREAD is in units of 2^-28, MOVED in units of 2^-32
        def is_too_many(rounds: int) -> bool:
            return nested_guarantee(memory, rounds, slack, late) >= 1 << 29

        return bisect_left(range(1, MOST_ROUNDS + 1), True, key=is_too_many)
    scale, fine = int(memory[SCALE]), int(memory[FINE])
    apart = graded_guarantee(memory, 0, slack, late) * scale
    each = 2 * fine * (int(memory[RATE]) // scale + 1) + (fine + 1 if memory[SHARED] else 0)
    return int(min((BRIM - 4.0 * fine * apart) // each, BRIM // scale if apart >= BRIM else BRIM))


def uniform_rounds(n_cells: int, dearest: int, biases: Biases, late: int = 0) -> int:
    """How many rounds the accumulators of a uniform grid bear, if none adds more than `dearest` to MOVED.

    SPREAD, in units of 1/m, is at most (c + late) m (m - 1), and rises by at most m in a round.
    """
    most = -(-BRIM // dearest)
    if (Fraction(biases.worst) + late) * n_cells * (n_cells - 1) >= BRIM:
        most = min(most, BRIM // n_cells)
    return most


def dyadic_rounds(pace: int, biases: Biases, reach: float, tuned: bool, late: int = 0) -> int:
    """How many rounds the accumulators of a dyadic grid bear.

    MOVED and SAVED, in units of 2^-37, fit while the distance is below 2^26; SPREAD and the orphans' bias, in
    units of 2^-28, below 2^35, which they cannot reach in 2^34 rounds. Half of it is kept for what the
    guarantee leaves out.
    """

    def is_too_many(rounds: int) -> bool:
        moved = dyadic_guarantee(rounds, pace, biases, reach, tuned) + late_share(late, reach)
        biased = dyadic_guarantee(rounds, pace, biases, reach, tuned, late)
        return moved >= 1 << 25 or (rounds > 1 << 34 and biased >= 1 << 34)

    return bisect_left(range(1, MOST_ROUNDS + 1), True, key=is_too_many)


class Terms(NamedTuple):
    """`biases`: what the rule promises of every point's; `reach`: d, the farthest of a report, in cells."""

    biases: Biases
    reach: float

    def _on_uniform(self, memory: Memory) -> tuple[int, Biases, bool]:
        """The cells, the bounds of biases now, and whether points without bias may accept both outcomes."""
        m, freed = int(cells_of(memory)), bool(memory[FREED])
        return m, with_hints(self.biases, m) if freed else self.biases, freed

    def promise(self, memory: Memory, rounds: int, late: int) -> float:
        """The a-priori bound on distance plus bias after so many rounds with so many forecasts late."""
        if memory[FORMAT] == FORMAT_FIXED:
            if memory[SHIFT] == UNEVEN:
                bound = nested_guarantee if memory[STAGE] else graded_guarantee
                return bound(memory, rounds, self.biases.slack, late)
            m, biases, freed = self._on_uniform(memory)
            unit = unit_of(memory)
            return uniform_guarantee(rounds, m, biases, self.reach, late, unit, freed)
        rounded = rounds / int(memory[SCALE]) if memory[TUNED] & DYADIC_SHARED else 0.0
        tuned, pace, biases, cells = bool(memory[TUNED] & ADAPTIVE), int(memory[PACE]), self.biases, 1
        if memory[GROWS]:
            biases = biases._replace(slack=int(memory[HIGH]) / int(memory[SCALE]))
            late, cells = max(late, int(memory[LATE])), int(memory[SCALE]) // int(memory[BASE])
        return rounded + dyadic_guarantee(rounds, pace, biases, self.reach, tuned, late, cells)

    def window_promise(self, memory: Memory, rounds: int, late: int) -> float | None:
        """The bound on any so many consecutive rounds; None on a grid that has none."""
        if memory[FORMAT] != FORMAT_FIXED or memory[STAGE]:
            return None
        if memory[SHIFT] == UNEVEN:
            lengths = graded_guarantee(memory, rounds, self.biases.length + late, 0)
            return lengths + (late * 0.5 if memory[SHARED] else 0.0)
        m, biases, freed = self._on_uniform(memory)
        lengths = window_biases(m, biases, late, freed)
        return rounds * (self.reach / m + unit_of(memory)) + lengths

    def most_rounds(self, memory: Memory, late: int) -> int:
        """How many rounds the memory's accumulators bear in all, whatever comes."""
        if memory[FORMAT] == FORMAT_FIXED:
            if memory[SHIFT] == UNEVEN:
                return graded_rounds(memory, self.biases.slack, late)
            step, fine = int(memory[STEP]), int(memory[FINE])
            dearest = (1 if memory[REPORT] == MIDPOINT else 2) * step * fine + int(memory[REPORT] == AT_HINT)
            if memory[SHARED]:
                dearest += fine + 1
            _, biases, _ = self._on_uniform(memory)
            return uniform_rounds(int(memory[SCALE]), dearest, biases, late)
        tuned, pace = bool(memory[TUNED] & ADAPTIVE), int(memory[PACE])
        return dyadic_rounds(pace, self.biases, self.reach, tuned, late)
