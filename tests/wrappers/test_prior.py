"""Base rates of training that are not those of the stream: odds are put right before anything is learnt.

That a column and a wrapper put the same right is tried in test_stream.py.
"""

import numpy as np
import pytest

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
from onlinecal.wrappers.labels import corrected_rows, prior_weights
from tests.wrappers.scripted import Told

pytestmark = pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")


@pytest.mark.parametrize(("trained", "actual"), [(0.5, 0.01), (0.01, 0.5), (0.3, 0.3)])
def test_the_posterior_under_other_base_rates_is_bayes_rule(trained, actual):
    rng = np.random.default_rng(0)
    # likelihoods of a feature under both classes
    one, zero = rng.random(50), rng.random(50)
    said = trained * one / (trained * one + (1 - trained) * zero)
    right = actual * one / (actual * one + (1 - actual) * zero)
    table = corrected_rows(np.column_stack([1 - said, said]), prior_weights((trained, actual), [0, 1]))
    assert np.allclose(table[:, 1], right, rtol=1e-12)
    assert np.allclose(table.sum(axis=1), 1.0)


def test_impossible_answers_stay_what_they_are():
    sure = [[1.0, 0.0], [0.0, 1.0]]
    assert corrected_rows(np.array(sure), prior_weights((0.5, 0.01), [0, 1])).tolist() == sure
    model = CalibratedClassifier(Told(), classes=[0, 1], prior=(0.5, 0.01))
    assert sum(model.predict_proba_one({}).values()) == 1.0
    assert model.predict_proba_one({0: 0.0, 1: 7.0})[1] > 0.9
    # a label without a forecast is learnt from what would have been said
    with pytest.warns(LabelWarning, match="no forecast waits for"):
        model.learn_one({0: 0.5, 1: 0.5}, 1)
    assert model.n_unmatched == 1


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (0.5, "prior must be a pair, .* as .0.5, 0.01., got 0.5"),
        ({0.5, 0.1}, "prior must be a pair, .* as .0.5, 0.01., got {"),
        ((0.5, 1.0), r"prior\[1\] must be a number between 0 and 1, got 1.0"),
        (({0: 0.5, 1: 0.6}, 0.1), r"prior\[0\] must have shares that sum to 1, got the sum 1.1"),
        (({0: 0.5, 1: 0.500004}, 0.1), r"prior\[0\] must have shares that sum to 1, got the sum 1.000004"),
        (({0: 0.5}, 0.1), r"prior\[0\] must have the share of each class, got none of 1: add it"),
        (({0: 0.5, 2: 0.5}, 0.1), r"prior\[0\] must be one of the classes \[0, 1\], got 2"),
        (([0.5, 0.5], 0.1), r"prior\[0\] must be the share of 1, a number, or a dict with the share of"),
    ],
)
def test_bad_base_rates_are_named(prior, message):
    with pytest.raises(ValueError, match=message):
        recalibrate_stream([0.5, 0.1], [0, 1], prior=prior)
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(Told(), classes=[0, 1], prior=prior)


def test_more_classes_need_a_share_of_each_and_a_wrapper_needs_classes():
    with pytest.raises(ValueError, match=r"prior\[0\] must be a dict .* classes \[0, 1, 2\], got 0.5"):
        recalibrate_stream(np.full((4, 3), 1 / 3), [0, 1, 2, 0], prior=(0.5, 0.1))
    with pytest.raises(ValueError, match=r"prior=\(0.5, 0.1\) needs classes=\[...\], all labels"):
        CalibratedClassifier(Told(), prior=(0.5, 0.1))


def test_the_report_has_the_corrected_column_and_a_remark_if_it_is_far_from_what_came():
    rng = np.random.default_rng(0)
    truth = rng.beta(1.0, 11.0, 4000)
    y = (rng.random(4000) < truth).astype(int)
    odds = 11.0 * truth / (1 - truth)
    # as if trained with equal weights of both classes, and stopped before that told
    weighted, stopped = odds / (1 + odds), truth
    right, wrong = (recalibrate_stream(p, y, prior=(0.5, 1 / 12)).report() for p in (weighted, stopped))
    assert right.brier_corrected == pytest.approx(np.mean((truth - y) ** 2))
    assert right.brier_corrected < right.brier_in
    assert not right.remarks
    assert wrong.log_loss_corrected > wrong.log_loss_in
    (said,) = (text for text in wrong.remarks if text.startswith("prior makes"))
    assert "stopped early" in said
    assert "corrected by prior" in str(wrong)
    assert "corrected by prior" not in str(recalibrate_stream(stopped, y).report())
