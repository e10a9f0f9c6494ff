"""Graded grids without a horizon: Theorem 11a of docs/theory.md, by references in plain fractions."""

import math
import pickle
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary import nested
from onlinecal.forecasters.binary.cells import END, STEP, TABLE
from onlinecal.forecasters.binary.full_table import SHARED
from onlinecal.forecasters.binary.graded import GRADED_SCALE, graded_points
from onlinecal.forecasters.binary.nested import LAST_STAGE, LIMIT, STAGE, nested_points
from onlinecal.forecasters.binary.soundness import check_cells
from tests.forecasters.binary.test_graded import all_games, exact_prices
from tests.forecasters.binary.test_machines import play_in_the_interpreter
from tests.forecasters.configurations import sequences
from tests.properties import examples

HALF = Fraction(1, 2)


def plain_grids(number):
    """The first so many grids: every so many points of the graded grid of 32 cells, then its cells halved."""
    base = [Fraction(int(x), GRADED_SCALE) for x in graded_points(16)]
    grids = [base[::stride] for stride in (16, 8, 4, 2, 1)]
    while len(grids) < number:
        last = grids[-1]
        middles = [Fraction(math.floor((a + b) / 2 * GRADED_SCALE), GRADED_SCALE) for a, b in pairwise(last)]
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

    def learn(self, y):
        v = self.grid[self.cell + y]
        self.moved += abs(self.forecast() - v)
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


@pytest.mark.parametrize("slack", [0.5, 0.8, 3.0])
def test_the_guarantee_is_the_theorems_number_for_the_grids_as_they_are(slack):
    forecaster = AlmostOneStepAhead(grid="nested", slack=slack)
    grids = plain_grids(9)
    for memory_stage, grid in enumerate(grids, start=1):
        assert [Fraction(int(x), GRADED_SCALE) for x in nested_points(memory_stage)] == grid
    kept = Fraction(math.floor(Fraction(slack) * GRADED_SCALE), GRADED_SCALE)
    ends = [math.floor(kept * rounds) for rounds in (4, 42, 222, 800, 4865)]
    ends += [ends[-1] * 4**k for k in range(1, 5)]
    for rounds in {t + shift for t in [1, 50, *ends[:8]] for shift in (0, 1)}:
        found = float(plain_bound(grids, ends, rounds, Fraction(slack)))
        assert forecaster._promise(rounds) == pytest.approx(found, rel=1e-12)
        late = float(plain_bound(grids, ends, rounds, Fraction(slack), 3))
        # corners and turns are rounded up, by a unit for each point of each grid at most
        behind = AlmostOneStepAhead(grid="nested", slack=slack)
        behind._note_late(3)
        assert late * (1 - 1e-12) <= behind._promise(rounds) <= late + 1e-4


@settings(max_examples=examples(40), deadline=None)
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
    promised = [forecaster._promise(t) for t in range(ends[stage - 1] - 3, ends[stage - 1])]
    least = float(max(exact_prices(plain_grids(stage)[-1])[0]))
    assert (np.diff(promised) >= least).all()
    assert forecaster.certificate <= forecaster.guarantee


@pytest.mark.parametrize(
    ("settings", "factor"), [({"grid": "nested"}, 3.3), ({"horizon": 110_000}, 1.6)], ids=str
)
@pytest.mark.parametrize("before", [0, 10**4])
@pytest.mark.parametrize("share", [None, 0.01])
def test_with_shares_it_is_still_of_order_root_t(settings, factor, before, share):
    """A share on the upper end of a cell again and again, which no bias notices, costs half a cell."""
    rng, forecaster = np.random.default_rng(0), AlmostOneStepAhead(**settings)
    shares = rng.random(10**5) if share is None else np.full(10**5, share)
    for part in (rng.random(before) < 0.4, shares):
        if len(part):
            forecaster.replay(part)
    assert forecaster.certificate <= forecaster.guarantee <= math.sqrt(factor * 10**5)


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (STAGE, 1),
        (STAGE, 60),
        (LIMIT, 1),
        (LIMIT + 1, 5),
        (STEP, 1),
        (TABLE + 4, 1),
        (SHARED, 3),
        (SHARED, -9),
    ],
)
@pytest.mark.parametrize("share", [1, 0.3])
def test_a_memory_that_no_run_leads_to_is_refused(place, change, share):
    forecaster = AlmostOneStepAhead(grid="nested")
    forecaster.replay(np.random.default_rng(0).random(100) < 0.4)
    forecaster.observe(forecaster.forecast(), share)
    forecaster.replay(np.random.default_rng(0).random(400) < 0.4)
    assert pickle.loads(pickle.dumps(forecaster)).guarantee == forecaster.guarantee
    forecaster.memory[place] += change
    with pytest.raises(ValueError, match="cannot be that of any run"):
        pickle.loads(pickle.dumps(forecaster))


@pytest.mark.parametrize("settings", [{"horizon": 400, "grid": "graded"}, {"grid": "nested"}])
def test_a_cell_that_waits_has_ends_that_are_points(settings):
    forecaster = AlmostOneStepAhead(**settings)
    forecaster.replay(np.random.default_rng(0).random(150) < 0.4)
    points = forecaster.memory[TABLE : forecaster.memory[END] : 2].tolist()

    def is_refused(low, high):
        try:
            check_cells([((low, high - low), 0.5)], forecaster.memory)
        except ValueError as error:
            return "cannot be that of any run" in str(error)

    # once cells were split for shares, cells of before may wait
    for _ in range(2):
        assert not any(is_refused(*pair) for pair in pairwise(points))
        assert is_refused(points[1] + 1, points[2] + 1)
        assert is_refused(points[1], points[1] + 1)
        assert is_refused(points[2], points[1])
        assert is_refused(points[-2], 2 * points[-1])
        forecaster.observe(forecaster.forecast(), 0.3)


def test_the_last_grid_stays():
    assert nested.new_memory(0.5, LAST_STAGE)[LIMIT] > 1 << 60
    points = nested_points(LAST_STAGE)
    assert (np.diff(points) > 0).all()
    assert len(points) == (1 << LAST_STAGE) + 1
