"""The parts of an adversary (a step function, a state array and a kind), and the classes that play it.

The step function is the whole adversary. It is a plain module-level function

    step(state, t, forecast, rise_zero, rise_one, u) -> 0 or 1

decorated with ``numba.extending.register_jitable``: the interpreter runs it as it stands, and a compiled loop
can call it. Its arguments:

    state      float64 array [parameters..., memory...], changed in place
    t          the round, counted from 0 within the phase that is being played
    forecast   the probability that the forecaster has just announced; if the forecaster draws its
               announcement and the draw is hidden, the mean of that draw
    rise_zero  how much the forecaster's certificate would rise if the outcome were 0
    rise_one   how much it would rise if the outcome were 1 (both looking `depth` rounds ahead, see `Phase`)
    u          this round's uniform draw in [0, 1), the only randomness there is

A step looks at nothing else, so equal states and equal arguments give equal outcomes wherever it runs.
With several classes it is

    step(state, t, forecast, rises, u) -> the number of a class, 0 to k - 1

with these arguments instead:

    forecast   the class probabilities just announced, float64, shape (k,); not to be changed
    rises      how much the forecaster's certificate would rise for each outcome, float64, shape (k,); zeros
               unless the phase is internal

Who writes what: a step may write the state of its phase, and nothing else. `Adversary` keeps the states
before round 0 (`_initial`), of which `phases` gives copies. `outcome` plays on such copies (`_playing`),
which `reset` makes anew, and a driver (`simulations/games/duel.py`) plays on others. So a game by a driver
and rounds by `outcome` do not disturb each other. The hints of a phase are not copied, and no step gets them.

What may change: the layout of a state, together with the function that makes it, since states are saved in
pickles alone. What a step answers may not, nor which draw it uses for what: equal specs, horizons and seeds
give equal outcomes. Of the library's adversaries some games are kept in `tests/corpus`. A sweep plays all
games anew when any function here has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import getdoc, signature
from typing import Any, Literal, TypeVar

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.catalogue import CatalogueEntry, Parameter
from onlinecal.restoring import Restored
from onlinecal.texts import shown
from onlinecal.validation import check_count, check_finite, check_probability, seed_sequence

BELOW_ONE = 1.0 - 2.0**-53
"""The largest possible draw; a stretched draw that was rounded up to 1 is brought back to this."""

EQUAL_RISES = 1e-12
"""Rises count as equal if they differ by at most this, since forecasters add them up in floating point.

Another value gives other outcomes of internal adversaries."""

State = NDArray[np.float64]
"""The memory of a step from round to round: an array that it may write to."""

Step = Callable[[State, int, float, float, float, float], int]
"""`(state, t, forecast, rise_zero, rise_one, u)` to the outcome, 0 or 1; compiled and in the interpreter."""

Power = Literal["oblivious", "adaptive", "internal", "mixed"]
"""How much a step looks at, weakest first.

oblivious  nothing the forecaster does: its outcomes are fixed by the seed alone
adaptive   the forecast just announced (and, through its memory, earlier ones)
internal   the forecaster's inner state too, through rise_zero and rise_one
mixed      only in the catalogue: as powerful as the strongest adversary it plays
"""

POWERS: tuple[Power, ...] = ("oblivious", "adaptive", "internal", "mixed")


@dataclass(frozen=True, eq=False)
class Phase(Restored):
    """A stretch of rounds in which one step function chooses the outcomes. Making it checks nothing.

    The phases of an adversary are played one after the other. In each of them the round number t starts again
    from 0, while the uniform draws continue: there is one for each round of the whole game.

    Parameters
    ----------
    step
        The step function, which is called once a round and returns the outcome; `Kind` says how it is called.
    state
        What the step finds in its first round, and may write to: a float64 array with the step's parameters
        in front and its memory behind them.
    rounds
        How many rounds the phase lasts; None for as long as the game goes on.
    power
        How much the step looks at: "oblivious", nothing the forecaster does; "adaptive", its forecasts;
        "internal", also how much each outcome would raise the forecaster's certificate, which is its proven
        bound on the distance to calibration.
    depth
        How many rounds ahead, at least 1, these rises are worked out. With 1 they are those of this round
        alone. With more, each is the largest rise that this outcome and any outcomes of the rounds after it,
        so many rounds in all, can reach.
    hints
        Probabilities that were forecast for recorded outcomes, which a forecaster may be given before each
        round: shape (rounds,), or for k classes (rounds, k). None: there are none.
    """

    step: Callable[..., int]
    state: State
    rounds: int | None = None
    power: Power = "adaptive"
    depth: int = 1
    hints: Floats | None = None


Build = Callable[[str, int | None], tuple[Phase, ...]]
"""Makes the phases of another adversary from its canonical spec, for a horizon or None."""


@dataclass(frozen=True)
class Kind(CatalogueEntry):
    """One kind of adversary, of two classes or of more: a catalogue's entry, of which specs make players.

    Making it checks nothing; `register` does. docs/own-adversary.md has an example.

    Parameters
    ----------
    name
        In kebab-case, as specs such as "coin:bias=0.7" begin with it.
    summary
        One line that says which outcomes it plays.
    power
        How much its step looks at: "oblivious", nothing the forecaster does; "adaptive", its forecasts;
        "internal", also how much each outcome would raise the certificate (see `step`); "mixed", what the
        adversaries that it plays look at.
    source
        Where it comes from: a paper, or "this library".
    parameters
        What a spec may set. Canonical specs name them in this order; without `initial` the state before round
        0 is their values in this order.
    step
        Called once a round as step(state, t, forecast, rise_zero, rise_one, u), it returns the outcome, 0 or
        1. It may write to `state`. t is the round, from 0; forecast the probability just announced; rise_zero
        and rise_one how much outcome 0 or 1 would raise the forecaster's certificate, its proven bound on the
        distance to calibration; u a uniform draw from [0, 1). With several classes it is called as
        step(state, t, forecast, rises, u), where forecast and rises have shape (k,), and returns a class
        number from 0 to k - 1. None for a kind with `compose`.
    initial
        Called as initial(values, horizon), with several classes as initial(values, k, horizon), it returns
        the state before round 0, a float64 array. `values` maps names of parameters to values; the horizon,
        the number of rounds, is None if it was not given. It raises ValueError for values that do not go
        together. None: the state is made of the parameters alone.
    compose
        Used in place of `step` and `initial`, to play other adversaries. Called as `initial` is, with one
        more argument at the end, it returns a tuple of phases. That argument, build(spec, rounds), returns
        the phases of another adversary, made for so many rounds or None.
    needs_horizon
        Whether `create` must be told the number of rounds.
    horizon_unless
        The name of a parameter that makes the horizon unnecessary if it is given; None: there is none.
    depth_parameter
        The name of the parameter that is its phase's `depth`, the rounds ahead for which rises are worked
        out; None: the depth is 1.
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
    def _made_by(self) -> object:
        """Its `compose` if it has one, else its step."""
        return self.compose or self.step

    def _check_horizon(self, values: Mapping[str, Any], horizon: int | None) -> None:
        """Refuse a missing horizon if this kind needs one with these parameter values."""
        freed = self.horizon_unless is not None and values[self.horizon_unless] is not None
        if self.needs_horizon and horizon is None and not freed:
            way_out = f" (or {self.horizon_unless}=...)" if self.horizon_unless else ""
            raise ValueError(
                f"{self.name} needs a horizon, the number of rounds to be played{way_out}; none was given"
            )


MOST_ADVERSARY_CLASSES = 1000
"""The most classes an adversary may have."""

LARGEST_WHOLE = 1e9
"""The largest value of a whole parameter: its products with rounds stay within 64 bits."""


def whole(
    name: str, default: int | None, about: str, low: float = 1, high: float = LARGEST_WHOLE
) -> Parameter:
    """A parameter that is a whole number."""
    return Parameter(name, default, about, low, high, form="whole")


def chance(name: str, default: float, about: str) -> Parameter:
    """A parameter that is a probability."""
    return Parameter(name, default, about, low=0.0, high=1.0)


Played = TypeVar("Played", bound=Callable[..., int])


def plays(
    kinds: list[Kind],
    power: Power,
    source: str,
    *parameters: Parameter,
    initial: Callable[..., State] | None = None,
    for_horizon: Callable[..., State] | None = None,
    **more: Any,
) -> Callable[[Played], Played]:
    """Decorate a step of the library: it becomes compilable, and its kind is added at the end of `kinds`.

    The kind has the step's name: late-class for `late_class_step`. Its summary is the first paragraph of the
    step's docstring, up to the word State. So whoever renames a step renames the adversary, also in the specs
    of finished sweeps. `initial` is that of `Kind`; `for_horizon` is given instead if the kind needs a
    horizon. `more` are other fields of `Kind`.
    """

    def enter(step: Played) -> Played:
        sentence = " ".join((getdoc(step) or "").partition("\n\n")[0].partition("State:")[0].split())
        summary = sentence[0].lower() + sentence[1:].rstrip(".")
        name, begin = step.__name__.removesuffix("_step").replace("_", "-"), initial or for_horizon
        needs = for_horizon is not None
        kinds.append(Kind(name, summary, power, source, parameters, step, begin, needs_horizon=needs, **more))
        return register_jitable(step)

    return enter


def state_of(*numbers: float) -> State:
    """A state array holding these numbers in this order."""
    return np.array(numbers, dtype=np.float64)


Seed = int | Sequence[int] | np.random.SeedSequence
"""The seed of an adversary's draws: the same seed gives the same draws."""

WANTED_SEED = "a non-negative integer, a sequence of them, or a numpy.random.SeedSequence"
"""What the error for another seed asks for."""


class Adversary:
    """Chooses the outcomes of a game, round by round: a player with parameters, a seed and a memory.

    `create` makes one. It can be played in two ways that agree bit for bit. One is in the interpreter:

    >>> from onlinecal import adversaries
    >>> adversary = adversaries.create("threshold:at=0.3")
    >>> [adversary.outcome(forecast) for forecast in (0.1, 0.5, 0.2)]
    [1, 0, 1]

    The other is `simulations.play`, a compiled loop. It plays every phase of `phases` in turn, counts t from
    0 in each, and gives the step of the game's round s, from 0, the draw ``generator().random(T)[s]``.

    Parameters
    ----------
    name
        Its name; an adversary from the catalogue has its canonical spec, from which `create` makes it again.
    kind
        Its kind, an entry of the catalogue.
    phases
        The phases of the game, at least one; only the last may last as long as the game goes on. Their states
        are copied. Steps are called as step(state, t, forecast, rise_zero, rise_one, u).
    seed
        An integer or a sequence of integers, none negative, or a `numpy.random.SeedSequence`. The same seed
        always gives the same outcomes.
    horizon
        The number of rounds it was made for; None if none was given.

    Attributes
    ----------
    name, kind, seed, horizon
        As given.
    n_classes
        None, since outcomes are 0 and 1.

    Raises
    ------
    ValueError
        For phases that are no `Phase`, or none at all, for steps that cannot be called so, and for any other
        seed, None and generators among them.
    """

    n_classes: int | None = None
    """k of a `MulticlassAdversary`; None for outcomes 0 and 1."""
    _step_arguments: tuple[str, ...] = ("state", "t", "forecast", "rise_zero", "rise_one", "u")

    def __init__(
        self,
        name: str,
        kind: Kind,
        phases: Sequence[Phase],
        seed: Seed = 0,
        horizon: int | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.seed = seed
        self.horizon = horizon
        given = tuple(phases) if isinstance(phases, Iterable) else ()
        if not given or not all(isinstance(phase, Phase) for phase in given):
            raise ValueError(f"phases must be a sequence of Phase, at least one, got {shown(phases)}")
        for place, phase in enumerate(given):
            if not _takes(phase.step, self._step_arguments):
                raise ValueError(
                    f"phases must have steps that are called as step({', '.join(self._step_arguments)}), got "
                    f"{shown(phase.step)} in phase {place}"
                )
        self._initial = tuple(_fresh(phase) for phase in given)
        self.reset()

    def __repr__(self) -> str:
        k = "" if self.n_classes is None else f"n_classes={self.n_classes}, "
        return f"{type(self).__name__}({self.name!r}, {k}horizon={self.horizon!r}, seed={self.seed!r})"

    @property
    def phases(self) -> list[Phase]:
        """A new list of the phases, from round 0 on, with copies of their states as they were then.

        Whoever plays them does not change this adversary.
        """
        return [_fresh(phase) for phase in self._initial]

    @property
    def power(self) -> Power:
        """How much it looks at, the most of all its phases: "oblivious", "adaptive" or "internal".

        An oblivious one looks at nothing the forecaster does, an adaptive one at forecasts, an internal one
        also at how much each outcome would raise the forecaster's certificate, which is its proven bound on
        the distance to calibration.
        """
        return max((phase.power for phase in self._initial), key=POWERS.index)

    @property
    def n_rounds(self) -> int:
        """How many rounds `outcome` has played since this object was made or reset, in all phases."""
        return self._finished + self._t

    @property
    def rounds(self) -> int | None:
        """How many outcomes it can give from round 0 on, a sum over its phases; None if it has no end.

        Rounds that were played already are among them.
        """
        known = [phase.rounds for phase in self._initial if phase.rounds is not None]
        return sum(known) if len(known) == len(self._initial) else None

    @property
    def hints(self) -> Floats | None:
        """Probabilities that were recorded with its outcomes, for all rounds from 0 on: a new array, or None.

        The shape is (T,), of k classes (T, k). A forecaster may be given them as hints, in `simulations.play`
        for example. None unless every phase has some.
        """
        known = [phase.hints for phase in self._initial if phase.hints is not None]
        return np.concatenate(known) if len(known) == len(self._initial) else None

    def generator(self) -> np.random.Generator:
        """A new numpy generator whose ``random()`` gives the draw of each round, from round 0 on.

        These are the same in each generator. What is drawn from one does not change this adversary.
        """
        seed = self.seed
        return np.random.default_rng(
            seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed, wanted=WANTED_SEED)
        )

    def reset(self) -> None:
        """Forget all rounds played by `outcome`: the next one is round 0 again, with the same draws."""
        self._playing = self.phases
        self._rng = self.generator()
        self._phase = 0
        self._t = 0
        self._finished = 0

    def _play(self, *shown: Any) -> int:
        """The outcome of the present phase's step for these arguments; ValueError if all phases are over."""
        while self._phase < len(self._playing):
            phase = self._playing[self._phase]
            if phase.rounds is None or self._t < phase.rounds:
                outcome = int(phase.step(phase.state, self._t, *shown, self._rng.random()))
                self._t += 1
                return outcome
            self._phase += 1
            self._finished += phase.rounds
            self._t = 0
        raise ValueError(
            f"{self.name} is over: all of its {self._finished} outcomes have been played; play fewer rounds, "
            "or call reset() to begin again"
        )

    def outcome(self, forecast: float = 0.5, rise_zero: float = 0.0, rise_one: float = 0.0) -> int:
        """Play the coming round. It counts in `n_rounds`, and the adversary's memory changes.

        Parameters
        ----------
        forecast
            The probability just announced, in [0, 1]. Oblivious adversaries do not look at it.
        rise_zero, rise_one
            How much outcome 0, and outcome 1, would raise the forecaster's certificate, its proven bound on
            the distance to calibration: in this round, or within as many rounds as the phase's `depth` says.
            Only internal adversaries look at them.

        Returns
        -------
        int
            0 or 1.

        Raises
        ------
        ValueError
            For a forecast outside [0, 1], a rise that is not finite, or when all `rounds` have been played.
            The round is then not counted.
        """
        p = check_probability(forecast, "forecast")
        return self._play(p, check_finite(rise_zero, "rise_zero"), check_finite(rise_one, "rise_one"))

    def outcomes(self, T: int | None = None) -> NDArray[Any]:
        """The first T outcomes, from round 0 on, of an oblivious adversary, which ignores forecasts.

        Nothing counts as played: `outcome` goes on where it was.

        Parameters
        ----------
        T
            How many, at least 1, and at most `rounds` if the adversary has an end; it may be more than the
            horizon. None: all `rounds`, or without an end the horizon.

        Returns
        -------
        NDArray[np.uint8] | NDArray[np.int64]
            Zeros and ones, or with several classes their numbers from 0, shape (T,).

        Raises
        ------
        ValueError
            If the adversary is not oblivious, T is no such number, or T is None and there is neither an end
            nor a horizon.
        """
        if self.power != "oblivious":
            raise ValueError(
                f"{self.name} is {self.power}: its outcomes depend on what the forecaster does, so there is "
                "no sequence to list; play it with outcome(forecast, ...)"
            )
        rounds = self.rounds
        T = (self.horizon if rounds is None else rounds) if T is None else check_count(T, "T")
        if T is None:
            raise ValueError(f"T must be given, got None: {self.name} has no end and no horizon")
        if rounds is not None and rounds < T:
            raise ValueError(f"T must be at most {rounds}, the outcomes of {self.name}, got {T}")
        k, twin = self.n_classes, copy(self)
        twin.reset()
        shown = (0.5, 0.0, 0.0) if k is None else (np.full(k, 1.0 / k), np.zeros(k))
        outcomes = (twin._play(*shown) for _ in range(T))
        return np.fromiter(outcomes, np.uint8 if k is None else np.int64, T)


def _takes(step: Any, arguments: tuple[str, ...]) -> bool:
    """Whether a step can be called with so many arguments, as far as that is known."""
    try:
        signature(step).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # what is written in C may tell nothing
        return True
    return True


def _fresh(phase: Phase) -> Phase:
    return replace(phase, state=phase.state.copy())


FORECAST_SUM_TOLERANCE = 1e-6
"""How far the sum of a forecast's probabilities may be from 1."""


class MulticlassAdversary(Adversary):
    """Chooses the outcomes of a game of k classes: a player with parameters, a seed and a memory.

    Outcomes are class numbers from 0. `create_multiclass` makes one; all else is as for `Adversary`.

    >>> from onlinecal import adversaries
    >>> adversary = adversaries.create_multiclass("least-likely", n_classes=3)
    >>> adversary.outcome([0.5, 0.2, 0.3])
    1

    Parameters
    ----------
    name, kind, phases, seed, horizon
        Its name, its entry of the catalogue, the phases of the game, whose steps are called as
        step(state, t, forecast, rises, u), the seed of its draws (an integer or a sequence of integers, none
        negative, or a `numpy.random.SeedSequence`), and the number of rounds it was made for, or None.
    n_classes
        k, from 2 to 1000.

    Attributes
    ----------
    name, kind, n_classes, seed, horizon
        As given.

    Raises
    ------
    ValueError
        For n_classes below 2 or above 1000, for phases that are no `Phase`, or none at all, for steps that
        cannot be called so, and for any other seed, None and generators among them.
    """

    n_classes: int
    _step_arguments = ("state", "t", "forecast", "rises", "u")

    def __init__(
        self,
        name: str,
        kind: Kind,
        n_classes: int,
        phases: Sequence[Phase],
        seed: Seed = 0,
        horizon: int | None = None,
    ) -> None:
        self.n_classes = check_count(n_classes, "n_classes", MOST_ADVERSARY_CLASSES, least=2)
        super().__init__(name, kind, phases, seed, horizon)

    def outcome(  # type: ignore[override]
        self, forecast: ArrayLike | None = None, rises: ArrayLike | None = None
    ) -> int:
        """Play the coming round. It counts in `n_rounds`, and the adversary's memory changes.

        Parameters
        ----------
        forecast
            The class probabilities just announced, shape (k,); None: 1/k for each. Oblivious adversaries do
            not look at them.
        rises
            How much each outcome would raise the forecaster's certificate, its proven bound on the distance
            to calibration, shape (k,); None: 0 for each. Only internal adversaries look at them.

        Returns
        -------
        int
            The number of a class, from 0 to k - 1.

        Raises
        ------
        ValueError
            For a forecast that is not a vector of k probabilities with sum 1 (to within 1e-6), for rises that
            are not k finite numbers, or when all `rounds` have been played. The round is then not counted.
        """
        k = self.n_classes
        announced = np.full(k, 1.0 / k) if forecast is None else _vector(forecast, k, "forecast")
        if announced.min() < 0.0 or abs(announced.sum() - 1.0) > FORECAST_SUM_TOLERANCE:
            raise ValueError(f"forecast must be probabilities with sum 1, got {announced.tolist()}")
        return self._play(announced, np.zeros(k) if rises is None else _vector(rises, k, "rises"))


def _vector(values: ArrayLike, k: int, name: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (k,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be {k} finite numbers, one for each class, got {shown(values)}")
    return array
