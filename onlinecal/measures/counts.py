"""A history of forecasts as counts: for each distinct forecast the rounds with outcome 0 and with outcome 1.

Every measure of calibration depends on the rounds only through these counts. Forecasts of an online
forecaster are points of a grid, so a million rounds are a thousand rows here. Counts are never negative, and
whole numbers as long as neither outcomes nor weights are fractions.

A `Counts` never changes. `Tallies` changes by `_count`, `_add` and `_revert`, which its owner calls, a metric
or a monitor; `counts` only reads. Its `n_rounds` counts the rounds of all tallies, and no tally is ever
negative. `count_shares` and `check_counts` check what users give; who makes `Counts` directly sees to it that
values increase. Measures add up in the order of the values, which is part of their last bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.tables.columns import (
    check_number_column,
    check_probabilities,
    check_same_index,
    check_same_length,
    check_share_history,
    check_vector,
    refuse,
)

TOO_MANY_ROUNDS = 2**53
"""From here on floats do not hold every whole number, so the sum of all counts must be below."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Rounds counted by exact forecast value and outcome. It checks nothing of what it is given.

    Attributes
    ----------
    values
        Distinct forecasts, shape (K,), strictly increasing, in [0, 1].
    zeros, ones
        How many rounds had that forecast and outcome 0, respectively 1; shape (K,), int64, never both 0. An
        outcome y between 0 and 1 counts as 1 - y of a round with outcome 0 and y of one with outcome 1, and a
        round of weight w as w rounds. With such outcomes or weights the arrays are float64.
    weight
        The sum of the weights; None where rounds have none.
    """

    values: Floats
    zeros: NDArray[Any]
    ones: NDArray[Any]
    weight: float | None = None

    @property
    def are_whole(self) -> bool:
        """Whether the counts are whole: no outcome lies between 0 and 1, and rounds have no weights."""
        return self.zeros.dtype.kind == "i"

    @property
    def n_zeros(self) -> int:
        """Rounds with outcome 0, a count; with outcomes y between or weights w, the sum of w (1 - y)."""
        return self.zeros.sum().item()

    @property
    def n_ones(self) -> int:
        """Rounds with outcome 1, a count; with outcomes y between or weights w, the sum of w y."""
        return self.ones.sum().item()

    @property
    def n_rounds(self) -> int:
        """The number of all rounds; with weights their sum, rounded to a whole number."""
        return round(self.n_zeros + self.n_ones)

    @property
    def total(self) -> float:
        """The divisor that makes averages of sums: the number of rounds, or the sum of their weights."""
        return self.n_rounds if self.weight is None else self.weight

    @property
    def biases(self) -> Floats:
        """For each forecast the sum over its rounds of (forecast - outcome), each times its weight; (K,)."""
        return self.values * (self.zeros + self.ones) - self.ones

    def expanded(self) -> tuple[Floats, Floats]:
        """Every round's forecast again: those with outcome 0, and those with outcome 1, two sorted arrays.

        Their shapes are (n_zeros,) and (n_ones,). Raises ValueError unless counts are whole (`are_whole`).
        """
        if not self.are_whole:
            raise ValueError(
                "zeros and ones must be whole numbers to be expanded into rounds, got floats: count rounds "
                "without weights, and with outcomes 0 and 1 only"
            )
        return np.repeat(self.values, self.zeros), np.repeat(self.values, self.ones)


class PrefixSums(NamedTuple):
    """The forecast values (K,), and four sums over the rounds of the first k of them, k = 0..K, (K+1,) each.

    `zeros` and `ones` count the rounds with that outcome; `zero_sums` and `one_sums` add up their forecasts.
    """

    values: Floats
    zeros: NDArray[Any]
    ones: NDArray[Any]
    zero_sums: Floats
    one_sums: Floats


def prefix_sums(counts: Counts) -> PrefixSums:
    """The prefix sums of a counted history."""
    zeros, ones, values = counts.zeros, counts.ones, counts.values
    return PrefixSums(values, prefix(zeros), prefix(ones), prefix(zeros * values), prefix(ones * values))


def prefix(terms: NDArray) -> NDArray:
    """Sums of the first k terms, k = 0..n; (n+1,)."""
    return np.concatenate([np.zeros(1, dtype=terms.dtype), np.cumsum(terms)])


def merged(first: NDArray, second: NDArray) -> NDArray:
    """The distinct entries of two sorted arrays, increasing.

    It is many times faster than numpy's own union, which hashes the entries.
    """
    both = np.sort(np.concatenate([first, second]), kind="stable")
    return both[np.append(True, both[1:] != both[:-1])]


def count_shares(
    forecasts: ArrayLike, outcomes: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[Counts, Floats, NDArray[np.uint8] | Floats]:
    """Check a history and count it: the counts, and the forecasts and outcomes as checked arrays.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,): uint8 if all of them are 0 or 1, else float64.
    sample_weight
        For how many rounds each counts, shape (T,); one of weight 0 is left out. None: for one.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.
    """
    p, y = check_share_history(forecasts, outcomes)
    if sample_weight is None and y.dtype != np.float64:
        # adding 0.0 turns -0.0 into 0.0; sorting each label alone is several times faster than using indices
        counted = [np.unique(p[y == label] + 0.0, return_counts=True) for label in (0, 1)]
        values = merged(*(of_label for of_label, _ in counted))
        zeros, ones = np.zeros((2, len(values)), np.int64)
        for count, (of_label, number) in zip((zeros, ones), counted, strict=True):
            count[np.searchsorted(values, of_label)] = number
        return Counts(values, zeros, ones), p, y
    weights = check_weights(sample_weight, len(p), forecasts)
    inside = weights > 0.0
    values, index = np.unique(p[inside] + 0.0, return_inverse=True)
    rounds, ones = (np.bincount(index, part[inside]) for part in (weights, weights * y))
    total = None if sample_weight is None else float(weights.sum())
    return Counts(values, np.maximum(rounds - ones, 0.0), ones, total), p, y


def check_weights(values: ArrayLike | None, n_rows: int, beside: Any, name: str = "forecasts") -> Floats:
    """Weights of shape (n,), finite and not negative, one of them positive, as float64; None: ones.

    `beside` is the argument that they belong to, and `name` its name: a pandas index must be the same.
    """
    if values is None:
        return np.ones(n_rows)
    check_same_index(beside, values, f"{name} and sample_weight")
    weights = check_number_column(values, "sample_weight", "be numbers")
    if len(weights) != n_rows:
        raise ValueError(f"sample_weight must have a weight for each of {n_rows} rows, got {len(weights)}")
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    refuse(bad, weights, "sample_weight must be at least 0 and finite")
    if not weights.any():
        raise ValueError("sample_weight must be positive for some row, got zero for all")
    return weights


def check_counts(values: ArrayLike, zeros: ArrayLike, ones: ArrayLike) -> Counts:
    """Counts from a user's arrays: in any order, repeated values are added up, and empty rows dropped.

    Raises
    ------
    ValueError
        If a value is outside [0, 1], a count is negative or no whole number, lengths differ, or there is no
        round at all, or 2^53 rounds or more.
    """
    v = check_probabilities(values, "values")
    n0 = _check_whole(zeros, "zeros")
    n1 = _check_whole(ones, "ones")
    check_same_length(v, n0, "values and zeros")
    check_same_length(v, n1, "values and ones")
    total = float(n0.sum(dtype=np.float64) + n1.sum(dtype=np.float64))
    if total == 0.0:
        raise ValueError("zeros and ones must count at least one round, got 0 in all")
    if total >= TOO_MANY_ROUNDS:
        raise ValueError(f"zeros and ones must count fewer than 2**53 rounds in all, got about {total:g}")
    counted = (n0 > 0) | (n1 > 0)
    joined, index = np.unique(v[counted] + 0.0, return_inverse=True)
    # sums of whole numbers below 2**53 are exact
    of_zeros, of_ones = (np.bincount(index, n[counted]).astype(np.int64) for n in (n0, n1))
    return Counts(joined, of_zeros, of_ones)


def _check_whole(counts: ArrayLike, name: str) -> Ints:
    vector = check_vector(counts, name)
    numbers = check_number_column(vector, name, "be whole numbers")
    bad = ~((numbers >= 0) & (numbers < TOO_MANY_ROUNDS) & (np.floor(numbers) == numbers))
    refuse(bad, vector, f"{name} must be whole numbers from 0 on")
    return numbers.astype(np.int64)


def total_of(weights: Floats) -> float:
    """How many rows weights stand for: their sum, a whole number where it is one."""
    total = float(weights.sum())
    return int(total) if total.is_integer() else total


LEAST_PART = 1e-9
"""Rounding changes sums of outcomes between 0 and 1 by less than this part of a round, which counts as 0."""


class Tallies:
    """Rounds that are counted one after the other by their forecast, and can be taken back.

    Parameters
    ----------
    n_bins
        How many distinct forecasts are counted exactly; further ones are counted at the nearest multiple of
        1/n_bins.

    Attributes
    ----------
    n_rounds
        Rounds counted; of rounds with weights, the sum of the weights.
    moved
        Sum over rounds of |forecast - the value it is counted at|.
    """

    def __init__(self, n_bins: float = math.inf) -> None:
        self.n_bins = n_bins
        self.n_rounds: float = 0
        self.moved = 0.0
        self._tallies: dict[float, list[float]] = {}

    def counts(self) -> Counts:
        """The rounds so far as `Counts`: how many had outcome 0 and outcome 1, by the forecast they count at.

        Later rounds do not change what was returned. Raises ValueError before the first round.
        """
        values = np.array(list(self._tallies))
        if not self._tallies:
            raise ValueError("there are no counts before the first round: call update or update_many first")
        tallies = np.array(list(self._tallies.values())).reshape(-1, 2)
        if tallies.dtype.kind == "i":
            return check_counts(values, tallies[:, 0], tallies[:, 1])
        counted = np.flatnonzero(tallies.any(axis=1))
        counted = counted[np.argsort(values[counted])]
        return Counts(values[counted], tallies[counted, 0], tallies[counted, 1], self.n_rounds)

    def _count(self, forecast: float, outcome: float, times: float = 1) -> None:
        """Count a round of numbers in [0, 1] so many times; whole numbers keep the counts whole."""
        if times:
            zeros, ones = parts(outcome)
            self._add(forecast, times * zeros, times * ones, times)

    def _add(self, forecast: float, zeros: float, ones: float, rounds: float) -> None:
        value = self._counted_at(forecast)
        tally = self._tallies.setdefault(value, [0, 0])
        tally[0] += zeros
        tally[1] += ones
        self.n_rounds += rounds
        self.moved += abs(forecast - value) * rounds

    def _revert(self, forecast: float, outcome: float, times: float = 1) -> None:
        """Take back a round that was counted so many times; ValueError if it was not counted."""
        if not times:
            return
        value, least = self._counted_at(forecast), LEAST_PART * times
        tally, taken = self._tallies.get(value), [times * part for part in parts(outcome)]
        if tally is None or any(kept < part - least for kept, part in zip(tally, taken, strict=True)):
            raise not_counted(forecast, outcome)
        tally[:] = [
            kept - part if kept - part > least else 0 for kept, part in zip(tally, taken, strict=True)
        ]
        self.n_rounds = self.n_rounds - times if self.n_rounds - times > least else 0
        self.moved = max(0.0, self.moved - times * abs(forecast - value)) if self.n_rounds else 0.0
        # with finitely many bins an empty tally stays, so that its forecast is still counted exactly
        if self.n_bins == math.inf and not any(tally):
            del self._tallies[value]

    def _counted_at(self, forecast: float) -> float:
        if forecast in self._tallies or len(self._tallies) < self.n_bins:
            return forecast
        return round(forecast * self.n_bins) / self.n_bins


def parts(outcome: float) -> tuple[float, float]:
    """How much of a round had the outcome 0, and how much 1: whole numbers if the outcome is 0 or 1."""
    share = int(outcome) if outcome in (0.0, 1.0) else outcome
    return 1 - share, share


def not_counted(forecast: float, outcome: float) -> ValueError:
    """The error for a round that is to be taken back but was not counted."""
    return ValueError(
        f"this round was not counted, or with less weight: forecast {forecast!r} with outcome {outcome}; "
        "take back only what was counted, with the same forecast, outcome and weight"
    )
