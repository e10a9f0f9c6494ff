"""Tables of several classes' probabilities are recalibrated as the wrapper would row by row."""

from __future__ import annotations

import pickle
from collections import deque

import numpy as np
import polars as pl
import pytest

from onlinecal import CalibratedClassifier, recalibrate_stream
from tests.wrappers.scripted import Scripted

ROWS = 400

pytestmark = pytest.mark.filterwarnings("ignore:what comes out:onlinecal.LabelWarning")


def table(k, rounds=ROWS, seed=0):
    """Probabilities that say too much, and numbers of classes."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(k), rounds)
    said = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    labels = (truth.cumsum(axis=1) < rng.random((rounds, 1))).sum(axis=1)
    return said, np.minimum(labels, k - 1)


def row_by_row(probabilities, labels, classes, settled_at=None, **settings):
    """What a wrapper answers that knows the classes, its certificates when each row has been settled."""
    model = CalibratedClassifier(Scripted(), classes=classes, **settings)
    at = np.arange(len(labels)) if settled_at is None else settled_at
    rounds = [
        {"answer": dict(zip(classes, p, strict=True)), "row": row}
        for row, p in enumerate(probabilities.tolist())
    ]
    due, answers, certificates = deque(np.argsort(at, kind="stable").tolist()), [], []
    for row, x in enumerate(rounds):
        said = model.predict_proba_one(x)
        answers.append([said[label] for label in classes])
        while due and (at[due[0]] <= row or row == len(labels) - 1):
            known = due.popleft()
            model.learn_one(rounds[known], classes[labels[known]])
        certificates.append(model.certificate)
    return np.array(answers), np.array(certificates), model.guarantee


LATE = np.arange(ROWS) + np.random.default_rng(1).integers(0, 20, ROWS)
SETTINGS = [
    (2, {}),
    (2, {"strategy": "simplex"}),
    (3, {}),
    (3, {"strategy": "top-label", "slack": 0.5, "horizon": ROWS}),
    (3, {"strategy": "simplex", "horizon": ROWS}),
    (4, {"horizon": ROWS}),
    (12, {}),
]


@pytest.mark.parametrize("settled_at", [None, LATE])
@pytest.mark.parametrize(("k", "settings"), SETTINGS)
def test_a_table_is_forecast_as_row_by_row(k, settings, settled_at):
    p, y = table(k)
    classes = [f"class {number}" for number in range(k)]
    frame = pl.DataFrame(p, classes)
    result = recalibrate_stream(frame, [classes[number] for number in y], settled_at, **settings)
    answers, certificates, guarantee = row_by_row(p, y, classes, settled_at, **settings)
    assert isinstance(result.probabilities, pl.DataFrame)
    assert result.probabilities.columns == classes
    assert np.array_equal(result.probabilities.to_numpy(), answers)
    assert np.allclose(result.certificate, certificates, rtol=1e-12)
    assert result.guarantee == guarantee
    assert np.all(result.certificate <= result.guarantee)


def test_two_columns_are_steered_as_one():
    p, y = table(2)
    column = recalibrate_stream(p[:, 1], y)
    both = recalibrate_stream(p, y == 1)
    assert np.array_equal(both.probabilities[:, 1], column.probabilities)
    assert np.array_equal(both.probabilities[:, 0], 1.0 - column.probabilities)
    assert np.array_equal(both.certificate, column.certificate)
    # as a sum over both classes
    assert both.report().brier_in == pytest.approx(2 * column.report().brier_in)
    assert both.report().log_loss_out == column.report().log_loss_out


def test_outcomes_are_names_or_numbers_and_frames_keep_their_names():
    p, y = table(3)
    plain = recalibrate_stream(p, y).probabilities
    assert np.array_equal(recalibrate_stream(p.tolist(), y.tolist()).probabilities, plain)
    assert np.array_equal(recalibrate_stream(pl.DataFrame(p, list("abc")), y).probabilities, plain)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(p, index=np.arange(ROWS)[::-1] * 3, columns=[3, 1, 2])
    names = pd.Series(np.array([3, 1, 2])[y])
    pd.testing.assert_frame_equal(
        recalibrate_stream(frame, names).probabilities,
        pd.DataFrame(plain, index=frame.index, columns=frame.columns),
    )
    # columns 3, 1, 2: whether 0 is the first of them nobody can know
    with pytest.raises(ValueError, match=r"outcomes must be one of the classes \[3, 1, 2\], got 0 at row"):
        recalibrate_stream(frame, y)


def test_each_group_of_a_table_has_forecasters_of_its_own():
    p, y = table(4)
    groups = np.random.default_rng(2).choice(["b", "a"], ROWS)
    result = recalibrate_stream(p, y, groups=groups)
    for key, report in result.report().groups.items():
        rows = groups == key
        alone = recalibrate_stream(p[rows], y[rows])
        assert np.array_equal(result.probabilities[rows], alone.probabilities)
        assert report == alone.report()
    assert pickle.loads(pickle.dumps(result)).report() == result.report()
    assert result.guarantee == sum(one.guarantee for one in result.report().groups.values())


def test_the_report_of_a_table():
    p, y = table(3, 3000)
    result = recalibrate_stream(p, y)
    report, out, came = result.report(), result.probabilities, np.eye(3)[y]
    assert report.brier_in == pytest.approx(((p - came) ** 2).sum(axis=1).mean())
    assert report.brier_out == pytest.approx(((out - came) ** 2).sum(axis=1).mean())
    assert report.log_loss_out == pytest.approx(-np.log(out[np.arange(3000), y]).mean())
    assert report.brier_constant == pytest.approx(((came.mean(axis=0) - came) ** 2).sum(axis=1).mean())
    assert report.brier_out < report.brier_in
    assert report.log_loss_out < report.log_loss_in


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probabilities": [[1.0]] * 3}, "at least 2, got 1: for two classes a flat column"),
        ({"probabilities": [[0.5, 0.5], [0.5, 0.6], [1.0, 0.0]]}, "sum to 1 in every row, got 1.1 at row 1"),
        ({"probabilities": [[0.5, 0.5], [1.5, -0.5], [1.0, 0.0]]}, "got 1.5 at row 1, class 0"),
        ({"probabilities": [[0.5, 0.5], [np.nan, 0.5], [1.0, 0.0]]}, "got nan at row 1, class 0"),
        ({"probabilities": [[0.5, 0.5], [0.5], [1.0, 0.0]]}, "probabilities must be .* got a ragged one"),
        ({"probabilities": np.full((3, 2, 2), 0.5)}, r"probabilities must be .* shape \(3, 2, 2\)"),
        ({"outcomes": [0, 1, 2]}, "outcomes must be .*, got 2 at row 2"),
        ({"outcomes": [0, 1, "up"]}, "outcomes must be .*, got 'up' at row 2"),
        ({"outcomes": [0, 1, np.nan]}, "outcomes must be .*, got nan at row 2"),
        ({"outcomes": [0, 1]}, "probabilities and outcomes must have the same length, got 3 and 2"),
        ({"probabilities": pl.DataFrame({"1": [1.0] * 3, "2": [0.0] * 3})}, "classes .*, got 0 at row 0"),
        ({"strategy": "all"}, "strategy must be one of"),
        ({"probabilities": np.full((3, 4), 0.25), "strategy": "binary"}, "two classes, got a table of 4"),
        ({"probabilities": [0.5] * 3, "strategy": "classwise"}, r"shape \(T, k\), got a column"),
    ],
)
def test_bad_input_is_named(changed, message):
    given = {"probabilities": [[0.2, 0.8]] * 3, "outcomes": [0, 1, 1], **changed}
    with pytest.raises(ValueError, match=message):
        recalibrate_stream(**given)


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


def test_soft_labels_are_refused_with_who_takes_them():
    said, _ = table(3)
    with pytest.raises(ValueError, match=r"outcomes must have one label a row, got shape \(400, 3\)"):
        recalibrate_stream(said, said)
