"""Three maps from a model's probability to a better one and their mixture: the steering of version 0.1.0.

States of that version go on with it. Its maps are also those of PlattScaling and BinnedMean.

Three maps of the raw probability p compete: p itself, a logistic curve (Platt), and the running mean of
the outcomes in p's bin. Vovk's aggregating algorithm mixes their answers; a share of the weight is given
out evenly again in each round t, 1/(t + 2) of it, so that a map that was wrong before the world changed
can come back. Summed over T rounds, the mixture's squared error exceeds that of the best single map by
at most (ln 3)/2 + ln(T + 1)/2, and by at most ln(3 T + 3)/2 more for each change of the best map.

References
----------
Vovk (1990), aggregating strategies, and (1998), a game of prediction with expert advice (squared error).
Herbster and Warmuth (1998), tracking the best expert (the shared weight). Platt (1999), probabilistic
outputs for support vector machines. Foster and Hart (2021), forecast hedging and calibration (bins).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import clip
from onlinecal.steering.mixing import ETA, mixed_answer, reweigh

PLATT_RATE = 0.05
N_BINS = 20
CLIP = 1e-4
"""Probabilities are kept this far from 0 and 1 before the logit."""

# Layout of a steering state: the open ticket (cell, forecast, and what the maps made of the raw
# probability, which comes first among them), three weights, rounds, slope and intercept, sums and counts
# of the bins.
CELL_LOWER, CELL_STEP, FORECAST, ANSWERS, WEIGHTS, ROUNDS, SLOPE, INTERCEPT, SUMS = (
    0,
    1,
    2,
    3,
    6,
    9,
    10,
    11,
    12,
)
TICKET = ANSWERS + 3
"""Length of the ticket, at the front of the state."""
COUNTS = SUMS + N_BINS
# floats count every round up to 2^53; a grid machine behind the steering bears fewer
SIZE = COUNTS + N_BINS


def new_steering() -> NDArray[np.float64]:
    """The state before the first round: equal weights, Platt's map the identity, empty bins."""
    state = np.zeros(SIZE)
    state[WEIGHTS : WEIGHTS + 3] = 1.0 / 3.0
    state[SLOPE] = 1.0
    return state


@kernel_part
def within(p: float) -> float:
    """The value of p moved into [0, 1]; NaN, no opinion, counts as 1/2."""
    p = float(p)
    if p != p:
        return 0.5
    return clip(p, 0.0, 1.0)


@kernel_part
def logit(p: float) -> float:
    """log(p / (1 - p)) with p kept within [CLIP, 1 - CLIP]."""
    p = clip(p, CLIP, 1.0 - CLIP)
    return math.log(p / (1.0 - p))


@kernel_part
def platt(slope: float, intercept: float, p: float) -> float:
    """Platt's map: a logistic curve in the logit of p."""
    z = slope * logit(p) + intercept
    return 1.0 / (1.0 + math.exp(-clip(z, -30.0, 30.0)))


@kernel_part
def platt_gradient(p: float, answer: float, outcome: int) -> tuple[float, float]:
    """Derivatives of the log loss in slope and intercept, where the map answered p with `answer`."""
    error = answer - outcome
    return error * logit(p), error


@kernel_part
def bin_of(p: float, n_bins: int) -> int:
    """Which of n equal-width bins holds p; 1 belongs to the last."""
    return min(int(p * n_bins), n_bins - 1)


@kernel_part
def bin_mean(total: float, count: float, bin: int, n_bins: int) -> float:
    """The mean outcome of a bin, with its centre counted as one more outcome."""
    return (total + (bin + 0.5) / n_bins) / (count + 1.0)


@kernel_part
def consult(state: Any, p: float) -> None:
    """Note in the ticket what the three maps make of p."""
    b = bin_of(p, N_BINS)
    state[ANSWERS] = p
    state[ANSWERS + 1] = platt(state[SLOPE], state[INTERCEPT], p)
    state[ANSWERS + 2] = bin_mean(state[SUMS + b], state[COUNTS + b], b, N_BINS)


@kernel_part
def steer(state: Any, p: float) -> float:
    """The mixture's probability for a raw probability p: no outcome costs it more than the pooled loss."""
    consult(state, p)
    return mixed_answer(state, ANSWERS, WEIGHTS, 3)


@kernel_part
def learn(state: Any, outcome: int) -> None:
    """Learn the outcome of the ticket: weights, Platt's curve, the bin."""
    reweigh(state, ANSWERS, WEIGHTS, 3, outcome, ETA, 1.0 / (state[ROUNDS] + 2.0), 3.0, 3.0)
    state[ROUNDS] += 1.0
    p = state[ANSWERS]
    by_slope, by_intercept = platt_gradient(p, state[ANSWERS + 1], outcome)
    state[SLOPE] -= PLATT_RATE * by_slope
    state[INTERCEPT] -= PLATT_RATE * by_intercept
    b = bin_of(p, N_BINS)
    state[SUMS + b] += outcome
    state[COUNTS + b] += 1.0
