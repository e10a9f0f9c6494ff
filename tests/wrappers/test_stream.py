"""Whole columns and tables are recalibrated as the wrapper would row by row, outcomes in time and late."""

import pickle
from collections import deque
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
from onlinecal.wrappers.strategies import projection
from onlinecal.wrappers.strategies.catalogue import KINDS
from tests.wrappers.scripted import Scripted

ROWS = 400

pytestmark = pytest.mark.filterwarnings(
    "ignore:the recalibrated probabilities:onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning"
)
"""Short columns may come out worse than they came in."""


def column(rounds=ROWS, seed=0):
    """Probabilities that say too much, and outcomes."""
    rng = np.random.default_rng(seed)
    p = rng.random(rounds)
    return p, (rng.random(rounds) < 0.25 + p / 2).astype(int)


def table(k, rounds=ROWS, seed=0):
    """The same of k classes, and their numbers."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(k), rounds)
    said = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((rounds, 1))).sum(axis=1)
    return said, np.minimum(labels, k - 1)


def history(k, rounds=ROWS):
    """Of one class a column, else a table."""
    return column(rounds) if k == 1 else table(k, rounds)


def row_by_row(said, labels, settled_at=None, groups=None, **settings):
    """What wrappers, one a group, answer if each outcome comes after the row `settled_at`.

    With the sum of their certificates after each row, and the wrappers.
    """
    if said.ndim == 1:
        classes, known = [False, True], {"strategy": "binary"}
        said = np.column_stack([1.0 - said, said])
    else:
        classes = list(range(said.shape[1]))
        known = {"classes": classes}
    groups = np.zeros(len(said)) if groups is None else groups
    models = {key: CalibratedClassifier(Scripted(), **known, **settings) for key in groups.tolist()}
    at = np.arange(len(said)) if settled_at is None else np.asarray(settled_at)
    rounds = [{"answer": dict(zip(classes, p, strict=True)), "row": t} for t, p in enumerate(said.tolist())]
    due, answers, certificates = deque(np.argsort(at, kind="stable").tolist()), [], []
    for t, x in enumerate(rounds):
        answer = models[groups[t]].predict_proba_one(x)
        answers.append(answer[True] if "strategy" in known else [answer[label] for label in classes])
        while due and (at[due[0]] <= t or t == len(rounds) - 1):
            row = due.popleft()
            models[groups[row]].learn_one(rounds[row], classes[labels[row]])
        certificates.append(sum(model.certificate for model in models.values()))
    return np.array(answers), np.array(certificates), models


def late(rounds=ROWS, most=40, seed=1):
    return np.arange(rounds) + np.random.default_rng(seed).integers(0, most, rounds)


SETTINGS = [
    (1, {}),
    (1, {"slack": 0.5, "horizon": ROWS}),
    (2, {}),
    (2, {"strategy": "simplex"}),
    (3, {}),
    (3, {"strategy": "top-label", "slack": 0.5, "horizon": ROWS}),
    (3, {"strategy": "simplex", "horizon": ROWS}),
    (4, {"horizon": ROWS}),
    (12, {}),
]


@pytest.mark.parametrize("settled_at", [None, late(), np.arange(ROWS) // 100 * 100 + 99, np.full(ROWS, 5000)])
@pytest.mark.parametrize(("k", "settings"), SETTINGS)
def test_columns_and_tables_are_forecast_as_row_by_row(k, settings, settled_at):
    p, y = history(k)
    result = recalibrate_stream(p, y, settled_at, **settings)
    answers, certificates, models = row_by_row(p, y, settled_at, **settings)
    (model,) = models.values()
    assert np.array_equal(result.probabilities, answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    assert result.certificate[-1] == pytest.approx(model.certificate, rel=0 if k == 1 else 1e-12)
    assert result.guarantee == model.guarantee
    assert np.all(result.certificate <= result.guarantee)


@pytest.mark.parametrize("settled_at", [None, late()])
@pytest.mark.parametrize("k", [1, 4])
def test_each_group_has_forecasters_of_its_own(k, settled_at):
    p, y = history(k)
    groups = np.random.default_rng(2).choice(["b", "a", "c"], ROWS, p=[0.6, 0.2, 0.2])
    result = recalibrate_stream(p, y, settled_at, groups=groups)
    report = result.report()
    assert list(report.groups) == list(dict.fromkeys(groups.tolist()))
    answers, certificates, models = row_by_row(p, y, settled_at, groups)
    assert np.array_equal(result.probabilities, answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    for key, one in report.groups.items():
        assert one.n_rounds == np.sum(groups == key)
        assert one.certificate == pytest.approx(models[key].certificate, rel=1e-12)
        assert one.guarantee == models[key].guarantee
        if settled_at is None:
            assert one == recalibrate_stream(p[groups == key], y[groups == key]).report()
    assert result.guarantee == sum(one.guarantee for one in report.groups.values())
    assert pickle.loads(pickle.dumps(result)).report() == report


def test_rows_of_one_match_do_not_leak_into_each_other():
    rng = np.random.default_rng(3)
    match = np.repeat(np.arange(64), 100)
    y = rng.integers(0, 2, 64)[match]
    p = np.clip(0.5 + 0.1 * rng.standard_normal(6400), 0, 1)
    leaky = recalibrate_stream(p, y).report()
    result = recalibrate_stream(p, y, settled_at=match * 100 + 99)
    assert leaky.brier_out < 0.1 < 0.22 < result.report().brier_out
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


def test_columns_come_out_as_what_they_were():
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


def test_outcomes_of_tables_are_names_or_numbers_and_frames_keep_their_names():
    p, y = table(3)
    plain = recalibrate_stream(p, y).probabilities
    assert np.array_equal(recalibrate_stream(p.tolist(), y.tolist()).probabilities, plain)
    assert np.array_equal(recalibrate_stream(pl.DataFrame(p, list("abc")), y).probabilities, plain)
    named = recalibrate_stream(pl.DataFrame(p, list("abc")), ["abc"[number] for number in y]).probabilities
    assert isinstance(named, pl.DataFrame)
    assert named.columns == list("abc")
    assert np.array_equal(named.to_numpy(), plain)
    arrow = pytest.importorskip("pyarrow")
    told = arrow.table({name: p[:, number] for number, name in enumerate("abc")})
    assert recalibrate_stream(told, y).probabilities.column_names == list("abc")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(p, index=np.arange(ROWS)[::-1] * 3, columns=[3, 1, 2])
    with pytest.raises(ValueError, match="probabilities and outcomes must have the same index"):
        recalibrate_stream(frame, pd.Series(y))
    names = pd.Series(np.array([3, 1, 2])[y], index=frame.index)
    pd.testing.assert_frame_equal(
        recalibrate_stream(frame, names).probabilities,
        pd.DataFrame(plain, index=frame.index, columns=frame.columns),
    )
    # columns 3, 1, 2: whether 0 is the first of them nobody can know
    with pytest.raises(ValueError, match=r"outcomes must be one of the classes \[3, 1, 2\], got 0 at row"):
        recalibrate_stream(frame, y)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_report_compares_what_comes_in_and_out(k):
    p, y = history(k, 3000)
    result = recalibrate_stream(p, y)
    report, out = result.report(), result.probabilities
    came, of_label = (np.eye(k)[y], out[np.arange(3000), y]) if k > 1 else (y, np.where(y, out, 1 - out))

    def squares(q):
        return ((q - came) ** 2).reshape(3000, -1).sum(axis=1).mean()

    assert report.n_rounds == 3000
    assert report.brier_in == pytest.approx(squares(p))
    assert report.brier_out == pytest.approx(squares(out))
    assert report.log_loss_out == pytest.approx(-np.log(of_label).mean())
    assert report.brier_constant == pytest.approx(squares(came.mean(axis=0)))
    shares = np.bincount(y) / 3000
    assert report.log_loss_constant == pytest.approx(-(shares * np.log(shares)).sum())
    assert report.brier_out < report.brier_in
    assert report.log_loss_out < report.log_loss_in
    assert report.remarks == ()
    assert f"after         {report.brier_out:12.4f}{report.log_loss_out:10.4f}" in str(report)


def test_what_comes_out_worse_is_warned_of():
    rng, (_, y) = np.random.default_rng(4), column(2000)
    with pytest.warns(LabelWarning, match="worse than the given ones") as warned:
        worse = recalibrate_stream((y + 0.01 * rng.random(2000)) / 1.01, y, np.full(2000, 2000), slack=0.5)
    assert warned[0].filename == __file__
    assert worse.report().remarks == tuple(str(one.message) for one in warned)


TIMES = {"times": [1, 2, 3, 4]}
OF_COLUMNS = [
    ({"probabilities": [0.5, 0.5, 1.5, 0.5]}, r"probabilities must lie in \[0, 1\], got 1.5 at row 2"),
    ({"probabilities": [0.5]}, "probabilities and outcomes must have the same length, got 1 and 4"),
    ({"outcomes": [0, 1, 2, 0]}, "outcomes must be 0/1 or boolean, got 2 at row 2"),
    ({"outcomes": [0, 1, 0.5, 0]}, "got 0.5 at row 2: .* between 0 and 1 go with AlmostOneStepAhead"),
    ({"settled_at": [0, 1, 2]}, "probabilities and settled_at must have the same length, got 4 and 3"),
    ({"settled_at": [0, 0, 2, 3]}, "settled_at has 0 at row 1, before the forecast .* of row 1"),
    ({"settled_at": [0, 1.5, 2, 3]}, "settled_at holds no row numbers .* give the forecasts' as times="),
    ({"settled_at": [0, None, 2, 3]}, "settled_at has no value at row 1"),
    ({"settled_at": [1, 2, np.nan, 4.0], **TIMES}, "settled_at has no value at row 2"),
    ({"settled_at": [1, 2, 2, 4], **TIMES}, "settled_at has 2 at row 2, before .* of times 3"),
    ({"settled_at": [9, 9, 9, 9], "times": [1, 3, 2, 4]}, "times must not decrease, got 2 at row 2 after 3"),
    ({"settled_at": list("abcd"), **TIMES}, "settled_at and 'times' cannot be compared: String and Int64"),
    (TIMES, "times say nothing without settled_at"),
    ({"groups": ["a", "b"]}, "probabilities and groups must have the same length, got 4 and 2"),
    ({"groups": ["a", None, "a", "b"]}, "groups must name a key for every row, got None at row 1"),
    ({"groups": ["a", {}, "a", "b"]}, "groups must be keys with a hash, got {} at row 1"),
    ({"slack": 0.2}, "slack must be"),
    ({"horizon": 0}, "horizon must be"),
]
OF_TABLES = [
    ({"probabilities": [[1.0]] * 3}, "at least 2, got 1: for two classes a flat column"),
    ({"probabilities": [[0.5, 0.5], [0.5, 0.6], [1.0, 0.0]]}, "sum to 1 in every row, got 1.1 at row 1"),
    ({"probabilities": [[0.5, 0.5], [np.nan, 0.5], [1.0, 0.0]]}, "got nan at row 1, class 0"),
    ({"probabilities": [[0.5, 0.5], [0.5], [1.0, 0.0]]}, "probabilities must be .* got a ragged one"),
    ({"probabilities": np.full((3, 2, 2), 0.5)}, r"probabilities must be .* shape \(3, 2, 2\)"),
    ({"outcomes": [0, 1, 2]}, "outcomes must be .*, got 2 at row 2"),
    ({"outcomes": [0, 1, "up"]}, "outcomes must be .*, got 'up' at row 2"),
    ({"outcomes": np.full((3, 2), 0.5)}, r"outcomes must have one label a row, got shape \(3, 2\)"),
    ({"probabilities": pl.DataFrame({"1": [1.0] * 3, "2": [0.0] * 3})}, "classes .*, got 0 at row 0"),
    ({"strategy": "all"}, "strategy must be one of"),
    ({"probabilities": np.full((3, 4), 0.25), "strategy": "binary"}, "two classes, got a table of 4"),
    ({"probabilities": [0.5] * 3, "strategy": "classwise"}, r"shape \(T, k\), got a column"),
]


@pytest.mark.parametrize(
    ("given", "changed", "message"),
    [
        *(({"probabilities": [0.1, 0.5, 0.5, 0.9], "outcomes": [0, 1, 1, 1]}, *case) for case in OF_COLUMNS),
        *(({"probabilities": [[0.2, 0.8]] * 3, "outcomes": [0, 1, 1]}, *case) for case in OF_TABLES),
    ],
)
def test_bad_input_is_named(given, changed, message):
    with pytest.raises(ValueError, match=message):
        recalibrate_stream(**{**given, **changed})


@pytest.mark.parametrize("k, played", [(1, "binary"), (2, "binary"), (3, "classwise")])
def test_no_strategies_are_made_that_are_not_played(monkeypatch, k, played):
    monkeypatch.setattr("onlinecal.wrappers.stream.KINDS", {played: KINDS[played]})
    p, y = np.random.default_rng(0).dirichlet(np.ones(max(k, 2)), 50), np.arange(50) % max(k, 2)
    assert len(recalibrate_stream(p[:, 1] if k == 1 else p, y).probabilities) == 50


def test_declared_classes_are_known_before_the_first_round():
    model = CalibratedClassifier(Scripted(), classes=["no", "yes"])
    x = {"answer": {"no": 0.9, "yes": 0.1}}
    assert set(model.predict_proba_one(x)) == {"no", "yes"}
    assert set(model.forecasts_one(x)) == {"yes"}
    state = model.certificate, model.n_rounds
    with pytest.raises(ValueError, match=r"y must be one of the classes \['no', 'yes'\], got 'maybe'"):
        model.learn_one(x, "maybe")
    assert (model.certificate, model.n_rounds) == state
    for classes in (["a"], ["a", "a"], "ab", [None, 1]):
        with pytest.raises(ValueError, match="classes must"):
            CalibratedClassifier(Scripted(), classes=classes)


def test_a_column_compiles_nothing_that_plays_single_rounds(monkeypatch):
    """Which would take longer than the replay."""
    monkeypatch.setattr(projection, "steered", None)
    p, y = np.linspace(0.0, 1.0, 50), np.arange(50) % 2
    assert len(recalibrate_stream(p, y).probabilities) == 50
    assert len(recalibrate_stream(p, y, np.arange(50) + 5).probabilities) == 50
