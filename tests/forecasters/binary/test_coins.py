"""What coins leave behind: excursions, fair coins on uniform grids, any coins on the self-tuning one."""

import math
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import LOWER, SCALE


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
    for rounds, seed in product((10**4, 10**5, 10**6), range(4)):
        m = 2 * math.ceil(0.5 * rounds ** (2 / 3))
        far = math.ceil(math.sqrt(m * math.log(rounds**2 * 10**6)))
        forecaster = AlmostOneStepAhead(n_cells=m, rule=rule)
        coins = np.random.default_rng(seed).integers(0, 2, rounds)
        _, charged = forecaster.replay(coins, return_look_ahead=True)
        assert np.abs(charged - 0.5).max() <= 2 * far / m
        # of the order that the theorem says, and not of a smaller one
        assert np.abs(charged - 0.5).max() > 0.05 * far / m
        assert forecaster.certificate <= rounds / (2 * m) + slack * (4 * far + 1)


class Zoom:
    """The sign rule on grids each of which is the last one or its double, in whole numbers of 2^-30."""

    unit = 1 << 30

    def __init__(self, cells):
        self.cells, self.biases, self.rounds, self.low, self.moved = cells, {}, 0, 0, 0
        self.step = self.unit // cells(1)

    def learn(self, y):
        """Charge a round and go on; the charged point."""
        v = self.low + self.step * y
        self.biases[v] = bias = self.biases.get(v, 0) + v - self.unit * y
        self.moved += self.step
        self.rounds += 1
        if y == 0 and bias > 0:
            self.low -= self.step
        if y == 1 and bias < 0:
            self.low += self.step
        while self.step > self.unit // self.cells(self.rounds + 1):
            # the middle was never charged: of the two halves the one that its bits say, by no rule
            self.step //= 2
            self.low += self.step * (self.low // self.step % 3 == 1)
        return v

    @property
    def certificate(self):
        return (self.moved / 2 + sum(map(abs, self.biases.values()))) / self.unit


@pytest.mark.parametrize("ends", [(1, 2, 4), (2, 3, 7), (3, 9)])
def test_on_zooming_grids_each_point_on_the_way_up_takes_as_many_ones_as_the_proof_counts(ends):
    """On all sequences of 10 rounds, for all s, t and a as in Theorem 22a."""
    tried, rounds = 0, 10
    for outcomes in product((0, 1), repeat=rounds):
        zoom = Zoom(lambda t: 2 << sum(t > end for end in ends))
        lows, steps, points = [], [], []
        for y in outcomes:
            lows.append(zoom.low)
            steps.append(zoom.step)
            points.append(zoom.learn(y))
        for t in range(1, rounds):
            if lows[t] <= max(lows[:t]):
                continue
            for a in {lows[t] - step for step in steps[:t]} | {lows[t] // 2}:
                earlier = [r for r in range(t) if lows[r] <= a]
                if not earlier:
                    continue
                s = earlier[-1]
                above = [r for r in range(s, t) if points[r] > a]
                assert set(range(s + 1, t)) <= set(above)
                for v in {points[r] for r in above}:
                    ones = sum(outcomes[r] for r in above if points[r] == v)
                    assert ones * zoom.unit >= v * sum(points[r] == v for r in above)
                on_the_way = range(a // steps[s] + 1, lows[t] // steps[s] + 1)
                assert {j * steps[s] for j in on_the_way} <= {points[r] for r in above}
                tried += len(on_the_way)
    assert tried > 1000


@pytest.mark.parametrize("mean", [1 / 3, 3 / 4, 2 / 5])
def test_on_coins_of_a_rational_mean_a_zooming_grid_stays_near_it(mean):
    q, delta = round(1 / (math.gcd(round(60 * mean), 60) / 60)), 1e-3
    rounds, found = (10**4, 10**5), []
    for seed in range(2):
        zoom = Zoom(lambda t: 1 << int(2 / 3 * math.log2(t) + 1e-9))
        coins = (np.random.default_rng(seed).random(rounds[-1]) < mean).tolist()
        for t, y in enumerate(coins, start=1):
            if t >= 1000 and t % 100 == 0:
                m = zoom.unit // zoom.step
                reach = 3 * math.sqrt(q * math.log(6 * t**4 / delta) / m)
                assert mean - reach < (zoom.low + zoom.step) / zoom.unit
                assert zoom.low / zoom.unit < mean + reach
            zoom.learn(y)
            if t in rounds:
                m = zoom.unit // zoom.step
                allowed = 10.3 * math.sqrt(q * math.log(6 * t**4 / delta) * m) + 2 * math.log2(2 * m)
                assert len(zoom.biases) <= allowed
                assert zoom.certificate <= 3 * t ** (1 / 3) + allowed
                found.append(zoom.certificate)
    first, last = np.reshape(found, (2, 2)).mean(0)
    assert math.log10(last / first) <= 0.42
