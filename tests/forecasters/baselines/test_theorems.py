"""The theorems of docs/theory-baselines.md, exactly: all draws and outcomes of short games, with odds."""

import numpy as np
import pytest
from scipy.optimize import linprog

from onlinecal.forecasters import baselines
from onlinecal.forecasters.baselines.mixing import LISTS, NOT_MIXED, SUPPORT_SIZE
from tests.forecasters.baselines import games

TOLERANCE = 1e-9
ROUNDS = 5


def squared_leans(memory):
    return float((games.leans(memory) ** 2).sum())


def hedged_errors(memory):
    """Sum over values of rounds times (average error)^2."""
    return float((games.errors(memory) ** 2 / np.maximum(games.book(memory)[1], 1.0)).sum())


def regrets(memory):
    """R[i, j]: Brier score saved, had value j been forecast whenever value i was."""
    values, counts, ones = games.book(memory)
    v, w, n, s = values[:, None], values[None, :], counts[:, None], ones[:, None]
    return n * (v**2 - w**2) - 2 * s * (v - w)


def squared_regrets(memory):
    return float((np.maximum(regrets(memory), 0.0) ** 2).sum())


def half_cell(memory, m):
    """(1 - 1/(2m))^2, for either outcome."""
    return [(1 - 1 / (2 * m)) ** 2] * 2


def hedged_growth(memory, m):
    """A quarter of a squared cell, and 1/(n + 1) where the draw falls."""
    counts = games.book(memory)[1]
    return [1 / (4 * m * m) + sum(w / (counts[i] + 1) for i, w in games.mixture(memory))] * 2


def blackwell(memory, m):
    """The squares of what the round adds to the regrets of the value drawn; at most m."""
    values = games.book(memory)[0]
    bounds = [
        sum(w * (((values[i] - y) ** 2 - (values - y) ** 2) ** 2).sum() for i, w in games.mixture(memory))
        for y in (0, 1)
    ]
    assert max(bounds) <= m
    return bounds


def random_books(kind, number, rng):
    """States that no game need have led to: any book, and the mixture for it."""
    for _ in range(number):
        m = int(rng.integers(1, 14))
        forecaster = kind(horizon=200, n_cells=m)
        fresh = forecaster.memory.tolist()
        counts = rng.integers(0, rng.choice([2, 10, 1000]), m + 1)
        ones = rng.integers(0, counts + 1)
        fresh[LISTS + m + 1 : LISTS + 3 * (m + 1)] = [*map(float, counts), *map(float, ones)]
        fresh[SUPPORT_SIZE] = NOT_MIXED
        yield games.mixed(forecaster, fresh)


GROWTH = {
    baselines.FosterForecaster: (squared_leans, half_cell),
    baselines.MinimaxForecaster: (squared_leans, half_cell),
    baselines.FosterHartForecaster: (hedged_errors, hedged_growth),
    baselines.FosterVohraForecaster: (squared_regrets, blackwell),
}


@pytest.mark.parametrize("kind", GROWTH, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("m", [1, 2, 3])
def test_potentials_grow_as_slowly_as_proven_and_the_ece_is_within_its_bound(kind, m):
    potential, allowed = GROWTH[kind]
    forecaster = kind(horizon=ROUNDS, n_cells=m)

    def worst(memory, t):
        """The expected ECE at the end against the best adversary there is."""
        if t == ROUNDS:
            return games.ece(memory)
        before, bounds, values = potential(memory), allowed(memory, m), []
        for y in (0, 1):
            branches = [(w, games.settled(forecaster, memory, i, y)) for i, w in games.mixture(memory)]
            grown = sum(w * potential(after) for w, after in branches) - before
            assert grown <= bounds[y] + TOLERANCE
            values.append(sum(w * worst(after, t + 1) for w, after in branches if w > 0.0))
        return max(values)

    start = games.mixed(forecaster, forecaster.memory.tolist())
    assert worst(start, 0) <= forecaster.expected_ece(ROUNDS) + TOLERANCE


@pytest.mark.parametrize("kind", GROWTH, ids=lambda kind: kind.__name__)
def test_potentials_grow_as_slowly_whatever_the_book(kind):
    potential, allowed = GROWTH[kind]
    for memory in random_books(kind, 80, np.random.default_rng(5)):
        forecaster = kind(n_cells=len(games.book(memory)[0]) - 1)
        before, bounds = potential(memory), allowed(memory, forecaster.n_points - 1)
        for y in (0, 1):
            grown = (
                sum(w * potential(games.settled(forecaster, memory, i, y)) for i, w in games.mixture(memory))
                - before
            )
            assert grown <= bounds[y] + 1e-12 * before + TOLERANCE


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_linear_optimisation_answers_every_direction_within_half_a_cell(m):
    forecaster = baselines.LinearOptimisationForecaster(horizon=ROUNDS, n_cells=m)
    rate = np.sqrt((m + 1) / ROUNDS)

    def worst(memory, direction, gain, t):
        """As above; gradient ascent is within its regret in every single game."""
        regret_bound = (m + 1) / (2 * rate) + rate * t / 2
        assert games.ece(memory) <= gain + regret_bound + TOLERANCE
        if t == ROUNDS:
            return games.ece(memory)
        chances, values = games.mixture(memory), []
        for y in (0, 1):
            expected, value = 0.0, 0.0
            for i, w in chances:
                miss = y - i / m
                expected += w * direction[i] * miss
                turned = direction.copy()
                turned[i] = np.clip(turned[i] + rate * miss, -1.0, 1.0)
                after = games.settled(forecaster, memory, i, y)
                value += w * worst(after, turned, gain + direction[i] * miss, t + 1)
            assert expected <= 1 / (2 * m) + TOLERANCE
            values.append(value)
        return max(values)

    start = games.mixed(forecaster, forecaster.memory.tolist())
    assert worst(start, np.zeros(m + 1), 0.0, 0) <= forecaster.expected_ece(ROUNDS) + TOLERANCE


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("rounds", [8, pytest.param(12, marks=pytest.mark.slow)])
def test_two_choices_keeps_every_lean_below_one_round_on_all_sequences(m, rounds):
    forecaster = baselines.PowerOfTwoChoices(n_cells=m)
    values = np.arange(m + 1) / m
    up, down = np.maximum(1 - values - 1 / (2 * m), 0.0), np.maximum(values - 1 / (2 * m), 0.0)

    def check(memory, t):
        assert np.all(games.leans(memory) <= up + TOLERANCE)
        assert np.all(games.leans(memory) >= -down - TOLERANCE)
        assert games.ece(memory) <= t / (2 * m) + (up + down).clip(0).sum() + TOLERANCE
        assert games.ece(memory) <= forecaster._promise(t) + TOLERANCE
        if t < rounds:
            place = games.mixture(memory)[0][0]
            for y in (0, 1):
                check(games.settled(forecaster, memory, place, y), t + 1)

    check(games.mixed(forecaster, forecaster.memory.tolist()), 0)


def game_matrix(memory):
    """By how much each value's squared lean rises with outcome 0 and with outcome 1; shape (2, m + 1)."""
    values, counts, _ = games.book(memory)
    tolerance = 1 / (2 * (len(values) - 1))
    rows = []
    for y in (0, 1):
        after = np.maximum(np.abs(games.errors(memory) + y - values) - (counts + 1) * tolerance, 0.0)
        rows.append(after**2 - games.leans(memory) ** 2)
    return np.array(rows)


def test_minimax_plays_the_optimal_mixture_of_the_matrix_game():
    for memory in random_books(baselines.MinimaxForecaster, 100, np.random.default_rng(1)):
        rises = game_matrix(memory)
        n = rises.shape[1]
        program = linprog(
            np.r_[np.zeros(n), 1.0],
            A_ub=np.c_[rises, -np.ones(2)],
            b_ub=np.zeros(2),
            A_eq=np.r_[np.ones(n), 0.0][None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
            method="highs",
        )
        chances = np.zeros(n)
        for place, weight in games.mixture(memory):
            chances[place] += weight
        assert chances.sum() == pytest.approx(1.0)
        scale = np.abs(rises).max()
        assert (rises @ chances).max() == pytest.approx(program.fun, rel=1e-9, abs=1e-9 * scale)


def test_foster_vohra_draws_from_a_stationary_distribution_of_the_whole_chain():
    for memory in random_books(baselines.FosterVohraForecaster, 100, np.random.default_rng(2)):
        rates = np.maximum(regrets(memory), 0.0)
        rates[rates < 1e-9 * rates.max(initial=0.0)] = 0.0
        chances = np.zeros(len(rates))
        for place, weight in games.mixture(memory):
            chances[place] += weight
        assert chances.min() >= 0.0
        assert chances.sum() == pytest.approx(1.0)
        flow = chances @ rates - chances * rates.sum(axis=1)
        assert np.abs(flow).max() <= 1e-9 * max(1.0, rates.max(initial=0.0))


@pytest.mark.parametrize(
    "kind",
    [kind for kind in games.BASELINES if hasattr(kind, "expected_ece")],
    ids=lambda kind: kind.__name__,
)
def test_the_bounds_read_as_documented(kind):
    m, rounds = 10, 1000
    forecaster = kind(**(games.parameters(kind, m) | {"horizon": rounds}))
    expected = {
        baselines.FosterHartForecaster: 50 + np.sqrt(11 * 1000 * (1 + np.log(1000 / 11))),
        baselines.FosterVohraForecaster: 50 + np.sqrt(11) * 1000**0.75,
        baselines.PowerOfTwoChoices: 50 + 11,
    }.get(kind, 50 + np.sqrt(11_000))
    assert forecaster.expected_ece(rounds) == pytest.approx(expected)
    for bad in (-1, 2.5, float("nan"), "x"):
        with pytest.raises(ValueError, match="rounds must be a whole number of at least 0"):
            forecaster.expected_ece(bad)
