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
from simulations.plots import GROWTH_FIGURES, SWEEP_FIGURES, SweepPictures, figure_of
from simulations.plots.games import draw_film, film_frames, prepare_film, write_games
from simulations.plots.sweeps.against_rounds import bound_curve
from simulations.plots.sweeps.landscape import ANCHORS, COLOURS
from simulations.sweeps.plan import make_plan
from simulations.sweeps.playing import play_games
from simulations.sweeps.results import MEASURES, Store, rates_table, read_table, summarise

PNG = b"\x89PNG\r\n"


def drawn(out, grid):
    store = Store(make_plan(grid), out)
    play_games(store)
    store.write_tables()
    return out


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    grid = {
        "forecasters": ["sign", "balanced"],
        "adversaries": ["coin", "threshold", "markov"],
        "rounds": [20, 200],
        "seeds": [1, 2],
    }
    return drawn(tmp_path_factory.mktemp("drawn"), grid)


def numbers(folder, name, *chosen):
    """The table that a figure is drawn from."""
    return figure_of(name).prepare(read_table(folder, name if name == "trajectories" else "results"), *chosen)


def games_of(folder, row):
    return read_table(folder, "results").filter(
        **{key: row[key] for key in ("forecaster", "adversary", "rounds")}
    )


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_every_figure_is_written_beside_its_numbers(swept, name):
    pictures = SweepPictures.read(swept)
    assert pictures.names == [*SWEEP_FIGURES]
    path = pictures.draw(name)
    assert path.read_bytes().startswith(PNG)
    assert path.stat().st_size > 20_000
    svg = path.with_suffix(".svg").read_bytes()
    assert b"</svg>" in svg
    assert pl.read_csv(path.with_suffix(".csv")).equals(numbers(swept, name))
    assert not list(swept.glob(".*part"))
    # the same numbers give the same picture
    assert pictures.draw(name).with_suffix(".svg").read_bytes() == svg


def test_distance_and_regret_show_the_median_of_the_seeds_their_range_and_the_bound(swept):
    for name, column, times in (("distance", "distance_upper", 1), ("regret", "regret", 2)):
        table = numbers(swept, name)
        assert table["rounds"].unique().sort().to_list() == [20, 200]
        for row in table.to_dicts():
            games = games_of(swept, row)[column]
            assert len(games) == row["seeds"] == 2
            assert row["bound"] == times * players.create(row["forecaster"]).bound(row["rounds"])
            assert games.max() <= row["bound"]
            shown = row["line"], row["low"], row["high"]
            found = games.median(), games.min(), games.max()
            if name == "regret":
                assert row["regret"] == found[0]
                found = tuple(max(value, 0.5) for value in found)
            assert shown == found


def test_the_distance_of_one_seed_has_its_bracket_for_a_band(tmp_path):
    results = pl.DataFrame(
        {"forecaster": "sign", "adversary": "coin", "rounds": [10, 100], "bound": [5.0, None],
         "distance_lower": [1.0, 2.0], "distance_upper": [1.5, 4.0]}
    )  # fmt: skip
    table = figure_of("distance").prepare(results)
    assert table.select("line", "low", "high", "bound").rows() == [
        (1.5, 1.0, 1.5, 5.0),
        (4.0, 2.0, 4.0, None),
    ]


def test_landscape_shows_medians_beside_the_fitted_exponents(swept):
    rates = rates_table(read_table(swept, "results"))
    for measure, column in MEASURES.items():
        table = numbers(swept, "landscape", measure, "threshold")
        assert table.height == 4
        for row in table.to_dicts():
            fitted = rates.filter(forecaster=row["forecaster"], adversary="threshold", measure=measure)
            assert row["line"] == max(games_of(swept, row)[column].median(), 0.5)
            assert row["exponent"] == fitted["exponent"].item()
            assert row["standard_error"] == fitted["standard_error"].item()


def test_measure_and_adversary_become_part_of_the_name(swept):
    pictures = SweepPictures.read(swept, ["landscape", "matrix", "landscape"], "ece", "coin")
    assert pictures.names == ["landscape", "matrix"]
    names = [pictures.draw(name).name for name in pictures.names]
    assert names == ["landscape-ece-coin.png", "matrix-ece.png"]
    with pytest.raises(ValueError, match="no adversary 'coins' in these results; there are coin, threshold"):
        SweepPictures.read(swept, adversary="coins").draw("landscape")
    with pytest.raises(ValueError, match="unknown measure 'loss'; known: distance, ece, certificate"):
        SweepPictures.read(swept, measure="loss").draw("matrix")
    with pytest.raises(ValueError, match="--adversary is for the figure landscape"):
        SweepPictures.read(swept, ["matrix"], adversary="coin")
    with pytest.raises(ValueError, match="unknown figure 'pie'; known: distance, ece"):
        SweepPictures.read(swept, ["pie"])


def test_a_forecaster_without_a_bound_has_no_guarantee_in_the_picture_of_regret():
    pair = {"forecaster": "foster", "adversary": "coin", "rounds": [10, 100], "regret": [-3.0, 4.0]}
    table = figure_of("regret").prepare(pl.DataFrame({**pair, "bound": None}))
    assert table["bound"].to_list() == [None, None]
    assert bound_curve("foster") == ()
    assert "a distance that is proven" in figure_of("regret").draw(table).texts[0].get_text()


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
    # the colours of exponents are anchored at those of theory
    assert [at for at, _ in ANCHORS] == [0, 1 / 3, 1 / 2, 2 / 3, 1]
    for at, colour in ANCHORS:
        assert COLOURS(at)[:3] == pytest.approx(to_rgb(colour), abs=0.01)


def test_a_crowd_is_drawn_small_and_a_bound_that_is_not_proven_is_not_claimed(tmp_path):
    unproven = [f"constant:at={at}" for at in (0.1, 0.2, 0.3, 0.4)]
    grid = {
        "forecasters": ["sign", "balanced", "constant", *unproven],
        "adversaries": ["coin", "threshold"],
        "rounds": [20, 200],
    }
    out, titles = drawn(tmp_path, grid), {}
    for name in SWEEP_FIGURES:
        figure = figure_of(name).draw(numbers(out, name))
        width, height = figure.get_size_inches()
        assert 5 < width < 14
        assert height < 10
        titles[name] = figure.texts[0].get_text()
    table = numbers(out, "distance")
    unproven = table.filter(pl.col("forecaster").str.starts_with("constant"))
    assert unproven["bound"].null_count() == unproven.height == 20
    assert "where one is proven" in titles["distance"]
    proven = figure_of("distance").draw(table.filter(pl.col("forecaster") == "sign"))
    assert "where one is" not in proven.texts[0].get_text()


def test_trajectories_show_the_longest_games_of_the_first_seed(swept):
    table = numbers(swept, "trajectories")
    assert table["round"].max() == 200
    assert table.group_by("forecaster", "adversary").len()["len"].n_unique() == 1
    assert (table["certificate"] <= table["guarantee"]).all()


def test_a_sweep_of_one_game_of_which_nothing_is_proven_can_be_drawn(tmp_path):
    store = Store(
        make_plan({"forecasters": ["constant"], "adversaries": ["constant"], "rounds": [1]}), tmp_path
    )
    play_games(store)
    store.write_tables("csv")
    pictures = SweepPictures.read(tmp_path)
    assert set(SWEEP_FIGURES) - set(pictures.names) == set(GROWTH_FIGURES)
    for name in pictures.names:
        assert pictures.draw(name).read_bytes().startswith(PNG)
    for name in GROWTH_FIGURES:
        with pytest.raises(ValueError, match="these games all have the same number of rounds, 1"):
            pictures.draw(name)
    assert summarise(pictures.results)["worst_over_guarantee"].to_list() == [None]


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


def test_names_are_moved_apart_but_stay_in_order_and_eighteen_look_different():
    heights = spread([0.5, 0.5, 0.51, 0.0, 1.0], 0.05)
    ordered = sorted(heights)
    assert all(b - a >= 0.05 - 1e-12 for a, b in pairwise(ordered))
    assert (heights[3], heights[4]) == (ordered[0], ordered[-1])
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
