"""The verb evaluate: true numbers, pictures beside their CSV, streams that break nothing here."""

import json
import math
import re

import numpy as np
import polars as pl
import pytest
from river import datasets, linear_model, metrics, naive_bayes, preprocessing

from onlinecal import CalibratedClassifier, expected_calibration_error
from onlinecal.metrics import Brier
from onlinecal.simulations import evaluation as sources
from onlinecal.simulations.evaluation import evaluate
from tests.commands import record, refused, run


def scores(*arguments):
    return record("evaluate", *arguments)["scores"]


def test_the_numbers_are_those_of_progressive_validation():
    base, _, _, ours = scores("Phishing", "--model", "logistic", "--rounds", 200)
    assert [base["method"], ours["method"]] == ["base", "calibrated"]
    plain, inner = (preprocessing.StandardScaler() | linear_model.LogisticRegression() for _ in range(2))
    wrapped = CalibratedClassifier(inner)
    for score, model in ((base, plain), (ours, wrapped)):
        running, p, y = {"brier": Brier(), "log_loss": metrics.LogLoss()}, [], []
        for x, label in datasets.Phishing().take(200):
            answer = model.predict_proba_one(x)
            for metric in running.values():
                metric.update(label, answer)
            p.append(answer[True])
            y.append(label)
            model.learn_one(x, label)
        found = {name: metric.get() for name, metric in running.items()}
        found["ece_bins"] = expected_calibration_error(p, y, n_bins=15, normalize=True)
        found["ece"] = expected_calibration_error(p, y, normalize=True)
        assert {name: score[name] for name in found} == pytest.approx(found)
    assert ours["certificate"] == pytest.approx(wrapped.certificate / 200)
    assert ours["distance_upper"] <= ours["certificate"] <= ours["guarantee"]
    assert base["certificate"] is None


def test_a_file_of_forecasts_or_one_of_the_package_is_a_model(tmp_path):
    path, rng = tmp_path / "games.csv", np.random.default_rng(0)
    p = rng.random(300).round(3)
    won = (rng.random(300) < p**2).astype(int)
    pl.DataFrame({"day": np.arange(300), "chance": p, "won": won})[::-1].write_csv(path)
    found = scores(path, "--forecast", "chance", "--outcome", "won", "--sort", "day")
    assert [score["method"] for score in found] == ["base", "Platt", "mean", "calibrated"]
    assert found[0]["brier"] == pytest.approx(((p - won) ** 2).mean())
    assert {(score["stream"], score["rounds"]) for score in found} == {("games.csv", 300)}
    found = scores("nba", "--rounds", 300, "--together", "date")
    assert {(score["stream"], score["rounds"]) for score in found} == {("nba", 300)}


def test_more_than_two_labels_are_judged_by_the_top_label():
    found = scores("ImageSegments", "--model", "bayes", "--rounds", 150)
    model, right = naive_bayes.GaussianNB(), []
    for x, y in datasets.ImageSegments().take(150):
        answer = model.predict_proba_one(x)
        right += [max(answer, key=answer.get) == y] if answer else []
        model.learn_one(x, y)
    assert (found[0]["rounds"], found[0]["ones"]) == (len(right), sum(right))
    assert found[3]["distance_lower"] <= found[3]["certificate"] <= found[3]["guarantee"]


def test_hard_streams_are_what_they_say():
    assert set(sources.HARD_STREAMS) == {"flip", "fold", "drift", "threshold"}
    half = np.arange(20_000) < 10_000

    def agreement(p, y):
        return np.corrcoef(p, y)[0, 1]

    checks = {
        "flip": lambda p, y: agreement(p[half], y[half]) > 0.5 > -0.5 > agreement(p[~half], y[~half]),
        "fold": lambda p, y: max(abs(y[p > 0.7].mean() - 0.3), abs((y - p)[p <= 0.7].mean())) < 0.02,
        "drift": lambda p, y: y[:2000].mean() > 0.8 > 0.2 > y[-2000:].mean(),
    }
    for name, check in checks.items():
        source = sources.hard(name, 20_000, 0)
        labels = np.array([source.label(t, 0.5) for t in range(20_000)])
        assert check(np.array([x["forecast"] for x in source.features]), labels), name
    threshold = sources.hard("threshold", 10, 0)
    assert (threshold.label(0, 0.49), threshold.label(0, 0.5)) == (True, False)


def test_pictures_lie_beside_their_numbers(tmp_path):
    out = tmp_path / "out"
    shown = run("evaluate", "Phishing", "--model", "bayes", "--rounds", 200, "--out", out).stdout
    for stem in ("reliability-phishing-bayes", "distance"):
        assert {path.suffix for path in out.glob(f"{stem}.*")} == {".png", ".svg", ".csv"}
        assert f"{stem}.png" in shown
    names = pl.read_csv(out / "results.csv")["method"].to_list()
    assert names == ["base", "Platt", "mean", "calibrated"]
    running = pl.read_csv(out / "distance.csv").filter(method="calibrated")
    assert (running["distance"] <= running["certificate"] + 1e-9).all()
    assert (running["certificate"] <= running["guarantee"]).all()


def test_a_broken_bound_is_an_exit_code(monkeypatch):
    monkeypatch.setattr(CalibratedClassifier, "certificate", 0.0)
    answer = run("evaluate", "Phishing", "--rounds", 100)
    assert answer.exit_code == 1
    assert "BROKEN: distance to calibration" in answer.stdout


@pytest.fixture(params=[16, pytest.param(50, marks=pytest.mark.slow)])
def matches(request, tmp_path):
    """Two matches at a time: chances that wander to their outcomes, which are known at the end."""
    walks = 0.4 * np.random.default_rng(7).standard_normal((request.param, 40)).cumsum(axis=1)
    match, minute = np.indices(walks.shape).reshape(2, -1)
    start, won = 40 * (match // 2), np.where(walks[match, -1] > 0, "yes", "no")
    frame = pl.DataFrame({"minute": start + minute, "p": 1 / (1 + np.exp(-walks.ravel() / 2)), "won": won})
    path = tmp_path / "matches.csv"
    frame = frame.with_columns(match=match, end=start + 39).sort("minute", maintain_order=True)
    frame.write_csv(path)
    return path


def test_outcomes_of_matches_do_not_leak_into_their_own_rows(matches):
    """Settled at once they "improve" the forecasts; at the end of the match there is little to learn."""
    file = [matches, "--forecast", "p", "--outcome", "won"]
    at_once = run("evaluate", *file, "--sort", "match", "--json")
    assert "leak into each other" in at_once.stderr
    first = {one["method"]: one["brier"] for one in json.loads(at_once.stdout)["scores"]}
    assert first["Platt"] < 0.9 * first["base"]
    for options in (["--together", "match"], ["--settled-at", "end"]):
        answer = run("evaluate", *file, "--sort", "minute", *options, "--json")
        assert "leak" not in answer.stderr
        scores = {one["method"]: one for one in json.loads(answer.stdout)["scores"]}
        assert scores["base"]["brier"] == pytest.approx(first["base"])
        assert min(one["brier"] for one in scores.values()) > 0.97 * first["base"]
        assert scores["calibrated"]["distance_lower"] <= scores["calibrated"]["certificate"]


def test_labels_come_when_their_column_says(tmp_path):
    """Row numbers: a schedule that --late can write too gives its figures, and wrong ones are refused."""
    rng, path = np.random.default_rng(8), tmp_path / "a.csv"
    p, row = rng.random(200), np.arange(200)
    columns = {"p": p, "y": (rng.random(200) < p).astype(int), "at": row + 5, "t": 3.0 + 0 * p}
    pl.DataFrame(columns).with_columns(day=pl.lit("day one")).write_csv(path)
    file = [path, "--forecast", "p", "--outcome", "y"]
    assert scores(*file, "--settled-at", "at") == scores(*file, "--late", 5)
    for options, words in (
        ("--settled-at t", "has 3.0 at row 4, before the forecast itself, which is of row 4"),
        ("--settled-at p", "must hold row numbers"),
        ("--settled-at at --together t", "exclude each other"),
        ("--together t --late 1", "--late excludes"),
        ("--settled-at day --sort at", "column 'day' has 'day one' at row 0, which cannot be read as a time"),
        ("--settled-at y --sort at", "before the forecast itself, which is of at"),
    ):
        assert words in refused("evaluate", *file, *options.split())


def test_what_went_out_stands_beside_what_came_in(tmp_path):
    rng, path = np.random.default_rng(9), tmp_path / "a.csv"
    p = rng.random(300).round(1)
    pl.DataFrame({"p": p, "y": (rng.random(300) < p).astype(int), "q": 1 - p}).write_csv(path)
    shown = run("evaluate", path, "--forecast", "p", "--outcome", "y").stdout

    def cells(name):
        lines = (re.split(r"\s{2,}", line.strip()) for line in shown.splitlines())
        return next(line for line in lines if name in line)

    base, mean = cells("base"), cells("mean")
    change = 100 * (float(mean[3]) / float(base[3]) - 1)
    assert float(mean[4].removesuffix(" %")) == pytest.approx(change, abs=0.06)
    assert float(cells("best constant")[3]) == pytest.approx(0.25, abs=0.01)
    upside_down = run("evaluate", path, "--forecast", "q", "--outcome", "y")
    assert "base forecasts on a.csv: worse than a constant, Brier score" in upside_down.stderr


@pytest.mark.parametrize(
    "name", ["fold", "threshold", *(pytest.param(name, marks=pytest.mark.slow) for name in ("flip", "drift"))]
)
def test_no_stream_breaks_it(name):
    source = sources.hard(name, 5000, 3)
    scores = {
        method: evaluate(source, wrap(sources.Recorded()), "forecasts", method, budget=0.1).score
        for method, wrap in sources.methods().items()
    }
    ours = scores.pop("calibrated")
    assert ours.distance_upper <= ours.certificate <= ours.guarantee
    assert ours.brier <= 1.02 * min(score.brier for score in scores.values())
    for score in scores.values():
        assert ours.distance_upper <= max(score.distance_lower, 1 / math.sqrt(5000))
