"""Steering of a whole distribution over k classes: a model's vector is mapped to a better vector.

Seven answers are mixed by Vovk's aggregating algorithm for the Brier score of several classes (`mixing`):

- the vector itself, with half of the weight;
- its *temperature* curve, the vector to a learnt power, divided by its sum;
- the softmax of one slow smooth curve, common to all classes, of each class's probability;
- the softmax of a slow smooth curve for each class, of a faster free curve for each, and of a slow free one;
- a slow free curve for each class, learnt alone, whose answers are divided by their sum.

The curves are those of `curves`. Less is learnt from a label that comes late (`lateness`), as in `binary`.
With labels in time, the sum of T Brier scores (squared errors, a sum over the classes) exceeds that of the
vectors themselves by at most ln T + 1.1, and that of each other answer by ln 6 more (docs/theory.md, Theorem
17e). Time and memory are proportional to k.

A state is written as one of `binary` is: `steer` answers a question and leaves its ticket at the front, and
`learn` takes in the label of the round whose ticket is there. Whoever asks again in between keeps a copy of
the ticket. `with_classes` and `ticket_with_classes` make longer copies, when a class is met; tickets must
have as many classes as the state when they are put back, which wrappers and lanes see to. Whoever changes the
fields, or the order of the parts, raises STATE_FORMAT. The constants are part of the answers.

References
----------
Vovk and Zhdanov (2009), prediction with expert advice for the Brier game. Guo et al. (2017), temperature. The
curves' sources are in `curves`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, entry_point, kernel_part
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.binary.cells import clip
from onlinecal.layout import Layout
from onlinecal.steering import curves, lateness, mixing

N_ANSWERS = 7
TEMPERED, COMMON_SMOOTH, EACH_SMOOTH, EACH_FREE_FAST, EACH_FREE_SLOW, ALONE_FREE = range(1, N_ANSWERS)
"""The answers after the vector itself."""
PRIOR = (0.5, *[0.5 / (N_ANSWERS - 1)] * (N_ANSWERS - 1))
"""The weights at the start; the share of the weights that is given out anew is divided by them, too."""
N_FREE = 3
"""Each class has so many free curves: those of the last three answers."""
SLOW_RATE, FAST_RATE = 1e-4, 1e-3
"""How fast slow and fast curves forget; the temperature forgets fast."""
LEAST_LOGARITHM = -16.0
"""Smaller logarithms of probabilities count as this in the temperature curve."""
FARTHEST_STRETCHED = curves.stretched(1.0, -curves.EDGE, curves.EDGE)
"""Half the stretched logit of 1 until a more extreme one has come."""
LEAST_PROBABILITY = 0.5
"""A class gets at least this, divided by the number of classes and by that of the forecasts asked for."""
COLDEST, HOTTEST = 0.02, 5.0
"""The limits of the power."""

# A state for k classes: ticket | shared part | a part for each class | the account of labels that come
# together. The ticket is that of the open forecast. Behind these fields it has k probabilities of each
# answer, those of the vector itself first, and half the stretched logit of each class.
TICKET_PART = Layout()
ASKED = TICKET_PART.field("events when the forecast was asked for", "count")
DIVISOR = TICKET_PART.field("the sum that ALONE_FREE was divided by", "sum")
ANSWERS = TICKET_PART.end
SHARED_PART = Layout()
ROUNDS = SHARED_PART.field("rounds learnt", "count")
EVENTS = SHARED_PART.field("forecasts asked for and labels learnt", "count")
POWER = SHARED_PART.field("the temperature's power", "factor")
VARIANCE = SHARED_PART.field("its variance", "variance")
WEIGHTS = SHARED_PART.field("weights of the answers", "weight", N_ANSWERS)
CREDIT = SHARED_PART.field("credits of the answers", "minus squared error", N_ANSWERS)
FEATURES = SHARED_PART.field("room for features", "scratch", 2 * curves.N_FEATURES)
KNOTS = SHARED_PART.field("room for knots", "scratch", 2 * curves.N_TOUCHED)
SHARED_CURVE = SHARED_PART.field("the common curve", "curve", curves.SMOOTH_LENGTH)
SHARED_LENGTH = SHARED_PART.end
EACH_CLASS = Layout()
LOWEST = EACH_CLASS.field("half the stretched logit of 0", "logit")
HIGHEST = EACH_CLASS.field("half the stretched logit of 1", "logit")
OWN_SMOOTH = EACH_CLASS.field("its smooth curve", "curve", curves.SMOOTH_LENGTH)
OWN_FREE = EACH_CLASS.field("its free curves", "curve", N_FREE * curves.FREE_LENGTH)
EACH_LENGTH = EACH_CLASS.end


@kernel_part
def shared_of(k: int) -> int:
    """Where the shared part of a state for k classes begins, which is also the length of the ticket."""
    return ANSWERS + (N_ANSWERS + 1) * k


@kernel_part
def account_of(k: int) -> int:
    """Where the account of outcomes that come together begins (`lateness`): behind everything else."""
    return shared_of(k) + SHARED_LENGTH + k * EACH_LENGTH


@kernel_part
def size_for(k: int) -> int:
    """The length of a state for k classes."""
    return account_of(k) + lateness.account_size(k)


def new_vector_steering(k: int) -> Floats:
    """The state for k classes before the first round."""
    state = np.zeros(size_for(k))
    shared = shared_of(k)
    state[shared + POWER] = state[shared + VARIANCE] = 1.0
    state[shared + WEIGHTS : shared + WEIGHTS + N_ANSWERS] = PRIOR
    curves.start_smooth(state, shared + SHARED_CURVE)
    for c in range(k):
        own = shared + SHARED_LENGTH + c * EACH_LENGTH
        state[own + LOWEST], state[own + HIGHEST] = -FARTHEST_STRETCHED, FARTHEST_STRETCHED
        curves.start_smooth(state, own + OWN_SMOOTH)
        for i in range(N_FREE):
            curves.start_free(state, own + OWN_FREE + i * curves.FREE_LENGTH)
    return state


def with_classes(state: Floats, k: int) -> Floats:
    """The state with more classes at the end, of which nothing is known yet."""
    grown, before = new_vector_steering(k), classes_of(state)
    ticket = shared_of(before)
    grown[: shared_of(k)] = ticket_with_classes(state[:ticket], k)
    kept, account = account_of(before), account_of(k)
    grown[shared_of(k) : shared_of(k) + kept - ticket] = state[ticket:kept]
    grown[account : account + len(state) - kept] = state[kept:]
    return grown


def ticket_with_classes(ticket: Floats, k: int) -> Floats:
    """A ticket with more classes at the end, to which every answer gave nothing."""
    before = (len(ticket) - ANSWERS) // (N_ANSWERS + 1)
    rows = np.zeros((N_ANSWERS + 1, k))
    rows[:, :before] = ticket[ANSWERS:].reshape(N_ANSWERS + 1, before)
    rows[N_ANSWERS, before:] = -FARTHEST_STRETCHED
    return np.concatenate((ticket[:ANSWERS], rows.ravel()))


@kernel_part
def classes_of(state: Any) -> int:
    """The number of classes that a state is for."""
    return (len(state) - size_for(0)) // (size_for(1) - size_for(0))


@kernel_part
def softmax(state: Any, at: int, k: int) -> None:
    """Replace k logits by their softmax."""
    most, total = state[at], 0.0
    for c in range(1, k):
        most = max(most, state[at + c])
    for c in range(k):
        state[at + c] = exponential(state[at + c] - most)
        total += state[at + c]
    for c in range(k):
        state[at + c] /= total


@kernel_part
def depth(p: float) -> float:
    """The logarithm of a probability as the temperature curve takes it."""
    return max(logarithm(p), LEAST_LOGARITHM) if p > 0.0 else LEAST_LOGARITHM


@kernel_part
def consult(state: Any, k: int) -> None:
    """Write each curve's answer to the ticket's vector into the ticket."""
    shared = shared_of(k)
    features, knots = shared + FEATURES, shared + KNOTS
    state[DIVISOR] = 0.0
    for c in range(k):
        p, own, at = state[ANSWERS + c], shared + SHARED_LENGTH + c * EACH_LENGTH, ANSWERS + c
        end = own + (LOWEST if p <= 0.0 else HIGHEST)
        u = curves.stretched(p, 0.0, 0.0) if 0.0 < p < 1.0 else state[end]
        state[at + N_ANSWERS * k] = u
        curves.write_features(state, features, p, u)
        curves.write_knots(state, knots, p, u)
        state[at + TEMPERED * k] = state[shared + POWER] * depth(p)
        state[at + COMMON_SMOOTH * k] = curves.smooth_logit(state, shared + SHARED_CURVE, features)
        state[at + EACH_SMOOTH * k] = curves.smooth_logit(state, own + OWN_SMOOTH, features)
        for i in range(N_FREE):
            curve = own + OWN_FREE + i * curves.FREE_LENGTH
            state[at + (EACH_FREE_FAST + i) * k] = curves.free_logit(state, curve, knots, u)
        state[at + ALONE_FREE * k] = curves.sigmoid(state[at + ALONE_FREE * k])
        state[DIVISOR] += state[at + ALONE_FREE * k]
    for i in range(TEMPERED, ALONE_FREE):
        softmax(state, ANSWERS + i * k, k)
    for c in range(k):
        state[ANSWERS + ALONE_FREE * k + c] /= state[DIVISOR]


@kernel_part
def steer(state: Any, k: int, row: Any, out: Any) -> None:
    """Write the steered row of a model; the ticket is left in the state.

    The row, of shape (k,), is moved into [0, 1], NaN to 0, and divided by its sum; if that is 0, it is 1/k
    throughout.
    """
    shared, account, total = shared_of(k), account_of(k), 0.0
    lateness.begin_batch(state, account, k)
    state[shared + EVENTS] += 1.0
    state[ASKED] = state[shared + EVENTS]
    for c in range(k):
        p = float(row[c])
        p = min(p, 1.0) if p > 0.0 else 0.0
        state[ANSWERS + c] = p
        total += p
    for c in range(k):
        state[ANSWERS + c] = state[ANSWERS + c] / total if total > 0.0 else 1.0 / k
    consult(state, k)
    asked = lateness.asked_for(state, account, state[shared + ROUNDS], state[shared + EVENTS])
    least = LEAST_PROBABILITY / (k * (asked + 1.0))
    mixing.mix_vectors(state, ANSWERS, shared + WEIGHTS, N_ANSWERS, k, least, out)


@kernel_part
def learn_power(state: Any, k: int, outcome: Any, part: float) -> None:
    """Let the temperature learn the ticket's outcome, or a part of it, by an extended Kalman filter."""
    shared, answer = shared_of(k), ANSWERS + TEMPERED * k
    mean, square, came = 0.0, 0.0, 0.0
    for c in range(k):
        x = depth(state[ANSWERS + c])
        mean += state[answer + c] * x
        square += state[answer + c] * x * x
        came += outcome[c] * x
    error = came - mean
    v = part * max(square - mean * mean, curves.CAUTION * error * error)
    variance = state[shared + VARIANCE] / (1.0 + v * state[shared + VARIANCE])
    state[shared + POWER] = clip(state[shared + POWER] + part * variance * error, COLDEST, HOTTEST)
    state[shared + VARIANCE] = variance + part * FAST_RATE * (1.0 - variance)


@kernel_part
def learn(state: Any, k: int, outcome: Any) -> float:
    """Learn the ticket's outcome, a distribution over k classes; returns the part that weights learn."""
    shared, account = shared_of(k), account_of(k)
    features, knots = shared + FEATURES, shared + KNOTS
    rounds, late = state[shared + ROUNDS], state[shared + EVENTS] - state[ASKED]
    # weights are changed by the answers that were given, curves by the answers that they would give now
    mixing.credit_vectors(state, ANSWERS, shared + CREDIT, N_ANSWERS, k, outcome)
    if late > 0.0:
        consult(state, k)
    for c in range(k):
        lateness.take_note(state, account, c, outcome[c] - state[ANSWERS + EACH_FREE_FAST * k + c])
    judged, part = lateness.parts_learnt(state, account, k, late)
    mixing.reweigh_by_credit(state, shared + CREDIT, shared + WEIGHTS, PRIOR, judged, judged / (rounds + 2.0))
    learn_power(state, k, outcome, part)
    for c in range(k):
        at, own, came = ANSWERS + c, shared + SHARED_LENGTH + c * EACH_LENGTH, outcome[c]
        p, u = state[at], state[at + N_ANSWERS * k]
        curves.write_features(state, features, p, u)
        curves.write_knots(state, knots, p, u)
        for i in range(2):
            curve, rate = (own + OWN_SMOOTH, SLOW_RATE) if i else (shared + SHARED_CURVE, SLOW_RATE / k)
            curves.learn_smooth(state, curve, features, state[at + (COMMON_SMOOTH + i) * k], came, rate, part)
        state[at + ALONE_FREE * k] *= state[DIVISOR]
        for i in range(N_FREE):
            rate, some = (SLOW_RATE, part) if i else (FAST_RATE, math.sqrt(part))
            answer, curve = state[at + (EACH_FREE_FAST + i) * k], own + OWN_FREE + i * curves.FREE_LENGTH
            curves.learn_free(state, curve, knots, answer, came, rate, some)
        state[own + LOWEST] = min(state[own + LOWEST], u)
        state[own + HIGHEST] = max(state[own + HIGHEST], u)
    state[shared + ROUNDS] = rounds + 1.0
    state[shared + EVENTS] += 1.0
    return judged


@entry_point
@compiled
def hint(state: Floats, row: Floats, out: Floats) -> None:
    """Write the steered row of a model, both of shape (k,); its ticket is left in the state."""
    steer(state, classes_of(state), row, out)


@entry_point
@compiled
def learn_label(state: Floats, label: int) -> None:
    """Learn the number of the ticket's label."""
    k = classes_of(state)
    outcome = np.zeros(k)
    outcome[label] = 1.0
    learn(state, k, outcome)
