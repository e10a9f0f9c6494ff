"""Where usual recalibrators break the calibrated classifier holds; the long version is a benchmark."""

import math

import pytest

from simulations import evaluation as sources
from simulations.evaluation import evaluate


@pytest.mark.parametrize("name", sources.HARD)
def test_no_stream_breaks_it(name):
    source = sources.hard(name, 5000, 3)
    scores = {
        method: evaluate(source, wrap(sources.Recorded()), "forecasts", method, budget=0.1).score
        for method, wrap in sources.methods(1.0, 1).items()
    }
    ours = scores.pop("calibrated")
    assert ours.distance_upper <= ours.certificate <= ours.guarantee
    assert ours.brier <= 1.02 * min(score.brier for score in scores.values())
    for score in scores.values():
        assert ours.distance_upper <= max(score.distance_lower, 1 / math.sqrt(5000))


def test_each_of_the_others_is_broken_by_one_of_them():
    guarantee, distances = 0.0, {}
    for name in sources.HARD:
        source = sources.hard(name, 10_000, 3)
        for method, wrap in sources.methods(1.0, 1).items():
            score = evaluate(source, wrap(sources.Recorded()), "forecasts", method, budget=0.05).score
            distances[method] = max(distances.get(method, 0.0), score.distance_lower)
            guarantee = score.guarantee or guarantee
    assert distances["calibrated"] < 0.3 * guarantee
    assert distances["base"] > 5 * guarantee
    assert distances["mean"] > 5 * guarantee
    assert distances["Platt"] > 0.4 * guarantee
