"""The loop of the verb `stream`: take what is there, answer it durably, write the answers.

How far work is, is told on stderr: one line every while.

A batch is taken (`inputs.gather`), answered (`answer`), counted, and written (`write`), before the next one
is taken. How far each input was answered is committed with the batch, and before its answers are written. So
a kill in between leaves answers that were never written, and they are not answered again with --resume. The
state of a run is the ledger, and a `Progress`, which only counts. `run` is for a process of its own: it takes
over signals, and sets thresholds of the garbage collector, which it does not put back.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from onlinecal.cli.output import BETWEEN_LINES, notices
from onlinecal.cli.stream.configuring import wanted_config
from onlinecal.cli.stream.inputs import (
    Gathered,
    Stop,
    check_inputs,
    gather,
    key_of,
    read_files,
    read_stream,
)
from onlinecal.cli.verbs import EXIT_DONE, EXIT_INTERRUPTED, EXIT_UNREAD, unread
from onlinecal.compiling import counting
from onlinecal.engine.engine import Engine
from onlinecal.engine.events import WORDS, Rejected, decode_all, encode_lines
from onlinecal.engine.ledger.report import read_report
from onlinecal.texts import number

GARBAGE = 100_000, 20, 100
"""Thresholds of the garbage collector. A batch makes some 10^5 objects and next to no cycles; looking for
them at every 700, as is usual, took a third of all time with 10,000 keys in memory."""


def run(
    ledger: Path,
    inputs: Iterable[Path],
    config: Path | None,
    *,
    park: int | None,
    resume: bool,
    most: int,
    hot_keys: int,
    quiet: bool,
) -> int:
    """Answer the inputs, or standard input if there are none, on standard output; the exit code.

    Ends with the inputs, when nobody reads the answers any more, or by a signal. Raises OSError for an input
    that cannot be read, when what comes before it was answered.
    """
    paths = list(inputs)
    settings = wanted_config(ledger, config, park)
    check_inputs(paths)
    gc.set_threshold(*GARBAGE)
    with Stop() as stop:
        with counting() as compiled, Engine(ledger, settings, hot_keys=hot_keys) as engine:
            watch, is_read = Progress(engine, quiet), True
            if paths:
                noted = (lambda path: engine.noted(key_of(path))) if resume else None
                pieces = read_files(paths, noted, stop)
            else:
                pieces = read_stream(sys.stdin.fileno(), stop)
            for gathered in gather(pieces, most):
                answers, kinds = answer(engine, gathered)
                watch.count(kinds)
                is_read = write(answers)
                if not is_read or stop:
                    break
        unread_note = "" if is_read else "nobody reads the answers any more"
        watch.summarise(ledger, [compiled.notice or "", unread_note])
    if not is_read:
        return EXIT_UNREAD
    return EXIT_INTERRUPTED if stop.signal == signal.SIGINT else EXIT_DONE


def answer(engine: Engine, gathered: Gathered) -> tuple[bytes, Counter[type]]:
    """The answers to a batch, a line each, and how many there are of each type."""
    inputs = [(key_of(path), *place) for path, place in gathered.noted.items()]
    answers = engine.handle(decode_all(gathered.lines), inputs=inputs)
    return encode_lines(answers), Counter(map(type, answers))


def write(data: bytes) -> bool:
    """Write on standard output; whether anybody reads it. OSError if it cannot be written."""
    rest = memoryview(data)
    try:
        while rest:
            # where Python keeps no buffer, a signal may end a write in the middle
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        unread()
        return False
    except OSError as error:
        unread()
        raise OSError(
            f"the answers cannot be written: {error.strerror}. Their events are in the ledger: make room, "
            "and give the same input again, without --resume"
        ) from error
    return True


class Progress:
    """Counts answers, and tells from time to time; `more` says what else there is to tell."""

    def __init__(self, engine: Engine, quiet: bool, more: Callable[[], str] = str) -> None:
        self._engine, self._quiet, self._more = engine, quiet, more
        self._console = notices()
        self._answers: Counter[type] = Counter()
        self._began = self._last_line = time.monotonic()
        self._events_then = 0
        """How many events there were at the last line."""

    def count(self, answers: Counter[type]) -> None:
        """Take note of a batch's answers, so many of each type; tell where things are, if it is time to."""
        self._answers.update(answers)
        now, events = time.monotonic(), self._answers.total()
        seconds = now - self._last_line
        if self._quiet or seconds < BETWEEN_LINES or events == self._events_then:
            return
        keys, open_ = self._engine.in_memory()
        line = (
            f"events: {events:,}, {(events - self._events_then) / seconds:,.0f}/s, "
            f"{self._answers[Rejected]:,} rejected, {keys:,} keys hot, {open_:,} forecasts open{self._more()}"
        )
        self._console.print(line, soft_wrap=True)
        self._last_line, self._events_then = now, events

    def summarise(self, ledger: Path, notes: Iterable[str]) -> None:
        """The last line: what was answered, how fast, and what is proven of all keys together."""
        if self._quiet:
            return
        seconds = time.monotonic() - self._began
        answers, events = self._answers, self._answers.total()
        kinds = ", ".join(f"{answers[kind]:,} {word}" for kind, word in WORDS.items() if answers[kind])
        speed = f"events: {events:,} in {seconds:,.1f} s, {events / seconds:,.0f}/s"
        report = read_report(ledger)
        total, waiting, dropped = report.total, report.parking.waiting, report.parking.n_dropped
        if waiting or dropped:
            kinds += f"; parked outcomes: {waiting:,} waiting, {dropped:,} dropped"
        proven = f"{total.open:,} open, certificate {number(total.certificate)} (a sum over rounds)"
        parts = filter(None, [speed, kinds, *notes, f"all keys: {total.rounds:,} rounds, {proven}"])
        self._console.print("; ".join(parts), soft_wrap=True)
