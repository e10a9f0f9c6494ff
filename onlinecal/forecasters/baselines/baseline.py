"""The river face of the mixing machines: parameters, seed, memory, replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.compiling import compiled
from onlinecal.forecasters.baselines.mixing import (
    EXACT,
    LISTS,
    NOT_MIXED,
    PEEKS,
    POINTS,
    ROUNDS,
    SETTINGS,
    SUPPORT,
    bears,
)
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.binary.compiled import compile_replay
from onlinecal.forecasters.binary.soundness import require
from onlinecal.forecasters.rules import Rules
from onlinecal.validation import check_outcomes, outcome_of, seed_sequence

OUR_STREAM = 1
"""Branch of the seed that draws are taken from: whoever else uses the same seed draws independently of it."""


class Compiled(NamedTuple):
    """The compiled entry points of a baseline; u is the draw that a forecast is made with.

    present(memory, u) -> the forecast of the coming round.
    advance(memory, outcome, u, next_u) -> next forecast: settle the round that was forecast with u.
    replay: see `compile_replay`.
    """

    present: Callable[..., float]
    advance: Callable[..., float]
    replay: Callable[..., int]


class Baseline(base.Classifier):
    """A forecaster to compare with: subclasses say with which rules, on which memory.

    A subclass sets `machine`, the `Rules` of a mixing machine, and hands the memory before round 0 to
    `_begin`, once its parameters are stored. All draws come from `seed`, so equal parameters and equal
    outcomes give equal forecasts, round by round or through `replay`. Whether its draws are hidden from
    whoever chooses the outcomes is for the user to say; rates of randomised forecasters hold if they are.
    docs/baselines.md shows how to write one of one's own.
    """

    machine: ClassVar[Rules]
    randomised: ClassVar[bool] = False
    places: ClassVar[tuple[int, ...]] = ()
    """The settings in which the machine keeps the place of a value, which it changes as it plays."""

    def _begin(self, memory: NDArray[np.float64], seed: Any = 0) -> None:
        self._rng = generator(seed) if self.randomised else None
        self.memory = memory
        self._u = self._next_draw()
        self.resume()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        check_mixing_memory(self.memory, type(self)(**self._get_params()).memory, self.places)

    def _next_draw(self) -> float:
        return 0.0 if self._rng is None else float(self._rng.random())

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the round that `predict_proba_one` answers; the features x are not looked at.

        Raises ValueError, and learns nothing, when y is not 0, 1, False or True.
        """
        outcome = outcome_of(y, "y")
        self._check_bears(1)
        u, self._u = self._u, self._next_draw()
        self._probability = float(entry_points(self.machine).advance(self.memory, outcome, u, self._u))

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The forecast of the coming round, already drawn, as the probabilities of False and True."""
        p = self._probability
        return {False: 1.0 - p, True: p}

    def replay(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """The forecasts (of references: the answers) for a sequence of outcomes of shape (T,), going on
        from the present state. ValueError, before anything is played, for outcomes that are none.
        """
        played = check_outcomes(outcomes)
        self._check_bears(len(played))
        forecasts, charged = np.empty(len(played)), np.empty(len(played))
        nothing = np.empty(0)
        entry_points(self.machine).replay(
            self.memory, played, nothing, self.draws(len(played)), forecasts, charged, 0
        )
        self.resume()
        return charged

    @property
    def rules(self) -> Rules:
        """The functions that compiled loops drive the memory with."""
        return self.machine

    @property
    def n_rounds(self) -> int:
        """How many rounds have been settled."""
        return int(self.memory[ROUNDS])

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum: here the ECE itself."""
        return float(self.machine.certificate(self.memory))

    def promise(self, rounds: int) -> float:
        """NaN: no bound holds for the distance of every single game."""
        return math.nan

    def draws(self, number: int) -> NDArray[np.float64]:
        """The uniform draws of the coming rounds, shape (number,), used up; empty if it draws none."""
        if self._rng is None:
            return np.empty(0)
        drawn = np.concatenate([[self._u], self._rng.random(number)])
        self._u = float(drawn[-1])
        return drawn[:-1]

    def grow(self) -> None:
        """The memory never has to grow; ValueError if its counts are full."""
        self._check_bears(1)

    def _check_bears(self, rounds: int) -> None:
        if not bears(self.memory, rounds):
            raise ValueError(
                f"this forecaster's counts cannot bear {rounds} more rounds after {self.n_rounds}: "
                "begin a new one"
            )

    @property
    def most_rounds(self) -> int:
        """How many rounds it bears in all: 2^53/(2 (n + 1)) with n values to forecast from."""
        return int(EXACT / (2.0 * (float(self.memory[POINTS]) + 1.0)))

    def resume(self) -> None:
        """Take up the memory again after a compiled loop has played on it."""
        self._probability = float(entry_points(self.machine).present(self.memory, self._u))


def generator(seed: Any) -> np.random.Generator:
    """The draws of a seed: an integer or a sequence of integers, none negative; ValueError for others."""
    return np.random.default_rng(seed_sequence(seed, spawn_key=(OUR_STREAM,)))


@cache
def entry_points(rules: Rules) -> Compiled:
    """The compiled entry points; each is compiled, or loaded from the cache, at its first call."""
    announce, settle = rules.announce, rules.settle

    @compiled
    def present(memory: NDArray[np.float64], u: float) -> float:
        return announce(memory, NO_HINT, u)[2]

    @compiled
    def advance(memory: NDArray[np.float64], outcome: int, u: float, next_u: float) -> float:
        a, b, forecast, _ = announce(memory, NO_HINT, u)
        settle(memory, a, b, outcome, forecast)
        return announce(memory, NO_HINT, next_u)[2]

    return Compiled(present, advance, compile_replay(rules))


def check_mixing_memory(memory: Any, fresh: NDArray[np.float64], kept: Iterable[int] = ()) -> None:
    """ValueError unless a machine can play on the memory; `fresh` is one as it was before the first round.

    `kept` are the settings in which the machine keeps the place of a value.
    """
    require(isinstance(memory, np.ndarray) and memory.dtype == np.float64, "its type")
    require(memory.shape == fresh.shape, "its length")
    n = int(fresh[POINTS])
    # the machine's settings and its own numbers are its own affair
    for part in (memory[:SETTINGS], memory[LISTS : LISTS + 5 * n], memory[list(kept)]):
        require(bool(np.isfinite(part).all()), "its numbers")
    require((memory[POINTS], memory[PEEKS]) == (n, fresh[PEEKS]) and memory[ROUNDS] >= 0, "its header")
    values, counts, ones, places = (memory[LISTS + part * n : LISTS + (part + 1) * n] for part in range(4))
    require(bool((values == fresh[LISTS : LISTS + n]).all()), "its values")
    require(bool(((ones >= 0) & (ones <= counts)).all()), "its tally")
    support = memory[SUPPORT]
    require(NOT_MIXED <= support <= n and support == int(support), "its mixture")
    # a reference that peeks looks its two values up by the outcome
    drawn = places[: max(0, int(support))]
    require(bool(((drawn >= 0) & (drawn < n) & (drawn == np.floor(drawn))).all()), "its mixture")
    for setting in kept:
        require(0 <= memory[setting] < n and memory[setting] == int(memory[setting]), "its settings")
