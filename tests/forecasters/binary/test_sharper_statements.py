"""The sharper halves of docs/theory.md: the sign rule's biases, late labels, and what coins leave behind."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.dyadic import BASE, DYADIC_SCALE, FINE_BITS, ORPHANED, SAVED
from onlinecal.forecasters.binary.guarantees import Biases
from tests.properties import examples

SIGN = Biases(0.0, 1)
HORIZONS = [*range(1, 200), *np.unique(np.geomspace(200, 1e12, 200).astype(np.int64)).tolist()]


@pytest.mark.parametrize("m", [*range(1, 60), 10**3, 10**3 + 1])
def test_the_sum_of_the_sign_rules_bounds_is_what_the_formula_says(m):
    exact = sum(max(Fraction(j, m), 1 - Fraction(j, m)) for j in range(1, m))
    assert SIGN.total(m) == pytest.approx(float(exact), rel=1e-15)
    assert Biases(0.5, 0).total(m, late=3) == pytest.approx(0.5 * (m - 1) + 3 * float(exact), rel=1e-15)


@pytest.mark.parametrize(("report", "reach"), [("midpoint", 0.5), ("lower", 1.0)])
def test_the_sign_rule_on_the_papers_grid_and_on_the_best(report, reach):
    for horizon in HORIZONS:
        papers = AlmostOneStepAhead(horizon=horizon, rule="sign", report=report)
        if papers.memory[1] < 10**6:
            assert papers.memory[1] == math.isqrt(math.ceil(reach * horizon) - 1) + 1
        assert papers.guarantee <= (1.75 * math.sqrt(reach * horizon) - 0.5) * (1 + 2**-48)
        m = math.ceil(math.sqrt(4 * reach * horizon / 3))
        best = AlmostOneStepAhead(n_cells=m, rule="sign", report=report)
        assert best._promise(horizon) <= (math.sqrt(3 * reach * horizon) - 0.5) * (1 + 2**-48)
        # and nothing is given away: the constants cannot be smaller
        if horizon > 10**6:
            assert papers.guarantee >= 1.749 * math.sqrt(reach * horizon) - 1
            assert best._promise(horizon) >= 0.999 * math.sqrt(3 * reach * horizon) - 1


@pytest.mark.parametrize("grid", ["nested", "adaptive"])
@pytest.mark.parametrize(("report", "reach"), [("midpoint", 0.5), ("upper", 1.0)])
def test_the_sign_rule_without_a_horizon(grid, report, reach):
    forecaster = AlmostOneStepAhead(grid=grid, rule="sign", report=report)
    factor = 7 * math.sqrt(3) / 4
    doublings = [int(4 / 3 * 4**k / reach) + shift for k in range(17) for shift in (0, 1, 2)]
    for t in [*HORIZONS, *doublings]:
        if (grid, report, t) != ("adaptive", "midpoint", 1):
            assert forecaster._promise(t) <= factor * math.sqrt(reach * t)
    # just after a doubling the constant is needed
    after = int(4 / 3 * 4**16 / reach) + 1
    assert forecaster._promise(after) >= 0.999 * factor * math.sqrt(reach * after)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.2, 0.7]))
@example(11, 0, 0.0)
@pytest.mark.parametrize("report", ["midpoint", "hint"])
def test_the_account_of_the_self_tuning_grid_with_late_labels(report, most_open, seed, withdrawn):
    """O <= S + (5/3) c + D h_m + (D + 1)(1 + d), the account itself and not only what follows from it.

    D h_m is what late labels may leave at base points above c, which O counts, too.
    """
    rng = np.random.default_rng(seed)
    forecaster = AlmostOneStepAhead(report=report, slack=0.5, hints=report == "hint")
    reach, waiting, late = 0.5 if report == "midpoint" else 1.0, [], 0
    for _ in range(600):
        late = max(late, forecaster.n_open)
        waiting.append(forecaster.forecast(rng.random() if report == "hint" else None))
        while len(waiting) >= rng.integers(1, most_open + 1):
            token = waiting.pop(rng.integers(len(waiting)))
            if rng.random() < withdrawn:
                forecaster.withdraw(token)
                continue
            forecaster.observe(token, int(token.probability < 0.5 + 0.3 * rng.normal()))
            memory = forecaster.memory
            # SAVED begins with the allowance of (5/3) c
            saved = int(memory[SAVED]) / (DYADIC_SCALE << (FINE_BITS + 1))
            inside = np.arange(int(memory[BASE]), DYADIC_SCALE, int(memory[BASE])) / DYADIC_SCALE
            lateness = late * np.maximum(inside, 1 - inside).sum() + (late + 1) * (1 + reach)
            assert int(memory[ORPHANED]) / DYADIC_SCALE <= saved + lateness
            assert forecaster.certificate <= forecaster._promise(forecaster.n_rounds)


@given(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), min_size=1, max_size=40), st.integers(0, 99))
@settings(deadline=None, max_examples=examples(100))
def test_the_self_tuning_grid_keeps_at_most_three_sqrt_two_sqrt_t_points(blocks, seed):
    rng, forecaster, rounds = np.random.default_rng(seed), AlmostOneStepAhead(), 0
    for length, bias in blocks:
        forecaster.replay(rng.random(length) < bias)
        rounds += length
        assert len(forecaster.look_ahead.points) - 2 <= 3 * math.sqrt(2 * rounds)
