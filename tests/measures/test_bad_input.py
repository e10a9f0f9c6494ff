"""What no measure takes, refused by the name of the argument, with the value and where it stands."""

from functools import partial
from math import nan

import numpy as np
import pytest

from onlinecal import measures as m
from onlinecal.measures.decision.losses import confidence_width

OF_EVENTS = [
    m.expected_calibration_error,
    m.smooth_calibration_error,
    m.smooth_calibration_witness,
    m.calibration_distance,
    m.lower_calibration_distance,
    m.brier_decomposition,
]
OF_TABLES = [
    m.classwise_calibration_error,
    m.confidence_calibration_error,
    m.top_label_calibration_error,
    m.linf_conditional_error,
    m.multiclass_calibration_distance,
    m.lp_calibration_error,
    m.lp_calibration_report,
    m.lp_calibration_interval,
    partial(m.decision_calibration_error, n_actions=2),
    partial(m.decision_loss_gap, losses=[[[1.0, 2.0]]]),
]


def named(measure):
    return getattr(measure, "func", measure).__name__


@pytest.mark.parametrize("measure", OF_EVENTS, ids=named)
@pytest.mark.parametrize(
    ("forecasts", "outcomes", "message"),
    [
        ([0.5, nan], [0, 1], "forecasts must .* nan at row 1"),
        ([0.5, 1.5], [0, 1], "forecasts must .* 1.5 at row 1"),
        ([-0.1, 0.5], [0, 1], "forecasts must .* -0.1 at row 0"),
        ([[0.5]], [0], "forecasts must be one-dimensional"),
        ([0.5, 0.5], [0, 2], "outcomes must .* 2 at row 1"),
        ([0.5, 0.5], [nan, 1], "outcomes must .* nan at row 0"),
        ([0.5], [0, 1], "forecasts and outcomes .* 1 and 2"),
        ([], [], "forecasts is empty"),
    ],
)
def test_a_history_of_an_event(measure, forecasts, outcomes, message):
    with pytest.raises(ValueError, match=message):
        measure(forecasts, outcomes)


@pytest.mark.parametrize("measure", OF_TABLES, ids=named)
@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([[0.5, 0.6]], [0], "probabilities must sum to 1 in every row, got 1.1 at row 0"),
        ([[1.5, -0.5]], [0], r"probabilities must lie in \[0, 1\], got 1.5 at row 0, class 0"),
        ([[0.5, nan]], [0], "probabilities must lie in .* got nan at row 0, class 1"),
        ([0.5, 0.5], [0], "probabilities must be two-dimensional"),
        ([[0.5, 0.5]], [2], r"labels must be class numbers 0\.\.1, got 2 at row 0"),
        ([[0.5, 0.5]], ["a"], "labels must be class numbers"),
        ([[0.5, 0.5]], [0, 1], "probabilities and labels must have the same length, got 1 and 2"),
    ],
)
def test_a_table_of_classes(measure, probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        measure(probabilities, labels)


COUNTS = m.calibration_distance_from_counts


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (partial(m.expected_calibration_error, [0.5], [1], bins=bins), "bins must be")
            for bins in (0, -1, 1.5, True, "ten")
        ),
        (partial(m.calibration_distance, [0.5], [0], method="guess"), "method.*'guess'"),
        (partial(m.calibration_distance, [0.5], [0], budget=0), "budget.*0"),
        (partial(m.calibration_distance, [0.5], [0], rtol=-1.0), "rtol.*-1.0"),
        (partial(m.calibration_distance, [0.5], [0], look_ahead=[2.0]), "look_ahead.*2.0 at row 0"),
        (partial(m.calibration_distance, [0.5], [0], look_ahead=[0.5, 0.5]), "forecasts and look_ahead"),
        (partial(COUNTS, [0.5], [1], [-1]), "ones.*-1 at row 0"),
        (partial(COUNTS, [0.5], [1.5], [1]), "zeros.*1.5 at row 0"),
        (partial(COUNTS, [0.5], [0], [0]), "no round"),
        (partial(COUNTS, [0.5, 0.6], [1], [1]), "values and zeros"),
        (partial(m.smooth_calibration_error_from_counts, [0.5], [-1], [1]), "zeros.*-1 at row 0"),
        (partial(m.CalibrationMonitor, resolution=0), "resolution"),
        *(
            (partial(measure, [[0.5, 0.5]], [0], **{name: value}), f"{name} must be .*, got {value!r}")
            for measure in (m.lp_calibration_error, m.lp_calibration_report, m.lp_calibration_interval)
            for name, value in (("p", 0.5), ("p", nan), ("p", "two"), ("n_levels", 0), ("n_levels", 2.5))
        ),
        (partial(m.lp_calibration_interval, [[0.5, 0.5]], [0], method="guess"), "one of bootstrap, proven"),
        (partial(m.lp_calibration_interval, [[0.5, 0.5]], [0], confidence=1.0), "between 0 and 1, got 1.0"),
        (partial(m.lp_calibration_interval, [[0.5, 0.5]], [0], n_resamples=0), "n_resamples must be a whole"),
        (partial(m.linf_conditional_error, [[0.5, 0.5]], [0], min_rows=0), "min_rows.*0"),
        (partial(m.linf_conditional_error, [[0.5, 0.5]], [0], n_levels=0), "n_levels.*0"),
        *(
            (partial(measure, [[0.5, 0.5]], [0], bins=0), "bins must be")
            for measure in (m.classwise_calibration_error, m.top_label_calibration_error)
        ),
        (
            partial(
                m.multiclass_calibration_distance, np.full((300, 3), 1 / 3), [0, 1, 2] * 100, method="exact"
            ),
            "method must be 'auto' or 'bracket' .*got 'exact' with 300",
        ),
        (
            partial(m.multiclass_calibration_distance, np.eye(8), range(8), method="exact"),
            "method must be 'auto' or 'bracket' for more than 7 classes, got 'exact' with 8",
        ),
        (partial(m.decision_calibration_error, [[0.5, 0.5]], [0], 0), "n_actions must .* 1, got 0"),
        (partial(m.decision_calibration_error, [[0.5, 0.5]], [0], 2, "firm"), "soft, hard, got 'firm'"),
        *(
            (partial(m.decision_loss_gap, [[0.5, 0.5]], [0], losses), message)
            for losses, message in (
                ([[[1.0, np.inf]]], "got .*inf.* at loss 0, action 0, class 1"),
                ([[[1.0, 2.0, 3.0]]], "losses must have 2 classes, got 3"),
                ([1.0, 2.0], "losses must have shape"),
                ("cheap", "losses must be numbers"),
            )
        ),
        (partial(confidence_width, 10, 2, 3, 0.0), "delta"),
    ],
)
def test_settings_and_counts(call, message):
    with pytest.raises(ValueError, match=message):
        call()
