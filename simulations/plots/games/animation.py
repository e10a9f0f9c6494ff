"""The bias table as a film, an animated GIF: a bar per value, the cell of the present forecast lit up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from onlinecal.plots.bias_table import bias_limit
from onlinecal.plots.columns import highest
from onlinecal.plots.style import INK, in_house_style
from simulations.games.measuring import Game
from simulations.plots.games.filmstrip import draw_frame, film_of

FRAMES = 80
COLOURS = 48
"""Few colours compress well, and there are few."""
SECONDS = 8.0
"""How long the film lasts before its last frame, which stays a little."""
DOTS = 90
"""Per inch."""


def animate(games: Sequence[Game], path: Path, frames: int = FRAMES) -> Path:
    """Write the film of these games, one below the other, as a GIF of so many frames at most; its path.

    Raises
    ------
    ValueError
        If the path does not end in .gif.
    """
    if path.suffix.lower() != ".gif":
        raise ValueError(f"an animation is written as a GIF: {path} must end in .gif")
    pictures = _pictures(games, frames)
    # one palette for the whole film, else every frame brings its own
    middle = pictures[len(pictures) // 2].quantize(COLOURS, dither=Image.Dither.NONE)
    drawn = [picture.quantize(palette=middle, dither=Image.Dither.NONE) for picture in pictures]
    pace = max(20, round(1000 * SECONDS / len(drawn)))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    drawn[0].save(
        temporary,
        format="GIF",
        save_all=True,
        append_images=drawn[1:],
        duration=[pace] * (len(drawn) - 1) + [2000],
        loop=0,
        optimize=True,
    )
    os.replace(temporary, path)
    return path


@in_house_style
def _pictures(games: Sequence[Game], frames: int) -> list[Image.Image]:
    """Each frame as a picture."""
    films = [film_of(game, frames) for game in games]
    width, panel, above = 7.2, 2.0, 0.55
    height = above + len(games) * (panel + 0.45) + 0.12
    pictures = []
    for moment in sorted(set().union(*(film["round"] for film in films))):
        figure = Figure(figsize=(width, height), dpi=DOTS)
        canvas = FigureCanvasAgg(figure)
        adversary = games[0].measured.adversary
        figure.text(0.1 / width, 1 - 0.12 / height, f"Biases under attack, by {adversary}", va="top",
                    fontsize=11.5, fontweight="bold")  # fmt: skip
        figure.text(1 - 0.12 / width, 1 - 0.12 / height, f"t = {moment:,}", va="top", ha="right",
                    fontsize=11.5, color=INK, family="monospace")  # fmt: skip
        for place, (game, film) in enumerate(zip(games, films, strict=True)):
            bottom = height - above - (place + 1) * (panel + 0.45) + 0.4
            axis = figure.add_axes((0.55 / width, bottom / height, (width - 0.7) / width, panel / height))
            _draw(axis, film, int(moment), game.measured.forecaster)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3]
        pictures.append(Image.fromarray(np.ascontiguousarray(pixels)))
    return pictures


def _draw(axis: Axes, film: pl.DataFrame, moment: int, name: str) -> None:
    limit = bias_limit(film)
    frame = film.filter(pl.col("round") == min(moment, int(highest(film["round"]))))
    draw_frame(axis, frame, limit)
    error = frame["bias"].abs().sum()
    axis.set_yticks([-limit, 0, limit], [f"{-limit:+.2g}", "0", f"{limit:+.2g}"], fontsize=8)
    axis.set_xticks(np.linspace(0, 1, 6))
    axis.tick_params(labelsize=8, length=2)
    axis.text(0.0, 1.02, name, transform=axis.transAxes, va="bottom", fontsize=10, fontweight="bold")
    axis.text(
        1.0, 1.02, f"Σ|α(v)| = {error:.1f}", transform=axis.transAxes, va="bottom", ha="right", fontsize=9
    )
