"""The calibrated classifier against its model, Platt scaling and bin means: defaults, in stream order.

Averages per round. A distance counts as worse only where it exceeds 1/sqrt(T), the noise of T rounds.
"""

from __future__ import annotations

import math

import pytest

from simulations.evaluation import models, sources
from simulations.evaluation.scoring import evaluate
from tests import DATA

GAMES = DATA / "nba_games.csv"
LEARNT = [(name, model) for name in ("Phishing", "Bananas") for model in models.MODELS]
OTHERS = ("base", "Platt", "mean")


def play(source, build, model_name):
    return {
        method: evaluate(source, wrap(build()), model_name, method, budget=0.3).score
        for method, wrap in models.methods(1.0, 1).items()
    }


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    columns = "  ".join(f"{name:>10s}" for name in models.methods(1.0, 1))
    note(f"{'':33s} | Brier score{'':37s} | distance to calibration, upper end")
    note(f"{'stream':14s} {'model':9s} {'rounds':>8s} | {columns}  of best | {columns} certificate guarantee")


def told(scores):
    ours = scores["calibrated"]
    best = min(scores[name].brier for name in OTHERS)
    briers = "  ".join(f"{score.brier:10.4f}" for score in scores.values())
    distances = "  ".join(f"{score.distance_upper:10.4f}" for score in scores.values())
    proofs = f"{ours.certificate:11.4f} {ours.guarantee:9.4f}"
    change = f"{100 * (ours.brier / best - 1):+6.2f} %"
    return f"{ours.stream:14s} {ours.model:9s} {ours.rounds:8,d} | {briers} {change} | {distances} {proofs}"


def check(scores):
    ours = scores["calibrated"]
    root = 1.0 / math.sqrt(ours.rounds)
    for name in OTHERS:
        assert ours.distance_upper <= max(scores[name].distance_lower, root)
    assert ours.brier <= 1.02 * min(scores[name].brier for name in OTHERS)
    assert ours.distance_upper <= ours.certificate <= ours.guarantee


@pytest.mark.parametrize(("name", "model"), LEARNT)
def test_models_on_rivers_data(note, name, model):
    scores = play(sources.from_river(name, None), models.MODELS[model], model)
    note(told(scores))
    check(scores)


@pytest.mark.skipif(
    not GAMES.exists(), reason="the basketball forecasts (shared/data/nba_games.csv) are not here"
)
def test_recorded_win_forecasts(note):
    source = sources.from_file(GAMES, "prob1_outcome", "prob1", "date", None)
    scores = play(source, models.Recorded, "forecasts")
    note(told(scores))
    check(scores)


@pytest.mark.parametrize(("rounds", "seed"), [(20_000, 0), (20_000, 1), (50_000, 0)])
@pytest.mark.parametrize("name", sources.HARD)
def test_streams_made_to_break_recalibrators(note, name, rounds, seed):
    scores = play(sources.hard(name, rounds, seed), models.Recorded, "forecasts")
    note(told(scores))
    check(scores)


@pytest.mark.parametrize("model", models.MODELS)
def test_bin_means_choose_the_label_and_the_wrapper_says_how_sure_to_be(note, model):
    source = sources.from_river("ImageSegments", None)
    methods = models.methods(1.0, 1, is_multiclass=True)
    scores = {
        name: evaluate(source, wrap(models.create(model, True)), model, name, budget=0.3).score
        for name, wrap in methods.items()
    }
    both = methods["calibrated"](methods["mean"](models.create(model, True)))
    scores["calibrated"] = evaluate(source, both, f"{model}*", "calibrated", budget=0.3).score
    note(f"{told(scores)}   *: the calibrated one around the mean")
    check(scores)
