"""Adversaries of k classes that answer the forecast, and one that sees the certificate too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba.extending import register_jitable

from adversaries.multiclass.path import drawn, move, path_state
from adversaries.multiclass.protocol import MOST_ROUNDS, Floats, MulticlassKind
from adversaries.protocol import State, state_of
from onlinecal.specs import Parameter

ROUNDING = 1e-12
"""Rises closer than this are equal: forecasters add them up in floating point."""

BINS = 4099
"""Places for the bins of `bias_builder_step`; a prime."""


@register_jitable
def categorical_forecast_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Drawn from the announced probabilities: the world in which the forecaster is right. State: []."""
    return drawn(forecast, u)


@register_jitable
def least_likely_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class with the smallest probability; of several, the first. State: []."""
    best = 0
    for c in range(1, len(forecast)):
        if forecast[c] < forecast[best]:
            best = c
    return best


@register_jitable
def runner_up_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class with the second largest probability; of several, the first. State: []."""
    first, second = 0, 1
    if forecast[1] > forecast[0]:
        first, second = 1, 0
    for c in range(2, len(forecast)):
        if forecast[c] > forecast[first]:
            first, second = c, first
        elif forecast[c] > forecast[second]:
            second = c
    return second


def empty_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """A state with nothing in it."""
    return state_of()


@register_jitable
def target_sweep_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class by which the forecast is furthest below a moving target. State: see `path`.

    The forecaster is drawn after the target, through as many cells of the simplex as possible, and every
    grid point on the way is left with a bias.
    """
    target, best = move(state, t, len(forecast)), 0
    for c in range(1, len(forecast)):
        if target[c] - forecast[c] > target[best] - forecast[best]:
            best = c
    return best


def target_sweep_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `target_sweep_step`: as many legs as given, or T^((k-1)/k) / 2."""
    assert horizon is not None
    legs = values["legs"] or max(1, math.floor(0.5 * horizon ** ((n_classes - 1) / n_classes)))
    return path_state(n_classes, max(horizon / legs, 1.0))


@register_jitable
def boundary_hugger_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class whose probability fell most in the last round, or the last outcome if none moved.

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


def boundary_hugger_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `boundary_hugger_step`: compared with NaN, the first forecast did not move."""
    if values["first"] >= n_classes:
        raise ValueError(
            f"boundary-hugger: first must be a class from 0 to {n_classes - 1}, got {values['first']}"
        )
    return state_of(values["first"], *[np.nan] * n_classes)


@register_jitable
def bias_builder_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class that adds to the bias already standing at forecasts like this one.

    State: [bins a side, sum of (y - p) of each bin and class...]. Forecasts are alike if they round down to
    the same multiples of 1/bins; those beyond BINS share their places. The outcome is the class whose sum is
    largest, so that it has come too often already; of several, the least likely, then the first.
    """
    k, bins, place = len(forecast), int(state[0]), 0
    for c in range(k - 1):
        place = (place * (bins + 1) + int(forecast[c] * bins)) % BINS
    sums = state[1 + place * k : 1 + (place + 1) * k]
    best = 0
    for c in range(1, k):
        if sums[c] > sums[best] or (sums[c] == sums[best] and forecast[c] < forecast[best]):
            best = c
    for c in range(k):
        sums[c] -= forecast[c]
    sums[best] += 1.0
    return best


def bias_builder_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `bias_builder_step` without any bias."""
    return state_of(values["cells"], *[0.0] * (BINS * n_classes))


@register_jitable
def certificate_greedy_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The class with the largest rise of the certificate; of several, one at random. State: []."""
    most, alike = rises[0], 0
    for c in range(1, len(rises)):
        most = max(most, rises[c])
    for c in range(len(rises)):
        alike += rises[c] >= most - ROUNDING
    left = int(u * alike)
    for c in range(len(rises)):
        if rises[c] >= most - ROUNDING:
            if left == 0:
                return c
            left -= 1
    return 0


KINDS = (
    MulticlassKind(
        "categorical-forecast",
        "drawn from the announced probabilities: the forecaster is right",
        "adaptive",
        "Dawid (1982)",
        (),
        categorical_forecast_step,
        empty_initial,
    ),
    MulticlassKind(
        "least-likely",
        "the class with the smallest announced probability",
        "adaptive",
        "Oakes (1985), Dawid (1985)",
        (),
        least_likely_step,
        empty_initial,
    ),
    MulticlassKind(
        "runner-up",
        "the class with the second largest announced probability",
        "adaptive",
        "this library",
        (),
        runner_up_step,
        empty_initial,
    ),
    MulticlassKind(
        "target-sweep",
        "draws the forecasts after a target that wanders through the whole simplex",
        "adaptive",
        "this library",
        (Parameter("legs", None, "straight lines, instead of T^(1-1/k) / 2", 1, MOST_ROUNDS, form="whole"),),
        target_sweep_step,
        target_sweep_initial,
        needs_horizon=True,
    ),
    MulticlassKind(
        "boundary-hugger",
        "pushes until the forecast moves, then pushes back: to and fro between neighbouring cells",
        "adaptive",
        "this library",
        (Parameter("first", 0, "the first outcome", 0, 999, form="whole"),),
        boundary_hugger_step,
        boundary_hugger_initial,
    ),
    MulticlassKind(
        "bias-builder",
        "the class that adds to the bias standing at forecasts like the present one",
        "adaptive",
        "after Foster & Vohra (1998), calibration by bins",
        (Parameter("cells", 20, "bins a side that forecasts are grouped in", 1, 10_000, form="whole"),),
        bias_builder_step,
        bias_builder_initial,
    ),
    MulticlassKind(
        "certificate-greedy",
        "the class for which the forecaster's certificate rises most",
        "internal",
        "this library",
        (),
        certificate_greedy_step,
        empty_initial,
    ),
)
