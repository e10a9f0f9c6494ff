"""The verb `experiment`: pictures beside their numbers, finished ones kept, errors in one line."""

import json

import numpy as np
import polars as pl
import pytest

import simulations.experiments
from simulations.cli.experiment import FIGURES
from simulations.experiments import EXPERIMENTS, NONE, made_up_table
from tests.commands import refused, run

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
    assert "--test-share must be a number between 0 and 1, got 2.0" in refused(
        "experiment", net, "--test-share", 2
    )
    (tmp_path / "taken").write_text("")
    assert "is a file, not a folder" in refused("experiment", net, "--out", tmp_path / "taken")
    np.savez(tmp_path / "bare.npz", predictions=made_up_table(50, 3).probabilities)
    assert "has no labels to fit to" in refused("experiment", tmp_path / "bare.npz")
    few = made_up_table(19, 3)
    np.savez(tmp_path / "few.npz", predictions=few.probabilities, ground_truth=few.labels)
    assert "19 rows are too few" in refused("experiment", tmp_path / "few.npz")
