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

OF_TABLES = [
    (100 * P, y, r"P must lie in \[0, 1\], got 90.0 at row 0, class 0: are they percent\? divide by 100"),
    (np.log(P), y, "got -0.10.* at row 0, class 0: are they scores or log odds"),
    ([[0.5, 0.5], [None, 1.0]] * 20, y, "got None at row 1, class 0: leave the row out"),
    ([["0.5", "0.5"]] * 40, y, "got '0.5' at row 0, class 0: make numbers of texts"),
    ("p.csv", y, "P must be a table, got the text 'p.csv': a file is read first"),
    ({"no": 1 - p, "yes": p}, y, r"got a dict with the keys \['no', 'yes'\]: pandas.DataFrame"),
    (p, y, r"got shape \(40,\): for two classes give numpy.column_stack\(\[1 - P, P\]\)"),
    (y, P, "P must be a table and y a column, got them the other way round"),
    (P, NAMES, "got 'no' at row 0: name the columns of P by classes=, or give P as a data frame"),
    (P, 2 * y - 1, r"got -1 at row 0: of -1 and 1 make \(y \+ 1\) // 2"),
    (P, y + 1, r"got 2 at row 1: are they counted from 1\?"),
    (P, [0, None, 1, 1] * 10, "got None at row 1: leave the row out"),
    (P, "labels.csv", "y must be a column, got the text 'labels.csv': a file is read first"),
    (P, {0: 1}, r"y must be a column, got a dict with the keys \[0\]"),
]


@pytest.mark.parametrize("kind", TABLES)
def test_tables_and_labels_that_are_none(kind):
    for table, labels, message in OF_TABLES:
        with pytest.raises(ValueError, match=message):
            kind().fit(table, labels)


OF_GROUPS = [
    (y, p, GROUPS, r"got 0.1 at row 0.*are probabilities and outcomes swapped\?"),
    (
        p,
        NAMES,
        GROUPS,
        "y must be 0/1 or boolean, got 'no' at row 0: texts are compared first, as y == 'yes'",
    ),
    (p, 2 * y - 1, GROUPS, r"got -1 at row 0: of -1 and 1 make \(y \+ 1\) // 2"),
    (p, y + 1, GROUPS, "y must be 0/1 or boolean, got 2 at row 1: of 1 and 2 make y - 1"),
    (p, [0, None, 1, 1] * 10, GROUPS, "got None at row 1: leave the row out"),
    (100 * p, y, GROUPS, r"got 10.0 at row 0: are they percent\? divide by 100"),
    ([0.5, None, 0.3, 0.1] * 10, y, GROUPS, "got None at row 1: leave the row out"),
    ("p.csv", y, GROUPS, "must be a column, got the text 'p.csv': a file is read first"),
    ({"p": p}, y, GROUPS, r"must be a column, got a dict with the keys \['p'\]"),
    (p, y, "region", "groups must be a table, got the text 'region'"),
    (p, y, {"region": ["north"] * 40}, "groups must be a table, got a dict with the keys"),
    (p, y, ["north", "south"] * 20, "got values like np.str_.'north'.: categories are given as a data frame"),
]


@pytest.mark.parametrize(("forecasts", "outcomes", "groups", "message"), OF_GROUPS)
def test_forecasts_outcomes_and_groups_that_are_none(forecasts, outcomes, groups, message):
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
        assert np.array_equal(model.predict(forecasts, groups), alone.predict(p, groups))
        assert str(model.report(forecasts, outcomes, groups)) == str(alone.report(p, y, groups))
    turned = frames(P, ["yes", "no"])[number]
    with pytest.raises(ValueError, match=r"p must have the columns \['no', 'yes'\] of fit, got \['yes'"):
        GroupRecalibrator().fit(named, NAMES, groups).predict(turned, groups)


@pytest.mark.parametrize("kind", TABLES)
def test_pandas_objects_of_other_rows_are_refused(kind):
    table, shuffled = pd.DataFrame(P), pd.Series(y, index=range(40, 0, -1))
    with pytest.raises(ValueError, match="P and y must have the same index, since rows are matched by pos"):
        kind().fit(table, shuffled)
    kind().fit(table, pd.Series(y))


def test_groups_and_features_of_other_rows_are_refused():
    elsewhere = pd.DataFrame({"a": np.arange(40) % 2 == 0}, index=range(40, 0, -1))
    forecasts, model = pd.Series(p), GroupRecalibrator().fit(p, y, elsewhere)
    for call in (
        lambda: GroupRecalibrator().fit(forecasts, pd.Series(y, index=range(40, 0, -1)), GROUPS),
        lambda: GroupRecalibrator().fit(forecasts, y, elsewhere),
        lambda: model.predict(forecasts, elsewhere),
        lambda: BoostedRecalibrator().fit(elsewhere, pd.Series(y)),
        lambda: multicalibration_error(forecasts, y, elsewhere),
        lambda: multicalibration_report(forecasts, y, elsewhere),
        lambda: group_mean_error(forecasts, y, elsewhere),
    ):
        with pytest.raises(ValueError, match="must have the same index, since rows are matched by position"):
            call()
