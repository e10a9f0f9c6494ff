"""The measures at size: times and widths of brackets, the smooth error; brackets of several classes."""

from __future__ import annotations

import time

import numpy as np
import pytest

import adversaries
from onlinecal import AlmostOneStepAhead, calibration_distance, smooth_calibration_error
from onlinecal.measures import multiclass_calibration_distance
from simulations.games.duel import play
from simulations.games.several import create_player
from simulations.sweeps.results import find_config, read_config


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


def line(name, seconds, target, width=None):
    shown = "" if width is None else f"   width {width:.4f}"
    return f"{name:75s} {seconds:9.4f} s{shown}   target {target}"


def measured(kind, rounds, **options):
    forecasts, outcomes, charged = history(kind, rounds)
    start = time.perf_counter()
    found = calibration_distance(forecasts, outcomes, look_ahead=charged, **options)
    return found, time.perf_counter() - start


@pytest.mark.parametrize("kind", ["coin", "linear-drift", "uniform forecasts"])
@pytest.mark.parametrize(("rounds", "target"), [(1000, "10 s"), (3000, "120 s")])
def test_exact_distance(note, kind, rounds, target):
    measured(kind, 200, method="exact")
    found, seconds = measured(kind, rounds, method="exact")
    assert found.exact is not None
    note(line(f"exact, {kind}, T = {rounds}", seconds, target))


@pytest.mark.parametrize("kind", read_config(find_config("demo")).adversaries)
def test_bracket_of_a_million_rounds_on_a_grid(note, kind):
    measured(kind, 10**4, method="bracket")
    found, seconds = measured(kind, 10**6, method="bracket", budget=3.0)
    width = (found.upper - found.lower) / 1000
    note(line(f"bracket / sqrt T, {kind}, T = 10^6", seconds, "5 s, 0.02", width))


def test_bracket_of_distinct_forecasts(note):
    found, seconds = measured("distinct, y ~ p^2", 10**5, method="bracket")
    note(line("bracket / upper, distinct, T = 10^5", seconds, "15 s, 0.03", 1 - found.lower / found.upper))


def test_smooth_error_of_a_million_forecasts(note):
    rng = np.random.default_rng(1)
    forecasts = rng.random(10**6)
    outcomes = (rng.random(10**6) < forecasts**2).astype(np.uint8)
    start = time.perf_counter()
    smooth_calibration_error(forecasts, outcomes)
    note(line("smooth error, n = 10^6", time.perf_counter() - start, "1.5 s"))


KINDS = ("weights", "dirichlet-drift", "target-sweep", "categorical-forecast", "least-likely")


def bracket(kind, k, rounds):
    forecaster = create_player("simplex").build(k, rounds)
    duel = play(forecaster, adversaries.create_multiclass(kind, k, rounds, 0), rounds)
    start = time.process_time()
    found = multiclass_calibration_distance(duel.forecasts, duel.outcomes, look_ahead=duel.charged)
    return found, time.process_time() - start


@pytest.mark.parametrize("rounds", [1000, 10_000, 100_000])
@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_bracket_of_a_game(note, kind, k, rounds):
    bracket(kind, k, 200)
    found, seconds = bracket(kind, k, rounds)
    ratio = found.upper / found.lower
    ends = f"{found.lower:9.1f} … {found.upper:9.1f}   ratio {ratio:.3f}   target 1.5"
    note(f"{kind:21s} {k} classes, T = {rounds:7d}   {ends}   {seconds:6.1f} s")
