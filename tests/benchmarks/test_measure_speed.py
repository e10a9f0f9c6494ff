"""The measures at size: times and widths of brackets, the smooth error; brackets of several classes."""

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, adversaries, calibration_distance, smooth_calibration_error
from onlinecal.measures import multiclass_calibration_distance
from onlinecal.simulations.games.duel import play
from onlinecal.simulations.games.players import create_player
from onlinecal.simulations.sweeps.plan import find_plan, read_plan
from tests.benchmarks.conftest import sort_million, timed


def history(kind, rounds):
    rng = np.random.default_rng(0)
    if kind.startswith("distinct"):
        forecasts = rng.random(rounds)
        power = 1 if kind.endswith("p") else 2
        return forecasts, (rng.random(rounds) < forecasts**power).astype(np.uint8), None
    duel = play(AlmostOneStepAhead(horizon=rounds), adversaries.create(kind, horizon=rounds), rounds)
    return duel.forecasts, duel.outcomes, duel.charged


@pytest.mark.parametrize(
    ("kind", "rounds", "method", "width", "at_most", "budget"),
    [
        *(
            (kind, rounds, "exact", 0.0, at_most, 1.0)
            for kind, *bounds in (("coin", 12, 22), ("linear-drift", 12, 40), ("distinct, y ~ p", 40, 95))
            for rounds, at_most in zip((1000, 3000), bounds, strict=True)
        ),
        *((kind, 10**6, "bracket", 20.0, 26, 3.0) for kind in read_plan(find_plan("demo")).adversaries),
        ("distinct, y ~ p^2", 10**5, "bracket", 200.0, 1, 1.0),
    ],
)
def test_distances_take_so_many_sorts_and_are_so_wide(compare, kind, rounds, method, width, at_most, budget):
    calibration_distance(*history(kind, min(rounds, 10**4) // 5)[:2], method=method)
    forecasts, outcomes, charged = history(kind, rounds)

    def measured():
        found = calibration_distance(forecasts, outcomes, look_ahead=charged, method=method, budget=budget)
        assert found.upper - found.lower <= width

    compare(measured, sort_million, at_most, rounds=1)


def test_smooth_error_of_a_million_forecasts(compare):
    forecasts, outcomes, _ = history("distinct, y ~ p^2", 10**6)
    smooth_calibration_error(forecasts[:100], outcomes[:100])
    compare(lambda: smooth_calibration_error(forecasts, outcomes), sort_million, 4.3)


KINDS = ("weights", "dirichlet-drift", "target-sweep", "categorical-forecast", "least-likely")


@pytest.mark.parametrize("rounds", [1000, 10_000, 100_000])
@pytest.mark.parametrize("k", [3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_bracket_of_a_game(note, kind, k, rounds):
    for length in (200, rounds):
        forecaster = create_player("simplex").build(length, n_classes=k)
        duel = play(forecaster, adversaries.create_multiclass(kind, k, length, seed=0), length)
        spent, found = timed(
            lambda duel=duel: multiclass_calibration_distance(
                duel.forecasts, duel.outcomes, look_ahead=duel.charged
            )
        )
    ratio = found.upper / found.lower
    ends = f"{found.lower:9.1f} … {found.upper:9.1f}   ratio {ratio:.3f}"
    note(f"{kind:21s} {k} classes, T = {rounds:7d}   {ends}   {spent:6.1f} s")
    assert ratio <= 1.5
