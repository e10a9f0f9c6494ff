"""What decisions by a threshold promise and what they cost: the theorem on all short sequences; bad input."""

import itertools

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, calibration_distance, recalibrate_stream, threshold_costs
from onlinecal.decisions import decision_bound

THRESHOLDS = np.linspace(0.0, 1.0, 21)
WIDTHS = 0.01, 0.05, 0.3, 1.0


def gap(p, y, threshold, width):
    """How far promised and realised costs are apart, a sum over rounds."""
    promised, realised = threshold_costs(p, y, threshold, width)
    return len(p) * abs(promised - realised)


def test_all_outcomes_keep_what_the_certificate_promises_of_every_threshold():
    largest = 0.0
    for outcomes in itertools.product((0, 1), repeat=7):
        forecaster, p = AlmostOneStepAhead(n_cells=4, hints=False), []
        for y in outcomes:
            token = forecaster.forecast()
            p.append(token.probability)
            forecaster.observe(token, y)
        distance = calibration_distance(p, outcomes).upper
        for width in WIDTHS:
            found = max(gap(p, outcomes, threshold, width) for threshold in THRESHOLDS)
            assert found <= decision_bound(distance, width) + 1e-9
            assert found <= forecaster.decision_certificate(width) + 1e-9
            largest = max(largest, found / decision_bound(distance, width)) if distance > 1e-9 else largest
    # the test could fail: half of the bound is reached
    assert largest > 0.3
    assert decision_bound(3.0, 0.25) == 15.0


def test_costs_are_those_of_each_decision_averaged_over_the_jitter():
    rng = np.random.default_rng(0)
    p, y = rng.random(50), rng.integers(0, 2, 50)
    jitter = (np.arange(20_000) + 0.5) / 20_000 * 0.2 - 0.1
    acts = (p[:, None] >= 0.4 + jitter).mean(axis=1)
    promised, realised = threshold_costs(p, y, 0.4, 0.2)
    assert promised == pytest.approx(np.mean(acts * 0.4 * (1 - p) + (1 - acts) * 0.6 * p), abs=1e-4)
    assert realised == pytest.approx(np.mean(acts * 0.4 * (1 - y) + (1 - acts) * 0.6 * y), abs=1e-4)


def test_a_stream_says_the_same_per_row():
    rng = np.random.default_rng(1)
    said = rng.random(4000)
    result = recalibrate_stream(said, rng.random(4000) < said)
    expected = decision_bound(result.certificate[-1], 0.05) / 4000
    assert result.decision_certificate(0.05, normalize=True) == expected
    assert result.report().decision_certificate(0.05) == pytest.approx(4000 * expected)
    assert f"differ by at most {expected:.4f} per row" in result._repr_html_()
    table = recalibrate_stream(np.full((30, 3), 1 / 3), rng.integers(0, 3, 30))
    with pytest.raises(ValueError, match=r"needs a column .* recalibrate the column of the class"):
        table.decision_certificate(0.05)


def test_widths_and_thresholds_that_cannot_be():
    for width in (0.0, -0.1, 1.5, float("nan"), "wide"):
        with pytest.raises(ValueError, match="width must be a width above 0 and at most 1"):
            decision_bound(1.0, width)
    with pytest.raises(ValueError, match="width must be"):
        threshold_costs([0.5], [1], 0.5, 0.0)
    with pytest.raises(ValueError, match="threshold must be a number from 0 to 1, got 20"):
        threshold_costs([0.5], [1], 20, 0.05)
