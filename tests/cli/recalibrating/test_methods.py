"""`recalibrate` with a method, `measure --group`: the classes' own numbers, whole files, new rows."""

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
from onlinecal.measures import multicalibration_report
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
from tests import commands
from tests.cli.recalibrating.runs import CLASSES, ROWS, record, run, value

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")

GROUPS = ("--method", "groups", "--forecast", "risk", "--outcome", "ill", "--group")


def settings_of(**given):
    return [word for name, value in given.items() for word in ("--set", f"{name}={value}")]


def pictures(folder):
    return {path.stem for path in folder.glob("*.png")}


@pytest.fixture
def compared(halves, tmp_path):
    """The command and a class recalibrate the same rows: what they make of the tested ones is the same."""

    def run(arguments, model, columns, y):
        report = record(*arguments, "--out", tmp_path)
        (first, *more), tested = ([one[rows] for one in columns] for rows in halves)
        model.fit(first, y[halves[0]], *more)
        mapped = (getattr(model, "predict_proba", None) or model.predict)(*tested)
        frame, y = pl.read_parquet(tmp_path / "recalibrated.parquet"), y[halves[1]]
        assert frame["row"].to_list() == halves[1].tolist()
        assert np.squeeze(frame.select("^after.*$").to_numpy()) == pytest.approx(mapped, abs=1e-12)
        hits, came = (np.eye(3)[y], [CLASSES[one] for one in y]) if mapped.ndim == 2 else (y, y.tolist())
        assert frame[:, -1].to_list() == came
        error = ((mapped - hits) ** 2).sum() / len(y)
        assert value(report, "Brier score", "test", report["method"]) == pytest.approx(error)
        assert json.loads((tmp_path / "report.json").read_text())["measures"] == report["measures"]
        return report, mapped, tested, y

    return run


@pytest.mark.parametrize("p, n_levels, more", [(2.0, 4, {"tolerance": 0.002}), (np.inf, 2, {"epsilon": 0.1})])
def test_lp_says_what_the_class_says(compared, folder, tmp_path, sure, halves, p, n_levels, more):
    settings = {"p": p, "n_levels": n_levels, **more}
    given = [folder / "net.csv", "--method", "lp", "--label", "finding", *settings_of(**settings)]
    model = LpRecalibrator(**settings)
    report, mapped, (P,), labels = compared(given, model, sure[:1], sure[1])
    error = f"Err_{'∞' if p == np.inf else 2}, {n_levels} levels"
    before, after = (lp_calibration_error(one, labels, p, n_bins=n_levels) for one in (P, mapped))
    assert value(report, error, "test", "lp") == pytest.approx(after)
    assert value(report, error, "test", "none") == pytest.approx(before)
    cooled = TemperatureScaling().fit(*(one[halves[0]] for one in sure)).predict_proba(P)
    right = (cooled.argmax(axis=1) == labels).mean()
    assert value(report, "accuracy", "test", "temperature") == pytest.approx(right)
    assert report["facts"]["rounds"] == model.n_rounds_
    assert report["rows"] == {"fit": 600, "test": 600}
    carriers = report["tables"]["level sets that carry the error (test rows)"]
    sizes = [abs(row["forecast_before"] - row["frequency"]) * row["rows"] / 600 for row in carriers]
    assert sizes == sorted(sizes, reverse=True)
    assert p == 2 or (sizes[0], carriers[0]["share_of_error"]) == (pytest.approx(before), 1.0)
    drawn = ("levels", *(["rounds"] if model.n_rounds_ else []))
    files = {f"{name}.{kind}" for name in drawn for kind in ("png", "svg", "csv")}
    files |= {"recalibrated.parquet", "report.json", "report.csv"}
    assert {path.name for path in tmp_path.iterdir()} == files
    lines = pl.read_csv(tmp_path / "report.csv")["lp"].to_list()
    assert lines == pytest.approx([line["values"]["lp"] for line in report["measures"]])


def test_decision_says_what_the_class_says(compared, folder, tmp_path, sure):
    given = [folder / "net.csv", "--method", "decision", "--label", "finding"]
    given += settings_of(n_actions=3, max_rounds=6)
    model = DecisionRecalibrator(n_actions=3, max_rounds=6)
    report, mapped, _, labels = compared(given, model, sure[:1], sure[1])
    gaps = decision_loss_gap(mapped, labels, gaussian_losses(3, 3))
    for name, gap in (("mean", gaps.mean()), ("worst", gaps.max())):
        assert value(report, f"{name} gap of 500 losses", "test", "decision") == pytest.approx(gap)
    assert report["facts"]["rounds"] == model.n_rounds_ > 0
    assert pictures(tmp_path) == {"gaps", "losses"}


def test_a_loss_table_is_told_apart_by_the_names_of_its_classes(compared, folder, tmp_path, sure):
    given = [folder / "net.csv", "--method", "decision", "--label", "finding"]
    costs = np.array([[0.0, 4.0, 0.0], [1.0, 0.0, 1.0]])  # cat, dog, owl
    model, losses = DecisionRecalibrator(losses=costs), ["--losses", folder / "costs.csv"]
    report, mapped, _, labels = compared([*given, *losses], model, sure[:1], sure[1])
    chosen, predicted = (mapped @ costs.T).argmin(axis=1), (mapped @ costs.T).min(axis=1)
    true = costs[chosen, labels]
    assert value(report, "loss that comes", "test", "decision") == pytest.approx(true.mean())
    assert value(report, "loss that is predicted", "test", "decision") == pytest.approx(predicted.mean())
    rows = report["tables"]["decisions before and after (test rows)"]
    assert [row["action"] for row in rows] == ["leave", "act"]
    assert [row["rows_after"] for row in rows] == np.bincount(chosen).tolist()
    assert rows[0]["true_after"] == pytest.approx(true[chosen == 0].mean())


def test_groups_say_what_the_class_says(compared, folder, tmp_path):
    frame = pl.read_csv(folder / "events.csv")
    more = settings_of(alpha=0.002, patch="shift")
    given = [folder / "events.csv", *GROUPS, "side", "--group", "old", *more]
    model, columns = (
        GroupRecalibrator(alpha=0.002, patch="shift"),
        (frame["risk"].to_numpy(), frame.select("side", "old")),
    )
    report, _, (p, groups), y = compared(given, model, columns, frame["ill"].to_numpy())
    repair, worst = model.report(p, y, groups), "worst group's violation"
    assert value(report, worst, "test", "none") == pytest.approx(repair.before.worst.violation)
    assert value(report, worst, "test", "groups") == pytest.approx(repair.after.worst.violation)
    assert value(report, worst, "fit", "groups") == pytest.approx(model.violations_.max())
    assert report["facts"]["start"] == model.start_.kind
    brier = [value(report, "Brier score", "test", column) for column in ("none", "groups", "isotonic")]
    assert brier[1] < 0.9 * min(brier[0], brier[2])
    rows = report["tables"]["each group before and after (test rows)"]
    known = sorted(repair.rows(), key=lambda row: -row["violation_before"])
    known = [{name: value for name, value in row.items() if name != "mass"} for row in known]
    assert rows == [pytest.approx(row) for row in known]
    assert pictures(tmp_path) == {"groups", "patches"}
    shown = run(*given).stdout
    for words in ("600 rows to fit, 600 rows to test", worst, "Brier score", "side=left & old=yes"):
        assert words in shown


def test_boost_says_what_the_class_says(compared, folder, tmp_path):
    frame, path = (
        pl.read_csv(folder / "events.csv").with_columns(pl.col("side") == "left"),
        tmp_path / "a.parquet",
    )
    frame.write_parquet(path)
    names, model = ["risk", "side", "age", "height"], BoostedRecalibrator()
    given, X = (
        [path, "--method", "boost", "--outcome", "ill"],
        frame.select(names).cast(pl.Float64).to_numpy(),
    )
    report, *_ = compared(given, model, [X], frame["ill"].to_numpy())
    assert report["parameters"]["features"] == names
    assert value(report, "Brier score", "fit", "boost") == pytest.approx(model.squared_error_)
    assert pictures(tmp_path) == {"reliability", "rounds"}


def test_boost_starts_from_forecasts(compared, folder):
    frame, settings = pl.read_csv(folder / "events.csv"), {"alpha": 0.05, "bound": 2.0, "n_levels": 8}
    given = [folder / "events.csv", "--method", "boost", "--outcome", "ill", "--forecast", "risk"]
    given += ["--features", "age,height", *settings_of(step="level sets", **settings)]
    columns = frame.select("age", "height").to_numpy(), frame["risk"].to_numpy()
    model = BoostedRecalibrator.as_in_paper(**settings)
    report, _, (_, p), y = compared(given, model, columns, frame["ill"].to_numpy())
    assert value(report, "Brier score", "test", "none") == pytest.approx(((p - y) ** 2).mean())
    assert report["facts"]["rounds kept"] == model.n_kept_


def test_measure_reports_groups(folder):
    frame = pl.read_csv(folder / "events.csv")
    given = ["measure", folder / "events.csv", "--forecast", "risk", "--outcome", "ill", "--group", "side"]
    report = commands.record(*given, "--group", "old", "--bins", 10)
    left, old = (frame["side"] == "left").to_numpy(), (frame["old"] == "yes").to_numpy()
    members = {"everyone": np.ones(ROWS, bool), "side=left": left, "side=left & old=yes": left & old}
    rows = {row["name"]: row for row in report["groups"]["risk"]}
    assert len(rows) == 9
    columns = frame["risk"].to_numpy(), frame["ill"].to_numpy(), np.column_stack([*members.values()])
    for row in multicalibration_report(*columns, n_bins=10, names=[*members]).rows():
        assert rows[row["name"]] == pytest.approx(row)
    assert "side=left & old=yes" in commands.run(*given, "--group", "old").stdout
