"""The film shows the biases that the game had, moment by moment."""

import numpy as np
import polars as pl
import pytest

import adversaries
from onlinecal.plots.over_rounds import MOMENTS, MOST_VALUES
from onlinecal.plots.style import moments_of
from simulations.games import players
from simulations.games.measuring import measure_recorded, play_and_measure
from simulations.plots.games import draw_film, film_frames, prepare_film


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


def test_coloured_parts_do_not_overlap(table):
    parts = table.select("forecaster", "value", "low", "high").unique().sort("forecaster", "value")
    for _, own in parts.group_by("forecaster"):
        low, high = own["low"].to_numpy(), own["high"].to_numpy()
        assert (low[1:] >= high[:-1] - 1e-12).all()
        assert ((low <= own["value"].to_numpy()) & (own["value"].to_numpy() <= high)).all()


def test_forecasts_lie_between_the_lowest_and_the_highest(games, table):
    film = table.filter(pl.col("forecaster") == "adaptive")
    course = film.group_by("round").agg(pl.col("lowest", "forecast", "highest").first()).sort("round")
    assert (course["lowest"] <= course["forecast"]).all()
    assert (course["forecast"] <= course["highest"]).all()
    assert course["highest"].max() == games[1].forecasts.max()
    assert course["forecast"].to_list() == games[1].forecasts[course["round"].to_numpy() - 1].tolist()


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
    assert [title for title in titles if title] == [
        "sign",
        f"adaptive{'' if not table.filter(pl.col('forecaster') == 'adaptive')['grouped'][0] else _note()}",
        f"running-mean{_note()}",
    ]


def _note():
    return f" (values grouped into {MOST_VALUES} parts)"


def test_short_games_and_recorded_forecasts_can_be_drawn():
    one = play_and_measure(players.create("balanced"), adversaries.create("constant", 1), 1)
    raw = measure_recorded(np.array([0.2, 0.9, 0.9]), np.array([1, 1, 0], np.uint8), "raw", "stream")
    for game in (one, raw):
        draw_film(prepare_film([game]))
    biases = prepare_film([raw]).filter(pl.col("round") == 3).sort("value")["bias"]
    assert biases.to_list() == pytest.approx([-0.8, 0.8])
