"""The pictures of simulations: each one is drawn from a table, and written next to that table.

A picture has two functions. `prepare(...)` makes the table of the numbers to be drawn. `draw(table)` makes
the figure of matplotlib: all measured numbers are in the table. Pictures of sweeps take the bounds of
forecasters, which are curves, and their descriptions from the catalogue of players.

Nothing has a state. Names and order of columns are those of the CSV beside a picture; looks may change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


class PreparedPicture(NamedTuple):
    """A picture: the function that prepares the table of its numbers, and the one that draws this table."""

    prepare: Callable[..., pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]

    def write(self, stem: Path, *numbers: Any, **options: Any) -> Path:
        """Prepare the table, draw it and write both, as `write_figure` does; returns the path of the PNG."""
        from onlinecal.plots.style import write_figure

        table = self.prepare(*numbers, **options)
        return write_figure(self.draw(table), table, stem)
