"""Recalibration for groups by default: what held-out rows allow, starts, weights; hidden groups put right."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from onlinecal import GroupRecalibrator, multicalibration_error
from onlinecal.recalibration.groups.start import PATCH_KINDS, StartMap, lowers
from tests.properties import examples
from tests.recalibration.groups.reference import tables
from tests.recalibration.groups.test_patches import patched

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")


def logistic(z):
    return 1 / (1 + np.exp(-z))


def population(n, seed):
    """Rows whose forecasts are right on average and wrong in each of ten overlapping groups."""
    rng = np.random.default_rng(seed)
    mass = np.array([0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.06, 0.04, 0.025])
    members = rng.random((n, 10)) < mass
    z = rng.normal(0, 1.5, n)
    lift = np.array([1, -1, 1, -1, 1.2, -1.5, 1.5, -2, 2, -2.5])
    truth = logistic(z + (members - mass) @ lift)
    return logistic(z), (rng.random(n) < truth).astype(int), members, truth


def losses(p, y):
    """Log loss and squared error."""
    return np.array([-np.log(np.where(y == 1, p, 1 - p)).mean(), np.mean((p - y) ** 2)])


def inside(p):
    """Forecasts inside (0, 1)."""
    return np.clip(p, 0.01, 0.99)


@pytest.mark.parametrize("patch", ["value", "shift"])
def test_a_hidden_group_is_found_repaired_and_shown(patch):
    rng = np.random.default_rng(0)
    n, name = 20_000, "region=south & kind=c"
    table = pd.DataFrame(
        {"region": rng.choice(["north", "south", "east"], n), "kind": rng.choice([*"abcd"], n)}
    )
    truth = rng.beta(2, 2, n)
    hidden = ((table["region"] == "south") & (table["kind"] == "c")).to_numpy()
    p, y = np.where(hidden, 1 - truth, truth), (rng.random(n) < truth).astype(int)
    train, test = np.arange(n) < n // 2, np.arange(n) >= n // 2
    model = GroupRecalibrator.as_in_paper(1e-3, patch, n_levels=20).fit(p[train], y[train], table[train])
    repair = model.report(p[test], y[test], table[test])
    assert repair.before.worst.name == name
    found = next(row for row in repair.rows() if row["group"] == name)
    assert found["violation_before"] > 5 * 1e-3
    assert found["violation_after"] < 0.2 * found["violation_before"]
    assert found["squared_error_after"] < found["squared_error_before"] - 0.02
    elsewhere = [row for row in repair.rows() if row["mass"] < 0.5 and row is not found]
    assert all(row["squared_error_after"] < row["squared_error_before"] + 0.005 for row in elsewhere)
    first = str(repair).splitlines()[1]
    assert first.startswith(name)
    assert f"{found['violation_after']:.6f}" in first


@settings(deadline=None, max_examples=examples(60))
@given(
    tables(), st.sampled_from([1.0, 0.3, 0.03, 0.003]), st.sampled_from([1, 7, 30]), st.sampled_from([0, 5])
)
def test_log_odds_patches_keep_every_promise(table, alpha, m, shrinkage):
    p, y, members = table
    model, after = patched((inside(p), y, members), alpha, "log-odds", n_levels=m, shrinkage=shrinkage)
    stages = list(model.staged_predict_proba(inside(p), members))
    assert len(stages) == model.n_patches_ + 1
    assert (stages[-1] == after).all()
    history = model.history_
    assert losses(inside(p), y)[0] - history["fall"].sum() == pytest.approx(losses(after, y)[0], abs=1e-9)
    # a patch saves what is proved, and what is left in its cell has the sign it had
    mass = history["count"] / len(p)
    proved = mass * (history["forecast"] - history["outcome"]) ** 2
    proved /= 2 * (7 / 12 + shrinkage / np.maximum(history["count"], 1))
    assert (history["fall"] >= proved - 1e-12).all()


def test_log_odds_patches_end_inside_of_0_and_1():
    """Doubles round: 1 - 1e-12 with larger odds is 1 before long, whose log odds are infinite."""
    p, members = np.array([1 - 1e-12] * 5 + [1e-12]), np.ones((6, 1), bool)
    model = GroupRecalibrator.as_in_paper(1e-9, patch="log-odds", n_levels=1)
    for y in (np.ones(6, int), np.zeros(6, int)):
        answers = model.fit(p, y, members).predict_proba(p, members)
        assert (np.abs(answers - y) < 1e-3).all()
        assert ((answers > 0.0) & (answers < 1.0)).all()
    history = np.repeat(model.history_[:1], 2)
    history["epoch"], history["value"], history["shift"] = [0, 1], np.nan, [800.0, -800.0]
    again = PATCH_KINDS["log-odds"].replay(p, members.view(np.uint8), history, 1)
    assert ((again > 0.0) & (again < 0.5)).all()


def test_gains_are_believed_beyond_a_standard_error_and_what_the_best_of_many_gains_by_chance():
    """ln(tried) nats, of log losses; half as much of squared errors."""
    ones = np.ones(100)
    for gain, tried, patch, believed in (
        (1.0, 2, "log-odds", True),
        (1.0, 3, "log-odds", False),
        (1.0, 3, "shift", True),
        (1.0, 8, "shift", False),
    ):
        assert lowers(ones * gain / 100, ones, ones, patch, tried) == believed
    noisy = np.where(np.arange(100) % 2, 0.5, -0.5) + 0.04
    assert not lowers(noisy, ones, ones, "log-odds", 2)
    # 25 copies of each row are no more evidence than one; 25 rows of their own are
    assert not lowers(noisy, 25 * ones, 25 * ones, "log-odds", 2)
    assert lowers(noisy, 25 * ones, ones, "log-odds", 2)
    assert not lowers(ones * 0.005, 25 * ones, 25 * ones, "log-odds", 2)
    assert lowers(ones * 0.005, 25 * ones, ones, "log-odds", 2)


@pytest.mark.parametrize("n", [1, 60, 400])
def test_forecasts_that_are_right_are_left_alone(n):
    rng = np.random.default_rng(n)
    truth = rng.uniform(0.05, 0.95, n)
    members = rng.random((n, 40)) < rng.uniform(0.02, 0.5, 40)
    model = GroupRecalibrator().fit(truth, rng.random(n) < truth, members)
    assert model.n_patches_ == 0
    assert (model.predict_proba(truth, members) == truth).all()


@pytest.mark.parametrize(("n", "most"), [(200, 1.0), (5000, 0.93)])
@pytest.mark.parametrize("n_fresh", [10_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_what_is_wrong_is_mended_on_fresh_rows(n, most, n_fresh):
    p, y, members, _ = population(n, 3)
    q, fresh, groups, _ = population(n_fresh, 103)
    after = GroupRecalibrator().fit(p, y, members).predict_proba(q, groups)
    assert (losses(after, fresh) < most * losses(q, fresh)).all()


def test_starts_are_the_maps_of_the_least_log_loss():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 20_000)
    p, weights = logistic(z), np.ones(20_000)
    y = (rng.random(20_000) < logistic(0.5 * z + 0.7)).astype(np.uint8)
    a, b, c = StartMap("platt").fit(p, y, weights).coefficients_
    assert (a, c) == pytest.approx((0.5, 0.7), abs=0.05)
    assert a == b
    free = {"temperature": [[1, 1, 0]], "platt": [[1, 1, 0], [0, 0, 1]], "beta": np.eye(3)}
    for kind, directions in free.items():
        best, other = StartMap(kind).fit(p, y, weights), StartMap(kind)
        first = losses(best(p, 0.0), y)[0]
        for step in 0.02 * rng.normal(size=(20, len(directions))) @ np.array(directions):
            other.coefficients_ = best.coefficients_ + step
            assert losses(other(p, 0.0), y)[0] > first - 1e-6
    everyone = np.ones((20_000, 1))
    assert GroupRecalibrator().fit(p, y, everyone).start_.kind in ("platt", "beta")
    isotonic = GroupRecalibrator(start="isotonic").fit(p, y, everyone)
    assert losses(isotonic.predict_proba(p, everyone), y)[0] < losses(p, y)[0]


def test_certain_forecasts_do_not_stay_certain():
    rng = np.random.default_rng(1)
    p = rng.choice([0.0, 0.02, 0.5, 0.999999, 1.0], 200)
    y, groups = rng.random(200) < np.clip(p, 0.05, 0.95), rng.random((200, 3)) < 0.5
    for patch in ("log-odds", "value", "shift"):
        after = GroupRecalibrator(patch=patch).fit(p, y, groups).predict_proba(p, groups)
        assert np.isfinite(losses(after, y)[0])
        assert after.min() >= 9e-7
        assert after.max() <= 1 - 9e-7
    plain = GroupRecalibrator.as_in_paper(0.001, "value").fit(p, y, groups).predict_proba(p, groups)
    assert {0.0, 1.0} & set(plain.tolist())
    # outcomes that forecasts separate have a start too
    apart, everyone = np.linspace(0.1, 0.9, 50), np.ones((50, 1))
    model = GroupRecalibrator(start="beta", cv=2).fit(apart, apart > 0.5, everyone)
    assert np.abs(model.predict_proba(apart, everyone) - 0.5).max() <= 0.5 - 1 / 102 + 1e-12


@pytest.mark.parametrize("patch", ["log-odds", "value", "shift", "unrounded", "unrounded shift"])
def test_whole_weights_are_repeated_rows(patch):
    p, y, members, _ = population(160, 8)
    p = inside(p.round(1)) if patch.startswith("unrounded") else p
    weights = np.random.default_rng(0).integers(0, 4, 160)
    rows = np.repeat(np.arange(160), weights)
    weighted = GroupRecalibrator.as_in_paper(0.002, patch).fit(p, y, members, sample_weight=weights)
    repeated = GroupRecalibrator.as_in_paper(0.002, patch).fit(p[rows], y[rows], members[rows])
    assert weighted.n_patches_ == repeated.n_patches_ > 5
    assert weighted.predict_proba(p, members) == pytest.approx(repeated.predict_proba(p, members), abs=1e-9)
    assert weighted.violations_ == pytest.approx(repeated.violations_, abs=1e-12)
    assert weighted.squared_error_ == pytest.approx(repeated.squared_error_)
    ones, plain = (GroupRecalibrator(patch=patch, cv=2).fit(p, y, members, w) for w in (np.ones(160), None))
    assert (ones.predict_proba(p, members) == plain.predict_proba(p, members)).all()


def test_groups_of_categories_have_the_mass_of_their_weights():
    frame = pd.DataFrame({"side": ["left"] * 90 + ["right"] * 10})
    p, y, weights = np.full(100, 0.5), np.arange(100) % 2, np.repeat([1.0, 0.1], [90, 10])
    assert len(GroupRecalibrator(min_mass=0.05).fit(p, y, frame).group_names_) == 3
    assert GroupRecalibrator(min_mass=0.05).fit(p, y, frame, weights).group_names_ == [
        "everyone",
        "side=left",
    ]


@pytest.mark.parametrize("patch", ["log-odds", "value", "shift", "unrounded", "unrounded shift"])
def test_stages_end_with_the_prediction(patch):
    p, y, members, _ = population(400, 2)
    model = GroupRecalibrator.as_in_paper(0.003, patch).fit(p, y, members)
    stages = list(model.staged_predict_proba(p, members))
    assert len(stages) == model.n_patches_ + 1 > 5
    assert (stages[-1] == model.predict_proba(p, members)).all()
    assert np.array_equal(list(model.staged_predict_proba(p, members, [0, 3])), [stages[0], stages[3]])
    errors = [np.mean((stage - y) ** 2) for stage in stages]
    if patch in ("value", "unrounded"):
        assert -np.diff(errors) == pytest.approx(model.history_["fall"], abs=1e-9)
    with pytest.raises(ValueError, match="stops must be at most"):
        list(model.staged_predict_proba(p, members, [model.n_patches_ + 1]))


RNG = np.random.default_rng(0)
N = 1500
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
    after = model.predict_proba(P, table)
    assert (multicalibration_error(after, Y, members) <= 0.001 + 1e-12).all()


def test_new_and_missing_categories(frame):
    table = frame({"colour": ["red", None] * 50, "size": [1.0, 2.0, float("nan"), 2.0] * 25})
    y = np.resize([1, 0], 100)
    model = GroupRecalibrator.as_in_paper(0.01, "shift").fit(np.full(100, 0.5), y, table)
    assert {"colour=missing", "size=missing"} <= set(model.group_names_)
    assert "colour=missing & size=2.0" not in model.group_names_  # the same rows as colour=missing
    new = frame({"colour": ["violet", "red", None], "size": [7.0, 1.0, 2.0]})
    unknown, red, missing = model.predict_proba(np.full(3, 0.5), new)
    assert unknown == pytest.approx(0.5, abs=0.1)  # only in "everyone"
    assert (red, missing) == pytest.approx((1.0, 0.0), abs=0.11)
    for groups, message in (
        (frame({"colour": ["red"]}), "groups must have the column 'size'"),
        ([[1, 0]], "groups must be a data frame"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict_proba([0.5], groups)


def test_boolean_frames_are_matrices_found_by_name_and_a_series_is_a_frame(frame):
    left = RNG.random(N) < 0.4
    model = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, frame({"left": left, "right": ~left}))
    assert model.group_names_ == ["left", "right"]
    swapped = model.predict_proba(P, frame({"right": ~left, "left": left}))
    assert (swapped == model.predict_proba(P, np.column_stack([left, ~left]))).all()
    table = frame({"colour": COLOUR})
    alone, in_frame = (
        GroupRecalibrator.as_in_paper(0.001).fit(P, Y, one) for one in (table["colour"], table)
    )
    assert (alone.predict_proba(P, table["colour"]) == in_frame.predict_proba(P, table)).all()


def test_predicates_are_asked_about_any_table(frame):
    def large(table):
        return np.asarray(table["size"]) > 2

    table = frame({"colour": COLOUR, "size": SIZE})
    model = GroupRecalibrator.as_in_paper(0.001)
    model.set_params(predicates=[large, lambda t: np.asarray(t["colour"]) == "red"]).fit(P, Y, table)
    assert model.group_names_ == ["large", "1"]
    members = np.column_stack([SIZE > 2, COLOUR == "red"])
    plain = GroupRecalibrator.as_in_paper(0.001).fit(P, Y, members)
    assert (plain.predict_proba(P, members) == model.predict_proba(P, table)).all()
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
        (
            {"validation_fraction": 0.9999},
            "validation_fraction must leave rows to fit, got 0.9999, .* 2 different rows",
        ),
        (
            {"cv": 5, "validation_fraction": 0.2},
            "cv must be None or 0 with validation_fraction=0.2",
        ),
        ({"predicates": 3}, "predicates must be a function, or several in a list or a dict by name, got 3"),
        ({"predicates": []}, "predicates is empty"),
        ({"start": "sigmoid"}, "start must be one of auto, none, temperature"),
        ({"patch": "log-odds", "shrinkage": -1}, "shrinkage must be a finite number of at least 0, got -1"),
        (
            {"patch": "value", "shrinkage": 0},
            "shrinkage must be None for the patch 'value', got 0: leave it out",
        ),
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
