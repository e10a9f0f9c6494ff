"""`onlinecal simulate --classes`: tables, pictures, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simulations.games.multiclass import MeasuredMulticlass
from tests.commands import refused, run


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(4)
    path = tmp_path / "net.npz"
    p = rng.dirichlet(np.ones(3), 300)
    labels = np.array([rng.choice(3, p=row) for row in p])
    np.savez(path, predictions=p.astype(np.float32), ground_truth=labels[:, None])
    return path


def test_several_numbers_of_classes_in_one_table():
    answer = run("simulate", "--classes", 2, "--classes", 3, "--adversary", "least-likely", "--rounds", 400)
    assert answer.exit_code == 0
    for word in ("simplex, 400 rounds against least-likely", "2 classes", "3 classes", "certificate"):
        assert word in answer.stdout


def test_json_has_the_measures():
    answer = run(
        "simulate",
        "--classes",
        3,
        "--rounds",
        500,
        "--forecaster",
        "simplex",
        "--forecaster",
        "uniform",
        "--json",
    )
    report = json.loads(answer.stdout)
    first, second = report["games"]
    assert (first["forecaster"], first["classes"], first["rounds"]) == ("simplex", 3, 500)
    assert first["distance_upper"] <= first["certificate"] <= first["guarantee"]
    assert second["guarantee"] is None
    assert report["broken"] == []
    assert run("simulate", "--classes", 3, "--rounds", 500, "--json", "--seed", 1).stdout != answer.stdout


def test_pictures_and_their_numbers_are_written(tmp_path):
    out = tmp_path / "out"
    answer = run("simulate", "--classes", 3, "--adversary", "dirichlet-drift", "--rounds", 1000, "--out", out)
    assert answer.exit_code == 0
    figures = {f"{name}.{kind}" for name in ("triangle", "distance") for kind in ("png", "svg", "csv")}
    expected = {f"simplex_{figure}" for figure in figures} | {"results.csv", "trajectories.csv"}
    assert {path.name for path in out.iterdir()} == expected
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [100, 316, 1000]


def test_a_table_of_probabilities_is_played_as_hints_and_compared(table):
    answer = run("simulate", "--file", table, "--json")
    recorded, follower = json.loads(answer.stdout)["games"]
    assert (recorded["forecaster"], follower["forecaster"]) == ("recorded", "nested")
    assert recorded["rounds"] == follower["rounds"] == 300
    assert follower["certificate"] <= follower["guarantee"]
    assert recorded["brier"] < follower["brier"] < 300 * 2 / 3


def test_labels_that_come_with_river():
    answer = run("simulate", "--classes", 7, "--river", "ImageSegments", "--rounds", 300, "--json")
    assert json.loads(answer.stdout)["games"][0]["adversary"] == "river:ImageSegments"


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
        (["--classes", 3, "--outcome", "won"], "--outcome belongs to games of two outcomes"),
        (["--classes", 3, "--river", "ImageSegments"], "has 7 classes, --classes says 3"),
        (["--classes", 7, "--classes", 8, "--river", "ImageSegments"], "have one number of classes"),
        (["--classes", 7, "--river", "ImageSegments", "--rounds", 9999], "at most the 2310"),
        (["--classes", 3, "--river", "ImageSegments", "--adversary", "uniform"], "exclude each other"),
        (["--file", "nowhere.npz"], "no such file: nowhere.npz"),
        (["--classes", 3, "--file", Path(__file__)], "are read from a numpy archive"),
    ],
)
def test_wrong_requests_are_one_line_and_exit_code_two(arguments, message):
    assert message in refused("simulate", *arguments)
