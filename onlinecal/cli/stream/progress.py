"""How far work is, on stderr: one line every while."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onlinecal.cli.output import notices, progress
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import Forecast, Rejected, Settled, Withdrawn
from onlinecal.engine.ledger.report import read_report
from onlinecal.tables import number

WORDS = {Forecast: "forecast", Settled: "settled", Withdrawn: "withdrawn", Rejected: "rejected"}
"""What the summary calls each type of answer."""

BETWEEN_LINES = 10.0
"""Seconds between two lines."""


class Progress:
    """Counts answers, and tells from time to time."""

    def __init__(self, engine: Engine, quiet: bool) -> None:
        self._engine, self._quiet = engine, quiet
        self._console = notices()
        self._answers: Counter[type] = Counter()
        self._began = self._told = time.monotonic()
        self._events_told = 0

    def count(self, answers: Counter[type]) -> None:
        """Take note of a batch's answers, so many of each type; tell where things are, if it is time to."""
        self._answers.update(answers)
        now, events = time.monotonic(), self._answers.total()
        seconds = now - self._told
        if self._quiet or seconds < BETWEEN_LINES or events == self._events_told:
            return
        keys, open_ = self._engine.in_memory()
        line = (
            f"events: {events:,}, {(events - self._events_told) / seconds:,.0f}/s, "
            f"{self._answers[Rejected]:,} rejected, {keys:,} keys hot, {open_:,} forecasts open"
        )
        self._console.print(line, soft_wrap=True)
        self._told, self._events_told = now, events

    def summarise(self, ledger: Path, notes: Iterable[str]) -> None:
        """The last line: what was answered, how fast, and what is proven of all keys together."""
        if self._quiet:
            return
        seconds = time.monotonic() - self._began
        answers, events = self._answers, self._answers.total()
        kinds = ", ".join(f"{answers[kind]:,} {word}" for kind, word in WORDS.items() if answers[kind])
        speed = f"events: {events:,} in {seconds:,.1f} s, {events / seconds:,.0f}/s"
        total = read_report(ledger).total
        proven = f"{total.open:,} open, certificate {number(total.certificate)}"
        parts = filter(None, [speed, kinds, *notes, f"all keys: {total.rounds:,} rounds, {proven}"])
        self._console.print("; ".join(parts), soft_wrap=True)


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
