"""Sweeps: files are read, every game is played once, whatever interrupts, and exponents are fitted."""

import math
import os
import shutil
import tomllib

import numpy as np
import polars as pl
import pytest
from scipy.stats import linregress

import onlinecal.adversaries as adversaries
from onlinecal.simulations.games.players import FAMILIES
from onlinecal.simulations.sweeps.plan import find_plan, make_plan, read_plan
from onlinecal.simulations.sweeps.playing import Workers, in_playing_order, play_games, work
from onlinecal.simulations.sweeps.results import (
    LEAST_ERROR,
    Store,
    broken_bounds,
    fit,
    rates_table,
    read_table,
    summarise,
)

SMALL = {"forecasters": ["paper"], "adversaries": ["coin"], "rounds": [10]}


def test_specs_become_canonical_rounds_ascend_and_games_are_those_of_the_grid():
    grid = {"forecasters": ["balanced:slack=0.5"], "adversaries": ["coin:bias=0.50"], "rounds": [20, 10]}
    plan = make_plan(grid)
    assert (plan.forecasters, plan.adversaries, plan.rounds) == (("balanced",), ("coin",), (10, 20))
    games = [(game.adversary, game.rounds, game.seed, game.checkpoints) for game in plan.games]
    assert games == [("coin", 10, 0, 200), ("coin", 20, 0, 200)]


@pytest.mark.parametrize(
    "change,message",
    [
        ({"forcasters": []}, "unknown key 'forcasters'; did you mean 'forecasters'"),
        ({"forecasters": "paper"}, "forecasters must be a list"),
        ({"forecasters": []}, "forecasters must be a list with at least one entry"),
        ({"forecasters": ["papr"]}, r"forecasters\[0\]: unknown forecaster 'papr'; did you mean 'paper'"),
        ({"adversaries": ["coin", 3]}, r"adversaries\[1\] must be a string, got 3"),
        (
            {"adversaries": ["two-phase"], "rounds": [1]},
            r"adversaries\[0\]: two-phase must play at least 2 rounds",
        ),
        ({"adversaries": ["coin", "coin:bias=0.5"]}, "adversaries: 'coin' is listed twice"),
        ({"rounds": [10, 10]}, "rounds: 10 is listed twice"),
        ({"rounds": [10**10]}, r"rounds\[0\] must be at most 1000000000, got 10000000000"),
        ({"seeds": [-1]}, r"seeds\[0\] must be a whole number of at least 0, got -1"),
        ({"budget": 0}, "budget must be a positive number, got 0"),
        ({"load": "own.py"}, "load must be a list"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        make_plan(SMALL | change)


@pytest.mark.parametrize(
    "text, words", [("rounds = ", r"a\.toml is not valid TOML"), ("seeds = [1]", "is missing")]
)
def test_missing_keys_and_a_file_that_is_no_toml_are_named(tmp_path, text, words):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_plan(tmp_path / "a.toml")


def test_the_demo_and_the_arena_come_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo, arena = (read_plan(find_plan(name)) for name in ("demo", "arena"))
    assert set(demo.forecasters) == {"paper", "balanced", "graded", "nested", "adaptive"}
    assert demo.rounds == (1000, 10_000, 100_000, 1_000_000)
    assert {spec.partition(":")[0] for spec in arena.forecasters} == {family.name for family in FAMILIES}
    powers = {adversaries.catalogue()[spec.partition(":")[0]].power for spec in arena.adversaries}
    assert powers == {"oblivious", "adaptive", "internal", "mixed"}


GRID = {
    "forecasters": ["balanced", "adaptive"],
    "adversaries": ["coin", "threshold"],
    "rounds": [50, 100],
    "seeds": [1, 2],
    "checkpoints": 20,
}
KEYS = ["forecaster", "adversary", "rounds", "seed"]


def swept_into(out, grid, workers=None, form="parquet"):
    """How many games were played of a grid."""
    store = Store(make_plan(grid), out)
    played = play_games(store, workers or Workers())
    store.write_tables(form)
    return played


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("swept")
    assert swept_into(out, GRID) == 16
    return out


def test_one_row_per_game_with_every_figure_the_end_of_its_trajectory_plan_and_versions(swept):
    table = read_table(swept, "results")
    assert (table.height, table.select(KEYS).is_unique().all()) == (16, True)
    assert table.select(pl.exclude("^window.*$")).null_count().sum_horizontal().item() == 0
    assert (table["distance_lower"] <= table["distance_upper"]).all()
    assert broken_bounds(table) == []
    last = read_table(swept, "trajectories").group_by(KEYS).agg(pl.all().last())
    both = table.join(last, on=KEYS, suffix="_last")
    ends = [("rounds", "round"), ("certificate", "certificate_last"), ("guarantee", "guarantee_last")]
    for one, other in ends:
        assert both[one].to_list() == both[other].to_list()
    kept = tomllib.loads((swept / "sweep.toml").read_text())
    assert kept.pop("versions").keys() >= {"python", "onlinecal", "numpy", "numba"}
    assert make_plan(kept) == make_plan(GRID)


def test_games_on_a_recorded_stream_are_played_anew_when_its_file_has_changed(tmp_path):
    stream = tmp_path / "stream.csv"
    stream.write_text("outcome\n" + "0\n1\n" * 20)
    spec = f"two-phase:first=coin,second=[file:path={stream}],switch=10"
    grid = SMALL | {"adversaries": [spec], "rounds": [30]}
    assert [swept_into(tmp_path / "out", grid) for _ in range(2)] == [1, 0]
    stream.write_text("outcome\n" + "1\n1\n" * 20)
    assert swept_into(tmp_path / "out", grid) == 1
    assert read_table(tmp_path / "out", "results")["ones"][0] >= 20


def test_only_what_is_missing_is_played(swept, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(swept, out)
    files = sorted((out / "games").iterdir())
    before = {path.name: path.stat().st_mtime_ns for path in files[3:]}
    files[0].unlink()
    files[1].unlink()
    files[2].write_text('{"measured": {')
    told = []
    store = Store(make_plan(GRID), out)
    assert play_games(store, progress=lambda done, every: told.append((done, every))) == 3
    assert told == [(13, 16), (14, 16), (15, 16), (16, 16)]
    assert all((out / "games" / name).stat().st_mtime_ns == when for name, when in before.items())
    assert swept_into(out, GRID) == 0
    # a larger grid, or another budget, plays only what is new
    assert swept_into(out, GRID | {"rounds": [50, 60, 100]}) == 8
    assert swept_into(out, GRID | {"rounds": [50], "budget": 0.5}) == 8
    assert swept_into(out, GRID) == 0
    assert read_table(out, "results").drop("seconds").equals(read_table(swept, "results").drop("seconds"))


def test_processes_do_the_work_and_their_answers_come_in_the_order_of_the_tasks():
    """The small form of the next one: what processes load none of our packages for takes a fifth of it."""
    answers = list(work(divmod, [(number, 2) for number in range(4)], Workers(jobs=2), ordered=True))
    assert answers == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert os.getpid() not in work(os.getpid, [()] * 2, Workers(jobs=2))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_processes_change_nothing_and_a_change_of_format_leaves_one_table(swept, tmp_path, jobs):
    assert swept_into(tmp_path, GRID, Workers(jobs=jobs), "csv") == 16
    first = read_table(tmp_path, "results")
    assert first.drop("seconds").equals(read_table(swept, "results").drop("seconds"))
    Store(make_plan(GRID), tmp_path).write_tables("parquet")
    assert [path.suffix for path in tmp_path.glob("results.*")] == [".parquet"]
    assert read_table(tmp_path, "results").equals(first)


def test_neighbours_in_playing_order_need_different_loops():
    forecasters, adversaries = ["paper", "balanced", "nested", "adaptive"], ["coin", "markov", "threshold"]
    plan = make_plan({"forecasters": forecasters, "adversaries": adversaries, "rounds": [10, 5]})
    order = in_playing_order(plan)
    assert set(order) == set(plan.games)
    assert [game.rounds for game in order] == [5] * 12 + [10] * 12
    assert [{game.forecaster for game in order[i : i + 4]} for i in range(0, 24, 4)] == [{*forecasters}] * 6
    together = [order[i : i + 3] for i in range(0, 24, 4)]
    assert [{game.adversary for game in some} for some in together] == [{*adversaries}] * 6


def test_summary_finds_the_worst_game_and_broken_bounds_are_told_with_theirs(swept):
    table = read_table(swept, "results")
    for row in summarise(table).to_dicts():
        mine = table.filter(forecaster=row["forecaster"])
        ratios = mine["distance_upper"] / mine["rounds"].sqrt()
        worst = mine.row(ratios.arg_max(), named=True)
        assert row["worst_over_root"] == pytest.approx(ratios.max())
        assert row["worst_over_root_against"] == f"{worst['adversary']}, T = {worst['rounds']}"
        assert row["worst_over_guarantee"] == (mine["distance_upper"] / mine["guarantee"]).max()
        assert row["games"] == 8
    lines = broken_bounds(table.with_columns(certificate=pl.lit(1e9)))
    assert len(lines) == 16
    assert "balanced against coin, T = 50, seed 1" in lines[0]


LENGTHS = np.array([300, 1000, 3000, 10_000])


def fitted(errors, seeds, rounds=LENGTHS):
    """The rate of every seed's games, from a function of T and seed."""
    T, seed = (grid.ravel() for grid in np.meshgrid(rounds, seeds))
    return fit(T, seed, [errors(t, s) for t, s in zip(T, seed, strict=True)])


def test_a_power_law_is_found_exactly_and_what_stays_below_half_a_round_does_not_grow():
    for errors, exponent in (
        (lambda T, seed: 3.0 * seed * T**0.4, 0.4),
        (lambda T, seed: LEAST_ERROR * T / 10_001, 0.0),
        (lambda T, seed: 0.0, 0.0),
    ):
        assert fitted(errors, [1, 2, 3]) == (pytest.approx(exponent), pytest.approx(0.0, abs=1e-12))


def test_of_the_error_over_seeds_and_that_of_the_residuals_the_larger_counts():
    slopes = {1: 0.30, 2: 0.50, 3: 0.55}
    exponent, error = fitted(lambda T, seed: 2.0 * T ** slopes[seed], list(slopes))
    assert exponent == pytest.approx(0.45)
    assert error == pytest.approx(np.std(list(slopes.values()), ddof=1) / math.sqrt(3))
    wiggle = dict(zip(LENGTHS, [1.0, 1.3, 0.9, 1.1], strict=True))
    line = linregress(np.log(LENGTHS), [math.log(2 * T**0.5 * wiggle[T]) for T in LENGTHS])
    for seeds in ([1], [1, 2, 3]):
        found = fitted(lambda T, seed: 2.0 * T**0.5 * wiggle[T], seeds)
        assert found == (pytest.approx(line.slope), pytest.approx(line.stderr))


def test_one_seed_and_two_rounds_have_no_error_and_one_round_has_no_rate():
    assert fit([100, 10_000], [1, 1], [10.0, 1000.0]) == (pytest.approx(1.0), None)
    assert fit([100, 100], [1, 2], [10.0, 11.0]) is None
    assert fit([100, 1000], [1, 2], [10.0, 11.0]) is None
    # a seed that has not finished counts with what it has
    assert fit([100, 900, 100], [1, 1, 2], [10.0, 30.0, 10.0]).exponent == pytest.approx(0.5)


def test_the_table_has_a_row_per_pair_and_measure():
    T, seed = (grid.ravel() for grid in np.meshgrid(LENGTHS, [1, 2]))
    errors, pair = 2 * T**0.5 + seed, {"forecaster": "paper", "adversary": "coin"}
    games = {
        **pair,
        "rounds": T,
        "seed": seed,
        "distance_upper": errors,
        "ece": 0.5 * T,
        "regret": errors - 1e3,
    }
    results = pl.DataFrame(games).with_columns(certificate=None)
    table = rates_table(results)
    assert table["measure"].to_list() == ["distance", "ece", "regret"]
    distance, ece, regret = table.to_dicts()
    # below zero the constant forecast does worse: nothing grows
    assert (regret["exponent"], regret["nominal"]) == (0.0, 0.5)
    assert (ece["exponent"], ece["constant"]) == pytest.approx((1.0, 0.5 * 10_000 ** (1 / 3)))
    assert distance["constant"] == pytest.approx((2 * math.sqrt(300) + 2) / math.sqrt(300))
    assert (distance["n_seeds"], distance["n_rounds"], distance["most_rounds"]) == (2, 4, 10_000)
    single = rates_table(results.filter(pl.col("rounds") == 300))
    assert (single.height, single.columns) == (0, table.columns)
