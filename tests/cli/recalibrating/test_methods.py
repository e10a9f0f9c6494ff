"""The verb `recalibrate`, `measure --group`: the classes' own numbers, whole files, errors in one line."""

import json

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
from onlinecal.measures import functional_multicalibration_error, multicalibration_report
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from tests import commands
from tests.cli.recalibrating.runs import CLASSES, ROWS, record, refused, run, value

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


def pictures(folder):
    return {path.stem for path in folder.glob("*.png")}


def settings_of(**given):
    return [word for name, value in given.items() for word in ("--set", f"{name}={value}")]


@pytest.mark.parametrize("p, n_levels, more", [(2.0, 4, {"tolerance": 0.002}), (np.inf, 2, {"epsilon": 0.1})])
def test_lp_says_what_the_class_says_and_leaves_whole_files(
    folder, tmp_path, sure, halves, p, n_levels, more
):
    (table, labels), (fit, test) = sure, halves
    settings = {"p": p, "n_levels": n_levels, **more}
    given = ["--method", "lp", "--label", "finding", *settings_of(**settings), "--out", tmp_path]
    report = record(folder / "net.csv", *given)
    model = LpRecalibrator(**settings).fit(table[fit], labels[fit])
    mapped = model.predict_proba(table[test])
    error = f"Err_{'∞' if p == np.inf else 2}, {n_levels} levels"
    before, after = (lp_calibration_error(one, labels[test], p, n_levels) for one in (table[test], mapped))
    assert value(report, error, "test", "lp") == pytest.approx(after)
    assert value(report, error, "test", "none") == pytest.approx(before)
    assert after < 0.6 * before
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
    files = names | {"recalibrated.parquet", "report.json", "report.csv"}
    assert {path.name for path in tmp_path.iterdir()} == files
    frame = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert frame["row"].to_list() == test.tolist()
    assert frame["label"].to_list() == [CLASSES[label] for label in labels[test]]
    assert frame.select(f"after_{name}" for name in CLASSES).to_numpy() == pytest.approx(mapped, abs=1e-12)
    measures = json.loads((tmp_path / "report.json").read_text())["measures"]
    assert measures == report["measures"]
    lines = pl.read_csv(tmp_path / "report.csv")
    assert lines["lp"].to_list() == pytest.approx([line["values"]["lp"] for line in measures])
    rows = pl.read_csv(tmp_path / "rows.csv").filter(pl.col("method") == "lp")
    assert rows["error"][-1] == pytest.approx(after)


def test_a_new_file_is_recalibrated_by_all_rows_with_the_defaults_of_the_class(folder, sure, tmp_path):
    given = ["--method", "lp", "--label", "finding", "--apply", folder / "new.parquet", "--out", tmp_path]
    report = record(folder / "net.csv", *given)
    assert report["rows"] == {"fit": ROWS, "apply": 40}
    assert {line["part"] for line in report["measures"]} == {"fit"}
    frame = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert "label" not in frame.columns
    mapped = LpRecalibrator().fit(*sure).predict_proba(sure[0][:40])
    assert frame.select(f"after_{name}" for name in CLASSES).to_numpy() == pytest.approx(mapped, abs=1e-12)


def test_decision_says_what_the_class_says(folder, sure, halves, tmp_path):
    (table, labels), (fit, test) = sure, halves
    report = record(folder / "net.npz", "--method", "decision", "--set", "n_actions=3", "--out", tmp_path)
    model = DecisionRecalibrator(n_actions=3).fit(table[fit], labels[fit])
    gaps = decision_loss_gap(model.predict_proba(table[test]), labels[test], gaussian_losses(3, 3))
    assert value(report, "mean gap of 500 losses", "test", "decision") == pytest.approx(gaps.mean())
    assert value(report, "worst gap of 500 losses", "test", "decision") == pytest.approx(gaps.max())
    assert gaps.mean() < 0.5 * value(report, "mean gap of 500 losses", "test", "none")
    assert report["facts"]["rounds"] == model.n_rounds_ > 0
    assert pictures(tmp_path) == {"gaps", "losses"}
    rounds = pl.read_csv(tmp_path / "gaps.csv").filter(pl.col("part") == "test")
    assert (rounds["round"][-1], rounds["mean"][-1]) == (model.n_rounds_, pytest.approx(gaps[:100].mean()))
    assert pl.read_csv(tmp_path / "losses.csv").height == 3 * 500


def test_a_loss_table_is_told_apart_by_the_names_of_its_classes(folder, sure, halves, tmp_path):
    (table, labels), (fit, test) = sure, halves
    given = [
        "--method",
        "decision",
        "--label",
        "finding",
        "--losses",
        folder / "costs.csv",
        "--out",
        tmp_path,
    ]
    report = record(folder / "net.csv", *given)
    costs = np.array([[0.0, 4.0, 0.0], [1.0, 0.0, 1.0]])  # cat, dog, owl
    mapped = DecisionRecalibrator(losses=costs).fit(table[fit], labels[fit]).predict_proba(table[test])
    chosen = (mapped @ costs.T).argmin(axis=1)
    true = costs[chosen, labels[test]]
    assert value(report, "loss that comes", "test", "decision") == pytest.approx(true.mean())
    predicted = (mapped @ costs.T).min(axis=1).mean()
    assert value(report, "loss that is predicted", "test", "decision") == pytest.approx(predicted)
    rows = report["tables"]["decisions before and after (test rows)"]
    assert [row["action"] for row in rows] == ["leave", "act"]
    for action, row in enumerate(rows):
        assert row["rows_after"] == (chosen == action).sum()
        assert row["true_after"] == pytest.approx(true[chosen == action].mean())
    assert pictures(tmp_path) - {"gaps"} == {"losses", "decisions"}
    taken = pl.read_csv(tmp_path / "decisions.csv").filter(kind="taken", other="after")["value"].to_list()
    assert taken == pytest.approx([(chosen == action).mean() for action in (0, 1)])


GROUPS = ("--method", "groups", "--forecast", "risk", "--outcome", "ill", "--group")


def test_groups_say_what_the_class_says(folder, halves, tmp_path):
    fit, test = halves
    more = [*settings_of(alpha=0.002, patch="shift"), "--out", tmp_path]
    given = (folder / "events.csv", *GROUPS, "side", "--group", "old", *more)
    report = record(*given)
    frame = pl.read_csv(folder / "events.csv")
    p, y, groups = frame["risk"].to_numpy(), frame["ill"].to_numpy(), frame.select("side", "old")
    model = GroupRecalibrator(0.002, "shift").fit(p[fit], y[fit], groups[fit])
    assert report["facts"]["start"] == model.start_.kind
    repair = model.report(p[test], y[test], groups[test])
    worst = "worst group's violation"
    assert value(report, worst, "test", "none") == pytest.approx(repair.before.worst.violation)
    assert value(report, worst, "test", "groups") == pytest.approx(repair.after.worst.violation)
    assert value(report, worst, "fit", "groups") == pytest.approx(model.violations_.max())
    brier = [value(report, "Brier score", "test", column) for column in ("none", "groups", "isotonic")]
    assert brier[1] < 0.9 * min(brier[0], brier[2])
    rows = report["tables"]["each group before and after (test rows)"]
    known = sorted(repair.rows(), key=lambda row: -row["violation_before"])
    assert rows == [pytest.approx(row) for row in known]
    assert "side=left & old=yes" in {row["group"] for row in rows}
    written = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert written["after"].to_numpy() == pytest.approx(model.predict(p[test], groups[test]))
    assert written["outcome"].to_list() == y[test].astype(int).tolist()
    patches = pl.read_csv(tmp_path / "patches.csv").filter(pl.col("part") == "test")
    assert patches["patches"][-1] == model.n_patches_
    assert patches["worst"][-1] == pytest.approx(repair.after.worst.violation)
    shown = run(*given).stdout
    for words in ("600 rows to fit, 600 rows to test", worst, "Brier score", "everyone", "groups.png"):
        assert words in shown


def test_patches_without_a_grid_are_made_and_replayed_too(folder, tmp_path):
    few = tmp_path / "few.csv"
    pl.read_csv(folder / "events.csv").with_columns(pl.col("risk").round(1)).write_csv(few)
    settings = settings_of(alpha=0.02, patch="unrounded", start="none")
    given = [few, *GROUPS, "side", "--group", "old", *settings]
    record(*given, "--out", tmp_path)
    patches = pl.read_csv(tmp_path / "patches.csv").filter(pl.col("part") == "fit")
    assert patches["worst"][0] > 0.02 >= patches["worst"][-1]
    words = refused(*given, *settings_of(n_levels=5))
    assert "n_levels must be None for the patch 'unrounded', got 5" in words


def test_a_column_of_many_numbers_is_cut_into_ranges_for_new_rows_too(folder, tmp_path):
    new = ["--apply", folder / "events-new.csv", "--out", tmp_path]
    report = record(folder / "events.csv", *GROUPS, "age", *new)
    low, middle, high = report["parameters"]["cuts"]["age"]
    ranges = [f"below {low:g}", f"{low:g} to {middle:g}", f"{middle:g} to {high:g}", f"from {high:g}"]
    names = {row["group"] for row in report["tables"]["each group before and after (fit rows)"]}
    assert names == {"everyone", *(f"age={one}" for one in ranges)}
    written = pl.read_parquet(tmp_path / "recalibrated.parquet")
    assert (written.columns, written.height) == (["row", "before", "after"], 30)


def test_boost_says_what_the_class_says(folder, halves, tmp_path):
    fit, test = halves
    frame = pl.read_csv(folder / "events.csv").with_columns(pl.col("side") == "left")
    frame.write_parquet(tmp_path / "numbers.parquet")
    report = record(tmp_path / "numbers.parquet", "--method", "boost", "--outcome", "ill", "--out", tmp_path)
    names = ["risk", "side", "age", "height"]
    assert report["parameters"]["features"] == names
    X, y = frame.select(names).cast(pl.Float64).to_numpy(), frame["ill"].to_numpy()
    model = BoostedRecalibrator().fit(X[fit], y[fit])
    error = ((model.predict(X[test]) - y[test]) ** 2).mean()
    assert value(report, "Brier score", "test", "boost") == pytest.approx(error)
    assert value(report, "Brier score", "fit", "boost") == pytest.approx(model.squared_error_)
    rounds = report["tables"]["squared error by round"]
    kept = [one.squared_error for one in model.rounds_[: model.n_kept_ + 1]]
    assert [row["fit"] for row in rounds] == pytest.approx(kept)
    assert rounds[-1]["test"] == pytest.approx(error)
    assert pictures(tmp_path) == {"reliability", "rounds"}
    # where nothing was corrected no rounds are drawn
    useless = ["--outcome", "ill", "--features", "height", "--out", tmp_path / "none"]
    assert record(folder / "events.csv", "--method", "boost", *useless)["facts"]["rounds kept"] == 0
    assert pictures(tmp_path / "none") == {"reliability"}


def test_boost_starts_from_forecasts(folder, halves):
    fit, test = halves
    settings = {"alpha": 0.05, "bound": 2.0, "n_levels": 8}
    given = ["--outcome", "ill", "--forecast", "risk", "--features", "age,height", *settings_of(**settings)]
    report = record(folder / "events.csv", "--method", "boost", *given)
    frame = pl.read_csv(folder / "events.csv")
    X, p, y = frame.select("age", "height").to_numpy(), frame["risk"].to_numpy(), frame["ill"].to_numpy()
    model = BoostedRecalibrator.as_in_paper(**settings).fit(X[fit], y[fit], p[fit])
    after = model.predict(X[test], p[test])
    for column, found in (("boost", after), ("none", p[test])):
        assert value(report, "Brier score", "test", column) == pytest.approx(((found - y[test]) ** 2).mean())
    low, high = X[fit].min(axis=0), X[fit].max(axis=0)
    scaled = np.clip(2 * (X[test] - low) / (high - low) - 1, -1, 1)
    tests = np.sqrt(2) * np.column_stack([np.ones(len(test)), scaled])
    worst = functional_multicalibration_error(after, y[test], tests, 20).max()
    assert value(report, "worst violation, one feature", "test", "boost") == pytest.approx(worst)


def test_measure_reports_groups(folder):
    frame = pl.read_csv(folder / "events.csv")
    given = [folder / "events.csv", "--forecast", "risk", "--outcome", "ill", "--group", "side"]
    report = commands.record("measure", *given, "--group", "old", "--bins", 10)
    left, old = (frame["side"] == "left").to_numpy(), (frame["old"] == "yes").to_numpy()
    members = {"everyone": np.ones(ROWS, bool), "side=left": left, "side=left & old=yes": left & old}
    rows = {row["name"]: row for row in report["groups"]["risk"]}
    assert len(rows) == 9
    columns = frame["risk"].to_numpy(), frame["ill"].to_numpy(), np.column_stack([*members.values()])
    for row in multicalibration_report(*columns, 10, [*members]).rows():
        assert rows[row["name"]] == pytest.approx(row)
    assert "side=left & old=yes" in commands.run("measure", *given, "--group", "old").stdout
    assert "no column 'town'" in commands.refused("measure", *given[:-1], "town")
