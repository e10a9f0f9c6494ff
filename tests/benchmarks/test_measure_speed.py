"""The measures at size: times and widths of brackets, the smooth error; brackets of several classes."""

import time

import numpy as np
import pytest

import adversaries
from onlinecal import AlmostOneStepAhead, calibration_distance, smooth_calibration_error
from onlinecal.measures import multiclass_calibration_distance
from simulations.games.duel import play
from simulations.games.several import create_player
from simulations.sweeps.plan import find_plan, read_plan
from tests.benchmarks.conftest import sort_million


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


@pytest.mark.parametrize("kind", ["coin", "linear-drift", "uniform forecasts"])
@pytest.mark.parametrize(("rounds", "at_most"), [(1000, 200), (3000, 2000)])
def test_exact_distance(compare, kind, rounds, at_most):
    calibration_distance(*history(kind, 200)[:2], method="exact")
    forecasts, outcomes, charged = history(kind, rounds)

    def exact():
        found = calibration_distance(forecasts, outcomes, look_ahead=charged, method="exact")
        assert found.exact is not None

    compare(exact, sort_million, at_most, rounds=1)


@pytest.mark.parametrize("kind", read_plan(find_plan("demo")).adversaries)
def test_bracket_of_a_million_rounds_on_a_grid(compare, kind):
    check_bracket(compare, kind, 10**6, 0.02 * 1000, 100, budget=3.0)


def test_bracket_of_distinct_forecasts(compare):
    check_bracket(compare, "distinct, y ~ p^2", 10**5, 200.0, 300)


def check_bracket(compare, kind, rounds, width, at_most, **options):
    """A bracket is at most so wide, and takes at most so many sorts."""
    calibration_distance(*history(kind, 10**4)[:2], method="bracket")
    forecasts, outcomes, charged = history(kind, rounds)

    def bracket():
        found = calibration_distance(forecasts, outcomes, look_ahead=charged, method="bracket", **options)
        assert found.upper - found.lower <= width

    compare(bracket, sort_million, at_most, rounds=1)


def test_smooth_error_of_a_million_forecasts(compare):
    rng = np.random.default_rng(1)
    forecasts = rng.random(10**6)
    outcomes = (rng.random(10**6) < forecasts**2).astype(np.uint8)
    smooth_calibration_error(forecasts[:100], outcomes[:100])
    compare(lambda: smooth_calibration_error(forecasts, outcomes), sort_million, 30)


KINDS = ("weights", "dirichlet-drift", "target-sweep", "categorical-forecast", "least-likely")


def bracket_of_game(kind, k, rounds):
    forecaster = create_player("simplex").build(k, rounds)
    duel = play(forecaster, adversaries.create_multiclass(kind, k, rounds, 0), rounds)
    start = time.process_time()
    found = multiclass_calibration_distance(duel.forecasts, duel.outcomes, look_ahead=duel.charged)
    return found, time.process_time() - start


@pytest.mark.parametrize("rounds", [1000, 10_000, 100_000])
@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_bracket_of_a_game(note, kind, k, rounds):
    bracket_of_game(kind, k, 200)
    found, seconds = bracket_of_game(kind, k, rounds)
    ratio = found.upper / found.lower
    ends = f"{found.lower:9.1f} … {found.upper:9.1f}   ratio {ratio:.3f}"
    note(f"{kind:21s} {k} classes, T = {rounds:7d}   {ends}   {seconds:6.1f} s")
    assert ratio <= 1.5
