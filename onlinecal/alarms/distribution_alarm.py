"""An alarm that forecast distributions are no longer calibrated, with a proven rate of false alarms.

A distribution is given by its chances at thresholds, and a target falls between two thresholds. Its
probability integral transform, the PIT, lies between the chances there, u and v. A bet is another
distribution of the PIT, with the distribution function G: what is staked on it is multiplied by (G(v) -
G(u))/(v - u), and where u = v by the limit of that. If the chances are those of the target, given the past,
this factor has mean 1. The bets are those of `calibration_alarm`: the shifts and stretches of a probability
are distribution functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from onlinecal.alarms.calibration_alarm import FACTORS, LARGEST, PAIRS, POWERS
from onlinecal.alarms.worth import worth_of
from onlinecal.restoring import Restored
from onlinecal.tables.columns import ROW_TOLERANCE
from onlinecal.validation import check_finite, check_increasing, check_open_unit

SHIFTS, STRETCHES = FACTORS.tolist(), POWERS.tolist()
N_BETS = len(SHIFTS) + len(STRETCHES)
DIRECTIONS = ["too high" if factor > 1.0 else "too low" for factor in SHIFTS]
DIRECTIONS += ["too narrow" if power < 1.0 else "too wide" for power in STRETCHES]
"""What is wrong with the distributions if a bet wins. Small PITs mean targets below the forecasts."""
NARROW = 1e-6
"""Chances that differ by less, as a share of the smaller one, are taken as one: the difference of G there
would be lost in rounding, and its derivative is as good."""


def ratios_of(low: float, high: float) -> list[float]:
    """The factors of all bets for a PIT between two chances, at most LARGEST; of length N_BETS."""
    ratios = [factor / ((1.0 - low + low * factor) * (1.0 - high + high * factor)) for factor in SHIFTS]
    if low + high > 1.0:
        # stretches are symmetric, and numbers near 0 are finer than those near 1
        low, high = 1.0 - high, 1.0 - low
    width = high - low
    if width <= NARROW * low or not width:
        ratios += [slope_of((low + high) / 2.0, power) for power in STRETCHES]
    else:
        ratios += [(stretched(high, power) - stretched(low, power)) / width for power in STRETCHES]
    return ratios


def stretched(chance: float, power: float) -> float:
    """The distribution function G of a bet that multiplies the logit by `power`."""
    one, zero = chance**power, (1.0 - chance) ** power
    return one / (one + zero)


def slope_of(chance: float, power: float) -> float:
    """The derivative of G at a chance below 1: the factor where the target could not fall."""
    if not chance:
        return LARGEST if power < 1.0 else 0.0
    one, zero = chance**power, (1.0 - chance) ** power
    return power * one * zero / (chance * (1.0 - chance) * (one + zero) ** 2)


def interval_of(chances: Mapping[float, float], y: Any) -> tuple[float, float]:
    """Between which chances the PIT of a target lies; ValueError names what is no distribution."""
    target = check_finite(y, "y")
    if not hasattr(chances, "items"):
        raise ValueError(f"chances must be a dict of thresholds and their chances, got {chances!r}")
    thresholds, bounds, before = [], [], 0.0
    for q, p in chances.items():
        if not isinstance(p, (int, float, np.number)) or not -ROW_TOLERANCE <= p <= 1.0 + ROW_TOLERANCE:
            raise ValueError(f"the chance of {q!r} must be a number in [0, 1], got {p!r}")
        if p < before - ROW_TOLERANCE:
            raise ValueError(f"chances must not decrease, got {p!r} at {q!r} after {before!r}")
        # sums of chances miss the next one, and 1, by a last digit
        before = min(max(float(p), before), 1.0)
        thresholds.append(q)
        bounds.append(before)
    check_increasing(thresholds, "thresholds")
    if not thresholds:
        raise ValueError("chances must have at least one threshold, got none")
    place = bisect_left(thresholds, target)
    return (bounds[place - 1] if place else 0.0), (bounds[place] if place < len(bounds) else 1.0)


class DistributionAlarm(Restored, base.DriftDetector):
    """Tells when forecast distributions stop being calibrated: soon after a change, and seldom without one.

    As long as the chances are those of the targets, given all that came before, the mean number of rounds to
    a false alarm is at least 1/alpha, whatever the chances are and however they are chosen. After an alarm it
    begins anew with the next round.

    Parameters
    ----------
    alpha
        Between 0 and 1: at most one false alarm in 1/alpha rounds, on average.

    Attributes
    ----------
    n_rounds, n_alarms
        Rounds taken up, and alarms among them.

    Examples
    --------
    >>> import math, random
    >>> from onlinecal.alarms import DistributionAlarm
    >>> rng, alarm = random.Random(0), DistributionAlarm()
    >>> said = {q: 0.5 * (1 + math.erf(q / math.sqrt(2))) for q in (-1.5, -0.5, 0.5, 1.5)}  # normal
    >>> for t in range(4000):
    ...     alarm.update(said, rng.gauss(0, 1 if t < 2000 else 1.5))
    ...     if alarm.drift_detected:
    ...         break
    >>> alarm.direction
    'too narrow'

    References
    ----------
    As of `CalibrationAlarm`; proofs are in docs/theory-alarms.md.
    """

    def __init__(self, alpha: float = 1e-4) -> None:
        super().__init__()
        self.alpha = check_open_unit(alpha, "alpha")
        self.n_rounds = self.n_alarms = 0
        self._worth = worth_of(self.alpha)
        self._start_over()

    def _start_over(self) -> None:
        self._detectors, self._products, self._grows_since = [0.0] * N_BETS, [0.0] * N_BETS, [0] * N_BETS

    def update(self, chances: Mapping[float, float], y: float | None = None) -> None:
        """Take up a forecast, for each threshold the chance that the target is at most it, and the target.

        `CalibratedDistribution.predict_distribution_one` answers with such chances. Between two thresholds
        with the same chance, and outside of chances of 0 and 1, the target is declared impossible; if it
        comes there, that speaks against the forecasts as much as it would with the least of chances. Chances
        may miss the next one, and 0 and 1, by 1e-6, as sums do: they are then made not to decrease.

        Raises ValueError, and changes nothing, for chances that are none, and for a target that is no finite
        number.
        """
        if y is None:
            raise ValueError(f"y must be the target of the forecast, got None: {PAIRS}")
        ratios = ratios_of(*interval_of(chances, y))
        if self.drift_detected:
            self._start_over()
        for bet, ratio in enumerate(ratios):
            if self._products[bet] <= 1.0:
                self._products[bet], self._grows_since[bet] = 1.0, self.n_rounds
            self._products[bet] = min(self._products[bet] * ratio, LARGEST)
            # as in CalibrationAlarm, what no target could raise or lower is no evidence
            stake = 1.0 / N_BETS if abs(ratio - 1.0) >= self._worth else 0.0
            self._detectors[bet] = min((self._detectors[bet] + stake) * ratio, LARGEST)
        self.n_rounds += 1
        self._drift_detected = bool(self.statistic >= 1.0 / self.alpha)
        self.n_alarms += self.drift_detected

    @property
    def statistic(self) -> float:
        """The evidence for a change since the last alarm; from 1/alpha on it raises one."""
        return sum(self._detectors)

    @property
    def direction(self) -> str:
        """What seems to be wrong: the distributions are "too high", "too low", "too narrow" or "too wide"."""
        return DIRECTIONS[self._strongest]

    @property
    def change_point(self) -> int | None:
        """The round since which they seem to be wrong, counted from 0; None without any evidence.

        It is the beginning that makes what happened since then most likely, as of `CalibrationAlarm`.
        """
        return self._grows_since[self._strongest] if self.statistic else None

    @property
    def _strongest(self) -> int:
        return self._detectors.index(max(self._detectors))
