"""What coins leave behind: excursions, fair coins on uniform grids, coins of any bias on the zooming grid."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import LOWER, SCALE

UNIT = 1 << 28


class Zooming:
    """The zooming grid of docs/theory.md, section 9: the sign rule, wishes by a schedule, two accounts.

    `allowance` gives A_t, `power` the schedule t^(3/5); d is 1/2. With `doublings`, a set of rounds, the grid
    doubles before these and nothing else, whatever it costs; `halves` says which half is taken each time.
    """

    def __init__(self, allowance=None, doublings=None, halves=None, power=0.6):
        self.allowance, self.doublings, self.halves, self.power = allowance, doublings, halves, power
        self.lower, self.step = 0, UNIT
        self.biases = {}
        self.rounds = self.moved = self.saved = 0
        self.refusals = 0
        self.prepare()

    def bias(self, point):
        return self.biases.get(point, 0)

    def accounts(self):
        """O, S and the base grid's step, all in units of 2^-28; the base grid of c/d = 2."""
        t, base = self.rounds + 1, 0
        while t > 8 * 4**base // 3:
            base += 1
        base = UNIT >> base
        orphaned = sum(abs(bias) for point, bias in self.biases.items() if point % base)
        return orphaned, self.saved, base

    def prepare(self):
        """The cell of the coming round."""
        t, step = self.rounds + 1, self.step
        self.move()
        if self.doublings is not None:
            step >>= t in self.doublings
        else:
            orphaned, saved, base = self.accounts()
            step = UNIT >> int(math.log2(t**self.power + 1e-9))
            step, self.base = min(step, base), base
            if step < base and orphaned + UNIT > saved + (5 / 3 + self.allowance(t)) * UNIT:
                step, self.refusals = base, self.refusals + 1
        while step < self.step:
            self.step //= 2
            middle = self.lower + self.step
            upper = self.bias(middle) <= 0
            if upper and self.bias(middle) >= 0:
                upper = bool(self.halves) and bool(self.halves.pop())
            self.lower = middle if upper else self.lower
        if step > self.step:
            self.step = step
            self.lower = self.lower // step * step
            self.move()

    def move(self):
        """To a valid cell of the same width."""
        while self.bias(self.lower) > 0:
            self.lower -= self.step
        while self.bias(self.lower + self.step) < 0:
            self.lower += self.step

    def settle(self, y):
        """Charge the round; the charged point."""
        point = self.lower + y * self.step
        self.biases[point] = self.bias(point) + point - y * UNIT
        self.moved += self.step / 2
        if self.doublings is None:
            self.saved += (self.base - self.step) / 2
        self.rounds += 1
        self.prepare()
        return point

    @property
    def certificate(self):
        return (self.moved + sum(map(abs, self.biases.values()))) / UNIT


def no_excursion_gains(lows, highs, points, outcomes, scale):
    """Lemma 20 for every s, t and threshold; lows and highs have one entry more than there are rounds."""
    rounds, tried = len(points), 0
    for sign, ends in ((1, lows), (-1, highs)):
        for s in range(rounds):
            lowest, top = math.inf, -math.inf
            for t in range(s + 1, rounds + 1):
                lowest, top = min(lowest, sign * ends[t]), max(top, sign * ends[t])
                if sign * ends[t] < top or lowest <= sign * ends[s]:
                    continue
                # the thresholds at which anything changes: a in [L_s, lowest)
                for a in {sign * ends[s], lowest - 1, *(sign * x for x in points[s:t])}:
                    if sign * ends[s] <= a < lowest:
                        above = [r for r in range(s, t) if sign * points[r] > a]
                        assert set(range(s + 1, t)) <= set(above)
                        assert sign * sum(points[r] - scale * outcomes[r] for r in above) <= 0
                        tried += 1
    return tried


@pytest.mark.parametrize(
    "config",
    [{"n_cells": 5}, {"n_cells": 6}, {"n_cells": 5, "rule": "sign"}, {"n_cells": 8, "rule": "sign"}],
    ids=str,
)
def test_no_excursion_gains_on_uniform_grids_on_all_sequences(config):
    tried = 0
    for outcomes in product((0, 1), repeat=9):
        forecaster = AlmostOneStepAhead(**config)
        memory, lows, points = forecaster.memory, [], []
        for y in outcomes:
            lows.append(int(memory[LOWER]))
            points.append(lows[-1] + y)
            forecaster.learn_one({}, y)
        lows.append(int(memory[LOWER]))
        tried += no_excursion_gains(lows, [low + 1 for low in lows], points, outcomes, int(memory[SCALE]))
    assert tried > 1000


@pytest.mark.parametrize("rule", ["balanced", "sign"])
def test_fair_coins_stay_near_the_middle_of_a_uniform_grid(rule):
    slack = 0.5 if rule == "balanced" else 1.0
    for rounds, seed in product((10**4, 10**5), range(5)):
        m = math.ceil(rounds**0.6)
        spread = math.ceil(0.5 * (m**2 * math.log(2 * rounds**2 * 10**6)) ** (1 / 3))
        forecaster = AlmostOneStepAhead(n_cells=m, rule=rule)
        coins = np.random.default_rng(seed).integers(0, 2, rounds)
        _, charged = forecaster.replay(coins, return_look_ahead=True)
        assert np.abs(charged - 0.5).max() < (3 * spread + 1) / m
        # of the order that the theorem says, and not of a smaller one
        assert np.abs(charged - 0.5).max() > 0.2 * spread / m
        assert forecaster.certificate <= rounds / (2 * m) + slack * (6 * spread + 2)


def test_on_fair_coins_a_uniform_grid_grows_about_as_the_power_two_fifths():
    lengths, found = (10**4, 10**5, 10**6, 10**7), []
    for rounds in lengths:
        certificates = []
        for seed in range(4 if rounds < 10**7 else 2):
            forecaster = AlmostOneStepAhead(n_cells=math.ceil(rounds**0.6))
            forecaster.replay(np.random.default_rng(seed).integers(0, 2, rounds, dtype=np.uint8))
            certificates.append(forecaster.certificate)
        found.append(np.mean(certificates))
    exponent = np.polyfit(np.log(lengths), np.log(found), 1)[0]
    assert 0.35 <= exponent <= 0.42
    # with the grid of the guarantee it is 1/2
    assert found[-1] <= 0.35 * math.sqrt(lengths[-1])


def width(t, delta):
    """M_t, Lambda_t and A_t as docs/theory.md defines them (c/d = 2)."""
    base = 0
    while t > 8 * 4**base // 3:
        base += 1
    m = 2 ** max(base, int(math.log2(t**0.6 + 1e-9)))
    logarithm = math.log(6 * t**4 / delta)
    return m, logarithm, 5.2 * (logarithm * m**2) ** (1 / 3) + 2 * math.log2(2 * m)


@pytest.mark.parametrize("bias", [0.0, 0.03, 0.1, 0.3, 0.5, 0.8])
def test_coins_of_any_bias_stay_near_it_on_the_zooming_grid(bias):
    delta, grid = 1e-3, Zooming(allowance=lambda t: width(t, 1e-3)[2])
    coins = (np.random.default_rng(5).random(20_000) < bias).astype(int).tolist()
    for t, y in enumerate(coins, 1):
        point = grid.settle(y) / UNIT
        m, logarithm, _ = width(t, delta)
        assert abs(point - bias) <= 3 * (logarithm / (4 * m)) ** (1 / 3) + 1 / m
    assert grid.refusals == 0
    assert len(grid.biases) <= width(len(coins), delta)[2]
    assert grid.certificate <= 2.5 * len(coins) ** 0.4 + width(len(coins), delta)[2]


def nasty(rounds, kind, rng):
    """Outcomes that make the wish for finer grids expensive; those of "push" answer the cell."""
    if kind == "drift":
        return (rng.random(rounds) < np.linspace(0.05, 0.95, rounds)).astype(int).tolist()
    if kind == "jumps":
        return (
            (rng.random(rounds) < np.repeat(rng.random(rounds // 50 + 1), 50)[:rounds]).astype(int).tolist()
        )
    return [None] * rounds


@pytest.mark.parametrize("kind", ["drift", "jumps", "push"])
@pytest.mark.parametrize("allowed", [0.0, 3.0])
def test_the_zooming_grid_keeps_its_bound_on_nasty_outcomes(kind, allowed):
    factor = 7 * math.sqrt(3) / 4
    for seed in range(4):
        rng = np.random.default_rng(seed)
        grid, refused = Zooming(allowance=lambda t: allowed, power=0.85), 0
        for t, y in enumerate(nasty(3000, kind, rng), 1):
            if y is None:
                y = int((grid.lower + grid.step / 2) / UNIT < t / 3000)
            grid.settle(y)
            orphaned, saved, _ = grid.accounts()
            assert orphaned <= saved + (5 / 3 + allowed) * UNIT
            if t >= 2:
                assert grid.certificate <= factor * math.sqrt(t / 2) + allowed
            refused = grid.refusals
        assert refused or allowed


@pytest.mark.parametrize("bias", [0.1, 0.3, 0.5])
def test_the_self_tuning_grid_with_the_sign_rule_grows_slowly_on_coins_of_any_bias(bias):
    """Measured, not proved."""
    lengths = (10**4, 10**5, 10**6)
    found = np.zeros(len(lengths))
    for seed in range(4):
        forecaster, done = AlmostOneStepAhead(rule="sign"), 0
        coins = (np.random.default_rng(seed).random(lengths[-1]) < bias).astype(np.uint8)
        for place, length in enumerate(lengths):
            forecaster.replay(coins[done:length])
            done = length
            found[place] += forecaster.certificate / 4
    assert np.polyfit(np.log(lengths), np.log(found), 1)[0] <= 0.45
    assert found[-1] <= 0.45 * math.sqrt(lengths[-1])
