"""The river metrics are the measures, averaged, and silent about no label that they cannot read."""

import copy
import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import utils

from onlinecal import calibration_distance, cumulative_calibration_error, expected_calibration_error
from onlinecal.measures import CalibrationMonitor, smooth_calibration_error, two_bin_error
from onlinecal.metrics import (
    ECE,
    Brier,
    CalibrationDistance,
    CumulativeCalibration,
    SmoothCalibration,
    TwoBinCalibration,
)
from tests.properties import examples

pytestmark = pytest.mark.usefixtures("wide_brackets")

BUILT = {
    "Brier": Brier,
    "ECE": ECE,
    "ECE-bins": lambda: ECE(n_bins=15),
    "CumulativeCalibration": CumulativeCalibration,
    "TwoBinCalibration": TwoBinCalibration,
    "SmoothCalibration": SmoothCalibration,
    "CalibrationDistance": lambda: CalibrationDistance(budget=0.05),
}
FUNCTIONS = {
    "Brier": lambda p, y: float(np.mean((p - y) ** 2)),
    "ECE": expected_calibration_error,
    "ECE-bins": lambda p, y, **more: expected_calibration_error(p, y, n_bins=15, **more),
    "CumulativeCalibration": lambda p, y, **more: cumulative_calibration_error(p, y, **more).error,
    "TwoBinCalibration": two_bin_error,
    "SmoothCalibration": smooth_calibration_error,
    "CalibrationDistance": lambda p, y: calibration_distance(p, y, normalize=True).upper,
}
SUMMED_IN_TURN = ("Brier", "ECE-bins", "CalibrationDistance")
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
    """To the last bit, where sums are those of the measure."""
    p, y = np.array(rounds, dtype=float).T
    assert BUILT[name]().get() == 0.0
    expected, near = FUNCTIONS[name](p, y), 1e-9 if name in SUMMED_IN_TURN else 0.0
    assert fed(BUILT[name](), rounds).get() == pytest.approx(expected, rel=0.0, abs=near)


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


@pytest.mark.parametrize("name", BUILT)
def test_answers_may_be_numbers_or_dictionaries(name):
    numbers, dictionaries, others = (BUILT[name]() for _ in range(3))
    for y, p in [(True, 0.8), (False, 0.7), (True, 0.1), (False, 0.0)]:
        numbers.update(y, p)
        dictionaries.update(np.bool_(y), {False: 1 - p, True: p} if p else {False: 1.0})
        others.update(int(y), np.float64(p))
    assert numbers.get() == dictionaries.get() == others.get() > 0
    assert not numbers.bigger_is_better
    # crumbs left by normalising are taken for the end
    assert fed(BUILT[name](), [(1.0000000000000002, True), (-1e-17, False)]).get() == 0.0


def test_other_labels_have_to_be_named():
    metric = Brier(pos_val="spam")
    metric.update("spam", {"spam": 0.9, "ham": 0.1})
    metric.update("ham", {"spam": 0.3, "ham": 0.7})
    metric.update("eggs", {"ham": 1.0})
    assert metric.get() == pytest.approx((0.01 + 0.09 + 0.0) / 3)
    # the number one may be one label of many
    metric = Brier(pos_val=1)
    for y in (0, 1, 2):
        metric.update(y, {0: 0.2, 1: 0.5, 2: 0.3})
    assert metric.get() == pytest.approx(0.25)


@pytest.mark.parametrize("name", list(BUILT)[1:])
@pytest.mark.parametrize(("y", "p"), [(True, 0.5), (True, 0.2500001), (False, 1e-7)])
def test_a_round_that_was_not_counted_cannot_be_reverted(name, y, p):
    """Nor one with a forecast that is near to what was counted."""
    metric = fed(BUILT[name](), [(0.25, True), (0.0, False)])
    before = metric.get()
    if name == "ECE-bins":
        p = 0.5
    with pytest.raises(ValueError, match=rf"not counted, .*: forecast {p!r} with outcome {int(y)}"):
        metric.revert(y, p)
    assert metric.get() == before


@pytest.mark.parametrize("name", BUILT)
@settings(max_examples=examples(25), deadline=None)
@given(rounds=ROUNDS, times=st.integers(1, 4))
def test_whole_weights_count_as_so_many_rounds_and_are_taken_back(name, rounds, times):
    weighed, again = BUILT[name](), fed(BUILT[name](), rounds * times)
    for p, y in rounds:
        weighed.update(y, p, times)
    weighed.update(False, 0.9, 0)
    assert weighed.get() == pytest.approx(again.get(), abs=1e-9)
    weighed.update(True, 0.7, 2)
    weighed.revert(True, 0.7, 2)
    assert weighed.get() == pytest.approx(again.get(), abs=1e-9)


@pytest.mark.parametrize("name", list(BUILT)[1:-1])
def test_weights_between_whole_numbers_reach_the_measure_and_are_taken_back(name):
    p, y, w = [0.3, 0.3, 0.8, 0.35], [True, False, False, True], [0.25, 0.75, 2.5, 0.1]
    metric = BUILT[name]()
    for forecast, outcome, weight in zip(p, y, w, strict=True):
        metric.update(outcome, forecast, weight)
    assert metric.get() == pytest.approx(FUNCTIONS[name](p, y, sample_weight=w), abs=1e-12)
    for forecast, outcome, weight in zip(p, y, w, strict=True):
        metric.revert(outcome, forecast, weight)
    assert metric.get() == 0.0


def test_the_brier_score_takes_back_weights_of_any_size_and_refuses_more_than_it_has():
    metric = Brier()
    metric.update(True, 0.5, 0)
    assert metric.get() == 0.0
    for weight in (0.1, 0.2):
        metric.update(True, 0.5, weight)
    for weight in (0.2, 0.1):
        metric.revert(True, 0.5, weight)
    assert metric.get() == 0.0
    with pytest.raises(ValueError, match=r"not counted, .*: forecast 0\.5 with outcome 1"):
        metric.revert(True, 0.5)
    metric.update(True, 0.8)
    with pytest.raises(
        ValueError, match=r"or with less weight: .*, with the same forecast, outcome and weight"
    ):
        metric.revert(True, 0.8, 2)
    assert metric.get() == pytest.approx(0.04)


def test_the_interval_is_that_of_a_monitor_as_coarse():
    rng = np.random.default_rng(0)
    p, monitor = rng.random(400), CalibrationMonitor(n_bins=20)
    y = rng.random(400) < p**2
    monitor.update_many(p, y)
    rounds = list(zip(p.tolist(), y.tolist(), strict=True))
    for kind, found in (
        (CalibrationDistance, monitor.calibration_distance(normalize=True)),
        (SmoothCalibration, monitor.smooth_calibration_error()),
    ):
        metric = fed(kind(n_bins=20), rounds)
        assert metric.interval == pytest.approx(found)
        assert metric.get() == pytest.approx(found.upper)
        assert found.lower < found.upper


TOP = Brier(top_label=True)
KINDS = [Brier, ECE, lambda **k: ECE(n_bins=15, **k), SmoothCalibration, CalibrationDistance]
SPAM = [("spam", {"spam": 0.3, "ham": 0.7}), ("ham", {"spam": 0.2, "ham": 0.8})]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", ["spam", 2, "1", None, math.nan, ["spam"]])
def test_a_label_that_is_neither_true_nor_false_is_refused_and_not_counted(kind, label):
    metric = kind()
    metric.update(True, 0.6)
    before = metric.get()
    missing = label is None or label is math.nan
    remedy = "leave out rounds whose label is missing" if missing else r"as in \w+\(pos_val="
    for y, answer in [(label, 0.3), (label, {True: 0.3})]:
        with pytest.raises(ValueError, match=f"y_true must be 0, 1, False, True or a number .* {remedy}"):
            metric.update(y, answer)
    if isinstance(label, (str, int)):
        with pytest.raises(ValueError, match=r"y_pred must have the labels .* with \w+\(top_label=True\)"):
            metric.update(True, {label: 1.0})
    assert metric.get() == before > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_positive_label_that_nobody_names_is_said_when_the_number_is_asked_for(kind):
    metric = kind(pos_val="Spam")
    for y, answer in SPAM:
        metric.update(y, answer)
    for ask in (metric.get, lambda: getattr(metric, "interval", metric.get())):
        with pytest.raises(ValueError, match=r"got 'Spam', which neither came .* 'spam' and 'ham' were"):
            ask()
    assert repr(metric) == f"{type(metric).__name__}: none yet, pos_val='Spam' has not come"
    metric.update("Spam", {"spam": 0.5, "ham": 0.5})
    assert metric.get() > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_rare_event_that_has_not_come_yet_is_no_error(kind):
    rare, named, lone = kind(), kind(pos_val="fraud"), kind(pos_val="fraud")
    for _ in range(5):
        rare.update(False, {False: 1.0})
        named.update("fine", {"fine": 0.7, "late": 0.2, "fraud": 0.1})
        lone.update("fine", {"fine": 1.0})
    assert rare.get() == lone.get() == 0.0 < named.get()


@pytest.mark.parametrize("kind", KINDS)
def test_the_top_label_is_the_event_that_the_most_probable_label_comes(kind):
    rng = np.random.default_rng(2)
    top, plain, pairs = kind(top_label=True), kind(), []
    for row in rng.dirichlet(np.ones(3), 60).round(2).tolist():
        answer = dict(zip("uvw", row, strict=True))
        y = "uvw"[rng.integers(3)]
        top.update(y, answer)
        best = max(answer, key=answer.get)
        plain.update(y == best, answer[best])
        pairs.append((y, answer))
    top.update("u", {})  # says nothing: not counted
    top.revert("u", {})
    assert top.get() == plain.get() > 0.0
    for y, answer in pairs[1:]:
        top.revert(y, answer)
    alone = top.clone()
    alone.update(*pairs[0])
    assert top.get() == pytest.approx(alone.get())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Brier(pos_val="a", top_label=True),
            "pos_val and top_label exclude each other, got pos_val='a' and True: leave out one",
        ),
        (lambda: Brier(top_label=1), "top_label must be True or False, got 1"),
        (lambda: TOP.update("a", 0.3), r"y_pred must be a dictionary of labels for top_label=True, got 0\.3"),
        (lambda: TOP.update("a", {"a": 0.3, "b": math.nan}), "y_pred must be a number"),
        (lambda: ECE(n_bins=0), "n_bins must be a whole number of at least 1, got 0"),
        (lambda: CalibrationDistance(n_bins=0), "n_bins"),
        (lambda: CalibrationDistance(budget=0), "budget must be a positive number, got 0"),
        (lambda: CalibrationDistance(budget="much"), "budget must be a positive number, got 'much'"),
        (lambda: CalibrationDistance().update(True, 0.5, 1.5), r"w must be a whole number, .* got 1\.5"),
        *((partial(ECE().update, True, 0.5, w), f"w must be a finite .* got {w!r}") for w in (None, "2")),
    ],
)
def test_what_cannot_be_asked_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", KINDS)
def test_copies_remember_which_labels_came_and_windows_do_too(kind):
    metric = kind(pos_val="Spam")
    for y, answer in SPAM:
        metric.update(y, answer)
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        with pytest.raises(ValueError, match="neither came"):
            twin.get()
    rolling = utils.Rolling(Brier, window_size=2, pos_val="spam")
    for y, answer in [("spam", {"spam": 0.5}), *[("ham", {"ham": 1.0}), ("eggs", {"ham": 1.0})] * 3]:
        rolling.update(y, answer)
    assert rolling.get() == 0.0


def test_of_many_labels_that_are_not_the_positive_one_two_are_named():
    metric = Brier(pos_val="z")
    metric.update("a", {"a": 0.5, "b": 0.3, "c": 0.2})
    metric.update("d", {"d": 1.0})
    with pytest.raises(ValueError, match=r"got 'z', which neither came .* 'a' and 'b' were"):
        metric.get()
