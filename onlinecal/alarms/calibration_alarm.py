"""An alarm that forecasts are no longer calibrated, with a proven rate of false alarms."""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.alarms.bets import (
    E_VALUE,
    LARGEST_E_VALUE,
    N_BETS,
    STATISTIC,
    betting,
    detectors_of,
    direction_of,
    new_state,
    region_of,
)
from onlinecal.html import fields_of, render
from onlinecal.validation import (
    check_open_unit,
    check_probabilities,
    check_probability,
    check_same_length,
    check_shares,
    share_of,
)


class Finding(NamedTuple):
    """Which forecasts seem to be wrong, and how.

    Attributes
    ----------
    low, high
        Forecasts from low up to high.
    direction
        "too low", "too high", or of all forecasts "overconfident" or "underconfident".
    share
        Their part of the evidence, from 0 to 1.
    """

    low: float
    high: float
    direction: str
    share: float

    def _repr_html_(self) -> str:
        return render(fields_of(self))


class CalibrationAlarm(base.DriftDetector):
    """Tells when forecasts stop being calibrated: soon after a change, and seldom without one.

    As long as every forecast is the probability of its outcome, given all that came before, the mean number
    of rounds to a false alarm is at least 1/alpha, whatever the forecasts are and however they are chosen.
    Nothing is assumed of the time at which they go wrong, of where in [0, 1], of the direction or the size.
    After an alarm it begins anew with the next round. A round costs O(1).

    Parameters
    ----------
    alpha
        Between 0 and 1: at most one false alarm in 1/alpha rounds, on average.

    Attributes
    ----------
    n_rounds, n_alarms
        Rounds taken up, and alarms among them.

    Notes
    -----
    Outcomes that come together, as a hundred rows of one match do, are no hundred observations: take up one
    of them.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import CalibrationAlarm
    >>> rng = np.random.default_rng(0)
    >>> alarm = CalibrationAlarm()
    >>> for t in range(4000):
    ...     p = rng.random()
    ...     happens = rng.random() < (p if t < 2000 else p**1.5)  # less likely from round 2,000 on
    ...     alarm.update(p, happens)
    ...     if alarm.drift_detected:
    ...         break
    >>> t
    2177
    >>> alarm.finding.direction
    'too high'

    References
    ----------
    Shin, Ramdas & Rinaldo, "E-detectors: a nonparametric framework for sequential change detection" (2023);
    Arnold, Henzi & Ziegel, "Sequentially valid tests for forecast calibration" (2023); Ville (1939). Proofs
    are in docs/alarms.md.
    """

    def __init__(self, alpha: float = 1e-4) -> None:
        super().__init__()
        self.alpha = check_open_unit(alpha, "alpha")
        self.n_rounds = self.n_alarms = 0
        self._state = new_state()

    def update(self, p: float, y: SupportsFloat) -> None:
        """Take up a forecast and its outcome, both in [0, 1].

        Raises ValueError, and changes nothing, for a forecast or an outcome that is none.
        """
        forecast, outcome = check_probability(p, "p"), share_of(y, "y")
        if self._drift_detected:
            betting().restart(self._state)
        betting().update(self._state, forecast, outcome)
        self.n_rounds += 1
        self._note()

    def update_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> NDArray[np.int64]:
        """Take up rounds one after the other, each array of shape (T,): the rounds that raised an alarm.

        Rounds are numbered from 0 in the arrays. The state is the same as after as many calls of `update`.
        Raises ValueError, and changes nothing, for forecasts or outcomes that are none.
        """
        p, y = check_probabilities(forecasts), check_shares(outcomes).astype(np.float64)
        check_same_length(p, y, "forecasts and outcomes")
        found, done = [], 0
        while done < len(p):
            done += betting().replay(self._state, p[done:], y[done:], 1.0 / self.alpha)
            self._note()
            if self._drift_detected:
                found.append(done - 1)
        self.n_rounds += len(p)
        return np.array(found, np.int64)

    def _note(self) -> None:
        self._drift_detected = bool(self._state[STATISTIC] >= 1.0 / self.alpha)
        self.n_alarms += self._drift_detected

    @property
    def statistic(self) -> float:
        """The evidence for a change since the last alarm; from 1/alpha on it raises one."""
        return float(self._state[STATISTIC])

    @property
    def e_value(self) -> float:
        """The evidence against the forecasts since the first: of mean at most 1 if they are calibrated."""
        return float(self._state[E_VALUE])

    @property
    def p_value(self) -> float:
        """How likely calibrated forecasts are to meet so much evidence at any time, at most."""
        return float(min(1.0, 1.0 / self._state[LARGEST_E_VALUE]))

    @property
    def finding(self) -> Finding:
        """Which forecasts seem to be wrong since the last alarm (with it: that raised it), and how."""
        accounts = detectors_of(self._state)
        best = int(np.argmax(accounts))
        low, high = region_of(best)
        same = [
            bet for bet in range(N_BETS)
            if region_of(bet) == (low, high) and direction_of(bet) == direction_of(best)
        ]  # fmt: skip
        whole = float(accounts.sum())
        share = float(accounts[same].sum()) / whole if whole > 0.0 else 0.0
        return Finding(low, high, direction_of(best), share)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._state.shape != new_state().shape or not (self._state >= 0.0).all():
            raise ValueError("the state of a CalibrationAlarm cannot be that of any stream")
