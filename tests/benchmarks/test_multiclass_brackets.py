"""The bracket of the distance for several classes, in games of `simplex`: how wide, and what a call costs."""

from __future__ import annotations

import time

import pytest

import adversaries
from onlinecal.measures import multiclass_calibration_distance
from simulations.games.multiclass import create_player, play_multiclass

KINDS = ("weights", "dirichlet-drift", "target-sweep", "categorical-forecast", "least-likely")


def bracket(kind, k, rounds):
    forecaster = create_player("simplex").build(k, rounds)
    duel = play_multiclass(forecaster, adversaries.create_multiclass(kind, k, rounds, 0), rounds)
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
