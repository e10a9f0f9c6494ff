"""Lines of tables and numbers of pictures agree with their definitions, and broken bounds are named."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from itertools import product

import msgspec
import numpy as np
import polars as pl
import pytest

from onlinecal import adversaries, calibration_distance, expected_calibration_error
from onlinecal.measures.distance.levels import is_perfectly_calibrated
from onlinecal.simulations.games import players
from onlinecal.simulations.games.duel import play
from onlinecal.simulations.games.measuring import brier_scores, measure_recorded, play_and_measure
from onlinecal.simulations.games.players import create_player
from onlinecal.simulations.plots import multiclass as pictures


@pytest.fixture(scope="module")
def game():
    return play_and_measure(players.create("balanced"), adversaries.create("coin:bias=0.8", 300, seed=2), 300)


def test_figures_agree_with_their_definitions_and_every_bound_held(game):
    one, p, y = game.measured, game.forecasts, game.outcomes
    assert one.ece == expected_calibration_error(p, y, normalize=False)
    exact = calibration_distance(p, y, method="exact").exact
    assert one.distance_lower - 1e-9 <= exact <= one.distance_upper + 1e-9
    assert one.brier == pytest.approx(((p - y) ** 2).sum())
    assert one.brier_constant == pytest.approx(((y.mean() - y) ** 2).sum())
    assert one.regret == one.brier - one.brier_constant
    assert (one.rounds, one.ones, one.seed, one.broken_bounds()) == (300, y.sum(), 2, [])
    assert one.distance_upper <= one.certificate <= one.guarantee <= one.bound
    assert is_perfectly_calibrated(game.witness, y)
    assert np.abs(game.witness - p).sum() == pytest.approx(one.distance_upper)
    recorded = measure_recorded(np.array([0.9, 0.9]), np.array([0, 1], np.uint8), "model", "stream").measured
    assert (recorded.certificate, recorded.broken_bounds()) == (None, [])
    assert recorded.distance_upper == pytest.approx(0.8)


def test_broken_bounds_are_named(game):
    names = {"brier": "Brier regret", "distance_upper": "distance to calibration"}
    for field in ("brier", "distance_upper", "certificate", "guarantee"):
        (broken,) = msgspec.structs.replace(game.measured, **{field: 1e6}).broken_bounds()
        assert broken.startswith(names.get(field, field))


@pytest.mark.parametrize("spec", ["balanced:window=100", "adaptive:slack=1,report=hint,window=100"])
def test_a_window_is_of_the_last_rounds_of_the_game(spec):
    """As for a forecaster that learns the same rounds one by one, also where some were learnt before."""
    hints, player = np.random.default_rng(1).random(300), players.create(spec)
    game = play_and_measure(player, adversaries.create("threshold", 300), 300, hints=hints)
    plain, one = player.build(300, hinted=True), game.measured
    for hint, outcome in zip(hints, game.outcomes, strict=True):
        plain.observe(plain.forecast(hint=hint), int(outcome))
    kept = one.window, one.window_certificate, one.window_guarantee
    assert kept == (100, plain.window_certificate, plain.window_guarantee)
    last = calibration_distance(game.forecasts[-100:], game.outcomes[-100:], method="exact").exact
    assert last <= one.window_certificate < one.certificate
    assert one.broken_bounds() == []
    assert (one.window_guarantee is None) == spec.startswith("adaptive")
    if one.window_guarantee is not None:
        (broken,) = msgspec.structs.replace(one, window_certificate=one.window_guarantee + 1).broken_bounds()
        assert broken.startswith("window certificate")
    twin = deepcopy(plain)
    twin.replay(play(plain, adversaries.create("coin:bias=0.9"), 200).outcomes)
    assert plain.n_rounds == 500
    assert plain.window_certificate == twin.window_certificate != one.window_certificate


@cache
def played(player="simplex", spec="dirichlet-drift", k=3, T=600):
    adversary = adversaries.create_multiclass(spec, k, T)
    return play_and_measure(create_player(player), adversary, T, budget=0.2)


def slow_biases(points, outcomes):
    """Of every point the sum over its rounds of the point less the outcome, whose number may be beyond it."""
    answer = {}
    for point, outcome in zip(points.tolist(), outcomes.tolist(), strict=True):
        alpha = answer.setdefault(tuple(point), np.zeros(len(point)))
        alpha += point
        alpha[outcome : outcome + 1] -= 1
    return np.array([*answer.values()])


@pytest.mark.parametrize("spec", ["simplex:window=100", "simplex:window=100,cells=9,slack=1,report=hint"])
def test_a_window_of_several_classes_is_of_the_last_rounds_too(spec):
    """As for a forecaster that learns the same rounds one by one."""
    adversary, player = adversaries.create_multiclass("dirichlet-drift", 3, 400), create_player(spec)
    hints = np.random.default_rng(0).dirichlet(np.ones(3), 400) if "hint" in spec else None
    game = play_and_measure(player, adversary, 400, hints=hints, budget=0.2)
    plain, one = player.build(400, hinted=hints is not None, n_classes=3), game.measured
    for t, outcome in enumerate(game.outcomes.tolist()):
        plain.observe(*plain.announce(np.empty(0) if hints is None else hints[t]), outcome)
    assert (one.window, one.window_guarantee) == (100, plain.window_guarantee)
    assert one.window_certificate == plain.window_certificate < one.certificate == plain.certificate
    assert one.broken_bounds() == []
    (broken,) = msgspec.structs.replace(one, window_certificate=one.window_guarantee + 1).broken_bounds()
    assert broken.startswith("window certificate")


PLAYERS = ("simplex", "nested", "simplex:slack=1", "uniform", "frequencies")
FEW = [*((player, 2) for player in PLAYERS), ("simplex", 3), ("nested", 4)]
MORE = [case for case in product(PLAYERS, (2, 3, 4)) if case not in FEW]


@pytest.mark.parametrize("player, k", [*FEW, *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)])
def test_no_bound_is_broken_and_the_numbers_are_those_of_the_definitions(player, k):
    one = played(player, k=k)
    measured, forecasts, outcomes = one.measured, one.forecasts, one.outcomes
    assert measured.broken_bounds() == []
    hits = np.eye(k)[outcomes]
    assert measured.brier == pytest.approx(((forecasts - hits) ** 2).sum())
    assert measured.brier_constant == pytest.approx(((hits.mean(axis=0) - hits) ** 2).sum())
    biases = slow_biases(forecasts, outcomes)
    assert measured.ece == pytest.approx(np.abs(biases).sum())
    columns = [slow_biases(forecasts[:, [c]], np.where(outcomes == c, 0, 1)) for c in range(k)]
    assert measured.classwise_ece == pytest.approx(sum(np.abs(column).sum() for column in columns))
    biases = slow_biases(one.duel.charged, outcomes)
    assert measured.points == len(biases)
    assert measured.largest_bias == pytest.approx(np.abs(biases).max())
    if player in ("simplex", "nested"):
        way = np.abs(forecasts - one.duel.charged).sum()
        assert measured.certificate == pytest.approx(way + np.abs(biases).sum())
        assert measured.bias_limit == 1 - 1 / (2 * k - 2)
    else:
        assert measured.bias_limit is None


def test_broken_bounds_are_told():
    for change, text in (
        ({"certificate": 1e6}, "certificate 1e.06 > guarantee"),
        ({"distance_upper": 1e5, "ece": 1e6}, "distance to calibration 100000 > certificate"),
        ({"largest_bias": 0.76}, "largest bias 0.76 > its limit 0.75"),
        ({"classwise_ece": 1e7}, "classwise ECE 1e.07 > ECE"),
        ({"brier": 1e7}, "Brier regret .* > 2 x distance to calibration"),
    ):
        (broken,) = msgspec.structs.replace(played().measured, **change).broken_bounds()
        assert re.search(text, broken)


def test_recorded_probabilities_are_measured_without_promises_two_classes_on_twice_the_binary_scale():
    labels, table = np.array([0, 1, 2, 0]), np.array([[0.5, 0.25, 0.25]] * 4)
    measured = measure_recorded(table, labels, "recorded", "four labels").measured
    assert (measured.ece, measured.distance_upper) == pytest.approx((0, 0))
    assert (measured.certificate, measured.guarantee, measured.bias_limit) == (None, None, None)
    assert brier_scores(table, labels) == pytest.approx((2 * 0.375 + 2 * 0.875, 2.5))
    two = played(k=2, T=200)
    found = calibration_distance(two.forecasts[:, 1], two.outcomes)
    assert two.measured.distance_lower / 2 <= found.upper + 1e-9
    assert two.measured.distance_upper / 2 >= found.lower - 1e-9


@pytest.mark.parametrize(
    "player, grids", [("simplex", None), ("nested", {1, 2, 4, 8, 16}), ("uniform", None)]
)
def test_the_cells_of_the_triangle_hold_the_forecasts_and_have_charged_vertices(player, grids):
    table = pictures.prepare_triangle([played(player, T=2000)])
    cells, points = (table.filter(pl.col("kind") == kind) for kind in ("cell", "point"))
    assert cells["rounds"].sum() == 2000
    centres, sizes = cells.select("p0", "p1", "p2").to_numpy(), cells["size"].to_numpy()
    vertices = centres[:, None, :] + sizes[:, None, None] * (np.eye(3) - 1 / 3)
    assert vertices.min() >= -1e-9
    assert np.allclose(vertices.sum(axis=2), 1)
    found = {*np.round(1 / np.abs(sizes)).astype(int).tolist()}
    assert player == "uniform" or (found <= grids if grids else len(found) == 1)
    assert points.is_empty() == (player == "uniform")
    known = {*map(tuple, np.round(vertices.reshape(-1, 3), 6).tolist())}
    assert {*map(tuple, np.round(points.select("p0", "p1", "p2").to_numpy(), 6).tolist())} <= known
    assert (points["bias"] <= 0.75).all()


def words_of(figure):
    return {text.get_text() for axis in figure.axes for text in axis.texts}


def test_the_pictures_are_drawn_from_their_tables_and_say_what_they_show():
    games = [played(player) for player in ("simplex", "frequencies")]
    figure = pictures.draw_triangle(pictures.prepare_triangle(games))
    assert {"simplex", "frequencies", "class 0", "class 1", "class 2"} <= words_of(figure)
    assert figure.texts[0].get_text() == "600 forecasts of three classes, against dirichlet-drift"
    several = product(("simplex", "uniform"), (2, 3), (50, 99, 200))
    measured = [played(player, k=k, T=T).measured for player, k, T in several]
    figure = pictures.draw_simplex_distance(pictures.prepare_distance(measured))
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["2 classes", "3 classes"]
    assert {"guarantee", "slope of √T", "slope of $T^{2/3}$"} <= words_of(figure)
