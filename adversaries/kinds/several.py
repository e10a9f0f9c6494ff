"""Adversaries of k classes: those that never look at a forecast, those that answer it, one that sees more.

Some follow a path through the simplex: straight lines between the points of a quasi-random Dirichlet
sequence.

Independent exponential variables divided by their sum have the distribution Dirichlet(1, ..., 1), with which
all class probabilities are equally likely. The exponentials of point i are made of the fractional parts of
1/2 + i/g, 1/2 + i/g^2, ..., 1/2 + i/g^k instead of random numbers, where g > 1 is the root of g^(k+1) = g +
1. These points spread evenly and are known in advance, so that the draws of the game are left for the
outcomes.

Each step's docstring says what its state has, in order, and its `initial` function lists the numbers in this
order. A step writes its own state alone, and the forecast that it is shown stays as it is. The driver makes
sure that this is a vector of k probabilities; a step checks nothing.

What a step answers is fixed, BIAS_PLACES and the sequence of points included: equal specs and seeds give
equal games, one of which is kept in `tests/corpus`. A step's name, without `_step`, is the adversary's name
in specs, and the first paragraph of its docstring is what `onlinecal adversaries --classes` says of it.

References
----------
Roberts (2018). The unreasonable effectiveness of quasirandom sequences: the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numba.extending import register_jitable

from onlinecal.adversaries.protocol import BELOW_ONE, EQUAL_RISES, Kind, State, chance, plays, state_of, whole
from onlinecal.arrays import Floats
from onlinecal.catalogue import Parameter

SEVERAL_CLASS_KINDS: list[Kind] = []
oblivious = partial(plays, SEVERAL_CLASS_KINDS, "oblivious")
adaptive = partial(plays, SEVERAL_CLASS_KINDS, "adaptive")
internal = partial(plays, SEVERAL_CLASS_KINDS, "internal")

PATH_SPACING, PATH_ROOT, PATH_LEG, PATH_POINTS = range(4)
"""The state of a path: rounds a leg lasts, g, the present leg, then its two ends and the present point, k
each. `path_state` makes it, and `move` alone writes it."""


def path_state(n_classes: int, spacing: float) -> State:
    """The state of a path before its first round, with `spacing` rounds from point to point."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (n_classes + 1))
    return np.array([spacing, root, -1.0, *[0.0] * (3 * n_classes)])


@register_jitable
def move(state: State, t: int, k: int) -> Floats:
    """The point of round t, shape (k,), a view of the state."""
    leg = math.floor(t / state[PATH_SPACING])
    start, end = state[PATH_POINTS : PATH_POINTS + k], state[PATH_POINTS + k : PATH_POINTS + 2 * k]
    if leg != state[PATH_LEG]:
        state[PATH_LEG] = leg
        fill_point(start, leg, state[PATH_ROOT])
        fill_point(end, leg + 1, state[PATH_ROOT])
    share = t / state[PATH_SPACING] - leg
    here = state[PATH_POINTS + 2 * k : PATH_POINTS + 3 * k]
    for c in range(k):
        here[c] = start[c] + share * (end[c] - start[c])
    return here


@register_jitable
def fill_point(point: Floats, number: int, root: float) -> None:
    """Write point `number` of the sequence; point 0 is the middle of the simplex."""
    total, stride = 0.0, 1.0
    for c in range(len(point)):
        stride /= root
        place = 0.5 + number * stride
        point[c] = -math.log(1.0 - (place - math.floor(place)))
        total += point[c]
    for c in range(len(point)):
        point[c] /= total


@register_jitable
def drawn(weights: Floats, u: float) -> int:
    """The class that a uniform draw chooses, with probabilities proportional to the weights."""
    left, last = 0.0, 0
    for c in range(len(weights)):
        left += weights[c]
    left *= u
    for c in range(len(weights)):
        if weights[c] > 0.0:
            left -= weights[c]
            last = c
            if left < 0.0:
                return c
    return last


LEGS = whole("legs", 12, "straight lines from the first round to the last")
SPACED = whole("spacing", None, "rounds each line takes, instead of legs")


@oblivious("folklore")
def uniform_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Every class with the same probability. State: []."""
    return int(u * len(forecast))


def read_shares(text: str) -> list[float]:
    """Numbers of at least 0, not all 0, separated by commas; ValueError for anything else."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0.0 <= share <= 1e9 for share in shares) or sum(shares) == 0.0:
        raise ValueError(
            f"must be numbers of at least 0 with commas between them, not all 0, like [5,3,2], got {text!r}"
        )
    return shares


def canonical_shares(text: str) -> str:
    """The text with every number in its shortest form."""
    return ",".join(repr(share).removesuffix(".0") for share in read_shares(text))


def _weights_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    if values["shares"] is None:
        return np.arange(1.0, n_classes + 1)
    shares = read_shares(values["shares"])
    if len(shares) != n_classes:
        raise ValueError(
            f"weights: shares must be {n_classes} numbers, one for each class, got [{values['shares']}]"
        )
    return np.array(shares)


@oblivious(
    "folklore",
    Parameter(
        "shares", None, "in proportion; 1, 2, ..., k if not set", form="text", canonical=canonical_shares
    ),
    initial=_weights_initial,
)
def weights_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Every class with a fixed probability of its own. State: [weight of each class]."""
    return drawn(state, u)


@oblivious("folklore", whole("length", 1, "rounds a class stays"))
def rotating_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Runs of every class in turn. State: [length]."""
    return (t // int(state[0])) % len(forecast)


def _markov_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    return state_of(values["stay"], -1.0)


@oblivious("folklore", chance("stay", 0.9, "probability of the previous class"), initial=_markov_initial)
def markov_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The previous class again with a fixed probability, else one of the others. State: [stay, previous].

    If the draw is not below `stay`, its excess over `stay` is uniform, and chooses among the others.
    """
    k, stay, previous = len(forecast), state[0], int(state[1])
    if previous < 0:
        outcome = int(u * k)
    elif u < stay:
        outcome = previous
    else:
        step = int(min((u - stay) / (1.0 - stay), BELOW_ONE) * (k - 1))
        outcome = (previous + 1 + step) % k
    state[1] = outcome
    return outcome


def _dirichlet_drift_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    if values["spacing"] is not None:
        return path_state(n_classes, values["spacing"])
    assert horizon is not None
    return path_state(n_classes, horizon / values["legs"])


@oblivious(
    "this library; Roberts (2018)",
    LEGS,
    SPACED,
    for_horizon=_dirichlet_drift_initial,
    horizon_unless="spacing",
)
def dirichlet_drift_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Class probabilities that wander through the simplex in straight lines. State: see PATH_POINTS."""
    return drawn(move(state, t, len(forecast)), u)


def _late_class_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    if values["start"] is not None:
        return state_of(values["start"], values["weight"])
    assert horizon is not None
    return state_of(horizon // 2, values["weight"])


@oblivious(
    "this library",
    chance("weight", 0.5, "its probability from then on"),
    whole("start", None, "its first round, instead of half way", 0),
    for_horizon=_late_class_initial,
    horizon_unless="start",
)
def late_class_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The last class first appears half way (or in round `start`), then it comes often. State: [first round,
    weight].

    Before that round all other classes are equally likely; from then on the last class has this weight and
    the others share the rest.
    """
    k, weight = len(forecast), state[1] if t >= state[0] else 0.0
    if u < weight:
        return k - 1
    return int(min((u - weight) / (1.0 - weight), BELOW_ONE) * (k - 1))


BIAS_PLACES = 4099
"""How many places the bins of `bias_builder_step` share; a prime. Another number gives other outcomes."""


@adaptive("Dawid (1982)")
def categorical_forecast_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Drawn from the announced probabilities: the forecaster is right. State: []."""
    return drawn(forecast, u)


@adaptive("Oakes (1985), Dawid (1985)")
def least_likely_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class with the smallest announced probability. State: []."""
    return int(forecast.argmin())


@adaptive("this library")
def runner_up_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class with the second largest announced probability. State: []."""
    first, second = 0, 1
    if forecast[1] > forecast[0]:
        first, second = 1, 0
    for c in range(2, len(forecast)):
        if forecast[c] > forecast[first]:
            first, second = c, first
        elif forecast[c] > forecast[second]:
            second = c
    return second


def _target_sweep_initial(values: Mapping[str, Any], n_classes: int, horizon: int) -> State:
    legs = values["legs"] or max(1, math.floor(0.5 * horizon ** ((n_classes - 1) / n_classes)))
    return path_state(n_classes, max(horizon / legs, 1.0))


@adaptive(
    "this library",
    whole("legs", None, "straight lines, instead of T^(1-1/k) / 2"),
    for_horizon=_target_sweep_initial,
)
def target_sweep_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Draws the forecasts after a target that wanders through the whole simplex. State: see PATH_POINTS.

    The forecaster is drawn after the target, through as many cells of the simplex as possible, and every
    grid point on the way is left with a bias.
    """
    target, best = move(state, t, len(forecast)), 0
    for c in range(1, len(forecast)):
        if target[c] - forecast[c] > target[best] - forecast[best]:
            best = c
    return best


def _boundary_hugger_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """The state of `boundary_hugger_step`; compared with NaN, the first forecast counts as not moved."""
    if values["first"] >= n_classes:
        raise ValueError(
            f"boundary-hugger: first must be a class from 0 to {n_classes - 1}, got {values['first']}"
        )
    return state_of(values["first"], *[np.nan] * n_classes)


@adaptive("this library", whole("first", 0, "the first outcome", 0, 999), initial=_boundary_hugger_initial)
def boundary_hugger_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Pushes until the forecast moves, then pushes back: to and fro between neighbouring cells.

    State: [last outcome, previous forecast of each class]. Pushing until the forecast moves and then pushing
    back keeps a forecaster stepping to and fro between neighbouring cells.
    """
    fallen, outcome = 0.0, int(state[0])
    for c in range(len(forecast)):
        if state[1 + c] - forecast[c] > fallen:
            fallen = state[1 + c] - forecast[c]
            outcome = c
        state[1 + c] = forecast[c]
    state[0] = outcome
    return outcome


def _bias_builder_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    return state_of(values["cells"], *[0.0] * (BIAS_PLACES * n_classes))


@adaptive(
    "after Foster & Vohra (1998), calibration by bins",
    whole("cells", 20, "bins a side that forecasts are grouped in", high=10_000),
    initial=_bias_builder_initial,
)
def bias_builder_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class that adds to the bias standing at forecasts like the present one.

    State: [bins a side, sum of (y - p) of each bin and class...]. Forecasts are alike if they round down to
    the same multiples of 1/bins; if there are more bins than BIAS_PLACES, some share a place. The outcome is
    the class with the largest sum, which has come too often already; of several it is the least likely one,
    and then the first.
    """
    k, bins, place = len(forecast), int(state[0]), 0
    for c in range(k - 1):
        place = (place * (bins + 1) + int(forecast[c] * bins)) % BIAS_PLACES
    sums = state[1 + place * k : 1 + (place + 1) * k]
    best = 0
    for c in range(1, k):
        if sums[c] > sums[best] or (sums[c] == sums[best] and forecast[c] < forecast[best]):
            best = c
    for c in range(k):
        sums[c] -= forecast[c]
    sums[best] += 1.0
    return best


@internal("this library")
def certificate_greedy_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class for which the forecaster's certificate rises most. State: []."""
    most, alike = rises[0], 0
    for c in range(1, len(rises)):
        most = max(most, rises[c])
    for c in range(len(rises)):
        alike += rises[c] >= most - EQUAL_RISES
    left = int(u * alike)
    for c in range(len(rises)):
        if rises[c] >= most - EQUAL_RISES:
            if left == 0:
                return c
            left -= 1
    return 0
