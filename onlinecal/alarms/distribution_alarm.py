"""An alarm that forecast distributions are no longer calibrated, with a proven rate of false alarms.

A distribution is given by its chances at thresholds, and a target falls between two thresholds. Its
probability integral transform, the PIT, lies between the chances there, u and v. A bet is another
distribution of the PIT, with the distribution function G: what is staked on it is multiplied by (G(v) -
G(u))/(v - u), and where u = v by the limit of that. If the chances are those of the target, given the past,
this factor has mean 1. The bets are those of `calibration_alarm`: the shifts and stretches of a probability
are distribution functions. Each has a detector, as there, and all are made in every round.

`update` alone writes, and only once the round was found to be sound. The state is a list a bet: `_detectors`,
the money; `_products`, the product of its factors from the round in `_grows_since` up to now. After an alarm
it stays as it was until the next round begins anew, so that `direction` can say why. Pickles alone keep it.
What always holds: no number is negative or above LARGEST_ACCOUNT, and the bets get 1 together in a round,
which the proof needs. DIRECTIONS is in the order of the bets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
from river import base

from onlinecal.alarms.calibration_alarm import LARGEST_ACCOUNT, NEEDS_BOTH, SHIFT_FACTORS, STRETCH_POWERS
from onlinecal.alarms.worth import worth_of
from onlinecal.restoring import Restored
from onlinecal.tables.columns import ROW_TOLERANCE
from onlinecal.texts import shown
from onlinecal.validation import check_finite, check_increasing, check_open_unit

ODDS_FACTORS, LOGIT_POWERS = SHIFT_FACTORS.tolist(), STRETCH_POWERS.tolist()
N_BETS = len(ODDS_FACTORS) + len(LOGIT_POWERS)
DIRECTIONS = ["too high" if factor > 1.0 else "too low" for factor in ODDS_FACTORS]
DIRECTIONS += ["too narrow" if power < 1.0 else "too wide" for power in LOGIT_POWERS]
"""What is wrong with the distributions if a bet wins. Small PITs mean targets below the forecasts."""
NARROW_WIDTH = 1e-6
"""If chances differ by less than this share of the smaller one, the factor is the derivative of G between
them: the difference of G would be lost in rounding."""


def ratios_of(low: float, high: float) -> list[float]:
    """The factors of all bets for a PIT between two chances, at most LARGEST_ACCOUNT; of length N_BETS."""
    ratios = [factor / ((1.0 - low + low * factor) * (1.0 - high + high * factor)) for factor in ODDS_FACTORS]
    if low + high > 1.0:
        # stretches are symmetric, and numbers near 0 are finer than those near 1
        low, high = 1.0 - high, 1.0 - low
    width = high - low
    if width <= NARROW_WIDTH * low or not width:
        ratios += [slope_of((low + high) / 2.0, power) for power in LOGIT_POWERS]
    else:
        ratios += [(stretched(high, power) - stretched(low, power)) / width for power in LOGIT_POWERS]
    return ratios


def stretched(chance: float, power: float) -> float:
    """The distribution function G of a bet that multiplies the logit by `power`."""
    below, above = chance**power, (1.0 - chance) ** power
    return below / (below + above)


def slope_of(chance: float, power: float) -> float:
    """The derivative of G at a chance below 1, which is the factor of an interval without width."""
    if not chance:
        return LARGEST_ACCOUNT if power < 1.0 else 0.0
    below, above = chance**power, (1.0 - chance) ** power
    return power * below * above / (chance * (1.0 - chance) * (below + above) ** 2)


def interval_of(chances: Mapping[float, float], y: Any) -> tuple[float, float]:
    """The two chances between which the PIT of a target lies; ValueError names what is no distribution."""
    target = check_finite(y, "y")
    if not hasattr(chances, "items"):
        raise ValueError(
            "chances must be a dict of thresholds and their chances, as {0.0: 0.3, 1.0: 0.8}, got "
            f"{shown(chances)}"
        )
    pairs = list(chances.items())
    if not pairs:
        raise ValueError("chances must have at least one threshold, got {}")
    thresholds = [q for q, _ in pairs]
    check_increasing(thresholds, "the thresholds of chances")
    bounds, before = [], 0.0
    for q, p in pairs:
        if not isinstance(p, (int, float, np.number)) or not -ROW_TOLERANCE <= p <= 1.0 + ROW_TOLERANCE:
            raise ValueError(f"chances must be numbers in [0, 1], got {shown(p)} at threshold {shown(q)}")
        if p < before - ROW_TOLERANCE:
            raise ValueError(
                f"chances must not decrease, got {p!r} at threshold {shown(q)} after {before!r}: give "
                "for each threshold q the chance that y <= q"
            )
        # sums of chances miss the next one, and 1, by a last digit
        before = min(max(float(p), before), 1.0)
        bounds.append(before)
    place = bisect_left(thresholds, target)
    return (bounds[place - 1] if place else 0.0), (bounds[place] if place < len(bounds) else 1.0)


class DistributionAlarm(Restored, base.DriftDetector):
    """Tells when forecast distributions stop being calibrated: soon after a change, and seldom without one.

    A forecast is a dict with the chance that the target is at most q, for some thresholds q. As long as the
    chances are those of the targets, given all that came before, the mean number of rounds to a false alarm
    is at least 1/alpha, whatever the chances are and however they are chosen. After an alarm it begins anew
    with the next round.

    Parameters
    ----------
    alpha
        Above 0 and below 1: at most one false alarm in 1/alpha rounds, on average.

    Attributes
    ----------
    drift_detected
        Whether the last round raised an alarm; False before the first.
    n_rounds, n_alarms
        How many rounds were taken up, and how many of them raised an alarm.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

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
    Those of `CalibrationAlarm`. Proofs are in docs/theory-alarms.md.
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
        """Take up one round: a dict with the chance that y <= q for each threshold q, and the target y.

        Thresholds increase in the dict's order, and chances, in [0, 1], do not decrease: as
        `CalibratedDistribution.predict_distribution_one` answers. `drift_detected` then says whether this
        round raised an alarm.

        Between two thresholds with the same chance, up to one with a chance of 0 and above one of 1 a
        forecast declares a target impossible. A target there speaks against the forecasts as much as one with
        a tiny chance. Sums are rounded, so a chance may be below the one before it, below 0 or above 1 by
        1e-6, and is then moved.

        Raises ValueError, and changes nothing, if the chances are no such dict or have no threshold, or if y
        is None or no finite number.
        """
        if y is None:
            raise ValueError(f"y must be the target of the forecast, got None: {NEEDS_BOTH}")
        ratios = ratios_of(*interval_of(chances, y))
        if self.drift_detected:
            self._start_over()
        for bet, ratio in enumerate(ratios):
            if self._products[bet] <= 1.0:
                self._products[bet], self._grows_since[bet] = 1.0, self.n_rounds
            self._products[bet] = min(self._products[bet] * ratio, LARGEST_ACCOUNT)
            # as in CalibrationAlarm, a new stake that hardly changes is taken back
            stake = 1.0 / N_BETS if abs(ratio - 1.0) >= self._worth else 0.0
            self._detectors[bet] = min((self._detectors[bet] + stake) * ratio, LARGEST_ACCOUNT)
        self.n_rounds += 1
        self._drift_detected = bool(self.statistic >= 1.0 / self.alpha)
        self.n_alarms += self.drift_detected

    @property
    def statistic(self) -> float:
        """The evidence for a change since the last alarm, at least 0, and 0 before the first round.

        From 1/alpha on an alarm is raised. It stays so until the next round, which begins anew.
        """
        return sum(self._detectors)

    @property
    def direction(self) -> str:
        """What seems to be wrong with the distributions since the last alarm.

        "too high" means that targets are lower than forecast, "too low" that they are higher, "too narrow"
        that they are further out than forecast, "too wide" that they are further in. After an alarm it says
        what raised it, until the next round begins anew. Without any evidence, where `change_point` is None,
        it is "too high" and means nothing.
        """
        return DIRECTIONS[self._strongest]

    @property
    def change_point(self) -> int | None:
        """The round since which the distributions seem to be wrong; None without any evidence.

        Rounds are counted from 0 since this alarm object was made, not since the last alarm. It is the round
        such that a change there makes what happened since then most likely.
        """
        return self._grows_since[self._strongest] if self.statistic else None

    @property
    def _strongest(self) -> int:
        return self._detectors.index(max(self._detectors))
