"""Sweeps: every game once, whatever interrupts them."""

import os
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import polars as pl
import pytest

from onlinecal.compiling import counting
from simulations.games import players
from simulations.sweeps.playing import Workers, in_playing_order, planned_games, run_sweep
from simulations.sweeps.results import Store, broken_bounds, check_config, summarise

GRID = {
    "forecasters": ["balanced", "adaptive"],
    "adversaries": ["coin", "threshold"],
    "rounds": [50, 100],
    "seeds": [1, 2],
    "checkpoints": 20,
}
FIGURES = [
    "forecaster", "adversary", "rounds", "seed", "ones", "ece", "distance_lower", "distance_upper",
    "certificate", "guarantee", "bound", "brier", "brier_constant", "regret", "regret_bound", "seconds",
    "window", "window_certificate", "window_guarantee",
]  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("swept")
    config = check_config(GRID)
    assert run_sweep(config, out) == 16
    Store(out).write_tables(planned_games(config))
    return out


def test_one_row_per_game_with_every_figure(swept):
    table = Store(swept).read_table("results")
    assert table.columns == FIGURES
    assert table.height == 16
    assert table.select(pl.exclude("^window.*$")).null_count().sum_horizontal().item() == 0
    assert table.select("forecaster", "adversary", "rounds", "seed").is_unique().all()
    assert (table["distance_lower"] <= table["distance_upper"]).all()
    assert broken_bounds(table) == []


def test_trajectories_end_at_the_certificates_of_the_table(swept):
    store = Store(swept)
    keys = ["forecaster", "adversary", "rounds", "seed"]
    last = store.read_table("trajectories").group_by(keys).agg(pl.all().last())
    both = store.read_table("results").join(last, on=keys, suffix="_last")
    assert both.height == 16
    assert (both["round"] == both["rounds"]).all()
    assert (both["certificate"] == both["certificate_last"]).all()
    assert (both["guarantee"] == both["guarantee_last"]).all()


def test_configuration_and_versions_are_kept_beside_the_results(swept):
    kept = tomllib.loads((swept / "sweep.toml").read_text())
    assert kept.pop("versions").keys() >= {"python", "onlinecal", "numpy", "numba"}
    assert check_config(kept) == check_config(GRID)


def test_only_what_is_missing_is_played(tmp_path):
    config = check_config(GRID)
    run_sweep(config, tmp_path)
    files = sorted((tmp_path / "games").iterdir())
    before = {path.name: path.stat().st_mtime_ns for path in files[3:]}
    files[0].unlink()
    files[1].unlink()
    files[2].write_text('{"measured": {')
    told = []
    assert run_sweep(config, tmp_path, progress=lambda done, every: told.append((done, every))) == 3
    assert told == [(13, 16), (14, 16), (15, 16), (16, 16)]
    assert all((tmp_path / "games" / name).stat().st_mtime_ns == when for name, when in before.items())
    assert run_sweep(config, tmp_path) == 0


def test_a_larger_grid_plays_only_what_is_new(tmp_path):
    small = GRID | {"rounds": [50], "seeds": [1]}
    assert run_sweep(check_config(small), tmp_path) == 4
    assert run_sweep(check_config(small | {"rounds": [50, 60]}), tmp_path) == 4
    assert run_sweep(check_config(small | {"budget": 0.5}), tmp_path) == 4
    assert run_sweep(check_config(small), tmp_path) == 0


def test_processes_change_nothing_but_the_time(swept, tmp_path):
    config = check_config(GRID)
    assert run_sweep(config, tmp_path, Workers(jobs=2)) == 16
    Store(tmp_path).write_tables(planned_games(config), "csv")
    alone = Store(swept).read_table("results").drop("seconds")
    assert Store(tmp_path).read_table("results").drop("seconds").equals(alone)


def test_the_format_can_be_changed_and_leaves_one_table(swept, tmp_path):
    config = check_config(GRID | {"rounds": [50]})
    run_sweep(config, tmp_path)
    store = Store(tmp_path)
    store.write_tables(planned_games(config), "csv")
    first = store.read_table("results")
    store.write_tables(planned_games(config), "parquet")
    assert {path.suffix for path in tmp_path.glob("results.*")} == {".parquet"}
    assert store.read_table("results").equals(first)


def test_a_killed_sweep_keeps_what_was_finished(tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f'forecasters = ["balanced"]\nadversaries = ["coin"]\nrounds = [200]\nseeds = {list(range(80))}'
    )
    out = tmp_path / "out"
    command = [sys.executable, "-m", "onlinecal", "sweep", str(grid), "--out", str(out), "--jobs", "1"]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(out.glob("games/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(out.glob("games/*.json")))
    assert kept >= 3
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"80 games: {80 - kept} played, {kept} were there already" in answer.stdout


def test_neighbours_in_playing_order_need_different_loops():
    config = check_config(
        {
            "forecasters": ["sign", "balanced", "nested", "adaptive"],
            "adversaries": ["coin", "markov"],
            "rounds": [10, 5],
        }
    )
    order = in_playing_order(planned_games(config))
    assert sorted(map(hash, order)) == sorted(map(hash, planned_games(config)))
    assert [cell.rounds for cell in order] == [5] * 8 + [10] * 8
    pairs = [(cell.forecaster in ("sign", "balanced"), cell.adversary) for cell in order]
    assert len(set(pairs[:4])) == 4


def test_summary_finds_the_worst_game(swept):
    table = Store(swept).read_table("results")
    summary = summarise(table)
    for row in summary.to_dicts():
        mine = table.filter(pl.col("forecaster") == row["forecaster"])
        ratios = mine["distance_upper"].to_numpy() / np.sqrt(mine["rounds"].to_numpy())
        assert row["worst_over_root"] == pytest.approx(ratios.max())
        assert row["games"] == 8


def test_broken_bounds_are_told_with_their_game(swept):
    table = Store(swept).read_table("results").with_columns(certificate=pl.lit(1e9))
    lines = broken_bounds(table)
    assert len(lines) == 16
    assert "balanced against coin, T = 50, seed 1" in lines[0]


def test_loops_that_are_compiled_are_counted_the_first_time_only(tmp_path):
    own = tmp_path / "fresh.py"
    own.write_text(
        "from numba import njit\n\n\n@njit\ndef inner(x):\n    return x + 1\n\n\n"
        "@njit(cache=True)\ndef outer(x):\n    return inner(x) + 1\n"
    )
    module = players.load(own)
    with counting() as first:
        assert module.outer(1) == 3
    with counting() as again:
        assert module.outer(2) == 4
    assert (first.loops, again.loops) == (1, 0)
    assert "compiled 1 loop for the first time" in first.notice
    assert again.notice is None
