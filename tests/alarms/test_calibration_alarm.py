"""The alarm: exact means over all outcomes, false alarms, delays; money put aside for late labels."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, naive_bayes

from onlinecal import CalibrationAlarm
from onlinecal.alarms import DistributionAlarm, calibration_alarm, escrow
from onlinecal.alarms.calibration_alarm import (
    DETECTORS,
    FUNDS,
    N_FACTORS,
    N_REGIONS,
    N_SHIFTS,
    STRETCHES,
    fill_ratios,
)
from onlinecal.alarms.worth import worth_of
from onlinecal.engine.watch.account import MONEY, N_STAKES, ask, new_account, settle_bets
from tests.parts import part_of


def forecast_after(past, tick):
    """Forecasts that depend on the outcomes before: both ends, and numbers that are in no grid."""
    if len(past) == tick:
        return 0.0
    return [0.3, 0.999, 1e-9, 0.51, 1.0][(len(past) + 2 * sum(past)) % 5]


STAKES = np.repeat([0.9 / N_SHIFTS, 0.1 / len(STRETCHES)], [N_SHIFTS, len(STRETCHES)])
"""Those on the shifts, in a region of each depth together, and on the stretches."""


def taken_back(p, y, alpha):
    """What the new stakes on a forecast had brought when they were taken back, in all."""
    ratios = np.empty(N_FACTORS)
    fill_ratios(ratios, p, y)
    return STAKES @ np.where(abs(ratios - 1.0) < worth_of(alpha), ratios, 0.0)


@pytest.mark.parametrize("tick", range(4))
def test_means_over_all_outcomes_are_those_of_the_theorems(tick):
    detectors, e_values, p_values, alpha = 0.0, 0.0, [], 1e-9
    for outcomes in itertools.product((0, 1), repeat=7):
        chance, forecasts = 1.0, []
        for t, y in enumerate(outcomes):
            forecasts.append(forecast_after(outcomes[:t], tick))
            chance *= forecasts[-1] if y else 1.0 - forecasts[-1]
        if chance > 0.0:
            alarm = CalibrationAlarm(alpha)
            for p, y in zip(forecasts, outcomes, strict=True):
                alarm.update(p, y)
                detectors += chance * taken_back(p, y, alpha)
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
    ratios = np.empty((3, N_FACTORS))
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
        bet = int(np.argmax(part_of(alarm, np.ndarray)[DETECTORS:FUNDS]))
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


SURE = [0.0, 1e-300, 1e-12, 1.0 - 1e-12, 1.0 - 2.0**-53, 1.0]
"""Forecasts that are exactly, or next to, 0 and 1."""


def in_account(p, y, alpha):
    """The rounds at which the alarm of the engine rings."""
    detector = Detector(1.0 / alpha)
    for t in range(len(p)):
        detector.ask(t, float(p[t]))
        if detector.settle(t, float(y[t])):
            yield t


def in_alarm(p, y, alpha):
    """The rounds at which `CalibrationAlarm` rings."""
    return CalibrationAlarm(alpha).update_many(p, y).tolist()


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01, pytest.param(1e-3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rings", [in_alarm, in_account])
def test_sure_forecasts_that_are_right_raise_no_alarm(rings, alpha):
    rounds = round(4 / alpha)
    for p in SURE:
        for noise in (0.0, 1e-17):
            outcomes = np.abs(np.full(rounds, round(p) - noise))
            assert list(rings(np.full(rounds, p), outcomes, alpha)) == []


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-6])
@pytest.mark.parametrize("rings", [in_alarm, in_account])
@pytest.mark.parametrize("before", [0, 50])
def test_the_first_outcome_that_was_declared_impossible_raises_an_alarm(rings, before, alpha):
    for p in (0.0, 1e-300, 1.0):
        forecasts, outcomes = np.full(before + 1, p), np.full(before + 1, p)
        outcomes[-1] = 1.0 - p
        assert list(rings(forecasts, outcomes, alpha)) == [before]


def test_next_to_no_chance_is_heard_and_named_like_none():
    for share, y in itertools.product((0.2, 1.0), (1.0, 0.5)):
        found = []
        for p in (0.0, 1e-300):
            rng, alarm = np.random.default_rng(0), CalibrationAlarm(1e-6)
            while not alarm.drift_detected:
                forecast = p if rng.random() < share else 0.5
                alarm.update(forecast, y * (rng.random() < 0.1) if forecast == p else rng.random() < 0.5)
            found.append((alarm.n_rounds, alarm.finding[:3], alarm.change_point))
        assert found[0] == found[1]


def test_evidence_names_forecasts_that_were_made():
    # seven of ten, as said: nothing to find, and 13 of 15 regions without any forecast
    outcomes = np.tile([1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 500)
    alarm, account = CalibrationAlarm(1e-3), Detector(1e3)
    assert alarm.update_many(np.full(len(outcomes), 0.7), outcomes).tolist() == []
    assert alarm.finding.low <= 0.7 < alarm.finding.high
    for t, y in enumerate(outcomes):
        account.ask(t, 0.7)
        assert not account.settle(t, y)
    low, high, _ = escrow.MEANINGS[int(np.argmax(account.state[MONEY : MONEY + escrow.N_BETS]))]
    assert low <= 0.7 < high
    fresh = CalibrationAlarm()
    fresh.update(0.0, 0)
    assert (fresh.finding.share, fresh.change_point, fresh.statistic) == (0.0, None, 0.0)


ROUNDING = 1e-6
"""Stakes are rounded down to 32 bits."""


class Detector:
    """That of the forecasts in an account."""

    def __init__(self, threshold=np.inf):
        self.state, self.tickets, self.threshold, self.event = new_account(), {}, threshold, 0

    def ask(self, name, p):
        self.event += 1
        ticket = np.zeros(N_STAKES, np.float32)
        ask(self.state, ticket, p, np.nan, self.threshold)
        self.tickets[name] = ticket, p, self.event

    def settle(self, name, y):
        self.event += 1
        ticket, p, asked = self.tickets.pop(name)
        return settle_bets(self.state, ticket, 0, p, y, asked, self.event, self.threshold)

    @property
    def evidence(self):
        return escrow.evidence(self.state, MONEY)


def factors(p, y):
    """What bets multiply their money by, from their definition: another forecast's likelihood ratio.

    1 for those that are not made; and what they get of 1.
    """
    found, shares = np.ones(escrow.N_BETS), np.zeros(escrow.N_BETS)
    for i in range(escrow.BETS_MADE):
        bet = i if i < escrow.QUARTERS else i + escrow.PER_QUARTER * min(int(4 * p), 3)
        if escrow.N_ODDS <= i < escrow.QUARTERS:
            power = (0.5, 2.0)[i - escrow.N_ODDS]
            other = p**power / (p**power + (1.0 - p) ** power)
        else:
            by = escrow.ODDS[i if i < escrow.N_ODDS else 2 + i - escrow.QUARTERS]
            other = by * p / (1.0 - p + by * p)
        found[bet] = y * other / p + (1.0 - y) * (1.0 - other) / (1.0 - p)
        shares[bet] = escrow.STAKE_SHARES[i]
    return found, shares


@pytest.mark.parametrize("alpha", [1e-3, 1e-6])
def test_without_open_forecasts_it_is_the_e_detector_of_its_bets(alpha):
    rng, found, money = np.random.default_rng(0), Detector(1.0 / alpha), np.zeros(escrow.N_BETS)
    assert escrow.STAKE_SHARES.sum() == pytest.approx(1.0, abs=1e-15)
    for t in range(200):
        p = [1e-9, 0.25, 0.5, 1 - 1e-5, 1e-4][t] if t < 5 else rng.random()
        y = [0.0, 0.5, 1.0, 1.0, 0.0][t] if t < 5 else float(rng.random() < p)
        found.ask(t, p)
        found.settle(t, y)
        ratios, shares = factors(p, y)
        money = (money + shares * (abs(ratios - 1.0) >= worth_of(alpha))) * ratios
    assert money.sum() > 1.0
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


HOSTS = {
    "retraining": lambda alarm: drift.DriftRetrainingClassifier(naive_bayes.GaussianNB(), alarm, False),
    "forest": lambda alarm: forest.ARFClassifier(n_models=2, seed=0, drift_detector=alarm),
    "regressors": lambda alarm: forest.ARFRegressor(n_models=2, seed=0, drift_detector=alarm),
}


@pytest.mark.parametrize("kind", [CalibrationAlarm, DistributionAlarm])
@pytest.mark.parametrize("host", HOSTS)
def test_models_of_river_that_give_one_number_are_told_what_to_do(host, kind):
    model = HOSTS[host](kind())

    def play():
        for t in range(20):
            model.learn_one({"a": float(t)}, t % 2)

    with pytest.raises(ValueError, match="got None: an alarm needs a forecast and its outcome"):
        play()
