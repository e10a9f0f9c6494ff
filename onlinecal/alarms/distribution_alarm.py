"""An alarm that forecast distributions are no longer calibrated, with a proven rate of false alarms.

A distribution is given by its chances at thresholds, and a target falls between two thresholds. Its
probability integral transform, the PIT, lies between the chances there, u and v. A bet is another
distribution of the PIT, with the distribution function G: what is staked on it is multiplied by (G(v) -
G(u))/(v - u). If the chances are those of the target, given the past, this factor has mean 1. The bets are
those of `calibration_alarm`: the shifts and stretches of a probability are distribution functions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from onlinecal.alarms.calibration_alarm import FACTORS, LARGEST, N_SHIFTS, POWERS
from onlinecal.arrays import Floats
from onlinecal.validation import check_finite, check_open_unit, check_probability

N_BETS = N_SHIFTS + len(POWERS)
DIRECTIONS = np.concatenate(
    [np.where(FACTORS > 1.0, "too high", "too low"), np.where(POWERS < 1.0, "too narrow", "too wide")]
).tolist()
"""What is wrong with the distributions if a bet wins. Small PITs mean targets below the forecasts."""


def ratios_of(low: float, high: float) -> Floats:
    """The factors of all bets for a PIT between two chances, shape (N_BETS,)."""
    shifts = FACTORS / ((1.0 - low + low * FACTORS) * (1.0 - high + high * FACTORS))
    stretches = np.ones(len(POWERS))
    if high > low:
        one, zero = np.array([low, high])[:, None] ** POWERS, np.array([1 - low, 1 - high])[:, None] ** POWERS
        stretches = np.diff(one / (one + zero), axis=0)[0] / (high - low)
    return np.concatenate([shifts, stretches])


def interval_of(chances: Mapping[float, float], y: Any) -> tuple[float, float]:
    """Between which chances the PIT of a target lies; ValueError names what is no distribution."""
    target, before = check_finite(y, "y"), 0.0
    thresholds = list(chances)
    said = [check_probability(p, f"the chance of {q!r}") for q, p in chances.items()]
    for place, (q, p) in enumerate(zip(thresholds, said, strict=True)):
        if place and not thresholds[place - 1] < check_finite(q, "thresholds"):
            raise ValueError(f"thresholds must increase, got {q!r} after {thresholds[place - 1]!r}")
        if p < before:
            raise ValueError(f"chances must not decrease, got {p!r} at {q!r} after {before!r}")
        before = p
    if not thresholds:
        raise ValueError("chances must have at least one threshold, got none")
    place = bisect_left(thresholds, target)
    return (said[place - 1] if place else 0.0), (said[place] if place < len(said) else 1.0)


class DistributionAlarm(base.DriftDetector):
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
        self._detectors, self._products = np.zeros(N_BETS), np.zeros(N_BETS)
        self._grows_since = np.zeros(N_BETS, np.int64)

    def update(self, chances: Mapping[float, float], y: float) -> None:
        """Take up a forecast, for each threshold the chance that the target is at most it, and the target.

        `CalibratedDistribution.predict_distribution_one` answers with such chances. Raises ValueError, and
        changes nothing, for chances that are none, and for a target that is no finite number.
        """
        ratios = ratios_of(*interval_of(chances, y))
        if self.drift_detected:
            self._detectors[:] = self._products[:] = 0.0
        fresh = self._products <= 1.0
        self._products[fresh] = 1.0
        self._grows_since[fresh] = self.n_rounds
        self._products = np.minimum(self._products * ratios, LARGEST)
        self._detectors = np.minimum((self._detectors + 1.0 / N_BETS) * ratios, LARGEST)
        self.n_rounds += 1
        self._drift_detected = bool(self.statistic >= 1.0 / self.alpha)
        self.n_alarms += self.drift_detected

    @property
    def statistic(self) -> float:
        """The evidence for a change since the last alarm; from 1/alpha on it raises one."""
        return float(self._detectors.sum())

    @property
    def direction(self) -> str:
        """What seems to be wrong: the distributions are "too high", "too low", "too narrow" or "too wide"."""
        return str(DIRECTIONS[int(np.argmax(self._detectors))])

    @property
    def change_point(self) -> int | None:
        """The round since which they seem to be wrong, counted from 0; None before the first round.

        It is the beginning that makes what happened since then most likely, as of `CalibrationAlarm`.
        """
        return int(self._grows_since[int(np.argmax(self._detectors))]) if self.n_rounds else None
