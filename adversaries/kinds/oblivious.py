"""Adversaries that never look at a forecast: coins, patterns, drifts and jumps.

Their outcomes are fixed by the parameters and the seed, so `Adversary.outcomes` can list them beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from adversaries.protocol import Kind, State, chance, plays, state_of, whole
from onlinecal.catalogue import Parameter

KINDS: list[Kind] = []
oblivious = partial(plays, KINDS, "oblivious")

HALF_OF_THE_BITS = 2.0**26
"""A uniform double has 53 bits; cut here, its two halves are two independent uniform draws."""


@oblivious("Qiao & Zheng (2024), random bits", chance("bias", 0.5, "probability of a 1"))
def coin_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """Independent tosses of one coin. State: [bias]."""
    return int(u < state[0])


@oblivious("folklore", whole("value", 0, "the outcome", 0, 1))
def constant_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """The same outcome in every round. State: [value]."""
    return int(state[0])


@oblivious("folklore", whole("period", 2, "rounds from one 1 to the next", 2))
def alternating_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """A single 1 at the end of every period: 0, 1, 0, 1, ... for period 2. State: [period]."""
    period = int(state[0])
    return int(t % period == period - 1)


@oblivious("folklore", whole("length", 10, "rounds in a run"))
def blocks_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """Runs of zeros and runs of ones in turn, zeros first. State: [length]."""
    return (t // int(state[0])) % 2


def line_initial(values: Mapping[str, Any], horizon: int) -> State:
    """State of what moves in a straight line: it ends in the last round of the horizon."""
    return state_of(values["start"], values["end"], max(horizon - 1, 1))


@oblivious(
    "this library",
    chance("start", 0.0, "bias in the first round"),
    chance("end", 1.0, "bias in the last round"),
    for_horizon=line_initial,
)
def linear_drift_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """A coin whose bias moves in a straight line over the horizon.

    State: [start, end, rounds between them].
    """
    progress = min(t / state[2], 1.0)
    return int(u < state[0] + (state[1] - state[0]) * progress)


def _sinusoidal_drift_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    amplitude, centre = values["amplitude"], values["centre"]
    room = min(centre, 1.0 - centre)
    if amplitude > room + 1e-12:
        raise ValueError(
            f"sinusoidal-drift: amplitude must be at most {room:g} around centre={centre:g} "
            f"for the bias to stay in [0, 1], got {amplitude!r}"
        )
    return state_of(values["period"], amplitude, centre)


@oblivious(
    "this library",
    Parameter("period", 1000.0, "rounds in one full swing", low=1.0),
    Parameter("amplitude", 0.4, "largest deviation from the centre", low=0.0, high=0.5),
    chance("centre", 0.5, "bias around which it swings"),
    initial=_sinusoidal_drift_initial,
)
def sinusoidal_drift_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """A coin whose bias swings like a sine. State: [period, amplitude, centre]."""
    return int(u < state[2] + state[1] * math.sin(2.0 * math.pi * t / state[0]))


def _change_points_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    if values["spacing"] is not None:
        return state_of(1, values["spacing"], -1, 0.5)
    assert horizon is not None
    return state_of(values["changes"] + 1, horizon, -1, 0.5)


@oblivious(
    "this library",
    whole("changes", 10, "number of changes over the horizon", 0),
    whole("spacing", None, "rounds between changes, instead of `changes`"),
    for_horizon=_change_points_initial,
    horizon_unless="spacing",
)
def change_points_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """A coin whose bias is drawn afresh from [0, 1] at evenly spaced change points.

    State: [segments, rounds, present segment, present bias]. In the first round of a segment the upper half
    of the bits of u is the new bias and the lower half decides the outcome, so one draw serves for both.
    """
    segment = (t * int(state[0])) // int(state[1])
    if segment != int(state[2]):
        scaled = u * HALF_OF_THE_BITS
        whole = math.floor(scaled)
        state[2] = segment
        state[3] = (whole + 0.5) / HALF_OF_THE_BITS
        u = scaled - whole
    return int(u < state[3])


def _flip_initial(values: Mapping[str, Any], horizon: int) -> State:
    return state_of(values["bias"], 1.0 - values["bias"], horizon // 2)


@oblivious(
    "this library", chance("bias", 0.8, "probability of a 1 in the first half"), for_horizon=_flip_initial
)
def flip_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A coin whose bias p becomes 1 - p half way through the horizon. State: [bias before, bias after, round
    of the turn].
    """
    return int(u < state[int(t >= state[2])])


def _markov_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    return state_of(values["stay"], -1)


@oblivious("folklore", chance("stay", 0.9, "probability of the previous outcome"), initial=_markov_initial)
def markov_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A two-state chain: the previous outcome again with a fixed probability.

    State: [stay, previous or -1].
    """
    previous = int(state[1])
    stays = u < (state[0] if previous >= 0 else 0.5)
    outcome = max(previous, 0) if stays else 1 - max(previous, 0)
    state[1] = outcome
    return outcome
