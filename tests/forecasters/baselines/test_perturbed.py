"""The share of ones with imagined outcomes: its draws, and its regret under all threshold costs at once."""

import functools
import itertools

import numpy as np
import pytest

from onlinecal.forecasters import UCalibratedForecaster
from onlinecal.forecasters.baselines.simple import geometric, share

THRESHOLDS = np.linspace(0.0, 1.0, 41)
"""Every proper loss is a mixture of these costs: acting costs tau in vain, not acting 1 - tau."""


@functools.cache
def costs(p, y):
    """Of acting on p >= tau, for each threshold."""
    return np.where(p >= THRESHOLDS, THRESHOLDS * (1 - y), (1 - THRESHOLDS) * y)


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_two_independent_numbers_come_of_one_draw(rate):
    memory = UCalibratedForecaster(rate=rate).memory.tolist()
    pairs = []
    for u in (np.arange(10_000) + 0.5) / 10_000:
        first, rest = geometric(memory, 1.0 - u)
        pairs.append((first, geometric(memory, rest)[0]))
    first, second = np.array(pairs).T
    for k, m in itertools.product(range(3), repeat=2):
        chance = rate**2 * (1 - rate) ** (k + m)
        assert np.mean((first == k) & (second == m)) == pytest.approx(chance, abs=2e-3)


@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_the_expected_regret_is_within_the_bound_on_every_short_sequence(rate):
    """For every threshold; the expectation is a sum over how many outcomes are imagined."""
    rounds, most = 7, 30
    chances = rate * (1 - rate) ** np.arange(most)
    forecaster = UCalibratedForecaster(rate=rate)
    told = {}
    for t in range(rounds):
        for heads in range(t + 1):
            memory = forecaster.memory.tolist()
            memory[0], memory[-1] = t, heads
            for y in (0, 1):
                total = np.zeros(len(THRESHOLDS))
                for zeros, ones in itertools.product(range(most), repeat=2):
                    p = share(memory, float(ones), float(zeros))
                    total += chances[zeros] * chances[ones] * costs(p, y)
                told[t, heads, y] = total
    for outcomes in itertools.product((0, 1), repeat=rounds):
        heads = [sum(outcomes[:t]) for t in range(rounds)]
        paid = sum(told[t, heads[t], y] for t, y in enumerate(outcomes))
        best = np.min([sum(costs(b, y) for y in outcomes) for b in np.linspace(0, 1, 81)], axis=0)
        assert (paid - best <= forecaster.expected_regret(rounds)).all()
    # Fact 4d
    assert forecaster.expected_regret(100) == pytest.approx(100 * rate + 2 * (1 - rate) / rate)
    assert UCalibratedForecaster(3000).expected_regret(3000) <= 2 * np.sqrt(2 * 3000)
