"""Bets with money put aside: what is proved holds however late outcomes are and whatever they share."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from onlinecal import CalibrationAlarm
from onlinecal.alarms import escrow
from onlinecal.engine.watch.account import MONEY, TICKET, ask, new_account, settle_bets

ROUNDING = 1e-6
"""Stakes are rounded down to 32 bits."""


class Detector:
    """That of the forecasts in an account."""

    def __init__(self, threshold=np.inf):
        self.state, self.tickets, self.threshold, self.event = new_account(), {}, threshold, 0

    def ask(self, name, p):
        self.event += 1
        ticket = np.zeros(TICKET, np.float32)
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
    if bet >= escrow.QUARTERS and min(int(4 * p), 3) != (bet - escrow.QUARTERS) // escrow.PART:
        return 1.0
    if escrow.WHOLE <= bet < escrow.QUARTERS:
        if p in (0.0, 1.0):
            return 1.0
        power = (0.5, 2.0)[bet - escrow.WHOLE]
        other = p**power / (p**power + (1.0 - p) ** power)
    else:
        place = bet if bet < escrow.WHOLE else 2 + (bet - escrow.QUARTERS) % escrow.PART
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
    ends, stopped, alone = 0.0, 0.0, 0.0
    for one, other, last in itertools.product((0, 1), repeat=3):
        chance = (0.3 if one else 0.7) * (0.6 if other else 0.4)
        found, naive = Detector(), CalibrationAlarm(1e-9)
        for n in range(4):
            found.ask(n, 0.3)
        for n in (4, 5):
            found.ask(n, 0.6)
        found.settle(0, one)
        naive.update(0.3, one)
        # whoever knows the first knows the other three, and may stop while they are open
        bad = found.evidence if one == 0 else None
        p = 0.9 if one else 0.2
        chance *= p if last else 1.0 - p
        found.ask(6, p)
        for n, y in ((1, one), (2, one), (5, other), (3, one), (4, other)):
            found.settle(n, y)
            naive.update(0.6 if n > 3 else 0.3, y)
        found.settle(6, last)
        naive.update(p, last)
        ends += chance * found.evidence
        stopped += chance * (found.evidence - 7.0 if bad is None else bad - 6.0)
        alone += chance * naive.statistic
    assert 7.0 - 7.0 * ROUNDING < ends <= 7.0
    assert stopped <= 0.0
    # the same bets in the order of settlement promise nothing here
    assert alone > 7.05


def waits(p, share, alpha, rounds, seed):
    """Forecasts up to the first alarm, cut at so many rounds, where `share` forecasts have one outcome."""
    rng, found, naive = np.random.default_rng(seed), Detector(1.0 / alpha), CalibrationAlarm(alpha)
    first = [rounds, rounds]
    for start in range(0, rounds, share):
        y = float(rng.random() < p)
        for n in range(share):
            found.ask(n, p)
        for n in range(share):
            if found.settle(n, y):
                first[0] = min(first[0], start + share)
            naive.update(p, y)
            if naive.drift_detected:
                first[1] = min(first[1], start + n + 1)
    return first


def test_false_alarms_are_as_seldom_as_promised_where_forecasts_share_an_outcome():
    alpha = 0.01
    means = np.mean([waits(0.4, 8, alpha, 480, seed) for seed in range(120)], axis=0)
    assert means[0] >= 1.0 / alpha
    assert means[1] < 0.7 / alpha


def test_what_is_never_settled_is_given_back_and_an_alarm_forgets_what_was_open():
    found = Detector(threshold=50.0)
    found.ask("gone", 0.3)
    found.settle("gone", 0.3)
    assert found.evidence == pytest.approx(1.0, rel=ROUNDING)
    found.ask("open", 0.05)
    raised = 0
    for t in range(200):
        found.ask(t, 0.1)
        if found.settle(t, 1.0):
            raised += 1
            break
    assert raised
    assert found.evidence == 0.0
    found.settle("open", 1.0)
    assert found.evidence == 0.0
