"""Two plain forecasters of several classes, for comparison: nothing is promised of them in every game."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.compiling import kernel_part
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules


class Baseline:
    """A forecaster whose memory is [prior, sum of (p - y) of each class..., rounds of each class...].

    With prior 0 all classes are always equally likely. With a prior above 0 they are as frequent as they
    have been, with so many imaginary rounds for each class: the running frequencies.
    """

    def __init__(self, n_classes: int, prior: float = 0.0) -> None:
        self.memory: NDArray[np.float64] = np.array([prior, *[0.0] * (2 * n_classes)])
        self.rules = BASELINE

    @property
    def certificate(self) -> float:
        """NaN: nothing is proven as the game goes on."""
        return math.nan

    def grow(self) -> None:
        """Nothing grows."""

    def promise(self, rounds: int) -> float:
        """NaN: nothing is promised."""
        return math.nan


@kernel_part
def has_room(memory: Floats) -> bool:
    """Always."""
    return True


@kernel_part
def announce(memory: Floats, hint: Floats, forecast: Floats) -> int:
    """All alike, or the frequencies; hints are not heeded."""
    k, prior = len(forecast), memory[0]
    rounds = 0.0
    for c in range(k):
        rounds += memory[1 + k + c]
    for c in range(k):
        forecast[c] = (memory[1 + k + c] + prior) / (rounds + k * prior) if prior > 0.0 else 1.0 / k
    return 0


@kernel_part
def certificate_rises(memory: Floats, frame: int, forecast: Floats, rising: Floats) -> None:
    """By how much |sum of (p - y)|, summed over classes, would rise for each outcome."""
    k = len(forecast)
    for outcome in range(k):
        rising[outcome] = 0.0
        for c in range(k):
            bias = memory[1 + c]
            rising[outcome] += abs(bias + forecast[c] - (1.0 if c == outcome else 0.0)) - abs(bias)


@kernel_part
def point(memory: Floats, frame: int, forecast: Floats, outcome: int, charged: Floats) -> None:
    """The round is charged to its forecast."""
    for c in range(len(forecast)):
        charged[c] = forecast[c]


@kernel_part
def settle(memory: Floats, frame: int, forecast: Floats, outcome: int) -> None:
    """Count the outcome."""
    k = len(forecast)
    for c in range(k):
        memory[1 + c] += forecast[c]
    memory[1 + outcome] -= 1.0
    memory[1 + k + outcome] += 1.0


BASELINE = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of both."""
