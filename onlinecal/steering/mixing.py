"""Vovk's aggregating algorithm for squared errors, with a share of the weight given out again every round.

Answers and weights are stretches of one flat state; a mixture's regret to its answers is proved in
docs/theory.md, Theorem 17c.

References
----------
Vovk (1990), aggregating strategies, and (1998), a game of prediction with expert advice (squared error).
Herbster and Warmuth (1998), tracking the best expert (the shared weight).
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import clip

ETA = 2.0
"""Learning rate of the weights; squared errors on [0, 1] can be aggregated at no greater one."""


@kernel_part
def pooled_loss(state: Any, answers: int, weights: int, n: int, outcome: int) -> float:
    """The squared error that n weighted answers amount to, were this the outcome."""
    mass = 0.0
    for i in range(n):
        mass += state[weights + i] * math.exp(-ETA * (state[answers + i] - outcome) ** 2)
    return -math.log(mass) / ETA


@kernel_part
def mixed_answer(state: Any, answers: int, weights: int, n: int) -> float:
    """One answer for n weighted ones: no outcome costs it more than the pooled loss."""
    if_none, if_one = pooled_loss(state, answers, weights, n, 0), pooled_loss(state, answers, weights, n, 1)
    return clip(0.5 + 0.5 * (if_none - if_one), 0.0, 1.0)


@kernel_part
def reweigh(
    state: Any,
    answers: int,
    weights: int,
    n: int,
    outcome: float,
    eta: float,
    share: float,
    first: float,
    rest: float,
) -> None:
    """Weigh n answers by an outcome; of the share the first gets 1/first, each other 1/rest."""
    total = 0.0
    for i in range(n):
        state[weights + i] *= math.exp(-eta * (state[answers + i] - outcome) ** 2)
        total += state[weights + i]
    for i in range(n):
        parts = rest if i else first
        state[weights + i] = (1.0 - share) * state[weights + i] / total + share / parts
