"""The measures at size: times and widths of brackets, the smooth error against a general solver."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import adversaries
from onlinecal import AlmostOneStepAhead, calibration_distance, smooth_calibration_error
from simulations.games.duel import play
from simulations.sweeps.config import find_config, read_config
from tests.benchmarks.closing_table import LINES


def history(kind, rounds):
    rng = np.random.default_rng(0)
    if kind == "uniform forecasts":
        forecasts = rng.random(rounds)
        return forecasts, (rng.random(rounds) < forecasts).astype(np.uint8), None
    if kind == "distinct, y ~ p^2":
        forecasts = rng.random(rounds)
        return forecasts, (rng.random(rounds) < forecasts**2).astype(np.uint8), None
    duel = play(AlmostOneStepAhead(horizon=rounds), adversaries.create(kind, horizon=rounds), rounds)
    return duel.forecasts, duel.outcomes, duel.charged


def note(name, seconds, target, width=None):
    shown = "" if width is None else f"   width {width:.4f}"
    LINES.append(f"{name:75s} {seconds:9.4f} s{shown}   target {target}")


def measured(kind, rounds, **options):
    forecasts, outcomes, charged = history(kind, rounds)
    start = time.perf_counter()
    found = calibration_distance(forecasts, outcomes, look_ahead=charged, **options)
    return found, time.perf_counter() - start


@pytest.mark.parametrize("kind", ["coin", "linear-drift", "uniform forecasts"])
@pytest.mark.parametrize(("rounds", "target"), [(1000, "10 s"), (3000, "120 s")])
def test_exact_distance(kind, rounds, target):
    measured(kind, 200, method="exact")
    found, seconds = measured(kind, rounds, method="exact")
    assert found.exact is not None
    note(f"exact, {kind}, T = {rounds}", seconds, target)


@pytest.mark.parametrize("kind", read_config(find_config("demo")).adversaries)
def test_bracket_of_a_million_rounds_on_a_grid(kind):
    measured(kind, 10**4, method="bracket")
    found, seconds = measured(kind, 10**6, method="bracket", budget=3.0)
    width = (found.upper - found.lower) / 1000
    note(f"bracket / sqrt T, {kind}, T = 10^6", seconds, "5 s, 0.02", width)


@pytest.mark.parametrize("kind", ["coin", "linear-drift", "change-points"])
def test_bracket_of_ten_thousand_rounds(kind):
    found, seconds = measured(kind, 10**4, method="bracket", budget=4.0)
    note(f"bracket / upper, {kind}, T = 10^4", seconds, "5 s, 0.015", 1 - found.lower / found.upper)


def test_bracket_of_distinct_forecasts():
    found, seconds = measured("distinct, y ~ p^2", 10**5, method="bracket")
    note("bracket / upper, distinct, T = 10^5", seconds, "15 s, 0.03", 1 - found.lower / found.upper)


def smooth_error_by_linear_program(forecasts, outcomes):
    order = np.argsort(forecasts)
    p, gain = forecasts[order], (outcomes - forecasts)[order]
    n = len(p)
    steps = sp.diags([np.ones(n - 1), -np.ones(n - 1)], [0, 1], shape=(n - 1, n))
    gaps = np.diff(p)
    solved = linprog(
        -gain, sp.vstack([steps, -steps]).tocsr(), np.r_[gaps, gaps], bounds=(-1, 1), method="highs"
    )
    return -solved.fun


@pytest.mark.parametrize("power", [0, 1, 2])
def test_smooth_error_against_the_linear_program_for_outcomes_with_probability_p_to_the(compare, power):
    rng = np.random.default_rng(1)
    forecasts = rng.random(32_768)
    outcomes = (rng.random(32_768) < (forecasts**power if power else 0.5)).astype(np.uint8)
    smooth_calibration_error(forecasts[:100], outcomes[:100])
    expected = smooth_error_by_linear_program(forecasts, outcomes)
    assert smooth_calibration_error(forecasts, outcomes) == pytest.approx(expected, abs=1e-6)
    compare(
        lambda: smooth_calibration_error(forecasts, outcomes),
        lambda: smooth_error_by_linear_program(forecasts, outcomes),
        "at most 0.01",
        rounds=3,
    )


def test_smooth_error_of_a_million_forecasts():
    rng = np.random.default_rng(1)
    forecasts = rng.random(10**6)
    outcomes = (rng.random(10**6) < forecasts**2).astype(np.uint8)
    start = time.perf_counter()
    smooth_calibration_error(forecasts, outcomes)
    note("smooth error, n = 10^6", time.perf_counter() - start, "1.5 s")
