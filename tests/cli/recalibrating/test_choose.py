"""`recalibrate` without a method: numbers on rows that were not fitted, ties, and what is taken."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from onlinecal import decision_loss_gap, lp_calibration_error
from onlinecal.cli.recalibrating import comparing
from onlinecal.cli.recalibrating.asked import Request
from onlinecal.cli.recalibrating.comparing import class_methods
from onlinecal.cli.recalibrating.rows import recognise
from onlinecal.cli.recalibrating.scores import (
    LP_LEVELS,
    advice,
    class_scores_of,
    event_scores_of,
    resamples,
    verdict_of,
    worst_group,
)
from onlinecal.cli.recalibrating.splitting import read_split
from onlinecal.measures import (
    classwise_calibration_error,
    expected_calibration_error,
    multicalibration_error,
)
from onlinecal.measures.scores import class_scores, event_scores
from onlinecal.plots.recalibrations import draw_scoreboard
from onlinecal.recalibration.classical.temperature import TemperatureScaling
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.tables.classes import File, Part
from tests import ROOT
from tests.cli.recalibrating.runs import CLASSES, ROWS, record, run

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


ASKED = Request(Path("net.csv"))


@pytest.fixture(scope="module")
def chosen(folder, tmp_path_factory):
    """What it says of the three classes, and the folder it wrote."""
    out = tmp_path_factory.mktemp("chosen")
    return record(folder / "net.csv", "--label", "finding", "--out", out), out


def score(report, measure, method):
    return next(one for one in report["scores"] if (one["measure"], one["method"]) == (measure, method))


def test_weights_of_rows_say_what_repeated_rows_say(sure):
    table, labels = sure[0][:60], sure[1][:60]
    weights = np.random.default_rng(0).integers(0, 3, 60)
    rows, y, losses = table.repeat(weights, axis=0), labels.repeat(weights), gaussian_losses(2, 3, 7)
    usual = class_scores(rows, y)
    classwise = classwise_calibration_error(rows, y, n_bins=15)
    errors = lp_calibration_error(rows, y, 2, n_bins=LP_LEVELS), decision_loss_gap(rows, y, losses).mean()
    expected = [usual.log_loss, usual.brier, usual.accuracy, classwise, usual.ece, *errors]
    found = class_scores_of(table, labels, losses).values()
    assert [one(weights[:, None].astype(float)).item() for one in found] == pytest.approx(expected)

    q, won, members = table[:, 0], (labels == 0).astype(np.uint8), table > 0.3
    rows, y, pairs = q.repeat(weights), won.repeat(weights), gaussian_losses(2, 2, 5)
    usual = event_scores(rows, y)
    gap = decision_loss_gap(np.column_stack([1 - rows, rows]), y, pairs).mean()
    worst = multicalibration_error(rows, y, members.repeat(weights, axis=0), n_bins=10).max()
    ece = expected_calibration_error(rows, y, n_bins=15, normalize=True)
    expected = [usual.log_loss, usual.brier, ece, gap, worst]
    found = [*event_scores_of(q, won, pairs).values(), worst_group(q, won, members)]
    assert [one(weights[:, None].astype(float)).item() for one in found] == pytest.approx(expected)


def test_rows_that_belong_together_are_drawn_together():
    together = np.array([4, 4, 7, 9, 9, 9, 7, 2])
    first, *blocks = resamples(8, together, 3, seed=1)
    drawn = np.hstack(blocks)
    assert (first == 1).all()
    assert drawn.shape == (8, 200)
    assert (drawn[[0, 2, 3, 3]] == drawn[[1, 6, 4, 5]]).all()
    assert (drawn[[0, 2, 3, 7]].sum(axis=0) == 4).all()


def test_of_methods_that_chance_cannot_tell_apart_the_simplest_is_taken():
    rng = np.random.default_rng(0)
    common, own = 0.1 * rng.standard_normal(500), 0.01 * rng.standard_normal((2, 500))
    a, b, c = (
        np.append(value, value + common + more)
        for value, more in ((1.5, 0.0), (1.005, own[0]), (1.0, own[1]))
    )
    losses = {"a": a, "b": b, "c": c}
    verdict = verdict_of("log loss", losses)
    # what all methods share is no reason to doubt a difference
    assert (verdict.take, verdict.tied) == ("b", ("b", "c"))
    purposes = {"probabilities": "log loss", "decisions": "decision gap"}
    method, why = advice({"log loss": losses, "decision gap": {"a": c, "b": c, "c": a}}, purposes, 5000)
    assert (method, "nothing is better for decisions" in why) == ("b", True)
    board = {"log loss": losses, "decision gap": {"a": b, "b": a, "c": c}}
    assert advice(board, purposes, 5000)[0] == "c"  # best for more, and no worse in log loss
    assert advice(board, purposes, 100)[0] == "b"
    # nor what a method shares with the best alone
    near, far = np.append(1.05, 1.05 + common + own[0]), np.append(2.0, 2.0 + 0.1 * rng.standard_normal(500))
    assert verdict_of("log loss", {"near": near, "far": far, "c": c}).tied == ("c",)
    # the last bits choose nothing
    same = np.full(11, 0.25)
    for pair in ((same, same * (1 - 1e-15)), (same * (1 - 1e-15), same)):
        assert verdict_of("log loss", {"simple": pair[0], "other": pair[1]}).tied == ("simple", "other")


def test_a_loss_far_above_the_least_is_not_tied_however_uncertain_it_is():
    """A few outcomes that were given 0 make a log loss large, and its interval wide."""
    rng = np.random.default_rng(0)
    best = np.append(0.10, 0.10 + 0.01 * rng.standard_normal(500))
    near, wild = best + 0.004, np.append(0.22, 0.22 + 0.3 * rng.standard_normal(500))
    near[1:] += 0.004 * rng.standard_normal(500)
    assert verdict_of("log loss", {"wild": wild, "near": near, "best": best}).tied == ("near", "best")
    assert verdict_of("Brier", {"wild": wild, "best": best}).take == "wild"


@pytest.mark.parametrize(("values", "known"), [(2, False), (12, False), (60, True)])
def test_few_values_of_together_have_no_interval_and_no_winner(tmp_path, values, known):
    rng = np.random.default_rng(0)
    p = rng.random(600)
    y = (rng.random(600) < p**3).astype(int)
    pl.DataFrame({"p": p, "y": y, "day": np.arange(600) % values}).write_csv(tmp_path / "days.csv")
    report = record(tmp_path / "days.csv", "--forecast", "p", "--outcome", "y", "--together", "day")
    lows = [one["low"] for one in report["scores"]]
    assert all(low is not None for low in lows) if known else all(low is None for low in lows)
    assert (report["recommended"] != "none") == known
    assert any("too few to say what chance explains" in text for text in report["warnings"]) != known
    if not known:
        assert "too little to draw from" in report["why"]
        assert all(one["best"] for one in report["scores"])


def test_scores_are_those_of_both_halves_by_the_map_of_the_other(chosen, sure, halves):
    report, _ = chosen
    table, labels = sure
    losses, scores = gaussian_losses(2, 3, 100), []
    for fit, test in (halves, halves[::-1]):
        mapped = TemperatureScaling().fit(table[fit], labels[fit]).predict_proba(table[test])
        gap = decision_loss_gap(mapped, labels[test], losses).mean()
        scores.append([*class_scores(mapped, labels[test]), gap])
    measures = ["Brier", "log loss", "accuracy", "top-label ECE", "decision gap"]
    found = [score(report, measure, "temperature")["value"] for measure in measures]
    assert found == pytest.approx(np.mean(scores, axis=0))
    assert report["methods"] == list(class_methods(ASKED, 600, 3)[0])
    assert report["rows"] == {"fit and test": ROWS}
    none, cooled = (score(report, "log loss", name) for name in ("none", "temperature"))
    assert cooled["difference"] == pytest.approx(cooled["value"] - none["value"])
    assert cooled["difference_high"] < 0 == none["difference_high"]
    spread = np.std(-np.log(table[np.arange(ROWS), labels])) / np.sqrt(ROWS)
    assert (none["high"] - none["low"]) / 2 == pytest.approx(1.96 * spread, rel=0.2)


def test_what_is_recommended_is_among_the_best_and_written_row_by_row(chosen, sure, halves):
    report, out = chosen
    (best,) = [one for one in report["best"] if one["purpose"] == "probabilities"]
    taken = report["chosen"]
    assert taken == report["recommended"] in (best["take"], *best["tied"])
    assert score(report, "log loss", taken)["difference_high"] < 0
    assert "is the least here" in report["why"]
    (table, labels), (methods, _) = sure, class_methods(ASKED, 600, 3)
    frame = pl.read_parquet(out / "recalibrated.parquet")
    assert frame["row"].to_list() == list(range(ROWS))
    assert frame["label"].to_list() == [CLASSES[label] for label in labels]
    mapped = frame.select(f"after_{name}" for name in CLASSES).to_numpy()
    for fit, test in (halves, halves[::-1]):
        fitted = methods[taken](Part("fit", fit, table[fit], labels[fit]))
        assert mapped[test] == pytest.approx(fitted(Part("test", test, table[test], None)), abs=1e-9)
    drawn = pl.read_csv(out / "scoreboard.csv")
    assert drawn.height == len(report["methods"]) * 7
    titles = [axis.get_title("left") for axis in draw_scoreboard(drawn).axes]
    assert titles == drawn["measure"].unique(maintain_order=True).to_list()
    files = {f"scoreboard.{kind}" for kind in ("png", "svg", "csv")}
    files |= {"recalibrated.parquet", "report.json", "report.csv"}
    assert {path.name for path in out.iterdir()} == files
    assert json.loads((out / "report.json").read_text())["scores"] == report["scores"]


def some_methods(*asked):
    """Those that are fitted at once."""
    methods, _ = class_methods(*asked)
    return {name: methods[name] for name in ("none", "temperature")}, {}


def test_a_new_file_is_recalibrated_by_all_rows_and_any_method(folder, sure, tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "class_methods", some_methods)
    arguments = [folder / "net.csv", "--label", "finding", "--split", 0.3, "--out", tmp_path]
    answer = run(*arguments, "--apply", folder / "new.parquet", "--choose", "temperature")
    assert answer.exit_code == 0, answer.stderr
    assert "360 rows to test" in answer.stdout
    assert re.search(r"Take temperature|Chosen:\s+temperature\.", answer.stdout)
    mapped = pl.read_parquet(tmp_path / "recalibrated.parquet").select(f"after_{name}" for name in CLASSES)
    expected = TemperatureScaling().fit(*sure).predict_proba(sure[0][:40])
    assert mapped.to_numpy() == pytest.approx(expected, abs=1e-12)


def test_a_column_of_forecasts_is_tried_with_groups_and_features(folder, halves):
    given = [folder / "events.csv", "--outcome", "ill"]
    report = record(*given, "--group", "side", "--group", "old", "--features", "age,height")
    assert report["methods"] == ["none", "platt", "beta", "isotonic", "groups", "boost"]
    assert report["contents"] == "risk as forecasts of ill"
    frame = pl.read_csv(folder / "events.csv")
    p, y, groups = frame["risk"].to_numpy(), frame["ill"].to_numpy(), frame.select("side", "old")
    members = GroupMaker().fit(groups, ROWS)
    worst = [multicalibration_error(p[rows], y[rows], members[rows], n_bins=10).max() for rows in halves]
    assert score(report, "worst group", "none")["value"] == pytest.approx(np.mean(worst))
    # what is wrong here, only groups show
    assert score(report, "Brier", "groups")["best"] == "take"
    assert score(report, "worst group", "groups")["difference_high"] < 0
    assert record(*given)["left_out"].keys() == {"groups", "boost"}


def test_what_cannot_be_fitted_is_left_out_and_an_interrupt_shows_what_is_done(folder, tmp_path, monkeypatch):
    def failing(error):
        def fit(_part):
            raise error

        return fit

    def some(*asked):
        kept, _ = some_methods(*asked)
        return {**kept, "odd": failing(ValueError("too odd")), "vector": failing(KeyboardInterrupt)}, {}

    monkeypatch.setattr(comparing, "class_methods", some)
    report = comparing.compare(Request(folder / "net.npz")).record
    assert report["methods"] == ["none", "temperature"]
    assert report["left_out"] == {"odd": "too odd", "vector": "interrupted"}
    for name, message in (
        ("odd", "--choose 'odd' could not be fitted: too odd; choose another method"),
        ("vector", "--choose 'vector' was interrupted before it was fitted: run it again"),
        ("lq", "--choose 'lq' is none of the methods tried. They are: none, temperature, odd, vector"),
    ):
        with pytest.raises(ValueError, match=message):
            comparing.compare(Request(folder / "net.npz", choose=name))
    answer = run(folder / "net.npz", "--out", tmp_path / "out")
    assert answer.exit_code == 130
    assert "Take temperature" in answer.stdout
    assert not (tmp_path / "out").exists()


@pytest.fixture
def visits(tmp_path):
    rows = np.arange(90)
    columns = {"p": rows / 89, "y": rows % 2, "patient": rows // 9, "part": ["Train"] * 50 + ["test"] * 40}
    pl.DataFrame(columns).write_csv(tmp_path / "visits.csv")
    np.savez(tmp_path / "visits.npz", p=columns["p"], y=columns["y"])
    return tmp_path / "visits.csv"


def test_splits_are_by_chance_by_time_and_by_a_column(visits):
    frame = pl.read_csv(visits)
    first, second = read_split(frame, Request(visits), in_turn=True).folds
    assert sorted(np.concatenate(first)) == list(range(90))
    assert [one.tolist() for one in first] == [one.tolist() for one in second[::-1]]
    assert len(read_split(frame, Request(visits, split="0.5"), in_turn=True).folds) == 1
    for split, n_fit in (("time:0.2", 72), ("part", 50)):
        found = read_split(frame, Request(visits, split=split), in_turn=True)
        ((fit, test),) = found.folds
        assert (fit.tolist(), test.tolist()) == (list(range(n_fit)), list(range(n_fit, 90)))
    assert found.in_words == "rows fitted and tested as part says"


@pytest.mark.parametrize("share", ["0.3", "time:0.3"])
def test_rows_of_one_patient_stay_together(visits, share):
    frame = pl.read_csv(visits)
    split = read_split(frame, Request(visits, split=share, together="patient"))
    ((fit, test),) = split.folds
    assert not set(split.together[fit]) & set(split.together[test])
    assert (len(fit), len(test)) == (63, 27)
    assert split.together.tolist() == [row // 9 for row in range(90)]
    if share == "time:0.3":
        assert fit.tolist() == list(range(63))
    with pytest.raises(
        ValueError, match="row 50 is to be tested, but a row to be fitted has the same patient"
    ):
        read_split(frame, Request(visits, split="part", together="patient"))


@pytest.mark.parametrize(
    "values, split, advice",
    [
        (["a"] * 95 + ["b"] * 5, "0.5", "a single value has 95 of the 100 rows"),
        (["a"] * 95 + ["b"] * 5, "time", "give more rows, or leave out --together day"),
        ([str(row // 5) for row in range(40)], "0.1", "give more rows, or another --split"),
        (["a"] * 9 + ["b"] * 9, "0.5", "got 9 to fit and 9 to test: give at least 20 rows"),
    ],
)
def test_too_few_rows_have_a_remedy_that_helps(tmp_path, values, split, advice):
    file = tmp_path / "days.csv"
    asked = Request(file, split=split, together="day")
    frame = pl.DataFrame({"day": values})
    with pytest.raises(ValueError, match=advice):
        read_split(frame, asked)
    if "another" in advice:
        assert read_split(frame, replace(asked, split="0.5")).folds


def test_a_file_is_recognised_by_its_columns_and_methods_that_take_too_long_are_left_out(visits, folder):
    for asked in (Request(visits), Request(visits.with_suffix(".npz"), group=["part"])):
        known = replace(asked, forecast="p", outcome="y")
        assert recognise(asked, File.read(asked.file)) == (False, known)
    one = Request(folder / "events.csv", probabilities="risk", label="ill")
    for asked in (Request(folder / "net.npz"), Request(folder / "net.csv", label="finding"), one):
        assert recognise(asked, File.read(asked.file)) == (True, asked)
    assert class_methods(ASKED, 5000, 2)[1].keys() == {"top-label"}
    assert class_methods(ASKED, 300_000, 10)[1].keys() == {"dirichlet", "decision"}
    assert class_methods(replace(ASKED, choose="decision"), 300_000, 10)[1].keys() == {"dirichlet"}


def tokens(text):
    """Words, and numbers without marks; how tables are framed does not matter."""
    words = [word.strip("*=±,") for word in re.sub(r"[─\s]+", " ", text).split()]
    return [float(word) if re.fullmatch(r"\d*[.]?\d+", word) else word for word in words]


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    page = (ROOT / "docs" / "recalibrate.md").read_text(encoding="utf-8")
    block = r"^onlinecal recalibrate (nba[^\n]*)\n```\n\n```text\n(.*?)^```"
    command, shown = re.search(block, page, re.M | re.S).groups()
    for told, printed in zip(tokens(shown), tokens(run(*command.split()).stdout), strict=True):
        # the last digits of solvers differ from one machine to another
        assert printed == (told if isinstance(told, str) else pytest.approx(told, abs=2e-3))
