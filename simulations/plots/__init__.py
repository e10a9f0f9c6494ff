"""The pictures: each one is prepared as a table, drawn from that table, and written next to it.

A figure has two functions, `prepare(...)` -> table of the numbers to be drawn, and `draw(table)` ->
matplotlib figure, which looks at nothing but that table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
