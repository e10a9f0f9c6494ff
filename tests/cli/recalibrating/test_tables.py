"""Tables that are recalibrated: how files are read, also in chunks, cut into groups, and compared."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from onlinecal import lp_calibration_error
from onlinecal.cli.recalibrating.asked import Request, values_of
from onlinecal.cli.recalibrating.comparing import alone, read_losses
from onlinecal.cli.recalibrating.grouping import GroupColumns
from onlinecal.cli.recalibrating.methods import chance_error, drawn_labels
from onlinecal.cli.recalibrating.splitting import split_of
from onlinecal.recalibration.classical.temperature import PerClassIsotonic
from onlinecal.tables.classes import numbers, read_table
from tests.networks import Told


def test_labels_may_be_names_or_numbers(tmp_path):
    frame = pl.DataFrame({"prob_cat": [0.5, 0.2], "prob_dog": [0.5, 0.8], "k": ["dog", "cat"], "n": [1, 0]})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.pq")
    (tmp_path / "a.jsonl").write_text(frame.write_ndjson())
    for name in ("a.csv", "a.pq", "a.jsonl"):
        for label in ("k", "n"):
            table = read_table(tmp_path / name, label=label)
            assert (table.classes, table.labels.tolist()) == (("cat", "dog"), [1, 0])
            assert table.probabilities.tolist() == [[0.5, 0.5], [0.2, 0.8]]
    assert read_table(tmp_path / "a.csv").labels is None
    swapped = read_table(tmp_path / "a.csv", "prob_dog, prob_cat", "k")
    assert (swapped.classes, swapped.labels.tolist()) == (("dog", "cat"), [0, 1])
    # of arrays those count that have as many rows as the table
    np.savez(tmp_path / "a.npz", p=table.probabilities, y=np.array([[1], [0]]), names=np.arange(7))
    table = read_table(tmp_path / "a.npz")
    assert (table.classes, table.labels.tolist()) == (("0", "1"), [1, 0])
    with pytest.raises(ValueError, match="no column 'names'"):
        read_table(tmp_path / "a.npz", label="names")


def test_a_file_of_arrays_that_is_cut_off_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", p=np.full((200, 2), 0.5), y=np.arange(200) % 2)
    whole = (tmp_path / "a.npz").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.npz").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.npz cannot be read as npz"):
            read_table(tmp_path / "cut.npz")


def test_one_column_is_the_probability_of_label_one_and_labels_with_a_usual_name_are_taken(tmp_path):
    path = tmp_path / "a.csv"
    pl.DataFrame({"risk": [0.25, 1.0], "y": [0, 1]}).write_csv(path)
    table = read_table(path, "risk", "y")
    assert table.probabilities.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert table.labels.tolist() == [0, 1]
    pl.DataFrame({"p_cat": [0.5], "p_dog": [0.5], "Label": ["dog"]}).write_csv(path)
    assert read_table(path).labels.tolist() == [1]


def test_bad_tables_are_refused_by_name(tmp_path):
    for values, words in (
        ({"p_a": [0.5], "p_b": [0.4], "y": ["a"]}, r"a\.csv"),
        ({"p_a": [0.5], "p_b": [0.5], "y": ["c"]}, "'y' must hold the classes a, b, got 'c' at row 0"),
    ):
        pl.DataFrame(values).write_csv(tmp_path / "a.csv")
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path / "a.csv", label="y")


def test_splits_are_shares_rules_or_columns_and_settings_numbers_words_or_texts():
    assert [*map(split_of, (None, "0.3"))] == [("random", None), ("random", 0.3)]
    assert [*map(split_of, ("time", "time:0.2"))] == [("time", None), ("time", 0.2)]
    assert split_of("a:b") == ("a:b", None)
    found = values_of(["p=inf", "n_levels=None", "start=none", "epsilon=0.1", "max_rounds=7", "x=True"])
    assert [*found.values()] == [float("inf"), None, "none", 0.1, 7, True]
    assert type(found["max_rounds"]) is int


def test_chance_is_what_right_probabilities_are_left_with():
    rng = np.random.default_rng(8)
    table = rng.dirichlet([1.0, 1.0, 1.0, 1.0], 4000)
    seen = [lp_calibration_error(table, drawn_labels(table, rng), 2, n_bins=3) for _ in range(40)]
    # a mean of ten draws
    within = 4 * np.std(seen) * math.sqrt(1 / 10 + 1 / 40)
    assert chance_error(table, 2.0, 3, seed=0) == pytest.approx(np.mean(seen), abs=within)


def test_isotonic_per_class_is_scikit_learns():
    rng = np.random.default_rng(8)
    table, labels = rng.dirichlet([0.3, 0.3, 0.3, 0.3], 4000), rng.integers(0, 4, 4000)
    told = FrozenEstimator(Told().fit(table, labels))
    theirs = CalibratedClassifierCV(told, method="isotonic", ensemble=False).fit(table, labels)
    mine = PerClassIsotonic().fit(table, labels).predict_proba(table[:500])
    assert mine == pytest.approx(theirs.predict_proba(table[:500]), abs=1e-9)


def test_ranges_keep_values_and_missing_ones_apart():
    frame = pl.DataFrame({"x": [*range(1, 20), None], "side": ["l", "r"] * 10})
    columns = GroupColumns.of(frame, ["x", "side"])
    made = columns(frame)
    assert (made["x"][-1], made["x"].n_unique()) == (None, 5)
    assert made["side"].to_list() == frame["side"].to_list()
    low, middle, high = columns.cuts["x"]
    new = columns(pl.DataFrame({"x": [-50.0, low, middle, high], "side": ["q"] * 4}))["x"].to_list()
    assert new == [f"below {low:g}", f"{low:g} to {middle:g}", f"{middle:g} to {high:g}", f"from {high:g}"]


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        (range(2001, 2021), (2006, 2010, 2015)),  # years
        ([10001 + 2 * i for i in range(20)], (10010, 10020, 10030)),  # ZIP codes
        ([1.00001 + i / 1e5 for i in range(20)], (1.00006, 1.00011, 1.00015)),
        ([-2001 - i for i in range(20)], (-2015, -2010, -2006)),
        ([1.7e9 + i for i in range(20)], (1700000005, 1700000010, 1700000014)),
        ([*range(2001, 2016), *[2003] * 180], (2003,)),  # 2000 would divide nothing
        ([*range(1990, 2003), *[2003] * 180], (2000,)),
        ([i / 100 for i in range(30)], (0.073, 0.15, 0.22)),
        ([*[math.inf] * 9, *[-math.inf] * 9, *range(2001, 2015)], (2000,)),
    ],
)
def test_bounds_of_ranges_have_as_many_digits_as_keep_them_apart(values, bounds):
    frame = pl.DataFrame({"x": np.array(values, float)})
    columns = GroupColumns.of(frame, ["x"])
    assert columns.cuts["x"] == bounds
    named = columns(frame)["x"]
    assert named.n_unique() == len(bounds) + 1
    for bound in bounds:
        at, before = columns(pl.DataFrame({"x": [float(bound), np.nextafter(bound, -math.inf)]}))["x"]
        assert at.startswith((f"{bound} to", f"from {bound}"))
        assert before.endswith((f"to {bound}", f"below {bound}"))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pl.Series("x", [None, None]), "no value at all"),
        (pl.Series("x", [None, None], dtype=pl.String), "no value at all"),
        (pl.Series("x", ["1", None, "young"]), "'young'"),
    ],
)
def test_a_column_of_ranges_without_numbers_is_refused_in_words(column, said):
    columns = GroupColumns.of(pl.DataFrame({"x": range(20)}), ["x"])
    with pytest.raises(
        ValueError, match=rf"--group x: the column must hold numbers .* got {said}; .* leave --group x out"
    ):
        columns(column.to_frame())


def test_texts_of_truth_are_numbers():
    found = numbers(pl.Series("y", ["True", "false", None]))
    assert found.tolist()[:2] == [1.0, 0.0]
    assert math.isnan(found[2])
    with pytest.raises(ValueError, match="column 'z' must hold numbers, got 'yes' at row 0"):
        numbers(pl.Series("z", ["yes", "no", "no"]))


def test_loss_tables_are_put_in_the_order_of_the_classes(tmp_path):
    path = tmp_path / "loss.csv"
    path.write_text("action,dog,cat\nleave,0,1\nact,2,3\n")
    for classes, named, values in (
        (("cat", "dog"), ("cat", "dog"), [[1.0, 0.0], [3.0, 2.0]]),
        (("0", "1"), ("dog", "cat"), [[0.0, 1.0], [2.0, 3.0]]),
    ):
        table = read_losses(path, classes)
        assert (table.classes, table.values.tolist()) == (named, values)
    for classes, words in (
        (("0", "1", "2"), "must have a column for each class, 0, 1, 2, but its columns are dog, cat"),
        (("cat", "owl"), "must have a column for each class, cat, owl, but its columns are dog, cat"),
    ):
        with pytest.raises(ValueError, match=words):
            read_losses(path, classes)


def loans(n, seed):
    """Risks that are wrong in some groups, what came, columns of groups and features, one more."""
    rng = np.random.default_rng(seed)
    risk, age = rng.beta(1, 3, n), rng.integers(20, 70, n)
    region = rng.choice(["north", "south", "west"], n)
    truth = np.clip(risk + 0.15 * (region == "north") - 0.1 * (age > 55), 0.0, 1.0)
    columns = {"risk": risk, "age": age, "region": region, "note": ["-"] * n}
    return pl.DataFrame(columns).with_columns(pl.Series("defaulted", (rng.random(n) < truth).astype(int)))


ASKED = Request(Path("old.csv"), forecast="risk", outcome="defaulted")


@pytest.mark.parametrize(
    ("method", "asked", "outcomes"),
    [
        ("groups", {"group": ["region", "age"]}, True),
        ("boost", {"features": ["age"], "values": {"cv": 2}}, False),
        ("boost", {"forecast": None, "values": {"cv": 2}}, True),
    ],
)
def test_a_new_file_need_not_have_outcomes(tmp_path, method, asked, outcomes):
    old, new = tmp_path / "old.csv", tmp_path / "new.parquet"
    loans(1200, 1).write_csv(old)
    (loans(900, 2) if outcomes else loans(900, 2).drop("defaulted")).write_parquet(new)
    asked = replace(ASKED, file=old, apply=new, **asked)
    report = alone(asked, method)
    assert report.record["rows"] == {"fit": 1200, "apply": 900}
    assert report.probabilities["row"].to_list() == list(range(900))
    assert ("outcome" in report.probabilities.columns) == outcomes
    parts = {line["part"] for line in report.record["measures"]}
    assert parts == {"fit", "apply"} if outcomes else {"fit"}
    with pytest.raises(ValueError, match="no column 'income'"):
        alone(replace(asked, forecast="income"), method)
