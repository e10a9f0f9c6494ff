"""What chance would score, p-values that keep their level, Brier's parts, and the scores that all share."""

import math
from itertools import product

import numpy as np
import pytest
from river import metrics
from sklearn.isotonic import IsotonicRegression

from onlinecal.measures import (
    CalibrationMonitor,
    brier_decomposition,
    calibration_distance,
    chance_level,
    cumulative_calibration_error,
    expected_calibration_error,
    lower_calibration_distance,
    smooth_calibration_error,
    two_bin_error,
)
from onlinecal.measures.scores import class_scores, event_scores, log_loss
from onlinecal.measures.summary import all_errors

pytestmark = pytest.mark.usefixtures("errors_only")
FORECASTS = np.array([0.0, 0.2, 0.2, 0.2, 0.7, 0.7, 0.5, 1.0, 1 / 3, 1 / 3, 1 / 3])
SCORES = {
    "brier": lambda p, y: event_scores(p, y).brier,
    "log_loss": lambda p, y: event_scores(p, y).log_loss,
    "miscalibration": lambda p, y: brier_decomposition(p, y).miscalibration,
    "ece": expected_calibration_error,
    "ece_bins": lambda p, y: expected_calibration_error(p, y, n_bins=15),
    "cumulative": lambda p, y: cumulative_calibration_error(p, y).error,
    "two_bin": two_bin_error,
    "smooth": smooth_calibration_error,
    "lower_distance": lambda p, y: lower_calibration_distance(p, y).upper,
    "distance": lambda p, y: calibration_distance(p, y).upper,
}


@pytest.mark.parametrize("measure", SCORES)
def test_means_are_those_over_all_outcomes_and_scores_those_of_the_measures(measure):
    score, mean = SCORES[measure], 0.0
    free = np.flatnonzero((FORECASTS > 0) & (FORECASTS < 1))[:8]
    p = FORECASTS[[0, 7, *free]]
    is_quick = not measure.endswith("distance")
    chance = chance_level(p, measure, [0] * len(p), n_draws=1000 if is_quick else 3)
    assert chance.score == pytest.approx(score(p, np.zeros(len(p), np.uint8)))
    assert chance.is_exact == (measure in ("brier", "log_loss", "ece", "two_bin"))
    if is_quick:
        for bits in product((0, 1), repeat=len(free)):
            y = np.array([0, 1, *bits], np.uint8)
            mean += np.prod(np.where(y == 1, p, 1 - p)) * score(p, y)
        assert chance.mean == pytest.approx(mean, rel=1e-12 if chance.is_exact else 0.05)


@pytest.mark.parametrize("measure", ["brier", "ece", "smooth"])
def test_p_values_keep_their_level(measure):
    """At most a with probability at most a, ties and all; near 0 for forecasts that are wrong."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 5, 60) / 5
    found = np.array(
        [
            chance_level(p, measure, rng.random(60) < p, n_draws=19, random_state=seed).p_value
            for seed in range(150)
        ]
    )
    for level in (0.05, 0.2, 0.5):
        assert (found <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / 150)
    assert (found <= 0.5).mean() > 0.35
    many = np.tile(p, 9)
    assert chance_level(many, measure, rng.random(540) < 1 - many, n_draws=199).p_value == 1 / 200


def test_rows_of_one_group_share_their_chance():
    """A hundred rows a match: taken as independent, calibrated forecasts look wrong; grouped, they do not."""
    rng = np.random.default_rng(1)
    match = np.repeat(np.arange(40), 100)
    p = np.repeat(rng.random(40), 100)
    found = []
    for seed in range(40):
        y = np.repeat(rng.random(40) < p[::100], 100)
        assert seed or chance_level(p, "smooth", y, n_draws=99, random_state=seed).p_value == 0.01
        found.append(chance_level(p, "smooth", y, n_draws=19, random_state=seed, groups=match).p_value)
    assert 0.2 < np.mean(found) < 0.8
    chance = chance_level(p, "brier", n_draws=400, groups=match)
    alone = chance_level(p, "brier", n_draws=400)
    assert chance.mean == alone.mean
    width, narrow = (one.quantiles[0.95] - one.quantiles[0.05] for one in (chance, alone))
    assert 7 < width / narrow < 14


def test_draws_repeat_and_are_not_those_that_made_the_forecasts():
    p = np.random.default_rng(0).random(500)
    first, again = (chance_level(p, "smooth", n_draws=20) for _ in range(2))
    assert first == again
    assert first != chance_level(p, "smooth", n_draws=20, random_state=1)
    own = chance_level(p, smooth_calibration_error, n_draws=20)
    assert own.mean == pytest.approx(first.mean)
    assert chance_level(p, "smooth", n_draws=20, normalize=False).mean == pytest.approx(first.mean * 500)
    whole, each = (
        chance_level(p, "lower_distance", None, n_draws=1, normalize=one).mean for one in (None, True)
    )
    assert whole == pytest.approx(500 * each)
    # were the uniforms those of the forecasts, no outcome of a first draw would be 1
    assert chance_level(p, lambda _, y: float(y.sum()), n_draws=1).mean > 200
    seen, told = [], {"limit": 1e-9, "progress": lambda *at: seen.append(at)}
    chance = chance_level([0.5] * 3, "brier", [1, 1, 0], n_draws=10**9, **told)
    assert (chance.n_draws, seen) == (1, [(1, 10**9)])
    assert chance.p_value in (0.5, 1.0)


@pytest.mark.parametrize("shares", [False, True])
def test_the_parts_of_the_brier_score(shares):
    rng = np.random.default_rng(2)
    p = rng.integers(0, 21, 400) / 20
    y = rng.random(400) if shares else rng.random(400) < p**2
    found = brier_decomposition(p, y, normalize=False)
    assert found.brier == pytest.approx(((p - y) ** 2).sum())
    assert found.brier == pytest.approx(found.miscalibration - found.discrimination + found.uncertainty)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(p)
    assert found.miscalibration == pytest.approx(found.brier - ((isotonic - y) ** 2).sum())
    assert found.uncertainty == pytest.approx(((y.mean() - y) ** 2).sum())
    assert min(found.miscalibration, found.discrimination) >= 0
    assert brier_decomposition(p, y, normalize=True).miscalibration == pytest.approx(
        found.miscalibration / 400
    )


def test_scores_of_events_and_classes_are_what_river_the_summary_and_a_hand_say():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(500).round(2), [0.0, 1.0, 0.0]])
    y = np.concatenate([rng.integers(0, 2, 500), [0, 1, 1]]).astype(np.uint8)
    scores, loss = event_scores(p, y), metrics.LogLoss()
    for probability, outcome in zip(p, y, strict=True):
        loss.update(bool(outcome), probability)
    assert scores.log_loss == pytest.approx(loss.get(), rel=1e-5)
    errors, _ = all_errors("p", p, y, budget=1.0, n_bins=15)
    assert scores.brier == errors.brier / len(y)
    assert scores.ece == pytest.approx(errors.ece_bins / len(y))
    found = class_scores(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0]))
    assert found == pytest.approx((0.4, -(math.log(0.8) + math.log(0.4)) / 2, 0.5, 0.4))
    # an outcome that was ruled out has a finite loss
    assert [log_loss(np.array([one])) for one in (0.0, 1.0)] == pytest.approx([15 * math.log(10), 0.0])


@pytest.mark.parametrize("other", [0.3, 0.1 + 0.2])
def test_scores_that_differ_by_rounding_are_ties_that_count_against_the_forecasts(other):
    """0.1 + 0.2 is above 0.3 by one bit; every draw scores as much as the forecasts at hand, so p is 1."""
    found = chance_level([0.5] * 8, lambda p, y: other if y.any() else 0.1 + 0.2, [0] * 8, n_draws=30)
    assert found.score == 0.1 + 0.2
    assert found.p_value == 1.0


@pytest.mark.parametrize("answer", [None, math.nan, "much", np.zeros(2)])
def test_a_measure_of_ones_own_must_return_a_number(answer):
    with pytest.raises(ValueError, match="measure must return a number, got"):
        chance_level(FORECASTS, lambda p, y: answer, n_draws=2)
    with pytest.raises(ValueError, match="normalize must be True or False, got 'no'"):
        chance_level(FORECASTS, lambda p, y: answer, normalize="no")


def test_flags_are_looked_at_before_the_first_round():
    for ask in (CalibrationMonitor().calibration_distance, CalibrationMonitor().smooth_calibration_error):
        with pytest.raises(ValueError, match="normalize must be True or False, got 'no'"):
            ask(normalize="no")
