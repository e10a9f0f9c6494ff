"""Graded grids without a horizon: Theorem 11a of docs/theory.md, by references in plain fractions."""

import math
import pickle
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversaries import create
from onlinecal import AlmostOneStepAhead, calibration_distance
from onlinecal.forecasters.binary import fixed
from onlinecal.forecasters.binary.cells import END, HIGH, ROUNDS, SCALE, STEP, TABLE
from onlinecal.forecasters.binary.fixed import LIMIT, RATE, SHARED, STAGE
from onlinecal.forecasters.binary.graded import GRAIN, LAST_STAGE, graded_points, nested_points
from onlinecal.forecasters.binary.soundness import check_cells
from simulations.games.duel import play
from tests.forecasters.binary.test_graded import all_games, exact_prices
from tests.forecasters.binary.test_machines import play_in_the_interpreter
from tests.forecasters.configurations import sequences
from tests.properties import examples

TOLERANCE = 1e-9
HALF = Fraction(1, 2)


def plain_grids(number):
    """The first so many grids: every so many points of the graded grid of 32 cells, then its cells halved."""
    base = [Fraction(int(x), GRAIN) for x in graded_points(16)]
    grids = [base[::stride] for stride in (16, 8, 4, 2, 1)]
    while len(grids) < number:
        last = grids[-1]
        middles = [Fraction(math.floor((a + b) / 2 * GRAIN), GRAIN) for a, b in pairwise(last)]
        grids.append(sorted({*last, *middles}))
    return grids[:number]


class Plain:
    """The forecaster in fractions and with a dictionary of biases, as the theorem describes it."""

    def __init__(self, grids, ends, slack=HALF):
        self.grids, self.ends, self.slack = grids, ends, slack
        self.biases, self.moved, self.rounds = {}, Fraction(0), 0
        self.cell = grids[0].index(HALF) - 1

    @property
    def grid(self):
        return self.grids[bisect_left(self.ends, self.rounds + 1)]

    def accepts(self, v, y):
        after = self.biases.get(v, Fraction(0)) + v - y
        return after <= self.slack if y == 0 else after >= -self.slack

    def forecast(self):
        low, high = self.grid[self.cell : self.cell + 2]
        return low if high <= HALF else high

    def issue(self):
        """The present cell, as it is charged later: its report and its ends."""
        return (self.forecast(), *self.grid[self.cell : self.cell + 2])

    def rise(self, token, y):
        """By how much the certificate would rise."""
        v = token[1 + y]
        bias = self.biases.get(v, Fraction(0))
        return abs(token[0] - v) + abs(bias + v - y) - abs(bias)

    def learn(self, y):
        self.settle(self.issue(), y)

    def settle(self, token, y):
        p, v = token[0], token[1 + y]
        self.moved += abs(p - v)
        self.biases[v] = self.biases.get(v, Fraction(0)) + v - y
        self.settle_down()
        before, self.rounds = self.grid, self.rounds + 1
        if self.grid is not before:
            self.cell = self.grid.index(before[self.cell])
            self.settle_down()

    def settle_down(self):
        grid = self.grid
        while not self.accepts(grid[self.cell], 0):
            self.cell -= 1
        while not self.accepts(grid[self.cell + 1], 1):
            self.cell += 1

    @property
    def certificate(self):
        return self.moved + sum(map(abs, self.biases.values()))


def plain_bound(grids, ends, rounds, slack=HALF, late=0):
    """The theorem's number, term by term."""
    k, start, total, stale = 0, 0, Fraction(0), Fraction(0)
    rates, kappas = exact_prices(grids[0])
    first = max(rates)
    while True:
        corner = {v: slack + late * max(v, 1 - v) for v in grids[k]}
        end = min(ends[k] if k < len(ends) else rounds, rounds)
        total += max(rates) * (end - start)
        if end == rounds:
            break
        finer_rates, finer_kappas = exact_prices(grids[k + 1])
        places = dict(zip(grids[k + 1], finer_kappas, strict=True))
        turns = {v: abs(kappa - places[v]) for v, kappa in zip(grids[k], kappas, strict=True)}
        total += sum(turns[v] * corner[v] for v in grids[k][1:-1])
        stale += max(turns[v] * max(v, 1 - v) for v in grids[k][1:-1])
        k, start, rates, kappas = k + 1, end, finer_rates, finer_kappas
    total += sum((1 + abs(kappa)) * corner[v] for v, kappa in list(zip(grids[k], kappas, strict=True))[1:-1])
    return total + late * (first + stale)


CHAINS = {
    "the forecaster's": (plain_grids(5), [2, 5, 9]),
    "from four cells": (plain_grids(6)[1:], [3, 8]),
    "dyadic": ([[Fraction(i, 2 << k) for i in range((2 << k) + 1)] for k in range(4)], [1, 4, 10]),
    "lopsided": (
        [
            [Fraction(x, 64) for x in points]
            for points in (
                [0, 20, 32, 36, 64],
                [0, 8, 20, 30, 32, 33, 36, 41, 64],
                [0, 8, 9, 20, 27, 30, 32, 33, 36, 41, 50, 64],
            )
        ],
        [5, 6],
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("slack", [HALF, Fraction(3, 4)])
def test_on_all_sequences_of_fifteen_rounds_and_several_grids_the_bound_holds(chain, slack):
    grids, ends = CHAINS[chain]
    scale, rounds = math.lcm(*(v.denominator for grid in grids for v in grid)), 15
    worst = 0.0
    for t, (_, _, biases, moved) in enumerate(all_games(grids, ends, slack, rounds, scale), start=1):
        certificates = moved + np.abs(biases).sum(1)
        bound = plain_bound(grids[: len(ends) + 1], ends, t, slack)
        assert Fraction(int(certificates.max()), scale) <= bound
        worst = max(worst, certificates.max() / scale / float(bound))
    assert worst > 0.4
    for place in range(0, 1 << rounds, 1021):
        twin = Plain(grids, ends, slack)
        for t in range(rounds):
            twin.learn(place >> t & 1)
        assert twin.certificate == Fraction(int(certificates[place]), scale)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("late", [1, 3])
def test_greedy_outcomes_that_come_late_and_in_any_order_stay_within_the_theorems_bound(chain, late):
    (grids, ends), worst = CHAINS[chain], 0.0
    bounds = [plain_bound(grids, ends, t, late=late) for t in range(1, 41)]
    for seed in range(60):
        rng, twin, waiting = np.random.default_rng(seed), Plain(grids, ends), []
        eager, falling = rng.random(), rng.random() < 0.5
        for _ in range(60):
            while len(waiting) <= late and rng.random() < 0.9:
                waiting.append(twin.issue())
            if not waiting or twin.rounds == 40:
                continue
            # the one and the outcome for which the certificate rises most, or any
            choices = [(twin.rise(token, y), place, y) for place, token in enumerate(waiting) for y in (0, 1)]
            _, place, y = max(choices) if rng.random() < eager else choices[rng.integers(len(choices))]
            if falling and twin.rounds < 20:
                y = 0
            twin.settle(waiting.pop(place), y)
            assert twin.certificate <= bounds[twin.rounds - 1]
            worst = max(worst, float(twin.certificate / bounds[twin.rounds - 1]))
    assert worst > 0.2


@pytest.fixture
def hasty(monkeypatch):
    """Grids that are halved after 2, 5 and 9 rounds, for the interpreter."""
    monkeypatch.setattr(fixed, "NESTED_ROUNDS", np.array([4, 10, 18, 800, 4865]))


@pytest.mark.usefixtures("hasty")
def test_on_all_short_sequences_the_exact_distance_is_below_the_certificate_across_three_halvings():
    rounds = 11
    grids, ends = plain_grids(5), [2, 5, 9, 400, 2432]
    for outcomes in product((0, 1), repeat=rounds):
        forecaster, twin = AlmostOneStepAhead(grid="nested"), Plain(grids, ends)
        forecasts, memory = play_in_the_interpreter(forecaster, np.array(outcomes), np.full(rounds, -1.0))
        for y, p in zip(outcomes, forecasts, strict=True):
            assert twin.forecast() == Fraction(p)
            twin.learn(y)
        forecaster.memory = np.array(memory)
        assert forecaster.memory[STAGE] == 4
        assert Fraction(forecaster.certificate) == twin.certificate
        distance = calibration_distance(forecasts, outcomes, method="exact").exact
        assert distance <= forecaster.certificate + TOLERANCE
        assert forecaster.certificate <= forecaster.promise(rounds)


@pytest.mark.parametrize("slack", [0.5, 0.8, 3.0])
def test_the_guarantee_is_the_theorems_number_for_the_grids_as_they_are(slack):
    forecaster = AlmostOneStepAhead(grid="nested", slack=slack)
    grids = plain_grids(9)
    for memory_stage, grid in enumerate(grids, start=1):
        assert [Fraction(int(x), GRAIN) for x in nested_points(memory_stage)] == grid
    kept = Fraction(math.floor(Fraction(slack) * GRAIN), GRAIN)
    ends = [math.floor(kept * rounds) for rounds in (4, 42, 222, 800, 4865)]
    ends += [ends[-1] * 4**k for k in range(1, 5)]
    for rounds in {t + shift for t in [1, 50, *ends[:8]] for shift in (0, 1)}:
        found = float(plain_bound(grids, ends, rounds, Fraction(slack)))
        assert forecaster.promise(rounds) == pytest.approx(found, rel=1e-12)
        late = float(plain_bound(grids, ends, rounds, Fraction(slack), 3))
        # corners and turns are rounded up, by a unit for each point of each grid at most
        assert late * (1 - 1e-12) <= forecaster._promise_for(forecaster.memory, rounds, 3)
        assert forecaster._promise_for(forecaster.memory, rounds, 3) <= late + 1e-4


def test_the_guarantee_is_below_sqrt_3t_at_all_times_and_soon_below_13_tenths_of_sqrt_t():
    forecaster = AlmostOneStepAhead(grid="nested")
    for t in [*range(1, 3000), *np.geomspace(3000, 1e11, 3000).astype(np.int64).tolist()]:
        assert forecaster.promise(t) <= math.sqrt(3 * t)
        if t > 2432:
            assert forecaster.promise(t) <= 1.3 * math.sqrt(t) + math.log2(t) / 8 + 3
    # each grid's points per round cost: 1/4 would be the least
    prices = [max(exact_prices(grid)[0]) * (len(grid) - 1) for grid in plain_grids(7)]
    assert [round(float(price), 3) for price in prices] == [1.0, 0.606, 0.515, 0.426, 0.281, 0.281, 0.281]


@settings(max_examples=examples(60), deadline=None)
@given(sequences(3000), st.sampled_from([0.5, 0.75, 2.0]))
def test_compiled_code_the_interpreter_the_reference_tokens_and_pickles_agree(outcomes, slack):
    made = [AlmostOneStepAhead(grid="nested", slack=slack) for _ in range(3)]
    forecasts, memory = play_in_the_interpreter(made[0], outcomes, np.full(len(outcomes), -1.0))
    assert made[1].replay(outcomes).tolist() == forecasts
    assert made[1].memory[: made[1].memory[END]].tolist() == memory
    ends = [int(slack * rounds) for rounds in (4, 42, 222, 800, 4865)]
    twin = Plain(plain_grids(5), ends, Fraction(slack))
    for place, (y, p) in enumerate(zip(outcomes.tolist(), forecasts, strict=True)):
        assert made[2].predict_proba_one({})[True] == p == float(twin.forecast())
        if place % 7 == 0:
            made[2] = pickle.loads(pickle.dumps(made[2]))
        made[2].learn_one({}, y)
        twin.learn(y)
        assert made[2].certificate <= made[2].guarantee
    assert made[2].memory[: made[2].memory[END]].tolist() == memory
    assert twin.certificate == Fraction(made[2].certificate)


def test_forecasts_that_stay_open_over_every_halving_are_charged_to_their_own_cell():
    rng = np.random.default_rng(1)
    forecaster, waiting = AlmostOneStepAhead(grid="nested"), []
    for t in range(3000):
        if t in (0, 1, 3, 30, 150, 500, 2500):
            waiting.append(forecaster.forecast())
        forecaster.observe(forecaster.forecast(), int(rng.random() < 0.3))
    assert len({token.cell[1] for token in waiting}) >= 5
    for token in pickle.loads(pickle.dumps((forecaster, waiting)))[1]:
        assert token.upper - token.lower > 0
    for y, token in zip((1, 0, 1, 0, 1, 0, 1), waiting, strict=True):
        place = forecaster.look_ahead.points.tolist().index(token.upper if y else token.lower)
        before = forecaster.look_ahead.biases[place]
        forecaster.observe(token, y)
        changed = forecaster.look_ahead.biases[place] - before
        assert changed == pytest.approx((token.upper if y else token.lower) - y)
    assert forecaster.certificate <= forecaster.guarantee


@pytest.mark.parametrize("stage", [1, 2, 3, 4])
def test_rounds_before_the_first_share_on_its_grid_are_paid_at_lambda_of_that_grid(stage):
    forecaster = AlmostOneStepAhead(grid="nested", slack=3.0)
    ends = [3 * rounds for rounds in (4, 42, 222, 800)]
    forecaster.replay(np.arange(ends[stage - 1] - 2) % 2)
    forecaster.observe(forecaster.forecast(), 0.3)
    assert forecaster.memory[SHARED] == forecaster.memory[STAGE] == stage
    promised = [forecaster.promise(t) for t in range(ends[stage - 1] - 3, ends[stage - 1])]
    least = float(max(exact_prices(plain_grids(stage)[-1])[0]))
    assert (np.diff(promised) >= least).all()
    assert forecaster.certificate <= forecaster.guarantee


def test_with_shares_from_the_beginning_it_is_still_of_order_root_t():
    forecaster = AlmostOneStepAhead(grid="nested")
    forecaster.replay(np.random.default_rng(0).random(10**5))
    assert forecaster.certificate <= forecaster.guarantee <= math.sqrt(3 * 10**5)
    forecaster = AlmostOneStepAhead(grid="nested")
    forecaster.replay([0.01] * 10**5)
    assert forecaster.certificate <= forecaster.guarantee
    later = AlmostOneStepAhead(grid="nested")
    later.replay(np.random.default_rng(0).random(10**4) < 0.4)
    later.replay(np.random.default_rng(1).random(10**5))
    assert later.certificate <= later.guarantee <= math.sqrt(3.3 * 10**5)


@pytest.mark.parametrize(
    ("place", "change"),
    [(STAGE, 1), (STAGE, 60), (LIMIT, 1), (RATE, 5), (STEP, 1), (TABLE + 4, 1), (SHARED, 3), (SHARED, -9)],
)
@pytest.mark.parametrize("shares", [False, True])
def test_a_memory_that_no_run_leads_to_is_refused(place, change, shares):
    forecaster = AlmostOneStepAhead(grid="nested")
    forecaster.replay(np.random.default_rng(0).random(100) < 0.4)
    forecaster.observe(forecaster.forecast(), 0.3 if shares else 1)
    forecaster.replay(np.random.default_rng(0).random(400) < 0.4)
    assert pickle.loads(pickle.dumps(forecaster)).guarantee == forecaster.guarantee
    state = forecaster.__getstate__()
    state["memory"] = state["memory"].copy()
    state["memory"][place] += change
    with pytest.raises(ValueError, match="cannot be that of any run"):
        AlmostOneStepAhead.__new__(AlmostOneStepAhead).__setstate__(state)


def cells_of(points, every=1):
    return [(low, high - low) for low, high in pairwise(points[::every].tolist())]


@pytest.mark.parametrize("settings", [{"horizon": 400, "grid": "graded"}, {"grid": "nested"}], ids=str)
def test_a_cell_that_waits_has_ends_that_are_neighbours_or_once_were(settings):
    forecaster = AlmostOneStepAhead(**settings)
    forecaster.replay(np.random.default_rng(0).random(150) < 0.4)
    points = forecaster.memory[TABLE : forecaster.memory[END] : 2]
    nested = settings["grid"] == "nested"
    real = set(cells_of(points)).union(*(cells_of(points, 2**k) for k in range(4) if nested))
    for low in points.tolist():
        for high in points[points > low].tolist():
            cell = (low, high - low)
            if cell in real:
                check_cells([(cell, 0.5)], forecaster.memory)
            else:
                with pytest.raises(ValueError, match="cannot be that of any run"):
                    check_cells([(cell, 0.5)], forecaster.memory)
    for cell in ((int(points[1]) + 1, int(points[2] - points[1])), (int(points[1]), 1)):
        with pytest.raises(ValueError, match="cannot be that of any run"):
            check_cells([(cell, 0.5)], forecaster.memory)
    # once cells were split for shares, cells of before may wait, but none around 1/2
    forecaster.observe(forecaster.forecast(), 0.3)
    for cell in real:
        check_cells([(cell, 0.5)], forecaster.memory)
    with pytest.raises(ValueError, match="cannot be that of any run"):
        check_cells([((int(points[1]), int(points[-2] - points[1])), 0.5)], forecaster.memory)


def test_the_last_grid_stays():
    memory = fixed.nested_memory(0.5, LAST_STAGE)
    assert memory[LIMIT] > 1 << 60
    points = nested_points(LAST_STAGE)
    assert (np.diff(points) > 0).all()
    assert len(points) == (1 << LAST_STAGE) + 1
    assert memory[SCALE] == GRAIN
    assert memory[HIGH] == GRAIN // 2
    assert memory[ROUNDS] == 0


ATTACKS = [
    "certificate-greedy",
    "certificate-greedy:depth=2",
    "bias-builder",
    "boundary-hugger",
    "threshold-sweep",
    "graded-lifter",
    "two-phase:first=[certificate-greedy],second=[bias-builder]",
    "mixture:first=[certificate-greedy],second=[coin:bias=0.3]",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("rounds", [10**4, pytest.param(10**6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("grid", ["graded", "nested"])
def test_no_attack_passes_the_guarantee(grid, attack, rounds):
    forecaster = AlmostOneStepAhead(horizon=rounds if grid == "graded" else None, grid=grid)
    play(forecaster, create(attack, rounds, seed=1), rounds)
    assert forecaster.n_rounds == rounds
    assert 0 < forecaster.certificate <= forecaster.guarantee
    assert forecaster.guarantee <= (0.75 if grid == "graded" else 1.4) * math.sqrt(rounds)
