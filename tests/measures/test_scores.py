"""The scores that commands and evaluations share."""

import math

import numpy as np
import pytest
from river import metrics

from onlinecal.measures.scores import brier_score, class_scores, event_scores, log_loss
from onlinecal.measures.summary import all_errors


def test_scores_of_classes_by_hand():
    table, labels = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0])
    scores = class_scores(table, labels)
    assert scores.brier == pytest.approx((0.08 + 0.72) / 2)
    assert scores.log_loss == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)
    assert scores.accuracy == 0.5
    assert scores.ece == pytest.approx((0.2 + 0.6) / 2)


def test_scores_of_an_event_are_what_river_and_the_summary_say():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(500).round(2), [0.0, 1.0, 0.0]])
    y = np.concatenate([rng.integers(0, 2, 500), [0, 1, 1]]).astype(np.uint8)
    scores = event_scores(p, y)
    loss = metrics.LogLoss()
    for probability, outcome in zip(p, y, strict=True):
        loss.update(bool(outcome), probability)
    assert scores.log_loss == pytest.approx(loss.get(), rel=1e-5)
    errors, _ = all_errors("p", p, y, budget=1.0, bins=15)
    assert scores.brier == errors.brier / len(y)
    assert scores.ece == pytest.approx(errors.ece_bins / len(y))


def test_an_outcome_that_was_ruled_out_has_a_finite_loss():
    assert log_loss(np.array([0.0])) == pytest.approx(15 * math.log(10))
    assert log_loss(np.array([1.0])) == 0.0


def test_a_sum_of_squares_is_exact_where_it_can_be():
    assert brier_score(np.array([0.5, 0.25, 1.0]), np.array([1, 0, 0], np.uint8)) == 0.25 + 0.0625 + 1.0
