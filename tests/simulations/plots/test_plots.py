"""Pictures: each comes with the numbers that were drawn, and those are the results'."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb

import adversaries
from onlinecal.plots.over_rounds import MOMENTS, MOST_VALUES
from onlinecal.plots.style import looks, moments_of, spread
from simulations.games import players
from simulations.games.measuring import measure_recorded, play_and_measure
from simulations.plots import GROWTH_FIGURES, SWEEP_FIGURES, draw_sweep, figure_of, sweep_figures
from simulations.plots.games import draw_film, film_frames, prepare_film, write_games
from simulations.plots.sweeps.against_rounds import bound_curve
from simulations.plots.sweeps.landscape import ANCHORS, COLOURS
from simulations.sweeps.playing import planned_games, run_sweep
from simulations.sweeps.results import MEASURES, Store, check_config, rates_table

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
    Store(out).write_tables(planned_games(config))
    return out


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_every_figure_is_written_beside_its_numbers(swept, name):
    path = draw_sweep(swept, name)
    assert path.read_bytes().startswith(PNG)
    assert path.stat().st_size > 20_000
    assert b"</svg>" in path.with_suffix(".svg").read_bytes()
    drawn = pl.read_csv(path.with_suffix(".csv"))
    prepared = figure_of(name).prepare(Store(swept).read_table(SWEEP_FIGURES[name]))
    assert drawn.equals(prepared)
    assert not list(swept.glob(".*part"))


def test_distance_shows_the_median_of_the_seeds_their_range_and_the_bound(swept):
    results = Store(swept).read_table("results")
    for row in figure_of("distance").prepare(results).to_dicts():
        games = results.filter(**{key: row[key] for key in ("forecaster", "adversary", "rounds")})
        assert games.height == 2
        assert row["seeds"] == 2
        assert row["line"] == games["distance_upper"].median()
        assert (row["low"], row["high"]) == (games["distance_upper"].min(), games["distance_upper"].max())
        assert row["bound"] == players.create(row["forecaster"]).bound(row["rounds"])


def test_landscape_shows_medians_beside_the_fitted_exponents(swept):
    results = Store(swept).read_table("results")
    rates = rates_table(results)
    for measure, column in MEASURES.items():
        table = figure_of("landscape").prepare(results, measure, "threshold")
        assert table.height == 4
        for row in table.to_dicts():
            pair = {"forecaster": row["forecaster"], "adversary": "threshold"}
            games = results.filter(**pair, rounds=row["rounds"])
            fitted = rates.filter(**pair, measure=measure)
            assert row["line"] == max(games[column].median(), 0.5)
            assert row["exponent"] == fitted["exponent"].item()
            assert row["standard_error"] == fitted["standard_error"].item()


def test_measure_and_adversary_become_part_of_the_name(swept):
    assert draw_sweep(swept, "landscape", "ece", "coin").name == "landscape-ece-coin.png"
    assert draw_sweep(swept, "matrix", "certificate", "coin").name == "matrix-certificate.png"
    with pytest.raises(ValueError, match="no adversary 'coins' in these results; there are coin, threshold"):
        draw_sweep(swept, "landscape", adversary="coins")
    with pytest.raises(ValueError, match="unknown measure 'loss'; known: distance, ece, certificate"):
        draw_sweep(swept, "matrix", measure="loss")


def test_regret_is_drawn_against_rounds_under_twice_the_bound_on_the_distance(swept):
    results = Store(swept).read_table("results")
    table = figure_of("regret").prepare(results)
    assert table["rounds"].unique().sort().to_list() == [20, 200]
    for row in table.to_dicts():
        games = results.filter(**{key: row[key] for key in ("forecaster", "adversary", "rounds")})
        assert row["regret"] == games["regret"].median()
        assert row["line"] == max(games["regret"].median(), 0.5)
        assert row["high"] == max(games["regret"].max(), 0.5)
        assert row["bound"] == 2 * players.create(row["forecaster"]).bound(row["rounds"])
        assert games["regret"].max() <= row["bound"]
    for adversary in table["adversary"].unique():
        path = draw_sweep(swept, "landscape", "regret", adversary)
        assert path.name == f"landscape-regret-{adversary}.png"


def test_a_forecaster_without_a_bound_has_no_guarantee_in_the_picture_of_regret(tmp_path):
    module = figure_of("regret")
    results = pl.DataFrame(
        {"forecaster": ["foster"] * 2, "adversary": ["coin"] * 2, "rounds": [10, 100], "regret": [-3.0, 4.0]}
    )
    table = module.prepare(results)
    assert table["bound"].to_list() == [None, None]
    assert bound_curve("foster") == ()
    assert "a distance that is proven" in module.draw(table).texts[0].get_text()


def test_the_matrix_groups_forecasters_and_adversaries():
    keys = [
        (forecaster, adversary, T)
        for forecaster in ("two-choices", "foster", "constant", "sign", "nested")
        for adversary in ("certificate-greedy", "threshold", "coin", "bias-builder")
        for T in (10, 100)
    ]
    results = pl.DataFrame(keys, schema=["forecaster", "adversary", "rounds"], orient="row").with_columns(
        seed=1,
        distance_upper=pl.col("rounds").sqrt(),
        ece=pl.col("rounds") / 2,
        certificate=None,
        regret=pl.col("rounds").sqrt(),
    )
    table = figure_of("matrix").prepare(results)
    assert table["forecaster"].unique(maintain_order=True).to_list() == [
        "sign", "nested", "constant", "foster", "two-choices",
    ]  # fmt: skip
    assert table["adversary"][:4].to_list() == ["coin", "threshold", "bias-builder", "certificate-greedy"]
    assert table["exponent"].to_numpy() == pytest.approx(0.5)


def test_the_colours_of_exponents_are_anchored_at_those_of_theory():
    assert [at for at, _ in ANCHORS] == [0, 1 / 3, 1 / 2, 2 / 3, 1]
    for at, colour in ANCHORS:
        assert COLOURS(at)[:3] == pytest.approx(to_rgb(colour), abs=0.01)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """So many forecasters that panels are small, some of which nothing is proven of."""
    out = tmp_path_factory.mktemp("crowd")
    config = check_config(
        {
            "forecasters": [
                "sign", "balanced", "constant", "constant:at=0.4", "constant:at=0.3", "constant:at=0.2",
                "constant:at=0.1",
            ],
            "adversaries": ["coin", "threshold"],
            "rounds": [20, 200],
        }
    )  # fmt: skip
    run_sweep(config, out)
    Store(out).write_tables(planned_games(config))
    return out


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_a_crowd_is_drawn_small_whatever_is_proven_of_it(crowd, name):
    module = figure_of(name)
    figure = module.draw(module.prepare(Store(crowd).read_table(SWEEP_FIGURES[name])))
    width, height = figure.get_size_inches()
    assert 5 < width < 14
    assert height < 10


def test_a_bound_that_is_not_proven_is_not_claimed(crowd):
    module = figure_of("distance")
    results = Store(crowd).read_table("results")
    table = module.prepare(results)
    unproven = table.filter(pl.col("forecaster").str.starts_with("constant"))
    assert unproven["bound"].null_count() == unproven.height == 20
    words = [text.get_text() for text in module.draw(table).texts]
    assert "where one is proven" in words[0]
    proven = results.filter(pl.col("forecaster") == "sign")
    assert "where one is" not in module.draw(module.prepare(proven)).texts[0].get_text()


def test_trajectories_show_the_longest_games_of_the_first_seed(swept):
    table = figure_of("trajectories").prepare(Store(swept).read_table("trajectories"))
    assert table["round"].max() == 200
    assert table.group_by("forecaster", "adversary").len()["len"].n_unique() == 1
    assert (table["certificate"] <= table["guarantee"]).all()


def test_a_sweep_of_one_game_can_be_drawn(tmp_path):
    config = check_config({"forecasters": ["balanced"], "adversaries": ["constant"], "rounds": [1]})
    run_sweep(config, tmp_path)
    Store(tmp_path).write_tables(planned_games(config))
    assert set(SWEEP_FIGURES) - set(sweep_figures(tmp_path)) == set(GROWTH_FIGURES)
    for name in sweep_figures(tmp_path):
        assert draw_sweep(tmp_path, name).read_bytes().startswith(PNG)
    for name in GROWTH_FIGURES:
        with pytest.raises(ValueError, match="these games all have the same number of rounds, 1"):
            draw_sweep(tmp_path, name)


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


def test_names_are_moved_apart_but_stay_in_order():
    heights = spread([0.5, 0.5, 0.51, 0.0, 1.0], 0.05)
    ordered = sorted(heights)
    assert all(b - a >= 0.05 - 1e-12 for a, b in pairwise(ordered))
    assert heights[3] == ordered[0]
    assert heights[4] == ordered[-1]


def test_eighteen_names_look_different():
    styles = looks([str(i) for i in range(18)]).values()
    assert len({(one.colour, one.marker) for one in styles}) == 18


@pytest.fixture(scope="module")
def games():
    specs = ["sign", "adaptive", "running-mean"]
    return [
        play_and_measure(players.create(spec), adversaries.create("epochs", 600, 3), 600, rtol=0.2)
        for spec in specs
    ]


@pytest.fixture(scope="module")
def table(games):
    return prepare_film(games)


def test_many_values_are_grouped_and_nothing_is_lost(games, table):
    game = games[2]
    film = table.filter(pl.col("forecaster") == "running-mean", pl.col("round") == 600)
    assert film["grouped"].all()
    assert film.height <= MOST_VALUES
    assert film["bias"].sum() == pytest.approx((game.duel.charged - game.outcomes).sum(), abs=1e-4)
    part = film.filter(pl.col("low") <= 0.47, pl.col("high") > 0.47).row(0, named=True)
    inside = (game.duel.charged >= part["low"]) & (game.duel.charged < part["high"])
    assert part["bias"] == pytest.approx((game.duel.charged - game.outcomes)[inside].sum(), abs=1e-6)


@pytest.mark.parametrize("rounds", [1, 2, 7, 5000])
def test_moments_are_rounds_and_end_with_the_last(rounds):
    moments = moments_of(MOMENTS, rounds)
    assert moments[0] >= 1
    assert moments[-1] == rounds
    assert len(moments) == min(MOMENTS, rounds)
    frames = film_frames(pl.DataFrame({"round": moments}))
    assert frames[-1] == rounds
    assert len(frames) <= 6


def test_the_figure_has_a_film_per_forecaster(table):
    figure = draw_film(table)
    # a heat map, its scale, the strip and six frames
    assert len(figure.axes) == 3 * 9
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    note = f" (values grouped into {MOST_VALUES} parts)"
    grouped = table.filter(pl.col("forecaster") == "adaptive")["grouped"][0]
    told = ["sign", f"adaptive{note if grouped else ''}", f"running-mean{note}"]
    assert [title for title in titles if title] == told


def test_short_games_and_recorded_forecasts_can_be_drawn():
    one = play_and_measure(players.create("balanced"), adversaries.create("constant", 1), 1)
    raw = measure_recorded(np.array([0.2, 0.9, 0.9]), np.array([1, 1, 0], np.uint8), "raw", "stream")
    for game in (one, raw):
        draw_film(prepare_film([game]))
    biases = prepare_film([raw]).filter(pl.col("round") == 3).sort("value")["bias"]
    assert biases.to_list() == pytest.approx([-0.8, 0.8])
