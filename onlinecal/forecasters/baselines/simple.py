"""Forecasters without a grid: a constant, one half with a correction, the share of ones so far.

One of them adds random numbers of imagined outcomes to the share: it has no regret under any proper loss.

Memories are those of `mixing`, which says how a round goes and what always holds. A learner writes its own
numbers alone, and `announce_perturbed` the forecast that it draws. Equal seeds give equal draws, so the order
in which draws are used may not change: of zeros first, then of ones, from one uniform number.
"""

from __future__ import annotations

import math
from typing import Any

from onlinecal.compiling import inlined
from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.baselines.mixing import (
    FIRST_SETTING,
    ROUNDS,
    Baseline,
    Memory,
    count,
    mixing_rules,
    new_memory,
    ones,
    own,
    play_one,
    play_unlisted,
    value,
)
from onlinecal.validation import check_count, check_number, check_probability

MOST_PRIOR = 1e9
IMAGINED_RATE, LOG_SURVIVAL = FIRST_SETTING, FIRST_SETTING + 1
"""The settings that have q, the rate of imagined outcomes, and ln(1 - q)."""
MOST_RATE = 0.9
ERROR_ROUNDING = 1e-9
"""A smaller accumulated error is due to rounding: it is made of multiples of 1/2 and of epsilon."""


@inlined
def mix_constant(memory: Memory) -> None:
    """Play the only value."""
    play_one(memory, 0)


class ConstantForecaster(Baseline):
    """The same forecast in every round.

    The constant 1/2 has a distance to calibration, a sum over T rounds, of order sqrt(T) if the outcomes are
    fair coins, and of T/2 if they are all the same.

    Parameters
    ----------
    at
        The forecast, in [0, 1].

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.
    """

    machine = mixing_rules(mix_constant)

    def __init__(self, at: float = 0.5) -> None:
        self.at = check_probability(at, "at")
        self._begin(new_memory([self.at]))


@inlined
def mix_running_mean(memory: Memory) -> None:
    """Play the share of ones so far, as if `prior` ones and `prior` zeros had come before."""
    prior, n_ones = memory[FIRST_SETTING], memory[own(memory)]
    play_unlisted(memory, (n_ones + prior) / (memory[ROUNDS] + 2.0 * prior))


@inlined
def learn_running_mean(memory: Memory, place: int, outcome: int) -> None:
    """Count the ones."""
    memory[own(memory)] += outcome


class RunningMean(Baseline):
    """The share of ones so far; Laplace's rule of succession with the default prior.

    It forecasts (ones + prior) / (rounds + 2 prior), with the ones and rounds so far. Its distance to
    calibration, a sum over T rounds, grows like sqrt(T) against outcomes that do not drift; drift, or an
    adversary that answers it, makes it grow like T. It forecasts a new value nearly every round, so its
    certificate is no better than the sum of |forecast - outcome|.

    Parameters
    ----------
    prior
        So many zeros and so many ones are imagined before the first round; a number above 0 and at most 1e9.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Laplace (1774). Mémoire sur la probabilité des causes par les événements.
    """

    machine = mixing_rules(mix_running_mean, learn_running_mean)

    def __init__(self, prior: float = 1.0) -> None:
        allowed = f"a positive number of at most {MOST_PRIOR:g}"
        check_number(prior, "prior", 0.0, MOST_PRIOR, "(]", allowed)
        self.prior = prior
        self._begin(new_memory([], [float(prior)], own=1))


@inlined
def mix_drift_corrected(memory: Memory) -> None:
    """Play one half, or the value beside it on the side where the forecasts so far have fallen short.

    The sum of (p - y) is the sum of two small numbers, so it is as exact after 10^9 rounds as after 10.
    """
    halves = 0.5 * memory[ROUNDS] - (ones(memory, 0) + ones(memory, 1) + ones(memory, 2))
    moves = count(memory, 2) - count(memory, 0)
    total = halves + (value(memory, 2) - 0.5) * moves
    play_one(memory, 1 if abs(total) < ERROR_ROUNDING else (0 if total > 0.0 else 2))


class DriftCorrectedHalf(Baseline):
    """One half, plus or minus epsilon: whichever brings the accumulated error back to zero.

    The accumulated error is the sum of (forecast - outcome). The forecast is 1/2 - epsilon while that is
    above 0, 1/2 + epsilon while that is below 0, and else 1/2. Against fair coins the error stays of order
    1/epsilon, and the forecasts can be made calibrated by exchanging few of them, at a cost of about 2 T
    epsilon^2. With epsilon = T^(-1/3)/2 both are of order T^(1/3), and so is the distance to calibration, a
    sum over T rounds: the constant 1/2 has one of order sqrt(T). Against outcomes that are no fair coins it
    is useless.

    Parameters
    ----------
    horizon
        T, the number of rounds that the correction suits, at least 1.
    epsilon
        The size of the correction, in (0, 1/2]. None: T^(-1/3)/2.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Qiao and Zheng (2024). On the distance from calibration in sequential prediction. COLT, section on
    random bits.
    """

    machine = mixing_rules(mix_drift_corrected)

    def __init__(self, horizon: int = 10_000, *, epsilon: float | None = None) -> None:
        horizon = check_count(horizon, "horizon")
        if epsilon is not None:
            check_number(epsilon, "epsilon", 0.0, 0.5, "(]", "a number above 0 and at most 0.5")
        self.horizon = horizon
        self.epsilon = epsilon
        step = 0.5 * float(horizon) ** (-1 / 3) if epsilon is None else epsilon
        self._begin(new_memory([0.5 - step, 0.5, 0.5 + step]))


@inlined
def geometric(memory: Memory, survival: float) -> tuple[float, float]:
    """A number k with chance q (1 - q)^k, from a draw in (0, 1], and a uniform draw of what is left."""
    number = float(int(logarithm(survival) / memory[LOG_SURVIVAL]))
    rest = survival / exponential(number * memory[LOG_SURVIVAL])
    rest = (rest - 1.0 + memory[IMAGINED_RATE]) / memory[IMAGINED_RATE]
    return number, min(max(rest, 1e-16), 1.0)


@inlined
def share(memory: Memory, ones: float, zeros: float) -> float:
    """The share of ones, with so many more ones and zeros; 1/2 if there are none at all."""
    total = memory[ROUNDS] + ones + zeros
    return (memory[own(memory)] + ones) / total if total > 0.0 else 0.5


@inlined
def mix_perturbed(memory: Memory) -> None:
    """Play a forecast outside the list; `announce_perturbed` then replaces it by one that the draw makes."""
    play_unlisted(memory, 0.5)


PERTURBED = mixing_rules(mix_perturbed, learn_running_mean)


@inlined
def announce_perturbed(memory: Memory, hint: float, u: float) -> tuple[int, int, float, float]:
    """The share with imagined outcomes from the draw; what is shown is the share with their mean numbers."""
    zeros, rest = geometric(memory, 1.0 - u)
    ones, _ = geometric(memory, rest)
    forecast = share(memory, ones, zeros)
    play_unlisted(memory, forecast)
    mean = (1.0 - memory[IMAGINED_RATE]) / memory[IMAGINED_RATE]
    return -1, 0, forecast, share(memory, mean, mean)


@inlined
def perturbed_rises(memory: Memory, place: int, b: int, forecast: float, seen: bool) -> tuple[float, float]:
    """The error with either outcome; unless the draw is seen, that of the forecast of an average draw."""
    if not seen:
        mean = (1.0 - memory[IMAGINED_RATE]) / memory[IMAGINED_RATE]
        forecast = share(memory, mean, mean)
    return forecast, 1.0 - forecast


class UCalibratedForecaster(Baseline):
    """The share of ones, counted with random numbers of imagined zeros and ones: follow the perturbed leader.

    While whoever chooses the outcomes does not see the draws, its expected regret, the sum of its losses less
    that of the best constant forecast, is of order sqrt(T) under every proper loss at once: whoever acts on
    it, with whatever costs, does nearly as well as with the share of ones of all T rounds, known beforehand
    (U-calibration; docs/theory.md, Fact 4d). It is not calibrated: outcomes that drift bring its distance to
    calibration to order T. Its certificate is the sum of |forecast - outcome|.

    Parameters
    ----------
    horizon
        T, the number of rounds that the rate suits, at least 1.
    rate
        q, above 0 and at most 0.9. In each round a number of imagined zeros and one of imagined ones are
        drawn anew; each is k with chance q (1 - q)^k. None: sqrt(2/T), at most 0.9.
    seed
        Of the draws: an integer or a sequence of integers, none negative. The same seed and outcomes give the
        same forecasts.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    References
    ----------
    Kleinberg, Paes Leme, Schneider and Teng (2023), U-calibration. COLT. Luo, Senapati and Sharan (2024),
    optimal multiclass U-calibration error and beyond, NeurIPS: that following the perturbed leader has the
    best rate. Daskalakis and Syrgkanis (2016), the perturbation.
    """

    machine = PERTURBED._replace(announce=announce_perturbed, certificate_rises=perturbed_rises)
    randomised = True

    def __init__(self, horizon: int = 10_000, *, rate: float | None = None, seed: Any = 0) -> None:
        horizon = check_count(horizon, "horizon")
        if rate is not None:
            check_number(rate, "rate", 0.0, MOST_RATE, "(]", f"a number above 0 and at most {MOST_RATE:g}")
        self.horizon, self.rate, self.seed = horizon, rate, seed
        q = min(math.sqrt(2.0 / horizon), MOST_RATE) if rate is None else float(rate)
        self._begin(new_memory([], [q, logarithm(1.0 - q)], own=1), seed)

    def expected_regret(self, rounds: int) -> float:
        """A bound on the expected regret after so many rounds, under any proper loss with values in [0, 1].

        The regret is the sum of the losses of the forecasts less that of the best constant forecast, a sum
        over rounds. The bound is q * `rounds` + 2 (1 - q)/q with the rate q, if whoever chooses the outcomes
        does not see the draws (docs/theory.md, Fact 4d). Nothing is played.

        Parameters
        ----------
        rounds
            How many rounds, at least 0: the horizon or any other number.

        Raises
        ------
        ValueError
            For a number of rounds that is not whole, or below 0.
        """
        rounds = check_count(rounds, "rounds", least=0)
        q = float(self.memory[IMAGINED_RATE])
        return q * rounds + 2.0 * (1.0 - q) / q
