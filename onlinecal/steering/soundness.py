"""Whether a state of trusted steering (`trust`) that came from outside, say a ledger, can be gone on with.

Compiled code looks at no bounds: it relies on what every state fulfils that steering has made.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.soundness import require
from onlinecal.steering.binary import (
    ANSWERS,
    ASKED,
    COUNTS,
    CURVES,
    EVENTS,
    FEATURES,
    FORECAST,
    HIGHEST,
    INTERCEPT,
    LAST,
    LAST_WEIGHTS,
    LOWEST,
    N_ANSWERS,
    ROUNDS,
    STRETCHED,
    SUMS,
    TICKET,
    WEIGHTS,
)
from onlinecal.steering.curves import EDGE, FREE, N_FEATURES, N_KNOTS, REACH, SMOOTH
from onlinecal.steering.three_maps import N_BINS
from onlinecal.steering.trust import SIZE
from onlinecal.steering.trust import WEIGHTS as TRUST

FARTHEST = 746.0
"""No logit of a float in (0, 1) is farther from 0."""
LARGEST = 1e100
"""Of a coefficient: products of several are still finite."""
MOST = 2.0**53
"""Of a count."""
ROUNDING = 1e-6


def check_steering(state: NDArray[np.float64], tickets: NDArray[np.float64]) -> None:
    """ValueError unless the state, shape (SIZE,), and the tickets of open forecasts, (n, TICKET), can be."""
    require(state.shape == (SIZE,) and tickets.shape[1:] == (TICKET,), "the length of its steering")
    require(bool(np.isfinite(state).all() and np.isfinite(tickets).all()), "its steering")
    rounds, events = state[ROUNDS], state[EVENTS]
    require(0.0 <= rounds <= events < MOST and rounds == math.floor(rounds), "the rounds of its steering")
    for weights in (state[WEIGHTS:LAST_WEIGHTS], state[LAST_WEIGHTS:FEATURES], state[TRUST:SIZE]):
        require(bool(weights.min() > 0.0 and abs(weights.sum() - 1.0) < ROUNDING), "its steering's weights")
    require(abs(state[INTERCEPT]) < LARGEST, "its steering's intercept")
    require(-FARTHEST <= state[LOWEST] <= -EDGE and EDGE <= state[HIGHEST] <= FARTHEST, "its steering's ends")
    sums, counts = state[SUMS:COUNTS], state[COUNTS : COUNTS + N_BINS]
    most = 1.0 + ROUNDING
    bins = (sums >= 0.0) & (sums <= counts * most) & (counts <= rounds * most)
    require(bool(bins.all()), "its steering's bins")
    for curve in state[CURVES:SUMS].reshape(-1, SMOOTH + FREE):
        covariance = curve[N_FEATURES:SMOOTH].reshape(N_FEATURES, N_FEATURES)
        require(bool(np.abs(curve).max() < LARGEST), "its steering's curves")
        require(bool(np.abs(covariance - covariance.T).max() < ROUNDING), "its steering's curves")
        variances = np.concatenate([np.linalg.eigvalsh(covariance), curve[SMOOTH + N_KNOTS :]])
        require(variances.min() > 0.0 and variances.max() < 1.0 + ROUNDING, "its steering's curves")
    answers = np.hstack(
        [tickets[:, ANSWERS : ANSWERS + N_ANSWERS], tickets[:, LAST : LAST + 2], tickets[:, [FORECAST]]]
    )
    require(bool(((answers >= 0.0) & (answers <= 1.0)).all()), "its open forecasts' steering")
    require(bool((np.abs(tickets[:, STRETCHED]) < REACH).all()), "its open forecasts' steering")
    asked = tickets[:, ASKED]
    require(bool(((asked > 0.0) & (asked <= events)).all()), "its open forecasts' steering")
