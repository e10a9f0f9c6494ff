"""What a forecaster could prove of itself as the rounds went on, beside what it had promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from onlinecal.plots.columns import highest
from onlinecal.plots.own_axes import (
    axes_or_new,
    check_moments,
    describe,
    draw_line,
    name_histories,
    next_colour,
)
from onlinecal.plots.style import HALO, INK
from onlinecal.validation import check_same_length, check_vector

KIND = "onlinecal-certificate"


def certificate(
    certificates: ArrayLike,
    guarantees: ArrayLike | None = None,
    ax: Axes | None = None,
    *,
    rounds: ArrayLike | None = None,
    normalize: bool = False,
    color: str | None = None,
    label: str | None = None,
) -> Axes:
    """Draw running certificates, proven bounds on the distance to calibration, against the round.

    Sums are drawn on logarithmic axes, averages on those there are; so `normalize=True` goes onto the axes of
    `running_distance`. The guarantee is black.

    Parameters
    ----------
    certificates
        The certificate after each round, a sum over the rounds so far, shape (n,): a sequence, an array, or a
        column of pandas or polars.
    guarantees
        What it could not exceed, shape (n,), or one number for all rounds; None: no line.
    ax
        The axes to draw on; None: those of a new figure.
    rounds
        After how many rounds each certificate was read, shape (n,), in order; None: 1, ..., n.
    normalize
        Draw averages over the rounds so far.
    color
        Any colour of matplotlib; None: the next of the palette.
    label
        The forecaster's name in the legend; None: no legend.

    Returns
    -------
    Axes
        Those drawn on.

    Raises
    ------
    ValueError
        Numbers that are missing or negative, rounds that do not increase or lengths that differ, by name and
        value, before anything is drawn.

    """
    table = certificate_data(certificates, guarantees, rounds=rounds, normalize=normalize)
    new = ax is None
    ax = axes_or_new(ax, (6.4, 4.0))
    draw_certificate(ax, table, color or next_colour(ax), label=label)
    if not normalize:
        ax.set(xscale="log", yscale="log")
        ax.minorticks_off()
    elif new:
        settled = table.filter(pl.col("round") * 6 >= pl.col("round").max())
        ax.set(xlim=(0, table["round"][-1]), ylim=(0, 1.1 * max(highest(*settled.drop("round")), 0.01)))
    if guarantees is not None:
        draw_guarantee(ax, table)
        x, y = _middle(ax, table)
        ax.annotate(
            "guarantee", (x, y), (0, 4), textcoords="offset points", ha="right", va="bottom", fontsize=9,
            fontweight="bold", color=INK, path_effects=HALO, zorder=6,
        )  # fmt: skip
    unit = "certificate / t" if normalize else "certificate (sum over rounds so far)"
    describe(ax, "round t", unit, "Proven: at most so far from calibrated")
    name_histories(ax, label)
    return ax


def certificate_data(
    certificates: ArrayLike,
    guarantees: ArrayLike | None = None,
    *,
    rounds: ArrayLike | None = None,
    normalize: bool = False,
) -> pl.DataFrame:
    """The numbers of the picture: columns round, certificate and, if there are any, guarantee.

    Sums over the rounds so far, or averages. Arguments and errors as in `certificate`.
    """
    proven = _sums(certificates, "certificates")
    moments = check_moments(np.arange(1, len(proven) + 1) if rounds is None else rounds)
    check_same_length(proven, moments, "certificates and rounds")
    per = moments if normalize else 1
    columns = {"round": moments, "certificate": proven / per}
    if guarantees is not None:
        bound = guarantees if np.ndim(guarantees) else np.full(len(proven), guarantees)
        promised = _sums(bound, "guarantees")
        check_same_length(proven, promised, "certificates and guarantees")
        columns["guarantee"] = promised / per
    return pl.DataFrame(columns)


def draw_certificate(axis: Axes, table: pl.DataFrame, color: str, **look: Any) -> None:
    """Draw the columns round and certificate as a line; its look as of `draw_line`."""
    draw_line(axis, table, "certificate", KIND, color, **look)


def draw_guarantee(axis: Axes, table: pl.DataFrame, *, width: float = 2) -> None:
    """Draw the columns round and guarantee as the black line."""
    axis.plot(table["round"], table["guarantee"], color=INK, lw=width, zorder=4)


def _sums(values: ArrayLike, name: str) -> NDArray[np.float64]:
    array = check_vector(values, name)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be numbers, got values like {array.tolist()[0]!r}")
    array = array.astype(np.float64)
    bad = ~((array >= 0.0) & np.isfinite(array))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name} must be finite and not negative, got {float(array[row])!r} at row {row}")
    return array


def _middle(axis: Axes, table: pl.DataFrame) -> tuple[float, float]:
    """A point of the guarantee that can be seen and has room around it."""
    seen = table.filter(pl.col("guarantee").is_between(*axis.get_ylim()))
    shown = seen if seen.height else table
    at = int(0.9 * (shown.height - 1))
    return shown["round"][at], shown["guarantee"][at]
