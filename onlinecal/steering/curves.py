"""Curves from a probability to a better one: logistic regressions whose coefficients drift.

A *smooth* curve is logistic in four features of the probability: its stretched logit where that is positive,
the same where it is negative, the probability itself, and a constant. A *free* curve adds to the stretched
logit an offset that is piecewise linear in it, another that is piecewise linear in the probability, and a
constant. The stretched logit, 2 asinh(logit/2), is about the logit near 0 and grows like its logarithm far
out. So the probabilities 1e-300 and 1e-20 still differ, and neither has all the leverage.

An extended Kalman filter follows the coefficients of both; that of the free curve neglects covariances. No
noise is added. Instead each outcome moves the covariance towards the prior's, whose variances are 1, by a
rate. So the filter forgets, and is never less sure than it was at the start.

A curve is a stretch of a flat state that begins at `at`; another stretch, `features` or `knots`, belongs to
one round. A round is `write_features` and `write_knots`, then the logits, and once the outcome is known
`learn_smooth` and `learn_free`, with the same features and the answer of the logit. The `learn_` functions
alone write a curve, and `start_` before the first round. `learn_smooth` also writes N_FEATURES numbers behind
the features, which it alone reads. The lengths and the order in a stretch are a saved format, and arithmetic
that changes the last bit changes every forecast after it. Callers see to it that p is in [0, 1] and that u is
`stretched` of it: nothing is checked here, and a knot beyond REACH would lie outside of its curve.

References
----------
Kull, Silva Filho and Flach (2017), beta calibration (two slopes). Fahrmeir (1992), posterior mode estimation
by extended Kalman filtering for multivariate dynamic generalized linear models. Kulhavy and Zarrop (1993), on
a general concept of forgetting (towards a prior).
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import kernel_part
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.binary.cells import clip

SMOOTH_RATES, FREE_RATES = (5e-5, 1e-2), (5e-5, 5e-2)
"""How fast a slow curve and a fast one forget."""
CAUTION = 0.1
"""The least curvature for a squared error of 1: a surprise moves the logit by at most 10, however sure it
was."""
EDGE = 9.21
"""The logits that 0 and 1 count as are the most extreme that have come, and at least this far out (1 in
10,000)."""

N_FEATURES = 4
SMOOTH_LENGTH = N_FEATURES + N_FEATURES**2
"""The numbers of a smooth curve: coefficients, then their covariance."""
N_TOUCHED = 5
"""The offsets of a free curve that a probability has a share in."""
REACH, KNOT_SPACING = 6.65, 0.35
"""Knots of half the stretched logit reach from minus the first to the first, which no float exceeds, and the
second is their spacing."""
N_LOGIT, N_PLAIN = 39, 20
N_KNOTS = N_LOGIT + N_PLAIN + 2
FREE_LENGTH = 2 * N_KNOTS
"""The numbers of a free curve: offsets at the knots of both kinds and a constant one, then their
variances."""


def start_smooth(state: Any, at: int) -> None:
    """Write a new smooth curve into a state, which leaves the stretched logit as it is."""
    state[at] = state[at + 1] = 1.0
    for i in range(N_FEATURES):
        state[at + N_FEATURES * (i + 1) + i] = 1.0


def start_free(state: Any, at: int) -> None:
    """Write a new free curve into a state, without offsets."""
    state[at + N_KNOTS : at + FREE_LENGTH] = 1.0


@kernel_part
def stretched(p: float, lowest: float, highest: float) -> float:
    """Half the stretched logit of p; lowest and highest are the logits of 0 and 1."""
    s = lowest if p <= 0.0 else highest if p >= 1.0 else logarithm(p) - logarithm(1.0 - p)
    half = abs(s) / 2.0
    u = logarithm(half + math.sqrt(half * half + 1.0))
    return u if s >= 0.0 else -u


@kernel_part
def sigmoid(z: float) -> float:
    """The logistic function; its values are not within 1e-13 of 0 or 1."""
    return 1.0 / (1.0 + exponential(-clip(z, -30.0, 30.0)))


@kernel_part
def write_features(state: Any, to: int, p: float, u: float) -> None:
    """Write the features of p, whose stretched logit is 2 u."""
    state[to] = max(2.0 * u, 0.0)
    state[to + 1] = min(2.0 * u, 0.0)
    state[to + 2] = 2.0 * p - 1.0
    state[to + 3] = 1.0


@kernel_part
def write_knots(state: Any, to: int, p: float, u: float) -> None:
    """Write five knots of a free curve about p, each followed by its share in the offset."""
    x = (u + REACH) / KNOT_SPACING
    knot = min(int(x), N_LOGIT - 2)
    state[to] = knot
    state[to + 1] = 1.0 - (x - knot)
    state[to + 2] = knot + 1
    state[to + 3] = x - knot
    x = p * N_PLAIN
    knot = min(int(x), N_PLAIN - 1)
    state[to + 4] = N_LOGIT + knot
    state[to + 5] = 1.0 - (x - knot)
    state[to + 6] = N_LOGIT + knot + 1
    state[to + 7] = x - knot
    state[to + 8] = N_KNOTS - 1
    state[to + 9] = 1.0


@kernel_part
def smooth_logit(state: Any, at: int, features: int) -> float:
    """The logit of a smooth curve's answer."""
    z = 0.0
    for i in range(N_FEATURES):
        z += state[at + i] * state[features + i]
    return z


@kernel_part
def free_logit(state: Any, at: int, knots: int, u: float) -> float:
    """The logit of a free curve's answer."""
    z = 2.0 * u
    for i in range(N_TOUCHED):
        z += state[at + int(state[knots + 2 * i])] * state[knots + 2 * i + 1]
    return z


@kernel_part
def curvature(answer: float, error: float) -> float:
    """The second derivative of the log loss in the logit, or more after a surprise."""
    return max(answer * (1.0 - answer), CAUTION * error * error)


@kernel_part
def learn_smooth(
    state: Any, at: int, features: int, answer: float, outcome: float, rate: float, part: float
) -> None:
    """Let a smooth curve learn the outcome after its answer, or a part of it."""
    error = outcome - answer
    v = part * curvature(answer, error)
    error, rate = part * error, part * rate
    gains = features + N_FEATURES
    place = at + N_FEATURES
    spread = 0.0
    for i in range(N_FEATURES):
        gain = 0.0
        for j in range(N_FEATURES):
            gain += state[place] * state[features + j]
            place += 1
        state[gains + i] = gain
        spread += gain * state[features + i]
    scale = 1.0 + v * spread
    place = at + N_FEATURES
    for i in range(N_FEATURES):
        step = state[gains + i] / scale
        state[at + i] += step * error
        for j in range(N_FEATURES):
            learnt = state[place] - v * step * state[gains + j]
            state[place] = learnt - rate * learnt
            place += 1
        state[place + i - N_FEATURES] += rate


@kernel_part
def learn_free(
    state: Any, at: int, knots: int, answer: float, outcome: float, rate: float, part: float
) -> None:
    """Let a free curve learn the outcome after its answer, or a part of it."""
    error = outcome - answer
    v = part * curvature(answer, error)
    error, rate = part * error, part * rate
    spread = 0.0
    for i in range(N_TOUCHED):
        share = state[knots + 2 * i + 1]
        spread += state[at + N_KNOTS + int(state[knots + 2 * i])] * (share * share)
    scale = 1.0 + v * spread
    for i in range(N_TOUCHED):
        place = at + int(state[knots + 2 * i])
        variance = state[place + N_KNOTS]
        gain = variance * state[knots + 2 * i + 1]
        state[place] += gain * error / scale
        variance -= v * gain * gain / scale
        state[place + N_KNOTS] = variance + rate * (1.0 - variance)
