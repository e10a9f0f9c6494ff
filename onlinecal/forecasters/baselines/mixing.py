"""What baselines share: a tally of forecasts and outcomes, the draw of the next forecast, river's methods.

A mixing machine forecasts from a fixed list of values, possibly at random. Its memory is one flat float64
array: a header, then, for its n values,

    values, counts, ones    the tally: how often each value was forecast, and how often a 1 came then
    places, weights         the mixture for the coming round: which values, with which probabilities
    own                     whatever else the rule wants to remember

Counts and ones are whole numbers, so that rounding cannot add up. A machine adds one or two functions:

    mix(memory) -> None                      write the mixture of the coming round (`play_one`, `play_two`)
    learn(memory, place, outcome) -> None    update its own part after a round at values[place]; place is -1
                                             for a forecast outside the list

`mixing_rules` makes them into the `Rules` that every loop drives. A mixture is written once a round, and
stays until the round is settled. A forecast outside the list is possible, too (`play_unlisted`). It has no
bias that could cancel that of others: each such forecast is charged with its own error.

A round is `announce`, which has `mix` write the mixture unless it stands there already, and `settle`, which
writes the tally, makes SUPPORT_SIZE NOT_MIXED again, and calls `learn` last. (`UCalibratedForecaster` has an
`announce` of its own, which makes the forecast of each draw anew.) So `learn` finds the places and weights of
the round that is over, and not how many they were; what it needs of that it keeps in `own`. What always holds
between two rounds: `counts` and `ones` are whole numbers, and ROUNDS is the number of all forecasts, in the
list and outside it. Pickles keep the memory as it is, and `check_mixing_memory` checks it when they are read;
nothing else keeps it. A `Baseline` draws one number ahead (`_u`), so that the forecast that it shows is the
one that it plays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, inlined
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules
from onlinecal.layout import Layout
from onlinecal.restoring import Restored, require
from onlinecal.tables.columns import check_outcomes
from onlinecal.validation import outcome_of, seed_sequence

Memory = Any
"""A float64 array, or a list of float when the interpreter runs a machine."""

HEADER = Layout()
ROUNDS = HEADER.field("rounds settled", "count")
POINTS = HEADER.field("n, how many values the list has", "count")
PEEKS = HEADER.field("whether it is a reference that chooses after the outcome", "0 or 1")
UNLISTED_ERROR = HEADER.field("the sum of |p - y| over forecasts outside the list", "probability")
UNLISTED = HEADER.field("the next forecast outside the list", "probability")
SUPPORT_SIZE = HEADER.field("how many values the mixture has; 0 for a forecast outside the list", "count")
NOT_MIXED = -1
"""The SUPPORT_SIZE before the mixture is known."""
FIRST_SETTING = 8
"""Where the parameters of a machine begin."""
LISTS = 16
"""Where the list of values begins; the other lists follow."""
EXACT_UP_TO = 2.0**53
"""Up to here every whole number is a float64."""
DRAWS_BRANCH = 1
"""The branch of the seed that draws come from. Others that use the same seed draw independently of it."""


def new_memory(
    values: Sequence[float] | Floats, settings: Sequence[float] = (), own: int = 0, peeks: bool = False
) -> Floats:
    """A memory with an empty tally for these values, at most 8 settings, and `own` numbers of its own."""
    n = len(values)
    assert len(settings) <= LISTS - FIRST_SETTING
    memory = np.zeros(LISTS + 5 * n + own)
    memory[POINTS], memory[PEEKS], memory[SUPPORT_SIZE] = n, peeks, NOT_MIXED
    memory[FIRST_SETTING : FIRST_SETTING + len(settings)] = settings
    memory[LISTS : LISTS + n] = values
    return memory


@inlined
def value(memory: Memory, place: int) -> float:
    """The forecast at a place of the list."""
    return float(memory[LISTS + place])


@inlined
def count(memory: Memory, place: int) -> float:
    """How often that value was forecast."""
    return float(memory[LISTS + int(memory[POINTS]) + place])


@inlined
def ones(memory: Memory, place: int) -> float:
    """How often a 1 came when that value was forecast."""
    return float(memory[LISTS + 2 * int(memory[POINTS]) + place])


@inlined
def bias(memory: Memory, place: int) -> float:
    """alpha: the sum of (value - outcome) over the rounds in which that value was forecast."""
    return value(memory, place) * count(memory, place) - ones(memory, place)


@inlined
def own(memory: Memory) -> int:
    """Where the machine's own numbers begin."""
    return LISTS + 5 * int(memory[POINTS])


@inlined
def play_one(memory: Memory, place: int) -> None:
    """The coming round: this value, for certain."""
    memory[SUPPORT_SIZE] = 1
    memory[LISTS + 3 * int(memory[POINTS])] = place


@inlined
def play_two(memory: Memory, place: int, weight: float, other: int) -> None:
    """The coming round: one value with this probability, else another."""
    n = int(memory[POINTS])
    memory[SUPPORT_SIZE] = 2
    memory[LISTS + 3 * n] = place
    memory[LISTS + 3 * n + 1] = other
    memory[LISTS + 4 * n] = weight
    memory[LISTS + 4 * n + 1] = 1.0 - weight


@inlined
def play_many(memory: Memory, first: int, weights: Floats) -> None:
    """The coming round: `first` and the values after it, with these probabilities."""
    places = LISTS + 3 * int(memory[POINTS])
    memory[SUPPORT_SIZE] = len(weights)
    for i in range(len(weights)):
        memory[places + i] = first + i
        memory[places + int(memory[POINTS]) + i] = weights[i]


@inlined
def play_unlisted(memory: Memory, forecast: float) -> None:
    """The coming round: a forecast that is not in the list."""
    memory[SUPPORT_SIZE] = 0
    memory[UNLISTED] = forecast


@inlined
def bears(memory: Memory, rounds: int) -> bool:
    """Whether counts are still exact after so many more rounds, and errors in units of 1/(2 (n + 1)).

    There are n values. Grids with m cells have n = m + 1 points or m midpoints, so units of 1/(2m) are no
    finer.
    """
    return bool(2.0 * (memory[POINTS] + 1.0) * (memory[ROUNDS] + rounds) <= EXACT_UP_TO)


@inlined
def has_room(memory: Memory) -> bool:
    """Whether another round can be played: the lists never grow."""
    return bears(memory, 1)


@inlined
def draw(memory: Memory, u: float) -> tuple[int, float, float]:
    """Draw from the mixture: the place, the forecast and the mean forecast.

    The place is -1 for a forecast outside the list. A reference that peeks has no forecast but the mean.
    """
    support = int(memory[SUPPORT_SIZE])
    if support == 0:
        return -1, float(memory[UNLISTED]), float(memory[UNLISTED])
    n = int(memory[POINTS])
    places = LISTS + 3 * n
    if support == 1:
        place = int(memory[places])
        return place, value(memory, place), value(memory, place)
    mean, passed, drawn = 0.0, 0.0, -1
    for i in range(support):
        place, weight = int(memory[places + i]), memory[places + n + i]
        mean += weight * value(memory, place)
        passed += weight
        if drawn < 0 and (u < passed or i == support - 1):
            drawn = place
    return drawn, mean if memory[PEEKS] else value(memory, drawn), mean


@inlined
def charged_place(memory: Memory, place: int, outcome: int) -> int:
    """The place of the value that a round is charged to; a reference that peeks chooses it by the outcome."""
    if memory[PEEKS] and memory[SUPPORT_SIZE] == 2:
        return int(memory[LISTS + 3 * int(memory[POINTS]) + outcome])
    return place


@inlined
def point(memory: Memory, place: int, b: int, outcome: int, forecast: float) -> float:
    """The value that is charged."""
    return forecast if place < 0 else value(memory, charged_place(memory, place, outcome))


@inlined
def rise_at(memory: Memory, place: int, outcome: int) -> float:
    """By how much the sum of |bias| rises when that value meets this outcome."""
    before = bias(memory, place)
    return abs(before + value(memory, place) - outcome) - abs(before)


@inlined
def certificate_rises(memory: Memory, place: int, b: int, forecast: float, seen: bool) -> tuple[float, float]:
    """By how much the certificate would rise with outcome 0 and 1; expected, unless the draw is seen."""
    if place < 0:
        return forecast, 1.0 - forecast
    if seen or memory[SUPPORT_SIZE] == 1 or memory[PEEKS]:
        low, high = charged_place(memory, place, 0), charged_place(memory, place, 1)
        return rise_at(memory, low, 0), rise_at(memory, high, 1)
    rise_zero, rise_one = 0.0, 0.0
    places = LISTS + 3 * int(memory[POINTS])
    weights = places + int(memory[POINTS])
    for i in range(int(memory[SUPPORT_SIZE])):
        rise_zero += memory[weights + i] * rise_at(memory, int(memory[places + i]), 0)
        rise_one += memory[weights + i] * rise_at(memory, int(memory[places + i]), 1)
    return rise_zero, rise_one


@inlined
def certificate(memory: Memory) -> float:
    """The expected calibration error of what was charged, a sum: it bounds the distance to calibration."""
    total = memory[UNLISTED_ERROR]
    for place in range(int(memory[POINTS])):
        total += abs(bias(memory, place))
    return float(total)


@inlined
def learn_nothing(memory: Memory, place: int, outcome: int) -> None:
    """For machines that remember no more than the tally."""


def mixing_rules(
    mix: Callable[[Memory], None], learn: Callable[[Memory, int, int], None] = learn_nothing
) -> Rules:
    """The rules of the machine with this mixture; both functions can be compiled (`inlined`).

    The mixture is worked out when a round is first asked for. Asking again draws from the same mixture.
    """

    @inlined
    def announce(memory: Memory, hint: float, u: float) -> tuple[int, int, float, float]:
        if memory[SUPPORT_SIZE] == NOT_MIXED:
            mix(memory)
        place, forecast, mean = draw(memory, u)
        return place, 0, forecast, mean

    @inlined
    def settle(memory: Memory, place: int, b: int, outcome: int, forecast: float) -> None:
        place = charged_place(memory, place, outcome)
        if place < 0:
            memory[UNLISTED_ERROR] += abs(forecast - outcome)
        else:
            n = int(memory[POINTS])
            memory[LISTS + n + place] += 1
            memory[LISTS + 2 * n + place] += outcome
        memory[ROUNDS] += 1
        memory[SUPPORT_SIZE] = NOT_MIXED
        learn(memory, place, outcome)

    return Rules(has_room, announce, settle, point, certificate_rises, certificate)


class Baseline(Restored, base.Classifier):
    """The base class of forecasters to compare with; subclasses say with which rules, on which memory.

    By itself it forecasts nothing. A subclass sets the class attribute `machine`, the `Rules` of a mixing
    machine, and at the end of its `__init__` calls `_begin` with the memory before the first round. One that
    draws also sets `randomised = True` and calls `_begin(memory, seed)`: all draws come from the seed, so
    equal parameters and equal outcomes give equal forecasts, round by round or through `replay`. What is
    proved of the errors of a randomised forecaster holds if whoever chooses the outcomes does not see the
    draws. docs/baselines.md shows how to write a baseline.
    """

    machine: ClassVar[Rules]
    randomised: ClassVar[bool] = False
    places: ClassVar[tuple[int, ...]] = ()
    """The settings in which the machine keeps the place of a value. They change as it plays."""

    def _begin(self, memory: NDArray[np.float64], seed: Any = 0) -> None:
        self._rng = generator(seed) if self.randomised else None
        self.memory = memory
        self._u = 0.0 if self._rng is None else float(self._rng.random())
        self._resume()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_mixing_memory(self.memory, type(self)(**self._get_params()).memory, self.places)

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the coming round, whose forecast is that of `predict_proba_one`, with the outcome y.

        y is 0, 1, False or True. `predict_proba_one` need not have been called, and the features x are not
        looked at. Raises ValueError, and learns nothing, for any other y.
        """
        self._play(np.array([outcome_of(y, "y")], np.uint8))

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The forecast of the coming round, as a dict with the probabilities of False and True.

        If it is drawn, it is drawn already: asking again answers the same until a round is settled. The
        features x are not looked at. `learn_one` settles that round. A reference, which answers after the
        outcome, gives the mean of its possible answers.
        """
        p = self._probability
        return {False: 1.0 - p, True: p}

    def replay(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """Play a sequence of outcomes, shape (T,), each 0 or 1 or boolean, and return the forecasts.

        These are float64 of shape (T,), in the order of the outcomes, each made before its outcome was seen;
        those of a reference, as PowerOfTwoChoices, are its answers after it. It goes on from the present
        state, and the rounds are settled. Raises ValueError, and plays nothing, if there are no outcomes or
        one is neither 0 nor 1.
        """
        return self._play(check_outcomes(outcomes))

    def _play(self, outcomes: NDArray[np.uint8]) -> NDArray[np.float64]:
        self._check_bears(len(outcomes))
        charged = np.empty(len(outcomes))
        draws = self._draws(len(outcomes))
        self._probability = float(playing(self.machine)(self.memory, outcomes, draws, self._u, charged))
        return charged

    @property
    def _rules(self) -> Rules:
        """The functions that compiled loops drive the memory with."""
        return self.machine

    @property
    def n_rounds(self) -> int:
        """How many rounds have been settled."""
        return int(self.memory[ROUNDS])

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of the settled rounds, a sum over rounds.

        The distance is the least sum of |forecast - q| to numbers q that are perfectly calibrated. The bound
        is the expected calibration error, the sum over values of |sum of (value - outcome) over the rounds in
        which it was forecast, or was a reference's answer|. RunningMean and UCalibratedForecaster, which say
        something new nearly every round, have the sum of |forecast - outcome|. It is 0.0 before the first
        round.
        """
        return float(self.machine.certificate(self.memory))

    def _promise(self, rounds: int) -> float:
        """NaN: no bound holds for the distance of every single game."""
        return math.nan

    def _draws(self, number: int) -> NDArray[np.float64]:
        """Use up the uniform draws of the coming rounds, shape (number,); empty if nothing is drawn."""
        if self._rng is None:
            return np.empty(0)
        drawn = np.concatenate([[self._u], self._rng.random(number)])
        self._u = float(drawn[-1])
        return drawn[:-1]

    def _grow(self) -> None:
        """The memory never has to grow; ValueError if its counts are full."""
        self._check_bears(1)

    def _check_bears(self, rounds: int) -> None:
        if not bears(self.memory, rounds):
            raise ValueError(
                f"this forecaster's counts would overflow in {rounds} more rounds after {self.n_rounds}: "
                "begin a new forecaster"
            )

    @property
    def _most_rounds(self) -> int:
        """How many rounds it bears in all: 2^53/(2 (n + 1)) with n values to forecast from."""
        return int(EXACT_UP_TO / (2.0 * (float(self.memory[POINTS]) + 1.0)))

    def _resume(self) -> None:
        """Take up the memory as it is now; a single forecast takes the interpreter less than compiling it."""
        _, _, forecast, _ = self.machine.announce(self.memory, NO_HINT, self._u)
        self._probability = float(forecast)


def generator(seed: Any) -> np.random.Generator:
    """The draws of a seed: an integer or a sequence of integers, none negative; ValueError for others."""
    return np.random.default_rng(seed_sequence(seed, spawn_key=(DRAWS_BRANCH,)))


@cache
def playing(rules: Rules) -> Callable[..., float]:
    """The kernel of a baseline, which is compiled, or loaded from the cache, at its first call.

    play(memory, outcomes, draws, u, charged) -> the forecast of the coming round: play these rounds and fill
    in the values that were charged. There is a draw for each round, or `draws` is empty; `u` is the draw of
    the coming round.
    """
    announce, settle, point = rules.announce, rules.settle, rules.point

    @compiled
    def play(memory: Floats, outcomes: NDArray[np.uint8], draws: Floats, u: float, charged: Floats) -> float:
        memory = borrowed(memory)
        t = 0
        # there is one call of `announce`, because each one is compiled
        while True:
            a, b, forecast, _ = announce(memory, NO_HINT, draws[t] if t < len(draws) else u)
            if t == len(outcomes):
                return float(forecast)
            outcome = np.int64(outcomes[t])
            charged[t] = point(memory, a, b, outcome, forecast)
            settle(memory, a, b, outcome, forecast)
            t += 1

    return play


def check_mixing_memory(memory: Any, fresh: Floats, kept: Iterable[int] = ()) -> None:
    """ValueError unless a machine can play on the memory; `fresh` is one as it was before the first round.

    `kept` are the settings in which the machine keeps the place of a value.
    """
    require(isinstance(memory, np.ndarray) and memory.dtype == np.float64, "its type")
    require(memory.shape == fresh.shape, "its length")
    n, support = int(fresh[POINTS]), memory[SUPPORT_SIZE]
    require(NOT_MIXED <= support <= n and support == int(support), "its mixture")
    configured = [POINTS, PEEKS, *range(LISTS, LISTS + n)]
    require(np.array_equal(memory[configured], fresh[configured]), "its values")
    require(bool(np.isfinite(memory[LISTS : LISTS + 5 * n]).all() and memory[ROUNDS] >= 0), "its numbers")
    first = LISTS + 3 * n
    places = memory[[*kept, *range(first, first + max(0, int(support)))]]
    require(bool(((places >= 0) & (places < n) & (places == np.floor(places))).all()), "its mixture")
