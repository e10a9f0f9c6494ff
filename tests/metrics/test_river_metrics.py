"""The river metrics are the measures, averaged: updated, reverted, added and pickled as river's own are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, metrics, tree, utils

from onlinecal import calibration_distance, expected_calibration_error
from onlinecal.measures import smooth_calibration_error
from onlinecal.metrics import ECE, Brier, CalibrationDistance, SmoothCalibration
from tests.properties import examples

BUILT = {
    "Brier": Brier,
    "ECE": ECE,
    "ECE-bins": lambda: ECE(bins=15),
    "SmoothCalibration": SmoothCalibration,
    "CalibrationDistance": lambda: CalibrationDistance(budget=0.05),
}
FUNCTIONS = {
    "Brier": lambda p, y: float(np.mean((p - y) ** 2)),
    "ECE": lambda p, y: expected_calibration_error(p, y, normalize=True),
    "ECE-bins": lambda p, y: expected_calibration_error(p, y, bins=15, normalize=True),
    "SmoothCalibration": lambda p, y: smooth_calibration_error(p, y, normalize=True),
    "CalibrationDistance": lambda p, y: calibration_distance(p, y, normalize=True).upper,
}
ROUNDS = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.29, 0.5, 1.0])), st.booleans()),
    min_size=1,
    max_size=25,
)


def fed(metric, rounds):
    for p, y in rounds:
        metric.update(y, p)
    return metric


@pytest.mark.parametrize("name", BUILT)
@settings(max_examples=examples(40), deadline=None)
@given(rounds=ROUNDS)
def test_a_metric_is_its_measure_divided_by_the_rounds(name, rounds):
    p, y = np.array(rounds, dtype=float).T
    assert fed(BUILT[name](), rounds).get() == pytest.approx(FUNCTIONS[name](p, y), abs=1e-9)


@pytest.mark.parametrize("name", BUILT)
@settings(max_examples=examples(25), deadline=None)
@given(rounds=ROUNDS, more=ROUNDS)
def test_reverting_undoes_updating(name, rounds, more):
    metric = fed(fed(BUILT[name](), more), rounds)
    for p, y in more:
        metric.revert(y, p)
    assert metric.get() == pytest.approx(fed(BUILT[name](), rounds).get(), abs=1e-9)
    for p, y in rounds:
        metric.revert(y, p)
    assert metric.get() == pytest.approx(0.0, abs=1e-9)


def test_ece_by_value_is_exact_to_the_last_bit():
    rng = np.random.default_rng(3)
    p = rng.choice(rng.random(50), 3000)
    y = rng.random(3000) < p
    assert fed(ECE(), zip(p.tolist(), y.tolist(), strict=True)).get() == expected_calibration_error(
        p, y, normalize=True
    )


@pytest.mark.parametrize("name", BUILT)
def test_answers_may_be_numbers_or_dictionaries(name):
    numbers, dictionaries, others = (BUILT[name]() for _ in range(3))
    for y, p in [(True, 0.8), (False, 0.7), (True, 0.1), (False, 0.0)]:
        numbers.update(y, p)
        dictionaries.update(np.bool_(y), {False: 1 - p, True: p} if p else {False: 1.0})
        others.update(int(y), np.float64(p))
    assert numbers.get() == dictionaries.get() == others.get() > 0


def test_other_labels_have_to_be_named():
    metric = Brier(pos_val="spam")
    metric.update("spam", {"spam": 0.9, "ham": 0.1})
    metric.update("ham", {"spam": 0.3, "ham": 0.7})
    metric.update("eggs", {"ham": 1.0})
    assert metric.get() == pytest.approx((0.01 + 0.09 + 0.0) / 3)
    assert metric.clone().pos_val == "spam"


@pytest.mark.parametrize("name", BUILT)
def test_before_the_first_round_the_error_is_zero(name):
    assert BUILT[name]().get() == 0.0


def test_crumbs_left_by_normalising_are_taken_for_the_end():
    assert fed(Brier(), [(1.0000000000000002, True), (-1e-17, False)]).get() == 0.0


@pytest.mark.parametrize("name", ["ECE", "ECE-bins", "SmoothCalibration", "CalibrationDistance"])
def test_a_round_that_was_not_counted_cannot_be_reverted(name):
    metric = fed(BUILT[name](), [(0.25, True)])
    with pytest.raises(ValueError, match=r"not counted: forecast 0\.5 with outcome 1"):
        metric.revert(True, 0.5)
    assert metric.get() == fed(BUILT[name](), [(0.25, True)]).get()


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1, got 0"):
        ECE(bins=0)
    with pytest.raises(ValueError, match="resolution"):
        CalibrationDistance(resolution=0)
    with pytest.raises(ValueError, match="budget must be positive, got 0"):
        CalibrationDistance(budget=0)
    with pytest.raises(ValueError, match="CalibrationDistance counts rounds; w must be 1, got 2"):
        CalibrationDistance().update(True, 0.5, 2)


def test_weights_count_as_so_many_rounds():
    for build in (Brier, ECE, lambda: ECE(bins=4)):
        weighed, repeated = build(), fed(build(), [(0.3, True)] * 3 + [(0.4, False)])
        weighed.update(True, 0.3, 3)
        weighed.update(False, 0.4)
        assert weighed.get() == pytest.approx(repeated.get())


@pytest.mark.parametrize("metric", [Brier, ECE, SmoothCalibration, CalibrationDistance])
def test_they_can_be_rolled(metric):
    rounds = [(k / 20, k % 3 == 0) for k in range(20)]
    rolling = utils.Rolling(metric, window_size=7)
    for p, y in rounds:
        rolling.update(y, p)
    assert rolling.get() == pytest.approx(fed(metric(), rounds[-7:]).get(), abs=1e-12)


def test_small_errors_are_better():
    good, bad = fed(Brier(), [(0.9, True)]), fed(Brier(), [(0.4, True)])
    assert good.is_better_than(bad)
    assert not bad.is_better_than(good)
    for build in BUILT.values():
        assert not build().bigger_is_better
        assert not build().requires_labels


def test_they_run_in_progressive_validation_together_with_rivers_own():
    model = tree.HoeffdingTreeClassifier()
    ours = CalibrationDistance(budget=0.05) + ECE(bins=15) + SmoothCalibration() + Brier()
    both = metrics.LogLoss() + metrics.Accuracy() + Brier()
    evaluate.progressive_val_score(datasets.Phishing().take(300), model.clone(), ours)
    evaluate.progressive_val_score(datasets.Phishing().take(300), model.clone(), both)
    distance, binned, smooth, brier = ours.get()
    assert brier == both[2].get()
    assert 0.0 < distance <= 1.0
    # half the smooth error is below the distance, on either side of the true value
    assert smooth / 2 <= distance + 1e-9
    assert binned > 0.0
    assert "CalibrationDistance: " in repr(ours)


def test_an_interval_holds_the_true_value_when_forecasts_are_merged():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    y = rng.random(400) < p**2
    rounds = list(zip(p.tolist(), y.tolist(), strict=True))
    coarse = fed(CalibrationDistance(resolution=20), rounds)
    exact = calibration_distance(p, y, method="exact", normalize=True).exact
    assert coarse.interval.lower <= exact <= coarse.interval.upper == coarse.get()
    smooth = fed(SmoothCalibration(resolution=20), rounds).interval
    assert smooth.lower <= smooth_calibration_error(p, y, normalize=True) <= smooth.upper
