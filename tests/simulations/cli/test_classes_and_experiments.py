"""The verbs simulate --classes and experiment: tables, pictures beside their numbers, errors in one line."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import simulations.experiments
from simulations.cli.experiment import FIGURES
from simulations.experiments import EXPERIMENTS, NONE, made_up_table
from simulations.games.measuring import MeasuredMulticlass
from tests.commands import refused, run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(4)
    path = tmp_path / "net.npz"
    p = rng.dirichlet(np.ones(3), 300)
    labels = np.array([rng.choice(3, p=row) for row in p])
    np.savez(path, predictions=p.astype(np.float32), ground_truth=labels[:, None])
    return path


def test_several_numbers_of_classes_in_one_table_and_their_measures_in_json():
    answer = run("simulate", "--classes", 2, "--classes", 3, "--adversary", "least-likely", "--rounds", 400)
    assert answer.exit_code == 0
    for word in ("simplex, 400 rounds against least-likely", "2 classes", "3 classes", "certificate"):
        assert word in answer.stdout
    game = "--classes 3 --rounds 500 --forecaster simplex --forecaster uniform"
    answer = run("simulate", *game.split(), "--json")
    report = json.loads(answer.stdout)
    first, second = report["games"]
    assert (first["forecaster"], first["classes"], first["rounds"]) == ("simplex", 3, 500)
    assert first["distance_upper"] <= first["certificate"] <= first["guarantee"]
    assert second["guarantee"] is None
    assert report["broken"] == []
    assert run("simulate", *game.split(), "--json", "--seed", 1).stdout != answer.stdout


def test_pictures_and_their_numbers_are_written(tmp_path):
    out = tmp_path / "out"
    answer = run("simulate", "--classes", 3, "--adversary", "dirichlet-drift", "--rounds", 1000, "--out", out)
    assert answer.exit_code == 0
    figures = {f"{name}.{kind}" for name in ("triangle", "distance") for kind in ("png", "svg", "csv")}
    expected = {f"simplex_{figure}" for figure in figures} | {"results.csv", "trajectories.csv"}
    assert {path.name for path in out.iterdir()} == expected
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [100, 316, 1000]


def test_a_table_of_probabilities_is_played_as_hints_and_compared(table):
    answer = run("simulate", "--adversary", f"file:path=[{table}]", "--json")
    recorded, follower = json.loads(answer.stdout)["games"]
    assert (recorded["forecaster"], follower["forecaster"]) == ("recorded", "nested")
    assert recorded["rounds"] == follower["rounds"] == 300
    assert follower["certificate"] <= follower["guarantee"]
    assert recorded["brier"] < follower["brier"] < 300 * 2 / 3


SEGMENTS = "river:name=ImageSegments"


def test_labels_that_come_with_river():
    answer = run("simulate", "--classes", 7, "--adversary", SEGMENTS, "--rounds", 300, "--json")
    assert json.loads(answer.stdout)["games"][0]["adversary"] == SEGMENTS


def test_a_broken_bound_is_told_and_gives_exit_code_one(monkeypatch):
    monkeypatch.setattr(MeasuredMulticlass, "broken_bounds", lambda one: ["two and two are five"])
    answer = run("simulate", "--classes", 3, "--rounds", 50)
    assert answer.exit_code == 1
    assert "BROKEN: two and two are five (simplex, 3 classes)" in answer.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--classes", 1], "--classes must be from 2 to 100, got 1"),
        (["--classes", 3, "--classes", 3], "--classes 3 is given twice"),
        (["--classes", 3, "--forecaster", "nested", "--forecaster", "nested"], "is listed twice"),
        (["--classes", 3, "--forecaster", "simplex:slack=0.5"], "slack must be None or a number from 0.75"),
        (["--classes", 3, "--adversary", SEGMENTS], "has 7 classes, more than n_classes, 3"),
        (["--classes", 7, "--adversary", SEGMENTS, "--rounds", 9999], "has only 2310 rounds"),
        (["--adversary", "file:path=nowhere.npz"], "no such file: nowhere.npz"),
        (["--classes", 3, "--adversary", f"file:path=[{__file__}]"], "is not a numpy archive"),
    ],
)
def test_wrong_requests_are_one_line_and_exit_code_two(arguments, message):
    assert message in refused("simulate", *arguments)


SMALL = ("--splits", 2, "--losses", 10, "--rounds", 2, "--jobs", 1)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path = tmp_path_factory.mktemp("nets") / "net.npz"
    data = made_up_table(200, 3)
    np.savez(path, predictions=data.probabilities, ground_truth=data.labels)
    return path


def test_the_verb_knows_every_experiment():
    assert tuple(EXPERIMENTS) == FIGURES
    answer = run("experiment", "--help")
    assert all(name in answer.stdout for name in FIGURES)


def test_a_picture_comes_with_its_numbers_and_those_of_every_split(net, tmp_path):
    answer = run("experiment", net, "--figure", "steps", "--actions", 2, *SMALL, "--out", tmp_path)
    assert answer.exit_code == 0, answer.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "steps.png", "steps.svg", "steps.csv", "steps-splits.csv",
    }  # fmt: skip
    drawn = pl.read_csv(tmp_path / "steps.csv", infer_schema_length=None)
    every = pl.read_csv(tmp_path / "steps-splits.csv", infer_schema_length=None)
    assert set(every["split"]) == {0, 1}
    (mean,) = drawn.filter(method=NONE, part="test", measure="mean_gap")["mean"]
    assert mean == pytest.approx(every.filter(method=NONE, part="test")["mean_gap"].mean())
    assert f"{mean:.4f}" in answer.stdout
    assert "steps: splits finished: 2 of 2" in answer.stderr


def test_an_interrupt_keeps_the_pictures_that_are_finished(net, tmp_path, monkeypatch):
    def stop(experiment, split):
        raise KeyboardInterrupt

    monkeypatch.setitem(simulations.experiments.EXPERIMENTS, "drift", stop)
    answer = run("experiment", net, "--figure", "classes", "--figure", "drift", *SMALL, "--out", tmp_path)
    assert answer.exit_code == 130
    assert "interrupted: 1 of 2 pictures are finished" in answer.stderr
    assert (tmp_path / "classes.png").exists()
    assert not list(tmp_path.glob("drift*"))


def test_it_speaks_json(net, tmp_path, monkeypatch):
    def one(experiment, split):
        return [
            {"method": name, "drift": "noise", "severity": 0.0, "n_fit": 1, "n_test": 1}
            | {"mean_gap": 0.5, "worst_gap": 1.0, "loss": float(split)}
            for name in (NONE, "decision")
        ]

    monkeypatch.setitem(simulations.experiments.EXPERIMENTS, "drift", one)
    answer = run("experiment", net, "--figure", "drift", *SMALL, "--out", tmp_path, "--json")
    record = json.loads(answer.stdout)
    assert str(tmp_path / "drift.png") in record["files"]
    losses = [row for row in record["figures"]["drift"] if row["measure"] == "loss"]
    assert [(row["low"], row["mean"], row["high"]) for row in losses] == [(0.0, 0.5, 1.0)] * 2


def test_wrong_requests_say_what_is_wrong(net, tmp_path):
    assert "unknown figure 'map'; known: steps, actions, classes, drift" in refused(
        "experiment", net, "--figure", "map"
    )
    assert "no such file: none.npz" in refused("experiment", "none.npz")
    assert "the share of rows to test must be a number between 0 and 1, got 2.0" in refused(
        "experiment", net, "--test-share", 2
    )
    (tmp_path / "taken").write_text("")
    assert "is a file, not a folder" in refused("experiment", net, "--out", tmp_path / "taken")
    np.savez(tmp_path / "bare.npz", predictions=made_up_table(50, 3).probabilities)
    assert "has no labels to fit to" in refused("experiment", tmp_path / "bare.npz")
    few = made_up_table(19, 3)
    np.savez(tmp_path / "few.npz", predictions=few.probabilities, ground_truth=few.labels)
    assert "19 rows are too few" in refused("experiment", tmp_path / "few.npz")
