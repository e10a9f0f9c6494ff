"""Whole columns are recalibrated as the wrapper would row by row, with outcomes in time and late."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from onlinecal import CalibratedClassifier, LabelWarning, calibration_distance, recalibrate_stream
from tests.wrappers.scripted import Said

ROWS = 900

pytestmark = pytest.mark.filterwarnings("ignore:what comes out:onlinecal.LabelWarning")
"""Short columns may come out worse than they came in."""


def column(rounds=ROWS, seed=0):
    """Probabilities that say too much, and outcomes."""
    rng = np.random.default_rng(seed)
    p = rng.random(rounds)
    return p, (rng.random(rounds) < 0.25 + p / 2).astype(int)


def row_by_row(p, y, settled_at=None, groups=None, **settings):
    """What wrappers, one a group, answer if each outcome comes after the row `settled_at`; the wrappers."""
    groups = np.zeros(len(p)) if groups is None else groups
    models = {key: CalibratedClassifier(Said(), strategy="binary", **settings) for key in groups.tolist()}
    at = np.arange(len(p)) if settled_at is None else np.asarray(settled_at)
    rounds = [{"p": float(q), "row": t} for t, q in enumerate(p)]
    due, answers = deque(np.argsort(at, kind="stable").tolist()), []
    for t, x in enumerate(rounds):
        answers.append(models[groups[t]].predict_proba_one(x)[True])
        while due and (at[due[0]] <= t or t == len(p) - 1):
            row = due.popleft()
            models[groups[row]].learn_one(rounds[row], bool(y[row]))
    return np.array(answers), models


def late(rounds=ROWS, most=40, seed=1):
    return np.arange(rounds) + np.random.default_rng(seed).integers(0, most, rounds)


@pytest.mark.parametrize("settled_at", [None, late(), np.arange(ROWS) // 100 * 100 + 99, np.full(ROWS, 5000)])
@pytest.mark.parametrize("settings", [{}, {"slack": 0.5, "horizon": ROWS}])
def test_a_column_is_forecast_as_row_by_row(settled_at, settings):
    p, y = column()
    result = recalibrate_stream(p, y, settled_at, **settings)
    answers, models = row_by_row(p, y, settled_at, **settings)
    (model,) = models.values()
    assert np.array_equal(result.probabilities, answers)
    assert (result.certificate[-1], result.guarantee) == (model.certificate, model.guarantee)
    assert np.all(result.certificate <= result.guarantee)


def test_the_certificate_is_that_of_the_rows_settled_so_far():
    p, y = column(300)
    for settled_at in (None, late(300)):
        result = recalibrate_stream(p, y, settled_at)
        for t in (0, 17, 150, 299):
            at = np.arange(300) if settled_at is None else settled_at
            seen = (at <= t) | (t == 299)
            bound = calibration_distance(result.probabilities[seen], y[seen]).upper if seen.any() else 0.0
            assert bound <= result.certificate[t] + 1e-9
        if settled_at is None:
            assert result.certificate[149] == recalibrate_stream(p[:150], y[:150]).certificate[-1]


@pytest.mark.parametrize("settled_at", [None, late()])
def test_each_group_has_a_forecaster_of_its_own(settled_at):
    p, y = column()
    groups = np.random.default_rng(2).choice(["b", "a", "c"], ROWS, p=[0.7, 0.2, 0.1])
    result = recalibrate_stream(p, y, settled_at, groups=groups)
    report = result.report()
    assert list(report.groups) == list(dict.fromkeys(groups.tolist()))
    answers, models = row_by_row(p, y, settled_at, groups)
    assert np.array_equal(result.probabilities, answers)
    for key, one in report.groups.items():
        assert one.n_rounds == np.sum(groups == key)
        assert (one.certificate, one.guarantee) == (models[key].certificate, models[key].guarantee)
    assert result.certificate[-1] == pytest.approx(sum(one.certificate for one in report.groups.values()))
    assert result.guarantee == sum(one.guarantee for one in report.groups.values())


def test_rows_of_one_match_do_not_leak_into_each_other():
    rng = np.random.default_rng(3)
    match = np.repeat(np.arange(64), 100)
    y = rng.integers(0, 2, 64)[match]
    p = np.clip(0.5 + 0.1 * rng.standard_normal(6400), 0, 1)
    leaky = recalibrate_stream(p, y).report()
    result = recalibrate_stream(p, y, settled_at=match * 100 + 99)
    assert leaky.brier_out < 0.1 < 0.22 < result.report().brier_out
    assert np.array_equal(result.probabilities, row_by_row(p, y, match * 100 + 99)[0])
    # nothing that is said within a match depends on its own outcome
    other = np.where(match == 63, 1 - y, y)
    again = recalibrate_stream(p, other, settled_at=match * 100 + 99)
    assert np.array_equal(again.probabilities, result.probabilities)


def test_times_settle_as_row_numbers_do():
    p, y = column()
    start = datetime(2024, 1, 1)
    at = late()
    expected = recalibrate_stream(p, y, at).probabilities
    times = [start + timedelta(hours=row) for row in range(ROWS)]
    settled = [start + timedelta(hours=int(row)) for row in at]
    minutes = np.arange(ROWS) * 60.0
    for when, made in (
        (settled, times),
        (np.array(settled, dtype="datetime64[s]"), np.array(times, dtype="datetime64[s]")),
        (pl.Series(settled), pl.Series(times)),
        (at * 60.0, minutes),
    ):
        assert np.array_equal(recalibrate_stream(p, y, when, times=made).probabilities, expected)
    # within the gap before a forecast, outcomes are settled in the order of their times
    p, y, hours = p[:2], [0, 1], [0.0, 1.0]
    first = recalibrate_stream(p, y, [5.0, 4.0], times=hours)
    assert first.certificate[0] == 0.0 < first.certificate[1]


def test_what_comes_in_comes_out_as_what_it_was():
    p, y = column(50)
    plain = recalibrate_stream(p, y).probabilities
    assert isinstance(plain, np.ndarray)
    assert np.array_equal(recalibrate_stream(p.tolist(), y.tolist()).probabilities, plain)
    series = recalibrate_stream(pl.Series("risk", p), pl.Series(y == 1)).probabilities
    assert isinstance(series, pl.Series)
    assert series.name == "risk"
    assert np.array_equal(series.to_numpy(), plain)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"risk": p, "came": y, "day": pd.date_range("2024-01-01", periods=50, tz="UTC")})
    frame = frame.set_index(np.arange(50)[::-1] * 3)
    answer = recalibrate_stream(frame["risk"], frame["came"], frame["day"], times=frame["day"]).probabilities
    pd.testing.assert_series_equal(answer, pd.Series(plain, index=frame.index, name="risk"))


def test_the_report_compares_and_warns():
    rng = np.random.default_rng(4)
    p, y = column(2000)
    report = recalibrate_stream(p, y).report()
    assert report.n_rounds == 2000
    assert report.brier_in == pytest.approx(np.mean((p - y) ** 2))
    assert report.brier_out < report.brier_in
    assert report.brier_constant == pytest.approx(np.var(y))
    assert report.log_loss_constant == pytest.approx(
        -np.mean(y * np.log(y.mean()) + (1 - y) * np.log(1 - y.mean()))
    )
    assert report.remarks == ()
    assert f"came out      {report.brier_out:12.4f}{report.log_loss_out:10.4f}" in str(report)
    with pytest.warns(LabelWarning, match="worse than what came in") as warned:
        worse = recalibrate_stream((y + 0.01 * rng.random(2000)) / 1.01, y, np.full(2000, 2000), slack=0.5)
    assert warned[0].filename == __file__
    assert worse.report().remarks == tuple(str(one.message) for one in warned)


TIMES = {"times": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probabilities": [0.5, 0.5, 1.5, 0.5]}, r"probabilities must lie in \[0, 1\], got 1.5 at row 2"),
        ({"probabilities": [0.5, np.nan, 1.5, 0.5]}, r"probabilities must lie in \[0, 1\], got nan at row 1"),
        ({"probabilities": [0.5]}, "probabilities and outcomes must have the same length, got 1 and 4"),
        ({"outcomes": [0, 1, 2, 0]}, "outcomes must be 0/1 or boolean, got 2 at row 2"),
        ({"outcomes": [0, 1, np.nan, 0]}, "outcomes must be 0/1 or boolean, got nan at row 2"),
        ({"outcomes": [0, 1, 0.5, 0]}, "got 0.5 at row 2: .* between 0 and 1 go with AlmostOneStepAhead"),
        ({"settled_at": [0, 1, 2]}, "probabilities and settled_at must have the same length, got 4 and 3"),
        ({"settled_at": [0, 0, 2, 3]}, "settled_at has 0 at row 1, before the forecast .* of row 1"),
        ({"settled_at": [0, 1.5, 2, 3]}, "settled_at holds no row numbers .* give the forecasts' as times="),
        ({"settled_at": [0, None, 2, 3]}, "settled_at has no value at row 1"),
        ({"settled_at": [1, 2, np.nan, 4.0], **TIMES}, "settled_at has no value at row 2"),
        ({"settled_at": [1, 2, 2, 4], **TIMES}, "settled_at has 2 at row 2, before .* of times 3"),
        (
            {"settled_at": [9, 9, 9, 9], "times": [1, 3, 2, 4]},
            "times must not decrease, got 2 at row 2 after 3",
        ),
        (
            {"settled_at": list("abcd"), **TIMES},
            "settled_at and 'times' cannot be compared: String and Int64",
        ),
        (TIMES, "times say nothing without settled_at"),
        ({"groups": ["a", "b"]}, "probabilities and groups must have the same length, got 4 and 2"),
        ({"groups": ["a", None, "a", "b"]}, "groups must name a key for every row, got None at row 1"),
        ({"groups": ["a", {}, "a", "b"]}, "groups must be keys with a hash, got {} at row 1"),
        ({"slack": 0.2}, "slack must be"),
        ({"horizon": 0}, "horizon must be"),
    ],
)
def test_bad_input_is_named(changed, message):
    given = {"probabilities": [0.1, 0.5, 0.5, 0.9], "outcomes": [0, 1, 1, 1], **changed}
    with pytest.raises(ValueError, match=message):
        recalibrate_stream(**given)


def test_of_a_column_no_strategies_are_made_that_are_not_played(monkeypatch):
    p, y = column(50)
    monkeypatch.delattr("onlinecal.wrappers.stream.new_strategies")
    assert len(recalibrate_stream(p, y).probabilities) == 50
