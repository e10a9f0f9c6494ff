"""Public arguments that are True or False refuse all else, such as "no", which Python finds true."""

import inspect
from functools import partial

import numpy as np
import pytest
from river import linear_model

import onlinecal
from onlinecal import engine, measures, metrics, plots, recalibration
from onlinecal.engine.spark import calibrated_stream
from onlinecal.wrappers.maps import DecisionCalibratedClassifier
from tests.corpus.surface import public_things

P, Y = np.array([0.2, 0.7, 0.7]), np.array([0, 1, 0])
TABLE = np.column_stack([1 - P, P])
LOSSES = [[0, 1], [1, 0]]


def of_measure(name, **flag):
    """Call a public measure with data that it takes."""
    if name.endswith("from_counts"):
        return getattr(measures, name)([0.2, 0.7], [1, 1], [0, 1], **flag)
    of_classes = "classwise", "confidence", "top_label", "multiclass"
    return getattr(measures, name)(TABLE if name.startswith(of_classes) else P, Y, **flag)


def monitor():
    seen = measures.CalibrationMonitor()
    seen.update(0.2, 1)
    return seen


def feed(tmp_path, **flag):
    with engine.Engine(tmp_path / "l.db") as opened:
        engine.TopicFeed(opened, "events", [0], **flag)


MEASURES = [
    *("brier_decomposition", "calibration_distance", "calibration_distance_from_counts"),
    *("classwise_calibration_error", "confidence_calibration_error", "cumulative_calibration_error"),
    *("expected_calibration_error", "lower_calibration_distance", "lower_calibration_distance_from_counts"),
    *("multiclass_calibration_distance", "smooth_calibration_error", "smooth_calibration_error_from_counts"),
    "top_label_calibration_error",
]
METRICS = (
    "Brier",
    "CalibrationDistance",
    "CumulativeCalibration",
    "ECE",
    "SmoothCalibration",
    "TwoBinCalibration",
)
CALLS = {
    **{(name, "normalize"): partial(of_measure, name) for name in MEASURES},
    **{(name, "top_label"): getattr(metrics, name) for name in METRICS},
    ("CalibrationDistance", "normalize"): metrics.CalibrationDistance,
    ("KeyConfig", "hints"): engine.KeyConfig,
    ("AlmostOneStepAhead", "hints"): onlinecal.AlmostOneStepAhead,
    ("OneStepAhead", "hints"): partial(onlinecal.OneStepAhead, 9),
    ("SimplexAlmostOneStepAhead", "hints"): partial(onlinecal.SimplexAlmostOneStepAhead, 3),
    ("AlmostOneStepAhead.decision_certificate", "normalize"): lambda **flag: (
        onlinecal.AlmostOneStepAhead().decision_certificate(0.1, **flag)
    ),
    ("AlmostOneStepAhead.replay", "return_look_ahead"): partial(onlinecal.AlmostOneStepAhead().replay, Y),
    ("SimplexAlmostOneStepAhead.replay", "return_look_ahead"): partial(
        onlinecal.SimplexAlmostOneStepAhead(3).replay, Y
    ),
    ("SimplexAlmostOneStepAhead.lp_certificate", "normalize"): lambda **flag: (
        onlinecal.SimplexAlmostOneStepAhead(3).lp_certificate(2, **flag)
    ),
    ("CalibrationMonitor.calibration_distance", "normalize"): lambda **flag: monitor().calibration_distance(
        **flag
    ),
    ("CalibrationMonitor.smooth_calibration_error", "normalize"): lambda **flag: (
        monitor().smooth_calibration_error(**flag)
    ),
    ("Proven.decision_certificate", "normalize"): lambda **flag: onlinecal.recalibrate_stream(
        P, Y
    ).decision_certificate(0.1, **flag),
    ("ProvenReport.decision_certificate", "normalize"): lambda **flag: (
        onlinecal.recalibrate_stream(P, Y).report().decision_certificate(0.1, **flag)
    ),
    ("DecisionCalibratedClassifier.gaps", "raw"): lambda **flag: DecisionCalibratedClassifier(
        linear_model.LogisticRegression()
    ).gaps(**flag),
    ("DecisionRecalibrator", "warm_start"): lambda **flag: recalibration.DecisionRecalibrator(**flag).fit(
        TABLE, Y
    ),
    ("DecisionRecalibrator", "floor"): lambda **flag: recalibration.DecisionRecalibrator(**flag).fit(
        TABLE, Y
    ),
    ("GroupRecalibrator", "floor"): lambda **flag: recalibration.GroupRecalibrator(**flag).fit(
        P, Y, groups=np.ones((3, 1), bool)
    ),
    ("TopicFeed", "grow"): feed,
    ("archive_ledger", "shrink"): partial(engine.archive_ledger, "l.db", "a.db", keep=0),
    ("export_ledger", "force"): partial(engine.export_ledger, "l.db", "t.parquet"),
    ("certificate", "normalize"): partial(plots.certificate, [1.0, 2.0]),
    ("running_biases", "course"): partial(plots.running_biases, P, Y),
}
ELSEWHERE = {
    ("calibrated_stream", "check"): "it needs a session of Spark",
    ("CombinedClassifier.clone", "include_attributes"): "river's",
    ("Kind", "needs_horizon"): "of a record",
    ("Parameter", "required"): "of a record",
    ("Entry", "views"): "of kernels, as the next ones",
    **{("kernel_part", name): "" for name in ("optimised", "counted")},
}


def flags():
    """The public functions, classes and methods, each with an argument whose default is True or False."""
    for _, name, thing in public_things():
        inner = [one for one in getattr(thing, "__mro__", ()) if one.__module__.startswith("onlinecal")]
        methods = {key: value for one in inner for key, value in vars(one).items() if not key.startswith("_")}
        for called in (thing, *filter(callable, methods.values())):
            try:
                found = inspect.signature(called).parameters.values()
            except (TypeError, ValueError):
                continue
            said = getattr(getattr(called, "func", called), "__qualname__", name)
            yield from ((said, one.name) for one in found if isinstance(one.default, bool))


def test_every_public_flag_is_tried():
    # a metric's `pos_val` is a label
    assert {flag for flag in flags() if flag[1] != "pos_val"} == CALLS.keys() | ELSEWHERE.keys()
    assert callable(calibrated_stream)


@pytest.mark.parametrize(("called", "name"), CALLS)
def test_a_flag_is_true_or_false(called, name, tmp_path):
    call = CALLS[called, name]
    if call is feed:
        call = partial(feed, tmp_path)
    for wrong in ("no", 1, None):
        with pytest.raises(ValueError, match=f"^{name} must be True or False, got {wrong!r}"):
            call(**{name: wrong})
