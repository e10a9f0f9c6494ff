"""The l_p calibration error of forecasts as they are settled, kept in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping

from onlinecal.measures.lp.level_sets import norm, norm_of_pair

UNIT = 2.0**32
"""Biases are integers in units of 1/UNIT, so that their sums are exact."""
MOST_LEVEL_SETS = 4096
ROUNDING = 1.0 + 1e-12
"""What the norms' arithmetic may lose."""

LevelSet = tuple[tuple[int, int], ...]


class RunningLpError:
    """T times the l_p calibration error of T settled forecasts, or a bound just above it.

    By level set it keeps the sum of (f_j - y_j) of each class j, as integers, and the norm of them all in a
    binary tree of partial norms: a round costs O(k + log V) with V level sets. Beyond the first 4,096 level
    sets rounds are only counted: each adds at most 2 to the norm.

    Parameters
    ----------
    p
        From 1, finite.

    Attributes
    ----------
    rounds
        How many were settled.
    rest
        How many of them are only counted.
    classes
        So many have been named.
    biases
        By level set the classes' biases, by number, in units of 2^-32; in order of appearance.
    """

    def __init__(self, p: float) -> None:
        self.p = p
        self.rounds = self.rest = self.classes = 0
        self.biases: dict[LevelSet, dict[int, int]] = {}
        self._places: dict[LevelSet, int] = {}
        self._norms = [0.0, 0.0]

    def add(self, level_set: LevelSet, forecast: Mapping[int, float], label: int) -> None:
        """Settle a forecast in that level set: probabilities by class number, and the number that came."""
        self.rounds += 1
        self.classes = max(self.classes, len(forecast), label + 1)
        if level_set not in self.biases:
            if len(self.biases) == MOST_LEVEL_SETS:
                self.rest += 1
                return
            self.restore(level_set, {})
        biases = self.biases[level_set]
        for j, u in forecast.items():
            biases[j] = biases.get(j, 0) + round(u * UNIT)
        biases[label] = biases.get(label, 0) - round(UNIT)
        self._write(self._places[level_set], self._norm_of(biases))

    def restore(self, level_set: LevelSet, biases: dict[int, int]) -> None:
        """Put back a level set that is not there, with its biases; the rest is up to the caller."""
        self._places[level_set] = len(self.biases)
        self.biases[level_set] = biases
        if 2 * len(self.biases) > len(self._norms):
            known = [self._norm_of(each) for each in self.biases.values()]
            leaves = len(self._norms)
            self._norms = [0.0] * (2 * leaves)
            for place, each in enumerate(known):
                self._write(place, each)
        self._write(self._places[level_set], self._norm_of(biases))

    @property
    def value(self) -> float:
        """The bound: a sum over rounds. It exceeds the sum itself by at most 2 a round that is only counted,
        and by 1e-12 of it and k 2^-33 a round for roundings."""
        return self._norms[1] * ROUNDING + self.rounds * self.classes / (2.0 * UNIT) + 2.0 * self.rest

    def _norm_of(self, biases: Mapping[int, int]) -> float:
        return norm([bias / UNIT for bias in biases.values()], self.p)

    def _write(self, place: int, value: float) -> None:
        norms = self._norms
        node = len(norms) // 2 + place
        norms[node] = value
        while node > 1:
            node //= 2
            norms[node] = norm_of_pair(norms[2 * node], norms[2 * node + 1], self.p)
