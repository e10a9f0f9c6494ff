"""Players: phases in turn, draws from a seed, a memory that can be reset; a face for single rounds.

`create` hands out an `Adversary`: plain Python for single rounds, phases for compiled loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adversaries.protocol import POWERS, AnyKind, Phase, Power, State, Step
from onlinecal.validation import check_count, check_finite, check_probability, seed_sequence

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


class Adversary(Phased):
    """One player, with its parameters, its seed and its memory.

    It can be played in two ways that agree bit for bit. Round by round, in the interpreter:

    >>> import adversaries
    >>> adversary = adversaries.create("threshold:at=0.3")
    >>> [adversary.outcome(forecast) for forecast in (0.1, 0.5, 0.2)]
    [1, 0, 1]

    Or by a driver with a compiled loop: it plays every phase of `phases` in turn, counts t from 0 in each,
    and hands the step of round s of the game the s-th draw of ``generator().random(T)``.

    Parameters
    ----------
    name
        What it is called: for catalogued adversaries the canonical spec, from which `create` makes it again.
    kind
        Its kind, an entry of the catalogue.
    phases
        Who plays, and for how long; only the last may be open-ended.
    seed
        A seed of `numpy.random.default_rng`, but not None: the same seed always gives the same outcomes.
    horizon
        The number of rounds it was built for, None if it did not need to know.

    Attributes
    ----------
    name, kind, seed, horizon
        As given.
    """

    def outcome(self, forecast: float = 0.5, rise_zero: float = 0.0, rise_one: float = 0.0) -> int:
        """Play one round.

        Parameters
        ----------
        forecast
            The probability just announced, in [0, 1]. Oblivious adversaries do not look at it.
        rise_zero, rise_one
            How much the forecaster's certificate would rise for outcome 0 and for outcome 1, within as many
            rounds as the phase's `depth` says. Only internal adversaries look at them.

        Returns
        -------
        int
            0 or 1.

        Raises
        ------
        ValueError
            For a forecast outside [0, 1], a rise that is not finite, or when a replayed stream is over. The
            round is then not counted.
        """
        p = check_probability(forecast, "forecast")
        rises = check_finite(rise_zero, "rise_zero"), check_finite(rise_one, "rise_one")
        phase = self._present_phase()
        outcome = phase.step(phase.state, self._t, p, *rises, self._rng.random())
        self._t += 1
        return outcome

    def outcomes(self, T: int | None = None) -> NDArray[np.uint8]:
        """The first T outcomes of an oblivious adversary, wherever `outcome` stands; nothing is consumed.

        Parameters
        ----------
        T
            How many, at least 1; None: the horizon, or all there are of a replayed stream.

        Returns
        -------
        NDArray[np.uint8]
            Zeros and ones, shape (T,).

        Raises
        ------
        ValueError
            If the adversary reacts to forecasts, if T is missing or not positive, or beyond the last outcome.
        """
        return self._listed(T, np.uint8)

    def _listing(self, step: Step) -> Callable[..., None]:
        return _compiled_listing(step)


@cache
def _compiled_listing(step: Step) -> Callable[[State, int, NDArray[np.float64], NDArray[np.uint8]], None]:
    @njit
    def listing(
        state: State, first: int, uniforms: NDArray[np.float64], outcomes: NDArray[np.uint8]
    ) -> None:  # pragma: no cover
        for i in range(len(uniforms)):
            outcomes[i] = step(state, first + i, 0.5, 0.0, 0.0, uniforms[i])

    return listing
