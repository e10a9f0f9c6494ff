"""Where output goes: results to stdout, as a table for people or JSON for machines; all else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

PIPE_WIDTH = 200
"""Columns of a table that no terminal shows: wide enough that nothing is folded."""


def results() -> Console:
    """The console for results: stdout, plain text when it is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def notices() -> Console:
    """The console for progress and remarks: stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_json(answer: Any) -> None:
    """One JSON document on stdout; numbers that JSON has no word for (NaN, infinities) become null."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(answer), indent=2)
    print(text.decode())


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table in the house style: the first `left` columns are names, the others numbers."""
    from rich import box
    from rich.table import Table

    answer = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        answer.add_column(name, justify="left" if place < left else "right", no_wrap=place == 0)
    for row in rows:
        answer.add_row(*row)
    return answer


def progress() -> Progress:
    """A progress bar on stderr, in units that the caller counts; nothing where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = notices()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def milestones(name: str) -> Callable[[int, int], None]:
    """For long work in a log: called with (done, all), it writes a line on stderr at every tenth.

    On a terminal, where there is a progress bar, it writes nothing.
    """
    console = notices()
    last = -1

    def tell(done: int, every: int) -> None:
        nonlocal last
        tenth = 10 * done // max(every, 1)
        if tenth > last and not console.is_terminal:
            console.print(f"{name}: {done} of {every}")
        last = max(last, tenth)

    return tell


def number(value: float | None) -> str:
    """A number for a table: thousands separated, about five digits."""
    if value is None:
        return "–"
    if value != value:
        return "?"
    size = abs(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= 100 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"
