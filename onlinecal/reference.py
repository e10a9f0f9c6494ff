"""The papers' algorithms in plain Python, in the papers' order and words: lists, whole numbers and fractions.

They are here to be read, and the tests run them beside the compiled code, which gives the same answers. Each
costs as much as its paper says, and no thought was spent on speed.

Forecasters are generators. Ask one for its first prediction with `next`, and send it each outcome, 0 or 1: it
answers with the next prediction. `predictions` does this with a list of outcomes. What is no outcome, no
grid or no table raises a ValueError as soon as it is read, and a game ends with that.

References
----------
- *Online*: Arunachaleswaran, Collina, Roth & Shi, "An Elementary Predictor Obtaining 2√T + 1 Distance to
  Calibration" (2024).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from fractions import Fraction
from typing import Any

from onlinecal.validation import check_count, outcome_of

__all__ = ["almost_one_step_ahead", "balanced", "one_step_ahead", "predictions"]


def almost_one_step_ahead(m: int) -> Generator[float, int, None]:
    """Algorithm 1 of the online paper on the grid 0, 1/m, ..., 1, with `m` a whole number of at least 1.

    On any T outcomes its predictions are at most T/m + m + 1 away from calibrated ones, a sum over rounds;
    that is 2√T + 1 for m = √T (Theorem 1). `alpha[i]` is m times the look-ahead bias of the point i/m.
    """
    m = check_count(m, "m")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    while True:
        # choose two adjacent points p_i, p_(i+1) with alpha(p_i) <= 0 and alpha(p_(i+1)) >= 0
        while alpha[i] > 0:
            i -= 1
        while alpha[i + 1] < 0:
            i += 1
        # arbitrarily predict p_i or p_(i+1), here the lower one, and observe the outcome
        y = outcome_of((yield i / m))
        # the look-ahead prediction is the one of both that is nearer to the outcome
        look_ahead = i + y
        alpha[look_ahead] += look_ahead - m * y


def one_step_ahead(m: int, outcomes: Iterable[int]) -> Iterator[float]:
    """One-Step-Ahead of the online paper (section 3), which no one can play: it predicts after the outcome.

    Its predictions on `outcomes`, of 0 and 1, are the look-ahead predictions of Algorithm 1 on the same grid,
    0, 1/`m`, ..., 1. Their expected calibration error is at most m + 1, a sum over rounds (Theorem 2).
    """
    m = check_count(m, "m")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    for outcome in outcomes:
        # before the outcome is seen: fix p_i, p_(i+1) with alpha(p_i) <= 0 and alpha(p_(i+1)) >= 0
        while alpha[i] > 0:
            i -= 1
        while alpha[i + 1] < 0:
            i += 1
        # after it: output the one of both that is nearer to the outcome
        y = outcome_of(outcome)
        prediction = i + y
        alpha[prediction] += prediction - m * y
        yield prediction / m


def balanced(m: int, slack: Fraction | float = Fraction(1, 2)) -> Generator[float, int, None]:
    """Algorithm 1 with the balanced rule of docs/theory.md (section 2), which halves its bound.

    A point accepts an outcome if that brings its bias not beyond `slack`, which is at least 1/2. Predictions
    are midpoints of the grid with `m` cells. On any T outcomes they are at most T/(2m) + slack (m - 1) away
    from calibrated ones, a sum over rounds; that is less than √T for m = √T and slack 1/2 (Theorem 7).
    """
    m, slack = check_count(m, "m"), Fraction(slack)
    if slack < Fraction(1, 2):
        raise ValueError(f"slack must be at least 1/2, got {slack}")
    alpha, i = [0] * (m + 1), (m - 1) // 2
    while True:
        # choose two adjacent points of which the lower one accepts 0 and the upper one accepts 1
        while alpha[i] + i > slack * m:
            i -= 1
        while alpha[i + 1] + (i + 1) - m < -slack * m:
            i += 1
        # predict the midpoint and observe the outcome
        y = outcome_of((yield (2 * i + 1) / (2 * m)))
        look_ahead = i + y
        alpha[look_ahead] += look_ahead - m * y


def predictions(forecaster: Generator[Any, Any, None], outcomes: Iterable[Any]) -> list[Any]:
    """What the `forecaster` predicts before each of the `outcomes`: as many predictions, in their order."""
    made = []
    prediction = next(forecaster)
    for outcome in outcomes:
        made.append(prediction)
        prediction = forecaster.send(outcome)
    return made
