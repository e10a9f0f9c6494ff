"""The verbs: results on stdout, one line on stderr when the request is wrong, telling exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from onlinecal.compiling import Compiled
from simulations.cli.simulate import FORECASTERS
from simulations.games import players
from simulations.sweeps.results import Store
from tests import DATA
from tests.commands import refused, run

NBA = DATA / "nba_games.csv"


@pytest.fixture
def stream(tmp_path):
    path = tmp_path / "stream.csv"
    rows = [f"{day},{0.2 + 0.6 * (day % 2)},{int(day % 3 > 0)}" for day in reversed(range(60))]
    path.write_text("\n".join(["day,probability,won", *rows]))
    return path


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text('forecasters = ["sign", "balanced"]\nadversaries = ["coin"]\nrounds = [50, 100]\n')
    return path


def test_without_a_verb_help_is_shown_and_players_are_listed():
    assert "simulate" in run().stdout
    assert run("--version").stdout.startswith("onlinecal ")
    assert "certificate-greedy" in run("adversaries").stdout
    assert "least-likely" in run("adversaries", "--classes").stdout
    assert {"coin", "two-phase"} <= {row["name"] for row in json.loads(run("adversaries", "--json").stdout)}
    assert "linear-optimisation" in run("forecasters").stdout
    rows = {row["name"]: row for row in json.loads(run("forecasters", "--json").stdout)}
    assert rows["balanced"]["settings"] == (
        "slack=0.5, report=midpoint|lower|upper|hint, cells=(not set), window=(not set), hints=(not set)"
    )
    assert rows["foster"]["kind"] == "randomised"
    assert "T^(2/3)" in rows["foster"]["known"]
    assert rows["foster"]["source"] == "Foster (1999)"
    assert "last-outcome" not in rows


def test_sweep_loads_files_of_ones_own_and_plot_finds_them_again(tmp_path):
    own = Path(__file__).parents[1] / "own_players.py"
    path = tmp_path / "grid.toml"
    path.write_text('forecasters = ["last-outcome"]\nadversaries = ["contrarian"]\nrounds = [50, 100]\n')
    onlinecal = [sys.executable, "-m", "onlinecal"]
    play = ["sweep", path, "--out", tmp_path / "out", "--jobs", "1"]
    refused = run(*play)
    assert refused.exit_code == 2
    assert "unknown forecaster 'last-outcome'" in refused.stderr
    played = subprocess.run([*onlinecal, *play, "--load", own], capture_output=True, text=True)
    assert "2 games: 2 played" in played.stdout
    drawn = subprocess.run(
        [*onlinecal, "plot", tmp_path / "out", "--figure", "distance"], capture_output=True, text=True
    )
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "out" / "distance.png").exists()


def test_compiling_is_told_once(monkeypatch, grid, tmp_path):
    def play(game, asked, load):
        return game, None, Compiled(loops=1, seconds=0.25)

    monkeypatch.setattr("simulations.sweeps.playing.play_game", play)
    monkeypatch.setattr(Store, "keep", lambda self, game, finished: None)
    monkeypatch.setattr(Store, "write_tables", lambda self, form: [])
    answer = run("sweep", grid, "--out", tmp_path / "out", "--jobs", 1)
    assert answer.stderr.count("compiled 4 loops for the first time (1.0 s)") == 1
    assert answer.stderr.count("compiled") == 1


def test_simulate_compares_forecasters_shows_windows_where_there_are_any_and_dashes_for_no_promise():
    players = [word for name in ("balanced:window=50", "sign", "constant") for word in ("--forecaster", name)]
    answer = run("simulate", *players, "--rounds", 200)
    assert answer.exit_code == 0
    lines = {re.split(r"\s{2,}", line.strip())[0]: line for line in answer.stdout.splitlines()}
    for word in ("ECE", "distance to calibration", "certificate", "theorem's bound", "Brier regret"):
        assert word in lines
    assert "1.75√T" in lines["theorem's bound"]
    assert lines["guarantee of any such window"].split()[5:] == ["9", "(0.1800)", "–", "–"]
    assert lines["guarantee"].split()[-1] == "–"
    assert "window" not in run("simulate", "--rounds", 200).stdout


def test_simulate_speaks_json():
    answer = run("simulate", "--adversary", "coin:bias=0.9", "--rounds", 200, "--seed", 3, "--json")
    (game,) = json.loads(answer.stdout)["games"]
    names = ("forecaster", "adversary", "rounds", "seed")
    assert [game[name] for name in names] == ["balanced", "coin:bias=0.9", 200, 3]
    assert game["distance_upper"] <= game["certificate"] <= game["guarantee"]
    assert game["regret"] <= game["regret_bound"] == 2 * game["distance_upper"]


def test_simulate_replays_a_file_compares_its_own_forecasts_and_draws_into_a_folder(stream, tmp_path):
    spec, out = f"file:path=[{stream}],outcome=won,forecast=probability,sort=day", tmp_path / "out"
    answer = run("simulate", "--adversary", spec, "--json", "--out", out)
    raw, ours = json.loads(answer.stdout)["games"]
    assert raw["forecaster"] == "recorded"
    assert raw["certificate"] is None
    assert raw["rounds"] == ours["rounds"] == 60
    assert raw["ones"] == 40
    expected = sum((0.2 + 0.6 * (day % 2) - int(day % 3 > 0)) ** 2 for day in range(60))
    assert raw["brier"] == pytest.approx(expected)
    assert ours["certificate"] >= ours["distance_upper"]
    for name in ("reliability.png", "transport.png", "trajectories.png", "transport.csv"):
        assert (out / name).stat().st_size > 0
    assert pl.read_csv(out / "results.csv")["rounds"].to_list() == [60, 60]


def test_real_forecasts_are_beaten_by_their_projection():
    games = "file:path=nba,outcome=home_won,forecast=forecast"
    answer = run("simulate", "--adversary", games, "--forecaster", "balanced:report=hint", "--json")
    raw, ours = json.loads(answer.stdout)["games"]
    assert raw["brier"] / raw["rounds"] == pytest.approx(0.2147, abs=1e-4)
    assert raw["distance_upper"] / raw["rounds"] == pytest.approx(0.047, abs=1e-3)
    assert ours["distance_upper"] < raw["distance_lower"] / 5


def test_sweep_then_plot(grid, tmp_path):
    out = tmp_path / "out"
    answer = run("sweep", grid, "--out", out, "--jobs", 1)
    assert answer.exit_code == 0
    assert "4 games: 4 played" in answer.stdout
    assert "4 of 4" in answer.stderr
    # two pairs, four measures
    assert pl.read_parquet(out / "rates.parquet").height == 8
    again = run("sweep", grid, "--out", out, "--jobs", 1, "--format", "csv")
    assert "0 played, 4 were there already" in again.stdout
    refusal = refused("plot", out, "--figure", "distance", "--measure", "ece")
    assert "--measure is for the figures landscape and matrix" in refusal
    drawn = run("plot", out, "--figure", "distance")
    assert drawn.exit_code == 0
    assert (out / "distance.png").exists()
    assert not (out / "regret.png").exists()
    assert "Every bound held." in drawn.stdout
    # no file but the results is looked at
    pl.read_csv(out / "results.csv").with_columns(certificate=pl.lit(1e4)).write_csv(out / "results.csv")
    answer = run("plot", out, "--figure", "ece", "--json")
    assert answer.exit_code == 1
    machine = json.loads(answer.stdout)
    broken = [line for line in machine["broken"] if line.startswith("BROKEN: certificate 10000 > guarantee")]
    assert len(broken) == len(machine["broken"]) == 4
    assert [row["forecaster"] for row in machine["summary"]] == ["sign", "balanced"]


@pytest.mark.parametrize(
    "arguments,words",
    [
        (
            ["simulate", "--adversary", "coi"],
            "unknown adversary 'coi'; did you mean 'coin'? Known: alternating",
        ),
        (["simulate", "--forecaster", "sine"], "unknown forecaster 'sine'; did you mean 'sign'?"),
        (["simulate", "--rounds", "0"], "--rounds"),
        (["simulate", "--seed", "-1"], "--seed"),
        (
            ["simulate", "--adversary", "two-phase", "--rounds", "1"],
            "two-phase needs a horizon of at least 2",
        ),
        (["simulate", "--adversary", "file:path=nowhere.csv,outcome=y"], "no such file: nowhere.csv"),
        (["simulate", "--adversary", "file:outcome=y"], "path"),
        (["simulate", "--adversary", "river:name=Phisching"], "did you mean 'Phishing'?"),
        (["simulate", "--adversary", "river:name=Phishing", "--rounds", "99999"], "has only 1250 rounds"),
        (["simulate", "--forecaster", "sign", "--forecaster", "sign"], "listed twice"),
        (["sweep", "nowhere.toml"], "no such file: nowhere.toml"),
        (["sweep", "demmo"], "no such file: demmo; did you mean 'demo'? Without a file: demo, arena"),
        (["sweep", "demo", "--format", "xls"], "must be one of 'parquet', 'csv', got 'xls'"),
        (["experiment", "demmo"], "no such file: demmo; did you mean 'demo'?"),
        (["sweep"], "Missing argument 'FILE'"),
        (["plot", "nowhere"], "no results in nowhere"),
        (["plot", "nowhere", "--figure", "pie"], "unknown figure 'pie'"),
        (["sweep", "demo", "--load", "nowhere.py"], "/nowhere.py"),
        (["forecasters", "--load", "nowhere.py"], "no such file: nowhere.py"),
        (["worst", "--forecaster", "nobody"], "unknown forecaster 'nobody'"),
        (["worst", "--rounds", "25"], "rounds must be"),
        (["worst", "--measure", "brier"], "brier"),
    ],
)
def test_wrong_requests_get_one_line(arguments, words):
    assert words in refused(*arguments)


def test_bad_files_get_one_line(stream, tmp_path):
    assert "has no column 'wn'; did you mean 'won'?" in refused(
        "simulate", "--adversary", f"file:path=[{stream}],outcome=wn"
    )
    assert "has no column 'outcome'" in refused("simulate", "--adversary", f"file:path=[{stream}]")
    bad = tmp_path / "bad.csv"
    bad.write_text("won\n1\n0\n2\n")
    assert "got '2' at row 2" in refused("simulate", "--adversary", f"file:path=[{bad}],outcome=won")
    assert "there is a file" in refused("sweep", "demo", "--out", bad)
    archive = tmp_path / "table.npz"
    archive.write_bytes(b"PK")
    assert "table.npz cannot be read as npz" in refused("recalibrate", archive)
    grid = tmp_path / "grid.toml"
    grid.write_text('forecasters = ["sign"]\nadversaries = ["coin"]\nrounds = [0]\n')
    assert "rounds[0] must be a whole number" in refused("sweep", grid, "--out", tmp_path / "out")


def test_worst_prints_the_worst_game_of_every_length_and_writes_record_and_picture(tmp_path):
    answer = run("worst", "--forecaster", "sign", "--rounds", 6, "--jobs", 1)
    assert answer.exit_code == 0
    assert "worst of 64 games of 6 rounds: 011111, distance 2.3333 = 0.9526 √T" in answer.stdout
    assert "built for 6" in answer.stdout
    record = json.loads(
        run(
            "worst", "--forecaster", "adaptive", "--rounds", 5, "--jobs", 1, "--out", tmp_path, "--json"
        ).stdout
    )
    assert record["games"][-1]["rounds"] == 5
    assert record["broken"] == []
    assert json.loads((tmp_path / "worst.json").read_text())["games"] == record["games"]
    for name in ("worst.png", "worst.svg", "worst.csv"):
        assert (tmp_path / name).stat().st_size > 100
    drawn = "--forecaster foster --rounds 3 --draws 2 --measure ece --jobs 1"
    answer = run("worst", *drawn.split())
    assert answer.exit_code == 0
    assert "Every error is a mean over 2 sequences of draws." in answer.stdout
    assert "worst ECE" in answer.stdout


def test_simulate_draws_randomised_forecasters_by_its_seed():
    def forecasts(seed):
        game = "--forecaster foster --adversary threshold --rounds 100"
        answer = run("simulate", *game.split(), "--seed", seed, "--json")
        return json.loads(answer.stdout)["games"][0]["ece"]

    assert forecasts(1) == forecasts(1)
    assert len({forecasts(seed) for seed in range(1, 5)}) > 1


def test_help_lists_every_forecaster_of_the_catalogue():
    # tests that loaded files may have added names of their own
    known = [name for name in players.catalogue() if "my-" not in name]
    assert list(FORECASTERS) == known
    answer = " ".join(run("simulate", "--help").stdout.replace("│", " ").split())
    for name in FORECASTERS:
        assert name in answer
