"""Vovk's aggregating algorithm for squared errors; every round a share of the weights is given out anew.

Answers and weights are stretches of one flat state. A mixture's regret to its answers is proved in
docs/theory.md, Theorem 17c, and for vectors, whose squared errors are summed over the classes, in 17e.

Answers are written by the caller before each round. Of the functions here those named `reweigh`, by
`give_out`, write weights, after it; callers may move weights, too, as `binary.learn` does, or make weights of
their own, as `combining` does. Between rounds weights are positive or 0 and sum to 1, up to rounding. All
else only reads the state and writes at most `out`, or the credits. Weights are part of a saved state, so
arithmetic that changes a last bit changes every forecast after it.

References
----------
Vovk (1990), aggregating strategies, and (1998), a game of prediction with expert advice (squared error).
Vovk and Zhdanov (2009), prediction with expert advice for the Brier game (vectors).
Herbster and Warmuth (1998), tracking the best expert (the shared weight).
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import kernel_part
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.binary.cells import clip

ETA = 2.0
"""The learning rate of the weights, the largest one at which squared errors on [0, 1] can be aggregated."""
HALVES = 0.5, 0.5
"""The prior for two answers."""
UNLIKELY = 1e-4
"""In weights by log loss, smaller probabilities of the outcome count as this."""


@kernel_part
def pooled_loss(state: Any, answers: int, weights: int, n: int, outcome: int) -> float:
    """The pooled squared error of n weighted answers if this is the outcome."""
    mass = 0.0
    for i in range(n):
        error = state[answers + i] - outcome
        # a product, since the interpreter's power is the C library's, with another last bit
        mass += state[weights + i] * exponential(-ETA * (error * error))
    return -logarithm(mass) / ETA


@kernel_part
def mixed_answer(state: Any, answers: int, weights: int, n: int) -> float:
    """One answer for n weighted ones, whose loss is at most the pooled loss, whatever the outcome."""
    if_none, if_one = pooled_loss(state, answers, weights, n, 0), pooled_loss(state, answers, weights, n, 1)
    return clip(0.5 + 0.5 * (if_none - if_one), 0.0, 1.0)


@kernel_part
def mean_answer(state: Any, answers: int, weights: int, n: int) -> float:
    """The weighted mean of n answers, which by Bayes' rule is their common forecast."""
    total = 0.0
    for i in range(n):
        total += state[weights + i] * state[answers + i]
    return total


@kernel_part
def reweigh(
    state: Any, answers: int, weights: int, prior: Any, outcome: float, eta: float, share: float
) -> None:
    """Weigh answers by an outcome, and give out a share of the weights by the prior, a tuple or an array."""
    for i in range(len(prior)):
        error = state[answers + i] - outcome
        state[weights + i] *= exponential(-eta * (error * error))
    give_out(state, weights, prior, share)


@kernel_part
def reweigh_by_likelihood(
    state: Any, answers: int, weights: int, prior: Any, outcome: float, part: float, share: float
) -> None:
    """The same by log loss: weights are multiplied by the outcome's probability, or by its power `part`."""
    for i in range(len(prior)):
        answer = clip(state[answers + i], UNLIKELY, 1.0 - UNLIKELY)
        if part == 1.0 and (outcome == 0.0 or outcome == 1.0):
            likelihood = answer if outcome == 1.0 else 1.0 - answer
        else:
            loss = outcome * logarithm(answer) + (1.0 - outcome) * logarithm(1.0 - answer)
            likelihood = exponential(part * loss)
        state[weights + i] *= likelihood
    give_out(state, weights, prior, share)


@kernel_part
def reweigh_by_credit(state: Any, credits: int, weights: int, prior: Any, eta: float, share: float) -> None:
    """The same for vectors, by their credits (see `credit_vectors`)."""
    for i in range(len(prior)):
        state[weights + i] *= exponential(eta * state[credits + i])
    give_out(state, weights, prior, share)


@kernel_part
def give_out(state: Any, weights: int, prior: Any, share: float) -> None:
    """Divide weights by their total, and give out a share of them by the prior."""
    total = 0.0
    for i in range(len(prior)):
        total += state[weights + i]
    for i in range(len(prior)):
        state[weights + i] = (1.0 - share) * state[weights + i] / total + share * prior[i]


@kernel_part
def size_of(state: Any, at: int, k: int) -> float:
    """The sum of the squares of k numbers."""
    total = 0.0
    for c in range(k):
        total += state[at + c] * state[at + c]
    return total


@kernel_part
def mix_vectors(state: Any, answers: int, weights: int, n: int, k: int, least: float, out: Any) -> None:
    """Write one distribution over k classes for n weighted ones, which follow each other in the state.

    Its loss is at most the pooled loss at the learning rate 1, whatever the outcome, except for what it costs
    that no part is below `least`.
    """
    for c in range(k):
        out[c] = 0.0
    for i in range(n):
        at, weight = answers + i * k, state[weights + i]
        size = size_of(state, at, k)
        for c in range(k):
            out[c] += weight * exponential(2.0 * state[at + c] - size)
    for c in range(k):
        # half the pooled loss of this label less 1, with the sign changed
        out[c] = 0.5 * logarithm(out[c])
    fill(out, k, least)


@kernel_part
def fill(out: Any, k: int, least: float) -> None:
    """Move k numbers to the nearest distribution, in l2, with no part below `least`, by one shift for all.

    This is Michelot's algorithm: the parts above `least` are found by leaving out more and more.
    """
    above, shift = k + 1, -math.inf
    while True:
        count, total = 0, 0.0
        for c in range(k):
            if out[c] - shift > least:
                count += 1
                total += out[c]
        # the number of parts must fall, so that rounding cannot let a part back in
        if count >= above or count == 0:
            break
        above = count
        shift = (total + (k - count) * least - 1.0) / count
    for c in range(k):
        out[c] = max(out[c] - shift, least)


@kernel_part
def credit_vectors(state: Any, answers: int, credits: int, n: int, k: int, outcome: Any) -> None:
    """Write the credits of n vectors for an outcome, a distribution over k classes: minus squared errors.

    With a soft label a term is left out that is the same for all vectors.
    """
    for i in range(n):
        at, hit = answers + i * k, 0.0
        for c in range(k):
            hit += outcome[c] * state[at + c]
        state[credits + i] = 2.0 * hit - 1.0 - size_of(state, at, k)
