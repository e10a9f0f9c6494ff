"""Forecasters of several classes by name, the library's and two baselines.

Nothing is promised of the baselines in every game.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.catalogue import Catalogue, Parameter
from onlinecal.compiling import kernel_part
from onlinecal.forecasters.simplex.almost_one_step_ahead import REPORTS, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_SLACK
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules
from onlinecal.forecasters.simplex.run import SimplexRun
from simulations.games.players import HINTS, PRIOR, WINDOW, Family, Player, Settings

SLACK = Parameter("slack", None, "how large a bias it lets pass", low=0.5, high=MOST_SLACK)
CELLS = Parameter("cells", None, "cells of its grid on a side", low=1, high=MOST_CELLS, form="whole")
REPORT = Parameter("report", None, "the point of a cell it announces", form=REPORTS)


def simplex_run(settings: Settings, k: int, rounds: int | None, grid: Any = "nested") -> SimplexRun:
    """The library's forecaster of k classes for so many rounds or, with None, however many."""
    window = settings.get("window")
    return SimplexAlmostOneStepAhead(
        k, settings.get("cells"), rounds if window is None else None, grid=grid, window=window,
        **{name: settings[name] for name in ("slack", "report", "hints")},
    ).new_run()  # fmt: skip


CATALOGUE: Catalogue[Family] = Catalogue(
    "forecaster of several classes",
    (
        Family("simplex", "on a grid for T rounds", simplex_run, (SLACK, CELLS, REPORT, WINDOW, HINTS)),
        Family(
            "nested", "no horizon: the grid doubles as rounds go by",
            lambda settings, k, rounds: simplex_run(settings, k, None), (SLACK, REPORT, HINTS),
        ),
        Family(
            "adaptive", "no horizon: the grid is finer where few points are in use",
            lambda settings, k, rounds: simplex_run(settings, k, None, "adaptive"), (SLACK, REPORT, HINTS),
        ),
        Family("uniform", "all classes alike", lambda settings, k, rounds: Baseline(k)),
        Family(
            "frequencies", "how often each class came so far",
            lambda settings, k, rounds: Baseline(k, settings["prior"]), (PRIOR,),
        ),
    ),
)  # fmt: skip
"""Each `build` is (settings, k, T) -> a fresh forecaster, which the duel plays by its `MulticlassRules`."""


class MulticlassPlayer(Player):
    """A forecaster to be built for any number of classes and rounds."""

    def build(self, n_classes: int, rounds: int, hinted: bool = False) -> Any:  # type: ignore[override]
        """A fresh forecaster, with hints or not; ValueError if its settings do not go with the game."""
        return self.family.build(self.made_for(hinted), n_classes, rounds)


def create_player(spec: str) -> MulticlassPlayer:
    """The player that a spec describes; ValueError for anything unknown, with a list of what is known.

    Examples
    --------
    >>> create_player("simplex:slack=1.0").spec
    'simplex:slack=1'
    """
    return MulticlassPlayer.read(CATALOGUE, spec)


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
