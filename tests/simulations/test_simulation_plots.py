"""Pictures: each comes with the numbers that were drawn, and those are the results'."""

from itertools import pairwise

import polars as pl
import pytest

import adversaries
from simulations import players
from simulations.config import check_config
from simulations.measuring import measure_recorded, play_and_measure
from simulations.plots import SWEEP_FIGURES, draw_sweep, figure_module
from simulations.plots.games import write_games
from simulations.plots.style import looks, spread
from simulations.results import Store
from simulations.sweep import cells_of, run_sweep

PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("drawn")
    config = check_config(
        {
            "forecasters": ["sign", "balanced"],
            "adversaries": ["coin", "threshold", "markov"],
            "rounds": [20, 200],
            "seeds": [1, 2],
        }
    )
    run_sweep(config, out)
    Store(out).write_tables(cells_of(config))
    return out


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_every_figure_is_written_beside_its_numbers(swept, name):
    path = draw_sweep(swept, name)
    assert path.read_bytes().startswith(PNG)
    assert path.stat().st_size > 20_000
    assert b"</svg>" in path.with_suffix(".svg").read_bytes()
    drawn = pl.read_csv(path.with_suffix(".csv"))
    prepared = figure_module(name).prepare(Store(swept).read_table(SWEEP_FIGURES[name]))
    assert drawn.equals(prepared)
    assert not list(swept.glob(".*part"))


def test_distance_shows_the_worst_seed_and_its_bound(swept):
    results = Store(swept).read_table("results")
    for row in figure_module("distance").prepare(results).to_dicts():
        games = results.filter(
            pl.col("forecaster") == row["forecaster"],
            pl.col("adversary") == row["adversary"],
            pl.col("rounds") == row["rounds"],
        )
        assert games.height == 2
        assert row["upper"] == games["distance_upper"].max()
        assert row["lower"] == games["distance_lower"].min()
        assert row["bound"] == players.create(row["forecaster"]).bound(row["rounds"])


def test_trajectories_show_the_longest_games_of_the_first_seed(swept):
    table = figure_module("trajectories").prepare(Store(swept).read_table("trajectories"))
    assert table["round"].max() == 200
    assert table.group_by("forecaster", "adversary").len()["len"].n_unique() == 1
    assert (table["certificate"] <= table["guarantee"]).all()


def test_a_sweep_of_one_game_can_be_drawn(tmp_path):
    config = check_config({"forecasters": ["balanced"], "adversaries": ["constant"], "rounds": [1]})
    run_sweep(config, tmp_path)
    Store(tmp_path).write_tables(cells_of(config))
    for name in SWEEP_FIGURES:
        assert draw_sweep(tmp_path, name).read_bytes().startswith(PNG)


def test_pictures_of_single_games(tmp_path):
    adversary = adversaries.create("coin:bias=0.7", 2000, 1)
    game = play_and_measure(players.create("balanced"), adversary, 2000)
    raw = measure_recorded(game.forecasts, game.outcomes, "raw", "coin")
    written = write_games([raw, game], tmp_path)
    names = ["results.csv", "reliability.png", "transport.png", "filmstrip.png", "trajectories.png"]
    assert [path.name for path in written] == names
    reliability = pl.read_csv(tmp_path / "reliability.csv").filter(pl.col("forecaster") == "balanced")
    assert reliability["rounds"].sum() == 2000
    ones = (reliability["frequency"] * reliability["rounds"]).sum()
    assert ones == pytest.approx(game.outcomes.sum())
    moves = pl.read_csv(tmp_path / "transport.csv").filter(pl.col("forecaster") == "balanced")
    assert moves["rounds"].sum() == 2000
    assert moves["moved"].sum() == pytest.approx(game.measured.distance_upper)


def test_same_numbers_give_the_same_picture(swept, tmp_path):
    first = draw_sweep(swept, "regret").with_suffix(".svg").read_bytes()
    assert draw_sweep(swept, "regret").with_suffix(".svg").read_bytes() == first


def test_unknown_figures_are_refused_with_those_there_are(swept):
    with pytest.raises(ValueError, match="unknown figure 'pie'; known: distance, ece"):
        draw_sweep(swept, "pie")
    with pytest.raises(ValueError, match="shows a single game"):
        draw_sweep(swept, "transport")


def test_names_are_moved_apart_but_stay_in_order():
    heights = spread([0.5, 0.5, 0.51, 0.0, 1.0], 0.05)
    ordered = sorted(heights)
    assert all(b - a >= 0.05 - 1e-12 for a, b in pairwise(ordered))
    assert heights[3] == ordered[0]
    assert heights[4] == ordered[-1]


def test_eighteen_names_look_different():
    styles = looks([str(i) for i in range(18)]).values()
    assert len({(one.colour, one.marker) for one in styles}) == 18
