"""Outcomes of a column that are missing: silence that means no from a time on, and rows that stay open.

That these are forecast as row by row is tried in test_stream.py.
"""

import sys
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from onlinecal import LabelWarning, recalibrate_stream
from onlinecal.wrappers.settling import read_moments, settling_of
from tests.wrappers.test_stream import history, late

ROWS = 300

pytestmark = pytest.mark.filterwarnings(
    "ignore:the recalibrated probabilities:onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning"
)


def test_the_report_speaks_of_the_settled_rows():
    (p, y), at = history(1, ROWS), late(ROWS)
    came = np.random.default_rng(1).random(ROWS) < 0.5
    result = recalibrate_stream(p, np.where(came, y, np.nan))
    report = result.report()
    assert report.brier_out == pytest.approx(np.mean((result.probabilities - y)[came] ** 2))
    assert report.brier_in == pytest.approx(np.mean((p - y)[came] ** 2))
    assert f"{ROWS - came.sum()} rows not settled yet, or never" in str(report)
    report = recalibrate_stream(p, y, settled_at=at, due=20).report()
    is_late = (at > np.arange(ROWS) + 20) & (np.arange(ROWS) + 20 < at.max())
    assert report.n_absent == report.n_expired == is_late.sum() > 0
    assert f"{is_late.sum()} of them though an outcome came later" in str(report)


def test_silence_that_counts_as_no_leads_to_the_rate_and_else_to_certainty_with_a_warning():
    # forecasts that know nothing, and outcomes of which only ones are told
    p, y = np.full(2_000, 0.5), np.where(np.random.default_rng(4).random(2_000) < 0.1, 1.0, np.nan)
    settled = recalibrate_stream(p, y, due=20)
    assert not any("forecasts have none" in remark for remark in settled.report().remarks)
    # though each report comes at once, and each silence 20 rows later
    assert settled.probabilities[1_000:].mean() == pytest.approx(0.1, abs=0.02)
    with pytest.warns(LabelWarning, match="forecasts have none: if only what happened .* due= says"):
        given_up = recalibrate_stream(p, y)
    assert given_up.probabilities[1_000:].mean() > 0.9


def test_forecasts_do_not_change_when_the_log_grows():
    p, y = history(1, ROWS)
    y = np.where(y == 1, 1.0, np.nan)
    whole = recalibrate_stream(p, y, due=25).probabilities
    for rows in (1, 20, 150):
        assert np.array_equal(recalibrate_stream(p[:rows], y[:rows], due=25).probabilities, whole[:rows])


def test_outcomes_that_become_known_to_the_same_forecast_are_learnt_in_the_order_of_their_times():
    found = settling_of(5, None, read_moments(5, [9, 5, 3, 9, 11], [0, 1, 2, 8, 10], None))
    assert found.rows.tolist() == [2, 1, 0, 3, 4]
    assert found.known.tolist() == [3, 3, 4, 4, 5]


def test_due_is_a_span_or_a_time_for_each_row():
    p, y = history(1, ROWS)
    y = np.where(y == 1, 1.0, np.nan)
    expected = recalibrate_stream(p, y, due=np.arange(ROWS) + 24).probabilities
    start = datetime(2024, 1, 1)
    times = [start + timedelta(hours=row) for row in range(ROWS)]
    known = [time if outcome == 1 else None for time, outcome in zip(times, y, strict=True)]
    day = timedelta(days=1)
    for given in (
        {"due": 24},
        {"due": 24.0, "times": np.arange(ROWS)},
        {"due": day, "times": times, "settled_at": known},
        {"due": np.timedelta64(1, "D"), "times": pl.Series(times), "settled_at": pl.Series(known)},
        {"due": [time + day for time in times], "times": np.array(times, "datetime64[ns]")},
    ):
        assert np.array_equal(recalibrate_stream(p, y, **given).probabilities, expected)


def test_missing_outcomes_are_none_nan_or_null():
    pd = pytest.importorskip("pandas")
    p, y = history(1, 60)
    gone = np.random.default_rng(6).random(60) < 0.4
    expected = recalibrate_stream(p, np.where(gone, np.nan, y)).probabilities
    listed = [None if none else bool(one) for none, one in zip(gone, y, strict=True)]
    nullable = pd.Series(listed, dtype="boolean")
    of_pandas = pd.Series(np.where(gone, np.nan, y)), nullable, nullable.astype(object)
    for outcomes in (listed, pl.Series(listed), *of_pandas):
        assert np.array_equal(recalibrate_stream(p, outcomes).probabilities, expected)
    table, numbers = history(3, 60)
    named = [None if none else "abc"[one] for none, one in zip(gone, numbers, strict=True)]
    expected = recalibrate_stream(table, np.where(gone, np.nan, numbers), due=9, absent=2).probabilities
    for outcomes in (named, pl.Series(named), [one or np.nan for one in named]):
        found = recalibrate_stream(
            pl.DataFrame(table, list("abc")), outcomes, due=9, absent="c"
        ).probabilities
        assert np.array_equal(found.to_numpy(), expected)


def test_groups_may_have_no_settled_row_at_all():
    (p, y), groups = history(1, 90), np.arange(90) % 3
    result = recalibrate_stream(p, np.where(groups == 1, np.nan, y), groups=groups)
    reports = result.report().groups
    assert [one.n_rounds for one in reports.values()] == [30, 0, 30]
    assert np.isnan(reports[1].brier_out)
    assert "no row is settled" in str(reports[1])
    assert result.guarantee == sum(one.guarantee for one in reports.values())
    nothing = recalibrate_stream(p, [None] * 90)
    assert (nothing.report().n_open, nothing.certificate.max()) == (90, 0.0)


TABLE = np.full((4, 2), 0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"due": [0, 0, 2, 3]}, "due has 0 at row 1, before the forecast .* of row 1"),
        ({"due": -1}, "due must be a span of at least 0 after a row's own forecast, got -1"),
        (
            {"due": 1.5},
            "due must hold row numbers, got 1.5 at row 0: if these are times, give the times of the",
        ),
        ({"due": timedelta(1)}, "due must be a span .a number of rows. or have a time for each row, got"),
        ({"due": 5, "times": [datetime(2024, 1, day) for day in (1, 2, 3, 4)]}, "a timedelta. .* got 5"),
        ({"due": "day"}, "due must be a span .a number of rows. .* got 'day'"),
        ({"absent": 1}, "absent=1 needs due"),
        ({"due": 3, "absent": 2}, "absent must be 0 or 1, got 2"),
        ({"outcomes": [0, None, 1, 1], "settled_at": [0, None, None, 3]}, "settled_at has no value at row 2"),
        ({"probabilities": TABLE, "due": 3}, r"absent must be one of the classes \[0, 1\] .* None"),
        ({"probabilities": TABLE, "due": 3, "absent": 2}, r"classes \[0, 1\], got 2"),
    ],
)
def test_bad_times_and_silences_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        recalibrate_stream(**{"probabilities": [0.1, 0.5, 0.5, 0.9], "outcomes": [0, 1, 1, None], **given})


def test_without_pandas_lists_may_lack_outcomes(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = recalibrate_stream([0.8, 0.3, 0.4, 0.6], [1, None, float("nan"), 0]).report()
    assert (report.n_rounds, report.n_open) == (2, 2)
