"""What recalibrators take for rows, and what they say of anything else: culprit, cause, remedy."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from onlinecal import (
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    RecalibratedClassifierCV,
    decision_calibration_error,
    decision_loss_gap,
)
from onlinecal.measures import group_mean_error, multicalibration_error, multicalibration_report
from onlinecal.recalibration import (
    AveragedCalibration,
    BetaCalibration,
    DirichletCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
    VectorScaling,
    gaussian_losses,
)
from tests.recalibration.test_starting import source

p = np.array([0.1, 0.5, 0.9, 0.3] * 10)
P, y = np.column_stack([1 - p, p]), np.array([0, 1, 1, 0] * 10)
GROUPS, FEATURES = np.ones((40, 1)), np.random.default_rng(0).random((40, 2))
TABLES = [TemperatureScaling, LpRecalibrator, DecisionRecalibrator]
NAMES = np.where(y == 1, "yes", "no")

OF_TABLES = [
    (100 * P, y, r"X must lie in \[0, 1\], got 90.0 at row 0, class 0: are they percent\? divide by 100"),
    (np.log(P), y, "got -0.10.* at row 0, class 0: are they scores or log odds"),
    ([[0.5, 0.5], [None, 1.0]] * 20, y, "got None at row 1, class 0: leave the row out"),
    ([["0.5", "0.5"]] * 40, y, "got '0.5' at row 0, class 0: turn texts into numbers first"),
    ("p.csv", y, "X must be a table, got the text 'p.csv': if it names a file, read it first"),
    ({"no": 1 - p, "yes": p}, y, r"got a dict with the keys \['no', 'yes'\]: give pandas.DataFrame"),
    (P[:, :1], y, r"X must sum to 1 in every row, got .*: for two classes give numpy.column_stack"),
    ([["0.5", 0.5], ["half", 0.5]] * 20, y, "got .half. at row 1, class 0: turn texts into numbers first"),
    (p, y, r"got shape \(40,\): for two classes give numpy.column_stack\(\[1 - X, X\]\)"),
    (y, P, "X must be a table and y a column, got them the other way round"),
    (P, NAMES, "got 'no' at row 0: name the columns of X with classes=, or give X as a data frame"),
    (P, 2 * y - 1, r"got -1 at row 0: for -1 and 1 give \(y \+ 1\) // 2"),
    (P, y + 1, r"got 2 at row 1: are they counted from 1\?"),
    (P, [0, None, 1, 1] * 10, "got None at row 1: leave the row out"),
    (P, "labels.csv", "y must be a column, got the text 'labels.csv': if it names a file, read it first"),
    (P, {0: 1}, r"y must be a column, got a dict with the keys \[0\]"),
]


EVERY_KIND = [
    *TABLES, AveragedCalibration, BetaCalibration, BoostedRecalibrator, DirichletCalibration,
    GroupRecalibrator, PerClassIsotonic, RecalibratedClassifierCV, TopLabelIsotonic, VectorScaling,
]  # fmt: skip
GIVEN = {"X": P, "y": y, "groups": GROUPS, "n_rows": 40, "loss": np.eye(2), "path": "model.bin"}
ASKED = [
    "compress", "get_feature_names_out", "members", "predict", "predict_proba", "report", "save", "score",
    "staged_predict_proba", "transform",
]  # fmt: skip


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_question_before_the_fit_is_answered_with_the_error_for_that(kind):
    model = kind(LogisticRegression()) if kind is RecalibratedClassifierCV else kind()
    asked = [getattr(model, name) for name in ASKED if hasattr(model, name)]
    assert len(asked) >= 3
    for question in asked:
        parameters = inspect.signature(question).parameters.values()
        wanted = {one.name: GIVEN[one.name] for one in parameters if one.default is one.empty}
        with pytest.raises(NotFittedError):
            list(question(**wanted))


@pytest.mark.parametrize("kind", TABLES)
def test_tables_and_labels_that_are_none(kind):
    for table, labels, message in OF_TABLES:
        with pytest.raises(ValueError, match=message):
            kind().fit(table, labels)


@pytest.mark.parametrize("kind", [*TABLES, AveragedCalibration])
@pytest.mark.parametrize("classes", [2, np.nan, True])
def test_classes_that_are_no_list_are_named(kind, classes):
    with pytest.raises(ValueError, match=f"classes must be the labels of the columns .*, got {classes!r}"):
        kind(classes=classes).fit(P, y)
    assert kind(classes=iter(["no", "yes"])).fit(P, NAMES).classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("seed", ["one", 0.5, -1])
def test_a_seed_of_losses_that_is_none_is_named(seed):
    with pytest.raises(ValueError, match=f"random_state must be .*, got {seed!r}"):
        gaussian_losses(2, 3, random_state=seed)


OF_GROUPS = [
    (y, p, GROUPS, r"got 0.1 at row 0.*are probabilities and outcomes swapped\?"),
    (
        p,
        NAMES,
        GROUPS,
        "y must be 0/1 or boolean, got 'no' at row 0: compare texts first, as in y == 'yes'",
    ),
    (p, 2 * y - 1, GROUPS, r"got -1 at row 0: for -1 and 1 give \(y \+ 1\) // 2"),
    (p, y + 1, GROUPS, "y must be 0/1 or boolean, got 2 at row 1: for 1 and 2 give y - 1"),
    (p, [0, None, 1, 1] * 10, GROUPS, "got None at row 1: leave the row out"),
    (100 * p, y, GROUPS, r"got 10.0 at row 0: are they percent\? divide by 100"),
    ([0.5, None, 0.3, 0.1] * 10, y, GROUPS, "got None at row 1: leave the row out"),
    ("p.csv", y, GROUPS, "must be a column, got the text 'p.csv': if it names a file, read it first"),
    ({"p": p}, y, GROUPS, r"must be a column, got a dict with the keys \['p'\]"),
    (p, y, "region", "groups must be a table, got the text 'region'"),
    (p, y, {"region": ["north"] * 40}, "groups must be a table, got a dict with the keys"),
    (p, y, ["north", "south"] * 20, "0/1, got 'north' at row 0, group 0: give categories as a data frame"),
]


@pytest.mark.parametrize(("forecasts", "outcomes", "groups", "message"), OF_GROUPS)
def test_what_are_no_forecasts_outcomes_or_groups(forecasts, outcomes, groups, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator().fit(forecasts, outcomes, groups)
    if outcomes is y and groups is GROUPS:
        with pytest.raises(ValueError, match=message):
            BoostedRecalibrator().fit(FEATURES, y, forecasts)


def frames(table, names):
    return pd.DataFrame(table, columns=names), pl.DataFrame(table, schema=names)


@pytest.mark.parametrize("number", [0, 1])
def test_names_frames_and_one_hot_tables_are_as_good_as_numbers(number):
    plain = LpRecalibrator().fit(P, y).predict_proba(P)
    named = frames(P, ["no", "yes"])[number]
    one_hot = frames(np.eye(2, dtype=int)[y], ["no", "yes"])[number]
    column = frames(NAMES[:, None], ["label"])[number]
    for labels in (NAMES, NAMES.tolist(), one_hot, column):
        assert np.array_equal(LpRecalibrator().fit(named, labels).predict_proba(named), plain)
    groups = np.column_stack([np.arange(40) % 3 == 0, np.arange(40) % 2 == 0])
    alone = GroupRecalibrator.as_in_paper(0.01).fit(p, y, groups)
    assert alone.n_patches_ > 0
    for forecasts, outcomes in (
        (named, NAMES),
        (named, one_hot),
        (P, np.eye(2)[y]),
        (frames(p[:, None], ["p"])[number], frames(y[:, None], ["y"])[number]),
        (p[:, None], y == 1),
    ):
        model = GroupRecalibrator.as_in_paper(0.01).fit(forecasts, outcomes, groups)
        after, expected = model.predict_proba(forecasts, groups), alone.predict_proba(p, groups)
        assert after.shape == (np.shape(forecasts) if forecasts is named or forecasts is P else (40,))
        assert np.array_equal(after[:, 1] if after.ndim == 2 else after, expected)
        assert str(model.report(forecasts, outcomes, groups)) == str(alone.report(p, y, groups))
    turned = frames(P, ["yes", "no"])[number]
    with pytest.raises(ValueError, match=r"X must have the columns \['no', 'yes'\] of fit, got \['yes'"):
        GroupRecalibrator().fit(named, NAMES, groups).predict_proba(turned, groups)


def test_tables_groups_and_features_of_other_rows_are_refused():
    elsewhere = pd.DataFrame({"a": np.arange(40) % 2 == 0}, index=range(40, 0, -1))
    table, shuffled = pd.DataFrame(P), pd.Series(y, index=range(40, 0, -1))
    forecasts, model = pd.Series(p), GroupRecalibrator().fit(p, y, elsewhere)
    for call in (
        *(lambda kind=kind: kind().fit(table, shuffled) for kind in TABLES),
        lambda: GroupRecalibrator().fit(forecasts, shuffled, GROUPS),
        lambda: GroupRecalibrator().fit(forecasts, y, elsewhere),
        lambda: model.predict_proba(forecasts, elsewhere),
        lambda: BoostedRecalibrator().fit(elsewhere, pd.Series(y)),
        lambda: multicalibration_error(forecasts, y, elsewhere),
        lambda: multicalibration_report(forecasts, y, elsewhere),
        lambda: group_mean_error(forecasts, y, elsewhere),
    ):
        with pytest.raises(ValueError, match="must have the same index, since rows are matched by position"):
            call()


WEIGHTED = {
    "temperature": TemperatureScaling(),
    "vector": VectorScaling(),
    "Dirichlet": DirichletCalibration(),
    "isotonic": PerClassIsotonic(),
    "top label": TopLabelIsotonic(),
    "beta": BetaCalibration(),
    "lp": LpRecalibrator(start="temperature", share=1.0),
    "lp, constant": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.01),
    "decision, as in the paper": DecisionRecalibrator.as_in_paper(2, 0.02, partition="hard", max_rounds=1),
    "decision, soft": DecisionRecalibrator.as_in_paper(2, 0.02, max_rounds=2),
    "decision, given losses": DecisionRecalibrator.as_in_paper(losses=1.0 - np.eye(4), max_rounds=3),
}
CHOSEN = {
    "lp, folds": LpRecalibrator(),
    "decision, folds": DecisionRecalibrator(n_actions=2, max_rounds=2, cv=2),
}

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@pytest.mark.parametrize("name", [*WEIGHTED, *CHOSEN])
def test_whole_weights_are_repeated_rows_and_rows_of_weight_0_are_left_out(name):
    table, labels = source(150)
    model = (WEIGHTED | CHOSEN)[name]
    plain = model.fit(table[:100], labels[:100]).predict_proba(table)
    ones = np.repeat([1.0, 0.0], [100, 50])
    assert np.abs(model.fit(table, labels, ones).predict_proba(table) - plain).max() < 1e-6
    if name in CHOSEN:
        return
    weights = np.random.default_rng(0).integers(0, 4, 150)
    repeated = model.fit(np.repeat(table, weights, axis=0), np.repeat(labels, weights))
    expected = repeated.predict_proba(table)
    # scipy's optimiser ends near its minimum, not at it
    close = 1e-3 if name in ("vector", "Dirichlet", "beta") else 1e-7
    assert np.abs(model.fit(table, labels, weights).predict_proba(table) - expected).max() < close
    assert np.abs(model.fit(table, labels).predict_proba(table) - expected).max() > close


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], r"sample_weight must be at least 0 and finite, got -1\.0 at row 1"),
        ([1.0, np.nan, 1.0], "sample_weight must be at least 0 and finite, got nan at row 1"),
        ([1.0, 1.0], "sample_weight must have a weight for each of 3 rows, got 2"),
        ([0, 0, 0], "sample_weight must be positive for some row, got zero for all"),
        (["a", "b", "c"], "sample_weight must be numbers, got 'a'"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        TemperatureScaling().fit(np.full((3, 2), 0.5), [0, 1, 1], weights)


def sure_source(n):
    """Probabilities that are far too sure, so that corrections run into the faces of the simplex."""
    table, labels = source(n, power=6.0)
    table = table + 0.02 * np.eye(4)[0]
    return table / table.sum(axis=1, keepdims=True), labels


MODELS = {
    "decision": DecisionRecalibrator(n_actions=2),
    "decision, full steps": DecisionRecalibrator(
        n_actions=3, epsilon=0.2, start="none", step="full", cv=0, keep=0
    ),
    "lp": LpRecalibrator.as_in_paper(n_levels=3, tolerance=0.002, within="shift"),
    "temperature": TemperatureScaling(),
    "top label": TopLabelIsotonic(),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_label_gets_probability_0(name):
    table, labels = sure_source(400)
    answers = MODELS[name].fit(table[:100], labels[:100]).predict_proba(table)
    assert answers.min() > 0
    assert np.abs(answers.sum(axis=1) - 1).max() < 1e-12
    if name == "decision, full steps":
        assert answers.min() >= MODELS[name].floor_ == 1 / (4 * 101)


@pytest.mark.parametrize("given", [False, True])
def test_a_floor_costs_the_guarantee_one_row_at_most(given):
    table, labels = sure_source(40)
    losses = gaussian_losses(2, 4, 30) if given else None
    plain = {"epsilon": 0.05, "losses": losses}
    bare = DecisionRecalibrator.as_in_paper(2, **plain).fit(table, labels)
    model = DecisionRecalibrator.as_in_paper(2, floor=True, **plain).fit(table, labels)
    assert model.reached_
    assert bare.predict_proba(table).min() == 0
    answers = model.predict_proba(table)
    allowed = 0.05 + np.sqrt(1 - 1 / 4) / 41
    if given:
        assert decision_loss_gap(answers, labels, losses).max() <= allowed
    else:
        assert np.array_equal(answers, (1 - 4 * model.floor_) * bare.predict_proba(table) + model.floor_)
        # linear scores of the floored rows are linear scores of the rows: regions are the same
        left = decision_calibration_error(bare.predict_proba(table), labels, 2, partition="hard")
        found = decision_calibration_error(answers, labels, 2, partition="hard")
        assert found <= left + np.sqrt(1 - 1 / 4) / 41 + 1e-9


def test_a_fit_that_is_refused_while_it_learns_leaves_all_attributes():
    rng = np.random.default_rng(0)
    table, labels = rng.dirichlet([1.0, 1.0, 1.0], 60), rng.integers(0, 3, 60)
    model = LpRecalibrator(random_state=np.int64(3)).fit(table, labels).set_params(estimation="pools")
    before, answers = dict(vars(model)), model.predict_proba(table)
    with pytest.raises(ValueError, match="sample_weight must be None with estimation='pools'"):
        model.fit(table, labels, np.full(60, 2.0))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert (model.predict_proba(table) == answers).all()
