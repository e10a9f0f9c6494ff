"""What an adversary is made of: a step function, a state array, and a card that describes both.

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

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

State = NDArray[np.float64]
Step = Callable[[State, int, float, float, float, float], int]

Power = Literal["oblivious", "adaptive", "internal", "mixed"]
"""What a step looks at, weakest first.

oblivious  nothing the forecaster does: its outcomes are fixed by the seed alone
adaptive   the forecast just announced (and, through its memory, earlier ones)
internal   the forecaster's inner state too, through rise_zero and rise_one
mixed      only in the catalogue: as powerful as the strongest adversary it plays
"""

POWERS: tuple[Power, ...] = ("oblivious", "adaptive", "internal", "mixed")


@dataclass(frozen=True)
class Parameter:
    """One number, text or other adversary that a spec string may set.

    Parameters
    ----------
    name
        As written in spec strings.
    default
        The value when the spec does not mention it; None means "not given".
    about
        One phrase for tables and help texts.
    low, high
        Smallest and largest allowed value, both included.
    form
        "real" for any number, "whole" for whole numbers, "text" for any text but the empty one, "adversary"
        for the spec of another adversary.
    required
        Whether every spec has to set it, because no default makes sense.
    canonical
        Gives a text as it is to be written back; ValueError for one that is not allowed.
    """

    name: str
    default: float | int | str | None
    about: str
    low: float = -math.inf
    high: float = math.inf
    form: Literal["real", "whole", "text", "adversary"] = "real"
    required: bool = False
    canonical: Callable[[str], str] | None = None

    @property
    def allowed(self) -> str:
        """The allowed values in words, as error messages and tables show them."""
        if self.form == "adversary":
            return "the spec of an adversary"
        if self.form == "text":
            return "a text"
        noun = "a whole number" if self.form == "whole" else "a number"
        if math.isinf(self.high):
            return noun if math.isinf(self.low) else f"{noun} of at least {self.low:g}"
        return f"{noun} in [{self.low:g}, {self.high:g}]"

    def read(self, text: str, owner: str) -> float | int | str:
        """The value that `text` stands for; ValueError names the parameter, the text and what is allowed."""
        if self.form == "text":
            return self._read_text(text, owner)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        fits = self.low <= value <= self.high and math.isfinite(value)
        if not fits or (self.form == "whole" and not value.is_integer()):
            raise ValueError(f"{owner}: {self.name} must be {self.allowed}, got {text!r}")
        return int(value) if self.form == "whole" else value

    def _read_text(self, text: str, owner: str) -> str:
        if not text:
            raise ValueError(f"{owner}: {self.name} must be {self.allowed}, got {text!r}")
        try:
            return text if self.canonical is None else self.canonical(text)
        except ValueError as error:
            raise ValueError(f"{owner}: {self.name}: {error}") from error


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
class Card:
    """What every catalogue says about one kind of adversary.

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
    needs_horizon
        Whether the number of rounds has to be known beforehand.
    horizon_unless
        A parameter that, once given, makes the horizon unnecessary.
    """

    name: str
    summary: str
    power: Power
    source: str
    parameters: tuple[Parameter, ...] = ()
    needs_horizon: bool = field(default=False, kw_only=True)
    horizon_unless: str | None = field(default=None, kw_only=True)

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`; ValueError lists those there are."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise ValueError(f"{self.name} has no parameter {name!r}; it takes {names or 'none'}")

    def check_horizon(self, values: Mapping[str, Any], horizon: int | None) -> None:
        """Refuse a missing horizon if this kind cannot do without one for these parameter values."""
        freed = self.horizon_unless is not None and values[self.horizon_unless] is not None
        if self.needs_horizon and horizon is None and not freed:
            way_out = f" (or {self.horizon_unless}=...)" if self.horizon_unless else ""
            raise ValueError(
                f"{self.name} needs a horizon, the number of rounds to be played{way_out}; none was given"
            )


@dataclass(frozen=True)
class Kind(Card):
    """The catalogue card of one kind of adversary of two classes; its first fields are those of `Card`.

    Parameters
    ----------
    step
        The step function; None for a kind that composes its phases.
    initial
        Builds the state before round 0 from the parameter values and the horizon. The horizon is None only if
        none was given and the kind can do without one. Raises ValueError for values that do not go together.
    compose
        Makes the phases from the parameter values and the horizon, instead of `step` and `initial`; the third
        argument makes those of other adversaries. Raises ValueError like `initial`.
    depth_parameter
        A whole parameter that becomes the `depth` of its phase; None for depth 1.
    """

    step: Step | None = None
    initial: Callable[[Mapping[str, Any], int | None], State] | None = None
    compose: Callable[[Mapping[str, Any], int | None, Build], tuple[Phase, ...]] | None = None
    depth_parameter: str | None = field(default=None, kw_only=True)


def state_of(*numbers: float) -> State:
    """A state array holding these numbers in this order."""
    return np.array(numbers, dtype=np.float64)
