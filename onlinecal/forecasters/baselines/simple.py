"""Forecasters that everyone tries first: a constant, the running mean, and one half with a correction."""

from __future__ import annotations

from onlinecal.forecasters.baselines.baseline import Baseline
from onlinecal.forecasters.baselines.mixing import (
    ROUNDS,
    SETTINGS,
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
from onlinecal.forecasters.binary.cells import inlined
from onlinecal.validation import check_count, check_number, check_probability

MOST_PRIOR = 1e9
NOTHING = 1e-9
"""An accumulated error that is rounding: the others are 1/2, or epsilon, or a combination of them."""


@inlined
def mix_constant(memory: Memory) -> None:
    """The only value there is."""
    play_one(memory, 0)


class ConstantForecaster(Baseline):
    """The same forecast in every round.

    One half is within O(sqrt(T)) of calibrated if the outcomes are fair coins, and T/2 away from it if they
    are all the same.

    Parameters
    ----------
    at
        The forecast, in [0, 1].
    """

    machine = mixing_rules(mix_constant)

    def __init__(self, at: float = 0.5) -> None:
        self.at = check_probability(at, "at")
        self._begin(new_memory([self.at]))


@inlined
def mix_running_mean(memory: Memory) -> None:
    """The share of ones so far, as if `prior` ones and `prior` zeros had come before."""
    prior, heads = memory[SETTINGS], memory[own(memory)]
    play_unlisted(memory, (heads + prior) / (memory[ROUNDS] + 2.0 * prior))


@inlined
def learn_running_mean(memory: Memory, place: int, outcome: int) -> None:
    """Count the ones."""
    memory[own(memory)] += outcome


class RunningMean(Baseline):
    """The share of ones so far; Laplace's rule of succession with the default prior.

    Against outcomes that do not drift its distance to calibration grows like sqrt(T); drift, or an adversary
    that answers it, makes it grow like T. It forecasts a new value nearly every round, so its certificate is
    no better than the sum of |p - y|.

    Parameters
    ----------
    prior
        So many zeros and so many ones are imagined before the first round; positive, at most 1e9.

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
    """One half, moved to the side on which the forecasts so far have fallen short.

    The sum of (p - y) is put together from two small numbers, so it is as good after 10^9 rounds as after 10.
    """
    halves = 0.5 * memory[ROUNDS] - (ones(memory, 0) + ones(memory, 1) + ones(memory, 2))
    moves = count(memory, 2) - count(memory, 0)
    total = halves + (value(memory, 2) - 0.5) * moves
    play_one(memory, 1 if abs(total) < NOTHING else (0 if total > 0.0 else 2))


class DriftCorrectedHalf(Baseline):
    """One half, plus or minus epsilon: whichever brings the accumulated error back to zero.

    Against fair coins the accumulated error stays of order 1/epsilon, and the forecasts can be made
    calibrated by exchanging few of them, at a cost of about 2 T epsilon^2. With epsilon = T^(-1/3)/2 both,
    and so the distance to calibration, are of order T^(1/3): better than the constant 1/2, whose distance is
    |sum (y - 1/2)|, of order sqrt(T). Against outcomes that are no fair coins it is useless.

    Parameters
    ----------
    horizon
        T, at least 1.
    epsilon
        The size of the correction, in (0, 1/2], instead of T^(-1/3)/2.

    References
    ----------
    Qiao and Zheng (2024). On the distance from calibration in sequential prediction. COLT, section on
    random bits.
    """

    machine = mixing_rules(mix_drift_corrected)

    def __init__(self, horizon: int = 10_000, epsilon: float | None = None) -> None:
        check_count(horizon, "horizon")
        if epsilon is not None:
            check_number(epsilon, "epsilon", 0.0, 0.5, "(]", "a number above 0 and at most 0.5")
        self.horizon = horizon
        self.epsilon = epsilon
        step = 0.5 * float(horizon) ** (-1 / 3) if epsilon is None else epsilon
        self._begin(new_memory([0.5 - step, 0.5, 0.5 + step]))
