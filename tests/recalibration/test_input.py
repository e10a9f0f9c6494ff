"""What recalibrators take for rows, and what they say of anything else: culprit, cause, remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from onlinecal import BoostedRecalibrator, DecisionRecalibrator, GroupRecalibrator, LpRecalibrator
from onlinecal.measures import group_mean_error, multicalibration_error, multicalibration_report
from onlinecal.recalibration import TemperatureScaling

p = np.array([0.1, 0.5, 0.9, 0.3] * 10)
P, y = np.column_stack([1 - p, p]), np.array([0, 1, 1, 0] * 10)
GROUPS, FEATURES = np.ones((40, 1)), np.random.default_rng(0).random((40, 2))
TABLES = [TemperatureScaling, LpRecalibrator, DecisionRecalibrator]
NAMES = np.where(y == 1, "yes", "no")


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (100 * P, r"P must lie in \[0, 1\], got 90.0 at row 0, class 0: are they percent\? divide by 100"),
        (np.log(P), "got -0.10.* at row 0, class 0: are they scores or log odds"),
        ([[0.5, 0.5], [None, 1.0]] * 20, "got None at row 1, class 0: leave the row out"),
        ([["0.5", "0.5"]] * 40, "got '0.5' at row 0, class 0: make numbers of texts"),
        ("probabilities.csv", "P must be a table, got the text 'probabilities.csv': a file is read first"),
        ({"no": 1 - p, "yes": p}, r"got a dict with the keys \['no', 'yes'\]: pandas.DataFrame"),
        (p, r"got shape \(40,\): for two classes give numpy.column_stack\(\[1 - P, P\]\)"),
    ],
)
def test_tables_that_are_none(kind, table, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(table, y)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (NAMES, "got 'no' at row 0: name the columns of P by classes=, or give P as a data frame"),
        (2 * y - 1, r"got -1 at row 0: of -1 and 1 make \(y \+ 1\) // 2"),
        (y + 1, r"got 2 at row 1: are they counted from 1\?"),
        ([0, None, 1, 1] * 10, "got None at row 1: leave the row out"),
        ("labels.csv", "y must be a column, got the text 'labels.csv': a file is read first"),
        ({0: 1}, r"y must be a column, got a dict with the keys \[0\]"),
    ],
)
def test_labels_that_are_none(kind, labels, message):
    with pytest.raises(ValueError, match=message):
        kind().fit(P, labels)


def test_arguments_in_the_wrong_order():
    with pytest.raises(ValueError, match="P must be a table and y a column, got them the other way round"):
        LpRecalibrator().fit(y, P)
    with pytest.raises(ValueError, match=r"got 0.1 at row 0.*are probabilities and outcomes swapped\?"):
        GroupRecalibrator().fit(y, p, GROUPS)


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (NAMES, "got 'no' at row 0: texts are compared first, as y == 'yes'"),
        (2 * y - 1, r"got -1 at row 0: of -1 and 1 make \(y \+ 1\) // 2"),
        (y + 1, "got 2 at row 1: of 1 and 2 make y - 1"),
        ([0, None, 1, 1] * 10, "got None at row 1: leave the row out"),
    ],
)
def test_outcomes_that_are_none(outcomes, message):
    with pytest.raises(ValueError, match="y must be 0/1 or boolean, " + message):
        GroupRecalibrator().fit(p, outcomes, GROUPS)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (100 * p, r"got 10.0 at row 0: are they percent\? divide by 100"),
        ([0.5, None, 0.3, 0.1] * 10, "got None at row 1: leave the row out"),
        ("p.csv", "must be a column, got the text 'p.csv': a file is read first"),
        ({"p": p}, r"must be a column, got a dict with the keys \['p'\]"),
    ],
)
def test_columns_of_forecasts_that_are_none(column, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator().fit(column, y, GROUPS)
    with pytest.raises(ValueError, match=message):
        BoostedRecalibrator().fit(FEATURES, y, column)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("region", "groups must be a table, got the text 'region'"),
        ({"region": ["north"] * 40}, "groups must be a table, got a dict with the keys"),
        (["north", "south"] * 20, "got values like np.str_.'north'.: categories are given as a data frame"),
    ],
)
def test_groups_that_are_none(groups, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator().fit(p, y, groups)


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
        (P, y),
        (P, np.eye(2)[y]),
        (frames(p[:, None], ["p"])[number], frames(y[:, None], ["y"])[number]),
        (p[:, None], y == 1),
    ):
        model = GroupRecalibrator.as_in_paper(0.01).fit(forecasts, outcomes, groups)
        assert np.array_equal(model.predict(forecasts, groups), alone.predict(p, groups))
        assert str(model.report(forecasts, outcomes, groups)) == str(alone.report(p, y, groups))
    with pytest.raises(
        ValueError, match=r"p must have the columns \['no', 'yes'\] of fit, got \['yes', 'no'\]"
    ):
        GroupRecalibrator().fit(named, NAMES, groups).predict(frames(P, ["yes", "no"])[number], groups)


@pytest.mark.parametrize("kind", [pd.Series, lambda values: pl.Series("", values)])
def test_a_series_of_categories_is_a_frame_of_one_column(kind):
    side = ["left", "right"] * 20
    model = GroupRecalibrator.as_in_paper(0.01).fit(p, y, kind(side))
    assert len(model.group_names_) == 3
    assert np.array_equal(
        model.predict(p, kind(side)),
        GroupRecalibrator.as_in_paper(0.01)
        .fit(p, y, pd.DataFrame({"side": side}))
        .predict(p, pd.DataFrame({"side": side})),
    )


@pytest.mark.parametrize("kind", TABLES)
def test_pandas_objects_of_other_rows_are_refused(kind):
    table, shuffled = pd.DataFrame(P), pd.Series(y, index=range(40, 0, -1))
    with pytest.raises(ValueError, match="P and y must have the same index, since rows are matched by pos"):
        kind().fit(table, shuffled)
    with pytest.raises(ValueError, match="p and y must have the same index"):
        GroupRecalibrator().fit(pd.Series(p), shuffled, GROUPS)
    kind().fit(table, pd.Series(y))


def test_groups_and_features_of_other_rows_are_refused():
    elsewhere = pd.DataFrame({"a": np.arange(40) % 2 == 0}, index=range(40, 0, -1))
    forecasts, model = pd.Series(p), GroupRecalibrator().fit(p, y, elsewhere)
    for call in (
        lambda: GroupRecalibrator().fit(forecasts, y, elsewhere),
        lambda: model.predict(forecasts, elsewhere),
        lambda: BoostedRecalibrator().fit(elsewhere, pd.Series(y)),
        lambda: multicalibration_error(forecasts, y, elsewhere),
        lambda: multicalibration_report(forecasts, y, elsewhere),
        lambda: group_mean_error(forecasts, y, elsewhere),
    ):
        with pytest.raises(ValueError, match="must have the same index, since rows are matched by position"):
            call()
