"""The output of verbs: results go to stdout, as tables for people or JSON for machines; all else to
stderr.

With --json what users' programs read is one JSON document on stdout (`answer`), so nothing else may be
written there then; tables, titles and progress may change freely. `WatchedWork` is the one state: how much of
a piece of work was shown as done. Whoever prints a name from outside does so by these functions, which spell
out control characters.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

PIPE_WIDTH = 200
"""The width of tables if stdout is no terminal, which is enough for all of them."""
BETWEEN_LINES = 10.0
"""Seconds between two lines about events."""


def printable(text: str, keep: str = "") -> str:
    """A text for a terminal, in which control characters and other invisible ones are spelt out.

    Names come from whoever sends events, and a terminal would obey commands in them. Characters in `keep`
    stay.
    """
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode()
        for sign in text
    )


def results() -> Console:
    """The console for results: stdout, plain text when it is not a terminal."""
    return _console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def notices() -> Console:
    """The console for progress and remarks: stderr."""
    return _console(stderr=True)


def _console(**settings: Any) -> Console:
    """A console that prints texts without control characters in them."""
    from rich.console import Console

    class HarmlessConsole(Console):
        def print(self, *objects: Any, **settings: Any) -> None:
            shown = [printable(part, keep="\n") if isinstance(part, str) else part for part in objects]
            super().print(*shown, **settings)

    return HarmlessConsole(highlight=False, **settings)


def print_json(answer: Any) -> None:
    """One JSON document on stdout, in ASCII, so that no terminal obeys a name in it.

    Numbers that JSON has no word for (NaN, infinities) become null.
    """
    import msgspec

    plain = msgspec.json.decode(msgspec.json.encode(answer))
    print(json.dumps(plain, indent=2).replace("\x7f", "\\u007f"))


def answer(as_json: bool, record: Any, shown: Iterable[Any]) -> None:
    """Print a verb's answer: one JSON document for machines, or tables and lines of text for people."""
    if as_json:
        print_json(record)
        return
    console = results()
    for part in shown:
        is_text = isinstance(part, str)
        # names of files may look like markup
        console.print(part, markup=not is_text, soft_wrap=is_text)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table in the house style: the first `left` columns are names, the others numbers.

    Titles and cells are shown as they are, square brackets included; control characters are spelt out.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    shown = None if title is None else escape(printable(title, keep="\n"))
    answer = Table(title=shown, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        answer.add_column(escape(name), justify="left" if place < left else "right", no_wrap=place == 0)
    for row in rows:
        answer.add_row(*(escape(printable(cell)) for cell in row))
    return answer


def progress() -> Progress:
    """A progress bar on stderr, in units that the caller counts; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = notices()
    shown = console.is_terminal
    # the bar stays there, whatever is written to stderr meanwhile, and wherever that goes
    console.file = sys.stderr
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        # older versions of rich end a bar that is not shown with an empty line
        console=console if shown else Console(quiet=True),
        transient=True,
        disable=not shown,
    )


class WatchedWork:
    """Long work whose progress is shown on stderr.

    On a terminal there is a bar. Elsewhere the `line` with both numbers is written at every tenth of the
    work, or after so many `seconds`; nothing is written if the line is empty.
    """

    def __init__(self, bar: Progress, what: str, total: int | None, line: str, seconds: float | None) -> None:
        self._bar, self._task = bar, bar.add_task(what, total=total)
        self._line, self._seconds = line, seconds
        self._console, self._tenth, self._told = notices(), -1, time.monotonic()

    def __call__(self, done: int, every: int) -> None:
        """Show that `done` of `every` parts are done."""
        self._bar.update(self._task, completed=done, total=every)
        before, self._tenth = self._tenth, max(self._tenth, 10 * done // max(every, 1))
        now = time.monotonic()
        is_due = self._tenth > before if self._seconds is None else now - self._told >= self._seconds
        if self._line and is_due and not self._console.is_terminal:
            self._console.print(self._line.format(done, every), soft_wrap=True)
            self._told = now

    def name(self, what: str) -> None:
        """Change the text of the bar."""
        self._bar.update(self._task, description=what)


@contextmanager
def watched(
    what: str, total: int | None = None, line: str = "", seconds: float | None = None
) -> Iterator[WatchedWork]:
    """A context for long work, with a bar that says what it is; see `WatchedWork`."""
    with progress() as bar:
        yield WatchedWork(bar, what, total, line, seconds)
