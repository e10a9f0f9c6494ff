"""The pictures: each one is prepared as a table, drawn from that table, and written next to it.

A figure has two functions, `prepare(...)` -> table of the numbers to be drawn, and `draw(table)` ->
matplotlib figure, which looks at nothing but that table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simulations.games import players
from simulations.sweeps.results import loaded_files, read_table

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


class Drawing(NamedTuple):
    """A figure: what prepares the table of its numbers, and what draws that table alone."""

    prepare: Callable[..., pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]

    def write(self, stem: Path, *given: Any, **chosen: Any) -> Path:
        """Prepare the table, draw it and write both, see `write_figure`; the path of the PNG."""
        from onlinecal.plots.style import write_figure

        table = self.prepare(*given, **chosen)
        return write_figure(self.draw(table), table, stem)


SWEEP_FIGURES = ("distance", "ece", "regret", "trajectories", "landscape", "matrix")
"""Figures that show a sweep. All but trajectories are prepared from its table of results."""

GROWTH_FIGURES = ("landscape", "matrix")
"""Those of them that need more than one T."""


def figure_of(name: str) -> Drawing:
    """What prepares and draws a figure of a sweep; ValueError lists those there are."""
    if name not in SWEEP_FIGURES:
        raise ValueError(f"unknown figure {name!r}; known: {', '.join(SWEEP_FIGURES)}")
    from simulations.plots.sweeps import FIGURES

    return FIGURES[name]


class SweepPictures(NamedTuple):
    """The results in a sweep's folder, where the pictures go, and which of `SWEEP_FIGURES` are wanted.

    `measure` and `adversary` are what `landscape` and `matrix` show, and against whom `landscape` does; both
    become part of the name. None: the distance, and against everyone.
    """

    folder: Path
    results: pl.DataFrame
    names: Sequence[str]
    measure: str | None = None
    adversary: str | None = None

    @classmethod
    def read(
        cls,
        folder: Path,
        names: Sequence[str] = (),
        measure: str | None = None,
        adversary: str | None = None,
        load: Sequence[Path] = (),
    ) -> SweepPictures:
        """Read the results in a folder, and load the files of one's own that were played, and those given.

        Without names all figures that these results can show are wanted.

        Raises
        ------
        FileNotFoundError
            If there are no results, or a file to be loaded is missing.
        ValueError
            For unknown figures, and a measure or an adversary that none of them heeds.
        """
        for name in names:
            figure_of(name)
        results = read_table(folder, "results")
        players.load_all([*loaded_files(folder), *load])
        grows = results["rounds"].n_unique() > 1
        usual = [name for name in SWEEP_FIGURES if grows or name not in GROWTH_FIGURES]
        wanted = list(dict.fromkeys(names or usual))
        if measure is not None and not set(wanted) & set(GROWTH_FIGURES):
            raise ValueError("--measure is for the figures landscape and matrix")
        if adversary is not None and "landscape" not in wanted:
            raise ValueError("--adversary is for the figure landscape")
        return cls(folder, results, wanted, measure, adversary)

    def draw(self, name: str) -> Path:
        """Draw one of them into the folder: the PNG's path; ValueError if it cannot show what is wanted."""
        heeded = {"landscape": ("measure", "adversary"), "matrix": ("measure",)}.get(name, ())
        chosen = {one: getattr(self, one) for one in heeded if getattr(self, one) is not None}
        table = read_table(self.folder, name) if name == "trajectories" else self.results
        stem = "-".join([name, *(re.sub(r"[^\w.=-]+", "-", text) for text in chosen.values())])
        return figure_of(name).write(self.folder / stem, table, **chosen)
