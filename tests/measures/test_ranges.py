"""The p-value of the cumulative calibration error: right for few rounds, rare events and all mixtures."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest

from onlinecal.measures import cumulative_calibration_error
from onlinecal.measures.counts import count_shares
from onlinecal.measures.ranges import BROWNIAN_VARIANCE, MOST_DRAWS, Walks, chance_of_range
from onlinecal.measures.scores import cumulative_error_of_counts

RNG = np.random.default_rng(0)
MIXTURES = {
    "rare and constant": np.full(20, 0.002),
    "rare and all different": RNG.uniform(0.0, 0.01, 2000),
    "nearly certain, both ways": np.concatenate([np.full(300, 0.001), 1.0 - RNG.uniform(0.0, 0.004, 300)]),
    "uniform": RNG.random(60),
    "one row": np.array([0.3]),
    "few rows": np.array([0.0, 0.1, 0.5, 0.5, 1.0]),
    "tied": RNG.integers(0, 6, 80) / 5,
    "all the same": np.full(40, 0.5),
    "one row in doubt among rare ones": np.concatenate([np.full(400, 1e-5), [0.5]]),
}


@pytest.mark.parametrize("games", [100, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_calibrated_forecasts_seldom_have_small_p_values(mixture, games):
    p, rng = MIXTURES[mixture], np.random.default_rng(1)
    p_value_of = cache(lambda y: cumulative_calibration_error(p, np.frombuffer(y, np.uint8)).p_value)
    found = np.array([p_value_of((rng.random(len(p)) < p).astype(np.uint8).tobytes()) for _ in range(games)])
    for level in (0.002, 0.01, 0.05, 0.2, 0.5):
        assert np.mean(found <= level) <= level + 3.5 * math.sqrt(level * (1.0 - level) / games)


@pytest.mark.parametrize("p", [[0.1, 0.2, 0.2, 0.5, 0.7, 0.7, 0.7, 1.0], [0.002] * 10, [0.9, 0.95, 0.99]])
def test_p_values_are_those_of_all_outcomes_together(p):
    p = np.sort(p)
    games = [np.array(bits) for bits in product((0, 1), repeat=len(p))]
    chances = np.array([np.prod(np.where(y == 1, p, 1.0 - p)) for y in games])
    errors = np.array([cumulative_error_of_counts(count_shares(p, y)[0]) for y in games]).round(9)
    for error in set(errors[chances > 0.0]):
        exact = chances[errors >= error].sum()
        p_value = cumulative_calibration_error(p, games[int(np.argmax(errors == error))]).p_value
        assert p_value == pytest.approx(exact, abs=0.4 * exact if exact > 0.003 else 0.002)


def test_one_rare_event_among_twenty_rounds_is_no_proof():
    chance = cumulative_calibration_error([0.002] * 20, [1] + [0] * 19).p_value
    assert chance == pytest.approx(1.0 - 0.998**20, rel=0.15)
    assert cumulative_calibration_error([0.002] * 20, [1] * 9 + [0] * 11).p_value == 1 / (MOST_DRAWS + 1)


@pytest.mark.parametrize(
    "values, rounds",
    [
        ([0.0, 0.2, 0.6, 1.0], [3.0, 2.5, 7.25, 2.0]),
        ([0.5], [9.0]),
        ([0.001, 0.3, 0.999], [300.0, 1.0, 200.5]),
        (np.linspace(0.0, 1.0, 30), np.ones(30)),
    ],
)
def test_drawn_walks_are_those_of_independent_rounds(values, rounds):
    """Against all rounds drawn one by one; what is left of a whole number is a round with smaller steps."""
    values, rounds, rng, number = np.array(values), np.array(rounds), np.random.default_rng(2), 4000
    whole = np.floor(rounds)
    ones = rng.binomial(whole.astype(int), values, (number, len(values)))
    ones = ones + (rounds - whole) * (rng.random((number, len(values))) < values)
    sums = np.cumsum(ones - rounds * values, axis=1)
    plain = np.maximum(sums.max(axis=1), 0.0) - np.minimum(sums.min(axis=1), 0.0)
    drawn = Walks(values, rounds).ranges(rng, number)
    for size in np.quantile(plain, [0.0, 0.2, 0.5, 0.8, 0.95]) + 1e-6:
        assert np.mean(drawn > size) == pytest.approx(
            np.mean(plain > size), abs=4.5 * math.sqrt(0.5 / number)
        )


@pytest.mark.parametrize("most", [0.002, 0.02, 1.0])
def test_where_the_limit_is_taken_it_is_no_smaller_than_the_p_value(most):
    values = np.linspace(
        0.0,
        most,
        1 + math.ceil(BROWNIAN_VARIANCE / np.mean(np.linspace(0, most) * (1 - np.linspace(0, most)))),
    )
    variance, games = float((values * (1.0 - values)).sum()), 4000
    assert variance == pytest.approx(BROWNIAN_VARIANCE, rel=0.05)
    sizes = Walks(values, np.ones(len(values))).ranges(np.random.default_rng(3), games)
    found = np.array([chance_of_range(size / math.sqrt(variance)) for size in sizes])
    for level in (0.001, 0.01, 0.05, 0.2, 0.5):
        share = np.mean(found <= level)
        assert share <= level + 3.5 * math.sqrt(level * (1.0 - level) / games)
        assert share >= 0.75 * level - 3.5 * math.sqrt(level * (1.0 - level) / games)
