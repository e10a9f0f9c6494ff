"""The papers' algorithms in plain Python: what is proved of them, and the forecasters that play the same."""

from __future__ import annotations

import ast
import inspect
import math
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import (
    AlmostOneStepAhead,
    OneStepAhead,
    SimplexAlmostOneStepAhead,
    calibration_distance,
    lp_calibration_error,
    reference,
)
from onlinecal.recalibration.lp.statistics import lp_sample_complexity
from onlinecal.reference import (
    SimplexForecaster,
    almost_one_step_ahead,
    balanced,
    biases,
    hard,
    hard_decision_calibration,
    multiclass_calibration,
    one_step_ahead,
    predictions,
    replayed,
    residuals,
    soft,
    soft_decision_calibration,
    worst_of,
)
from tests import ROOT
from tests.properties import examples
from tests.recalibration.lp.source import source


@st.composite
def games(draw):
    """A number of cells, and outcomes in runs and by coins of any bias."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rounds, chance = draw(st.integers(1, 300)), draw(st.sampled_from([0.02, 0.3, 0.5, 0.9]))
    coins, turns = rng.random(rounds) < chance, rng.random(rounds) < draw(st.sampled_from([0.0, 0.02, 0.5]))
    return draw(st.integers(1, 40)), (coins ^ (np.cumsum(turns) % 2 == 1)).astype(int).tolist()


@settings(max_examples=examples(140), deadline=None)
@given(games())
def test_algorithm_1_is_the_forecaster_with_the_rule_and_the_report_of_the_paper(game):
    m, outcomes = game
    forecaster = AlmostOneStepAhead(n_cells=m, rule="sign", report="lower")
    forecasts, look_ahead = forecaster.replay(outcomes, return_look_ahead=True)
    assert predictions(almost_one_step_ahead(m), outcomes) == forecasts.tolist()
    assert list(one_step_ahead(m, outcomes)) == look_ahead.tolist()
    assert list(one_step_ahead(m, outcomes)) == OneStepAhead(n_cells=m, rule="sign").replay(outcomes).tolist()


@settings(max_examples=examples(100), deadline=None)
@given(games(), st.sampled_from([0.5, 0.75, 1.0, 2.3]))
def test_the_balanced_rule_is_the_forecasters_own(game, slack):
    m, outcomes = game
    forecasts = AlmostOneStepAhead(n_cells=m, slack=slack).replay(outcomes)
    assert predictions(balanced(m, slack), outcomes) == forecasts.tolist()


@pytest.mark.parametrize(("k", "m"), [(2, 7), (3, 8), (5, 3), (8, 4)])
def test_the_simplex_is_the_forecaster_of_several_classes(k, m):
    rng = np.random.default_rng(m)
    chances = rng.dirichlet(np.ones(k), 4)
    outcomes = [int(rng.choice(k, p=chances[t // 50])) for t in range(200)]
    forecasts = SimplexAlmostOneStepAhead(k, n_cells=m, report="barycentre").replay(outcomes)
    assert predictions(SimplexForecaster(k, m).game(), outcomes) == forecasts.tolist()


@pytest.mark.parametrize("p", [1.5, 2, math.inf])
def test_the_l_p_error_that_multiclass_calibration_leaves_is_at_most_epsilon(p):
    rng, epsilon = np.random.default_rng(3), 0.1
    table, labels = np.repeat(rng.dirichlet(np.ones(3), 12), 30, axis=0), rng.integers(0, 2, 360)
    n_levels = lp_sample_complexity(p, epsilon, 0.05, 3).n_levels
    calibrated = multiclass_calibration(table.tolist(), labels.tolist(), p, epsilon)
    mapped = np.array([calibrated.h(row) for row in table.tolist()], float)
    assert lp_calibration_error(mapped, labels, p, n_bins=n_levels) <= epsilon
    assert calibrated.steps


def test_decision_calibration_by_brute_force_ends_at_epsilon_and_each_round_lowers_the_squared_error():
    promised, labels = source(200, 3)
    rng, epsilon, table = np.random.default_rng(0), 0.05, promised.tolist()
    for shape, calibration in ((hard, hard_decision_calibration), (soft, soft_decision_calibration)):
        search = worst_of([shape(w) for w in (5 * rng.standard_normal((15, 2, 3))).tolist()])
        calibrated = calibration(table, labels.tolist(), search, epsilon)
        squares, stage = [], table
        for n_rounds in range(len(calibrated.rounds) + 1):
            stage = [replayed(row, calibrated.rounds[:n_rounds]) for row in table]
            squares.append(((np.array(stage) - np.eye(3)[labels]) ** 2).sum(axis=1).mean())
        assert np.diff(squares).max() <= -(epsilon**2) / 2
        assert stage == [calibrated.predict(row) for row in table]
        wrong = residuals(stage, labels.tolist())
        worst = search(stage, wrong)
        assert sum(math.hypot(*R) for R in biases([worst(q) for q in stage], wrong)) <= epsilon


@pytest.mark.parametrize("m", [1, 2, 3])
def test_on_all_short_sequences_the_bounds_of_the_papers_hold(m):
    rounds = 8
    for outcomes in product((0, 1), repeat=rounds):
        look_ahead = list(one_step_ahead(m, outcomes))
        pairs = list(zip(look_ahead, outcomes, strict=True))
        biases = {point: sum(p - y for p, y in pairs if p == point) for point in look_ahead}
        assert all(abs(bias) <= 1 + 1e-12 for bias in biases.values())
        for forecaster, bound in (
            (almost_one_step_ahead(m), rounds / m + m + 1),
            (balanced(m), rounds / (2 * m) + (m - 1) / 2),
        ):
            forecasts = predictions(forecaster, outcomes)
            assert calibration_distance(forecasts, outcomes).lower <= bound + 1e-9


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (lambda: next(almost_one_step_ahead(0)), "m must be a whole number of at least 1, got 0"),
        (lambda: next(one_step_ahead(2.5, [1])), "m must be a whole number of at least 1, got 2.5"),
        (lambda: next(balanced(3, Fraction(1, 3))), "slack must be at least 1/2, got 1/3"),
        (lambda: predictions(balanced(3), [0, 0.5]), "outcome must be 0, 1, False or True, got 0.5"),
        (lambda: list(one_step_ahead(3, [0, None])), "outcome must be 0, 1, False or True, got None"),
        (lambda: SimplexForecaster(0, 3), "k must be a whole number of at least 1, got 0"),
        (lambda: SimplexForecaster(3, 3).observe(3), "outcome must be at most 2, got 3"),
        (lambda: next(balanced(3, 0.3)), "slack must be at least 1/2, got 0.3"),
        (lambda: next(balanced(3, math.inf)), "slack must be a finite number, got inf"),
        (lambda: hard_decision_calibration([[1, 0]], [0], max, 0), "epsilon must be a positive"),
        (lambda: worst_of([]), "partitions must be at least one, got none"),
        (lambda: multiclass_calibration([[1, 0]], [2]), "labels at row 0 must be at most 1, got 2"),
        (lambda: multiclass_calibration([[1, 0]], [0, 1]), "for each row of table, got 2 labels for 1 rows"),
        (lambda: multiclass_calibration([], []), "table must have at least one row, got none"),
        (
            lambda: multiclass_calibration([[1, None]], [0]),
            "class 1 in row 0 of table must be a finite",
        ),
        (
            lambda: multiclass_calibration([[1, 0]], [0], tolerance="a"),
            "tolerance must be a finite number, got",
        ),
        (lambda: multiclass_calibration([[1, 0], [1]], [0, 0]), r"row 1 of table must be .* got \[1.0\]"),
        (lambda: multiclass_calibration([[0.5, 0.6]], [0]), r"row 0 of table .* sum 1, got \[0.5, 0.6\]"),
        (lambda: multiclass_calibration([[1, 0]], [0], p=1), "p must be a number above 1, or inf, got 1"),
        (lambda: multiclass_calibration([[1, 0]], [0], tolerance=0), "tolerance must be .* 0 and 1, got 0"),
    ],
)
def test_what_is_no_grid_and_no_outcome_is_refused(start, message):
    with pytest.raises(ValueError, match=message):
        start()


def test_the_theory_begins_with_algorithm_1_and_the_tutorial_has_its_lines():
    source = inspect.getsource(almost_one_step_ahead)
    theory = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    imports = (
        "from collections.abc import Generator\nfrom onlinecal.validation import check_count, outcome_of"
    )
    assert f"```python\n{imports}\n\n\n{source}```" in theory[: theory.index("## 1. ")]
    (shown,) = re.findall(
        r"^def almost_one_step_ahead.*?^```",
        (ROOT / "docs/tutorials/paper.md").read_text(encoding="utf-8"),
        re.M | re.S,
    )
    assert steps(shown.removesuffix("```")) == steps(source)


def steps(source: str) -> list[str]:
    """The statements of Algorithm 1: without its docstring, and without checks of what comes in."""
    (function,) = ast.parse(source).body
    lines = [ast.unparse(one) for one in function.body if not isinstance(one, ast.Expr)]
    text = "\n".join(lines).replace("m = check_count(m, 'm')\n", "")
    return text.replace("outcome_of((yield (i / m)))", "(yield (i / m))").splitlines()


def test_it_is_reached_from_the_package_and_imports_no_arrays():
    assert sorted(reference.__all__) == reference.__all__
    with open(reference.__file__, encoding="utf-8") as source:
        assert "numpy" not in source.read()
