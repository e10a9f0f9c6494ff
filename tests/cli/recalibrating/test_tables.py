"""Tables that are recalibrated: how files are read, also in chunks, cut into groups, and compared."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import polars.testing
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from onlinecal import lp_calibration_error, tables
from onlinecal.cli.recalibrating import choose, reading
from onlinecal.cli.recalibrating.alone import drawn_labels, read_losses, recalibrate
from onlinecal.cli.recalibrating.asked import Asked, values_of
from onlinecal.cli.recalibrating.groups import GroupColumns
from onlinecal.cli.recalibrating.lp import chance_error
from onlinecal.cli.recalibrating.reading import numbers, read_known, read_names, read_table, with_label
from onlinecal.cli.recalibrating.splits import split_of
from onlinecal.recalibration.classical.temperature import PerClassIsotonic
from tests.networks import Told


def test_labels_may_be_names_or_numbers_or_one_hot(tmp_path):
    frame = pl.DataFrame({"prob_cat": [0.5, 0.2], "prob_dog": [0.5, 0.8], "y": ["dog", "cat"], "n": [1, 0]})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.pq")
    (tmp_path / "a.jsonl").write_text(frame.write_ndjson())
    for name in ("a.csv", "a.pq", "a.jsonl"):
        for label in ("y", "n"):
            table = read_table(tmp_path / name, label=label)
            assert (table.classes, table.labels.tolist()) == (("cat", "dog"), [1, 0])
            assert table.probabilities.tolist() == [[0.5, 0.5], [0.2, 0.8]]
    assert read_table(tmp_path / "a.csv").labels is None
    swapped = read_table(tmp_path / "a.csv", "prob_dog, prob_cat", "y")
    assert (swapped.classes, swapped.labels.tolist()) == (("dog", "cat"), [0, 1])
    path = tmp_path / "a.npz"
    np.savez(path, p=table.probabilities, y=np.eye(2)[[1, 0]], bad=table.probabilities)
    assert read_table(path, label="y").labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"'bad' must have one 1 and else 0 in every row, got \[0.5, 0.5\]"):
        read_table(path, label="bad")
    with pytest.raises(ValueError, match=r"a.npz has no labels to fit to: .*, perhaps --label y"):
        read_known(Asked(path), True)


def test_a_file_of_arrays_that_is_cut_off_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", p=np.full((200, 2), 0.5), y=np.arange(200) % 2)
    whole = (tmp_path / "a.npz").read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.npz").write_bytes(whole[:size])
        for read in (read_table, read_names):
            with pytest.raises(ValueError, match=r"cut\.npz cannot be read as npz"):
                read(tmp_path / "cut.npz")


def test_one_column_is_the_probability_of_label_one_and_labels_with_a_usual_name_are_taken(tmp_path):
    path = tmp_path / "a.csv"
    pl.DataFrame({"risk": [0.25, 1.0], "y": [0, 1]}).write_csv(path)
    table = read_table(path, "risk", "y")
    assert table.probabilities.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert table.labels.tolist() == [0, 1]
    pl.DataFrame({"p_cat": [0.5], "p_dog": [0.5], "Label": ["dog"]}).write_csv(path)
    for asked, label in (
        (Asked(path), "Label"),
        (Asked(path, label="p_cat"), "p_cat"),
        (Asked(path, probabilities="p_cat,Label"), None),
    ):
        assert with_label(asked).label == label


def test_bad_tables_are_refused_by_name(tmp_path):
    for values, words in (
        ({"p_a": [0.5], "p_b": [0.4], "y": ["a"]}, r"a\.csv"),
        ({"p_a": [0.5], "p_b": [0.5], "y": ["c"]}, "'y' must hold the classes a, b, got 'c' at row 0"),
    ):
        pl.DataFrame(values).write_csv(tmp_path / "a.csv")
        with pytest.raises(ValueError, match=words):
            read_table(tmp_path / "a.csv", label="y")
    np.savez(tmp_path / "c.npz", p=np.full((2, 2), 0.5), y=np.array([0, 1, 1]))
    with pytest.raises(ValueError, match="'y' has 3 labels for 2 rows of 'p'"):
        read_table(tmp_path / "c.npz")


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
    seen = [lp_calibration_error(table, drawn_labels(table, rng), 2, 3) for _ in range(40)]
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


def test_texts_of_truth_are_numbers():
    frame = pl.DataFrame({"y": ["True", "false", None], "z": ["yes", "no", "no"]})
    assert numbers(frame, "y").tolist()[:2] == [1.0, 0.0]
    assert math.isnan(numbers(frame, "y")[2])
    with pytest.raises(ValueError, match="column 'z' must hold numbers, got 'yes'"):
        numbers(frame, "z")


def test_loss_tables_are_put_in_the_order_of_the_classes(tmp_path):
    path = tmp_path / "loss.csv"
    path.write_text("action,dog,cat\nleave,0,1\nact,2,3\n")
    asked = Asked(tmp_path / "a.csv", losses=path)
    for classes, named, values in (
        (("cat", "dog"), ("cat", "dog"), [[1.0, 0.0], [3.0, 2.0]]),
        (("0", "1"), ("dog", "cat"), [[0.0, 1.0], [2.0, 3.0]]),
    ):
        table = read_losses(asked, classes)
        assert (table.classes, table.values.tolist()) == (named, values)
    for classes, words in (
        (("0", "1", "2"), "has losses for 2 classes, there are 3"),
        (("cat", "owl"), "has no losses for class 'owl'; it has dog, cat"),
    ):
        with pytest.raises(ValueError, match=words):
            read_losses(asked, classes)


def in_small_pieces(monkeypatch):
    """Have files read, CSV from disk, and written in many chunks, and only some of their rows scored."""
    for name, size in {"LARGE": 1500, "SCORED": 800, "CHUNK": 128}.items():
        monkeypatch.setattr(reading, name, size)
    monkeypatch.setattr(tables, "IN_MEMORY", 0)


def test_chunks_say_what_whole_tables_say(tmp_path, monkeypatch):
    """A CSV to fit, and a Parquet file of float32 to recalibrate."""
    rng, old, new = np.random.default_rng(4), tmp_path / "old.csv", tmp_path / "new.parquet"
    for path in (old, new):
        P = rng.dirichlet([0.4, 0.6, 0.8], 900).astype(np.float32)
        labels = [rng.choice(["ant", "bee", "cat"], p=np.sqrt(row) / np.sqrt(row).sum()) for row in P]
        frame = pl.DataFrame({f" p_{one}": P[:, j] for j, one in enumerate(("ant", "bee", "cat"))})
        frame = frame.with_columns(pl.Series("kind", labels))
        frame.write_csv(path) if path == old else frame.write_parquet(path)
    asked = Asked(old, apply=new, label="kind")
    whole = recalibrate(asked, "lp")
    in_small_pieces(monkeypatch)
    chunks = recalibrate(asked, "lp")
    assert read_table(new, label="kind").probabilities.dtype == np.float32
    both = [pl.concat(one.probabilities) for one in (chunks, whole)]
    assert both[0].height == 900
    pl.testing.assert_frame_equal(*both, rel_tol=0, abs_tol=1e-12)
    assert chunks.record["facts"] == whole.record["facts"]
    found, known = (report.record["measures"][-1]["values"] for report in (chunks, whole))
    assert found["lp"] != known["lp"] == pytest.approx(found["lp"], abs=0.05)


def loans(n, seed):
    """Risks that are wrong in some groups, what came, columns of groups and features, one more."""
    rng = np.random.default_rng(seed)
    risk, age = rng.beta(1, 3, n), rng.integers(20, 70, n)
    region = rng.choice(["north", "south", "west"], n)
    truth = np.clip(risk + 0.15 * (region == "north") - 0.1 * (age > 55), 0.0, 1.0)
    columns = {"risk": risk, "age": age, "region": region, "note": ["-"] * n}
    return pl.DataFrame(columns).with_columns(pl.Series("defaulted", (rng.random(n) < truth).astype(int)))


ASKED = Asked(Path("old.csv"), forecast="risk", outcome="defaulted")


@pytest.mark.parametrize(
    ("method", "asked", "outcomes"),
    [
        ("groups", {"group": ["region", "age"]}, True),
        ("boost", {"features": ["age"], "values": {"n_folds": 2}}, False),
        ("boost", {"forecast": None, "values": {"n_folds": 2}}, True),
    ],
)
def test_chunks_of_events_say_what_whole_columns_say(tmp_path, monkeypatch, method, asked, outcomes):
    old, new = tmp_path / "old.csv", tmp_path / "new.parquet"
    loans(1200, 1).write_csv(old)
    (loans(900, 2) if outcomes else loans(900, 2).drop("defaulted")).write_parquet(new)
    asked = replace(ASKED, file=old, apply=new, **asked)
    whole = recalibrate(asked, method)
    in_small_pieces(monkeypatch)
    chunks = recalibrate(asked, method)
    assert max(part.height for part in chunks.probabilities) == 128
    pl.testing.assert_frame_equal(pl.concat(chunks.probabilities), pl.concat(whole.probabilities))
    assert chunks.record["facts"] == whole.record["facts"]
    assert chunks.record["rows"] == whole.record["rows"] == {"fit": 1200, "apply": 900}
    assert any("random rows" in one for one in chunks.record["warnings"])
    sampled, known = (report.record["measures"][-1]["values"] for report in (chunks, whole))
    assert sampled == {name: pytest.approx(known[name], abs=0.05) for name in sampled}
    with pytest.raises(ValueError, match="no column 'income'"):
        recalibrate(replace(asked, forecast="income"), method)


def test_what_fails_midway_leaves_the_old_file(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 10)
    path = tmp_path / "rows.parquet"

    def make(rows):
        if rows.start >= 20:
            raise RuntimeError("no more")
        return pl.DataFrame({"row": range(rows.start, rows.stop)})

    reading.Chunks(20, make).write(path)
    with pytest.raises(Exception, match="no more"):
        reading.Chunks(100, make).write(path)
    assert pl.read_parquet(path)["row"].to_list() == list(range(20))
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_comparison_reads_the_groups_and_features_of_large_files(tmp_path, monkeypatch):
    file = tmp_path / "loans.parquet"
    loans(300, 3).write_parquet(file)
    in_small_pieces(monkeypatch)
    asked = replace(ASKED, file=file, group=["region"], features=["age"])
    frame = read_known(asked, False, ["region", "age"])[0].frame
    assert frame.columns == ["risk", "defaulted", "region", "age"]
    assert {"groups", "boost"} <= set(choose.recalibrate(asked).record["methods"])
