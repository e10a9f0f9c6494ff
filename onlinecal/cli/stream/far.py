"""How far long work on a ledger is: a bar on a terminal, in a log a line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onlinecal.cli.output import notices, progress
from onlinecal.cli.stream.progress import BETWEEN_LINES


@contextmanager
def telling(what: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with how many events are done, and of how many."""
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
