"""What the public functions share: axes where none are given, words beside the user's, numbers, checks.

polars says of the ends only that they are of some type or missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from onlinecal.plots.style import GRID, INK, OKABE_ITO, QUIET
from onlinecal.validation import check_count, check_open_unit, check_vector


def lowest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The smallest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.min()) if len(numbers) else empty


def highest(*columns: pl.Series, empty: float = 0.0) -> float:
    """The largest number in all the columns, `empty` if there is none; nulls and NaN are no numbers."""
    numbers = _numbers(columns)
    return float(numbers.max()) if len(numbers) else empty


def _numbers(columns: tuple[pl.Series, ...]) -> NDArray[np.float64]:
    together = pl.concat([column.cast(pl.Float64) for column in columns])
    return together.fill_nan(None).drop_nulls().to_numpy()


def wilson_interval(
    ones: NDArray[np.int64] | NDArray[np.float64], rounds: NDArray[np.int64], confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of Wilson's score interval for each frequency ones / rounds, within [0, 1].

    Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    z = ndtri((1.0 + check_open_unit(confidence, "confidence")) / 2.0)
    frequency = ones / rounds
    centre = frequency + z**2 / (2.0 * rounds)
    reach = z * np.sqrt(frequency * (1.0 - frequency) / rounds + (z / (2.0 * rounds)) ** 2)
    whole = 1.0 + z**2 / rounds
    # rounding must not push an end beyond 0, 1 or the frequency itself
    low = np.clip((centre - reach) / whole, 0.0, frequency)
    return low, np.clip((centre + reach) / whole, frequency, 1.0)


BEFORE, AFTER = OKABE_ITO[1], OKABE_ITO[0]
"""The colours of what stood before a recalibration, and of what came out or stands alone."""

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


def draw_dumbbells(
    axes: Axes,
    names: Sequence[str],
    values: Mapping[str, NDArray[np.float64]],
    rows: Iterable[int],
    apart: float = 0.0,
) -> NDArray[np.int64]:
    """A line for each name from the top down: a dot for each of its values, or for before and after.

    Before stands so much above the line and after below it; when both are on it, they are joined. Beside the
    axes stand numbers of rows. The heights of the lines come back.
    """
    heights = np.arange(len(names))[::-1]
    if len(values) == 2 and not apart:
        begins, ends = values.values()
        axes.hlines(heights, begins, ends, color=QUIET, lw=1.6, zorder=3)
    look: Any = {"s": 58, "edgecolor": "white", "lw": 0.7}
    for place, (kind, one) in enumerate(values.items()):
        colour = BEFORE if kind == "before" else AFTER
        aside = {"before": apart, "after": -apart}.get(kind, 0.0)
        axes.scatter(one, heights + aside, color=colour, zorder=4 + place, label=kind, **look)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.set_yticks(heights, names, fontsize=8.5, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    beside: Any = {"transform": axes.get_yaxis_transform(), "fontsize": 8, "color": QUIET}
    for height, count in zip(heights, rows, strict=True):
        axes.text(1.013, height, f"{count:,}", va="center_baseline", **beside)
    axes.text(1.013, len(names) - 0.2, "rows", **beside)
    return heights


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
