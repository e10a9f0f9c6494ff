"""Columns and tables are recalibrated as the wrapper would row by row: outcomes in time, late or never."""

import pickle
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from onlinecal import CalibratedClassifier, LabelWarning, recalibrate_stream
from onlinecal.wrappers.strategies import projection
from tests.wrappers.scripted import Scripted

ROWS = 150

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


def late(rounds=ROWS, most=40, seed=1):
    return np.arange(rounds) + np.random.default_rng(seed).integers(0, most, rounds)


def settled(y, at, due, absent):
    """When each row is settled, and as what; None where it never is."""
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


def row_by_row(said, y, at=None, due=None, absent=0, groups=None, **settings):
    """What wrappers, one a group, answer; the sum of their certificates after each row; and the wrappers.

    Each outcome comes after the row `at`; forecasts that nothing is waited for are withdrawn at once.
    """
    is_column = said.ndim == 1
    if is_column:
        said = np.column_stack([1.0 - said, said])
    classes, keys = list(range(said.shape[1])), [0] * len(said) if groups is None else groups.tolist()
    models = {key: CalibratedClassifier(Scripted(), classes=classes, **settings) for key in keys}
    happens = settled(y, np.arange(len(said)) if at is None else at, due, absent)
    order = sorted((each[0], row, each[1]) for row, each in enumerate(happens) if each is not None)
    tokens, answers, certificates = [], [], []
    for row, p in enumerate(said.tolist()):
        model = models[keys[row]]
        tokens.append(model.forecast({"answer": dict(enumerate(p))}))
        answers.append([tokens[-1].answer[label] for label in classes])
        if happens[row] is None and due is None:
            model.withdraw(tokens[-1])
        while order and (order[0][0] <= row or row == len(said) - 1):
            _, place, outcome = order.pop(0)
            models[keys[place]].observe(tokens[place], outcome)
        certificates.append(sum(model.certificate for model in models.values()))
    answers = np.array(answers)
    return answers[:, 1] if is_column else answers, certificates, models


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
    (1, {"prior": (0.5, 0.1)}),
    (2, {"prior": (0.5, 0.1)}),
    (3, {"prior": (dict.fromkeys(range(3), 1 / 3), {0: 0.6, 1: 0.3, 2: 0.1})}),
]


MOMENTS = {"in time": None, "late": late(), "after the end": np.full(ROWS, 5000)}
COMES = ("all", "some", "due")
COMBINED = [
    pytest.param(*setting, when, come, marks=() if (i + j + number) % 3 == 0 else pytest.mark.slow)
    for number, setting in enumerate(SETTINGS)
    for i, when in enumerate(MOMENTS)
    for j, come in enumerate(COMES)
]
"""All of them; by default every time and every share of outcomes with every setting, not each with each."""


@pytest.mark.parametrize(("k", "settings", "when", "come"), COMBINED)
def test_columns_are_forecast_as_row_by_row(k, settings, when, come):
    at = MOMENTS[when]
    (p, y), rng = history(k), np.random.default_rng(5)
    gone = rng.random(ROWS) < (0.0 if come == "all" else 0.6)
    y = [None if none else outcome for none, outcome in zip(gone, y.tolist(), strict=True)]
    due = np.arange(ROWS) + rng.integers(0, 60, ROWS) if come == "due" else None
    absent = k - 1 if come == "due" and k > 1 else None
    result = recalibrate_stream(p, y, settled_at=at, due=due, absent=absent, **settings)
    answers, certificates, models = row_by_row(p, y, at, due, absent or 0, **settings)
    model, report = models[0], result.report()
    assert np.array_equal(result.probabilities, answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    assert np.all(result.certificate <= result.guarantee)
    assert result.guarantee == model.guarantee
    assert (report.n_rounds, report.n_open) == (model.n_rounds, ROWS - model.n_rounds)
    if come == "due":
        assert model.n_open == report.n_open < 60
        assert 0 < report.n_absent <= ROWS
    else:
        assert (report.n_absent, report.n_open) == (0, gone.sum())


@pytest.mark.parametrize("at", [None, late()])
@pytest.mark.parametrize("k", [1, 4])
def test_each_group_has_forecasters_of_its_own(k, at):
    p, y = history(k)
    groups = np.random.default_rng(2).choice(["b", "a", "c"], ROWS, p=[0.6, 0.2, 0.2])
    result = recalibrate_stream(p, y, settled_at=at, groups=groups)
    report = result.report()
    assert list(report.groups) == list(dict.fromkeys(groups.tolist()))
    answers, certificates, models = row_by_row(p, y.tolist(), at, groups=groups)
    assert np.array_equal(result.probabilities, answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    for key, one in report.groups.items():
        assert one.n_rounds == np.sum(groups == key)
        assert one.certificate == pytest.approx(models[key].certificate, rel=1e-12)
        assert one.guarantee == models[key].guarantee
        if at is None:
            assert one == recalibrate_stream(p[groups == key], y[groups == key]).report()
    assert result.guarantee == sum(one.guarantee for one in report.groups.values())
    assert pickle.loads(pickle.dumps(result)).report() == report


def test_times_settle_as_row_numbers_do():
    (p, y), at, start = column(), late(), datetime(2024, 1, 1)
    expected = recalibrate_stream(p, y, settled_at=at).probabilities
    times, settled = ([start + timedelta(hours=int(row)) for row in rows] for rows in (range(ROWS), at))
    for when, made in (
        (settled, times),
        (np.array(settled, "datetime64[s]"), np.array(times, "datetime64[s]")),
        (pl.Series(settled), pl.Series(times)),
        (at * 60.0, np.arange(ROWS) * 60.0),
    ):
        assert np.array_equal(recalibrate_stream(p, y, settled_at=when, times=made).probabilities, expected)
    # within the gap before a forecast, outcomes are settled in the order of their times
    first = recalibrate_stream(p[:2], [0, 1], settled_at=[5.0, 4.0], times=[0.0, 1.0])
    assert first.certificate[0] == 0.0 < first.certificate[1]


def test_columns_come_out_as_what_they_were():
    p, y = column(50)
    plain = recalibrate_stream(p, y).probabilities
    assert np.array_equal(recalibrate_stream(p.tolist(), y.tolist()).probabilities, plain)
    series = recalibrate_stream(pl.Series("risk", p), pl.Series(y == 1)).probabilities
    assert series.equals(pl.Series("risk", plain), check_names=True)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"risk": p, "came": y, "day": pd.date_range("2024-01-01", periods=50, tz="UTC")})
    frame = frame.set_index(np.arange(50)[::-1] * 3)
    answer = recalibrate_stream(
        frame["risk"], frame["came"], settled_at=frame["day"], times=frame["day"]
    ).probabilities
    pd.testing.assert_series_equal(answer, pd.Series(plain, index=frame.index, name="risk"))


def test_outcomes_of_tables_are_names_or_numbers_and_frames_keep_their_names():
    p, y = table(3)
    plain = recalibrate_stream(p, y).probabilities
    frame = pl.DataFrame(p, list("abc"))
    assert np.array_equal(recalibrate_stream(p.tolist(), y.tolist()).probabilities, plain)
    for outcomes in (y, ["abc"[number] for number in y]):
        assert recalibrate_stream(frame, outcomes).probabilities.equals(pl.DataFrame(plain, list("abc")))
    pytest.importorskip("pyarrow")
    assert recalibrate_stream(frame.to_arrow(), y).probabilities.column_names == list("abc")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(p, index=np.arange(ROWS)[::-1] * 3, columns=[3, 1, 2])
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
    shares = np.bincount(y) / 3000

    def squares(q):
        return pytest.approx(((q - came) ** 2).reshape(3000, -1).sum(axis=1).mean())

    # it compares with what was given, which is the model's own
    prior = (0.5, 0.4) if k < 3 else (dict.fromkeys(range(3), 1 / 3),) * 2
    assert report.brier_in == squares(p) == recalibrate_stream(p, y, prior=prior).report().brier_in
    assert report.brier_out == squares(out)
    assert report.brier_constant == squares(came.mean(axis=0))
    assert report.log_loss_out == pytest.approx(-np.log(of_label).mean())
    assert report.log_loss_constant == pytest.approx(-(shares * np.log(shares)).sum())
    assert report.brier_out < report.brier_in
    assert report.log_loss_out < report.log_loss_in
    assert (report.n_rounds, report.remarks) == (3000, ())
    assert f"after         {report.brier_out:12.4f}{report.log_loss_out:10.4f}" in str(report)


def test_costs_of_decisions_are_told_where_their_bound_says_something():
    p, y = np.tile([0.25, 0.75], 1000), np.tile([0, 1], 1000)
    told = "promised and realised cost differ by at most"
    assert told in recalibrate_stream(p, y)._repr_html_()
    assert told not in recalibrate_stream(p[:2], y[:2])._repr_html_()


def test_what_comes_out_worse_is_warned_of():
    rng, (_, y) = np.random.default_rng(4), column(2000)
    with pytest.warns(LabelWarning, match="worse than the given ones") as warned:
        worse = recalibrate_stream(
            (y + 0.01 * rng.random(2000)) / 1.01, y, settled_at=np.full(2000, 2000), slack=0.5
        )
    assert warned[0].filename == __file__
    assert worse.report().remarks == tuple(str(one.message) for one in warned)


TIMES = {"times": [1, 2, 3, 4]}
OF_COLUMNS = [
    ({"probabilities": [0.5, 0.5, 1.5, 0.5]}, r"probabilities must lie in \[0, 1\], got 1.5 at row 2"),
    ({"outcomes": [0, 1, 2, 0]}, "outcomes must be 0/1 or boolean, got 2 at row 2"),
    ({"outcomes": [0, 1, 0.5, 0]}, "outcomes must be 0/1 or boolean, got 0.5 at row 2"),
    ({"settled_at": [0, 0, 2, 3]}, "settled_at has 0 at row 1, before the forecast .* of row 1"),
    (
        {"settled_at": [0, 1.5, 2, 3]},
        "settled_at must hold row numbers, got 1.5 at row 1: .* give the times of the forecasts as times=",
    ),
    ({"settled_at": [0, None, 2, 3]}, "settled_at has no value at row 1"),
    ({"settled_at": [1, 2, 2, 4], **TIMES}, "settled_at has 2 at row 2, before .* of times 3"),
    ({"settled_at": [9, 9, 9, 9], "times": [1, 3, 2, 4]}, "times must not decrease, got 2 at row 2 after 3"),
    ({"settled_at": [1, 2, timedelta(1), 4], **TIMES}, "must hold times alone, or numbers alone, got 1 at"),
    ({"settled_at": list("abcd"), **TIMES}, "settled_at has 'a' at row 0, which cannot be read as a time"),
    (
        {"probabilities": 0.5, "outcomes": None},
        "probabilities must be a column, .T,., or a table, .* got 0.5",
    ),
    ({"probabilities": np.full((2, 2, 2), 0.5)}, r"or a table, \(T, k\), got shape \(2, 2, 2\)"),
    (TIMES, "times needs settled_at or due"),
    ({"groups": ["a", None, "a", "b"]}, "groups must have a key for every row, got None at row 1"),
    ({"groups": ["a", {}, "a", "b"]}, "groups must be keys with a hash, as .* got {} at row 1"),
    ({"slack": 0.2}, "slack must be"),
]
OF_TABLES = [
    ({"probabilities": [[1.0]] * 3}, "at least 2, got 1: for two classes give the column of outcome 1 alone"),
    ({"probabilities": [[0.5, 0.5], [0.5, 0.6], [1.0, 0.0]]}, "sum to 1 in every row, got 1.1 at row 1"),
    ({"probabilities": [[0.5, 0.5], [0.5], [1.0, 0.0]]}, "got .* 2 values at row 0 and 1 value at row 1"),
    ({"outcomes": [0, 1, 2]}, "outcomes must be .*, got 2 at row 2"),
    ({"outcomes": np.full((3, 2), 0.5)}, r"outcomes must be .*\(3, 2\)"),
    ({"probabilities": pl.DataFrame({"1": [1.0] * 3, "2": [0.0] * 3})}, "classes .*, got 0 at row 0"),
    ({"strategy": "all"}, "strategy must be one of"),
    ({"probabilities": np.full((3, 4), 0.25), "strategy": "binary"}, "two classes, got probabilities of 4"),
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


def test_a_column_compiles_nothing_that_plays_single_rounds(monkeypatch):
    """Which would take longer than the replay."""
    monkeypatch.setattr(projection, "steered", None)
    p, y = np.linspace(0.0, 1.0, 50), np.arange(50) % 2
    assert len(recalibrate_stream(p, y).probabilities) == 50
    assert len(recalibrate_stream(p, y, settled_at=np.arange(50) + 5).probabilities) == 50
