"""Adversaries that play in epochs, each with a truth of its own: chosen by what the forecaster did, or fixed.

A forecast that was too low in one epoch is a debt, and the forecaster can pay it back by using the same
value again while the truth lies below it. The lower bounds for sequential calibration come from denying it
that: the truth moves to the side on which old debts cannot be paid.

References
----------
Qiao and Valiant (2021). Stronger calibration lower bounds via sidestepping. STOC 2021, 456-466.
Dagan, Daskalakis, Fishelson, Golowich, Kleinberg and Okoroafor (2024). Breaking the T^(2/3) barrier for
    sequential calibration. arXiv:2406.13668. (The game of sign preservation.)
van der Corput (1935). Verteilungsfunktionen I. Proc. Akad. Wet. Amsterdam 38, 813-821.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba.extending import register_jitable

from adversaries.protocol import Kind, State, state_of
from onlinecal.catalogue import Parameter


@register_jitable
def bisection_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A coin whose bias is the middle of an interval that is halved after every epoch.

    State: [rounds in an epoch, halvings before a fresh start, low, high, halvings, sum of (y - p) in this
    epoch, rounds of this epoch played].

    A heuristic. It borrows the idea of the lower bounds by sidestepping and by sign preservation, but
    carries out neither construction and inherits neither bound. Within an epoch the outcomes are coins
    with the bias (low + high) / 2. If the sum of (outcome - forecast) over the epoch is positive, the
    forecasts were too low, and the next truth lies to their right (low becomes the middle): whoever
    used them again would only be further too low. Otherwise the next truth lies to the left.

    Measured against this library's forecasters, an interval that is never opened again does most harm: a
    fresh start brings the truth back to where the debts are. So that is the default, with few long
    epochs of T^(4/5) rounds: by the end of the T^(1/5) epochs the interval is about as narrow as a cell
    of a grid of sqrt(T) points, and what follows is one long push in one direction.
    """
    middle = (state[2] + state[3]) / 2.0
    outcome = int(u < middle)
    state[5] += outcome - forecast
    state[6] += 1.0
    if state[6] >= state[0]:
        if state[5] > 0.0:
            state[2] = middle
        else:
            state[3] = middle
        state[4] += 1.0
        state[5] = 0.0
        state[6] = 0.0
        if state[4] == state[1]:
            state[2] = 0.0
            state[3] = 1.0
            state[4] = 0.0
    return outcome


def bisection_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """State of `bisection_step`: epochs of scale * horizon ** exponent rounds, rounded, at least 1."""
    assert horizon is not None
    length = max(round(min(values["scale"] * horizon ** values["exponent"], float(horizon))), 1)
    return state_of(length, values["depth"] or -1, 0.0, 1.0, 0.0, 0.0, 0.0)


@register_jitable
def epochs_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A coin whose bias is read from a table, epoch by epoch. State: [epochs, rounds, biases...].

    The oblivious cousin of bisection: the biases are the first points of the van der Corput sequence, 1/2,
    1/4, 3/4, 1/8, 5/8, ..., which fall into the largest gaps left by those before. Each truth is visited
    once, and the truths next to it come at other times. (`change-points` draws its biases; these are fixed.)
    """
    epochs = int(state[0])
    return int(u < state[2 + min(t * epochs // int(state[1]), epochs - 1)])


def epochs_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """State of `epochs_step`: the horizon in equal parts, up to a round."""
    assert horizon is not None
    number = values["number"]
    return state_of(number, horizon, *(van_der_corput(j) for j in range(1, number + 1)))


def van_der_corput(index: int) -> float:
    """The binary digits of `index` mirrored at the point: 1 -> 1/2, 2 = 10 -> 1/4, 3 = 11 -> 3/4, ..."""
    digits = f"{index:b}"
    return int(digits[::-1], 2) / 2 ** len(digits)


KINDS = (
    Kind(
        "epochs",
        "a coin whose bias goes through evenly spread values, one in each epoch, jumping to and fro",
        "oblivious",
        "this library; van der Corput (1935)",
        (Parameter("number", 15, "epochs in the horizon", low=1, high=1_000_000, form="whole"),),
        epochs_step,
        epochs_initial,
        needs_horizon=True,
    ),
    Kind(
        "bisection",
        "a coin for an epoch, then its bias moves to where those forecasts cannot be paid back: a heuristic",
        "adaptive",
        "after Qiao & Valiant (2021) and Dagan et al. (2024), neither exactly",
        (
            Parameter("scale", 1.0, "factor of an epoch's length", low=0.0),
            Parameter("exponent", 0.8, "power of the horizon in an epoch's length", low=0.0, high=1.0),
            Parameter("depth", None, "halvings before it starts afresh", low=1, high=1000, form="whole"),
        ),
        bisection_step,
        bisection_initial,
        needs_horizon=True,
    ),
)
