"""Where output goes: results to stdout, as a table for people or JSON for machines; all else to stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

PIPE_WIDTH = 200
"""Columns of a table that no terminal shows: wide enough that nothing is folded."""
BETWEEN_LINES = 10.0
"""Seconds between two lines about work on a ledger."""


def printable(text: str, keep: str = "") -> str:
    """Text for a terminal: control characters, and others that nobody sees, are spelt out.

    Names come from whoever sends events; a terminal would obey the commands in them. `keep`: what stays.
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
            shown = [printable(one, keep="\n") if isinstance(one, str) else one for one in objects]
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
    """What a verb answers: one JSON document for machines, else tables and lines of text for people."""
    if as_json:
        print_json(record)
        return
    console = results()
    for one in shown:
        is_text = isinstance(one, str)
        # names of files are no markup
        console.print(one, markup=not is_text, soft_wrap=is_text)


def table(title: str | None, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """A table in the house style: the first `left` columns are names, the others numbers.

    Titles and cells are Rich's markup; control characters in them are spelt out.
    """
    from rich import box
    from rich.table import Table

    shown = None if title is None else printable(title, keep="\n")
    answer = Table(title=shown, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for place, name in enumerate(columns):
        answer.add_column(name, justify="left" if place < left else "right", no_wrap=place == 0)
    for row in rows:
        answer.add_row(*map(printable, row))
    return answer


def progress() -> Progress:
    """A progress bar on stderr, in units that the caller counts; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = notices()
    shown = console.is_terminal
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


@contextmanager
def telling(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with how many events of a ledger are done, and of how many."""
    console, told = notices(), time.monotonic()
    with progress() as bar:
        task = bar.add_task(what, total=None)

        def tell(done: int, every: int) -> None:
            nonlocal told
            bar.update(task, completed=done, total=every)
            if not console.is_terminal and time.monotonic() - told >= BETWEEN_LINES:
                console.print(f"{what}: {done:,} of {every:,} events", soft_wrap=True)
                told = time.monotonic()

        yield tell
