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
    colour = ["red", None] * 50
    table = frame({"colour": colour, "size": [1.0, 2.0, float("nan"), 2.0] * 25})
    y = np.resize([1, 0], 100)
    model = GroupRecalibrator.as_in_paper(0.01, "shift").fit(np.full(100, 0.5), y, table)
    assert {"colour=missing", "size=missing"} <= set(model.group_names_)
    assert "colour=missing & size=2.0" not in model.group_names_  # the same rows as colour=missing
    new = frame({"colour": ["violet", "red", None], "size": [7.0, 1.0, 2.0]})
    unknown, red, missing = model.predict(np.full(3, 0.5), new)
    assert unknown == pytest.approx(0.5, abs=0.1)  # only in "everyone"
    assert (red, missing) == pytest.approx((1.0, 0.0), abs=0.11)
    with pytest.raises(ValueError, match="groups lacks the column 'size'"):
        model.predict([0.5], frame({"colour": ["red"]}))
    with pytest.raises(ValueError, match="groups must be a data frame"):
        model.predict([0.5], [[1, 0]])


def test_boolean_frames_are_matrices_found_by_name(frame):
    left = RNG.random(N) < 0.4
    model = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, frame({"left": left, "right": ~left}))
    assert model.group_names_ == ["left", "right"]
    swapped = model.predict(P, frame({"right": ~left, "left": left}))
    assert (swapped == model.predict(P, np.column_stack([left, ~left]))).all()
    with pytest.raises(ValueError, match="groups lacks the column 'right'"):
        model.predict(P, frame({"left": left}))


def test_predicates_are_asked_about_any_table(frame):
    def large(table):
        return np.asarray(table["size"]) > 2

    table = frame({"colour": COLOUR, "size": SIZE})
    red = [large, lambda t: np.asarray(t["colour"]) == "red"]
    model = GroupRecalibrator.as_in_paper(0.001, predicates=red)
    model.fit(P, Y, table)
    assert model.group_names_ == ["large", "1"]
    named = clone(model).set_params(predicates={"big": large}).fit(P, Y, table)
    assert named.group_names_ == ["big"]
    members = np.column_stack([SIZE > 2, COLOUR == "red"])
    plain = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, members)
    assert (plain.predict(P, members) == model.predict(P, table)).all()
    with pytest.raises(ValueError, match="the answer of predicate 'f' must have a row for each"):
        GroupRecalibrator(predicates={"f": lambda t: [True]}).fit(P, Y, table)
    with pytest.raises(ValueError, match="predicates must be functions, got 3"):
        GroupRecalibrator(predicates={"f": 3}).fit(P, Y, table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a number above 0 and at most 1, got 0.0"),
        ({"alpha": float("nan")}, "alpha must be .* got nan"),
        ({"alpha": "x"}, "alpha must be .* got 'x'"),
        (
            {"patch": "move"},
            "patch must be one of log-odds, value, shift, unrounded, unrounded shift, got 'move'",
        ),
        ({"target": "medians"}, "target must be one of multicalibration, means, got 'medians'"),
        ({"target": "means"}, "patch must be 'shift' or 'log-odds' for the target 'means', got 'value'"),
        ({"target": "means", "patch": "shift", "n_levels": 3}, "n_levels must be None"),
        ({"n_levels": 0}, "n_levels must be a whole number of at least 1, got 0"),
        ({"alpha": 0.01, "n_levels": 5}, r"n_levels must be above 1/\(2 sqrt\(alpha\)\) = 5, got 5"),
        ({"validation_fraction": 1.0}, r"validation_fraction must be a number in \[0, 1\), got 1.0"),
        ({"validation_fraction": 0.9999}, "validation_fraction=0.9999 leaves none of 2 rows"),
        ({"min_mass": 0}, "min_mass must be a number above 0 and at most 1, got 0"),
        ({"predicates": []}, "predicates is empty"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        GroupRecalibrator.as_in_paper(**parameters).fit([0.1, 0.9], [0, 1], [[1], [1]])
