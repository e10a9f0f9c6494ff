"""Where groups come from, the conventions of scikit-learn, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from onlinecal import GroupRecalibrator, multicalibration_error

RNG = np.random.default_rng(0)
N = 3000
COLOUR = RNG.choice(["red", "green", "blue", "rare"], N, p=[0.5, 0.3, 0.195, 0.005])
SIZE = RNG.integers(1, 4, N)
P = RNG.random(N)
Y = (RNG.random(N) < np.clip(P + 0.25 * (COLOUR == "red") - 0.3 * (SIZE == 2), 0, 1)).astype(int)
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def test_categories_make_all_one_way_and_two_way_groups(frame):
    table = frame({"colour": COLOUR, "size": SIZE})
    model = GroupRecalibrator.as_in_paper(0.001, n_levels=32, min_mass=0.02).fit(P, Y, table)
    one_way = [f"colour={c}" for c in ("red", "green", "blue")] + [f"size={s}" for s in (1, 2, 3)]
    two_way = [f"colour={c} & size={s}" for c in ("red", "green", "blue") for s in (1, 2, 3)]
    assert set(model.group_names_) == {"everyone", *one_way, *two_way}
    assert len(model.group_names_) == model.n_groups_ == 16
    members = np.column_stack(
        [np.ones(N, bool), (COLOUR == "red") & (SIZE == 1), (COLOUR == "red") & (SIZE == 2), COLOUR == "blue"]
    )
    after = model.predict(P, table)
    assert (multicalibration_error(after, Y, members) <= 0.001 + 1e-12).all()


def test_new_and_missing_categories(frame):
    table = frame({"colour": ["red", None] * 50, "size": [1.0, 2.0, float("nan"), 2.0] * 25})
    y = np.resize([1, 0], 100)
    model = GroupRecalibrator.as_in_paper(0.01, "shift").fit(np.full(100, 0.5), y, table)
    assert {"colour=missing", "size=missing"} <= set(model.group_names_)
    assert "colour=missing & size=2.0" not in model.group_names_  # the same rows as colour=missing
    new = frame({"colour": ["violet", "red", None], "size": [7.0, 1.0, 2.0]})
    unknown, red, missing = model.predict(np.full(3, 0.5), new)
    assert unknown == pytest.approx(0.5, abs=0.1)  # only in "everyone"
    assert (red, missing) == pytest.approx((1.0, 0.0), abs=0.11)
    for groups, message in (
        (frame({"colour": ["red"]}), "groups lacks the column 'size'"),
        ([[1, 0]], "groups must be a data frame"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict([0.5], groups)


def test_boolean_frames_are_matrices_found_by_name_and_a_series_is_a_frame(frame):
    left = RNG.random(N) < 0.4
    model = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, frame({"left": left, "right": ~left}))
    assert model.group_names_ == ["left", "right"]
    swapped = model.predict(P, frame({"right": ~left, "left": left}))
    assert (swapped == model.predict(P, np.column_stack([left, ~left]))).all()
    table = frame({"colour": COLOUR})
    alone, in_frame = (
        GroupRecalibrator.as_in_paper(0.001).fit(P, Y, one) for one in (table["colour"], table)
    )
    assert (alone.predict(P, table["colour"]) == in_frame.predict(P, table)).all()


def test_predicates_are_asked_about_any_table(frame):
    def large(table):
        return np.asarray(table["size"]) > 2

    table = frame({"colour": COLOUR, "size": SIZE})
    model = GroupRecalibrator.as_in_paper(0.001)
    model.set_params(predicates=[large, lambda t: np.asarray(t["colour"]) == "red"]).fit(P, Y, table)
    assert model.group_names_ == ["large", "1"]
    members = np.column_stack([SIZE > 2, COLOUR == "red"])
    plain = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, members)
    assert (plain.predict(P, members) == model.predict(P, table)).all()
    assert clone(model).set_params(predicates={"big": large}).fit(P, Y, table).group_names_ == ["big"]
    for predicate, message in (
        (lambda t: [True], "the answer of predicate 'f' must have a row for each"),
        (3, "predicates must be functions, got 3"),
    ):
        with pytest.raises(ValueError, match=message):
            GroupRecalibrator(predicates={"f": predicate}).fit(P, Y, table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"patch": "move"}, "patch must be one of log-odds, value, shift, .*, unrounded shift, got 'move'"),
        ({"target": "medians"}, "target must be one of multicalibration, means, got 'medians'"),
        ({"target": "means"}, "patch must be 'shift' or 'log-odds' for the target 'means', got 'value'"),
        ({"target": "means", "patch": "shift", "n_levels": 3}, "n_levels must be None"),
        ({"patch": "unrounded", "n_levels": 10}, "n_levels must be None for the patch 'unrounded', got 10"),
        (
            {"patch": "unrounded shift", "n_levels": 10},
            "n_levels must be None for the patch 'unrounded shift'",
        ),
        ({"alpha": 0.01, "n_levels": 5}, r"n_levels must be above 1/\(2 sqrt\(alpha\)\) = 5, got 5"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be a number in \[0, 1\), got 1.0"),
        ({"validation_fraction": 0.9999}, "validation_fraction=0.9999 leaves none of 2 rows"),
        (
            {"n_folds": 5, "validation_fraction": 0.2},
            "n_folds must be None or 0 with validation_fraction=0.2",
        ),
        ({"predicates": []}, "predicates is empty"),
        ({"start": "sigmoid"}, "start must be one of auto, none, temperature"),
        ({"patch": "log-odds", "shrinkage": -1}, "shrinkage must be a finite number of at least 0, got -1"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator.as_in_paper(**parameters).fit([0.1, 0.9], [0, 1], [[1], [1]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -2.0], "sample_weight must be at least 0 and finite, got -2.0 at row 1"),
        ([1.5, 1], "sample_weight must be whole numbers with patch='value', got 1.5 at row 0"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator(patch="value").fit([0.1, 0.9], [0, 1], [[1], [1]], weights)
