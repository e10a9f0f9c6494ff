"""The pictures: each one is prepared as a table, drawn from that table, and written next to it.

A figure is a module with two functions, `prepare(...)` -> table of the numbers to be drawn, and
`draw(table)` -> matplotlib figure, which looks at nothing but that table.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from simulations.results import Store

SWEEP_FIGURES = {
    "distance": "results",
    "ece": "results",
    "regret": "results",
    "trajectories": "trajectories",
}
"""Figures that show a sweep, and the table that each is prepared from."""

GAME_FIGURES = ("reliability", "transport")
"""Figures that show single games in full."""


def figure_module(name: str) -> ModuleType:
    """The module of a figure; ValueError lists those there are."""
    known = (*SWEEP_FIGURES, *GAME_FIGURES)
    if name not in known:
        raise ValueError(f"unknown figure {name!r}; known: {', '.join(known)}")
    return import_module(f"simulations.plots.{name}")


def draw_sweep(folder: Path, name: str) -> Path:
    """Draw one figure of a sweep's results into their folder: <name>.png, .svg and .csv; the PNG's path."""
    from simulations.plots.files import write_figure

    module = figure_module(name)
    if name not in SWEEP_FIGURES:
        raise ValueError(
            f"figure {name!r} shows a single game: onlinecal simulate ... --out DIR draws it; "
            f"of a sweep there are {', '.join(SWEEP_FIGURES)}"
        )
    table = module.prepare(Store(folder).read_table(SWEEP_FIGURES[name]))
    return write_figure(module.draw(table), table, folder / name)
