"""What coins leave behind: excursions, fair coins on uniform grids, any coins on the self-tuning one."""

from __future__ import annotations

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
