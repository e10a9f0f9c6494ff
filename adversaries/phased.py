"""What all adversaries share: phases played in turn, draws from a seed, and a memory that can be reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversaries.protocol import POWERS, AnyKind, Phase, Power
from onlinecal.validation import check_count, seed_sequence

Seed = int | Sequence[int] | np.random.SeedSequence
"""Of an adversary's draws: the same seed, the same draws."""

ROUNDS_AT_A_TIME = 1 << 20
"""Uniform draws held in memory at once while outcomes are listed."""


class Phased:
    """A player of phases, with its parameters, its seed and its memory; the base of all adversaries.

    The parameters and attributes are those that `Adversary` describes.
    """

    def __init__(
        self,
        name: str,
        kind: AnyKind,
        phases: Sequence[Phase],
        seed: Seed = 0,
        horizon: int | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.seed = seed
        self.horizon = horizon
        self._initial = tuple(_fresh(phase) for phase in phases)
        self.reset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, horizon={self.horizon!r}, seed={self.seed!r})"

    @property
    def phases(self) -> list[Phase]:
        """The phases from round 0 on, with fresh states: whoever plays them leaves this object as it is."""
        return [_fresh(phase) for phase in self._initial]

    @property
    def power(self) -> Power:
        """What it looks at: "oblivious", "adaptive" or "internal" (of several phases, the strongest)."""
        return max((phase.power for phase in self._initial), key=POWERS.index)

    @property
    def n_rounds(self) -> int:
        """How many outcomes it has given through `outcome` since it was made or reset."""
        return self._finished + self._t

    @property
    def rounds(self) -> int | None:
        """How many outcomes it has in all; None for no end."""
        total = 0
        for phase in self._initial:
            if phase.rounds is None:
                return None
            total += phase.rounds
        return total

    def generator(self) -> np.random.Generator:
        """A generator whose ``random()`` gives the draws of all rounds, one double each, from round 0 on."""
        seed = self.seed
        return np.random.default_rng(
            seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed)
        )

    def reset(self) -> None:
        """Forget everything: the next outcome is that of round 0 again."""
        self._playing = self.phases
        self._rng = self.generator()
        self._phase = 0
        self._t = 0
        self._finished = 0

    def _listed(self, T: int | None, dtype: Any) -> NDArray[Any]:
        """The first T outcomes, whoever plays; ValueError if they depend on forecasts or are too few."""
        if self.power != "oblivious":
            raise ValueError(
                f"{self.name} is {self.power}: its outcomes depend on what the forecaster does, so there is "
                "no sequence to list; play it with outcome(forecast, ...)"
            )
        rounds = self.rounds
        T = (self.horizon if rounds is None else rounds) if T is None else check_count(T, "T")
        if T is None:
            raise ValueError(f"{self.name} has no end and was given no horizon: say how many outcomes, T")
        if rounds is not None and rounds < T:
            raise ValueError(f"{self.name} has only {rounds} outcomes, {T} were asked for")
        outcomes = np.empty(T, dtype=dtype)
        rng = self.generator()
        done = 0
        for phase in self.phases:
            until = T if phase.rounds is None else min(done + phase.rounds, T)
            fill = self._listing(phase.step)
            for first in range(done, until, ROUNDS_AT_A_TIME):
                stretch = outcomes[first : min(first + ROUNDS_AT_A_TIME, until)]
                fill(phase.state, first - done, rng.random(len(stretch)), stretch)
            done = until
        return outcomes

    def _listing(self, step: Callable[..., int]) -> Callable[..., None]:
        """A compiled function (state, first round, draws, outcomes) that fills in outcomes of a step."""
        raise NotImplementedError

    def _present_phase(self) -> Phase:
        while self._phase < len(self._playing):
            phase = self._playing[self._phase]
            if phase.rounds is None or self._t < phase.rounds:
                return phase
            self._phase += 1
            self._finished += phase.rounds
            self._t = 0
        raise ValueError(f"{self.name} is over: it has {self._finished} outcomes and all have been played")


def _fresh(phase: Phase) -> Phase:
    return replace(phase, state=phase.state.copy())
