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

    from onlinecal.plots.style import Rendered


class PreparedPicture(NamedTuple):
    """A picture: the function that prepares the table of its numbers, and the one that draws this table."""

    prepare: Callable[..., pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]

    def render(self, *numbers: Any, **options: Any) -> Rendered:
        """Prepare the table and draw it."""
        from onlinecal.plots.style import rendered

        table = self.prepare(*numbers, **options)
        return rendered(self.draw(table), table)

    def write(self, stem: Path, *numbers: Any, **options: Any) -> Path:
        """Prepare the table, draw it and write both, as `Rendered.write` does; the path of the PNG."""
        return self.render(*numbers, **options).write(stem)
