"""The verbs: results on stdout, one line on stderr when the request is wrong, telling exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from onlinecal.simulations.games import command
from onlinecal.simulations.games.measuring import MeasuredMulticlass
from tests.commands import record, refused, run


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text('forecasters = ["paper", "balanced"]\nadversaries = ["coin"]\nrounds = [50, 100]\n')
    return path


def test_without_a_verb_help_is_shown_and_players_are_listed():
    assert "simulate" in run().stdout
    assert run("--version").stdout.startswith("onlinecal ")
    assert "certificate-greedy" in run("adversaries").stdout
    assert "least-likely" in run("adversaries", "--classes").stdout
    assert {"coin", "two-phase"} <= {row["name"] for row in record("adversaries")}
    assert "linear-optimisation" in run("forecasters").stdout
    rows = {row["name"]: row for row in record("forecasters")}
    assert rows["balanced"]["settings"].startswith(
        "slack=0.5, report=midpoint|lower|upper|hint, cells=(not set)"
    )
    foster = rows["foster"]
    assert (foster["kind"], foster["source"]) == ("randomised", "Foster (1999)")
    assert "T^(2/3)" in foster["known"]
    assert "last-outcome" not in rows


@pytest.mark.slow
def test_sweep_loads_files_of_ones_own_and_plot_finds_them_again(tmp_path):
    own = Path(__file__).parents[1] / "own_players.py"
    path = tmp_path / "grid.toml"
    path.write_text('forecasters = ["last-outcome"]\nadversaries = ["contrarian"]\nrounds = [50, 100]\n')
    play = ["sweep", path, "--out", tmp_path / "out", "--jobs", "1"]
    assert "unknown forecaster 'last-outcome'" in refused(*play)
    shell = {"capture_output": True, "text": True, "check": True}
    onlinecal = [sys.executable, "-m", "onlinecal"]
    played = subprocess.run([*onlinecal, *play, "--load", own], **shell)
    assert "2 games: 2 played" in played.stdout
    subprocess.run([*onlinecal, "plot", tmp_path / "out", "--figure", "distance"], **shell)
    assert (tmp_path / "out" / "distance.png").exists()


def test_simulate_compares_forecasters_shows_windows_where_there_are_any_and_dashes_for_no_promise():
    players = [
        word for name in ("balanced:window=50", "paper", "constant") for word in ("--forecaster", name)
    ]
    shown = run("simulate", *players, "--rounds", 200).stdout.splitlines()
    lines = {re.split(r"\s{2,}", line.strip())[0]: line for line in shown}
    assert {"ECE", "distance to calibration", "certificate", "Brier regret"} <= lines.keys()
    assert "1.75√T" in lines["theorem's bound"]
    assert lines["guarantee of any such window"].split()[5:] == ["9", "(0.1800)", "–", "–"]
    assert lines["guarantee"].split()[-1] == "–"
    assert "window" not in run("simulate", "--rounds", 200).stdout


def test_simulate_speaks_json_and_draws_randomised_forecasters_by_its_seed():
    (game,) = record("simulate", "--adversary", "coin:bias=0.9", "--rounds", 200, "--seed", 3)["games"]
    names = ("forecaster", "adversary", "rounds", "seed")
    assert [game[name] for name in names] == ["balanced", "coin:bias=0.9", 200, 3]
    assert game["distance_upper"] <= game["certificate"] <= game["guarantee"]
    assert game["regret"] <= game["regret_bound"] == 2 * game["distance_upper"]
    foster = ["--forecaster", "foster", "--adversary", "threshold", "--rounds", "100", "--seed"]
    errors = [record("simulate", *foster, seed)["games"][0]["ece"] for seed in (1, 1, 2, 3, 4)]
    assert errors[0] == errors[1]
    assert len({*errors}) > 1


def test_simulate_replays_a_file_compares_its_own_forecasts_and_draws_into_a_folder(tmp_path):
    stream, out = tmp_path / "stream.csv", tmp_path / "out"
    rows = [(day, 0.2 + 0.6 * (day % 2), int(day % 3 > 0)) for day in reversed(range(60))]
    pl.DataFrame(rows, ["day", "probability", "won"], orient="row").write_csv(stream)
    spec = f"file:path=[{stream}],outcome=won,forecast=probability,sort=day"
    raw, ours = record("simulate", "--adversary", spec, "--out", out)["games"]
    assert (raw["forecaster"], raw["certificate"]) == ("recorded", None)
    assert (raw["rounds"], ours["rounds"], raw["ones"]) == (60, 60, 40)
    assert raw["brier"] == pytest.approx(sum((p - won) ** 2 for _, p, won in rows))
    assert ours["certificate"] >= ours["distance_upper"]
    names = ("reliability", "transport", "filmstrip", "trajectories")
    for name in (f"{name}.{kind}" for name in names for kind in ("png", "csv")):
        assert (out / name).stat().st_size > 0
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [60, 60]
    # real forecasts are beaten by their projection
    games = ("--adversary", "file:path=nba,outcome=home_won,forecast=forecast")
    raw, ours = record("simulate", *games, "--forecaster", "balanced:report=hint")["games"]
    assert raw["brier"] / raw["rounds"] == pytest.approx(0.2147, abs=1e-4)
    assert ours["distance_upper"] < raw["distance_lower"] / 5


def test_sweep_then_plot(grid, tmp_path):
    out = tmp_path / "out"
    answer = run("sweep", grid, "--out", out, "--jobs", 1)
    assert "4 games: 4 played" in answer.stdout
    assert "4 of 4" in answer.stderr
    # two pairs, four measures
    assert pl.read_parquet(out / "rates.parquet").height == 8
    again = run("sweep", grid, "--out", out, "--jobs", 1, "--format", "csv")
    assert "0 played, 4 were there already" in again.stdout
    refusal = refused("plot", out, "--figure", "distance", "--measure", "ece")
    assert "--measure needs --figure landscape or matrix, got" in refusal
    assert "Every bound held." in run("plot", out, "--figure", "distance").stdout
    assert [path.name for path in out.glob("*.png")] == ["distance.png"]
    # the numbers beside a picture replace no table of the sweep
    tables = {path: path.read_bytes() for path in out.glob("*.csv")}
    assert "trajectories-longest.png" in run("plot", out, "--figure", "trajectories").stdout
    assert {path: path.read_bytes() for path in tables} == tables
    # no file but the results is looked at
    pl.read_csv(out / "results.csv").with_columns(certificate=pl.lit(1e4)).write_csv(out / "results.csv")
    answer = run("plot", out, "--figure", "ece", "--json")
    assert answer.exit_code == 1
    machine = json.loads(answer.stdout)
    assert len(machine["broken"]) == 4
    assert all(line.startswith("BROKEN: certificate 10000 > guarantee") for line in machine["broken"])
    assert [row["forecaster"] for row in machine["summary"]] == ["paper", "balanced"]


def test_a_forecaster_that_cannot_play_is_refused_before_any_game(tmp_path):
    (tmp_path / "stream.csv").write_text("outcome,forecast\n1,0.5\n0,0.4\n")
    spec = f"file:path=[{tmp_path / 'stream.csv'}],forecast=forecast"
    two = ("--forecaster", "balanced:report=hint", "--forecaster", "balanced:cells=5,hints=false")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "play_all", None)
        assert "hints must be true for an adversary that gives hints" in refused(
            "simulate", "--adversary", spec, *two
        )


def test_lengths_that_are_too_few_for_the_adversary_are_left_out_of_its_picture(tmp_path):
    games = (
        "--classes",
        3,
        "--adversary",
        "two-phase:switch=200",
        "--rounds",
        400,
        "--forecaster",
        "uniform",
    )
    assert run("simulate", *games, "--out", tmp_path / "out").exit_code == 0
    assert pl.read_csv(tmp_path / "out" / "results.csv")["rounds"].to_list() == [316, 400]


def test_several_numbers_of_classes_in_one_table_and_their_measures_in_json():
    both = ("--classes", 2, "--classes", 3, "--adversary", "least-likely")
    shown = run("simulate", *both, "--rounds", 200).stdout
    for word in ("simplex, 200 rounds against least-likely", "2 classes", "3 classes", "certificate"):
        assert word in shown
    game = ("--classes", 3, "--rounds", 200, "--forecaster", "simplex", "--forecaster", "uniform")
    first, second = record("simulate", *game)["games"]
    assert (first["forecaster"], first["classes"], first["rounds"]) == ("simplex", 3, 200)
    assert first["distance_upper"] <= first["certificate"] <= first["guarantee"]
    assert second["guarantee"] is None
    assert record("simulate", *game, "--seed", 1)["games"][0]["brier"] != first["brier"]
    labels = ("--classes", 7, "--adversary", "river:name=ImageSegments", "--rounds", 100)
    assert record("simulate", *labels)["games"][0]["adversary"] == labels[3]


def test_pictures_and_their_numbers_are_written(tmp_path):
    out = tmp_path / "out"
    answer = run("simulate", "--classes", 3, "--adversary", "dirichlet-drift", "--rounds", 400, "--out", out)
    assert answer.exit_code == 0
    figures = {f"{name}.{kind}" for name in ("triangle", "distance") for kind in ("png", "svg", "csv")}
    expected = {f"simplex_{figure}" for figure in figures} | {"results.csv", "trajectories.csv"}
    assert {path.name for path in out.iterdir()} == expected
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [100, 316, 400]


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
