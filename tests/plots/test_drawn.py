"""What is drawn: lines, points and words of figures, compared with the tables that they are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onlinecal import plots
from onlinecal.plots.decisions import draw_methods
from onlinecal.plots.recalibrations import (
    draw_boosting,
    draw_gaps,
    draw_lp_rounds,
    draw_patches,
    draw_scoreboard,
)
from onlinecal.plots.reliability_diagram import named, plan_costs, reliability_panels, transport_panels
from onlinecal.simulations.plots.sweeps import draw_trajectories

RNG = np.random.default_rng(5)
P = RNG.random(900)
Y = (RNG.random(900) < 0.9 * P).astype(int)
NAMES = ("balanced:slack=1,report=hint", "recorded")


def points(axis: Axes) -> list[tuple[float, float]]:
    """The dots of all scatters."""
    return [tuple(dot) for artist in axis.collections for dot in np.asarray(artist.get_offsets()).tolist()]


def lines(axis: Axes) -> list[list[tuple[float, float]]]:
    return [list(zip(*map(np.ravel, line.get_data()), strict=True)) for line in axis.lines]


def words(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


def inside(figure: Figure) -> Figure:
    """The figure: no title, of it or of a panel, is cut at an edge or runs into another one."""
    FigureCanvasAgg(figure).draw()
    titles = [axis.title if axis.title.get_text() else axis._left_title for axis in figure.axes]
    shown = [one.get_window_extent() for one in [*figure.texts, *titles] if one.get_text()]
    for place, box in enumerate(shown):
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert not any(box.overlaps(other) for other in shown[:place])
    return figure


def side_by_side(data: Any) -> pl.DataFrame:
    tables = [data(p, Y, ax=Figure().subplots()).table for p in (P, P**2)]
    return pl.concat([named(table, name, "nba") for table, name in zip(tables, NAMES, strict=True)])


def panels_of(figure: Figure) -> dict[str, Axes]:
    return {axis.get_title(loc="left"): axis for axis in figure.axes if axis.get_title(loc="left")}


def test_every_group_of_forecasts_is_a_dot_and_no_word_lies_under_one():
    table = side_by_side(plots.reliability)
    figure = inside(reliability_panels(table))
    assert [*panels_of(figure)] == [*NAMES]
    for name, axis in panels_of(figure).items():
        mine = table.filter(pl.col("forecaster") == name)
        dots = list(zip(mine["forecast"], mine["frequency"], strict=True))
        assert set(dots) <= set(points(axis))
        assert dots_under_the_word(axis, dots) == []


def test_the_word_makes_way_for_the_dots_of_a_second_history():
    middle = np.linspace(0.1, 0.9, 9)
    p, several = np.repeat(middle, 100), np.tile(np.arange(100), 9)
    axis = None
    for frequency in (middle - 0.08, np.where(middle > 0.5, middle + 0.03, middle - 0.08)):
        axis = plots.reliability(p, several < 100 * np.repeat(frequency, 100), ax=axis).ax
    axis.figure.canvas.draw()
    assert dots_under_the_word(axis, points(axis)) == []


def dots_under_the_word(axis, dots):
    (word,) = [text for text in axis.texts if text.get_text() == "calibrated"]
    box = word.get_window_extent()
    angle = np.deg2rad(45)
    along = np.array([np.cos(angle), np.sin(angle)])
    start, under = axis.transData.transform(word.get_position()), []
    for dot in axis.transData.transform(dots):
        beyond, aside = (dot - start) @ along, (dot - start) @ np.array([-along[1], along[0]])
        if 0 < beyond < box.width / np.cos(angle) and -2 < aside < 8:
            under.append(dot)
    return under


def test_every_move_is_a_dot_and_what_it_costs_is_said_apart_from_the_title():
    table = side_by_side(plots.transport)
    figure = inside(transport_panels(table))
    for name, axis in panels_of(figure).items():
        mine = table.filter(pl.col("forecaster") == name)
        assert points(axis) == list(zip(mine["forecast"], mine["value"], strict=True))
        assert plan_costs(mine) in words(axis)
        # bars of what goes down, then of what goes up, on them
        heights = np.array([bar.get_height() for bar in axis.patches]).reshape(2, -1)
        twentieth = (mine["forecast"].to_numpy() * 20).astype(int)
        for bars, goes_up in zip(heights, (False, True), strict=True):
            which = (mine["value"] > mine["forecast"]).to_numpy() == goes_up
            moved = np.bincount(twentieth[which], mine["moved"].to_numpy()[which], 20)
            assert bars * mine["moved"].sum() == pytest.approx(moved * heights.sum())


def test_every_certificate_and_guarantee_is_a_line_under_a_whole_title():
    rounds = np.unique(np.geomspace(1, 9000, 60).astype(int))
    names = {"adaptive:slack=1,report=hint": np.sqrt(rounds), NAMES[0]: np.sqrt(2 * rounds)}
    course = {"adversary": "file:path=nba,outcome=home_won", "round": rounds}
    table = pl.concat(
        pl.DataFrame({"forecaster": name, **course, "certificate": 0.5 * values, "guarantee": values})
        for name, values in names.items()
    )
    figure = inside(draw_trajectories(table))
    for axis, values in zip(figure.axes, names.values(), strict=True):
        for column in (0.5 * values, values):
            assert [(float(t), v) for t, v in zip(rounds, column, strict=True)] in lines(axis)
        assert {"guarantee", "file:path=nba,outcome=home_won"} <= set(words(axis))


def test_a_method_far_out_is_a_number_at_the_edge_and_the_others_are_dots_with_intervals():
    names = ("none", "platt", "beta", "isotonic", "groups", "boost", "vector")
    difference = [0.4 if name == "beta" else -0.01 for name in names]
    table = pl.concat(
        pl.DataFrame({"method": names, "measure": measure, "difference": difference}).with_columns(
            value=0.2,
            difference_low=pl.col("difference") - 0.002,
            difference_high=pl.col("difference") + 0.002,
            best=pl.lit(None, pl.String),
            title=pl.lit("x.csv"),
            below=pl.lit("y"),
            chosen=pl.lit("platt"),
        )
        for measure in ("Brier", "log loss", "ECE", "accuracy")
    )
    figure = inside(draw_scoreboard(table))
    for axis in figure.axes:
        (number,) = (text for text in axis.texts if text.get_text() in ("+0.4 ▸", "◂ +0.4"))
        is_left = number.get_window_extent().x0 < (axis.bbox.x0 + axis.bbox.x1) / 2
        assert is_left == (axis.get_title(loc="left") == "accuracy")
        heights = [float(height) for height in range(len(names) - 1) if height != 4]
        assert set(points(axis)) - {(0.0, 0.0)} == {(-0.01, height) for height in heights}
        ends = [np.sort(path.vertices[:, 0]) for path in axis.collections[0].get_paths()]
        assert np.array(ends) == pytest.approx(np.tile([-0.012, -0.008], (5, 1)))


ROUNDS = np.arange(7)
FALLING = 0.4 / (1.0 + ROUNDS)


def rounds_of(round_=ROUNDS, **columns):
    """A table of fitted and of tested rows, whose errors are twice as large."""
    parts = enumerate(("fit", "test"))
    return pl.concat(
        pl.DataFrame({"part": part, "round": round_, **{k: v * (1 + at) for k, v in columns.items()}})
        for at, part in parts
    )


def drawn_lines(table, column, x="round"):
    """Of the rows of each part the line that a column should be."""
    for _, mine in table.group_by("part"):
        yield list(zip(mine[x].cast(float), mine[column], strict=True))


def test_errors_of_patches_are_lines_beside_chance_and_alpha():
    errors = {"worst": FALLING, "chance": FALLING / 3, "squared_error": FALLING}
    table = rounds_of(**errors).with_columns(patches=pl.col("round"), alpha=pl.lit(0.01))
    worst, squared = inside(draw_patches(table)).axes
    for axis, names in ((worst, ("worst", "chance", "alpha")), (squared, ("squared_error",))):
        for name in names:
            assert all(line in lines(axis) for line in drawn_lines(table, name, "patches"))


@pytest.mark.parametrize(
    "draw, names, columns",
    [
        (draw_boosting, ("squared_error",), {"squared_error": FALLING}),
        (draw_gaps, ("mean", "worst"), {"mean": FALLING, "worst": 3 * FALLING, "n_losses": 9}),
        (
            draw_lp_rounds,
            ("error", "squared_error"),
            {"error": FALLING, "squared_error": 2 * FALLING, "p": np.inf},
        ),
    ],
)
def test_errors_of_rounds_are_lines_whose_ends_are_named(draw, names, columns):
    table = rounds_of(**columns)
    for axis, name in zip(inside(draw(table)).axes, names, strict=True):
        assert all(line in lines(axis) for line in drawn_lines(table, name))
        ends = zip(("fitted", "tested"), (6, -1), strict=True)
        assert words(axis) == [f"{part} rows {table[name][at]:.4f}" for part, at in ends]


def test_intervals_of_groups_lie_beside_their_dots_before_above_after():
    axis = Figure().subplots()
    drawn = plots.group_mean_biases(P, Y, np.ones((900, 1), bool), ax=axis, after=P**2)
    (row,) = drawn.table.to_dicts()
    wide = [path.vertices.tolist() for one in axis.collections[2:] for path in one.get_paths()]
    for side, height in (("before", 0.14), ("after", -0.14)):
        assert (row[side], height) in points(axis)
        assert [[row[f"low_{side}"], height], [row[f"high_{side}"], height]] in wide


def test_losses_are_dots_as_far_above_the_line_as_they_cost_more():
    table = pl.DataFrame({"method": "none", "predicted": P, "true": P**2 + 0.1, "each": "loss"})
    (axis,) = draw_methods(table).axes
    assert np.array(points(axis)) == pytest.approx(np.column_stack([P, P**2 + 0.1 - P]))
