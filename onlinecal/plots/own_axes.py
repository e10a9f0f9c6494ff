"""What the public functions share: axes where none are given, words beside the user's, checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from onlinecal.plots.style import GRID, INK, OKABE_ITO, QUIET
from onlinecal.validation import check_count, check_vector

OURS = "onlinecal-"
"""What the names of kinds of pictures begin with; the artist of a history carries its kind as its gid."""


def axes_or_new(axes: Axes | None, size: tuple[float, float] = (5.0, 5.0)) -> Axes:
    """The axes given, or those of a new figure in the house style, which pyplot and notebooks show."""
    if axes is not None:
        return axes
    # here only: pyplot chooses a backend when it is first imported
    from matplotlib import pyplot

    _, answer = pyplot.subplots(figsize=size, layout="constrained")
    answer.spines[["top", "right"]].set_visible(False)
    answer.spines[["left", "bottom"]].set_color(QUIET)
    answer.grid(True, color=GRID, linewidth=0.7)
    answer.set_axisbelow(True)
    answer.tick_params(color=QUIET, labelcolor=INK)
    return answer


def describe(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes; what somebody has written there already stays."""
    axes.set_xlabel(axes.get_xlabel() or x)
    axes.set_ylabel(axes.get_ylabel() or y)
    if title and not any(axes.get_title(place) for place in ("left", "center", "right")):
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK)


def next_colour(axes: Axes) -> str:
    """The first colour of the palette for the first history on the axes, then the others."""
    drawn = sum(str(artist.get_gid()).startswith(OURS) for artist in axes.get_children())
    return OKABE_ITO[drawn % len(OKABE_ITO)]


def draw_line(
    axes: Axes,
    table: pl.DataFrame,
    column: str,
    kind: str,
    color: str,
    *,
    dashes: Any = "-",
    width: float = 1.8,
    label: str | None = None,
) -> None:
    """Draw a column of a history against the column round, as this kind of picture."""
    (line,) = axes.plot(
        table["round"], table[column], color=color, ls=dashes, lw=width, label=label, zorder=3
    )
    line.set_gid(kind)


def is_first(axes: Axes, kind: str) -> bool:
    """Whether no history has been drawn on the axes as this kind of picture."""
    return all(artist.get_gid() != kind for artist in axes.get_children())


def name_histories(axes: Axes, label: str | None) -> None:
    """A legend, if the history that was drawn last has a name."""
    if label is not None:
        axes.legend(frameon=False, fontsize=9)


def moments_of(rounds: int | ArrayLike, n_rounds: int) -> NDArray[np.int64]:
    """After how many of n_rounds something is measured: so many moments, evenly spread, or those given."""
    if isinstance(rounds, (int, np.integer)):
        number = min(check_count(rounds, "rounds"), n_rounds)
        return np.unique(np.linspace(0, n_rounds, number + 1)[1:].round().astype(np.int64))
    return check_moments(rounds, n_rounds)


def check_moments(rounds: ArrayLike, most: int | None = None) -> NDArray[np.int64]:
    """After how many rounds something was measured: whole numbers from 1 to `most` that do not decrease."""
    moments = check_vector(rounds, "rounds")
    if moments.dtype.kind in "iu":
        whole = moments.astype(np.int64)
        if whole[0] >= 1 and (np.diff(whole) >= 0).all() and (most is None or whole[-1] <= most):
            return whole
    raise ValueError(f"rounds must be whole numbers from 1 to {most or 'T'} in order, got {rounds!r}")
