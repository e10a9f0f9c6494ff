"""Outcomes of a column that come late, are missing, or never come: silence that means no, and open rows."""

import sys
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from onlinecal import CalibratedClassifier, LabelWarning, calibration_distance, recalibrate_stream
from tests.wrappers.scripted import Scripted
from tests.wrappers.test_stream import history, late

ROWS = 300

pytestmark = pytest.mark.filterwarnings(
    "ignore:the recalibrated probabilities:onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning"
)

KINDS = [
    (1, {}),
    (1, {"slack": 0.5, "horizon": ROWS}),
    (2, {"strategy": "simplex"}),
    (3, {}),
    (3, {"strategy": "top-label"}),
    (3, {"strategy": "simplex"}),
    (12, {}),
]


def events(y, at, due, absent):
    """When each row is settled, and as what, for a `due` of one row number each; None where it never is."""
    now = max([len(y) - 1, *(at[row] for row in range(len(y)) if y[row] is not None)])
    found = []
    for row, outcome in enumerate(y):
        if due is None:
            found.append(None if outcome is None else (at[row], outcome))
        elif due[row] >= now:
            found.append(None)
        else:
            found.append((due[row], outcome if outcome is not None and at[row] <= due[row] else absent))
    return found


def by_tokens(said, y, at, due, absent, **settings):
    """What a wrapper answers row by row; forecasts that nothing is waited for are withdrawn at once."""
    if said.ndim == 1:
        said, settings = np.column_stack([1.0 - said, said]), {"classes": [0, 1], **settings}
    else:
        settings = {"classes": list(range(said.shape[1])), **settings}
    model = CalibratedClassifier(Scripted(), **settings)
    happens = events(y, at, due, absent)
    order = sorted((each[0], row, each[1]) for row, each in enumerate(happens) if each is not None)
    tokens, answers, certificates = [], [], []
    for row, p in enumerate(said.tolist()):
        tokens.append(model.forecast({"answer": dict(enumerate(p))}))
        answers.append([tokens[-1].answer[label] for label in model.classes])
        if happens[row] is None and due is None:
            model.withdraw(tokens[-1])
        while order and (order[0][0] <= row or row == len(said) - 1):
            _, settled, outcome = order.pop(0)
            model.observe(tokens[settled], outcome)
        certificates.append(model.certificate)
    answers = np.array(answers)
    return (
        (answers[:, 1] if "strategy" not in settings and said.shape[1] == 2 else answers),
        certificates,
        model,
    )


@pytest.mark.parametrize("has_due", [False, True])
@pytest.mark.parametrize("at", [np.arange(ROWS), late(ROWS), np.arange(ROWS) // 50 * 50 + 49])
@pytest.mark.parametrize(("k", "settings"), KINDS)
def test_rows_without_outcome_are_forecast_as_row_by_row(k, settings, at, has_due):
    p, y = history(k, ROWS)
    rng = np.random.default_rng(5)
    y = [None if gone else int(outcome) for gone, outcome in zip(rng.random(ROWS) < 0.6, y, strict=True)]
    due = np.arange(ROWS) + rng.integers(0, 60, ROWS) if has_due else None
    absent = k - 1 if has_due and k > 1 else None
    result = recalibrate_stream(p, y, at, due=due, absent=absent, **settings)
    answers, certificates, model = by_tokens(p, y, at, due, absent or 0, **settings)
    assert np.array_equal(result.probabilities, answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    assert result.guarantee == model.guarantee
    assert result.certificate[-1] <= result.guarantee
    report = result.report()
    assert report.n_rounds == model.n_rounds
    assert report.n_open == ROWS - model.n_rounds
    if has_due:
        assert 0 < report.n_open == model.n_open < 60
        assert 0 < report.n_absent < ROWS
    else:
        assert report.n_absent == 0
        assert report.n_open == sum(each is None for each in y)


def test_the_certificate_speaks_of_the_settled_rows():
    p, y = history(1, ROWS)
    came = np.random.default_rng(1).random(ROWS) < 0.5
    result = recalibrate_stream(p, np.where(came, y, np.nan))
    report = result.report()
    bound = calibration_distance(result.probabilities[came], y[came]).upper
    assert bound <= result.certificate[-1] + 1e-9
    assert report.brier_out == pytest.approx(np.mean((result.probabilities - y)[came] ** 2))
    assert report.brier_in == pytest.approx(np.mean((p - y)[came] ** 2))
    assert report.n_rounds == came.sum()
    assert f"{ROWS - came.sum()} rows not settled yet, or never" in str(report)


def test_rows_that_are_never_settled_do_not_count_as_late_for_ever():
    p, y = history(1, 2_000)
    y = np.where(np.random.default_rng(2).random(2_000) < 0.1, y, np.nan)
    # as if only the rows with an outcome had been there
    alone = recalibrate_stream(p[~np.isnan(y)], y[~np.isnan(y)])
    result = recalibrate_stream(p, y)
    assert result.guarantee == alone.guarantee
    at = np.arange(2_000) + 30
    assert recalibrate_stream(p, y, at).guarantee <= recalibrate_stream(p, np.nan_to_num(y), at).guarantee


def test_an_outcome_that_comes_after_its_row_was_due_does_not_count():
    p, y = history(1, ROWS)
    at = late(ROWS)
    result = recalibrate_stream(p, y, at, due=20)
    report = result.report()
    is_due = np.arange(ROWS) + 20 < at.max()
    is_late = (at > np.arange(ROWS) + 20) & is_due
    assert report.n_absent == report.n_expired == is_late.sum() > 0
    assert f"{is_late.sum()} of them though an outcome came later" in str(report)
    told = np.where(is_late, np.nan, y)
    assert np.array_equal(recalibrate_stream(p, told, at, due=20).probabilities, result.probabilities)


def clicks(rounds=2_000, rate=0.1):
    """Forecasts that know nothing, and outcomes of which only ones are told."""
    rng = np.random.default_rng(4)
    return np.full(rounds, 0.5), np.where(rng.random(rounds) < rate, 1.0, np.nan)


def test_silence_that_counts_as_no_leads_to_the_rate_and_else_to_certainty_with_a_warning():
    p, y = clicks()
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
    frame = pd.Series(listed, dtype="boolean")
    for outcomes in (
        listed,
        pl.Series(listed),
        frame,
        pd.Series(np.where(gone, np.nan, y)),
        frame.astype(object),
    ):
        assert np.array_equal(recalibrate_stream(p, outcomes).probabilities, expected)
    table, numbers = history(3, 60)
    frame = pl.DataFrame(table, list("abc"))
    named = [None if none else "abc"[one] for none, one in zip(gone, numbers, strict=True)]
    expected = recalibrate_stream(table, np.where(gone, np.nan, numbers), due=9, absent=2).probabilities
    for outcomes in (named, pl.Series(named), [one or np.nan for one in named]):
        found = recalibrate_stream(frame, outcomes, due=9, absent="c").probabilities
        assert np.array_equal(found.to_numpy(), expected)


def test_groups_may_have_no_settled_row_at_all():
    p, y = history(1, 90)
    groups = np.arange(90) % 3
    result = recalibrate_stream(p, np.where(groups == 1, np.nan, y), groups=groups)
    reports = result.report().groups
    assert [one.n_rounds for one in reports.values()] == [30, 0, 30]
    assert np.isnan(reports[1].brier_out)
    assert "no row is settled" in str(reports[1])
    assert result.guarantee == sum(one.guarantee for one in reports.values())
    alone = recalibrate_stream(p[groups == 2], y[groups == 2])
    assert np.array_equal(result.probabilities[groups == 2], alone.probabilities)
    nothing = recalibrate_stream(p, [None] * 90)
    assert nothing.report().n_open == 90
    assert nothing.certificate.tolist() == [0.0] * 90
    assert nothing.guarantee == CalibratedClassifier(Scripted(), classes=[0, 1]).guarantee


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"due": [0, 0, 2, 3]}, "due has 0 at row 1, before the forecast .* of row 1"),
        ({"due": [4, 4]}, "probabilities and due must have the same length, got 4 and 2"),
        ({"due": -1}, "due must not be a time before the row's own forecast, got a span of -1"),
        ({"due": float("nan")}, "due must not be .* got a span of nan"),
        ({"due": 1.5}, "due holds no row numbers but 1.5: of times, give the forecasts' as times="),
        ({"due": timedelta(1)}, "due must be a span, a number of rows, or have a time for each row, got"),
        ({"due": 5, "times": [datetime(2024, 1, day) for day in (1, 2, 3, 4)]}, "a timedelta, .* got 5"),
        ({"due": "day"}, "due must be a span, a number of rows, .* got 'day'"),
        ({"absent": 1}, "absent says what silence means .* got 1 and due=None"),
        ({"due": 3, "absent": 2}, "absent must be 0 or 1, got 2"),
        ({"outcomes": [0, 2, None, 1]}, "outcomes must be 0/1 or boolean, got 2 at row 1"),
        ({"outcomes": [0, None, 1, 1], "settled_at": [0, None, None, 3]}, "settled_at has no value at row 2"),
        (
            {"probabilities": np.full((4, 2), 0.5), "due": 3},
            r"absent must be one of the classes \[0, 1\] .* None",
        ),
        ({"probabilities": np.full((4, 2), 0.5), "due": 3, "absent": 2}, r"classes \[0, 1\], got 2"),
    ],
)
def test_bad_times_and_silences_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        recalibrate_stream(**{"probabilities": [0.1, 0.5, 0.5, 0.9], "outcomes": [0, 1, 1, None], **given})


def test_without_pandas_lists_may_lack_outcomes(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = recalibrate_stream([0.8, 0.3, 0.4, 0.6], [1, None, float("nan"), 0]).report()
    assert (report.n_rounds, report.n_open) == (2, 2)
