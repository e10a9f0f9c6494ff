"""The share of ones so far with imagined outcomes: no regret under any proper loss, all at once."""

from __future__ import annotations

import math
from typing import Any

from onlinecal.elementary import exponential, logarithm
from onlinecal.forecasters.baselines.baseline import Baseline
from onlinecal.forecasters.baselines.mixing import (
    ROUNDS,
    SETTINGS,
    Memory,
    mixing_rules,
    new_memory,
    own,
    play_unlisted,
)
from onlinecal.forecasters.baselines.simple import learn_running_mean
from onlinecal.forecasters.binary.cells import inlined
from onlinecal.validation import check_count, check_number

RATE, LOGARITHM = SETTINGS, SETTINGS + 1
"""q, and ln(1 - q)."""
MOST_RATE = 0.9


@inlined
def geometric(memory: Memory, survival: float) -> tuple[float, float]:
    """A number k with chance q (1 - q)^k, from a draw in (0, 1], and a uniform draw of what is left."""
    number = float(int(logarithm(survival) / memory[LOGARITHM]))
    rest = survival / exponential(number * memory[LOGARITHM])
    rest = (rest - 1.0 + memory[RATE]) / memory[RATE]
    return number, min(max(rest, 1e-16), 1.0)


@inlined
def share(memory: Memory, ones: float, zeros: float) -> float:
    """The share of ones with so many more ones and zeros; 1/2 of nothing."""
    total = memory[ROUNDS] + ones + zeros
    return (memory[own(memory)] + ones) / total if total > 0.0 else 0.5


@inlined
def mix_perturbed(memory: Memory) -> None:
    """A forecast outside the list, which the draw then makes."""
    play_unlisted(memory, 0.5)


PLAIN = mixing_rules(mix_perturbed, learn_running_mean)


@inlined
def announce_perturbed(memory: Memory, hint: float, u: float) -> tuple[int, int, float, float]:
    """The share with imagined outcomes from the draw, and that with as many as there are on average."""
    zeros, rest = geometric(memory, 1.0 - u)
    ones, _ = geometric(memory, rest)
    forecast = share(memory, ones, zeros)
    play_unlisted(memory, forecast)
    mean = (1.0 - memory[RATE]) / memory[RATE]
    return -1, 0, forecast, share(memory, mean, mean)


@inlined
def perturbed_rises(memory: Memory, place: int, b: int, forecast: float, seen: bool) -> tuple[float, float]:
    """The error with either outcome; unless the draw is seen, that of an average draw."""
    if not seen:
        mean = (1.0 - memory[RATE]) / memory[RATE]
        forecast = share(memory, mean, mean)
    return forecast, 1.0 - forecast


class UCalibratedForecaster(Baseline):
    """The share of ones, counted with random numbers of imagined zeros and ones: follow the perturbed leader.

    While draws are hidden, its expected regret to the best constant is of order sqrt(T) under every proper
    loss at once: whoever acts on it, with whatever costs, does nearly as well as with the share of ones of
    all rounds, known beforehand (U-calibration; docs/theory.md, Fact 4d). It is not calibrated: outcomes that
    drift leave it as far from that as the running mean, order T. Its certificate is the sum of |p - y|.

    Parameters
    ----------
    horizon
        T, at least 1.
    rate
        q, above 0 and at most 0.9, instead of sqrt(2/T): a number k of zeros, and one of ones, is imagined
        with chance q (1 - q)^k, anew in each round.
    seed
        Of the draws: an integer or a sequence of integers, none negative.

    References
    ----------
    Kleinberg, Paes Leme, Schneider and Teng (2023), U-calibration. COLT. Luo, Senapati and Sharan (2024),
    optimal multiclass U-calibration error and beyond, NeurIPS: that following the perturbed leader has the
    best rate. Daskalakis and Syrgkanis (2016), the perturbation.
    """

    machine = PLAIN._replace(announce=announce_perturbed, certificate_rises=perturbed_rises)
    randomised = True

    def __init__(self, horizon: int = 10_000, rate: float | None = None, seed: Any = 0) -> None:
        check_count(horizon, "horizon")
        if rate is not None:
            check_number(rate, "rate", 0.0, MOST_RATE, "(]", f"a number above 0 and at most {MOST_RATE:g}")
        self.horizon, self.rate, self.seed = horizon, rate, seed
        q = min(math.sqrt(2.0 / horizon), MOST_RATE) if rate is None else float(rate)
        self._begin(new_memory([], [q, logarithm(1.0 - q)], own=1), seed)

    def expected_regret(self, rounds: int) -> float:
        """A bound on the expected regret to the best constant under any proper loss with values in [0, 1].

        A sum over so many rounds, while draws are hidden; docs/theory.md, Fact 4d.

        Parameters
        ----------
        rounds
            How many rounds are played, T or another number.
        """
        q = float(self.memory[RATE])
        return q * rounds + 2.0 * (1.0 - q) / q
