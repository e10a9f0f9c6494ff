"""An alarm that forecasts are no longer calibrated, with a proven rate of false alarms.

A bet is another forecast p' for some of the rounds. It multiplies what is staked on it by the likelihood
ratio of the outcome, y p'/p + (1 - y)(1 - p')/(1 - p). If p is the mean of the outcome, given the past, this
factor has mean 1. *Shifts* move the logit by a constant. There are some for p in each of the halves, quarters
and eighths of [0, 1], and some for p anywhere. *Stretches* multiply the logit, for p anywhere.

Each bet has two accounts. Both get new stakes in every round, since the change may come in any of them. The
*detectors* of the bets that are made in a round get 1 together, every time. A new stake that the outcome
hardly raises or lowers is taken back: a right forecast of exactly 0 is no evidence, however often there is
one. The *funds* of all bets get an endowment of 1 together, of which round t pays out 1/(t (t + 1)). What has
not been paid out yet counts as evidence, too: it is a bet that forecasts are right.

After each round the sum of all detectors is `statistic`, which raises the alarm, and the sum of all funds is
`e_value`. No account is negative. docs/theory-alarms.md proves what follows for calibrated forecasts.

The state is written by `update` and `replay` alone, a round at a time: `start_over`, if the round before
raised an alarm, then `add_round`. So right behind an alarm the state is still the one that raised it, and
`finding` can say why. What always holds between two rounds: STATISTIC and E_VALUE are the sums of the groups'
sums, and no number is negative. The sums of a group are as of the last round that concerned it. Pickles keep
the state as it is; nothing else does. `__setstate__` refuses one of another length, so a pickle does not
outlive a change of fields.

The bets may change freely, as far as the proof goes: it needs stakes of 1 in all for each round and shares of
1 in all. But other bets raise other alarms, and `engine/ledger/report.py` replays logs through this alarm.
Its powers and exponentials are the C library's, so alarms may differ between machines in a last bit;
`escrow`, whose money is kept in ledgers, does without them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.alarms.worth import unrounded, worth_of
from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, kernel_part
from onlinecal.html import fields_of, render
from onlinecal.layout import Layout
from onlinecal.restoring import Restored
from onlinecal.tables.columns import check_share_history
from onlinecal.validation import check_open_unit, check_probability, share_of

DEPTHS = 4
SHIFTS = tuple(sign * size for size in (0.1, 0.3, 1.0, 3.0) for sign in (1.0, -1.0))
"""By how much bets shift the logit; upwards first."""
STRETCHES = 0.5, 0.7, 1.4, 2.0
"""By what bets multiply the logit; below 1 if forecasts are too sure of themselves."""
SHARE_OF_STRETCHES = 0.1
N_SHIFTS, N_REGIONS = len(SHIFTS), 2**DEPTHS - 1
N_GROUPS = N_REGIONS + 1
"""Bets come in groups: the shifts in each region, and the stretches, which are the last group."""
N_BETS = N_REGIONS * N_SHIFTS + len(STRETCHES)
N_FACTORS = N_SHIFTS + len(STRETCHES)
"""How many factors an outcome has: those of the shifts are the same in all regions."""
LARGEST_ACCOUNT = 1e290
"""Accounts are cut here, which makes evidence smaller. So are factors: those of outcomes that were declared
impossible may be infinite."""

MEANINGS = [
    (place / 2**depth, (place + 1) / 2**depth, "too low" if shift > 0.0 else "too high")
    for depth in range(DEPTHS)
    for place in range(2**depth)
    for shift in SHIFTS
]
MEANINGS += [(0.0, 1.0, "overconfident" if power < 1.0 else "underconfident") for power in STRETCHES]
"""For each bet the interval of the forecasts that it is made on, and what is wrong with them if it wins."""

SHIFT_FACTORS = np.exp(SHIFTS)
STRETCH_POWERS = np.array(STRETCHES)

# Bets form groups: those of each region, and the stretches. A round concerns few groups, and only theirs are
# touched. So the sums of a group are those after the last round that concerned it, and what the endowment has
# paid since then is added when the next one does.
STATE = Layout()
ROUNDS = STATE.field("rounds taken up", "count")
STATISTIC = STATE.field("sum of all detectors", "money")
E_VALUE = STATE.field("sum of all funds, with what is not paid out yet", "money")
LARGEST_E_VALUE = STATE.field("its largest value so far", "money")
DETECTORS = STATE.field("detectors of the bets", "money", N_BETS)
FUNDS = STATE.field("funds of the bets", "money", N_BETS)
DETECTOR_SUMS = STATE.field("sums of the groups' detectors", "money", N_GROUPS)
FUND_SUMS = STATE.field("sums of the groups' funds, with what is not paid out yet", "money", N_GROUPS)
LAST_ROUND = STATE.field("the last rounds that concerned the groups", "round", N_GROUPS)
LARGEST_PRODUCTS = STATE.field("of the bets' factors from some round up to now", "factor", N_BETS)
GROWS_SINCE = STATE.field("the rounds from which these products run", "round", N_BETS)
SIZE = STATE.end

STAKE_OF_SHIFT = (1.0 - SHARE_OF_STRETCHES) / (DEPTHS * N_SHIFTS)
STAKE_OF_STRETCH = SHARE_OF_STRETCHES / len(STRETCHES)
"""What the detector of a bet gets in a round in which the bet is made. A round has the shifts of one region
of each depth, and the stretches, so that all its bets get 1 together."""


def fund_shares() -> Floats:
    """The bets' shares of the endowment, shape (N_BETS,), with sum 1; a region has one by its width."""
    widths = np.repeat(2.0 ** -np.arange(DEPTHS), 2 ** np.arange(DEPTHS))
    shifts = np.repeat(widths, N_SHIFTS) * STAKE_OF_SHIFT
    return np.append(shifts, np.full(len(STRETCHES), STAKE_OF_STRETCH))


FUND_SHARES = fund_shares()
GROUP_SHARES = np.add.reduceat(FUND_SHARES, np.arange(N_GROUPS) * N_SHIFTS)
"""The sums of the shares of each group of bets."""


def new_state() -> Floats:
    """The state before the first round."""
    state = np.zeros(SIZE)
    state[E_VALUE] = state[LARGEST_E_VALUE] = 1.0
    state[FUND_SUMS:LAST_ROUND] = GROUP_SHARES
    return state


@kernel_part
def fill_ratios(ratios: Floats, p: float, y: float) -> None:
    """Fill in the factors of all shifts and stretches for a forecast and its outcome."""
    for i in range(N_SHIFTS):
        # p' = p f / (1 - p + p f)
        factor = SHIFT_FACTORS[i]
        ratios[i] = (1.0 - y + y * factor) / (1.0 - p + p * factor)
    # the part of the outcome that a forecast of exactly 0 or 1 declared impossible
    impossible = y if p == 0.0 else 1.0 - y
    for i in range(len(STRETCHES)):
        if 0.0 < p < 1.0:
            of_1, of_0 = p ** STRETCH_POWERS[i], (1.0 - p) ** STRETCH_POWERS[i]
            ratios[N_SHIFTS + i] = (y * of_1 / p + (1.0 - y) * of_0 / (1.0 - p)) / (of_1 + of_0)
        elif impossible > 0.0 and STRETCH_POWERS[i] < 1.0:
            ratios[N_SHIFTS + i] = impossible * LARGEST_ACCOUNT + 1.0 - impossible  # the limit is infinite
        else:
            ratios[N_SHIFTS + i] = 1.0 - impossible


@kernel_part
def fill_stakes(stakes: Floats, ratios: Floats, worth: float) -> None:
    """Fill in the new stakes on all shifts and stretches; they are 0 where the factor is about 1."""
    for i in range(len(ratios)):
        stake = STAKE_OF_SHIFT if i < N_SHIFTS else STAKE_OF_STRETCH
        stakes[i] = stake if abs(ratios[i] - 1.0) >= worth else 0.0


@kernel_part
def multiply(state: Floats, group: int, ratios: Floats, stakes: Floats, first: int, count: int) -> None:
    """Pay both accounts of each bet of a group what it has brought; its factors begin at `first`."""
    rounds, last = state[ROUNDS], state[LAST_ROUND + group]
    # 1/(t (t + 1)) summed over all rounds since the last that concerned the group; what the endowment keeps
    paid_since, unpaid = (rounds - last) / ((rounds + 1.0) * (last + 1.0)), 1.0 / (rounds + 1.0)
    detectors, funds = 0.0, unpaid * GROUP_SHARES[group]
    for i in range(count):
        bet, ratio = group * N_SHIFTS + i, ratios[first + i]
        detector = min(LARGEST_ACCOUNT, (state[DETECTORS + bet] + stakes[first + i]) * ratio)
        fund = min(LARGEST_ACCOUNT, (state[FUNDS + bet] + paid_since * FUND_SHARES[bet]) * ratio)
        state[DETECTORS + bet] = detector
        state[FUNDS + bet] = fund
        if state[LARGEST_PRODUCTS + bet] <= 1.0:
            state[LARGEST_PRODUCTS + bet], state[GROWS_SINCE + bet] = 1.0, rounds - 1.0
        state[LARGEST_PRODUCTS + bet] = min(LARGEST_ACCOUNT, state[LARGEST_PRODUCTS + bet] * ratio)
        detectors += detector
        funds += fund
    state[DETECTOR_SUMS + group] = detectors
    state[FUND_SUMS + group] = funds
    state[LAST_ROUND + group] = rounds


@kernel_part
def add_round(state: Floats, room: Floats, p: float, y: float, worth: float) -> None:
    """Take up a forecast and its outcome, both in [0, 1]; `room` holds the round's factors and stakes."""
    state[ROUNDS] += 1.0
    ratios, stakes = room[:N_FACTORS], room[N_FACTORS:]
    fill_ratios(ratios, p, unrounded(p, y))
    fill_stakes(stakes, ratios, worth)
    for depth in range(DEPTHS):
        width = 1 << depth
        multiply(state, width - 1 + min(int(p * width), width - 1), ratios, stakes, 0, N_SHIFTS)
    multiply(state, N_REGIONS, ratios, stakes, N_SHIFTS, len(STRETCHES))
    detectors, funds = 0.0, 0.0
    for group in range(N_GROUPS):
        detectors += state[DETECTOR_SUMS + group]
        funds += state[FUND_SUMS + group]
    state[STATISTIC], state[E_VALUE] = detectors, funds
    state[LARGEST_E_VALUE] = max(state[LARGEST_E_VALUE], funds)


@kernel_part
def start_over(state: Floats) -> None:
    """Empty the detectors after an alarm; the funds go on."""
    state[STATISTIC] = 0.0
    for group in range(N_GROUPS):
        state[DETECTOR_SUMS + group] = 0.0
    for bet in range(N_BETS):
        state[DETECTORS + bet] = state[LARGEST_PRODUCTS + bet] = 0.0


@compiled
def update(state: Floats, p: float, y: float, alpha: float) -> None:
    """Take up a round; if the one before raised an alarm, detectors begin anew."""
    if state[STATISTIC] >= 1.0 / alpha:
        start_over(state)
    add_round(state, np.empty(2 * N_FACTORS), p, y, worth_of(alpha))


@compiled
def replay(state: Floats, p: Floats, y: Floats, alpha: float) -> int:
    """Take up rounds of arrays (T,) up to the first alarm, or all of them: how many were taken up."""
    room, threshold, worth = np.empty(2 * N_FACTORS), 1.0 / alpha, worth_of(alpha)
    for t in range(len(p)):
        if state[STATISTIC] >= threshold:
            start_over(state)
        add_round(state, room, p[t], y[t], worth)
        if state[STATISTIC] >= threshold:
            return t + 1
    return len(p)


NEEDS_BOTH = (
    "an alarm needs a forecast and its outcome, but models of river give their detectors only one number, "
    "whether a prediction was wrong. Call update with both yourself, as the loop in docs/alarms.md does, "
    "and leave out rounds whose outcome is missing"
)


class Finding(NamedTuple):
    """Which forecasts seem to be wrong, and how.

    Attributes
    ----------
    low, high
        The forecasts from `low` up to `high`, a half, quarter or eighth of [0, 1] or all of it.
    direction
        "too low", if outcomes come more often than these forecasts say, or "too high". If low and high are 0
        and 1 it may also be "overconfident", all forecasts being too near to 0 and 1, or "underconfident".
    share
        The part of all evidence that speaks for this, from 0 to 1.
    """

    low: float
    high: float
    direction: str
    share: float

    def _repr_html_(self) -> str:
        return render(fields_of(self))


class CalibrationAlarm(Restored, base.DriftDetector):
    """Tells when forecasts stop being calibrated: soon after a change, and seldom without one.

    As long as every forecast is the probability of its outcome, given all that came before, the mean number
    of rounds to a false alarm is at least 1/alpha, whatever the forecasts are and however they are chosen.
    Nothing is assumed of the time at which they go wrong, of where in [0, 1], of the direction or the size.
    After an alarm it begins anew with the next round; only `e_value` and `p_value` go on. A round costs O(1).

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

    Notes
    -----
    `update` takes a forecast and its outcome. Models of river give their `drift_detector` one number alone,
    whether a prediction was wrong, which says nothing of probabilities: docs/alarms.md shows a loop that
    retrains a model instead.

    A right forecast of exactly 0 or 1, or next to it, is no evidence, however often there is one; what was
    declared impossible and happens raises an alarm at once.

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
    >>> alarm.finding.direction, alarm.change_point
    ('too high', 1997)

    References
    ----------
    Shin, Ramdas & Rinaldo, "E-detectors: a nonparametric framework for sequential change detection" (2023);
    Arnold, Henzi & Ziegel, "Sequentially valid tests for forecast calibration" (2023); Ville (1939). Proofs
    are in docs/theory-alarms.md.
    """

    def __init__(self, alpha: float = 1e-4) -> None:
        super().__init__()
        self.alpha = check_open_unit(alpha, "alpha")
        self.n_rounds = self.n_alarms = 0
        self._state = new_state()

    def update(self, p: float, y: SupportsFloat | None = None) -> None:
        """Take up one round: a forecast `p` of outcome 1 and its outcome `y`, both numbers in [0, 1].

        `drift_detected` then says whether this round raised an alarm. Raises ValueError, and changes nothing,
        if either is no number in [0, 1], or if y is None, as where models of river call their detectors with
        one number.
        """
        if y is None:
            raise ValueError(f"y must be the outcome of the forecast, got None: {NEEDS_BOTH}")
        forecast, outcome = check_probability(p, "p"), share_of(y, "y")
        update(self._state, forecast, outcome, self.alpha)
        self.n_rounds += 1
        self._note()

    def update_many(self, forecasts: ArrayLike, outcomes: ArrayLike) -> NDArray[np.int64]:
        """Take up rounds one after the other, from arrays of shape (T,), and return which raised an alarm.

        The answer has the rows of these rounds, counted from 0 in the arrays, int64 and ascending; it is
        empty if there was none. The state is the same as after T calls of `update`. Raises ValueError, and
        changes nothing, for numbers outside [0, 1], for lengths that differ or are 0, and if all forecasts
        are 0 or 1 while outcomes are not: then the arguments look swapped.
        """
        p, fund_shares = check_share_history(forecasts, outcomes)
        y = fund_shares.astype(np.float64)
        alarms, done = [], 0
        while done < len(p):
            done += replay(self._state, p[done:], y[done:], self.alpha)
            self._note()
            if self._drift_detected:
                alarms.append(done - 1)
        self.n_rounds += len(p)
        return np.array(alarms, np.int64)

    def _note(self) -> None:
        self._drift_detected = bool(self._state[STATISTIC] >= 1.0 / self.alpha)
        self.n_alarms += self._drift_detected

    @property
    def statistic(self) -> float:
        """The evidence for a change since the last alarm, at least 0, and 0.0 before the first round.

        From 1/alpha on an alarm is raised. It stays so until the next round, which begins anew.
        """
        return float(self._state[STATISTIC])

    @property
    def e_value(self) -> float:
        """The evidence against all forecasts so far, a number from 0 up, 1.0 before the first round.

        If the forecasts are calibrated its mean is at most 1. It may fall, too, and alarms do not change it.
        """
        return float(self._state[E_VALUE])

    @property
    def p_value(self) -> float:
        """A bound on the chance that `e_value` ever becomes as large as it did, if forecasts are calibrated.

        It is 1 over the largest `e_value` so far, at most 1.0, so it never rises. A small one speaks against
        the forecasts, whenever one looks.
        """
        return float(min(1.0, 1.0 / self._state[LARGEST_E_VALUE]))

    @property
    def finding(self) -> Finding:
        """Which forecasts seem to be wrong since the last alarm, and how: a `Finding`, that of most evidence.

        After an alarm it says what raised it, until the next round begins anew. Without any evidence, as
        before the first round, its `share` is 0.0 and its other fields mean nothing.
        """
        accounts = self._detectors
        meaning = MEANINGS[int(np.argmax(accounts))]
        same = [bet for bet in range(N_BETS) if MEANINGS[bet] == meaning]
        whole = float(accounts.sum())
        share = float(accounts[same].sum()) / whole if whole > 0.0 else 0.0
        return Finding(*meaning, share)

    @property
    def change_point(self) -> int | None:
        """The round since which the forecasts of `finding` seem to be wrong; None without any evidence.

        Rounds are counted from 0 since this alarm object was made, not since the last alarm. It is the round
        such that a change there makes what happened since then most likely.
        """
        if not self.statistic:
            return None
        return int(self._state[GROWS_SINCE + int(np.argmax(self._detectors))])

    @property
    def _detectors(self) -> Floats:
        return self._state[DETECTORS:FUNDS]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self._state.shape != (SIZE,) or not (self._state >= 0.0).all():
            raise ValueError(
                "the pickle of this CalibrationAlarm is not one that this onlinecal can have written: it was "
                "changed, or another version made it. Load another copy of it, or make a new alarm"
            )
