"""Whether a state of `trust` or `vector_trust` that came from outside, say a ledger, can be gone on with.

Compiled code looks at no bounds: it relies on what every state fulfils that steering has made.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.binary.soundness import require
from onlinecal.steering import vector
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
from onlinecal.steering.vector_trust import ticket_size, weights_of

Floats = NDArray[np.float64]

FARTHEST = 746.0
"""No logit of a float in (0, 1) is farther from 0."""
LARGEST = 1e100
"""Of a coefficient: products of several are still finite."""
MOST = 2.0**53
"""Of a count."""
ROUNDING = 1e-6


def check_steering(state: Floats, tickets: Floats) -> None:
    """ValueError unless the state, shape (SIZE,), and the tickets of open forecasts, (n, TICKET), can be."""
    require(state.shape == (SIZE,) and tickets.shape[1:] == (TICKET,), "the length of its steering")
    require(bool(np.isfinite(state).all() and np.isfinite(tickets).all()), "its steering")
    rounds, events = state[ROUNDS], state[EVENTS]
    check_counts(rounds, events)
    check_weights(state[WEIGHTS:LAST_WEIGHTS], state[LAST_WEIGHTS:FEATURES], state[TRUST:SIZE])
    require(abs(state[INTERCEPT]) < LARGEST, "its steering's intercept")
    require(-FARTHEST <= state[LOWEST] <= -EDGE and EDGE <= state[HIGHEST] <= FARTHEST, "its steering's ends")
    sums, counts = state[SUMS:COUNTS], state[COUNTS : COUNTS + N_BINS]
    most = 1.0 + ROUNDING
    bins = (sums >= 0.0) & (sums <= counts * most) & (counts <= rounds * most)
    require(bool(bins.all()), "its steering's bins")
    curves = state[CURVES:SUMS].reshape(-1, SMOOTH + FREE)
    check_curves(curves[:, :SMOOTH], curves[:, SMOOTH:])
    answers = np.hstack(
        [tickets[:, ANSWERS : ANSWERS + N_ANSWERS], tickets[:, LAST : LAST + 2], tickets[:, [FORECAST]]]
    )
    require(bool(((answers >= 0.0) & (answers <= 1.0)).all()), "its open forecasts' steering")
    require(bool((np.abs(tickets[:, STRETCHED]) < REACH).all()), "its open forecasts' steering")
    asked = tickets[:, ASKED]
    require(bool(((asked > 0.0) & (asked <= events)).all()), "its open forecasts' steering")


def check_vector_steering(state: Floats, tickets: Floats, k: int) -> None:
    """ValueError unless the state for k classes and the tickets, (n, ticket_size(k)), can be."""
    start, at = vector.shared_of(k), weights_of(k)
    require(state.shape == (at + 2 + 2 * k,), "the length of its steering")
    require(tickets.shape[1:] == (ticket_size(k),), "the length of its steering")
    require(bool(np.isfinite(state).all() and np.isfinite(tickets).all()), "its steering")
    shared, own = state[start : start + vector.SHARED], state[start + vector.SHARED : at].reshape(k, -1)
    check_counts(shared[vector.ROUNDS], shared[vector.EVENTS])
    check_weights(shared[vector.WEIGHTS : vector.FEATURES], state[at : at + 2])
    require(vector.COLDEST <= shared[vector.POWER] <= vector.HOTTEST, "its steering's power")
    require(0.0 < shared[vector.VARIANCE] < 1.0 + ROUNDING, "its steering's power")
    lowest, highest = own[:, vector.LOWEST], own[:, vector.HIGHEST]
    least = min(-lowest.max(initial=-vector.FARTHEST), highest.min(initial=vector.FARTHEST))
    most = max(-lowest.min(initial=0.0), highest.max(initial=0.0))
    require(least >= vector.FARTHEST and most < REACH, "its steering's ends")
    smooth = np.vstack([shared[None, vector.SHARED_CURVE :], own[:, vector.OWN_SMOOTH : vector.OWN_FREE]])
    check_curves(smooth, own[:, vector.OWN_FREE :].reshape(-1, FREE))
    # the answers, half the stretched logits, what steering made of the vector
    rows = tickets[:, vector.ANSWERS :].reshape(-1, vector.N_ANSWERS + 2, k)
    answers = np.delete(rows, vector.N_ANSWERS, axis=1)
    require(bool(((answers >= 0.0) & (answers < 1.0 + ROUNDING)).all()), "its open forecasts' steering")
    require(bool((np.abs(rows[:, vector.N_ANSWERS]) < REACH).all()), "its open forecasts' steering")
    divisors, asked = tickets[:, vector.DIVISOR], tickets[:, vector.ASKED]
    require(bool(((divisors > 0.0) & (divisors <= k)).all()), "its open forecasts' steering")
    require(bool(((asked > 0.0) & (asked <= shared[vector.EVENTS])).all()), "its open forecasts' steering")


def check_counts(rounds: float, events: float) -> None:
    """ValueError unless so many of the events can have been labels."""
    require(0.0 <= rounds <= events < MOST and rounds == math.floor(rounds), "the rounds of its steering")


def check_weights(*weights: Floats) -> None:
    """ValueError unless each of these is positive and sums to 1."""
    for one in weights:
        require(bool(one.min() > 0.0 and abs(one.sum() - 1.0) < ROUNDING), "its steering's weights")


def check_curves(smooth: Floats, free: Floats) -> None:
    """ValueError unless curves can be, shapes (n, SMOOTH) and (m, FREE): coefficients and covariances."""
    covariances = smooth[:, N_FEATURES:].reshape(-1, N_FEATURES, N_FEATURES)
    for coefficients in (smooth, free):
        require(bool((np.abs(coefficients) < LARGEST).all()), "its steering's curves")
    skew = np.abs(covariances - covariances.transpose(0, 2, 1))
    require(bool((skew < ROUNDING).all()), "its steering's curves")
    for variances in (np.linalg.eigvalsh(covariances), free[:, N_KNOTS:]):
        known = (variances > 0.0) & (variances < 1.0 + ROUNDING)
        require(bool(known.all()), "its steering's curves")
