"""The alarm: exact means over all outcomes, false alarms, delays; money put aside for late labels."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal import CalibrationAlarm
from onlinecal.alarms import calibration_alarm, escrow
from onlinecal.alarms.calibration_alarm import N_REGIONS, N_SHIFTS, STRETCHES, detectors_of, fill_ratios
from onlinecal.engine.watch.account import MONEY, N_STAKES, ask, new_account, settle_bets
from tests.parts import part_of


def forecast_after(past, tick):
    """Forecasts that depend on the outcomes before: both ends, and numbers that are in no grid."""
    if len(past) == tick:
        return 0.0
    return [0.3, 0.999, 1e-9, 0.51, 1.0][(len(past) + 2 * sum(past)) % 5]


@pytest.mark.parametrize("tick", range(4))
def test_means_over_all_outcomes_are_those_of_the_theorems(tick):
    detectors, e_values, p_values = 0.0, 0.0, []
    for outcomes in itertools.product((0, 1), repeat=7):
        chance, forecasts = 1.0, []
        for t, y in enumerate(outcomes):
            forecasts.append(forecast_after(outcomes[:t], tick))
            chance *= forecasts[-1] if y else 1.0 - forecasts[-1]
        if chance > 0.0:
            alarm = CalibrationAlarm(1e-9)
            for p, y in zip(forecasts, outcomes, strict=True):
                alarm.update(p, y)
            detectors += chance * alarm.statistic
            e_values += chance * alarm.e_value
            p_values.append((alarm.p_value, chance))
    assert detectors == pytest.approx(7.0, rel=1e-12)
    assert e_values == pytest.approx(1.0, rel=1e-12)
    p, chances = np.array(sorted(p_values)).T
    assert (chances.cumsum() <= np.minimum(p, 1.0) + 1e-12)[np.append(np.diff(p) > 0, True)].all()


def test_evidence_since_the_first_round_outlives_alarms_and_the_p_value_its_fall():
    rng = np.random.default_rng(0)
    often, never, largest = CalibrationAlarm(0.5), CalibrationAlarm(1e-9), 1.0
    for t in range(600):
        p = rng.random()
        y = rng.random() < (p**2 if t < 200 else p)
        for alarm in (often, never):
            alarm.update(p, y)
        largest = max(largest, never.e_value)
        assert never.p_value == 1.0 / largest
    assert often.n_alarms > 10 > never.n_alarms
    assert never.e_value < largest / 2
    assert often.e_value == pytest.approx(never.e_value, rel=1e-9)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_share_counts_as_so_much_of_each_outcome(p, y):
    """So the means, and with them false alarms, are as promised for shares, too."""
    ratios = np.empty((3, N_SHIFTS + len(STRETCHES)))
    for row, outcome in zip(ratios, (0.0, 1.0, y), strict=True):
        fill_ratios(row, p, outcome)
    assert ratios[2] == pytest.approx((1.0 - y) * ratios[0] + y * ratios[1], rel=1e-12)


CHANGES = {
    "too low": lambda p: np.minimum(p + 0.1, 1.0),
    "too high": lambda p: np.maximum(p - 0.1, 0.0),
    "overconfident": lambda p: p**0.5 / (p**0.5 + (1.0 - p) ** 0.5),
    "underconfident": lambda p: p**2 / (p**2 + (1.0 - p) ** 2),
    "region": lambda p: np.where((p > 0.75) & (p < 0.875), p - 0.2, p),
}


@pytest.mark.parametrize(
    ("kind", "most"),
    [("too low", 250), ("too high", 250), ("overconfident", 220), ("underconfident", 200), ("region", 800)],
)
def test_changes_are_found_soon_and_named(kind, most):
    delays, named, beginnings = [], 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.random(6000)
        happens = rng.random(6000) < np.where(np.arange(6000) < 1000, p, CHANGES[kind](p))
        alarm = CalibrationAlarm()
        found = alarm.update_many(p, happens)
        first = next(int(t) for t in found if t >= 1000)
        delays.append(first - 1000)
        again = CalibrationAlarm()
        again.update_many(p[: first + 1], happens[: first + 1])
        finding = again.finding
        beginnings.append(again.change_point)
        if kind == "region":
            named += finding.direction == "too high" and (finding.low, finding.high) == (0.75, 0.875)
        else:
            named += finding.direction == kind
    assert np.mean(delays) < most
    assert named >= 24
    # half of the beginnings are nearer to the change than a fourth of the mean delay
    assert abs(np.median(beginnings) - 1000) < most / 4


@pytest.mark.parametrize("seed", range(5))
def test_the_change_point_is_the_beginning_with_the_largest_product(seed):
    rng = np.random.default_rng(seed)
    alarm, since = CalibrationAlarm(0.02), 0
    assert alarm.change_point is None
    played_so_far = []
    for t in range(400):
        if alarm.drift_detected:
            # an alarm forgets what was before it
            played_so_far, since = [], t
        p = float(rng.random())
        y = float(rng.random() < (p if t < 150 else p**2))
        alarm.update(p, y)
        ratios = np.empty(N_SHIFTS + len(STRETCHES))
        fill_ratios(ratios, p, y)
        played_so_far.append((p, ratios))
        bet = int(np.argmax(detectors_of(part_of(alarm, np.ndarray))))
        low, high, _ = calibration_alarm.MEANINGS[bet]
        place = bet % N_SHIFTS if bet < N_REGIONS * N_SHIFTS else N_SHIFTS + bet - N_REGIONS * N_SHIFTS
        factors = [one[place] if low <= p < high or high == 1.0 == p else 1.0 for p, one in played_so_far]
        products = np.cumprod(factors[::-1])[::-1]
        assert products[alarm.change_point - since] >= 0.999999 * products.max()


def test_many_at_once_are_the_same_as_one_by_one_and_so_are_copies():
    rng = np.random.default_rng(2)
    p = rng.random(3000)
    y = rng.random(3000) < p**1.5
    one, found = CalibrationAlarm(0.01), []
    for t in range(3000):
        if t == 1234:
            one = pickle.loads(pickle.dumps(copy.deepcopy(one)))
        one.update(p[t], y[t])
        assert one.drift_detected == (one.statistic >= 100.0)
        if one.drift_detected:
            found.append(t)
    many = CalibrationAlarm(0.01)
    parts = [many.update_many(p[a:b], y[a:b]) + a for a, b in itertools.pairwise((0, 1, 700, 1999, 3000))]
    assert np.concatenate(parts).tolist() == found
    assert len(found) == many.n_alarms == one.n_alarms > 3
    assert (many.statistic, many.e_value, many.p_value) == (one.statistic, one.e_value, one.p_value)
    assert many.change_point == one.change_point
    assert many.n_rounds == 3000


def test_what_cannot_happen_is_found_and_stays_a_number():
    alarm = CalibrationAlarm()
    alarm.update_many(np.zeros(5000), np.ones(5000))
    assert alarm.n_alarms > 500
    assert alarm.p_value < 1e-200
    assert np.isfinite(alarm.e_value)


ROUNDING = 1e-6
"""Stakes are rounded down to 32 bits."""


class Detector:
    """That of the forecasts in an account."""

    def __init__(self, threshold=np.inf):
        self.state, self.tickets, self.threshold, self.event = new_account(), {}, threshold, 0

    def ask(self, name, p):
        self.event += 1
        ticket = np.zeros(N_STAKES, np.float32)
        ask(self.state, ticket, p, np.nan)
        self.tickets[name] = ticket, p, self.event

    def settle(self, name, y):
        self.event += 1
        ticket, p, asked = self.tickets.pop(name)
        return settle_bets(self.state, ticket, 0, p, y, asked, self.event, self.threshold)

    @property
    def evidence(self):
        return escrow.evidence(self.state, MONEY)


def factor(bet, p, y):
    """What a bet multiplies its money by, from its definition: another forecast's likelihood ratio."""
    if bet >= escrow.QUARTERS and min(int(4 * p), 3) != (bet - escrow.QUARTERS) // escrow.PER_QUARTER:
        return 1.0
    if escrow.N_ODDS <= bet < escrow.QUARTERS:
        if p in (0.0, 1.0):
            return 1.0
        power = (0.5, 2.0)[bet - escrow.N_ODDS]
        other = p**power / (p**power + (1.0 - p) ** power)
    else:
        place = bet if bet < escrow.N_ODDS else 2 + (bet - escrow.QUARTERS) % escrow.PER_QUARTER
        by = escrow.ODDS[place]
        if p in (0.0, 1.0):
            return (1.0 - y + y * by) / (1.0 - p + p * by)
        other = by * p / (1.0 - p + by * p)
    return y * other / p + (1.0 - y) * (1.0 - other) / (1.0 - p)


def test_without_open_forecasts_it_is_the_e_detector_of_its_bets():
    rng, found, money = np.random.default_rng(0), Detector(), np.zeros(escrow.N_BETS)
    assert escrow.SHARES.sum() == pytest.approx(1.0, abs=1e-15)
    for t in range(200):
        p = [0.0, 1.0, 1e-9, 0.25][t] if t < 4 else rng.random()
        y = [0.0, 1.0, 0.0, 0.5][t] if t < 4 else float(rng.random() < p)
        found.ask(t, p)
        found.settle(t, y)
        money = (money + escrow.SHARES) * [factor(bet, p, y) for bet in range(escrow.N_BETS)]
    np.testing.assert_allclose(found.state[MONEY : MONEY + escrow.N_BETS], money, rtol=1e-4)
    assert found.evidence <= money.sum()


def test_means_over_all_outcomes_of_late_labels_that_share_them():
    # four forecasts of one event and two of another, settled in a row; a seventh that depends on the first
    ends, stopped = 0.0, 0.0
    for one, other, last in itertools.product((0, 1), repeat=3):
        chance = (0.3 if one else 0.7) * (0.6 if other else 0.4)
        found = Detector()
        for n in range(4):
            found.ask(n, 0.3)
        for n in (4, 5):
            found.ask(n, 0.6)
        found.settle(0, one)
        # whoever knows the first knows the other three, and may stop while they are open
        bad = found.evidence if one == 0 else None
        p = 0.9 if one else 0.2
        chance *= p if last else 1.0 - p
        found.ask(6, p)
        for n, y in ((1, one), (2, one), (5, other), (3, one), (4, other)):
            found.settle(n, y)
        found.settle(6, last)
        ends += chance * found.evidence
        stopped += chance * (found.evidence - 7.0 if bad is None else bad - 6.0)
    assert 7.0 - 7.0 * ROUNDING < ends <= 7.0
    assert stopped <= 0.0


def test_what_is_never_settled_is_given_back_and_an_alarm_forgets_what_was_open():
    found = Detector(threshold=50.0)
    found.ask("gone", 0.3)
    found.settle("gone", 0.3)
    assert found.evidence == pytest.approx(1.0, rel=ROUNDING)
    found.ask("open", 0.05)
    for t in range(200):
        found.ask(t, 0.1)
        if found.settle(t, 1.0):
            break
    assert t < 199
    assert found.evidence == 0.0
    found.settle("open", 1.0)
    assert found.evidence == 0.0
