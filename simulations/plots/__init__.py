"""The pictures: each one is prepared as a table, drawn from that table, and written next to it.

A figure has two functions, `prepare(...)` -> table of the numbers to be drawn, and `draw(table)` ->
matplotlib figure, which looks at nothing but that table. Figures of sweeps have a folder; the others stand
beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simulations.sweeps.results import Store

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from onlinecal.plots.style import Look


class Drawing(NamedTuple):
    """A figure: what prepares the table of its numbers, and what draws that table alone."""

    prepare: Callable[..., pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]

    def write(self, stem: Path, *given: Any, **chosen: Any) -> Path:
        """Prepare the table, draw it and write both, see `write_figure`; the path of the PNG."""
        from onlinecal.plots.style import write_figure

        table = self.prepare(*given, **chosen)
        return write_figure(self.draw(table), table, stem)


def look_of(colour: str, dashes: Any = "-", marker: str = "") -> Look:
    """The look of a line in this colour."""
    from onlinecal.plots.style import Look, darker

    return Look(colour, darker(colour), dashes, marker)


SWEEP_FIGURES = {
    "distance": "results",
    "ece": "results",
    "regret": "results",
    "trajectories": "trajectories",
    "landscape": "results",
    "matrix": "results",
}
"""Figures that show a sweep, and the table that each is prepared from."""

GROWTH_FIGURES = ("landscape", "matrix")
"""Those of them that need more than one T."""


def figure_of(name: str) -> Drawing:
    """What prepares and draws a figure of a sweep; ValueError lists those there are."""
    if name not in SWEEP_FIGURES:
        raise ValueError(f"unknown figure {name!r}; known: {', '.join(SWEEP_FIGURES)}")
    from simulations.plots.sweeps import against_rounds, landscape

    return (against_rounds.FIGURES | landscape.FIGURES)[name]


def sweep_figures(folder: Path) -> list[str]:
    """The figures that the results in a folder can show."""
    grows = Store(folder).read_table("results")["rounds"].n_unique() > 1
    return [name for name in SWEEP_FIGURES if grows or name not in GROWTH_FIGURES]


def draw_sweep(folder: Path, name: str, measure: str | None = None, adversary: str | None = None) -> Path:
    """Draw one figure of a sweep's results into their folder: <name>.png, .svg and .csv; the PNG's path.

    The measure is for `landscape` and `matrix`, the adversary for `landscape`; both become part of the name.
    """
    figure, chosen = figure_of(name), {}
    if measure is not None and name in GROWTH_FIGURES:
        chosen["measure"] = measure
    if adversary is not None and name == "landscape":
        chosen["adversary"] = adversary
    table = Store(folder).read_table(SWEEP_FIGURES[name])
    stem = "-".join([name, *(re.sub(r"[^\w.=-]+", "-", text) for text in chosen.values())])
    return figure.write(folder / stem, table, **chosen)
