"""What an adversary is made of: a step function, a state array, and a kind that describes both.

The step function is the whole adversary. It is a plain module-level function

    step(state, t, forecast, rise_zero, rise_one, u) -> 0 or 1

decorated with ``numba.extending.register_jitable``: the interpreter runs it as it stands, and a compiled loop
can call it. Its arguments:

    state      float64 array [parameters..., memory...], changed in place
    t          the round, counted from 0 within the phase that is being played
    forecast   the probability the forecaster has just announced; the mean of what a forecaster that draws its
               announcement may announce, while the draw is hidden
    rise_zero  how much the forecaster's certificate would rise if the outcome were 0
    rise_one   how much it would rise if the outcome were 1 (both looking `depth` rounds ahead, see `Phase`)
    u          this round's uniform draw in [0, 1), the only randomness there is

A step never looks at anything else, so equal states and equal arguments give equal outcomes wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onlinecal.catalogue import Entry, Parameter

State = NDArray[np.float64]
"""What a step remembers from round to round: an array that it may write to."""

Step = Callable[[State, int, float, float, float, float], int]
"""`(state, t, forecast, rise_zero, rise_one, u)` to the outcome, 0 or 1; compiled and in the interpreter."""

Power = Literal["oblivious", "adaptive", "internal", "mixed"]
"""What a step looks at, weakest first.

oblivious  nothing the forecaster does: its outcomes are fixed by the seed alone
adaptive   the forecast just announced (and, through its memory, earlier ones)
internal   the forecaster's inner state too, through rise_zero and rise_one
mixed      only in the catalogue: as powerful as the strongest adversary it plays
"""

POWERS: tuple[Power, ...] = ("oblivious", "adaptive", "internal", "mixed")


@dataclass(frozen=True, eq=False)
class Phase:
    """A stretch of rounds played by one step function.

    A driver plays the phases of an adversary one after the other. In each, t starts again from 0, while the
    uniform draws continue: one per round of the whole game.

    Parameters
    ----------
    step
        The step function.
    state
        Its state before the first round of the phase: float64 array [parameters..., memory...].
    rounds
        How many rounds the phase lasts; None for as long as the game goes on.
    power
        What the step looks at; only "internal" ones need rise_zero and rise_one.
    depth
        How many rounds ahead the driver looks when it works out rise_zero and rise_one. 1: this round alone.
        With more, each is the largest rise of the certificate that any continuation of so many rounds, this
        one included, can reach after that first outcome.
    """

    step: Callable[..., int]
    state: State
    rounds: int | None = None
    power: Power = "adaptive"
    depth: int = 1


Build = Callable[[str, int | None], tuple[Phase, ...]]
"""Gives the phases of another adversary from its canonical spec, for a horizon or None."""


@dataclass(frozen=True)
class AnyKind(Entry):
    """What every catalogue says about one kind of adversary, be it of two classes or of more.

    Parameters
    ----------
    name
        In kebab-case, as spec strings write it.
    summary
        One line that says which outcomes it plays.
    power
        What its step looks at.
    source
        Where it comes from: a paper, or "this library".
    parameters
        What a spec string may set.
    step
        The step function; None for a kind that composes its phases.
    initial
        Builds the state before round 0 from the parameter values, the number of classes (if there may be more
        than two) and the horizon. The horizon is None only if none was given and the kind can do without one.
        Raises ValueError for values that do not go together.
    compose
        Makes the phases from the same, instead of `step` and `initial`; the last argument makes those of
        other adversaries. Raises ValueError like `initial`.
    needs_horizon
        Whether the number of rounds has to be known beforehand.
    horizon_unless
        A parameter that, once given, makes the horizon unnecessary.
    depth_parameter
        A whole parameter that becomes the `depth` of its phase; None for depth 1.
    """

    power: Power
    source: str
    parameters: tuple[Parameter, ...] = ()
    step: Callable[..., int] | None = None
    initial: Callable[..., State] | None = None
    compose: Callable[..., tuple[Phase, ...]] | None = None
    needs_horizon: bool = field(default=False, kw_only=True)
    horizon_unless: str | None = field(default=None, kw_only=True)
    depth_parameter: str | None = field(default=None, kw_only=True)

    @property
    def made_by(self) -> object:
        """Its `compose`, else its step."""
        return self.compose or self.step

    def check_horizon(self, values: Mapping[str, Any], horizon: int | None) -> None:
        """Refuse a missing horizon if this kind cannot do without one for these parameter values."""
        freed = self.horizon_unless is not None and values[self.horizon_unless] is not None
        if self.needs_horizon and horizon is None and not freed:
            way_out = f" (or {self.horizon_unless}=...)" if self.horizon_unless else ""
            raise ValueError(
                f"{self.name} needs a horizon, the number of rounds to be played{way_out}; none was given"
            )


@dataclass(frozen=True)
class Kind(AnyKind):
    """One kind of adversary of two classes, as the catalogue has it, with the fields of `AnyKind`."""

    step: Step | None = None
    initial: Callable[[Mapping[str, Any], int | None], State] | None = None
    compose: Callable[[Mapping[str, Any], int | None, Build], tuple[Phase, ...]] | None = None


def state_of(*numbers: float) -> State:
    """A state array holding these numbers in this order."""
    return np.array(numbers, dtype=np.float64)
