"""The verbs worst and simulate: files, tables, and telling refusals."""

import json
import os
import subprocess
import sys

import pytest

from simulations.cli.simulate import FORECASTERS
from simulations.games import players
from tests.commands import refused, run


def test_worst_prints_the_worst_game_of_every_length():
    answer = run("worst", "--forecaster", "sign", "--rounds", 6, "--jobs", 1)
    assert answer.exit_code == 0
    assert "worst of 64 games of 6 rounds: 011111, distance 2.3333 = 0.9526 √T" in answer.stdout
    assert "built for 6" in answer.stdout


def test_worst_writes_table_record_and_picture(tmp_path):
    answer = run("worst", "--forecaster", "adaptive", "--rounds", 5, "--jobs", 1, "--out", tmp_path, "--json")
    assert answer.exit_code == 0
    record = json.loads(answer.stdout)
    assert record["games"][-1]["rounds"] == 5
    assert record["broken"] == []
    assert json.loads((tmp_path / "worst.json").read_text())["games"] == record["games"]
    for name in ("worst.png", "worst.svg", "worst.csv"):
        assert (tmp_path / name).stat().st_size > 100


def test_worst_says_what_randomised_errors_are():
    answer = run(
        "worst", "--forecaster", "foster", "--rounds", 3, "--draws", 2, "--measure", "ece", "--jobs", 1
    )
    assert answer.exit_code == 0
    assert "Every error is a mean over 2 sequences of draws." in answer.stdout
    assert "worst ECE" in answer.stdout


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["worst", "--forecaster", "nobody"], "unknown forecaster 'nobody'"),
        (["worst", "--rounds", "25"], "rounds must be"),
        (["worst", "--measure", "brier"], "brier"),
        (["simulate", "--load", "nowhere.py"], "nowhere.py"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(arguments, message):
    assert message in refused(*arguments)


def test_simulate_draws_randomised_forecasters_by_its_seed():
    def forecasts(seed):
        answer = run(
            "simulate",
            "--forecaster",
            "foster",
            "--adversary",
            "threshold",
            "--rounds",
            100,
            "--seed",
            seed,
            "--json",
        )
        return json.loads(answer.stdout)["games"][0]["ece"]

    assert forecasts(1) == forecasts(1)
    assert len({forecasts(seed) for seed in range(1, 5)}) > 1


def test_simulate_reports_first_use_once(tmp_path):
    play = [sys.executable, "-m", "onlinecal", "simulate", "--forecaster", "constant", "--rounds", "20"]
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (subprocess.run(play, env=fresh, capture_output=True, text=True) for _ in range(2))
    assert first.stderr.count("for the first time") == 1
    assert "first time" not in second.stderr
    assert first.stdout == second.stdout


def test_simulate_shows_a_dash_where_nothing_is_promised():
    answer = run("simulate", "--forecaster", "constant", "--rounds", 50)
    assert answer.exit_code == 0
    guarantee = next(line for line in answer.stdout.splitlines() if "guarantee" in line)
    assert guarantee.split()[-1] == "–"


def test_help_lists_every_forecaster_of_the_catalogue():
    # tests that loaded files may have added names of their own
    known = [name for name in players.catalogue() if "my-" not in name]
    assert list(FORECASTERS) == known
    answer = " ".join(run("simulate", "--help").stdout.replace("│", " ").split())
    for name in FORECASTERS:
        assert name in answer
