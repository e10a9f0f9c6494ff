"""Adversaries of outcomes 0 and 1: coins and patterns, some that look at forecasts, one that sees more.

Those that never look at a forecast are coins, patterns, drifts and jumps. Their outcomes are fixed by the
parameters and the seed, so `Adversary.outcomes` can list them beforehand.

Others look at forecasts, in every round or from one epoch to the next. A forecast that was too low in one
epoch is a debt: the forecaster can pay it back by using the same value again while the truth lies below it.
The lower bounds for sequential calibration come from preventing this: the truth moves to the side on which
old debts cannot be paid.

Some see the forecaster's inner state: how far each outcome would raise its proven bound on its distance to
calibration. No bound that holds for every sequence can exclude them. The step with look-ahead is given the
largest rise that can follow either outcome within `Phase.depth` rounds, and chooses the larger one. The work
of computing the rises doubles with every round of depth.

Each step's docstring says what its state has, in order. Without an `initial` function these are the
parameters, in the order in which they are declared; with one, its list of numbers has the same order as the
docstring. Once it is made, the step alone writes it. States are saved in pickles of adversaries alone, so
step and `initial` may be laid out anew together.

What a step answers is fixed: games of several of these are kept in `tests/corpus`, and pages show others. A
step's name, without `_step`, is the adversary's name in specs, and the first paragraph of its docstring is
what `onlinecal adversaries` says of it. Specs and defaults are checked before a step is made
(`catalogue.Parameter`), so a step checks nothing.

References
----------
Qiao and Valiant (2021). Stronger calibration lower bounds via sidestepping. STOC 2021, 456-466.
Dagan, Daskalakis, Fishelson, Golowich, Kleinberg and Okoroafor (2024). Breaking the T^(2/3) barrier for
    sequential calibration. arXiv:2406.13668. (The game of sign preservation.)
van der Corput (1935). Verteilungsfunktionen I. Proc. Akad. Wet. Amsterdam 38, 813-821.
Dawid (1982). The well-calibrated Bayesian. Journal of the American Statistical Association 77, 605-610.
Oakes (1985). Self-calibrating priors do not exist. Journal of the American Statistical Association 80, 339;
    with Dawid's comment, 340-341.
Foster and Vohra (1998). Asymptotic calibration. Biometrika 85, 379-390.
Qiao and Zheng (2024). On the distance from calibration in sequential prediction. COLT 2024, 4307-4357.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numba.extending import register_jitable

from onlinecal.adversaries.protocol import EQUAL_RISES, Kind, State, chance, plays, state_of, whole
from onlinecal.catalogue import Parameter
from onlinecal.layout import Layout

TWO_CLASS_KINDS: list[Kind] = []
oblivious = partial(plays, TWO_CLASS_KINDS, "oblivious")
adaptive = partial(plays, TWO_CLASS_KINDS, "adaptive")
internal = partial(plays, TWO_CLASS_KINDS, "internal")

HALF_OF_THE_BITS = 2.0**26
"""A uniform double has 53 bits; cut here, its two parts are two independent uniform draws.

Another value gives other outcomes of `change_points_step`."""


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
    """The state of a value that moves in a straight line, and ends in the last round of the horizon."""
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


def _bisection_initial(values: Mapping[str, Any], horizon: int) -> State:
    length = max(round(min(values["scale"] * horizon ** values["exponent"], float(horizon))), 1)
    return state_of(length, values["depth"] or -1, 0.0, 1.0, 0.0, 0.0, 0.0)


@adaptive(
    "after Qiao & Valiant (2021) and Dagan et al. (2024), neither exactly",
    Parameter("scale", 1.0, "factor of an epoch's length", low=0.0),
    chance("exponent", 0.8, "power of the horizon in an epoch's length"),
    whole("depth", None, "halvings before it starts afresh", high=1000),
    for_horizon=_bisection_initial,
)
def bisection_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A coin for an epoch, then its bias moves to where those forecasts cannot be paid back: a heuristic.

    State: [rounds in an epoch, halvings before a fresh start, low, high, halvings, sum of (y - p) in this
    epoch, rounds of this epoch played].

    This is a heuristic. It borrows the idea of the lower bounds by sidestepping and by sign preservation, but
    carries out neither construction and inherits neither bound. Within an epoch the outcomes are coins with
    the bias (low + high) / 2. If the sum of (outcome - forecast) over the epoch is positive, the forecasts
    were too low, and the next truth lies to their right (low becomes the middle): the same forecasts would be
    too low again. Otherwise the next truth lies to the left.

    Measured against this library's forecasters, an interval that is never opened again does most harm, since
    a fresh start brings the truth back to where the debts are. So the interval is not opened by default, and
    there are few long epochs of T^(4/5) rounds. After the T^(1/5) epochs the interval is about as narrow as a
    cell of a grid of sqrt(T) points, and one long push in one direction follows.
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


def _epochs_initial(values: Mapping[str, Any], horizon: int) -> State:
    number = values["number"]
    return state_of(number, horizon, *(van_der_corput(j) for j in range(1, number + 1)))


@oblivious(
    "this library; van der Corput (1935)",
    whole("number", 15, "epochs in the horizon", high=1_000_000),
    for_horizon=_epochs_initial,
)
def epochs_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """A coin whose bias goes through evenly spread values, one in each epoch, jumping to and fro. State:
    [epochs, rounds, biases...].

    This is the oblivious version of bisection. The biases are the first points of the van der Corput
    sequence, 1/2, 1/4, 3/4, 1/8, 5/8, ..., each of which falls into the largest gap left by those before.
    Each truth is visited once, and the truths next to it come at other times. (`change-points` draws its
    biases; these are fixed.)
    """
    epochs = int(state[0])
    return int(u < state[2 + min(t * epochs // int(state[1]), epochs - 1)])


def van_der_corput(index: int) -> float:
    """The binary digits of `index` mirrored at the point: 1 -> 1/2, 2 = 10 -> 1/4, 3 = 11 -> 3/4, ..."""
    digits = f"{index:b}"
    return int(digits[::-1], 2) / 2 ** len(digits)


@adaptive("Dawid (1982)")
def bernoulli_forecast_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """A coin with exactly the announced probability: the forecaster is right. State: []."""
    return int(u < forecast)


@adaptive("Oakes (1985), Dawid (1985)", chance("at", 0.5, "forecasts below this are answered by 1"))
def threshold_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """1 if and only if the forecast is below a fixed value. State: [at]."""
    return int(forecast < state[0])


@adaptive(
    "this library",
    chance("start", 0.0, "the value in the first round"),
    chance("end", 1.0, "the value in the last round"),
    for_horizon=line_initial,
)
def threshold_sweep_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """1 if and only if the forecast is below a value that sweeps over the horizon.

    State: [start, end, rounds between them]. The moving value pulls a grid forecaster through every cell on
    its way, so that as many grid points as possible are left with a bias.
    """
    progress = min(t / state[2], 1.0)
    return int(forecast < state[0] + (state[1] - state[0]) * progress)


def _early_stopped_coin_initial(values: Mapping[str, Any], horizon: int) -> State:
    return state_of(values["scale"] * horizon ** values["exponent"], 0.0, -1.0)


@adaptive(
    "after Qiao & Zheng (2024), early stopping",
    Parameter("scale", 1.0, "factor of the limit", low=0.0),
    chance("exponent", 1 / 3, "power of the horizon in the limit"),
    for_horizon=_early_stopped_coin_initial,
)
def early_stopped_coin_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """Fair coins until |sum(y - p)| >= scale * T^exponent, then the constant that never pays it back.

    State: [limit, sum of (y - p) over the coin tosses, constant or -1 while still tossing].

    Let S be the sum of (outcome - forecast) over the rounds so far. While |S| < limit the outcome is a fair
    coin. As soon as |S| >= limit the tossing is over: if S > 0 (more ones than were forecast) every later
    outcome is 1, otherwise every later outcome is 0. Since 1 - p >= 0 and 0 - p <= 0, no later forecast can
    bring |S| down again. A calibrated sequence q has the same total as the outcomes, hence

        CalDist >= |sum (p - q)| = |S| >= limit = scale * T^exponent

    at the end of every game in which the tossing stopped. Qiao and Zheng show that early stopping is what
    makes T^(1/3) unavoidable even against random bits; watching |S| is our computable version of the idea.
    A forecaster who tries to hold |S| below the limit at all times has to forecast away from 1/2, and pays
    for that instead.
    """
    if state[2] >= 0.0:
        return int(state[2])
    outcome = int(u < 0.5)
    state[1] += outcome - forecast
    if abs(state[1]) >= state[0]:
        state[2] = 1.0 if state[1] > 0.0 else 0.0
    return outcome


def _boundary_hugger_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """The state of `boundary_hugger_step`; compared with NaN, the first forecast neither rose nor fell."""
    return state_of(np.nan, values["first"])


@adaptive("this library", whole("first", 1, "the first outcome", 0, 1), initial=_boundary_hugger_initial)
def boundary_hugger_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """Pushes until the forecast moves, then pushes back: to and fro between neighbouring cells.

    State: [previous forecast, previous outcome]. Pushing until the forecast moves and then pushing back keeps
    a grid forecaster stepping to and fro between neighbouring cells, wherever on the grid it happens to be.
    """
    outcome = int(state[1])
    if forecast > state[0]:
        outcome = 0
    elif forecast < state[0]:
        outcome = 1
    state[0] = forecast
    state[1] = outcome
    return outcome


def _bias_builder_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    return state_of(values["cells"], *[0.0] * values["cells"])


@adaptive(
    "after Foster & Vohra (1998), calibration by bins",
    whole("cells", 100, "bins that forecasts are grouped in", high=1_000_000),
    initial=_bias_builder_initial,
)
def bias_builder_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """The outcome that adds to the bias standing at forecasts like the present one.

    State: [bins, sum of (y - p) in each bin...]; a forecast p belongs to bin floor(p * bins), and 1 belongs
    to the last bin. The outcome is 1 if the sum of its bin is above 0, and 0 if it is below; if the sum is 0
    it is the outcome that is farther from p.
    """
    bins = int(state[0])
    place = 1 + min(int(forecast * bins), bins - 1)
    lean = state[place] if state[place] != 0.0 else 0.5 - forecast
    outcome = int(lean > 0.0)
    state[place] += outcome - forecast
    return outcome


def _bias_lifter_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """The state of `bias_lifter_step`: it climbs, without biases, on the grid that suits the horizon."""
    m = values["cells"]
    if m is None:
        assert horizon is not None
        m = math.isqrt(horizon - 1) + 1
    return state_of(m, m, 0.0, *[0.0] * (m + 1))


@adaptive(
    "this library",
    Parameter("cells", None, "cells of the grid; none: ceil(sqrt(T))", low=1, high=1_000_000, form="whole"),
    for_horizon=_bias_lifter_initial,
    horizon_unless="cells",
)
def bias_lifter_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """Leaves a bias near its upper end at every point of a grid, then plays 0: tight for `balanced`.

    State: [cells m, point being lifted, bias to lift it to, bias of each of the m + 1 points...], biases in
    units of 1/m.

    It is made for the balanced rule with slack 1/2 on m cells, whose biases it keeps track of. It plays 1
    until the highest cell is reached. Then it lifts each point in turn, from m - 1 down to 1: it plays 0
    while the point is the lower end of the forecast's cell and 1 while it is the upper end, so that every
    round is charged to the point, until that has the bias of `where_to_leave` and is the upper end. The
    remaining rounds are zeros in the lowest cell, where forecasts are too high by 1/(2m) every time. That has
    the direction of the biases, so that nothing cancels.
    """
    m = int(state[0])
    cell = min(int(forecast * m), m - 1)
    aim = int(state[1])
    climbed = aim == m and cell == m - 1
    if climbed or (0 < aim < m and cell == aim - 1 and state[3 + aim] >= state[2]):
        aim -= 1
        state[1] = aim
        if aim > 0:
            # forecasters that it is not made for may let a bias fall far below -m / 2
            bias, most = max(float(state[3 + aim]), -float(m)), 4 * math.sqrt(m)
            # a one costs 1/m: it takes 1/(2m) away, and a zero in the lowest cell would have added 1/(2m)
            state[2] = where_to_leave(aim, m, m // 2, bias, 0.0, 1.0, most, np.inf)[0]
    outcome = int(cell < aim)
    state[3 + cell + outcome] += cell + outcome - outcome * m
    return outcome


@register_jitable
def where_to_leave(
    v: float, whole: float, high: float, bias: float, zero: float, one: float, most: float, last: float
) -> tuple[float, int]:
    """The bias at which to leave a point that is the lower end of the cell now, and after how many charges.

    Biases are in units of 1/`whole`, and so is the point, v. Every charge either raises the bias by v and
    costs `zero`, or lowers it by `whole` - v and costs `one`. The answer is the bias that is largest after
    its costs among those with the point as the upper end, within `most` charges. If there is none within
    `most`, more charges are tried, but not more than `last`.
    """
    cost, charges, upper = 0.0, 0, False
    best, left_at, at_charge = -np.inf, bias, 0
    while best == -np.inf or (charges < most and best < high - cost):
        if upper:
            bias -= whole - v
            cost += one
            upper = bias >= whole - high - v
        else:
            bias += v
            cost += zero
            upper = bias > high - v
        charges += 1
        if upper and bias - cost > best:
            best, left_at, at_charge = bias - cost, bias, charges
        if charges > last:
            break
    return left_at, at_charge


LIFTER = Layout()
"""The state of `graded_lifter_step`. Behind it stand the points from 1/2 up, and then the biases of all
points, from the lowest up. `_graded_lifter_initial` lists its numbers in this order."""
LIFTER_ROOM = LIFTER.field("the most points above 1/2 that may be met", "count")
LIFTER_CELL = LIFTER.field("the lower end of the present cell, counted from 1/2; -1 at first", "point")
LIFTER_AIM = LIFTER.field("the point being lifted", "point")
LIFTER_TARGET = LIFTER.field("the bias at which to leave it", "bias")
LIFTER_UNTIL = LIFTER.field("the round from which points below 1/2 are lifted; -1 if not known", "round")
LIFTER_LAST = LIFTER.field("the forecast before", "probability")
LIFTER_ROUNDS = LIFTER.field("the rounds of the game", "count")
LIFTER_POINTS = LIFTER.end


def _graded_lifter_initial(values: Mapping[str, Any], horizon: int) -> State:
    """The state of `graded_lifter_step`: it climbs, knows no point but 1/2, and has no biases."""
    room = math.isqrt(horizon) // 2 + 8
    points = [0.5] + [1.0] * room
    return state_of(room, -1.0, room, 0.0, -1.0, 0.5, horizon, *points, *[0.0] * (2 * room + 1))


@adaptive("this library", for_horizon=_graded_lifter_initial)
def graded_lifter_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """Learns a graded grid, lifts the biases above 1/2, dwells there, lifts the rest: tight for `graded`.

    It is made for `AlmostOneStepAhead(horizon=T)`, whose cells are announced at their ends: the lower end
    below 1/2 and the upper end above. Above 1/2 only zeros are forecast wrongly, too high by the width of
    their cell. That has the direction of the biases that it lifts, and has the same mean wherever it dwells.
    So it spends all rounds above 1/2 but those which it needs for the points from 1/2 down. Below 1/2 a one
    adds a distance of the other direction, so these points are lifted by few charges. As in
    `bias_lifter_step` a point is left at about the largest bias that it takes in some 4 sqrt(m) charges.
    """
    room = int(state[LIFTER_ROOM])
    if t == 0:
        state[LIFTER_POINTS + 1] = max(forecast, 1.0 - forecast)
    else:
        moved = int(forecast > state[LIFTER_LAST]) - int(forecast < state[LIFTER_LAST])
        state[LIFTER_CELL] = min(max(state[LIFTER_CELL] + moved, -room), room - 1)
    state[LIFTER_LAST] = forecast
    cell, aim = int(state[LIFTER_CELL]), int(state[LIFTER_AIM])
    if aim == room and cell >= 0:
        state[LIFTER_POINTS + cell + 1] = forecast
        if forecast == 1.0:
            # the highest cell is reached, so the grid is known
            aim = cell
            state[LIFTER_TARGET] = aim_of(state, aim)[0]
    elif aim == 1 and cell == 1 and state[LIFTER_UNTIL] < 0.0:
        needed = aim_of(state, 1)[1]
        point = 0
        while state[LIFTER_POINTS - point] < 1.0:
            needed += aim_of(state, point)[1]
            point -= 1
        state[LIFTER_UNTIL] = state[LIFTER_ROUNDS] - needed - 2.0
        state[LIFTER_TARGET] = 2.0
    if aim == 1 and cell == 1 and state[LIFTER_TARGET] == 2.0 and t >= state[LIFTER_UNTIL]:
        state[LIFTER_TARGET] = aim_of(state, 1)[0]
    if aim < room and cell == aim - 1 and bias_at(state, aim) >= state[LIFTER_TARGET]:
        aim -= 1
        if position(state, aim) > 0.0:
            state[LIFTER_TARGET] = aim_of(state, aim)[0]
            if aim == 1:
                state[LIFTER_TARGET] = 2.0
        else:
            # no point lies below, so the rest of the game is zeros
            state[LIFTER_TARGET] = 2.0
    state[LIFTER_AIM] = aim
    outcome = int(cell < aim)
    charged = cell + outcome
    state[LIFTER_POINTS + 2 * room + 1 + charged] += position(state, charged) - outcome
    return outcome


@register_jitable
def position(state: State, point: int) -> float:
    """The value of a point; points below 1/2 mirror those above."""
    return float(state[LIFTER_POINTS + point]) if point >= 0 else 1.0 - float(state[LIFTER_POINTS - point])


@register_jitable
def bias_at(state: State, point: int) -> float:
    """The bias of a point."""
    return float(state[LIFTER_POINTS + 2 * int(state[LIFTER_ROOM]) + 1 + point])


@register_jitable
def aim_of(state: State, point: int) -> tuple[float, int]:
    """The bias at which to leave a point that is the lower end of the cell now, and after how many charges.

    From 1/2 down each charge costs a round of dwelling, and each one also the width of the cell below; above
    1/2 charges cost nothing.
    """
    v, bias, most = position(state, point), bias_at(state, point), 4 * math.sqrt(2 * int(state[LIFTER_ROOM]))
    pays = int(point <= 0)
    below = pays * (v - position(state, point - 1)) if pays else 0.0
    above = position(state, 1) - v if point == 0 else 0.0
    dwelling = pays * (position(state, 1) - 0.5)
    return where_to_leave(v, 1.0, 0.5, bias, dwelling - above, below + dwelling, most, most + 4.0 / v)


MOST_LOOK_AHEAD = 10
"""The most rounds of look-ahead: a driver tries 2 ** depth continuations in every round.

It limits what a spec may ask for, and changes no game."""


@internal(
    "this library",
    chance("tie", 0.5, "probability of a 1 when both rise alike"),
    whole("depth", 1, "rounds it looks ahead", high=MOST_LOOK_AHEAD),
    depth_parameter="depth",
)
def certificate_greedy_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """The outcome for which the forecaster's certificate can rise more within `depth` rounds. State: [tie,
    depth].

    The driver that computes the rises looks `Phase.depth` rounds ahead; this step only compares them.
    """
    lead = rise_one - rise_zero
    if abs(lead) <= EQUAL_RISES:
        return int(u < state[0])
    return int(lead > 0.0)
