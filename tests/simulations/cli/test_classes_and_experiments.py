"""The verbs simulate --classes and experiment: tables, pictures beside their numbers, errors in one line."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import simulations.experiments
from simulations.cli.experiment import FIGURES
from simulations.experiments import EXPERIMENTS, NONE, made_up_table
from simulations.games.measuring import MeasuredMulticlass
from tests.commands import record, run

SEGMENTS = "river:name=ImageSegments"


def test_several_numbers_of_classes_in_one_table_and_their_measures_in_json():
    shown = run(
        "simulate", "--classes", 2, "--classes", 3, "--adversary", "least-likely", "--rounds", 400
    ).stdout
    for word in ("simplex, 400 rounds against least-likely", "2 classes", "3 classes", "certificate"):
        assert word in shown
    game = ["--classes", "3", "--rounds", "500", "--forecaster", "simplex", "--forecaster", "uniform"]
    report = record("simulate", *game)
    first, second = report["games"]
    assert (first["forecaster"], first["classes"], first["rounds"]) == ("simplex", 3, 500)
    assert first["distance_upper"] <= first["certificate"] <= first["guarantee"]
    assert (second["guarantee"], report["broken"]) == (None, [])
    assert record("simulate", *game, "--seed", 1)["games"][0]["brier"] != first["brier"]
    labels = record("simulate", "--classes", 7, "--adversary", SEGMENTS, "--rounds", 300)
    assert labels["games"][0]["adversary"] == SEGMENTS


def test_pictures_and_their_numbers_are_written(tmp_path):
    out = tmp_path / "out"
    answer = run("simulate", "--classes", 3, "--adversary", "dirichlet-drift", "--rounds", 1000, "--out", out)
    assert answer.exit_code == 0
    figures = {f"{name}.{kind}" for name in ("triangle", "distance") for kind in ("png", "svg", "csv")}
    expected = {f"simplex_{figure}" for figure in figures} | {"results.csv", "trajectories.csv"}
    assert {path.name for path in out.iterdir()} == expected
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [100, 316, 1000]


def test_a_table_of_probabilities_is_played_as_hints_and_compared(tmp_path):
    rng, path = np.random.default_rng(4), tmp_path / "net.npz"
    p = rng.dirichlet(np.ones(3), 300)
    labels = np.array([[rng.choice(3, p=row)] for row in p])
    np.savez(path, predictions=p.astype(np.float32), ground_truth=labels)
    recorded, follower = record("simulate", "--adversary", f"file:path=[{path}]")["games"]
    assert (recorded["forecaster"], follower["forecaster"]) == ("recorded", "nested")
    assert recorded["rounds"] == follower["rounds"] == 300
    assert follower["certificate"] <= follower["guarantee"]
    assert recorded["brier"] < follower["brier"] < 300 * 2 / 3


def test_a_broken_bound_is_told_and_gives_exit_code_one(monkeypatch):
    monkeypatch.setattr(MeasuredMulticlass, "broken_bounds", lambda one: ["two and two are five"])
    answer = run("simulate", "--classes", 3, "--rounds", 50)
    assert answer.exit_code == 1
    assert "BROKEN: two and two are five (simplex, 3 classes)" in answer.stdout


SMALL = ("--splits", 2, "--losses", 10, "--rounds", 2, "--jobs", 1)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    path, data = tmp_path_factory.mktemp("nets") / "net.npz", made_up_table(200, 3)
    np.savez(path, predictions=data.probabilities, ground_truth=data.labels)
    return path


def test_a_picture_comes_with_its_numbers_and_those_of_every_split(net, tmp_path):
    assert tuple(EXPERIMENTS) == FIGURES
    answer = run("experiment", net, "--figure", "steps", "--actions", 2, *SMALL, "--out", tmp_path)
    assert answer.exit_code == 0, answer.stderr
    files = {"steps.png", "steps.svg", "steps.csv", "steps-splits.csv"}
    assert {path.name for path in tmp_path.iterdir()} == files
    drawn, every = (
        pl.read_csv(tmp_path / f"{name}.csv", infer_schema_length=None) for name in ("steps", "steps-splits")
    )
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
    common = {"drift": "noise", "severity": 0.0, "n_fit": 1, "n_test": 1, "mean_gap": 0.5, "worst_gap": 1.0}

    def one(experiment, split):
        return [{"method": name, "loss": float(split), **common} for name in (NONE, "decision")]

    monkeypatch.setitem(simulations.experiments.EXPERIMENTS, "drift", one)
    found = record("experiment", net, "--figure", "drift", *SMALL, "--out", tmp_path)
    assert str(tmp_path / "drift.png") in found["files"]
    losses = [row for row in found["figures"]["drift"] if row["measure"] == "loss"]
    assert [(row["low"], row["mean"], row["high"]) for row in losses] == [(0.0, 0.5, 1.0)] * 2
