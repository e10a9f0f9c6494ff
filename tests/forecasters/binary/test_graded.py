"""Graded grids: the identity and the bounds of docs/theory.md, Fact 7b to Theorem 7d, 15, 25a and 26a."""

import math
import pickle
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import END, FORMAT, SCALE, TABLE
from onlinecal.forecasters.binary.full_table import SHARED
from onlinecal.forecasters.binary.graded import GRADED_SCALE, best_half, graded_points, new_memory, prices
from onlinecal.forecasters.binary.nested import FORMAT_NESTED, STAGE, nested_points
from tests.forecasters.configurations import exact_distance, play_late, sequences
from tests.properties import examples

TOLERANCE = 1e-9
HALF = Fraction(1, 2)


def exact_prices(points):
    """The theorem's r_j and kappa_j, from the points as fractions and the outer reports."""
    v, reports = (
        points,
        [low if high <= HALF else high for low, high in pairwise(points)],
    )
    ones = [Fraction(0), *(v[j] - reports[j - 1] for j in range(1, len(v)))]
    zeros = [*(reports[j] - v[j] for j in range(len(v) - 1)), Fraction(0)]
    rates = [x * one + (1 - x) * zero for x, one, zero in zip(v, ones, zeros, strict=True)]
    return rates, [zero - one for one, zero in zip(ones, zeros, strict=True)]


def fractions(points, scale):
    return [Fraction(int(x), int(scale)) for x in points]


def fractions_of(memory):
    return fractions(memory[TABLE::2], memory[SCALE])


def as_integers(points):
    return np.array([int(Fraction(x) * GRADED_SCALE) for x in points], np.int64)


UNEVEN = [
    graded_points(1),
    graded_points(2),
    graded_points(3),
    graded_points(5),
    as_integers([0, 0.25, 0.375, 0.5, 0.625, 0.75, 1]),
    as_integers([0, 0.5, 0.53125, 1]),
    as_integers([0, 0.0625, 0.4375, 0.5, 0.875, 1]),
    as_integers([0, 0.3125, 0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 1]),
]


def all_games(grids, ends, slack, rounds, scale=GRADED_SCALE):
    """All sequences of so many rounds at once, in whole numbers of 1/scale, on grids that serve until `ends`.

    After each round the points, and by sequence their charges and biases and what was moved.
    """
    every, high = np.arange(1 << rounds), int(slack * scale)
    v = np.array([int(x * scale) for x in grids[0]])
    biases, charges = np.zeros((2, 1 << rounds, len(v)), np.int64)
    cell, moved = np.full(1 << rounds, grids[0].index(HALF) - 1), np.zeros(1 << rounds, np.int64)

    def valid(cell):
        """The cell goes down while its lower end refuses 0, then up while its upper end refuses 1."""
        while (down := biases[every, cell] + v[cell] > high).any():
            cell = cell - down
        while (up := biases[every, cell + 1] + v[cell + 1] < scale - high).any():
            cell = cell + up
        return cell

    for t in range(rounds):
        cell = valid(cell)
        if t in ends:
            finer = np.array([int(x * scale) for x in grids[ends.index(t) + 1]])
            places, wider = np.searchsorted(finer, v), np.zeros((2, 1 << rounds, len(finer)), np.int64)
            wider[0][:, places], wider[1][:, places] = biases, charges
            v, (biases, charges) = finer, wider
            cell = valid(places[cell])
        y = every >> t & 1
        report, charged = np.where(2 * v[cell] < scale, v[cell], v[cell + 1]), cell + y
        moved += np.abs(report - v[charged])
        biases[every, charged] += v[charged] - y * scale
        charges[every, charged] += 1
        yield v, charges, biases, moved


@pytest.mark.parametrize("points", UNEVEN, ids=len)
@pytest.mark.parametrize("slack", [HALF, Fraction(3, 4)])
@pytest.mark.parametrize("rounds", [13, pytest.param(16, marks=pytest.mark.slow)])
def test_on_all_sequences_the_identity_and_the_bound_hold(points, slack, rounds):
    m = len(points) - 1
    rates, kappas = exact_prices(fractions(points, GRADED_SCALE))
    *_, (_, charges, biases, moved) = all_games([fractions(points, GRADED_SCALE)], [], slack, rounds)
    assert np.abs(biases).max() <= int(slack * GRADED_SCALE)
    assert (biases[:, [0, -1]] == 0).all()
    # the identity, in units of 1/GRADED_SCALE^2 and exactly, for python's integers do not wrap
    rate = np.array([int(r * GRADED_SCALE**2) for r in rates], object)
    kappa = np.array([int(k * GRADED_SCALE) for k in kappas], object)
    identity = charges[::37].astype(object) @ rate + biases[::37].astype(object) @ kappa
    assert (moved[::37].astype(object) * GRADED_SCALE == identity).all()
    certificates = moved + np.abs(biases).sum(1)
    worst = max(rates) * rounds + slack * (m - 1 + sum(map(abs, kappas)))
    assert Fraction(int(certificates.max()), GRADED_SCALE) <= worst
    # the machine itself is that twin
    for place in range(0, 1 << rounds, (1 << rounds) // 16 + 3):
        forecaster = forecaster_on(points, float(slack))
        forecaster.replay(place >> np.arange(rounds) & 1)
        assert forecaster.certificate == certificates[place] / GRADED_SCALE
        assert forecaster.certificate <= forecaster._promise(rounds) <= float(worst) * (1 + 1e-15)


def forecaster_on(points, slack=0.5):
    forecaster = AlmostOneStepAhead(horizon=100, grid="graded", slack=slack)
    forecaster.memory = new_memory(points, slack)
    forecaster._resume()
    return forecaster


@pytest.mark.parametrize("points", UNEVEN, ids=len)
@pytest.mark.parametrize("rounds", [7, pytest.param(12, marks=pytest.mark.slow)])
def test_on_all_short_sequences_the_exact_distance_is_below_the_certificate_and_windows_hold(points, rounds):
    rate, weight, _ = prices(points)
    for outcomes in product((0, 1), repeat=rounds):
        forecaster = forecaster_on(points)
        forecasts, charged = forecaster.replay(outcomes, return_look_ahead=True)
        distance = exact_distance(zip(forecasts.tolist(), outcomes, strict=True))
        assert distance <= forecaster.certificate + TOLERANCE
        for start in range(rounds):
            biases, moved = dict.fromkeys(charged, 0.0), 0.0
            for length in range(1, rounds + 1 - start):
                t = start + length - 1
                biases[charged[t]] += charged[t] - outcomes[t]
                moved += abs(forecasts[t] - charged[t])
                found = moved + sum(map(abs, biases.values()))
                assert found <= length * rate / GRADED_SCALE**2 + weight / GRADED_SCALE + TOLERANCE


@pytest.mark.parametrize(("rounds", "most"), [(10**2, 8.5), (10**3, 24.1), (10**4, 72.8), (10**6, 710.0)])
def test_the_guarantee_with_a_horizon_is_the_exact_bound_of_the_grid_and_so_low(rounds, most):
    forecaster = AlmostOneStepAhead(horizon=rounds)
    rates, kappas = exact_prices(fractions_of(forecaster.memory))
    exact = max(rates) * rounds + HALF * (len(rates) - 2 + sum(map(abs, kappas)))
    assert float(exact) == pytest.approx(forecaster.guarantee, rel=1e-14)
    assert math.sqrt(rounds / 2) < forecaster.guarantee <= most
    assert forecaster.guarantee <= math.sqrt(rounds / 2) + 0.5 * math.log(1 + math.sqrt(rounds / 2)) + 2.5
    late = exact_late(rates, kappas, fractions_of(forecaster.memory), rounds, 3)
    # the sum of the corners is rounded up, a unit at most for each point
    forecaster._note_late(3)
    found = forecaster._promise(rounds)
    assert float(late) * (1 - 1e-15) <= found <= float(late) + 3 * len(rates) / GRADED_SCALE


def exact_late(rates, kappas, points, rounds, late):
    weights = [(1 + abs(k)) * (HALF + late * max(v, 1 - v)) for k, v in zip(kappas, points, strict=True)]
    return max(rates) * rounds + sum(weights[1:-1])


def test_the_better_of_both_grids_is_taken():
    for rounds in [*range(1, 120), 500, 10**5]:
        chosen = AlmostOneStepAhead(horizon=rounds).guarantee
        uniform = AlmostOneStepAhead(horizon=rounds, grid="uniform")
        graded = AlmostOneStepAhead(horizon=rounds, grid="graded")
        counts = range(1, 2 * math.isqrt(rounds) + 2)
        best = min(AlmostOneStepAhead(n_cells=m, horizon=rounds).guarantee for m in counts)
        assert chosen == min(best, graded.guarantee)
        assert (chosen == best) == (rounds <= 33)
        # a grid that was asked for is the paper's, which is nearly the best
        assert (uniform.guarantee > best) <= (round(math.sqrt(rounds)) < math.sqrt(rounds))
        assert uniform.guarantee <= math.sqrt(rounds)


@pytest.mark.parametrize("half", [1, 2, 3, 7, 40, 1000, 30_000])
def test_points_are_rounded_and_their_rate_is_hardly_more_than_the_least(half):
    """Against the points by the recursion in fractions of 2^-90, with the least rate, found by halving."""
    points = graded_points(half)
    assert (points == GRADED_SCALE - points[::-1]).all()
    assert len(points) == 2 * half + 1
    assert (np.diff(points) > 0).all()
    assert points[half] == GRADED_SCALE // 2
    found = prices(points)[0] / GRADED_SCALE**2
    if half > 1:
        fine, low, high = 1 << 90, 0, 1 << 88
        for _ in range(40):
            rate = (low + high) // 2
            v = fine // 2 - rate
            for _ in range(half - 2):
                v -= rate * fine // max(v, 1)
                if v <= 0:
                    break
            low, high = (low, rate) if v <= 0 or v * v <= rate * fine else (rate, high)
            if half > 1000 and high - low < high >> 20:
                break
        widest_slip = 2**-27
        assert high / fine * (1 - 1e-5) <= found <= high / fine * (1 + 1e-6) + widest_slip


@pytest.mark.parametrize("rounds", [40, 100, 1000, 10**4, 10**5])
def test_as_many_cells_as_have_the_least_bound(rounds):
    def number(half):
        rate, weight, _ = prices(graded_points(half))
        return rounds * rate / GRADED_SCALE**2 + 0.5 * weight / GRADED_SCALE

    best = best_half(rounds, 0.5)
    assert number(best) == min(number(half) for half in range(max(1, best - 12), best + 12))


GRIDS = [*({"horizon": rounds, "grid": "graded"} for rounds in (40, 200)), {"grid": "nested"}]


@settings(max_examples=examples(80), deadline=None)
@given(st.sampled_from(GRIDS), sequences(), st.integers(2, 9), st.integers(0, 99))
def test_late_labels_are_in_the_guarantee(made, outcomes, most_open, seed):
    forecaster, rng = AlmostOneStepAhead(window=30, **made), np.random.default_rng(seed)
    settled = play_late(forecaster, outcomes.tolist(), most_open, rng, lambda: None)
    points, biases = forecaster.look_ahead
    assert (np.abs(biases) <= 0.5 + (most_open - 1) * np.maximum(points, 1 - points) + TOLERANCE).all()
    assert forecaster.certificate <= forecaster._promise(len(settled)) + TOLERANCE
    promised = forecaster.window_guarantee
    assert (promised is None) == (made["grid"] == "nested")
    assert promised is None or forecaster.window_certificate <= promised + TOLERANCE
    assert pickle.loads(pickle.dumps(forecaster)).certificate == forecaster.certificate


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from(GRIDS),
    sequences(),
    st.lists(st.floats(0, 1), min_size=1, max_size=150),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_shares_split_wide_cells_and_the_guarantee_says_what_is_proved(made, before, shares, most_open, seed):
    forecaster, rng = AlmostOneStepAhead(**made), np.random.default_rng(seed)
    points, biases, found = forecaster.look_ahead.points, {}, 0.0
    outcomes = [*before.tolist(), *shares, *before.tolist(), *(1 - before).tolist()]
    settled = play_late(forecaster, outcomes, most_open, rng, lambda: None)
    for token, y in settled:
        charged = min(max(y, token.lower), token.upper)
        found += abs(token.probability - charged)
        biases[charged] = biases.get(charged, 0.0) + charged - y
    assert forecaster.certificate == pytest.approx(found + sum(map(abs, biases.values())), abs=1e-6)
    assert forecaster.certificate <= forecaster._promise(len(settled)) + 1e-6
    assert set(points) <= set(forecaster.look_ahead.points)
    memory = forecaster.memory
    if memory[FORMAT] == FORMAT_NESTED and any(0 < share < 1 for share in shares):
        rate = int(
            max(exact_prices(fractions(nested_points(int(memory[SHARED])), GRADED_SCALE))[0]) * GRADED_SCALE
        )
        widest = 3 * rate / 2 ** int(memory[STAGE] - memory[SHARED])
        assert np.diff(memory[TABLE : memory[END] : 2]).max() <= widest + 4
    assert pickle.loads(pickle.dumps(forecaster))._promise(10**5) == forecaster._promise(10**5)


@pytest.mark.parametrize("rounds", [40, 200, 10**4])
@pytest.mark.parametrize("late", [0, 3])
def test_the_guarantee_with_shares_is_the_theorems_number(rounds, late):
    forecaster = AlmostOneStepAhead(horizon=rounds, grid="graded")
    before = fractions_of(forecaster.memory)
    rates, kappas = exact_prices(before)
    forecaster.learn_one({}, 0.3)
    after = fractions(forecaster.memory[TABLE : forecaster.memory[END] : 2], forecaster.memory[SCALE])
    widest = max(high - low for low, high in pairwise(after))
    old, new = ([HALF + late * max(v, 1 - v) for v in points[1:-1]] for points in (before, after))
    biases = sum(abs(kappa) * bound for kappa, bound in zip(kappas[1:-1], old, strict=True)) + sum(new)
    exact = max(*rates, widest / 2) * rounds + biases + HALF * (late + 1)
    forecaster._note_late(late)
    found = forecaster._promise(rounds)
    # a round may be rounded by two units
    assert float(exact) * (1 - 1e-15) <= found <= float(exact) + (2 * rounds + 4 * len(after)) / GRADED_SCALE
