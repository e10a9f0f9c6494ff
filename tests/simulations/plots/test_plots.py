"""Pictures: each comes with the numbers that were drawn, and those are the results'."""

import re
from itertools import product

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from onlinecal import adversaries
from onlinecal.plots.over_rounds import MOMENTS, MOST_BIAS_VALUES
from onlinecal.plots.style import looks, moments_of, spread
from onlinecal.simulations.games import players
from onlinecal.simulations.games.measuring import measure_recorded, play_and_measure
from onlinecal.simulations.plots import sweeps
from onlinecal.simulations.plots.games import draw_film, film_frames, prepare_film
from onlinecal.simulations.plots.sweeps import (
    GROWTH_FIGURES,
    SWEEP_FIGURES,
    SweepPictures,
    bound_curve,
    figure_of,
)
from onlinecal.simulations.sweeps.plan import make_plan
from onlinecal.simulations.sweeps.playing import play_games
from onlinecal.simulations.sweeps.results import FITTED_MEASURES, Store, rates_table, read_table, summarise

PNG = b"\x89PNG\r\n"


def drawn(out, grid, form="parquet"):
    store = Store(make_plan(grid), out)
    play_games(store)
    store.write_tables(form)
    return out


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    against = ["coin", "threshold", "markov"]
    grid = {
        "forecasters": ["paper", "balanced"],
        "adversaries": against,
        "rounds": [20, 200],
        "seeds": [1, 2],
    }
    return drawn(tmp_path_factory.mktemp("drawn"), grid)


def numbers(folder, name, *chosen):
    """The table that a figure is drawn from."""
    return figure_of(name).prepare(read_table(folder, name if name == "trajectories" else "results"), *chosen)


def written(pictures, name):
    """The path of a figure that has been drawn and written."""
    return pictures.render(name).write(pictures.stem(name))


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_every_figure_is_written_beside_its_numbers(swept, name, few_dots):
    pictures = SweepPictures.read(swept)
    assert pictures.names == [*SWEEP_FIGURES]
    path = written(pictures, name)
    assert path.read_bytes().startswith(PNG)
    svg = path.with_suffix(".svg").read_bytes()
    assert b"</svg>" in svg
    assert pl.read_csv(path.with_suffix(".csv")).equals(numbers(swept, name))
    assert not list(swept.glob(".*part"))
    if name not in ("overview", "matrix"):
        return
    # the same numbers give the same picture, of lines and of colours
    assert pictures.render(name).svg == svg


def test_distance_and_regret_show_the_median_of_the_seeds_their_range_and_the_bound(swept):
    keys = ["forecaster", "adversary", "rounds"]
    for name, column, times, least in (("distance", "distance_upper", 1, 0), ("regret", "regret", 2, 0.5)):
        error = pl.col(column)
        games = read_table(swept, "results").group_by(keys).agg(
            error.median().alias("middle"), error.min().alias("least"), error.max().alias("most")
        )  # fmt: skip
        table = numbers(swept, name).join(games, on=keys)
        assert table.height == 12
        for row in table.to_dicts():
            assert row["seeds"] == 2
            assert row["bound"] == times * players.create(row["forecaster"]).bound(row["rounds"])
            assert row["most"] <= row["bound"]
            shown = [max(row[end], least) for end in ("middle", "least", "most")]
            assert [row["line"], row["low"], row["high"]] == shown


def test_one_seed_has_its_bracket_for_a_band_and_without_a_bound_there_is_no_guarantee():
    results = pl.DataFrame(
        {"forecaster": "paper", "adversary": "coin", "rounds": [10, 100], "bound": [5.0, None],
         "distance_lower": [1.0, 2.0], "distance_upper": [1.5, 4.0], "regret": [-3.0, 4.0]}
    )  # fmt: skip
    table = figure_of("distance").prepare(results)
    rows = [(1.5, 1.0, 1.5, 5.0), (4.0, 2.0, 4.0, None)]
    assert table.select("line", "low", "high", "bound").rows() == rows
    assert bound_curve("foster") == ()
    table = figure_of("regret").prepare(results.with_columns(forecaster=pl.lit("foster"), bound=None))
    assert table["bound"].to_list() == [None, None]
    assert "a distance that is proven" in figure_of("regret").draw(table).texts[0].get_text()


def test_landscape_shows_medians_beside_the_fitted_exponents(swept):
    results = read_table(swept, "results").filter(adversary="threshold")
    for measure, column in FITTED_MEASURES.items():
        table = numbers(swept, "landscape", measure, "threshold")
        assert table.height == 4
        both = table.join(rates_table(results).filter(measure=measure), on="forecaster", suffix="_fitted")
        for name in ("exponent", "standard_error"):
            assert both[name].equals(both[f"{name}_fitted"], check_names=False)
        middle = results.group_by("forecaster", "rounds").agg(pl.col(column).median().clip(0.5))
        both = table.join(middle, on=["forecaster", "rounds"])
        assert both["line"].to_list() == both[column].to_list()


def test_measure_and_adversary_become_part_of_the_name(swept, quick_pictures):
    pictures = SweepPictures.read(swept, ["landscape", "matrix", "landscape"], "ece", "coin")
    assert pictures.names == ["landscape", "matrix"]
    names = [written(pictures, name).name for name in pictures.names]
    assert names == ["landscape-ece-coin.png", "matrix-ece.png"]
    for given, words in (
        (([], None, "coins"), "no adversary 'coins' in these results; there are coin, threshold"),
        (([], "loss"), "unknown measure 'loss'; known: distance, ece, certificate"),
        ((["matrix"], None, "coin"), "--adversary needs --figure landscape, got matrix"),
        ((["pie"],), "unknown figure 'pie'; known: overview, distance, ece"),
    ):
        with pytest.raises(ValueError, match=words):
            SweepPictures.read(swept, *given).render("landscape")


def test_the_matrix_has_the_exponents_in_the_order_of_the_sweep():
    keys = product(("two-choices", "paper"), ("threshold", "coin", "bias-builder"), (10, 100))
    results = pl.DataFrame([*keys], schema=["forecaster", "adversary", "rounds"], orient="row")
    root = pl.col("rounds").sqrt()
    results = results.with_columns(seed=1, distance_upper=root, ece=root, certificate=None, regret=root)
    table = figure_of("matrix").prepare(results)
    assert table["exponent"].to_numpy() == pytest.approx(0.5)
    axis = figure_of("matrix").draw(table).axes[0]
    assert [text.get_text() for text in axis.get_yticklabels()] == ["two-choices", "paper"]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["threshold", "coin", "bias-builder"]
    assert [text.get_text() for text in axis.texts] == ["0.50"] * 6
    # the colours of exponents are anchored at those of theory
    for at, (anchor, colour) in zip((0.0, 1 / 3, 1 / 2, 2 / 3, 1.0), sweeps.EXPONENT_ANCHORS, strict=True):
        assert (at, sweeps.EXPONENT_COLOURS(at)[:3]) == (anchor, pytest.approx(to_rgb(colour), abs=0.01))


def test_a_bound_that_is_not_proven_is_not_claimed(tmp_path):
    grid = {"forecasters": ["paper", "constant"], "adversaries": ["coin", "threshold"], "rounds": [20, 200]}
    table, figure = numbers(drawn(tmp_path, grid), "distance"), figure_of("distance")
    proven, unproven = (table.filter(forecaster=name) for name in grid["forecasters"])
    assert unproven["bound"].null_count() == unproven.height == 4
    for shown, is_said in ((table, True), (proven, False)):
        assert ("where one is proven" in figure.draw(shown).texts[0].get_text()) == is_said


def test_a_sweep_of_one_game_of_which_nothing_is_proven_can_be_drawn(tmp_path, quick_pictures):
    grid = {"forecasters": ["constant"], "adversaries": ["constant"], "rounds": [1]}
    pictures = SweepPictures.read(drawn(tmp_path, grid, "csv"))
    assert set(SWEEP_FIGURES) - set(pictures.names) == set(GROWTH_FIGURES)
    for name in pictures.names:
        assert written(pictures, name).read_bytes().startswith(PNG)
    for name in GROWTH_FIGURES:
        with pytest.raises(ValueError, match="these games all have the same number of rounds, 1"):
            written(pictures, name)
    assert summarise(pictures.results)["worst_over_guarantee"].to_list() == [None]


LONG_NAMES = {
    "coin": "two-phase:first=[sinusoidal-drift:period=100,amplitude=0.3,centre=0.6],second=markov,switch=300",
    "markov": "file:path=" + "a_folder_with_a_long_name/" * 9 + "games.csv,outcome=won",
}


@pytest.mark.parametrize("name", SWEEP_FIGURES)
def test_long_names_of_adversaries_are_broken_into_lines_and_nothing_is_cut(swept, name):
    table = numbers(swept, name)
    if name == "overview":
        table = table.with_columns(against=pl.lit(LONG_NAMES["markov"]))
    else:
        table = table.with_columns(pl.col("adversary").replace(LONG_NAMES))
    figure = figure_of(name).draw(table)
    figure.draw_without_rendering()
    named = [text for text in figure.findobj(Text) if re.search("two-phase:|file:", text.get_text())]
    assert len({text.get_text() for text in named}) == 2
    for text in named:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
        assert text.get_fontsize() >= 8.0
        others = (axis for axis in figure.axes if axis is not text.axes)
        assert not any(box.overlaps(axis.bbox) for axis in others)


def test_names_are_moved_apart_but_stay_in_order_and_eighteen_look_different():
    heights = spread([0.5, 0.5, 0.51, 0.0, 1.0], 0.05)
    assert (min(heights), max(heights)) == pytest.approx((0.025, 0.975))
    assert np.diff(sorted(heights)).min() >= 0.05 - 1e-12
    assert (heights[3], heights[4]) == (min(heights), max(heights))
    styles = looks([str(i) for i in range(18)]).values()
    assert len({(one.colour, one.marker) for one in styles}) == 18


def test_the_figure_has_a_film_per_forecaster_and_many_values_are_grouped():
    one, game = (
        play_and_measure(players.create(spec), adversaries.create("epochs", 600, seed=3), 600, rtol=0.2)
        for spec in ("paper", "running-mean")
    )
    table = prepare_film([one, game])
    film = table.filter(forecaster="running-mean", round=600)
    assert film["grouped"].all()
    assert film.height <= MOST_BIAS_VALUES
    assert film["bias"].sum() == pytest.approx((game.duel.charged - game.outcomes).sum(), abs=1e-4)
    figure = draw_film(table)
    # a heat map, its scale and six frames
    assert len(figure.axes) == 2 * 8
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    told = ["paper", f"running-mean (values grouped into {MOST_BIAS_VALUES} parts)"]
    assert [title for title in titles if title] == told


def test_short_games_and_recorded_forecasts_can_be_drawn():
    one = play_and_measure(players.create("balanced"), adversaries.create("constant", 1), 1)
    raw = measure_recorded(np.array([0.2, 0.9, 0.9]), np.array([1, 1, 0], np.uint8), "raw", "stream")
    for game in (one, raw):
        draw_film(prepare_film([game]))
    biases = prepare_film([raw]).filter(round=3).sort("value")["bias"]
    assert biases.to_list() == pytest.approx([-0.8, 0.8])
    for rounds in (1, 2, 7, 5000):
        moments = moments_of(MOMENTS, rounds)
        frames = film_frames(pl.DataFrame({"round": moments}))
        assert (moments[-1], len(moments), frames[-1]) == (rounds, min(MOMENTS, rounds), rounds)
        assert len(frames) <= 6
