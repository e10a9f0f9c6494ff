"""The verb `recalibrate`, `measure --group`: the classes' own numbers, whole files, errors in one line."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from onlinecal import (
    BoostedRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    decision_loss_gap,
    lp_calibration_error,
)
from onlinecal.cli.recalibrating.alone import method_of
from onlinecal.cli.recalibrating.asked import Asked
from onlinecal.measures import functional_multicalibration_error, multicalibration_report
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from tests import commands
from tests.cli.recalibrating.runs import CLASSES, ROWS, record, refused, run, value

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@pytest.mark.parametrize("p, n_levels, more", [(2.0, 4, {"tolerance": 0.002}), (np.inf, 2, {"epsilon": 0.1})])
def test_lp_says_what_the_class_says_and_leaves_whole_files(
    folder, tmp_path, sure, halves, p, n_levels, more
):
    (table, labels), (fit, test) = sure, halves
    settings = {"p": p, "n_levels": n_levels, **more}
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    report = record(folder / "net.csv", "--method", "lp", "--label", "finding", *given, "--out", tmp_path)
    model = LpRecalibrator(**settings).fit(table[fit], labels[fit])
    mapped = model.predict_proba(table[test])
    error = f"Err_{'∞' if p == np.inf else 2}, {n_levels} levels"
    before, after = (lp_calibration_error(one, labels[test], p, n_levels) for one in (table[test], mapped))
    assert value(report, error, "test", "lp") == pytest.approx(after)
    assert value(report, error, "test", "none") == pytest.approx(before)
    assert after < 0.6 * before
    brier = ((mapped - np.eye(3)[labels[test]]) ** 2).sum(axis=1).mean()
    assert value(report, "Brier score", "test", "lp") == pytest.approx(brier)
    cooled = TemperatureScaling().fit(table[fit], labels[fit]).predict_proba(table[test])
    right = (cooled.argmax(axis=1) == labels[test]).mean()
    assert value(report, "accuracy", "test", "temperature") == pytest.approx(right)
    assert report["facts"]["rounds"] == model.n_rounds_
    assert report["rows"] == {"fit": 600, "test": 600}
    carriers = report["tables"]["level sets that carry the error (test rows)"]
    sizes = [abs(row["forecast_before"] - row["frequency"]) * row["rows"] / len(test) for row in carriers]
    assert sizes == sorted(sizes, reverse=True)
    if p == np.inf:
        assert (sizes[0], carriers[0]["share_of_error"]) == (pytest.approx(before), 1.0)

    drawn = ("levels", "rows", *(["rounds"] if model.n_rounds_ else []))
    names = {f"{name}.{kind}" for name in drawn for kind in ("png", "svg", "csv")}
    written = {path.name for path in tmp_path.iterdir()}
    assert written == names | {"recalibrated.parquet", "report.json", "report.csv"}
    frame = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert frame["row"].to_list() == test.tolist()
    assert frame["label"].to_list() == [CLASSES[label] for label in labels[test]]
    columns = frame.select(f"after_{name}" for name in CLASSES).to_numpy()
    assert columns == pytest.approx(mapped, abs=1e-12)
    measures = json.loads((tmp_path / "report.json").read_text())["measures"]
    assert measures == report["measures"]
    lines = pl.read_csv(tmp_path / "report.csv")
    assert lines["lp"].to_list() == pytest.approx([line["values"]["lp"] for line in measures])
    rows = pl.read_csv(tmp_path / "rows.csv").filter(pl.col("method") == "lp")
    assert rows["error"][-1] == pytest.approx(after)


def test_the_commands_defaults_are_those_of_the_classes():
    for name, kind in (("lp", LpRecalibrator), ("decision", DecisionRecalibrator)):
        assert repr(method_of(name).model(Asked(Path("net.csv")), None)) == repr(kind())


def test_a_new_file_is_recalibrated_by_all_rows(folder, sure, tmp_path):
    table, labels = sure
    arguments = ["--method", "lp", "--label", "finding", "--set", "n_levels=4", "--out", tmp_path]
    report = record(folder / "net.csv", *arguments, "--apply", folder / "new.parquet")
    assert report["rows"] == {"fit": ROWS, "apply": 40}
    assert {line["part"] for line in report["measures"]} == {"fit"}
    frame = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert "label" not in frame.columns
    model = LpRecalibrator(n_levels=4).fit(table, labels)
    mapped = frame.select(f"after_{name}" for name in CLASSES).to_numpy()
    assert mapped == pytest.approx(model.predict_proba(table[:40]), abs=1e-12)


def test_decision_says_what_the_class_says(folder, sure, halves, tmp_path):
    (table, labels), (fit, test) = sure, halves
    report = record(folder / "net.npz", "--method", "decision", "--set", "n_actions=3", "--out", tmp_path)
    model = DecisionRecalibrator(n_actions=3).fit(table[fit], labels[fit])
    gaps = decision_loss_gap(model.predict_proba(table[test]), labels[test], gaussian_losses(3, 3))
    assert value(report, "mean gap of 500 losses", "test", "decision") == pytest.approx(gaps.mean())
    assert value(report, "worst gap of 500 losses", "test", "decision") == pytest.approx(gaps.max())
    assert gaps.mean() < 0.5 * value(report, "mean gap of 500 losses", "test", "none")
    assert report["facts"]["rounds"] == model.n_rounds_ > 0
    assert {path.stem for path in tmp_path.glob("*.png")} == {"gaps", "losses"}
    rounds = pl.read_csv(tmp_path / "gaps.csv").filter(pl.col("part") == "test")
    assert rounds["round"][-1] == model.n_rounds_
    assert rounds["mean"][-1] == pytest.approx(gaps[:100].mean())
    assert pl.read_csv(tmp_path / "losses.csv").height == 3 * 500


def test_a_loss_table_is_told_apart_by_the_names_of_its_classes(folder, sure, halves, tmp_path):
    (table, labels), (fit, test) = sure, halves
    report = record(
        folder / "net.csv", "--method", "decision", "--label", "finding", "--losses", folder / "costs.csv",
        "--out", tmp_path,
    )  # fmt: skip
    costs = np.array([[0.0, 4.0, 0.0], [1.0, 0.0, 1.0]])  # cat, dog, owl
    model = DecisionRecalibrator(losses=costs).fit(table[fit], labels[fit])
    mapped = model.predict_proba(table[test])
    chosen = (mapped @ costs.T).argmin(axis=1)
    true = costs[chosen, labels[test]]
    assert value(report, "loss that comes", "test", "decision") == pytest.approx(true.mean())
    predicted = (mapped @ costs.T).min(axis=1).mean()
    assert value(report, "loss that is predicted", "test", "decision") == pytest.approx(predicted)
    leave, act = report["tables"]["decisions before and after (test rows)"]
    assert (leave["action"], act["action"]) == ("leave", "act")
    assert (leave["rows_after"], act["rows_after"]) == ((chosen == 0).sum(), (chosen == 1).sum())
    assert leave["true_after"] == pytest.approx(true[chosen == 0].mean())
    expected = {"losses", "decisions"} | ({"gaps"} if model.n_rounds_ else set())
    assert {path.stem for path in tmp_path.glob("*.png")} == expected
    drawn = pl.read_csv(tmp_path / "decisions.csv")
    assert drawn.filter(pl.col("kind") == "dot").height == 2 * 600
    taken = drawn.filter(kind="taken", other="after")["value"].to_list()
    assert taken == pytest.approx([(chosen == action).mean() for action in (0, 1)])


@pytest.mark.parametrize("patch", ["log-odds", "shift", "value"])
def test_groups_say_what_the_class_says(folder, halves, tmp_path, patch):
    fit, test = halves
    report = record(
        folder / "events.csv", "--method", "groups", "--forecast", "risk", "--outcome", "ill",
        "--group", "side", "--group", "old", "--set", "alpha=0.002", "--set", f"patch={patch}",
        "--out", tmp_path,
    )  # fmt: skip
    frame = pl.read_csv(folder / "events.csv")
    p, y, groups = frame["risk"].to_numpy(), frame["ill"].to_numpy(), frame.select("side", "old")
    model = GroupRecalibrator(0.002, patch).fit(p[fit], y[fit], groups[fit])
    assert report["facts"]["start"] == model.start_.kind
    repair = model.report(p[test], y[test], groups[test])
    worst = "worst group's violation"
    assert value(report, worst, "test", "none") == pytest.approx(repair.before.worst.violation)
    assert value(report, worst, "test", "groups") == pytest.approx(repair.after.worst.violation)
    assert value(report, worst, "fit", "groups") == pytest.approx(model.violations_.max())
    assert model.violations_.max() < 0.2 * model.violations_before_.max()
    brier = [value(report, "Brier score", "test", column) for column in ("none", "groups", "isotonic")]
    assert brier[1] < 0.9 * min(brier[0], brier[2])
    rows = report["tables"]["each group before and after (test rows)"]
    for row, expected in zip(
        rows, sorted(repair.rows(), key=lambda row: -row["violation_before"]), strict=True
    ):
        assert row == pytest.approx(expected)
    assert "side=left & old=yes" in {row["group"] for row in rows}
    written = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert written["after"].to_numpy() == pytest.approx(model.predict(p[test], groups[test]))
    assert written["outcome"].to_list() == y[test].astype(int).tolist()
    patches = pl.read_csv(tmp_path / "patches.csv").filter(pl.col("part") == "test")
    assert patches["patches"][-1] == model.n_patches_
    assert patches["worst"][-1] == pytest.approx(repair.after.worst.violation)


def test_patches_without_a_grid_are_made_and_replayed_too(folder, tmp_path):
    arguments = [
        folder / "events.csv", "--method", "groups", "--forecast", "risk", "--outcome", "ill",
        "--group", "side", "--group", "old", "--set", "alpha=0.02", "--set", "patch=unrounded",
        "--set", "start=none",
    ]  # fmt: skip
    frame = pl.read_csv(folder / "events.csv").with_columns(pl.col("risk").round(1))
    arguments[0] = tmp_path / "few.csv"
    frame.write_csv(arguments[0])
    record(*arguments, "--out", tmp_path)
    patches = pl.read_csv(tmp_path / "patches.csv").filter(pl.col("part") == "fit")
    assert patches["worst"][0] > 0.02 >= patches["worst"][-1]
    assert "n_levels must be None for the patch 'unrounded', got 5" in refused(
        *arguments, "--set", "n_levels=5"
    )


def test_a_column_of_many_numbers_is_cut_into_ranges_for_new_rows_too(folder, tmp_path):
    report = record(
        folder / "events.csv", "--method", "groups", "--forecast", "risk", "--outcome", "ill",
        "--group", "age", "--apply", folder / "events-new.csv", "--out", tmp_path,
    )  # fmt: skip
    bounds = report["parameters"]["cuts"]["age"]
    assert len(bounds) == 3
    names = {row["group"] for row in report["tables"]["each group before and after (fit rows)"]}
    assert names == {
        "everyone",
        f"age=below {bounds[0]:g}",
        f"age={bounds[0]:g} to {bounds[1]:g}",
        f"age={bounds[1]:g} to {bounds[2]:g}",
        f"age=from {bounds[2]:g}",
    }
    written = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert written.columns == ["row", "before", "after"]
    assert written.height == 30


def test_boost_says_what_the_class_says(folder, halves, tmp_path):
    fit, test = halves
    frame = pl.read_csv(folder / "events.csv").with_columns(pl.col("side") == "left")
    frame.write_parquet(tmp_path / "numbers.parquet")
    report = record(tmp_path / "numbers.parquet", "--method", "boost", "--outcome", "ill", "--out", tmp_path)
    assert report["parameters"]["features"] == ["risk", "side", "age", "height"]
    X = frame.select("risk", "side", "age", "height").cast(pl.Float64).to_numpy()
    y = frame["ill"].to_numpy()
    model = BoostedRecalibrator().fit(X[fit], y[fit])
    p = model.predict(X[test])
    assert value(report, "Brier score", "test", "boost") == pytest.approx(((p - y[test]) ** 2).mean())
    assert value(report, "Brier score", "fit", "boost") == pytest.approx(model.squared_error_)
    rounds = report["tables"]["squared error by round"]
    assert [row["fit"] for row in rounds] == pytest.approx(
        [one.squared_error for one in model.rounds_[: model.n_kept_ + 1]]
    )
    assert rounds[-1]["test"] == pytest.approx(((p - y[test]) ** 2).mean())
    assert {path.stem for path in tmp_path.glob("*.png")} == {"reliability", "rounds"}


def test_boost_starts_from_forecasts(folder, halves):
    fit, test = halves
    frame = pl.read_csv(folder / "events.csv")
    chosen = ["--forecast", "risk", "--features", "age,height"]
    for setting in ("alpha=0.05", "bound=2.0", "n_levels=8"):
        chosen += ["--set", setting]
    report = record(folder / "events.csv", "--method", "boost", "--outcome", "ill", *chosen)
    X, p, y = frame.select("age", "height").to_numpy(), frame["risk"].to_numpy(), frame["ill"].to_numpy()
    model = BoostedRecalibrator.as_in_paper(alpha=0.05, bound=2.0, n_levels=8).fit(X[fit], y[fit], p[fit])
    after = model.predict(X[test], p[test])
    assert value(report, "Brier score", "test", "boost") == pytest.approx(((after - y[test]) ** 2).mean())
    assert value(report, "Brier score", "test", "none") == pytest.approx(((p[test] - y[test]) ** 2).mean())
    low, high = X[fit].min(axis=0), X[fit].max(axis=0)
    scaled = np.clip(2 * (X[test] - low) / (high - low) - 1, -1, 1)
    tests = np.sqrt(2) * np.column_stack([np.ones(len(test)), scaled])
    worst = functional_multicalibration_error(after, y[test], tests, 20).max()
    assert value(report, "worst violation, one feature", "test", "boost") == pytest.approx(worst)


@pytest.mark.parametrize(
    "arguments, drawn",
    [
        (["net.npz", "--method", "lp", "--set", "epsilon=0.9"], {"levels", "rows"}),
        (["events.csv", "--method", "boost", "--outcome", "ill", "--features", "height"], {"reliability"}),
    ],
)
def test_where_nothing_was_corrected_no_rounds_are_drawn(folder, tmp_path, arguments, drawn):
    report = record(folder / arguments[0], *arguments[1:], "--out", tmp_path)
    assert report["facts"].get("rounds kept", report["facts"]["rounds"]) == 0
    assert {path.stem for path in tmp_path.glob("*.png")} == drawn


def test_the_table_for_people_has_every_measure_and_file(folder, tmp_path):
    answer = run(
        folder / "events.csv", "--method", "groups", "--forecast", "risk", "--outcome", "ill",
        "--group", "old", "--out", tmp_path,
    )  # fmt: skip
    assert answer.exit_code == 0, answer.stderr
    for words in ("600 rows to fit, 600 rows to test", "worst group's violation", "Brier score", "everyone"):
        assert words in answer.stdout
    assert str(tmp_path / "groups.png") in answer.stdout


def test_measure_reports_groups(folder):
    frame = pl.read_csv(folder / "events.csv")
    arguments = [folder / "events.csv", "--forecast", "risk", "--outcome", "ill", "--group", "side"]
    report = commands.record("measure", *arguments, "--group", "old", "--bins", 10)
    left, old = (frame["side"] == "left").to_numpy(), (frame["old"] == "yes").to_numpy()
    rows = {row["name"]: row for row in report["groups"]["risk"]}
    assert len(rows) == 9
    members = np.column_stack([np.ones(ROWS, bool), left, left & old])
    p, y = frame["risk"].to_numpy(), frame["ill"].to_numpy()
    expected = multicalibration_report(p, y, members, 10, ["everyone", "side=left", "side=left & old=yes"])
    for row in expected.rows():
        assert rows[row["name"]] == pytest.approx(row)
    shown = commands.run("measure", *arguments, "--group", "old").stdout
    assert "side=left & old=yes" in shown
    assert "groups" not in commands.record("measure", *arguments[:-2])
    assert "no column 'town'" in commands.refused("measure", *arguments[:-1], "town")
