"""What no measure takes, refused by the name of the argument, with the value and where it stands."""

from functools import partial
from math import nan

import numpy as np
import pytest

from onlinecal import measures as m
from onlinecal.measures.decision.losses import confidence_width
from onlinecal.recalibration import LossTable

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
ONE, TWO = ([0.5], [0]), ([[0.5, 0.5]], [0])
DISTANCE, EXACT, FOUR = m.multiclass_calibration_distance, {"method": "exact"}, np.full((4, 3), 1 / 3)
GROUPED = [0.1, 0.2, 0.3], [0, 1, 0]
FUNCTIONS = m.functional_multicalibration_error


@pytest.mark.parametrize(
    ("measure", "given", "options", "message"),
    [
        *(
            (m.expected_calibration_error, ONE, {"n_bins": n_bins}, "n_bins must be")
            for n_bins in (0, 1.5, True, "ten")
        ),
        (m.calibration_distance, ONE, {"method": "guess"}, "method.*'guess'"),
        (m.calibration_distance, ONE, {"budget": 0}, "budget.*0"),
        # its search for classes has no end
        (DISTANCE, (FOUR, [0, 1, 2, 0]), {"budget": np.inf}, "budget must be a finite number, got inf"),
        (m.calibration_distance, ONE, {"rtol": -1.0}, "rtol.*-1.0"),
        (m.calibration_distance, ONE, {"look_ahead": [2.0]}, "look_ahead.*2.0 at row 0"),
        (m.calibration_distance, ONE, {"look_ahead": [0.5, 0.5]}, "forecasts and look_ahead"),
        (
            m.calibration_distance,
            ([0.5, 0.5], [0.5, 1]),
            {"method": "exact"},
            "'auto' or 'bracket' .* NP-hard",
        ),
        (m.lower_calibration_distance, ONE, {"n_nodes": 1}, "n_nodes must be .* got 1"),
        (COUNTS, ([0.5], [1], [-1]), {}, "ones.*-1 at row 0"),
        (COUNTS, ([0.5], [1.5], [1]), {}, "zeros.*1.5 at row 0"),
        (COUNTS, ([0.5], [0], [0]), {}, "at least one round"),
        (COUNTS, ([0.5, 0.6], [1], [1]), {}, "values and zeros"),
        (m.smooth_calibration_error_from_counts, ([0.5], [-1], [1]), {}, "zeros.*-1 at row 0"),
        (m.CalibrationMonitor, (), {"n_bins": 0}, "n_bins"),
        (m.CalibrationMonitor().counts, (), {}, "no counts before the first round"),
        (m.Counts(*np.full((3, 1), 0.5)).expanded, (), {}, "whole numbers to be expanded"),
        (
            m.decision_losses,
            (*TWO, LossTable(np.eye(2))),
            {},
            "losses must be .*: of a LossTable give the `values`",
        ),
        *(
            (measure, TWO, {name: value}, f"{name} must be .*, got {value!r}")
            for measure in (m.lp_calibration_error, m.lp_calibration_report, m.lp_calibration_interval)
            for name, value in (("p", 0.5), ("p", nan), ("n_bins", 0), ("n_bins", 2.5))
        ),
        (m.lp_calibration_interval, TWO, {"method": "guess"}, "one of normal, proven"),
        (m.lp_calibration_interval, TWO, {"confidence": 1.0}, "between 0 and 1, got 1.0"),
        (m.lp_calibration_interval, TWO, {"n_resamples": 0}, "n_resamples must be a whole"),
        *(
            (
                measure,
                (*TWO, *further),
                {"random_state": seed},
                f"random_state must be a non-neg.*, got {seed!r}",
            )
            for measure, further in ((m.lp_calibration_interval, ()), (m.decision_calibration_error, (2,)))
            for seed in ("one", 0.5, -1, None)
        ),
        (m.decision_losses, (*TWO, [[1, 0], [0]]), {}, "losses must be numbers of shape .* equal lengths"),
        (m.multicalibration_report, (*ONE, [[1]]), {"names": 3}, "a name for each group, in a list, got 3"),
        (m.linf_conditional_error, TWO, {"min_rows": 0}, "min_rows.*0"),
        (m.linf_conditional_error, TWO, {"n_bins": 0}, "n_bins.*0"),
        (m.classwise_calibration_error, TWO, {"n_bins": 0}, "n_bins must be"),
        (m.top_label_calibration_error, TWO, {"n_bins": 0}, "n_bins must be"),
        (
            DISTANCE,
            (np.full((300, 3), 1 / 3), [0, 1, 2] * 100),
            EXACT,
            "'auto' or 'bracket' .*'exact' with 300",
        ),
        (DISTANCE, (np.eye(8), range(8)), EXACT, "for more than 7 classes, got 'exact' with 8"),
        (DISTANCE, (np.eye(3), np.eye(3)), EXACT, "'auto' or 'bracket' with soft labels, got 'exact'"),
        (DISTANCE, (FOUR, np.full((4, 3), 0.5)), {}, r"labels must sum to 1 .* got 1\.5 at row 0"),
        (DISTANCE, (FOUR, np.eye(3)), {}, r"labels must have the shape \(4, 3\) .* got \(3, 3\)"),
        (m.decision_calibration_error, (*TWO, 0), {}, "n_actions must .* 1, got 0"),
        (m.decision_calibration_error, (*TWO, 2), {"partition": "firm"}, "soft, hard, got 'firm'"),
        *(
            (m.decision_loss_gap, (*TWO, losses), {}, message)
            for losses, message in (
                ([[[1.0, np.inf]]], "got .*inf.* at loss 0, action 0, class 1"),
                ([[[1.0, 2.0, 3.0]]], "losses must have a column for each of 2 classes, got 3"),
                ([1.0, 2.0], "losses must be a table of shape"),
                ("cheap", "losses must be numbers"),
            )
        ),
        (confidence_width, (10, 2, 3, 0.0), {}, "delta"),
        *(
            (m.multicalibration_error, (*GROUPED, groups), {}, message)
            for groups, message in (
                (np.ones((2, 1)), "groups must have a row for each of the 3 forecasts, got 2"),
                (np.full((3, 1), 2), "groups must be boolean or 0/1, got .*2.* at row 0, group 0"),
                (np.array([[0], [1], [nan]]), "groups must be boolean or 0/1, got .*nan.* at row 2, group 0"),
                (np.array([[0], [1], [None]]), "groups must be boolean or 0/1, got None at row 2, group 0"),
                (np.empty((3, 0)), "groups must be a table"),
                ([[1], [1, 0], [1]], "a ragged one, with 1 value at row 0 and 2 values at row 1"),
                (np.array([["a"], ["b"], ["c"]]), "0/1, got .a. at row 0, group 0: give each group booleans"),
            )
        ),
        (m.multicalibration_error, (*ONE, [[1]]), {"n_bins": 0}, "n_bins must be a whole number"),
        (m.multicalibration_error, ([0.5], [0.5], [[1]]), {}, "outcomes must be 0/1"),
        (FUNCTIONS, (*ONE, [np.inf]), {}, r"functions must be finite, got .*inf.* at row 0, column 0"),
        (FUNCTIONS, ([0.5, 0.5], [0, 1], [0.0]), {}, "functions must have a row for each of 2 forecasts"),
        (
            m.multicalibration_report,
            (*ONE, [[1]]),
            {"names": ["a", "b"]},
            "names must be one for each of the 1",
        ),
        *(
            (m.chance_level, ([0.5, 0.5], "ece_bins", [0, 1]), options, message)
            for options, message in (
                ({"n_draws": 0}, "n_draws must be a whole number of at least 1, got 0"),
                ({"groups": [1]}, "forecasts and groups"),
                ({"groups": ["a", None]}, "groups must have a value in every row"),
                ({"n_bins": 0}, "n_bins must be"),
                ({"limit": -1.0}, "limit must be a positive number"),
                ({"random_state": -1}, "random_state must be"),
            )
        ),
        (m.chance_level, ([0.5], "ace"), {}, "measure must be one of brier, .*, got 'ace'"),
        (m.chance_level, ([0.5], "brier", [0.5]), {}, "outcomes must be .* 0.5"),
        (m.chance_level, ([1.5], "brier", [1]), {}, "forecasts must lie in"),
    ],
)
def test_settings_and_counts(measure, given, options, message):
    with pytest.raises(ValueError, match=message):
        measure(*given, **options)
